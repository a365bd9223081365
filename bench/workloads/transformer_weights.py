"""The transformer's initial weights and its batch, named as in examples/decoder.py."""

import numpy as np

BATCH, LENGTH, WIDTH, HEADS, LAYERS, ALPHABET = 16, 64, 128, 4, 4, 96
LEARNING_RATE, BETAS, EPSILON, DECAY = 1e-3, (0.9, 0.999), 1e-8, 0.01


def weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)

    def normal(scale: float, *shape: int) -> np.ndarray:
        return (scale * random.standard_normal(shape)).astype(np.float32)

    arrays = {"characters.weight": normal(0.02, ALPHABET, WIDTH)}
    arrays["positions"] = normal(0.02, LENGTH, WIDTH)
    for layer in range(LAYERS):
        for name, out, inner in (
            ("query_key_value", 3 * WIDTH, WIDTH),
            ("attention_out", WIDTH, WIDTH),
            ("mlp.0", 4 * WIDTH, WIDTH),
            ("mlp.2", WIDTH, 4 * WIDTH),
        ):
            arrays[f"blocks.{layer}.{name}.weight"] = normal(inner**-0.5, out, inner)
            arrays[f"blocks.{layer}.{name}.bias"] = np.zeros(out, np.float32)
    for name in [f"blocks.{n}.{k}_norm" for n in range(LAYERS) for k in ("attention", "mlp")] + [
        "norm"
    ]:
        arrays[f"{name}.weight"] = np.ones(WIDTH, np.float32)
        arrays[f"{name}.bias"] = np.zeros(WIDTH, np.float32)
    return arrays


def batch() -> tuple[np.ndarray, np.ndarray]:
    """Character codes, and the same moved on by one."""
    codes = np.random.default_rng(2).integers(0, ALPHABET, (BATCH, LENGTH + 1))
    return codes[:, :-1].copy(), codes[:, 1:].copy()

"""The CNN: initial weights and batch, in PyTorch's layouts."""

import numpy as np

BATCH, SIDE, CLASSES, LEARNING_RATE = 64, 32, 10, 0.002


def weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    shapes = {"0": (32, 3, 3, 3), "3": (64, 32, 3, 3), "7": (128, 64 * 8 * 8), "9": (CLASSES, 128)}
    arrays = {}
    for name, shape in shapes.items():
        scale = np.sqrt(2 / np.prod(shape[1:]))
        arrays[f"{name}.weight"] = (scale * random.standard_normal(shape)).astype(np.float32)
        arrays[f"{name}.bias"] = np.zeros(shape[0], np.float32)
    return arrays


def batch() -> tuple[np.ndarray, np.ndarray]:
    """Images (NCHW) and labels that can be learnt from them."""
    random = np.random.default_rng(2)
    labels = np.arange(BATCH) % CLASSES
    centres = random.standard_normal((CLASSES, 3, SIDE, SIDE))
    noise = random.standard_normal((BATCH, 3, SIDE, SIDE))
    return (0.3 * centres[labels] + noise).astype(np.float32), labels.astype(np.int64)

"""The transformer's training step in JAX: the same maths."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from . import training_jax
from . import transformer_weights as given
from .layers_jax import attend, cross_entropy, dense, normalise


def _block(p, name, x):
    packed = dense(p, f"{name}.query_key_value", normalise(p, f"{name}.attention_norm", x))
    causal = jnp.tril(jnp.ones((x.shape[1],) * 2, bool))
    x = x + dense(p, f"{name}.attention_out", attend(packed, given.HEADS, causal))
    inner = dense(p, f"{name}.mlp.0", normalise(p, f"{name}.mlp_norm", x))
    return x + dense(p, f"{name}.mlp.2", jax.nn.gelu(inner, approximate=False))


def _loss(p, codes, targets):
    x = p["characters.weight"][codes] + p["positions"]
    for layer in range(given.LAYERS):
        x = _block(p, f"blocks.{layer}", x)
    logits = normalise(p, "norm", x) @ p["characters.weight"].T
    return cross_entropy(logits, targets).mean()


def step(layout: str) -> Callable[[], jax.Array]:
    """A function that makes one step and returns its loss; there is but one layout."""
    del layout
    batch = tuple(a.astype("int32") for a in given.batch())
    rule = training_jax.adamw(given.LEARNING_RATE, given.DECAY, given.BETAS, given.EPSILON)
    return training_jax.step(_loss, given.weights(), batch, rule)

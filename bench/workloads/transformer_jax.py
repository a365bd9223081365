"""The transformer's training step in JAX: the same maths."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from . import transformer_weights as given


def _normalise(p, name, x):
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def _dense(p, name, x):
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def _block(p, name, x):
    batch, length, width = x.shape
    packed = _dense(p, f"{name}.query_key_value", _normalise(p, f"{name}.attention_norm", x))
    packed = packed.reshape(batch, length, 3, given.HEADS, width // given.HEADS)
    query, key, value = packed.transpose(2, 0, 3, 1, 4)
    scores = query @ key.swapaxes(-1, -2) * (width // given.HEADS) ** -0.5
    causal = jnp.tril(jnp.ones((length, length), bool))
    mixed = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf)) @ value
    mixed = mixed.swapaxes(1, 2).reshape(batch, length, width)
    x = x + _dense(p, f"{name}.attention_out", mixed)
    inner = _dense(p, f"{name}.mlp.0", _normalise(p, f"{name}.mlp_norm", x))
    return x + _dense(p, f"{name}.mlp.2", jax.nn.gelu(inner, approximate=False))


def _loss(p, codes, targets):
    x = p["characters.weight"][codes] + p["positions"]
    for layer in range(given.LAYERS):
        x = _block(p, f"blocks.{layer}", x)
    logits = _normalise(p, "norm", x) @ p["characters.weight"].T
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1).mean()


@partial(jax.jit, donate_argnums=0)
def _update(state, codes, targets):
    p, first, second, count = state
    loss, gradients = jax.value_and_grad(_loss)(p, codes, targets)
    count = count + 1
    b1, b2 = given.BETAS
    first = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, first, gradients)
    second = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, second, gradients)
    scale = given.LEARNING_RATE / (1 - b1**count)
    correction = jnp.sqrt(1 - b2**count)

    def adamw(w, m, v):
        kept = w * (1 - given.LEARNING_RATE * given.DECAY)
        return kept - scale * m / (jnp.sqrt(v) / correction + given.EPSILON)

    return (jax.tree.map(adamw, p, first, second), first, second, count), loss


def step(layout: str) -> Callable[[], jax.Array]:
    """A function that makes one step and returns its loss; there is but one layout."""
    del layout
    weights = given.weights()
    zeros = {name: 0 * array for name, array in weights.items()}
    second = {name: array.copy() for name, array in zeros.items()}
    state = jax.device_put((weights, zeros, second, jnp.float32(0)))
    codes, targets = (jax.device_put(a.astype("int32")) for a in given.batch())
    jax.block_until_ready((state, codes, targets))

    def one() -> jax.Array:
        nonlocal state
        state, loss = _update(state, codes, targets)
        jax.block_until_ready(state)
        return loss

    return one

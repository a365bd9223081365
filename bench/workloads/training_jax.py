"""Training steps in JAX: one jitted function that takes and gives back all state."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

# Of weights, gradients and the optimizer's state: new weights and new state.
Rule = Callable[[dict, dict, tuple], tuple[dict, tuple]]


def adamw(learning_rate: float, decay: float, betas=(0.9, 0.999), epsilon=1e-8) -> Rule:
    b1, b2 = betas

    def rule(p, gradients, state):
        first, second, count = state
        count = count + 1
        first = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, first, gradients)
        second = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, second, gradients)
        scale = learning_rate / (1 - b1**count)
        correction = jnp.sqrt(1 - b2**count)

        def update(w, m, v):
            kept = w * (1 - learning_rate * decay)
            return kept - scale * m / (jnp.sqrt(v) / correction + epsilon)

        return jax.tree.map(update, p, first, second), (first, second, count)

    return rule


def sgd(learning_rate: float, momentum: float, decay: float) -> Rule:
    def rule(p, gradients, state):
        # The first gradient is the first momentum: with zeros before, that is the same.
        gradients = jax.tree.map(lambda g, w: g + decay * w, gradients, p)
        first = jax.tree.map(lambda m, g: momentum * m + g, state[0], gradients)
        new = jax.tree.map(lambda w, m: w - learning_rate * m, p, first)
        return new, (first, *state[1:])

    return rule


def step(loss_of: Callable, weights: dict, batch: tuple, rule: Rule, buffers: dict | None = None):
    """A function that makes one step and returns its loss. Where there are buffers, `loss_of`
    takes them after the weights and also returns new ones."""

    @partial(jax.jit, donate_argnums=0)
    def update(everything, batch):
        p, state, buffers = everything
        if buffers:
            graded = jax.value_and_grad(loss_of, has_aux=True)
            (loss, buffers), gradients = graded(p, buffers, *batch)
        else:
            loss, gradients = jax.value_and_grad(loss_of)(p, *batch)
        p, state = rule(p, gradients, state)
        return (p, state, buffers), loss

    zeros = [{name: 0 * array for name, array in weights.items()} for _ in range(2)]
    everything = jax.device_put((weights, (*zeros, jnp.float32(0)), buffers or {}))
    batch = tuple(map(jax.device_put, batch))
    jax.block_until_ready((everything, batch))

    def one() -> jax.Array:
        nonlocal everything
        everything, loss = update(everything, batch)
        jax.block_until_ready(everything)
        return loss

    return one


def from_torch(training) -> tuple[dict, dict, tuple]:
    """Weights, buffers and batch of a `Training`; integers get JAX's 32 bits."""
    arrays = training.arrays()
    names = {name for name, _ in training.network.named_parameters()}
    batch = [part.numpy() for part in training.batch]
    return (
        {name: array for name, array in arrays.items() if name in names},
        {name: array for name, array in arrays.items() if name not in names},
        tuple(part.astype("int32") if part.dtype == "int64" else part for part in batch),
    )

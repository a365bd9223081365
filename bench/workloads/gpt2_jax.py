"""GPT-2's training step in JAX: the same maths."""

import jax
import jax.numpy as jnp

from . import gpt2_torch as given
from . import training_jax
from .layers_jax import attend, cross_entropy, dense, normalise


def step(layout: str):
    """A function that makes one step and returns its loss; there is but one layout."""
    del layout
    sizes = given.Sizes()

    def loss_of(p, words, following):
        x = p["wte.weight"][words] + p["wpe.weight"][: words.shape[1]]
        causal = jnp.tril(jnp.ones((words.shape[1],) * 2, bool))
        for layer in range(sizes.layers):
            name = f"blocks.{layer}"
            packed = dense(p, f"{name}.c_attn", normalise(p, f"{name}.ln_1", x))
            x = x + dense(p, f"{name}.c_proj", attend(packed, sizes.heads, causal))
            inner = dense(p, f"{name}.mlp.0", normalise(p, f"{name}.ln_2", x))
            x = x + dense(p, f"{name}.mlp.2", jax.nn.gelu(inner, approximate=True))
        logits = normalise(p, "ln_f", x) @ p["wte.weight"].T
        return cross_entropy(logits, following).mean()

    weights, _, batch = training_jax.from_torch(given.make(sizes))
    rule = training_jax.adamw(given.LEARNING_RATE, given.DECAY)
    return training_jax.step(loss_of, weights, batch, rule)

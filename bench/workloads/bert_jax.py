"""A training step of BERT's layers in JAX: the same maths."""

import jax.numpy as jnp

from . import bert_torch as given
from . import training_jax
from .layers_jax import cross_entropy, dense, encoder_layer, normalise


def step(layout: str):
    """A function that makes one step and returns its loss; there is but one layout."""
    del layout
    sizes = given.Sizes()

    def loss_of(p, words, padding, hidden):
        x = p["words.weight"][words] + p["positions.weight"][: words.shape[1]]
        x = normalise(p, "norm", x)
        kept = ~padding[:, None, None, :]
        for layer in range(sizes.layers):
            name = f"encoder.layers.{layer}"
            x = encoder_layer(p, name, x, sizes.heads, norm_first=False, kept=kept)
        counted = hidden != given.IGNORED
        losses = cross_entropy(dense(p, "head", x), jnp.where(counted, hidden, 0))
        return jnp.where(counted, losses, 0).sum() / counted.sum()

    weights, _, batch = training_jax.from_torch(given.make(sizes))
    rule = training_jax.adamw(given.LEARNING_RATE, given.DECAY)
    return training_jax.step(loss_of, weights, batch, rule)

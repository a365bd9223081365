"""A vision transformer's training step in JAX: the same maths."""

import jax.numpy as jnp

from . import training_jax
from . import vit_torch as given
from .layers_jax import cross_entropy, dense, encoder_layer, normalise


def step(layout: str):
    """A function that makes one step and returns its loss; there is but one layout."""
    del layout
    sizes = given.Sizes()
    rows = sizes.side // sizes.patch

    def loss_of(p, images, labels):
        # A convolution whose windows do not overlap is a product of patches.
        x = images.reshape(sizes.batch, 3, rows, sizes.patch, rows, sizes.patch)
        x = x.transpose(0, 2, 4, 1, 3, 5).reshape(sizes.batch, rows * rows, -1)
        x = x @ p["patches.weight"].reshape(sizes.width, -1).T + p["patches.bias"]
        first = jnp.broadcast_to(p["first"], (sizes.batch, 1, sizes.width))
        x = jnp.concatenate([first, x], 1) + p["positions"]
        for layer in range(sizes.layers):
            x = encoder_layer(p, f"layers.{layer}", x, sizes.heads, norm_first=True)
        logits = dense(p, "head", normalise(p, "norm", x)[:, 0])
        return cross_entropy(logits, labels).mean()

    weights, _, batch = training_jax.from_torch(given.make(sizes))
    rule = training_jax.adamw(given.LEARNING_RATE, given.DECAY)
    return training_jax.step(loss_of, weights, batch, rule)

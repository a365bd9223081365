"""The CNN's training step in JAX: the same maths, in the layout asked for."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from . import cnn_weights as given


def step(layout: str) -> Callable[[], jax.Array]:
    """A function that makes one step and returns its loss.

    Layout is "nhwc", "nchw", or "nhwc-reshape", whose pooling is the maximum over a reshaped axis
    pair: not what JAX's libraries do, and quicker to differentiate on the CPU.
    """
    channels_last = layout != "nchw"
    weights = given.weights()
    images, labels = given.batch()
    if channels_last:
        images = images.transpose(0, 2, 3, 1)
        for name in ("0.weight", "3.weight"):
            weights[name] = weights[name].transpose(2, 3, 1, 0)
        # The flattened order is another one: height, width, channel.
        dense = weights["7.weight"].reshape(128, 64, 8, 8)
        weights["7.weight"] = dense.transpose(0, 2, 3, 1).reshape(128, -1)
    dimensions = ("NHWC", "HWIO", "NHWC") if channels_last else ("NCHW", "OIHW", "NCHW")
    window = (1, 2, 2, 1) if channels_last else (1, 1, 2, 2)

    def convolve(p, name, x):
        y = lax.conv_general_dilated(
            x, p[f"{name}.weight"], (1, 1), "SAME", dimension_numbers=dimensions
        )
        bias = p[f"{name}.bias"]
        y = jax.nn.relu(y + (bias if channels_last else bias[:, None, None]))
        if layout == "nhwc-reshape":
            count, height, width, channels = y.shape
            return y.reshape(count, height // 2, 2, width // 2, 2, channels).max((2, 4))
        return lax.reduce_window(y, -jnp.inf, lax.max, window, window, "VALID")

    def loss_of(p, images, labels):
        x = convolve(p, "3", convolve(p, "0", images)).reshape(given.BATCH, -1)
        x = jax.nn.relu(x @ p["7.weight"].T + p["7.bias"])
        logits = x @ p["9.weight"].T + p["9.bias"]
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
        return -chosen.mean()

    @partial(jax.jit, donate_argnums=0)
    def update(p, images, labels):
        loss, gradients = jax.value_and_grad(loss_of)(p, images, labels)
        return jax.tree.map(lambda w, g: w - given.LEARNING_RATE * g, p, gradients), loss

    state = jax.device_put(weights)
    images, labels = jax.device_put(images), jax.device_put(labels.astype("int32"))
    jax.block_until_ready((state, images, labels))

    def one() -> jax.Array:
        nonlocal state
        state, loss = update(state, images, labels)
        jax.block_until_ready(state)
        return loss

    return one

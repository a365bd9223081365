"""ResNet-18's training step in JAX: the same maths, in the layout asked for."""

import jax
import jax.numpy as jnp
from jax import lax

from . import resnet18_torch as given
from . import training_jax
from .layers_jax import cross_entropy, dense


def step(layout: str):
    """A function that makes one step and returns its loss; the layout is "nhwc" or "nchw"."""
    sizes = given.Sizes()
    last = layout == "nhwc"
    dimensions = ("NHWC", "HWIO", "NHWC") if last else ("NCHW", "OIHW", "NCHW")
    places = (1, 2) if last else (2, 3)

    def spatial(height, width):
        return (1, height, width, 1) if last else (1, 1, height, width)

    def convolve(p, name, x, stride, padding):
        return lax.conv_general_dilated(
            x, p[f"{name}.weight"], (stride,) * 2, [padding] * 2, dimension_numbers=dimensions
        )

    def batch_norm(p, buffers, new, name, x):
        axes = (0, *places)
        count = x.size // x.shape[3 if last else 1]
        mean = x.mean(axes, keepdims=True)
        variance = jnp.square(x - mean).mean(axes, keepdims=True)
        wide = mean.shape
        for what, value, scale in (("mean", mean, 1), ("var", variance, count / (count - 1))):
            key = f"{name}.running_{what}"
            new[key] = 0.9 * buffers[key] + 0.1 * scale * value.reshape(-1)
        new[f"{name}.num_batches_tracked"] = buffers[f"{name}.num_batches_tracked"] + 1
        scale = lax.rsqrt(variance + 1e-5) * p[f"{name}.weight"].reshape(wide)
        return (x - mean) * scale + p[f"{name}.bias"].reshape(wide)

    def loss_of(p, buffers, images, labels):
        new = {}
        x = convolve(p, "conv1", images, 2, (3, 3))
        x = jax.nn.relu(batch_norm(p, buffers, new, "bn1", x))
        padding = [(1, 1) if axis in places else (0, 0) for axis in range(4)]
        x = lax.reduce_window(x, -jnp.inf, lax.max, spatial(3, 3), spatial(2, 2), padding)
        index = 0
        for group, count in enumerate(sizes.blocks):
            for place in range(count):
                stride = 2 if group and not place else 1
                name = f"blocks.{index}"
                index += 1
                y = convolve(p, f"{name}.conv1", x, stride, (1, 1))
                y = jax.nn.relu(batch_norm(p, buffers, new, f"{name}.bn1", y))
                y = convolve(p, f"{name}.conv2", y, 1, (1, 1))
                y = batch_norm(p, buffers, new, f"{name}.bn2", y)
                if f"{name}.shortcut.0.weight" in p:
                    x = convolve(p, f"{name}.shortcut.0", x, stride, (0, 0))
                    x = batch_norm(p, buffers, new, f"{name}.shortcut.1", x)
                x = jax.nn.relu(x + y)
        logits = dense(p, "head", x.mean(places))
        return cross_entropy(logits, labels).mean(), new

    weights, buffers, (images, labels) = training_jax.from_torch(given.make(sizes))
    buffers = {
        name: array.astype("int32") if array.dtype == "int64" else array
        for name, array in buffers.items()
    }
    if last:
        images = images.transpose(0, 2, 3, 1)
        weights = {
            name: array.transpose(2, 3, 1, 0) if array.ndim == 4 else array
            for name, array in weights.items()
        }
    rule = training_jax.sgd(given.LEARNING_RATE, given.MOMENTUM, given.DECAY)
    return training_jax.step(loss_of, weights, (images, labels), rule, buffers)

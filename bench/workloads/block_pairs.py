"""Blocks of operators, some with their gradients: PyTorch's, and the same maths in plain JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from torch.nn import functional

from .pair import Arrays, Pair, below, real


def _torch_gradients(loss, count):
    """Of the loss, with respect to the first `count` inputs."""

    def run(*inputs):
        leaves = [x.detach().requires_grad_() for x in inputs[:count]]
        return torch.autograd.grad(loss(*leaves, *inputs[count:]), leaves)

    return run


def _jax_gradients(loss, count):
    return jax.grad(loss, argnums=tuple(range(count)))


def _attention(q, k, v, causal=False):
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return jax.nn.softmax(scores) @ v


def _heads(batch: int, heads: int, length: int, width: int) -> Arrays:
    return tuple(real(3, batch, heads, length, width))


HEADS = {"arrays": _heads, "small": (1, 2, 32, 16), "large": (4, 8, 256, 64)}


def _mlp_torch(x, a, b):
    return functional.linear(functional.gelu(functional.linear(x, a)), b).square().mean()


def _mlp_jax(x, a, b):
    return jnp.square(jax.nn.gelu(x @ a.T, approximate=False) @ b.T).mean()


def _convolutional_torch(x, w, scale, shift):
    y = functional.conv2d(x, w, padding=1)
    y = functional.relu(functional.batch_norm(y, None, None, scale, shift, training=True))
    return functional.avg_pool2d(y, 2).square().mean()


def _convolutional_jax(x, w, scale, shift):
    y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))
    mean = y.mean((0, 2, 3), keepdims=True)
    centred = y - mean
    variance = jnp.square(centred).mean((0, 2, 3), keepdims=True)
    y = centred * lax.rsqrt(variance + 1e-5) * scale[:, None, None] + shift[:, None, None]
    y = jax.nn.relu(y)
    pooled = lax.reduce_window(y, 0.0, lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID") / 4
    return jnp.square(pooled).mean()


def _cross_entropy(x, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], 1).mean()


def _lstm_cell(x, h, c, w, u, b):
    i, f, g, o = jnp.split(x @ w.T + b + h @ u.T, 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def _cell(rows: int, width: int) -> Arrays:
    x, h, c = real(3, rows, width)
    w, u = real(2, 4 * width, width) / np.float32(width**0.5)
    return x, h, c, w, u, real(4 * width)


def _wide(rows: int, width: int) -> Arrays:
    scale = np.float32(width**-0.5)
    return real(rows, width), scale * real(4 * width, width), scale * real(width, 4 * width)


PAIRS = [
    Pair("attention", functional.scaled_dot_product_attention, _attention, **HEADS),
    Pair(
        "attention, causal",
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda q, k, v: _attention(q, k, v, causal=True),
        **HEADS,
    ),
    Pair(
        "attention, gradients",
        _torch_gradients(
            lambda q, k, v: functional.scaled_dot_product_attention(q, k, v).square().sum(), 3
        ),
        _jax_gradients(lambda q, k, v: jnp.square(_attention(q, k, v)).sum(), 3),
        **HEADS,
        tolerance=1e-4,
    ),
    Pair(
        "MLP, gradients",
        _torch_gradients(_mlp_torch, 3),
        _jax_gradients(_mlp_jax, 3),
        _wide,
        (16, 32),
        (256, 512),
        tolerance=1e-4,
    ),
    Pair(
        "conv2d, batch_norm, relu, pool, gradients",
        _torch_gradients(_convolutional_torch, 4),
        _jax_gradients(_convolutional_jax, 4),
        lambda n, c, side: (real(n, c, side, side), real(c, c, 3, 3), real(c), real(c)),
        (2, 8, 16),
        (4, 32, 32),
        tolerance=1e-3,  # sums of terms that nearly cancel
    ),
    Pair(
        "cross_entropy",
        functional.cross_entropy,
        _cross_entropy,
        lambda rows, columns: (real(rows, columns), below(columns, rows)),
        (64, 10),
        (1024, 4096),
    ),
    Pair(
        "cross_entropy, gradients",
        _torch_gradients(functional.cross_entropy, 1),
        _jax_gradients(_cross_entropy, 1),
        lambda rows, columns: (real(rows, columns), below(columns, rows)),
        (64, 10),
        (1024, 4096),
    ),
    Pair(
        "LSTM cell",
        lambda x, h, c, w, u, b: torch.lstm_cell(x, (h, c), w, u, b, torch.zeros_like(b)),
        _lstm_cell,
        _cell,
        (8, 32),
        (256, 512),
    ),
]

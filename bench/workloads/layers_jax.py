"""Layers and losses in plain JAX; `p` holds the arrays by their PyTorch names."""

import jax
import jax.numpy as jnp


def normalise(p, name, x):
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def dense(p, name, x):
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def attend(packed, heads, kept=None):
    """Attention of queries, keys and values that lie side by side, where `kept` says true."""
    batch, length, width = packed.shape
    width //= 3
    packed = packed.reshape(batch, length, 3, heads, width // heads)
    query, key, value = packed.transpose(2, 0, 3, 1, 4)
    scores = query @ key.swapaxes(-1, -2) * (width // heads) ** -0.5
    if kept is not None:
        scores = jnp.where(kept, scores, -jnp.inf)
    mixed = jax.nn.softmax(scores) @ value
    return mixed.swapaxes(1, 2).reshape(batch, length, width)


def encoder_layer(p, name, x, heads, *, norm_first, kept=None):
    """nn.TransformerEncoderLayer with gelu and no dropout."""

    def attention(x):
        packed = x @ p[f"{name}.self_attn.in_proj_weight"].T + p[f"{name}.self_attn.in_proj_bias"]
        return dense(p, f"{name}.self_attn.out_proj", attend(packed, heads, kept))

    def perceptron(x):
        inner = jax.nn.gelu(dense(p, f"{name}.linear1", x), approximate=False)
        return dense(p, f"{name}.linear2", inner)

    if norm_first:
        x = x + attention(normalise(p, f"{name}.norm1", x))
        return x + perceptron(normalise(p, f"{name}.norm2", x))
    x = normalise(p, f"{name}.norm1", x + attention(x))
    return normalise(p, f"{name}.norm2", x + perceptron(x))


def cross_entropy(logits, labels):
    """Of each place, with integer labels in the shape of the logits without their last axis."""
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)[..., 0]

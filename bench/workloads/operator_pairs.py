"""Single operators: PyTorch's, and what says the same in plain JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from torch.nn import functional

from .pair import Arrays, Pair, below, orders, real

PLANES = ("NCHW", "OIHW", "NCHW")


def _convolution(x, w, dimensions, padding, stride=1, groups=1):
    rank = x.ndim - 2
    return lax.conv_general_dilated(
        x,
        w,
        (stride,) * rank,
        [(padding, padding)] * rank,
        dimension_numbers=dimensions,
        feature_group_count=groups,
    )


CONVOLUTIONS = [
    Pair(
        "conv1d",
        lambda x, w: functional.conv1d(x, w, padding=2),
        lambda x, w: _convolution(x, w, ("NCH", "OIH", "NCH"), 2),
        lambda n, c, side: (real(n, c, side), real(c, c, 5)),
        (4, 16, 128),
        (16, 64, 2048),
    ),
    Pair(
        "conv2d",
        lambda x, w: functional.conv2d(x, w, padding=1),
        lambda x, w: _convolution(x, w, PLANES, 1),
        lambda n, c, side: (real(n, c, side, side), real(c, c, 3, 3)),
        (4, 16, 16),
        (8, 64, 56),
    ),
    Pair(
        "conv2d, 7 x 7, stride 2",
        lambda x, w: functional.conv2d(x, w, stride=2, padding=3),
        lambda x, w: _convolution(x, w, PLANES, 3, stride=2),
        lambda n, c, side: (real(n, 3, side, side), real(c, 3, 7, 7)),
        (2, 16, 32),
        (8, 64, 112),
    ),
    Pair(
        "conv2d, 1 x 1",
        functional.conv2d,
        lambda x, w: _convolution(x, w, PLANES, 0),
        lambda n, c, side: (real(n, c, side, side), real(c, c, 1, 1)),
        (4, 16, 16),
        (8, 128, 56),
    ),
    Pair(
        "conv2d, 4 groups",
        lambda x, w: functional.conv2d(x, w, padding=1, groups=4),
        lambda x, w: _convolution(x, w, PLANES, 1, groups=4),
        lambda n, c, side: (real(n, c, side, side), real(c, c // 4, 3, 3)),
        (4, 16, 16),
        (8, 64, 56),
    ),
    Pair(
        "conv2d, depthwise",
        lambda x, w: functional.conv2d(x, w, padding=1, groups=w.shape[0]),
        lambda x, w: _convolution(x, w, PLANES, 1, groups=w.shape[0]),
        lambda n, c, side: (real(n, c, side, side), real(c, 1, 3, 3)),
        (4, 16, 16),
        (8, 64, 56),
    ),
    Pair(
        "conv3d",
        lambda x, w: functional.conv3d(x, w, padding=1),
        lambda x, w: _convolution(x, w, ("NCDHW", "OIDHW", "NCDHW"), 1),
        lambda n, c, side: (real(n, c, side, side, side), real(c, c, 3, 3, 3)),
        (1, 8, 8),
        (2, 32, 24),
    ),
    Pair(
        "transposed conv2d",
        lambda x, w: functional.conv_transpose2d(x, w, stride=2, padding=1),
        lambda x, w: lax.conv_transpose(
            x, w, (2, 2), "SAME", dimension_numbers=PLANES, transpose_kernel=True
        ),
        lambda n, c, side: (real(n, c, side, side), real(c, c, 4, 4)),
        (2, 16, 8),
        (4, 64, 28),
    ),
]


def _pool(x, start, combine):
    return lax.reduce_window(x, start, combine, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def _resize(x, method):
    n, c, height, width = x.shape
    return jax.image.resize(x, (n, c, 2 * height, 2 * width), method)


def _planes(n: int, c: int, side: int) -> Arrays:
    return (real(n, c, side, side),)


PLANE = {"arrays": _planes, "small": (2, 8, 16), "large": (8, 64, 56)}

PLANES_OF_PIXELS = [
    Pair(
        "max_pool2d",
        lambda x: functional.max_pool2d(x, 2),
        lambda x: _pool(x, -jnp.inf, lax.max),
        **PLANE,
    ),
    Pair(
        "avg_pool2d",
        lambda x: functional.avg_pool2d(x, 2),
        lambda x: _pool(x, 0.0, lax.add) / 4,
        **PLANE,
    ),
    Pair(
        "interpolate, bilinear",
        lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"),
        lambda x: _resize(x, "bilinear"),
        **PLANE,
    ),
    Pair(
        "interpolate, nearest",
        lambda x: functional.interpolate(x, scale_factor=2, mode="nearest"),
        lambda x: _resize(x, "nearest"),
        **PLANE,
    ),
    Pair(
        "pad, reflect",
        lambda x: functional.pad(x, (2, 2, 2, 2), mode="reflect"),
        lambda x: jnp.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2)), mode="reflect"),
        **PLANE,
    ),
    Pair(
        "pad, constant",
        lambda x: functional.pad(x, (1, 2, 3, 4)),
        lambda x: jnp.pad(x, ((0, 0), (0, 0), (3, 4), (1, 2))),
        **PLANE,
    ),
]


def _layer_norm(x, w, b):
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * w + b


def _batch_norm(x, w, b):
    mean = x.mean((0, 2, 3), keepdims=True)
    variance = jnp.square(x - mean).mean((0, 2, 3), keepdims=True)
    scale = lax.rsqrt(variance + 1e-5) * w[:, None, None]
    return (x - mean) * scale + b[:, None, None]


def _group_norm(x, w, b):
    grouped = x.reshape(x.shape[0], 4, -1)
    mean = grouped.mean(-1, keepdims=True)
    variance = jnp.square(grouped - mean).mean(-1, keepdims=True)
    normal = ((grouped - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape)
    return normal * w[:, None, None] + b[:, None, None]


def _scaled_planes(n: int, c: int, side: int) -> Arrays:
    return real(n, c, side, side), real(c), real(c)


SCALED = {"arrays": _scaled_planes, "small": (2, 8, 16), "large": (8, 64, 56)}


def _matrix(rows: int, columns: int) -> Arrays:
    return (real(rows, columns),)


MATRIX = {"arrays": _matrix, "small": (64, 64), "large": (2048, 1024)}

NORMALISATIONS = [
    Pair("softmax", lambda x: x.softmax(-1), lambda x: jax.nn.softmax(x, -1), **MATRIX),
    Pair(
        "softmax of the first dimension",
        lambda x: x.softmax(0),
        lambda x: jax.nn.softmax(x, 0),
        **MATRIX,
    ),
    Pair("log_softmax", lambda x: x.log_softmax(-1), lambda x: jax.nn.log_softmax(x, -1), **MATRIX),
    Pair(
        "layer_norm",
        lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b),
        _layer_norm,
        lambda rows, columns: (real(rows, columns), real(columns), real(columns)),
        (64, 64),
        (2048, 1024),
    ),
    Pair(
        "batch_norm, training",
        lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True),
        _batch_norm,
        **SCALED,
    ),
    Pair("group_norm", lambda x, w, b: functional.group_norm(x, 4, w, b), _group_norm, **SCALED),
]

REDUCTIONS = [
    Pair("sum of rows", lambda x: x.sum(-1), lambda x: x.sum(-1), **MATRIX),
    Pair("sum of columns", lambda x: x.sum(0), lambda x: x.sum(0), **MATRIX),
    Pair("mean of all", lambda x: x.mean(), lambda x: x.mean(), **MATRIX),
    Pair("amax", lambda x: x.amax(-1), lambda x: x.max(-1), **MATRIX),
    Pair(
        "max with indices",
        lambda x: x.max(-1),
        lambda x: (x.max(-1), x.argmax(-1)),
        **MATRIX,
    ),
    Pair("argmax", lambda x: x.argmax(-1), lambda x: x.argmax(-1), **MATRIX),
    Pair("var", lambda x: x.var(-1), lambda x: x.var(-1, ddof=1), **MATRIX),
    Pair(
        "logsumexp",
        lambda x: x.logsumexp(-1),
        lambda x: jax.scipy.special.logsumexp(x, -1),
        **MATRIX,
    ),
    Pair("cumsum", lambda x: x.cumsum(-1), lambda x: jnp.cumsum(x, -1), **MATRIX, tolerance=1e-4),
]


def _three(rows: int, columns: int) -> Arrays:
    x, y = np.split(real(2 * rows, columns), 2)
    return x, y, real(columns)


def _masked(rows: int, columns: int) -> Arrays:
    x, y = np.split(real(2 * rows, columns), 2)
    return real(rows, columns) > 0, x, y


CHAIN = {"arrays": _three, "small": (64, 64), "large": (2048, 1024)}
MASKED = {"arrays": _masked, "small": (64, 64), "large": (2048, 1024)}

ELEMENTWISE = [
    Pair(
        "relu(x * y + z)",
        lambda x, y, z: torch.relu(x * y + z),
        lambda x, y, z: jax.nn.relu(x * y + z),
        **CHAIN,
    ),
    Pair(
        "exp(-x * x) * tanh(y) + sigmoid(z)",
        lambda x, y, z: torch.exp(-x * x) * torch.tanh(y) + torch.sigmoid(z),
        lambda x, y, z: jnp.exp(-x * x) * jnp.tanh(y) + jax.nn.sigmoid(z),
        **CHAIN,
    ),
    Pair("gelu", functional.gelu, lambda x: jax.nn.gelu(x, approximate=False), **MATRIX),
    Pair("where", torch.where, jnp.where, **MASKED),
    Pair(
        "masked_fill",
        lambda mask, x, y: x.masked_fill(mask, -1.0),
        lambda mask, x, y: jnp.where(mask, -1.0, x),
        **MASKED,
    ),
]

SHAPES = [
    Pair("cat", lambda m, x, y: torch.cat([x, y], 1), lambda m, x, y: jnp.hstack([x, y]), **MASKED),
    Pair("stack", lambda m, x, y: torch.stack([x, y]), lambda m, x, y: jnp.stack([x, y]), **MASKED),
    Pair("transpose, contiguous", lambda x: x.t().contiguous(), lambda x: x.T, **MATRIX),
    Pair("roll", lambda x: x.roll(3, 1), lambda x: jnp.roll(x, 3, 1), **MATRIX),
    Pair("flip", lambda x: x.flip(1), lambda x: jnp.flip(x, 1), **MATRIX),
    Pair("tril", lambda x: x.tril(), lambda x: jnp.tril(x), **MATRIX),
    Pair(
        "one_hot",
        lambda i: functional.one_hot(i, 64),
        lambda i: jax.nn.one_hot(i, 64, dtype="int64"),
        lambda count: (below(64, count),),
        (256,),
        (32768,),
    ),
]


def _rows(table: int, width: int, count: int) -> Arrays:
    return real(table, width), below(table, count), real(count, width)


TABLE = {"arrays": _rows, "small": (64, 32, 128), "large": (8192, 256, 4096)}


def _columns(rows: int, columns: int) -> Arrays:
    x, y = np.split(real(2 * rows, columns), 2)
    return x, orders(rows, columns), y


COLUMNS = {"arrays": _columns, "small": (64, 64), "large": (1024, 512)}

INDEXING = [
    Pair("index_select", lambda t, i, v: t.index_select(0, i), lambda t, i, v: t[i], **TABLE),
    Pair("embedding", lambda t, i, v: functional.embedding(i, t), lambda t, i, v: t[i], **TABLE),
    Pair(
        "embedding, backward",
        lambda t, i, v: torch.ops.aten.embedding_dense_backward(v, i, t.shape[0], -1, False),
        lambda t, i, v: jnp.zeros_like(t).at[i].add(v),
        **TABLE,
    ),
    Pair(
        "index_put, accumulate",
        lambda t, i, v: t.index_put((i,), v, accumulate=True),
        lambda t, i, v: t.at[i].add(v),
        **TABLE,
    ),
    Pair(
        "gather",
        lambda x, i, y: x.gather(1, i),
        lambda x, i, y: jnp.take_along_axis(x, i, 1),
        **COLUMNS,
    ),
    Pair(
        "scatter",
        lambda x, i, y: x.scatter(1, i, y),
        lambda x, i, y: jnp.put_along_axis(x, i, y, 1, inplace=False),
        **COLUMNS,
    ),
    Pair(
        "scatter_add",
        lambda x, i, y: x.scatter_add(1, i, y),
        lambda x, i, y: x.at[jnp.arange(x.shape[0])[:, None], i].add(y),
        **COLUMNS,
    ),
]


def _sort(x):
    return lax.sort_key_val(x, lax.broadcasted_iota("int64", x.shape, 1))


def _with_wide_indices(values, indices):
    return values, indices.astype("int64")


SORTED = {"arrays": _matrix, "small": (64, 64), "large": (256, 1024)}

SORTS = [
    Pair("sort", lambda x: x.sort(dim=-1, stable=True), _sort, **SORTED),
    Pair(
        "argsort", lambda x: x.argsort(dim=-1, stable=True), lambda x: jnp.argsort(x, -1), **SORTED
    ),
    Pair(
        "topk",
        lambda x: x.topk(8),
        lambda x: _with_wide_indices(*lax.top_k(x, 8)),
        **SORTED,
    ),
]


def _positive(side: int) -> Arrays:
    x = real(side, side)
    return (x @ x.T / side + 2 * np.eye(side, dtype=np.float32),)


LINEAR_ALGEBRA = [
    Pair("matmul", *[lambda x, y: x @ y] * 2, lambda n: (real(n, n), real(n, n)), (64,), (1024,)),
    Pair(
        "matrix times vector",
        *[lambda x, y: x @ y] * 2,
        lambda n: (real(n, n), real(n)),
        (64,),
        (2048,),
    ),
    Pair(
        "batched matmul",
        *[lambda x, y: x @ y] * 2,
        lambda count, n: (real(count, n, n), real(count, n, n)),
        (4, 32),
        (32, 256),
    ),
    Pair(
        "linear",
        functional.linear,
        lambda x, w, b: x @ w.T + b,
        lambda rows, width: (real(rows, width), real(width, width), real(width)),
        (32, 64),
        (512, 1024),
    ),
    Pair(
        "cholesky",
        # The other form waits, to raise its error.
        lambda a: torch.linalg.cholesky_ex(a).L,
        jnp.linalg.cholesky,
        _positive,
        (32,),
        (512,),
        tolerance=1e-4,
    ),
    Pair(
        "triangular solve",
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=False),
        lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True),
        lambda n: (np.linalg.cholesky(_positive(n)[0]), real(n, n)),
        (32,),
        (512,),
        tolerance=1e-4,
    ),
    Pair("rfft", torch.fft.rfft, jnp.fft.rfft, _matrix, (16, 128), (256, 4096), tolerance=1e-4),
]

PAIRS = [
    *LINEAR_ALGEBRA,
    *CONVOLUTIONS,
    *PLANES_OF_PIXELS,
    *NORMALISATIONS,
    *REDUCTIONS,
    *ELEMENTWISE,
    *SHAPES,
    *INDEXING,
    *SORTS,
]

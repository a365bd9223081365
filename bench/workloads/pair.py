"""A function that exists twice, in PyTorch and in JAX, and the arrays that both get."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Pair:
    """`arrays` makes the inputs from a size; results may differ by `tolerance` of the largest."""

    name: str
    torch: Callable
    jax: Callable
    arrays: Callable[..., Arrays]
    small: tuple[int, ...]
    large: tuple[int, ...]
    tolerance: float = 1e-5


def real(*shape: int) -> np.ndarray:
    """Of a normal distribution, float32; a shape tells the values."""
    return _random(shape).standard_normal(shape).astype(np.float32)


def below(end: int, *shape: int) -> np.ndarray:
    """Integers from 0 to `end`, int64."""
    return _random(shape).integers(0, end, shape)


def orders(rows: int, columns: int) -> np.ndarray:
    """A permutation of the columns in each row, int64."""
    return _random((rows, columns)).permuted(np.tile(np.arange(columns), (rows, 1)), axis=1)


def _random(shape: tuple[int, ...]) -> np.random.Generator:
    return np.random.default_rng([len(shape), *shape])

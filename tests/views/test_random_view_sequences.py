"""Random sequences of views and of writes through them: the same on cpu and xla, errors too."""

import random

import pytest
import torch

import torch_pjrt  # noqa: F401

DTYPES = [
    torch.float32,
    torch.int64,
    torch.bool,
    torch.bfloat16,
    torch.uint8,
    torch.complex64,
    torch.float64,
]
STEPS = 8
MOST_ELEMENTS = 4000


def random_values(choose, dtype, shape):
    generator = torch.Generator().manual_seed(choose.randrange(2**31))
    values = torch.randint(0 if dtype is torch.uint8 else -9, 10, shape, generator=generator)
    if dtype is torch.bool:
        return values > 0
    if dtype.is_complex:
        return torch.complex(values.float(), -values.flatten().flip(0).view(shape).float())
    return values.to(dtype)


def dimension(choose, x):
    return choose.randrange(-x.dim(), x.dim()) if x.dim() else 0


def extent(choose, x, dim):
    """A part of a dimension: start and length."""
    size = x.shape[dim] if x.dim() else 1
    start = choose.randint(0, size)
    return start, choose.randint(0, size - start)


# Each takes a source of choices and the cpu tensor, and returns a function of either tensor.


def select(choose, x):
    dim = dimension(choose, x)
    size = x.shape[dim] if x.dim() else 1
    index = choose.randint(-size, max(size - 1, 0))
    return lambda t: t.select(dim, index)


def narrow(choose, x):
    dim = dimension(choose, x)
    start, length = extent(choose, x, dim)
    return lambda t: t.narrow(dim, start, length)


def stepped(choose, x):
    dim = dimension(choose, x)
    start, length = extent(choose, x, dim)
    step = choose.randint(1, 3)
    return lambda t: torch.ops.aten.slice.Tensor(t, dim, start, start + length, step)


def transpose(choose, x):
    a, b = dimension(choose, x), dimension(choose, x)
    return lambda t: t.transpose(a, b)


def permute(choose, x):
    order = choose.sample(range(x.dim()), x.dim())
    return lambda t: t.permute(order)


def unsqueeze(choose, x):
    dim = choose.randint(0, x.dim())
    return lambda t: t.unsqueeze(dim)


def squeeze(choose, x):
    return lambda t: t.squeeze()


def expand(choose, x):
    sizes = [choose.randint(1, 3) if n == 1 else -1 for n in x.shape]
    sizes = [choose.randint(1, 2)] * choose.randint(0, 1) + sizes
    return lambda t: t.expand(sizes)


def diagonal(choose, x):
    offset = choose.randint(-2, 2)
    a, b = dimension(choose, x), dimension(choose, x)
    return lambda t: t.diagonal(offset, a, b)


def flatten(choose, x):
    return lambda t: t.view(-1)


def split_dimension(choose, x):
    dim = dimension(choose, x)
    size = x.shape[dim] if x.dim() else 1
    factors = [n for n in (1, 2, 3, size) if n and size % n == 0]
    factor = choose.choice(factors or [1])
    return lambda t: t.unflatten(dim, (factor, -1))


def unfold(choose, x):
    dim, size, step = dimension(choose, x), choose.randint(1, 3), choose.randint(1, 3)
    return lambda t: t.unfold(dim, size, step)


def chunk(choose, x):
    dim, pieces, which = dimension(choose, x), choose.randint(1, 3), choose.randint(0, 1)
    return lambda t: t.chunk(pieces, dim)[which]


def unbind(choose, x):
    dim = dimension(choose, x)
    return lambda t: t.unbind(dim)[-1]


def as_strided(choose, x):
    rank = choose.randint(0, 3)
    sizes = [choose.randint(1, 3) for _ in range(rank)]
    strides = [choose.choice([0, 1, 1, 2, 3, 4, 6]) for _ in range(rank)]
    offset = choose.randint(0, 3)
    return lambda t: torch.as_strided(t, sizes, strides, offset)


def other_dtype(choose, x):
    dtype = choose.choice([torch.uint8, torch.int16, torch.int32, torch.int64])
    if x.dtype in (torch.bool, torch.bfloat16, torch.float64, torch.float32):
        return lambda t: t.view(dtype).view(t.dtype)
    return lambda t: t.view(dtype)


def real_parts(choose, x):
    part = choose.choice(["view_as_real", "real", "imag", "conj", "mT"])
    if part == "mT":
        return lambda t: t.mT
    return lambda t: getattr(torch, part)(t)


def alias(choose, x):
    return lambda t: t.detach()


VIEWS = [
    select,
    narrow,
    stepped,
    transpose,
    permute,
    unsqueeze,
    squeeze,
    expand,
    diagonal,
    flatten,
    split_dimension,
    unfold,
    chunk,
    unbind,
    as_strided,
    other_dtype,
    real_parts,
    alias,
]


def fill(choose, x):
    value = choose.randint(0, 5)
    return lambda t: t.fill_(value)


def zero(choose, x):
    return lambda t: t.zero_()


def copy(choose, x):
    values = random_values(choose, x.dtype, x.shape)
    return lambda t: t.copy_(values.to(t.device))


def copy_from_host(choose, x):
    values = random_values(choose, choose.choice([x.dtype, torch.float32]), x.shape[1:])
    return lambda t: t.copy_(values)


def add(choose, x):
    values = random_values(choose, x.dtype, x.shape)
    return lambda t: t.add_(values.to(t.device))


def multiply(choose, x):
    factor = choose.randint(0, 3)
    return lambda t: t.mul_(factor)


def masked_fill(choose, x):
    mask = random_values(choose, torch.bool, x.shape)
    value = choose.randint(0, 5)
    return lambda t: t.masked_fill_(mask.to(t.device), value)


def index_put(choose, x):
    size = x.shape[0] if x.dim() else 1
    index = torch.tensor(choose.sample(range(size), choose.randint(0, size)), dtype=torch.long)
    value = random_values(choose, x.dtype, ())
    return lambda t: t.index_put_((index.to(t.device),), value.to(t.device))


def set_item(choose, x):
    value = choose.randint(0, 5)
    return lambda t: t.__setitem__((..., slice(None, None, 2)), value)


def reverse(choose, x):
    return lambda t: t.copy_(t.flip(0))


WRITES = [
    fill,
    zero,
    copy,
    copy_from_host,
    add,
    multiply,
    masked_fill,
    index_put,
    set_item,
    reverse,
]


# What PyTorch defines for tensors that show an element several times.
ON_REPEATS = [fill, zero, masked_fill]


def repeats_elements(x):
    """By its geometry alone: whether two indices show the same element."""
    places = torch.zeros(x.shape, dtype=torch.long)
    for dim, (size, stride) in enumerate(zip(x.shape, x.stride(), strict=True)):
        shape = [size if d == dim else 1 for d in range(x.dim())]
        places += (torch.arange(size) * stride).view(shape)
    return places.unique().numel() < places.numel()


def attempt(function, *arguments):
    try:
        return function(*arguments), None
    except Exception as error:
        return None, error


def compare(expected, actual, history):
    assert actual.device.type == "xla"
    assert actual.dtype == expected.dtype, history
    assert actual.shape == expected.shape, history
    assert actual.stride() == expected.stride(), history
    assert actual.storage_offset() == expected.storage_offset(), history
    torch.testing.assert_close(
        actual.cpu(), expected, rtol=0, atol=0, equal_nan=True, msg=lambda m: f"{history}\n{m}"
    )


def run(seed):
    choose = random.Random(seed)
    dtype = choose.choice(DTYPES)
    shape = [choose.randint(1, 6) for _ in range(choose.randint(0, 4))]
    values = random_values(choose, dtype, shape)
    pairs = [(values, values.to("xla"))]
    history = [f"seed {seed}: {dtype} {shape}"]
    for _ in range(choose.randint(2, STEPS)):
        writes = choose.random() < 0.4
        step = choose.choice(WRITES if writes else VIEWS)
        mine, theirs = choose.choice(pairs)
        made, _ = attempt(step, choose, mine)
        if made is None or (writes and step not in ON_REPEATS and repeats_elements(mine)):
            continue
        history.append(f"{step.__name__} of {tuple(mine.shape)} strides {mine.stride()}")
        expected, error = attempt(made, mine)
        actual, device_error = attempt(made, theirs)
        assert type(device_error) is type(error), f"{history}: {error!r}, {device_error!r}"
        if error is None and not writes and expected.numel() <= MOST_ELEMENTS:
            pairs.append((expected, actual))
            if choose.random() < 0.15:  # in the middle of a pending graph
                compare(expected, actual, history)
    for expected, actual in pairs:
        compare(expected, actual, history)


@pytest.mark.parametrize("block", range(15))
def test_any_sequence(block):
    for seed in range(20 * block, 20 * (block + 1)):
        run(seed)

"""Numbers that are written into a tensor: the cpu's values, and its error where they do not fit."""

import pytest
import torch

from agreement import compare_errors, compare_with_errors

INDEX = torch.tensor([0, 1])
WRITES = {
    "fill": lambda x, m, i, v: x.fill_(v),
    "full_like": lambda x, m, i, v: torch.full_like(x, v),
    "masked_fill": lambda x, m, i, v: x.masked_fill(m, v),
    "index_fill": lambda x, m, i, v: x.index_fill(0, i, v),
    "scatter": lambda x, m, i, v: x.scatter(0, i, v),
    "pad": lambda x, m, i, v: torch.constant_pad_nd(x, (1, 0), v),
    "where": lambda x, m, i, v: torch.where(m, x, v),
}
NUMBERS = [0, 1, -1, -1.0, 7, 300, -200, 2**40, 2.75, 1e39, 1j]
DTYPES = [torch.uint8, torch.int8, torch.bool, torch.int64, torch.float32, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_numbers_written_into_a_tensor(write, dtype):
    x, mask = torch.arange(3).to(dtype), torch.tensor([True, False, True])
    for number in NUMBERS:
        compare_with_errors(write, x, mask, INDEX, number)


TENSOR_WRITES = {
    "masked_fill": lambda x, m, i, v: x.masked_fill(m, v),
    "masked_fill_": lambda x, m, i, v: x.clone().masked_fill_(m, v),
    "index_fill": lambda x, m, i, v: x.index_fill(0, i, v),
    "by a mask": lambda x, m, i, v: x.index_put((m,), v),
    "one element by a mask": lambda x, m, i, v: x.index_put((m,), v.view(1, 1)),
}
VALUES = [
    *(torch.tensor(number) for number in [*NUMBERS, float("nan"), float("inf"), 1 + 0j]),
    torch.tensor(70000.0, dtype=torch.float64),
    torch.tensor(-300, dtype=torch.int32),
    torch.tensor(True),
]


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16], ids=str)
@pytest.mark.parametrize("write", TENSOR_WRITES.values(), ids=TENSOR_WRITES)
def test_tensors_of_one_number_written_into_a_tensor(write, dtype):
    x, mask = torch.arange(3).to(dtype), torch.tensor([True, False, True])
    for value in VALUES:
        if write is TENSOR_WRITES["index_fill"] and value.is_complex():
            continue  # refused by its dtype alone
        compare_with_errors(write, x, mask, INDEX, value)


def test_other_dtypes_are_refused_by_other_indices():
    x, value = torch.ones(3, 3), torch.tensor(5)
    mask = torch.tensor([True, False, True])
    for indices in ((INDEX,), (mask, INDEX), (mask, mask)):
        compare_errors(lambda x, v, *i: x.index_put(i, v), x, value, *indices)
    compare_errors(lambda x, v, m: x.index_put((m,), v, accumulate=True), x, value, mask)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16, torch.float8_e5m2], ids=str)
def test_scalar_tensor(dtype):
    for number in NUMBERS:
        compare_with_errors(
            lambda x, v=number: torch.scalar_tensor(v, dtype=dtype, device=x.device).float(),
            torch.zeros(1),
        )

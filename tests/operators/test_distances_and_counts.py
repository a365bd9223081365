"""Distances of points, norms that are cut, and counts equal the cpu's."""

import pytest
import torch

import torch_pjrt
from agreement import compare, compare_errors

F = torch.nn.functional


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, torch.inf])
def test_distances(p):
    x, y = torch.randn(2, 4, 3), torch.randn(5, 3)
    y[0] = x[0, 0]
    compare(torch.cdist, x.requires_grad_(), y.requires_grad_(), p, backward=p != 0)
    compare(F.pdist, x[0].detach().requires_grad_(), p, backward=p != 0)


def test_distances_of_many_points():
    x, y = torch.randn(30, 3), torch.randn(5, 3)
    for mode in ("use_mm_for_euclid_dist_if_necessary", "donot_use_mm_for_euclid_dist"):
        compare(torch.cdist, x, y, compute_mode=mode, tolerance=1e-4)


# Not for p = inf, where what the cpu gives depends on the order of the elements.
@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0])
def test_distances_from_nan_are_nan(p):
    x, y = torch.randn(4, 3), torch.randn(5, 3)
    x[1, 2], x[2, 0] = float("nan"), float("inf")
    compare(torch.cdist, x, y, p)
    compare(torch.pdist, x, p)


@pytest.mark.parametrize("sizes", [(0, 3), (4, 0)])
def test_distances_of_nothing(sizes):
    compare(torch.cdist, torch.zeros(sizes), torch.zeros(2, sizes[1]))
    compare(F.pdist, torch.zeros(sizes))


def test_distances_refuse():
    compare_errors(torch.cdist, torch.zeros(2, 3), torch.zeros(2, 4))
    compare_errors(torch.cdist, torch.zeros(2, 3), torch.zeros(2, 3), -1.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_renorm(dtype):
    x = torch.randn(3, 4, 5).to(dtype)
    compare(torch.renorm, x, 2, 1, 1.5)
    compare(torch.renorm, x.transpose(0, 2), 1, -1, 0.5)
    compare_errors(torch.renorm, x, 0, 1, 1.5)


def test_embedding_cuts_the_norms_of_the_rows_it_reads():
    weight, index = torch.randn(6, 4), torch.tensor([[1, 3], [1, 5]])
    compare(lambda w, i: F.embedding(i, w, max_norm=1.0), weight, index)
    compare(lambda w, i: F.embedding(i, w, max_norm=1.0, norm_type=1.0), weight, index.int())


def test_rrelu():
    x = torch.randn(64, 64, device="xla")
    compare(lambda x: F.rrelu(x, training=False), x.cpu())
    slopes = F.rrelu(x, 0.25, 0.5, training=True) / x
    assert slopes[x > 0].eq(1).all()
    assert slopes[x < 0].min() >= 0.249 and slopes[x < 0].max() <= 0.501
    assert slopes[x < 0].std() > 0.06


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_bincount(dtype):
    x = torch.tensor([1, 4, 4, 0, 7], dtype=dtype)
    compare(torch.bincount, x)
    compare(torch.bincount, x, minlength=12)
    for weights in (torch.randn(5), torch.arange(5), torch.randn(5).double()):
        compare(torch.bincount, x, weights)
    compare(torch.bincount, x[:0], minlength=3)
    compare_errors(torch.bincount, x.view(1, 5))
    compare_errors(torch.bincount, torch.tensor([1, -1]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_histc(dtype):
    x = torch.randn(100).to(dtype)
    compare(torch.histc, x, 7)
    compare(torch.histc, x, 50, -0.5, 1)


def test_histc_of_special_numbers():
    x = torch.randn(100)
    compare(torch.histc, torch.tensor([0.0, 1, 2, torch.nan, 3]), 3, 0, 3)
    compare(torch.histc, torch.full((3,), 2.0), 4)
    compare(torch.histc, x[:0], 4)
    compare_errors(torch.histc, x, 5, 1, 0)
    compare_errors(torch.histc, x.long(), 5)


def test_histc_wants_finite_data_at_the_next_read():
    counts = torch.histc(torch.tensor([1.0, torch.inf], device="xla"), 3)
    with pytest.raises(RuntimeError, match="not finite"):
        counts.cpu()
    torch_pjrt.sync()


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32])
def test_nonzero_static(dtype):
    x = torch.tensor([[0, 1, 0], [2, 0, 3]]).to(dtype)
    for size in (0, 2, 3, 5):
        compare(torch.nonzero_static, x, size=size)
        compare(torch.nonzero_static, x, size=size, fill_value=7)
    compare(torch.nonzero_static, x[0, 1], size=2)
    compare(torch.nonzero_static, x[:, :0], size=2)


def test_subtraction_and_products_composed():
    x, y = torch.randn(2, 3), torch.randn(3)
    compare(torch.rsub, x, y, alpha=2)
    compare(F.bilinear, x.requires_grad_(), torch.randn(2, 4), torch.randn(5, 3, 4), backward=True)

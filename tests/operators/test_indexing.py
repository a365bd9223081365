"""Reading and writing through index tensors: the same as on cpu, also where cpu raises."""

import pytest
import torch

from agreement import compare, compare_errors

FLOATING = torch.arange(60.0).reshape(3, 4, 5)
DTYPES = [torch.float32, torch.int64, torch.bool, torch.bfloat16]
ROWS, COLUMN = torch.tensor([2, 0, -1]), torch.tensor([[1], [-4]])
MASK = torch.arange(12).reshape(3, 4) % 3 == 0


def of(dtype, *shape):
    count = torch.Size(shape).numel()
    return (torch.arange(count) % 7).reshape(shape).to(dtype)


READS = {
    "one": lambda x: x[ROWS],
    "int32": lambda x: x[ROWS.to(x.device).int()],
    "cpu index": lambda x: x[torch.tensor([0, 2])],
    "middle": lambda x: x[:, torch.tensor([3, 1])],
    "last": lambda x: x[..., torch.tensor([[0, 4], [1, -5]])],
    "adjacent": lambda x: x[:, COLUMN, torch.tensor([0, 2])],
    "apart": lambda x: x[ROWS, :, torch.tensor([1, 2, 3])],
    "all": lambda x: x[ROWS[:2], COLUMN, torch.tensor([0, 4])],
    "with slice": lambda x: x[1:, torch.tensor([0, 3]), ::2],
    "0-dim": lambda x: x[torch.tensor(1)],
    "empty": lambda x: x[torch.tensor([], dtype=torch.long)],
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reads(read):
    compare(read, FLOATING)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reads_of_views(dtype):
    x = of(dtype, 4, 3, 5)
    compare(lambda x: x[:, ROWS], x.transpose(0, 2))
    compare(lambda x: x[ROWS], x.permute(1, 2, 0)[:, ::2])
    compare(lambda x: x[ROWS, :, ROWS], x.transpose(0, 1).transpose(1, 2)[..., :3].contiguous())
    compare(lambda x: x[ROWS], x.permute(1, 2, 0))


def test_reads_by_mask():
    compare(lambda x, m: x[m], FLOATING, MASK, fallback=["nonzero"])
    compare(lambda x, m: x[m.any(0)[:3]], FLOATING, MASK, fallback=["nonzero"])


def put(*index):
    def write(x, v):
        x[index if len(index) > 1 else index[0]] = v
        return x

    return write


@pytest.mark.parametrize("dtype", DTYPES)
def test_writes(dtype):
    x = of(dtype, 3, 4, 5)
    compare(put(ROWS[:2]), x, of(dtype, 2, 4, 5))
    compare(put(ROWS[:2]), x, of(dtype, 5))
    compare(put(slice(None), COLUMN), x, of(dtype, 3, 2, 1, 5))
    compare(put(ROWS[:2], slice(None), torch.tensor([1, 3])), x, of(dtype, 2, 4))
    compare(put(ROWS[:2]), x.transpose(0, 2)[:, :, ::2], of(dtype, 2, 4, 2))
    compare(put(torch.tensor([], dtype=torch.long)), x, of(dtype, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_accumulating_writes(dtype):
    index = torch.tensor([0, 2, 0, -1])
    compare(
        lambda x, v: x.index_put_((index.to(x.device),), v, accumulate=True),
        of(dtype, 3, 4),
        of(dtype, 4, 4),
    )
    put = torch.ops.aten.index_put
    compare(
        lambda x, v: put(x, [None, index.to(x.device)], v, True), of(dtype, 3, 4), of(dtype, 3, 4)
    )


def test_writes_by_mask():
    compare(lambda x, m: x.__setitem__(m, 7.0), FLOATING, MASK)
    compare(lambda x, m, v: x.__setitem__(m, v), FLOATING, MASK, torch.tensor(2.0))
    compare(lambda x, m, v: x.__setitem__(m, v), FLOATING, MASK, torch.arange(5.0))
    compare(lambda x, m: x.__setitem__((slice(None), m), 1.5), FLOATING, MASK[0])
    compare(
        lambda x, m, v: x.__setitem__((slice(None), m), v),
        FLOATING,
        MASK[0],
        torch.arange(15.0).view(3, 1, 5),
    )
    compare(
        lambda x, m: x.index_put_((m,), torch.tensor(2.0, device=x.device), True), FLOATING, MASK
    )
    compare(
        lambda x, m, v: x.__setitem__(m, v), FLOATING, MASK, torch.rand(4, 5), fallback=["nonzero"]
    )


def test_gradients():
    x = FLOATING.clone().requires_grad_()
    compare(lambda x: x[ROWS, :, 1:], x, backward=True)
    compare(lambda x: x[ROWS, :, torch.tensor([0, 0, 0])], x, backward=True)
    compare(lambda x: x.index_select(1, torch.tensor([1, 1, 0]).to(x.device)), x, backward=True)
    compare(lambda x: x.gather(2, torch.tensor([[[0, 0, 3]]]).to(x.device)), x, backward=True)
    compare(lambda x: x.take(torch.tensor([0, 0, 59]).to(x.device)), x, backward=True)
    compare(lambda x: x.select(1, 2), x, backward=True)
    compare(lambda x: x[:, 1:4:2].diagonal(0, 0, 2), x, backward=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_index_select(dtype):
    x, index = of(dtype, 3, 4, 5), torch.tensor([2, 0, 2])
    for dim in (0, 1, -1):
        compare(lambda x, i, dim=dim: x.index_select(dim, i), x, index)
    compare(lambda x, i: x.index_select(1, i), x.transpose(0, 2), index.int())
    compare(lambda x, i: x.index_select(0, i), of(dtype), torch.tensor([0]))
    compare(lambda x, i: x.index_select(0, i), of(dtype, 0, 4), torch.tensor([], dtype=torch.long))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16])
def test_index_writes(dtype):
    x, index = of(dtype, 3, 4, 5), torch.tensor([2, 0, 2])
    compare(lambda x, i, s: x.index_add(1, i, s), x, index, of(dtype, 3, 3, 5))
    compare(lambda x, i, s: x.index_add_(0, i, s, alpha=2), x, index, of(dtype, 3, 4, 5))
    compare(lambda x, i, s: x.index_add_(0, i, s), x.transpose(0, 2), index, of(dtype, 3, 4, 3))
    compare(lambda x, i, s: x.index_copy(1, i, s), x, index[:2], of(dtype, 3, 2, 5))
    compare(lambda x, i, s: x.index_copy_(2, i, s), x, index[:2], of(dtype, 3, 4, 2))
    compare(lambda x, i: x.index_fill(1, i, 3), x, torch.tensor([0, -1]))
    compare(lambda x, i, v: x.index_fill_(0, i, v), x, index, of(dtype, 2)[1])
    compare(lambda x, i: x.index_fill_(0, i, 2), of(dtype), torch.tensor([0]))


def test_take_and_put():
    index = torch.tensor([[0, -1], [7, 59]])
    compare(lambda x, i: x.take(i), FLOATING, index)
    compare(lambda x, i: x.take(i), FLOATING.transpose(0, 2), index.t())
    compare(lambda x, i, s: x.put_(i, s), FLOATING.transpose(0, 1), index, torch.rand(2, 2))
    compare(lambda x, i, s: x.put(i, s, accumulate=True), FLOATING, index, torch.rand(4))


INDEX = torch.tensor([[0, 1, 2, 0], [2, 2, 0, 1]])


@pytest.mark.parametrize("dtype", DTYPES)
def test_gather_and_scatter(dtype):
    x, source = of(dtype, 3, 5), of(dtype, 2, 5)
    compare(lambda x, i: x.gather(0, i), x, INDEX)
    compare(lambda x, i: x.gather(1, i.int()), x.t(), INDEX)
    compare(lambda x, i: x.gather(0, i), of(dtype), torch.tensor([0, 0]))
    compare(lambda x, i: x.scatter(1, i, 1), x, torch.tensor([[4], [0]]))
    compare(lambda x, i, s: x.scatter(0, i, s), x, INDEX[:1], source)
    compare(lambda x, i, s: x.scatter_(0, i, s), x.t().contiguous().t(), INDEX[:1], source)
    compare(lambda x, i, s: x.scatter_add(0, i, s), x, INDEX, source)
    compare(lambda x, i, s: x.scatter_add_(0, i, s), x, INDEX[:, :0], source)
    if dtype != torch.bool:
        compare(lambda x, i, s: x.scatter(0, i, s, reduce="add"), x, INDEX, source)
        compare(lambda x, i: x.scatter_(0, i, 2, reduce="multiply"), x, INDEX)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_scatter_reduce(dtype, reduce, include_self):
    x, source = of(dtype, 3, 5) - 3, of(dtype, 2, 5) - 2
    compare(
        lambda x, i, s: x.scatter_reduce(0, i, s, reduce, include_self=include_self),
        x,
        INDEX,
        source,
    )
    if reduce != "sum":
        index, source = torch.tensor([1, 0, 1]), of(dtype, 3, 5) - 2
        compare(
            lambda x, i, s: x.index_reduce_(0, i, s, reduce, include_self=include_self),
            x,
            index,
            source,
        )


def test_masked():
    x, mask = FLOATING, MASK.unsqueeze(-1)
    compare(lambda x, m: x.masked_fill(m, float("-inf")), x, mask)
    compare(
        lambda x, m: x.masked_fill_(m, -1), x.transpose(0, 1)[:, :, ::2], MASK.t().unsqueeze(-1)
    )
    compare(lambda x, m, v: x.masked_fill(m, v), x.permute(2, 0, 1), MASK, torch.tensor(3.0))
    compare(lambda x, m: x.masked_fill(m, 2.5), torch.arange(5), torch.tensor([[True], [False]]))
    compare(lambda x, m, s: x.masked_scatter(m, s), x, mask, torch.rand(40))
    compare(
        lambda x, m, s: x.masked_scatter_(m, s),
        x.transpose(0, 1),
        MASK.t().unsqueeze(-1),
        torch.rand(40),
    )
    compare(lambda x, m, s: x.masked_scatter_(m, s), x, torch.tensor(False), torch.rand(0))


def test_embedding():
    weight, index = torch.randn(7, 3, requires_grad=True), torch.tensor([[0, 6, 6], [2, 0, 0]])
    F = torch.nn.functional
    compare(lambda w, i: F.embedding(i, w), weight, index, backward=True)
    compare(lambda w, i: F.embedding(i, w, padding_idx=0), weight, index.int(), backward=True)
    compare(lambda w, i: F.embedding(i, w, scale_grad_by_freq=True), weight, index, backward=True)
    half = weight.detach().bfloat16().requires_grad_()
    compare(lambda w, i: F.embedding(i, w), half, index, backward=True, tolerance=0.05)
    compare(lambda w, i: F.embedding(i, w), weight, index[:0], backward=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[torch.tensor([0, 3])],
        lambda x: x[torch.tensor([-4])],
        lambda x: x[torch.tensor([0, 1]), torch.tensor([0, 1, 2])],
        lambda x: x[0, 0, 0, torch.tensor([0])],
        lambda x: x[torch.tensor([0.5])],
        lambda x: x[torch.tensor([True, False])],
        lambda x: x.index_put(
            (torch.tensor([5], device=x.device),), torch.ones(4, 5, device=x.device)
        ),
        lambda x: x.index_put(
            (torch.tensor([1], device=x.device),), torch.ones(3, 5, device=x.device)
        ),
        lambda x: x.index_select(0, torch.tensor([-1], device=x.device)),
        lambda x: x.index_select(0, torch.tensor([3], device=x.device)),
        lambda x: x.gather(0, torch.tensor([[[3]]], device=x.device)),
        lambda x: x.scatter(0, torch.tensor([[[-4]]], device=x.device), 1.0),
        lambda x: x.take(torch.tensor([60], device=x.device)),
        lambda x: x.index_fill(0, torch.tensor([3], device=x.device), 0),
        lambda x: x.index_copy(0, torch.tensor([3], device=x.device), x[:1]),
        lambda x: x.masked_scatter(torch.ones((), dtype=torch.bool, device=x.device), x[:1]),
        lambda x: torch.nn.functional.embedding(torch.tensor([4], device=x.device), x[0]),
    ],
)
def test_errors(function):
    compare_errors(function, FLOATING)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode):
    F = torch.nn.functional
    weight = torch.randn(7, 3, requires_grad=True)
    index, offsets = torch.tensor([0, 6, 6, 2, 0, 3]), torch.tensor([0, 2, 2, 5])
    compare(
        lambda w, i, o: F.embedding_bag(i, w, o, mode=mode), weight, index, offsets, backward=True
    )
    compare(
        lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, padding_idx=6),
        weight,
        index,
        offsets,
        backward=True,
    )
    compare(lambda w, i: F.embedding_bag(i, w, mode=mode), weight, index.view(2, 3), backward=True)
    compare(
        lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, include_last_offset=True),
        weight,
        index,
        torch.tensor([0, 2, 6]),
        backward=True,
    )
    if mode == "sum":
        samples = torch.randn(6, requires_grad=True)
        compare(
            lambda w, i, o, s: F.embedding_bag(i, w, o, mode=mode, per_sample_weights=s),
            weight,
            index,
            offsets,
            samples,
            backward=True,
        )


def test_embedding_bag_scaled_by_frequency():
    # PyTorch's CPU kernel takes the counts of other rows here, so the numbers stand in the test.
    weight = torch.randn(7, 3).to("xla").requires_grad_()
    index, offsets = torch.tensor([0, 6, 6, 2, 0, 3]), torch.tensor([0, 2, 2, 5])
    bags = torch.nn.functional.embedding_bag(
        index.to("xla"), weight, offsets.to("xla"), mode="sum", scale_grad_by_freq=True
    )
    bags.backward(torch.ones(4, 3, device="xla"))
    assert weight.grad.cpu()[:, 0].tolist() == [1, 0, 1, 1, 0, 0, 1]


def test_embedding_bag_refuses_sparse_gradients_in_backward():
    F = torch.nn.functional
    weight, index = torch.randn(6, 4), torch.tensor([[1, 3], [1, 5]])
    compare(lambda w, i: F.embedding_bag(i, w, sparse=True), weight, index)
    bags = F.embedding_bag(index.to("xla"), weight.to("xla").requires_grad_(), sparse=True)
    with pytest.raises(NotImplementedError, match="sparse"):
        bags.sum().backward()


@pytest.mark.parametrize("device", ["cpu", "xla"])
def test_a_uint8_mask_warns(device):
    mask = MASK.to(torch.uint8).to(device)
    with pytest.warns(UserWarning, match="indexing with dtype torch.uint8 is now deprecated"):
        seen = FLOATING[:, :, 0].to(device)[mask]
    assert seen.cpu().equal(FLOATING[:, :, 0][MASK])

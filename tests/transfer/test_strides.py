"""What `.to("xla")` keeps: strides as PyTorch preserves them, values, dtypes; one pass a tensor."""

import pytest
import torch

import torch_pjrt


def counted(name):
    return torch_pjrt.metrics.snapshot().get(name, 0)


def layouts():
    x = torch.arange(360.0).reshape(4, 5, 3, 6)
    return {
        "contiguous": x,
        "permuted": x.permute(2, 0, 3, 1),
        "channels last": x.contiguous(memory_format=torch.channels_last),
        "gaps": x[:, ::2],
        "permuted with gaps": x.permute(1, 3, 0, 2)[..., ::2],
        "offset": x[1:, 2],
        "expanded": x[:1].expand(3, 5, 3, 6),
        "stride of size 1": torch.empty_strided((1, 3), (7, 1)).fill_(2),
        "scalar": torch.tensor(3.5),
        "empty": torch.empty(0, 3),
    }


@pytest.mark.parametrize("name", layouts())
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32])
def test_strides_and_values_are_those_of_pytorch(name, dtype):
    tensor = layouts()[name]
    moved = tensor.to("xla", dtype)
    # The CPU copies only when something changes: a cast there has the strides of a copy.
    expected = tensor.to(torch.complex64)
    assert moved.stride() == expected.stride()
    assert moved.dtype == dtype
    assert torch.equal(moved.cpu(), tensor.to(dtype))
    assert moved.cpu().stride() == moved.stride()


@pytest.mark.parametrize("name", layouts())
def test_memory_formats_are_followed(name):
    tensor = layouts()[name]
    moved = tensor.to("xla", memory_format=torch.contiguous_format)
    assert moved.is_contiguous()
    assert torch.equal(moved.cpu(), tensor)
    if tensor.dim() == 4:
        last = tensor.to("xla", memory_format=torch.channels_last)
        assert last.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(last.cpu(), tensor)


def test_a_dense_permuted_tensor_goes_flat():
    tensor = torch.rand(600, 700).t()
    before = counted("transfer.host_to_device.packed.calls")
    flat = counted("transfer.host_to_device.flat.calls")
    moved = tensor.to("xla")
    assert counted("transfer.host_to_device.packed.calls") == before
    assert counted("transfer.host_to_device.flat.calls") == flat + 1
    assert torch.equal((moved + 1).cpu(), tensor + 1)
    assert (moved + 1).stride() == (tensor + 1).stride()


def test_a_cast_takes_one_pass():
    tensor = torch.rand(700, 600, dtype=torch.float64).t()
    names = [
        "transfer.cast.calls",
        "transfer.cast.Double_to_Float",
        "transfer.host_to_device.calls",
    ]
    before = [counted(name) for name in names]
    moved = tensor.to("xla", torch.float32)
    assert [counted(name) for name in names] == [figure + 1 for figure in before]
    assert torch.equal(moved.cpu(), tensor.to(torch.float32))


def test_conjugate_and_negative_views_are_resolved():
    x = torch.view_as_complex(torch.randn(3, 4, 2))
    for tensor in (x.conj(), x.conj().imag, x.t().conj()):
        moved = tensor.to("xla")
        assert not moved.is_conj() and not moved.is_neg()
        assert torch.equal(moved.cpu(), tensor.resolve_conj().resolve_neg())


def test_gradients_flow_through_a_move_with_a_cast():
    x = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    (x.t().to("xla", torch.float32) * 2).sum().backward()
    assert x.grad.dtype == torch.float64
    assert torch.equal(x.grad, torch.full((3, 4), 2.0, dtype=torch.float64))


def test_the_source_may_change_after_the_call():
    for numel in (3, 1 << 20):
        tensor = torch.ones(numel)
        moved = tensor.to("xla")
        tensor.fill_(7)
        assert (moved.cpu() == 1).all()


@pytest.mark.parametrize(
    "sizes, strides", [((3, 0, 5), (0, 12, 1)), ((5, 3), (1, 5)), ((0, 3), (1, 0))]
)
def test_copies_keep_the_strides_of_small_and_of_empty_tensors(sizes, strides):
    source = torch.arange(400.0).as_strided(sizes, strides)
    device = torch.arange(400.0, device="xla").as_strided(sizes, strides)
    for copy in (source.to("xla"), device.cpu(), device.clone(), device.cpu().to(torch.float64)):
        assert copy.stride() == source.clone().stride()
    assert device.to("cpu", torch.float64).stride() == source.to(torch.float64).stride()

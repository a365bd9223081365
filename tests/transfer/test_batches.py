"""`torch_pjrt.transfer`: many tensors at once give what `.to` gives one by one."""

import pytest
import torch

import torch_pjrt
from torch_pjrt.transfer import to_device, to_host


def tensors():
    torch.manual_seed(0)
    x = torch.rand(300, 400)
    return [
        *(torch.rand(n, 37) for n in range(1, 120)),
        x,
        x.t(),
        x[:, ::3],
        x[:5].expand(2, 5, 400),
        torch.tensor(2),
        torch.empty(0, 4),
        torch.arange(5000) % 2 == 0,
        torch.rand(20, 30).to(torch.bfloat16),
        torch.view_as_complex(torch.rand(9, 2)).conj(),
    ]


def test_a_batch_is_what_one_by_one_is():
    sources = tensors()
    moved = to_device(sources)
    for source, tensor in zip(sources, moved, strict=True):
        assert tensor.device == torch.device("xla:0")
        assert tensor.dtype == source.dtype
        assert tensor.stride() == source.to("xla").stride()
        assert torch.equal(tensor.cpu(), source.resolve_conj())
    for tensor, back in zip(moved, to_host(moved), strict=True):
        assert back.device.type == "cpu"
        assert back.stride() == tensor.cpu().stride()
        assert torch.equal(back, tensor.cpu())


def test_views_on_the_device_come_back_too():
    x = torch.arange(24.0, device="xla").reshape(4, 6)
    pending = [x + 1, x.t(), x[1:, ::2], x[2]]
    for got, wanted in zip(to_host(pending), [t.cpu() for t in pending], strict=True):
        assert torch.equal(got, wanted)
        assert got.stride() == wanted.stride()


def test_what_is_there_already_is_returned_as_it_is():
    here, there = torch.ones(2), torch.ones(2, device="xla")
    assert to_host([here])[0] is here
    assert to_device([there])[0] is there


def test_copies_share_no_memory():
    x = torch.zeros(5000)
    first, second, view = to_device([x, x, x[:2500]])
    first += 1
    assert (second.cpu() == 0).all() and (view.cpu() == 0).all()
    x.fill_(9)
    assert (first.cpu() == 1).all()


def test_gradients_flow():
    x, plain = torch.ones(3, requires_grad=True), torch.ones(3)
    moved, other = to_device([x, plain])
    assert not other.requires_grad
    (back,) = to_host([moved * 3])
    back.sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 3.0))
    with torch.no_grad():
        assert not to_device([x])[0].requires_grad


def test_subclasses_stay_subclasses():
    class Labelled(torch.Tensor):
        pass

    (moved,) = to_device([torch.ones(2).as_subclass(Labelled)])
    assert type(moved) is Labelled
    assert type(to_host([moved])[0]) is Labelled


def test_any_iterable_will_do():
    assert [t.item() for t in to_host(to_device(torch.tensor(i) for i in range(3)))] == [0, 1, 2]
    assert to_device([]) == [] == to_host([])


@pytest.mark.parametrize("function", [to_device, to_host])
def test_wrong_arguments_are_named(function):
    with pytest.raises(TypeError, match="position 1; got int"):
        function([torch.ones(1), 3])
    with pytest.raises(TypeError, match="one tensor instead of several"):
        function(torch.ones(2, 2))


def test_a_wrong_device_is_named():
    with pytest.raises(ValueError, match="got cpu, expected xla"):
        to_device([torch.ones(1)], "cpu")
    with pytest.raises(RuntimeError):
        to_device([torch.ones(1)], f"xla:{torch.xla.device_count()}")


def test_an_error_of_one_leaves_the_next_batch_right():
    sources = [torch.ones(5000), torch.empty(2, dtype=torch.bits8), torch.ones(3000)]
    with pytest.raises(TypeError, match="Bits8"):
        to_device(sources)
    assert all((t.cpu() == 1).all() for t in to_device(sources[::2]))


def test_memory_of_a_batch_goes_back_to_the_pool():
    to_host(to_device([torch.rand(16384) for _ in range(100)]))
    torch_pjrt.sync()
    before = torch_pjrt.metrics.snapshot()["pool.bytes_in_use"]
    moved = to_device([torch.rand(16384) for _ in range(100)])
    assert torch_pjrt.metrics.snapshot()["pool.bytes_in_use"] > before
    del moved
    torch_pjrt.sync()
    assert torch_pjrt.metrics.snapshot()["pool.bytes_in_use"] == before

"""`non_blocking=True`: complete after `synchronize`, in order, and never a wrong value after it."""

import pytest
import torch

import torch_pjrt


def slow(x):
    """Takes the device some tens of milliseconds."""
    for _ in range(12):
        x = x @ x / 700
    return x


@pytest.fixture(scope="module")
def operand():
    torch.manual_seed(0)
    return torch.rand(700, 700)


def test_a_copy_to_the_host_is_complete_after_synchronize(operand):
    expected = slow(operand.to("xla")).cpu()
    result = slow(operand.to("xla"))
    copies = [result.to("cpu", non_blocking=True) for _ in range(3)]
    target = torch.empty(700, 700).t()
    target.copy_(result, non_blocking=True)
    torch.xla.synchronize()
    for copy in (*copies, target):
        assert torch.equal(copy, expected)


def test_later_copies_come_after_it(operand):
    x, other = operand.to("xla"), torch.full((700, 700), 3.0, device="xla")
    expected = slow(x).cpu()
    target = torch.empty(700, 700)
    target.copy_(slow(x), non_blocking=True)
    assert torch.equal(target.to("xla").cpu(), expected)  # reads what is on its way
    target.copy_(slow(x), non_blocking=True)
    target.copy_(other)
    torch.xla.synchronize()
    assert (target == 3).all()


def test_a_target_may_be_dropped(operand):
    for _ in range(3):
        slow(operand.to("xla")).to("cpu", non_blocking=True)
    torch.xla.synchronize()


def test_casts_and_views_are_right_too(operand):
    x = slow(operand.to("xla"))
    cast = x.to("cpu", torch.float64, non_blocking=True)
    view = x.t()[1:].to("cpu", non_blocking=True)
    torch.xla.synchronize()
    assert torch.equal(cast, x.cpu().double())
    assert torch.equal(view, x.cpu().t()[1:])


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_copy_to_the_device_keeps_its_source(operand, is_shared):
    torch_pjrt._C.set_host_memory_sharing(is_shared)
    try:
        moved = [(operand + i).to("xla", non_blocking=True) for i in range(5)]
        torch.xla.synchronize()
        for i, tensor in enumerate(moved):
            assert torch.equal(tensor.cpu(), operand + i)
    finally:
        torch_pjrt._C.set_host_memory_sharing(True)


def test_an_index_on_the_cpu_works_as_on_cuda():
    x = torch.arange(12.0, device="xla").reshape(4, 3)
    index, mask = torch.tensor([2, 0]), torch.tensor([True, False, True, False])
    assert torch.equal(x[index].cpu(), x.cpu()[index])
    assert torch.equal(x[mask].cpu(), x.cpu()[mask])
    assert torch.equal(x[index, torch.tensor([1, 2], device="xla")].cpu(), torch.tensor([7.0, 2.0]))
    x[index] = 5
    x[mask, 1] = torch.tensor([8.0, 9.0], device="xla")
    assert x.cpu().tolist() == [[5, 8, 5], [3, 4, 5], [5, 9, 5], [9, 10, 11]]

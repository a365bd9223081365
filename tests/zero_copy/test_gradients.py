"""Gradients through `.to()` in both directions equal those of a graph on cpu alone, and come back
without a copy where the forward pass made none."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import torch_pjrt
from sharing import address, count
from torch_pjrt import zero_copy

SHAPE = (64, 64)
CROSSING = ("transfer.host_to_device", "transfer.device_to_host")


@pytest.fixture(params=[True, False], ids=["zero_copy", "copies"], autouse=True)
def sharing_mode(request):
    with zero_copy(request.param):
        yield request.param


def leaf(device, seed=0):
    values = torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed))
    return values.to(device).requires_grad_()


def away(x, device="xla"):
    """`x` on a device, or where it is when everything is to be on cpu."""
    return x if device is None else x.to(device)


def both(function):
    """The function's results where `away` moves tensors, and where nothing moves."""
    moved = function("xla", "cpu")
    stayed = function(None, None)
    for found, expected in zip(moved, stayed, strict=True):
        torch.testing.assert_close(found.detach().cpu(), expected.detach(), rtol=1e-4, atol=1e-5)
    return moved


def test_one_crossing_each_way():
    def there(xla, cpu):
        a = leaf("cpu")
        (away(a, xla) * 3).sum().backward()
        assert a.grad.device.type == "cpu"
        return [a.grad]

    def back(xla, cpu):
        a = leaf(xla or "cpu")
        (away(a, cpu) ** 2).sum().backward()
        assert a.grad.device == a.device
        return [a.grad]

    both(there)
    both(back)


def test_many_crossings():
    def function(xla, cpu):
        a, b = leaf("cpu", 1), leaf(xla or "cpu", 2)
        x = a
        for _ in range(3):
            x = torch.tanh(away(x, xla) + b)
            x = torch.sin(away(x, cpu)) * a
        x.sum().backward()
        assert a.grad.device.type == "cpu" and b.grad.device == b.device
        return [x, a.grad, b.grad]

    both(function)


def test_gradients_of_values_that_are_no_leaves():
    def function(xla, cpu):
        a = leaf("cpu")
        middle = away(a * 2, xla)
        middle.retain_grad()
        end = away(middle * middle, cpu)
        end.retain_grad()
        end.exp().mean().backward()
        assert middle.grad.device == middle.device and end.grad.device == end.device
        return [a.grad, middle.grad, end.grad]

    both(function)


def test_double_backward():
    def function(xla, cpu):
        a = leaf("cpu")
        x = away(a, xla)
        loss = (away(x**3, cpu) * a).sum()
        (first,) = torch.autograd.grad(loss, a, create_graph=True)
        (second,) = torch.autograd.grad((away(first, xla) ** 2).sum(), a, create_graph=True)
        (third,) = torch.autograd.grad(second.sum(), a)
        assert all(g.device.type == "cpu" for g in (first, second, third))
        return [first, second, third]

    both(function)


def test_hooks():
    def function(xla, cpu):
        seen = []
        a = leaf("cpu")
        x = away(a, xla)
        y = away(x * 2, cpu)
        x.register_hook(lambda g: seen.append(g.clone()) or g * 3)
        y.register_hook(lambda g: g + 1)
        a.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.clone()))
        y.sum().backward()
        assert xla is None or [g.device.type for g in seen] == ["xla", "cpu"]
        return [a.grad, *seen]

    both(function)


def test_no_grad_and_detach():
    def function(xla, cpu):
        a = leaf("cpu")
        with torch.no_grad():
            fixed = away(away(a, xla) * 2, cpu)
        assert not fixed.requires_grad
        held = away(away(a, xla).detach() + 1, cpu)
        (away(a, xla) * away(held, xla) + away(fixed, xla)).sum().backward()
        return [fixed, held, a.grad]

    both(function)


def test_inference_mode():
    with torch.inference_mode():
        a = leaf("cpu")
        assert torch.equal(a.to("xla").to("cpu"), a)


def test_retain_graph_and_accumulation():
    def function(xla, cpu):
        a = leaf("cpu")
        loss = away(torch.sin(away(a, xla)), cpu).sum()
        loss.backward(retain_graph=True)
        first = a.grad.clone()
        loss.backward(retain_graph=True)
        second = a.grad.clone()
        loss.backward()
        return [first, second, a.grad]

    both(function)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing(reentrant):
    def function(xla, cpu):
        a, weight = leaf("cpu", 1), leaf(xla or "cpu", 2)

        def block(x):
            x = torch.tanh(away(x, xla) @ weight)
            return torch.sin(away(x, cpu))

        x = checkpoint(block, a * 1, use_reentrant=reentrant)
        x.sum().backward()
        return [a.grad, weight.grad]

    both(function)


def test_in_place_writes_between_crossings():
    def function(xla, cpu):
        a = leaf("cpu")
        x = away(a * 2, xla).mul_(3)
        y = away(x, cpu).add_(1)
        y[:2] = 0
        z = away(y, xla)
        z.neg_()
        z.sum().backward()
        return [z, a.grad]

    both(function)


def test_a_saved_tensor_that_is_written_is_noticed():
    a = leaf("cpu")
    y = a.to("xla").to("cpu")
    loss = (y * y).sum()
    with torch.no_grad():
        y.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_forward_mode():
    a, tangent = leaf("cpu").detach(), torch.ones(SHAPE)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(a, tangent)
        out = (dual.to("xla") * 3).to("cpu")
        _, found = torch.autograd.forward_ad.unpack_dual(out)
    assert torch.equal(found, 3 * tangent)


def layers():
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(3)]


class Mixed(nn.Module):
    def __init__(self, devices):
        super().__init__()
        self.blocks = nn.ModuleList(layers())
        self.devices = devices
        for block, device in zip(self.blocks, devices, strict=True):
            block.to(device)

    def forward(self, x):
        for block, device in zip(self.blocks, self.devices, strict=True):
            x = block(x.to(device))
        return x


@pytest.mark.parametrize("devices", [("xla", "cpu", "xla"), ("cpu", "xla", "cpu")])
def test_a_block_of_the_other_kind_in_the_middle(devices, sharing_mode):
    mixed, plain = Mixed(devices), Mixed(("cpu",) * 3)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (mixed, plain)]
    data = torch.randn(64, 64, generator=torch.Generator().manual_seed(1))
    batch = data.to(devices[0])
    for step in range(4):
        before = {name: traffic(name) for name in CROSSING}
        for model, optimizer in zip((mixed, plain), optimizers, strict=True):
            optimizer.zero_grad()
            model(batch if model is mixed else data).square().mean().backward()
            optimizer.step()
        torch_pjrt.sync()
        crossed = {name: traffic(name) - was for name, was in before.items()}
        # Two borders, once forward and once back: of each direction two.
        nbytes = 4 * 64 * 64
        copied = {name: crossed[name].real - crossed[name].imag for name in CROSSING}
        if step:
            assert [int(crossed[name].real) for name in CROSSING] == [2 * nbytes] * 2
            if sharing_mode:
                assert list(copied.values()) == [0, 0]
            else:
                assert copied["transfer.device_to_host"] == 0
    for found, expected in zip(mixed.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(found.detach().cpu(), expected.detach(), rtol=1e-4, atol=1e-5)


def traffic(name):
    """Bytes that crossed, and, as the imaginary part, those that were shared."""
    return complex(count(f"{name}.bytes"), count(f"{name}.adopted.bytes"))


def test_the_choice_holds_for_a_backward_after_it():
    x = leaf("xla")
    grads = {}
    for shared in (True, False):
        with zero_copy(shared):
            y = (x * 1).to("cpu")
        with zero_copy(False) if shared else zero_copy(False):
            z = y * 2
        before = count("transfer.host_to_device.adopted.calls")
        torch_pjrt._C.choose_zero_copy(None)
        (grads[shared],) = torch.autograd.grad(z.sum(), x)
        assert count("transfer.host_to_device.adopted.calls") == before + shared
    assert torch.equal(grads[True].cpu(), grads[False].cpu())


def test_the_choice_survives_a_second_backward_and_a_copy_of_the_graph():
    x = leaf("xla")
    with zero_copy():
        y = (x * 1).to("cpu")
    torch_pjrt._C.choose_zero_copy(None)
    loss = (y * y).sum()
    for _ in range(2):
        before = count("transfer.host_to_device.adopted.calls")
        torch.autograd.grad(loss, x, retain_graph=True)
        assert count("transfer.host_to_device.adopted.calls") == before + 1


def test_a_leafs_gradient_is_the_exported_memory():
    a = leaf("cpu")
    kept = []
    x = a.to("xla")
    x.register_hook(kept.append)
    (x * 2).sum().backward()
    assert address(a.grad) == address(kept[0])
    twin = copy.deepcopy(a.grad)
    a.grad.zero_()
    assert torch.equal(kept[0].cpu(), twin)

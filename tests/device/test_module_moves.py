"""module.to("xla") and back: identity of Parameters, ties, optimizers, gradients."""

import gc
import weakref

import pytest
import torch
import torch.testing._internal.two_tensor


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        return self.second(self.first(x)) * self.scale


def test_parameters_keep_their_identity_both_ways():
    module = Tied()
    before = list(module.parameters())
    values = [p.detach().clone() for p in before]
    for device in ("xla", "cpu", "xla"):
        module.to(device)
        after = list(module.parameters())
        assert all(p is q for p, q in zip(before, after, strict=True))
        assert all(isinstance(p, torch.nn.Parameter) and p.requires_grad for p in after)
        assert {p.device.type for p in after} == {device}
        assert module.scale.device.type == device
        for p, value in zip(after, values, strict=True):
            torch.testing.assert_close(p.detach().cpu(), value, rtol=0, atol=0)


def test_tied_weights_stay_tied():
    module = Tied().to("xla")
    assert module.first.weight is module.second.weight
    with torch.no_grad():
        module.first.weight.fill_(2)
    assert (module.second.weight.cpu() == 2).all()


def test_optimizer_made_before_the_move_updates_the_moved_parameters():
    module = Tied()
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    module.to("xla")
    before = module.first.bias.detach().cpu()
    module(torch.ones(2, 4, device="xla")).sum().backward()
    optimizer.step()
    assert not torch.equal(module.first.bias.detach().cpu(), before)


def test_gradients_move_along():
    module = torch.nn.Linear(3, 2)
    module(torch.ones(1, 3)).sum().backward()
    expected = module.weight.grad.clone()
    module.to("xla")
    assert module.weight.grad.device.type == "xla"
    torch.testing.assert_close(module.weight.grad.cpu(), expected, rtol=0, atol=0)


def test_dtype_and_device_change_together():
    module = torch.nn.Linear(3, 2)
    weight = module.weight
    module.to("xla", torch.bfloat16)
    assert module.weight is weight
    assert weight.dtype == torch.bfloat16 and weight.device.type == "xla"


def test_a_function_is_applied_once_to_what_stays():
    module, calls = Tied(), []
    module._apply(lambda t: (calls.append(t), t.double())[1])
    assert len(calls) == 5  # four parameters' places, of which two are tied, and a buffer
    assert {t.dtype for t in module.state_dict().values()} == {torch.float64}
    assert module.first.weight is module.second.weight


def test_frozen_parameters_stay_frozen():
    module = torch.nn.Linear(3, 2).requires_grad_(False).to("xla")
    assert not module.weight.requires_grad


def test_hooks_move_along():
    module, seen = torch.nn.Linear(3, 2), []
    handle = module.weight.register_hook(lambda gradient: gradient * 2)
    module.bias.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.device.type))
    for device in ("xla", "cpu"):
        module.to(device).zero_grad()
        module(torch.ones(1, 3, device=device)).sum().backward()
        assert module.weight.grad.tolist() == [[2.0] * 3] * 2
        assert seen.pop() == device and not seen
    handle.remove()
    module.to("xla").zero_grad()
    module(torch.ones(1, 3, device="xla")).sum().backward()
    assert module.weight.grad.tolist() == [[1.0] * 3] * 2


def test_a_module_moves_while_graphs_views_and_weak_references_hold_its_parameters():
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    weight, reference = module[2].weight, weakref.ref(module[2].weight)
    module.to("xla")
    x = torch.ones(3, 4, device="xla")
    view, result = module[2].weight.t(), module(x)
    module.to("cpu")
    assert module[2].weight is weight is reference()
    assert view.device.type == "xla"
    expected = module(x.cpu())
    torch.testing.assert_close(result.cpu(), expected)
    with pytest.raises(RuntimeError, match="has moved to another device"):
        result.sum().backward()
    expected.sum().backward()
    assert weight.grad.device.type == "cpu"
    del view, result
    gc.collect()
    torch.testing.assert_close(module(x.cpu()), expected)


def test_a_recurrent_module_moves_after_use():
    module = torch.nn.LSTM(3, 4).to("xla")
    x = torch.ones(2, 1, 3)
    result, _ = module(x.to("xla"))
    torch.testing.assert_close(module.to("cpu")(x)[0], result.cpu())


def test_lazy_modules_move_before_they_know_their_shapes():
    module = torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.LazyBatchNorm1d()).to("xla")
    weight = module[0].weight
    assert isinstance(weight, torch.nn.UninitializedParameter) and weight.device.type == "xla"
    module.to("cpu").to("xla")
    assert module(torch.ones(2, 3, device="xla")).shape == (2, 4)
    assert module[0].weight is weight and type(weight) is torch.nn.Parameter
    assert {t.device.type for t in (*module.parameters(), *module.buffers())} == {"xla"}


def test_subclasses_of_tensors_move_with_their_inner_tensors():
    two = torch.testing._internal.two_tensor.TwoTensor(torch.ones(2, 3), torch.zeros(2, 3))
    module = torch.nn.Linear(3, 2, bias=False)
    module.weight = weight = torch.nn.Parameter(two)
    module.to("xla")
    assert module.weight is weight and weight.b.device.type == "xla"
    assert module(torch.ones(1, 3, device="xla")).a.tolist() == [[3.0, 3.0]]

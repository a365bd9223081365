"""Pickle, torch.save and torch.load, and deepcopy: values, devices, and who shares what."""

import copy
import io
import pickle

import pytest
import torch


def aliased(device):
    base = torch.arange(12.0, device=device).reshape(3, 4)
    return {
        "base": base,
        "view": base.t()[1:],
        "other": torch.ones(2, dtype=torch.int64).to(device),
    }


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def assert_still_aliased(copied, original):
    assert copied["view"].untyped_storage()._cdata == copied["base"].untyped_storage()._cdata
    assert copied["view"].stride() == original["view"].stride()
    copied["base"].zero_()
    assert (copied["view"].cpu() == 0).all()
    assert (original["base"].cpu() == torch.arange(12.0).reshape(3, 4)).all()


@pytest.mark.parametrize("how", ["deepcopy", "save"])
def test_aliasing_is_kept(how):
    original = aliased("xla")
    copied = {
        "deepcopy": copy.deepcopy,
        "save": lambda value: torch.load(saved(value)),
    }[how](original)
    for name, tensor in original.items():
        assert copied[name].device == tensor.device
        assert copied[name].dtype == tensor.dtype
        assert torch.equal(copied[name].cpu(), tensor.cpu())
    assert_still_aliased(copied, original)


def test_pickle_keeps_values_views_and_devices():
    original = aliased("xla")
    copied = pickle.loads(pickle.dumps(original))
    for name, tensor in original.items():
        assert copied[name].device == tensor.device
        assert copied[name].stride() == tensor.stride()
        assert torch.equal(copied[name].cpu(), tensor.cpu())


@pytest.mark.parametrize(("source", "target"), [("cpu", "xla"), ("xla", "cpu"), ("xla", "xla:0")])
def test_map_location(source, target):
    loaded = torch.load(saved(aliased(source)), map_location=target)
    assert {t.device.type for t in loaded.values()} == {torch.device(target).type}
    assert torch.equal(loaded["base"].cpu(), torch.arange(12.0).reshape(3, 4))
    assert_still_aliased(loaded, aliased("cpu"))


def test_state_dicts_of_module_and_optimizer():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2).to("xla")
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 4, device="xla")).sum().backward()
    optimizer.step()
    state = torch.load(
        saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()}),
        map_location="cpu",
    )
    twin = torch.nn.Linear(4, 2)
    twin.load_state_dict(state["model"])
    torch.optim.Adam(twin.parameters()).load_state_dict(state["optimizer"])
    assert torch.equal(twin.weight, model.weight.cpu())


@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.complex64, torch.uint16])
def test_dtypes(dtype):
    tensor = torch.tensor([0, 1, 1, 0]).to(dtype)
    assert torch.equal(torch.load(saved(tensor.to("xla"))).cpu(), tensor)
    assert torch.equal(copy.deepcopy(tensor.to("xla")).cpu(), tensor)


def test_deepcopy_keeps_gradients_and_attributes():
    tensor = torch.ones(3, device="xla", requires_grad=True)
    tensor.grad = torch.full((3,), 2.0, device="xla")
    tensor.note = ["kept"]
    twin = copy.deepcopy(tensor)
    assert twin.requires_grad
    assert (twin.grad.cpu() == 2).all() and twin.grad is not tensor.grad
    assert twin.note == ["kept"] and twin.note is not tensor.note


def test_deepcopy_of_a_module_keeps_ties():
    module = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]).to("xla")
    module[1].weight = module[0].weight
    twin = copy.deepcopy(module)
    assert twin[0].weight is twin[1].weight and twin[0].weight is not module[0].weight
    assert isinstance(twin[0].weight, torch.nn.Parameter)


def test_deepcopy_of_a_result_is_refused_as_on_cpu():
    result = torch.ones(3, device="xla", requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(result)


def test_missing_device_is_named():
    file = saved(torch.ones(2, device="xla"))
    with pytest.raises(RuntimeError, match="there is no such device"):
        torch.load(file, map_location="xla:7")

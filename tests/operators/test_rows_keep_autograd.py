"""A row on an operator that PyTorch composes would cut its gradient off: it has one of autograd."""

import torch

from agreement import compare

WITHOUT_GRADIENT = {"aten::isfinite"}  # their results are bool


def test_no_row_hides_a_composite_that_differentiates():
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    hidden = {
        name
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::")
        and has(name, "XLA")
        and has(name, "CompositeImplicitAutograd")
        and not has(name, "Autograd")
        and not has(name, "AutogradXLA")
    }
    assert hidden <= WITHOUT_GRADIENT


def test_rows_of_autograd_hold_in_inference_mode():
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    rows = {
        name
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::") and has(name, "AutogradXLA")
    }
    assert "aten::linear" in rows
    assert {name for name in rows if not has(name, "XLA")} == set()

    x, at, bias = torch.rand(3, 4), torch.tensor([1, 2]), torch.rand(1, 3)
    with torch.inference_mode():
        compare(lambda x, at: x.tensor_split(at), x, at)
        compare(lambda x, bias: torch.nn.functional.linear(x[0], x, bias), x, bias)

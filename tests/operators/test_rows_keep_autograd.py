"""A row on an operator that PyTorch composes would cut its gradient off."""

import torch

import torch_pjrt  # noqa: F401

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

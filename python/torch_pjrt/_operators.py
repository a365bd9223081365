"""`torch_pjrt.operators()`: how device xla runs each operator of PyTorch."""

from typing import NamedTuple

import torch

from . import _C, _decompositions

ROUTES = {
    "lowered": "a row of `cpp/aten/ops` or of the backend's own kernels",
    "composite": "PyTorch's own code, made of other operators",
    "variant": "the functional operator, then a copy of its result",
    "decomposed": "PyTorch's decomposition into other operators",
    "fallback": "on the CPU, counted as `fallback.<operator>`",
}


class OperatorRoute(NamedTuple):
    """An aten operator, its overload ("" for the default one) and its key of `ROUTES`."""

    name: str
    overload: str
    route: str
    core: bool


def operators() -> list[OperatorRoute]:
    """The core operators and all functional ones that make a tensor, by name.

    Asking registers PyTorch's decompositions, as the first call of each operator would.
    """
    found = []
    for full_name in sorted(torch._C._dispatch_get_all_op_names()):
        if not full_name.startswith("aten::"):
            continue
        name, _, overload = full_name.removeprefix("aten::").partition(".")
        operator = getattr(getattr(torch.ops.aten, name, None), overload or "default", None)
        if operator is None or not _makes_a_tensor(operator._schema):
            continue
        core = torch.Tag.core in operator.tags
        if core or not (operator._schema.is_mutable or name.startswith("_")):
            found.append(OperatorRoute(name, overload, _route(name, overload), core))
    return found


def _makes_a_tensor(schema: torch._C.FunctionSchema) -> bool:
    return any("Tensor" in str(result.type) for result in schema.returns)


def _route(name: str, overload: str) -> str:
    route = _C.route_of(f"aten::{name}", overload)
    return "decomposed" if (name, overload) in _decompositions.registered else route

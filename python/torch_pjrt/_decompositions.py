"""PyTorch's own decompositions, as kernels of operators that have no row in `cpp/aten/ops`.

They are looked up when such an operator is first called: importing them all takes seconds.
"""

import inspect
import threading

import torch

from . import _C

_library = torch.library.Library("aten", "IMPL")

# Name and overload of each operator that got its decomposition.
registered: set[tuple[str, str]] = set()
# Two threads may call an operator for the first time; PyTorch refuses a second registration.
_lock = threading.Lock()


def _register(name: str, overload: str) -> bool:
    operator = getattr(getattr(torch.ops.aten, name), overload or "default")
    if torch.Tag.nondeterministic_seeded in operator.tags:
        return False  # they would draw from another stream
    decomposition = torch._decomp.decomposition_table.get(operator)
    # Entries from torch._refs are written with primitives that call the operator itself.
    module = getattr(inspect.unwrap(decomposition), "__module__", "") if decomposition else ""
    if not module.startswith("torch._decomp"):
        return False
    with _lock:
        if (name, overload) not in registered:
            _library.impl(operator, decomposition, "XLA")
            registered.add((name, overload))
    return True


def install() -> None:
    _C.set_decompositions(_register)

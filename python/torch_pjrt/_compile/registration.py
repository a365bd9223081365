"""Names the backends `pjrt` and `openxla` to Dynamo, without importing it.

PyTorch finds `pjrt` by the package's entry point where the package is installed. The stock backend
`openxla` imports torch_xla; ours takes its place once PyTorch has registered it.
"""

import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint

_GROUP = "torch_dynamo_backends"
_TARGET = "torch_pjrt._compile.backend:pjrt"
_REGISTRY = "torch._dynamo.backends.registry"
_STOCK_OPENXLA = "torch._dynamo.backends.torchxla"


def _name_backend(name: str) -> None:
    registry = sys.modules[_REGISTRY]
    registry._COMPILER_FNS.pop(name, None)
    # Loaded by PyTorch when somebody asks for this name.
    registry._BACKENDS[name] = EntryPoint(name, _TARGET, _GROUP)


_ACTIONS: dict[str, Callable[[], None]] = {
    _REGISTRY: lambda: _name_backend("pjrt"),
    _STOCK_OPENXLA: lambda: _name_backend("openxla"),
}


class _ThenAct(Loader):
    """Loads a module as its own loader does, then acts."""

    def __init__(self, loader: Loader, action: Callable[[], None]):
        self._loader, self._action = loader, action

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module) -> None:
        self._loader.exec_module(module)
        self._action()

    def __getattr__(self, name: str):
        return getattr(self._loader, name)


class _AfterImport(MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if fullname not in _ACTIONS:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenAct(spec.loader, _ACTIONS[fullname])
        return spec


def install() -> None:
    sys.meta_path.insert(0, _AfterImport())
    for module, action in _ACTIONS.items():
        if module in sys.modules:
            action()

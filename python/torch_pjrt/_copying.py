"""Pickling, `torch.save`, `torch.load` and `copy.deepcopy` of xla tensors, with aliasing kept.

PyTorch sends xla tensors through NumPy or a clone, one by one, and so loses which of them share a
storage. Here they go the way of every other tensor: storage and view apart.
"""

import functools
from collections import OrderedDict

import torch

_PRIORITY = 15  # among PyTorch's own, which start at 10


def _location(storage) -> str | None:
    return str(storage.device) if storage.device.type == "xla" else None


def _restore(storage, location: str):
    if not location.startswith("xla"):
        return None
    device = torch.device(location)
    if device.index is not None and device.index >= torch.xla.device_count():
        raise RuntimeError(
            f"load a tensor saved on {location}: there is no such device; there are "
            f"{torch.xla.device_count()}; pass map_location='xla' or another device"
        )
    if isinstance(storage, torch.UntypedStorage):
        return _storage_on(storage, device)
    return torch.storage.TypedStorage(
        wrap_storage=_storage_on(storage._untyped_storage, device),
        dtype=storage.dtype,
        _internal=True,
    )


def _storage_on(storage: torch.UntypedStorage, device: torch.device) -> torch.UntypedStorage:
    host = torch.empty(0, dtype=torch.uint8).set_(storage)
    return host.to(device).untyped_storage()


def _reduce(tensor: torch.Tensor):
    """As Tensor._reduce_ex_internal does for devices with storages."""
    torch.utils.hooks.warn_if_has_hooks(tensor)
    geometry = (tensor.storage_offset(), tuple(tensor.size()), tensor.stride())
    gradient = (tensor.requires_grad, OrderedDict())
    if tensor.dtype in torch.storage._new_dtypes():
        return torch._utils._rebuild_tensor_v3, (
            tensor.untyped_storage(),
            *geometry,
            *gradient,
            tensor.dtype,
            torch._utils.get_tensor_metadata(tensor),
        )
    storage = torch.storage.TypedStorage(
        wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype, _internal=True
    )
    metadata = torch._utils.get_tensor_metadata(tensor)
    arguments = (storage, *geometry, *gradient)
    return torch._utils._rebuild_tensor_v2, arguments + ((metadata,) if metadata else ())


def _copy(tensor: torch.Tensor, memo: dict) -> torch.Tensor:
    key = ("torch_pjrt storage", tensor.untyped_storage()._cdata)
    with torch.no_grad():
        if key not in memo:
            source = tensor.untyped_storage()
            whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(
                source, 0, (source.nbytes() // tensor.element_size(),)
            )
            memo[key] = whole.clone().untyped_storage()
        copy = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(
            memo[key], tensor.storage_offset(), tensor.size(), tensor.stride()
        )
        if tensor.is_conj():
            copy = copy.conj_physical()
        if tensor.is_neg():
            copy = copy.neg()
    if type(tensor) is not torch.Tensor:
        copy = copy.as_subclass(type(tensor))
    copy.requires_grad_(tensor.requires_grad)
    memo[id(tensor)] = copy
    if tensor.grad is not None:
        copy.grad = tensor.grad.__deepcopy__(memo)
    copy.__dict__ = {name: _deep(value, memo) for name, value in tensor.__dict__.items()}
    return copy


def _deep(value, memo):
    import copy

    return copy.deepcopy(value, memo)


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
        and tensor.device.type == "xla"
        and tensor.layout == torch.strided
    )


def install() -> None:
    torch.serialization.register_package(_PRIORITY, _location, _restore)
    stock_reduce, stock_deepcopy = torch.Tensor._reduce_ex_internal, torch.Tensor.__deepcopy__

    @functools.wraps(stock_reduce)
    def _reduce_ex_internal(self, proto):
        return _reduce(self) if _is_plain(self) else stock_reduce(self, proto)

    @functools.wraps(stock_deepcopy)
    def __deepcopy__(self, memo):
        if not _is_plain(self) or not self.is_leaf:
            return stock_deepcopy(self, memo)
        return memo[id(self)] if id(self) in memo else _copy(self, memo)

    stock_write_file = torch.UntypedStorage._write_file

    @functools.wraps(stock_write_file)
    def _write_file(self, *arguments):
        # PyTorch reads the storage's address here; what is there is no host memory.
        return stock_write_file(self.cpu() if self.device.type == "xla" else self, *arguments)

    stock_set_from_file = torch.UntypedStorage._set_from_file

    @functools.wraps(stock_set_from_file)
    def _set_from_file(self, *arguments):
        if self.device.type != "xla":
            return stock_set_from_file(self, *arguments)
        host = torch.UntypedStorage(self.nbytes())
        stock_set_from_file(host, *arguments)
        return self.copy_(host, False)

    torch.UntypedStorage._write_file = _write_file
    torch.UntypedStorage._set_from_file = _set_from_file
    torch.Tensor._reduce_ex_internal = _reduce_ex_internal
    torch.Tensor.__deepcopy__ = __deepcopy__

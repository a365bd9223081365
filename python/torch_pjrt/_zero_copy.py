"""`zero_copy()`, `from_dlpack()` and DLPack for xla tensors."""

import contextlib
import functools
from collections.abc import Iterator

import torch

from . import _C
from . import xla as _xla

_NEWEST = (1, 3)
# What producers are given a stream for: DLPack's CUDA, ROCm and devices of others (kDLExtDev).
_STREAMED = (2, 10, 12)


@contextlib.contextmanager
def zero_copy(enabled: bool = True) -> Iterator[None]:
    """Let copies to a device share the memory of cpu tensors, copy-on-write, where that is safe.

    Holds for this thread, and for the gradients of what is recorded within. Neither tensor sees
    the other's writes; but a NumPy array or another library's alias of the cpu tensor that was
    made before writes to both, until the cpu tensor is next written by PyTorch. Memory that
    PyTorch cannot watch (NumPy's, shared between processes, pinned) is copied. Also a decorator.
    """
    before = _C.choose_zero_copy(bool(enabled))
    try:
        yield
    finally:
        _C.choose_zero_copy(before)


def from_dlpack(
    obj: object,
    *,
    device: "torch.device | int | str | None" = None,
    copy: bool | None = None,
) -> torch.Tensor:
    """An xla tensor that shares the memory of `obj`: an object with `__dlpack__`, or a capsule.

    `copy`: True always copies, False raises BufferError where the memory cannot be shared, None
    copies there. What the owner writes later shows in what has not been executed then; call
    `sync()` before. A write to the xla tensor is not seen by the owner and ends the sharing.
    """
    if isinstance(obj, torch.Tensor) and obj.device.type == "xla":
        target = obj.device if device is None else torch.device("xla", _xla._index(device))
        if copy is False and target != obj.device:
            raise BufferError(
                f"import an array by DLPack: it is on another device; got {obj.device}, expected "
                f"{target}; leave copy=False out"
            )
        return obj.detach().to(target, copy=bool(copy))
    index = _xla._index(device)
    capsule = _capsule(obj, copy, index) if hasattr(obj, "__dlpack__") else obj
    result = _C.from_dlpack(capsule, index, copy)
    if isinstance(obj, torch.Tensor) and _C.is_borrowed(result):
        _C.forbid_resize(obj)  # which would free the memory, as .numpy() forbids it
    return result


def _capsule(obj, copy: bool | None, index: int):
    if isinstance(obj, torch.Tensor) and not obj.requires_grad:
        # PyTorch's capsule keeps the tensor, which may be given other memory (`.data =`, `set_`).
        obj = obj.detach()
    # A copy that is asked for is made on its way to the device, once.
    options = {"copy": False} if copy is False else {}
    # PyTorch's own streams are ordered without one.
    if not isinstance(obj, torch.Tensor) and obj.__dlpack_device__()[0] in _STREAMED:
        stream = _C.dlpack_stream(index)
        if stream is not None:
            options["stream"] = stream
    for arguments in ({"max_version": _NEWEST, **options}, options, {}):
        try:
            return obj.__dlpack__(**arguments)
        except TypeError:
            if not arguments:
                raise
    raise AssertionError("unreachable")


def install() -> None:
    stock, stock_device = torch.Tensor.__dlpack__, torch.Tensor.__dlpack_device__

    class NotGiven(int):
        """PyTorch's default, -1, apart from a consumer's -1, which asks for no wait."""

    not_given = NotGiven(-1)

    @functools.wraps(stock)
    def __dlpack__(self, *, stream=not_given, max_version=None, dl_device=None, copy=None):
        if not isinstance(self, torch.Tensor) or self.device.type != "xla":
            stream = -1 if stream is not_given else stream
            return stock(
                self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
            )
        if stream is not None and not isinstance(stream, int):
            raise TypeError("stream must be ``int`` or ``none``")
        stream = None if stream is not_given else stream
        return _C.to_dlpack(
            self, max_version, dl_device and tuple(map(int, dl_device)), copy, stream
        )

    @functools.wraps(stock_device)
    def __dlpack_device__(self):
        if not isinstance(self, torch.Tensor) or self.device.type != "xla":
            return stock_device(self)
        kind, index = _C.dlpack_device(self)
        return torch.utils.dlpack.DLDeviceType(kind), index

    torch.Tensor.__dlpack__ = __dlpack__
    torch.Tensor.__dlpack_device__ = __dlpack_device__
    exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if exchange is not None:
        torch.Tensor.__dlpack_c_exchange_api__ = _C.dlpack_exchange_api(exchange)

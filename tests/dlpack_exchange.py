"""A consumer of DLPack's C exchange API (`__dlpack_c_exchange_api__`), as ctypes."""

import ctypes

import torch

from dlpack_structs import Device, Tensor, Versioned


class _Table(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("older", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("give", ctypes.c_void_p),
        ("take", ctypes.c_void_p),
        ("lend", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    ]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_out = ctypes.POINTER(ctypes.c_void_p)
_give = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, _out)
_lend = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
_take = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.py_object))


class Exchange:
    def __init__(self, kind: type = torch.Tensor) -> None:
        where = _pointer(kind.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
        self.table = _Table.from_address(where)

    def give(self, tensor: torch.Tensor) -> Versioned:
        """The consumer owns the struct and calls its deleter (`release`)."""
        out = ctypes.c_void_p()
        assert _give(self.table.give)(tensor, ctypes.byref(out)) == 0 and out.value
        return Versioned.from_address(out.value)

    @staticmethod
    def release(given: Versioned) -> None:
        given.deleter(ctypes.addressof(given))

    def take(self, given: Versioned) -> torch.Tensor:
        """PyTorch's tensor of a struct, which it then owns."""
        out = ctypes.py_object()
        assert _take(self.table.take)(ctypes.addressof(given), ctypes.byref(out)) == 0
        return out.value

    def lend(self, tensor: torch.Tensor) -> Tensor:
        out = Tensor(data=1, device=Device(-1, -1), byte_offset=1)
        assert _lend(self.table.lend)(tensor, ctypes.byref(out)) == 0
        return out


def floats(tensor: Tensor) -> ctypes.Array:
    """A dense float32 tensor's elements; writes go to its memory."""
    count = 1
    for size in tensor.shape[: tensor.ndim]:
        count *= size
    return (ctypes.c_float * count).from_address(tensor.data + tensor.byte_offset)

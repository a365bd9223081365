"""DLPack's structs as ctypes, to look into capsules and to make ones that no library makes."""

import ctypes

import numpy as np

FLAGS = {"none": 0, "read_only": 1, "copied": 2}


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


class Unversioned(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("manager", ctypes.c_void_p), ("deleter", DELETER)]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_new = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def array_of(capsule) -> Versioned:
    """The struct in a versioned capsule; lives as long as the capsule does."""
    return Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))


class Producer:
    """Gives a float32 NumPy array as a capsule of our own making, and counts its release."""

    names = {True: b"dltensor_versioned", False: b"dltensor"}

    def __init__(self, array, *, versioned=True, flags=0, major=1, device=(1, 0), dtype=(2, 32, 1)):
        assert array.dtype == np.float32
        self.released, self.asked = 0, None
        self._array, self._versioned = array, versioned
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        strides = (ctypes.c_int64 * array.ndim)(*(s // 4 for s in array.strides))
        self._kept = shape, strides
        tensor = Tensor(
            array.ctypes.data, Device(*device), array.ndim, DataType(*dtype),
            ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
            ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64)), 0,
        )  # fmt: skip
        deleter = DELETER(self._release)
        if versioned:
            self._managed = Versioned(major, 0, None, deleter, flags, tensor)
        else:
            self._managed = Unversioned(tensor, None, deleter)

    def _release(self, _):
        self.released += 1

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **asked):
        self.asked = asked
        return _new(ctypes.addressof(self._managed), self.names[self._versioned], None)

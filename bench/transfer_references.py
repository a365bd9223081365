"""What bench/transfer.py compares with. Arguments named `tensor` are cpu tensors."""

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BUILD = Path(__file__).parents[1] / "build"


class ParallelMemcpy:
    """libc's memcpy, a piece a core. The tensors are dense and have equal sizes."""

    def __init__(self):
        self._pieces = len(os.sched_getaffinity(0))
        self._threads = ThreadPoolExecutor(max(1, self._pieces - 1))

    def __call__(self, target, source) -> None:
        size = source.nbytes
        piece = (size // self._pieces + 4095) // 4096 * 4096
        to, start = target.data_ptr(), source.data_ptr()

        def copy(offset: int) -> None:
            ctypes.memmove(to + offset, start + offset, min(piece, size - offset))

        offsets = range(0, size, piece)
        waiting = [self._threads.submit(copy, offset) for offset in offsets[1:]]
        copy(0)
        for each in waiting:
            each.result()


class Jax:
    """JAX on the CPU; waits for each transfer."""

    @classmethod
    def load(cls) -> "Jax | None":
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        try:
            import jax
        except ImportError:
            return None
        return cls(jax)

    def __init__(self, jax):
        self._jax = jax

    def put(self, arrays):
        return self._jax.device_put(arrays)

    def to_device(self, arrays):
        """Copies, as `.to` makes them. `device_put` shares NumPy memory that is aligned."""
        if isinstance(arrays, list):
            return self._jax.block_until_ready(self._jax.device_put(arrays))
        return self._jax.block_until_ready(self._jax.numpy.array(arrays, copy=True))

    def to_device_as(self, array, dtype):
        import ml_dtypes
        import numpy

        names = {"torch.float32": numpy.float32, "torch.bfloat16": ml_dtypes.bfloat16}
        return self.to_device(array.astype(names[str(dtype)]))

    def fresh_to_host(self, arrays, view: bool = False) -> Callable:
        """A call that copies fresh device arrays to NumPy arrays, or, with `view`, looks at their
        memory; JAX remembers the views of old ones. Returns the seconds of the second part alone.
        """
        import time

        import numpy

        to_numpy = numpy.asarray if view else numpy.array

        def call() -> float:
            fresh = self.to_device(arrays)
            start = time.perf_counter()
            if isinstance(fresh, list):
                found = [to_numpy(array) for array in fresh]
            else:
                found = to_numpy(fresh)
            elapsed = time.perf_counter() - start
            del found
            return elapsed

        return call


class RawPlugin:
    """The plugin's BufferFromHostBuffer and ToHostBuffer, by `build/raw_plugin.so`."""

    _FLOAT32 = 11  # PJRT_Buffer_Type_F32

    @classmethod
    def load(cls, plugin: str) -> "RawPlugin | None":
        library = BUILD / "raw_plugin.so"
        return cls(ctypes.CDLL(library), plugin) if library.exists() else None

    def __init__(self, library: ctypes.CDLL, plugin: str):
        self._library = library
        library.raw_open.restype = ctypes.c_void_p
        library.raw_to_device.restype = library.raw_to_host.restype = ctypes.c_double
        self._raw = ctypes.c_void_p(library.raw_open(plugin.encode()))
        if not self._raw:
            raise RuntimeError(f"raw_plugin.so: cannot use {plugin}; see above")

    def to_device(self, tensor, keep: bool = False) -> float:
        numbers = ctypes.c_int64 * tensor.dim()
        strides = numbers(*(4 * stride for stride in tensor.stride()))
        return self._seconds(
            self._library.raw_to_device(
                self._raw,
                ctypes.c_void_p(tensor.data_ptr()),
                self._FLOAT32,
                ctypes.c_int64(tensor.dim()),
                numbers(*tensor.shape),
                None if tensor.is_contiguous() else strides,
                int(keep),
            )
        )

    def to_host(self, tensor) -> float:
        return self._seconds(
            self._library.raw_to_host(
                self._raw, ctypes.c_void_p(tensor.data_ptr()), ctypes.c_int64(tensor.nbytes)
            )
        )

    @staticmethod
    def _seconds(answer: float) -> float:
        if answer < 0:
            raise RuntimeError("raw_plugin.so: a transfer failed; see above")
        return answer

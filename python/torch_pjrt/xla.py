"""`torch.xla`: the device module, as `torch.cuda` is for CUDA."""

import contextlib
from collections.abc import Iterable, Iterator

import torch

from . import _C


def is_available() -> bool:
    """Whether there is a plugin to use; does not load it."""
    return bool(_C.plugin_path())


def is_initialized() -> bool:
    """Whether the PJRT client exists in this process."""
    return _C.is_initialized()


def init() -> None:
    """Create the PJRT client now instead of at the first use."""
    _C.initialize()


_lazy_init = init


def __getattr__(name: str) -> bool:
    # torch.utils.checkpoint keeps the random state of devices only whose module has this.
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _is_in_bad_fork() -> bool:
    return _C.is_forked()


def device_count() -> int:
    return _C.device_count()


def current_device() -> int:
    """The index of this thread's current device."""
    return _C.current_device()


def _index(device: "torch.device | int | str | None") -> int:
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != "xla":
        raise ValueError(f"torch.xla: not an xla device; got {device}, expected xla or xla:N")
    return current_device() if device.index is None else device.index


def set_device(device: "torch.device | int | str") -> None:
    """Make a device this thread's current one."""
    index = _index(device)
    if not 0 <= index < device_count():
        raise ValueError(
            f"torch.xla.set_device: no such device; got {index}, expected less than "
            f"{device_count()}"
        )
    _C.set_device(index)


@contextlib.contextmanager
def device(device: "torch.device | int | str | None") -> Iterator[None]:
    """Make a device the current one within a `with` block."""
    previous = current_device()
    if device is not None:
        set_device(device)
    try:
        yield
    finally:
        _C.set_device(previous)


def get_device_name(device: "torch.device | int | str | None" = None) -> str:
    return _C.client_info()["devices"][_index(device)]["kind"]


def synchronize(device: "torch.device | int | str | None" = None) -> None:
    """Execute what is recorded for a device and wait until it is done."""
    _C.synchronize(_index(device))


def memory_stats(device: "torch.device | int | str | None" = None) -> dict[str, int]:
    """The memory figures that the plugin has, in bytes; empty where it has none."""
    return _C.memory_stats(_index(device)) or {}


def memory_allocated(device: "torch.device | int | str | None" = None) -> int:
    return memory_stats(device).get("bytes_in_use", 0)


def max_memory_allocated(device: "torch.device | int | str | None" = None) -> int:
    return memory_stats(device).get("peak_bytes_in_use", 0)


def empty_cache() -> None:
    """Give the host memory that waits for reuse back to the system."""
    _C.trim_pool()


def _generator(device: "torch.device | int | str | None") -> torch.Generator:
    return _C.default_generator(_index(device))


def manual_seed(seed: int) -> None:
    """Seed the random stream of the current device."""
    _generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the random streams of all devices."""
    for index in range(device_count()):
        _generator(index).manual_seed(int(seed))


def seed() -> None:
    """Seed the random stream of the current device from the system."""
    _generator(None).seed()


def seed_all() -> None:
    """Seed the random streams of all devices with one number from the system."""
    manual_seed_all(_generator(None).seed())


def initial_seed() -> int:
    return _generator(None).initial_seed()


def get_rng_state(device: "torch.device | int | str | None" = None) -> torch.Tensor:
    """The random state of a device: a ByteTensor of seed and offset."""
    return _generator(device).get_state()


def set_rng_state(
    new_state: torch.Tensor, device: "torch.device | int | str | None" = None
) -> None:
    _generator(device).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16]

"""`torch_pjrt.config`: the settings of this process."""

import os
import sys

from . import _C
from ._process import choose_plugin
from .discovery import default_plugin

_DTYPE_POLICIES = ("narrow", "strict")
_MODES = {mode.name: mode for mode in (_C.Mode.lazy, _C.Mode.eager, _C.Mode.debug)}


class Config:
    """Settings of this process; assign to an attribute to change one. Each has an environment
    variable that sets it at import."""

    @property
    def mode(self) -> str:
        """When operators run (`TORCH_PJRT_MODE`): `lazy` (default) collects them until a value
        is read, an optimizer steps, or `sync()`; `eager` runs each at once, asynchronously;
        `debug` waits for each too, so that an error comes at its own line."""
        return _C.mode().name

    @mode.setter
    def mode(self, mode: str) -> None:
        if mode not in _MODES:
            raise ValueError(
                f"torch_pjrt.config.mode: unknown mode; got {mode!r}, expected one of "
                f"{', '.join(map(repr, _MODES))}"
            )
        _C.set_mode(_MODES[mode])

    @property
    def donate(self) -> bool:
        """Whether programs may reuse the memory of inputs that nothing else refers to
        (`TORCH_PJRT_DONATE`, default 1). Without it a failed execution loses no input."""
        return _C.donate()

    @donate.setter
    def donate(self, donate: bool) -> None:
        _C.set_donate(bool(donate))

    @property
    def graph_limit(self) -> int:
        """Operators that may be pending before they are executed without being read
        (`TORCH_PJRT_GRAPH_LIMIT`, default 10000)."""
        return _C.limit()

    @graph_limit.setter
    def graph_limit(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(
                f"torch_pjrt.config.graph_limit: too small; got {limit}, expected at least 1"
            )
        _C.set_limit(int(limit))

    @property
    def program_limit(self) -> int:
        """Compiled programs that are kept in memory (`TORCH_PJRT_PROGRAM_LIMIT`, default 4096).
        Beyond it the one that was used longest ago is dropped, and compiled again when it comes
        back."""
        return _C.program_limit()

    @program_limit.setter
    def program_limit(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(
                f"torch_pjrt.config.program_limit: too small; got {limit}, expected at least 1"
            )
        _C.set_program_limit(int(limit))

    @property
    def check_indices(self) -> bool:
        """Whether the device checks indices that XLA would clamp in silence
        (`TORCH_PJRT_CHECK_INDICES`, default 1). The IndexError comes at the next read or sync."""
        return _C.check_indices()

    @check_indices.setter
    def check_indices(self, check: bool) -> None:
        _C.set_check_indices(bool(check))

    @property
    def dtype_policy(self) -> str:
        """What happens to float64, int64, uint64 and complex128 where the device lacks them
        (`TORCH_PJRT_DTYPE_POLICY`): `narrow` (default) holds them there as float32, int32, uint32
        and complex64, while the tensor keeps its dtype; `strict` refuses them."""
        return _C.dtype_policy()

    @dtype_policy.setter
    def dtype_policy(self, policy: str) -> None:
        if policy not in _DTYPE_POLICIES:
            raise ValueError(
                f"torch_pjrt.config.dtype_policy: unknown policy; got {policy!r}, expected one of "
                f"{', '.join(map(repr, _DTYPE_POLICIES))}"
            )
        _C.set_dtype_policy(policy)

    @property
    def check_narrowing(self) -> bool:
        """Whether a copy to a device that holds the dtype in fewer bits refuses values out of
        range (`TORCH_PJRT_CHECK_NARROWING`, default 0)."""
        return _C.check_narrowing()

    @check_narrowing.setter
    def check_narrowing(self, check: bool) -> None:
        _C.set_check_narrowing(bool(check))

    @property
    def transfer_limit(self) -> int:
        """Bytes of host memory that copies on their way may hold while a device reads them
        (`TORCH_PJRT_TRANSFER_LIMIT`, default 1 GiB); further copies wait. Devices that compute in
        host memory hold none."""
        return _C.transfer_limit()

    @transfer_limit.setter
    def transfer_limit(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(
                f"torch_pjrt.config.transfer_limit: too small; got {limit}, expected at least 1"
            )
        _C.set_transfer_limit(int(limit))

    @property
    def zero_copy(self) -> bool:
        """Whether copies to a device share the memory of cpu tensors, copy-on-write
        (`TORCH_PJRT_ZERO_COPY`, default 0), as within `torch_pjrt.zero_copy()`."""
        return _C.zero_copy()

    @zero_copy.setter
    def zero_copy(self, share: bool) -> None:
        _C.set_zero_copy(bool(share))

    @property
    def progress(self) -> bool:
        """Whether a program that compiles for more than two seconds says so on stderr, and how
        long it took in the end (`TORCH_PJRT_PROGRESS`, default 1 where stderr is a terminal)."""
        return _C.progress()

    @progress.setter
    def progress(self, show: bool) -> None:
        _C.set_progress(bool(show))

    def set_plugin(self, plugin: str | os.PathLike[str], **options: object) -> None:
        """Choose the PJRT plugin (a path or the name of an installed one, `TORCH_PJRT_PLUGIN`)
        and its create options (`TORCH_PJRT_OPTIONS`), before the device is first used."""
        choose_plugin(default_plugin(plugin), options)

    def __repr__(self) -> str:
        names = [name for name, value in vars(Config).items() if isinstance(value, property)]
        return "torch_pjrt.config: " + ", ".join(f"{n}={getattr(self, n)!r}" for n in names)

    def __setattr__(self, name: str, value: object) -> None:
        if not isinstance(getattr(Config, name, None), property):
            raise AttributeError(f"torch_pjrt.config has no setting {name!r}; it has {self!r}")
        super().__setattr__(name, value)


def _flag(text: str) -> bool:
    values = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}
    if text.lower() not in values:
        raise ValueError(f"got {text!r}, expected 0 or 1")
    return values[text.lower()]


# Environment variable, setting, how its text is read.
ENVIRONMENT = (
    ("TORCH_PJRT_MODE", "mode", str),
    ("TORCH_PJRT_DONATE", "donate", _flag),
    ("TORCH_PJRT_GRAPH_LIMIT", "graph_limit", int),
    ("TORCH_PJRT_PROGRAM_LIMIT", "program_limit", int),
    ("TORCH_PJRT_CHECK_INDICES", "check_indices", _flag),
    ("TORCH_PJRT_DTYPE_POLICY", "dtype_policy", str),
    ("TORCH_PJRT_CHECK_NARROWING", "check_narrowing", _flag),
    ("TORCH_PJRT_TRANSFER_LIMIT", "transfer_limit", int),
    ("TORCH_PJRT_ZERO_COPY", "zero_copy", _flag),
    ("TORCH_PJRT_PROGRESS", "progress", _flag),
)


def _stderr_is_a_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is none, it is no file, or it is closed
        return False


config = Config()
config.progress = _stderr_is_a_terminal()

for _variable, _setting, _read in ENVIRONMENT:
    if _text := os.environ.get(_variable):
        try:
            setattr(config, _setting, _read(_text))
        except ValueError as error:
            raise ValueError(f"environment variable {_variable}: {error}") from None

"""`torch_pjrt.trace`: transfers, compilations and executions as a picture in time."""

import os
from pathlib import Path

from . import _C


class trace:
    """Write what happens to a file that https://ui.perfetto.dev and chrome://tracing show.

    with torch_pjrt.trace("trace.json"):
        step()

    Without a `with` block, `start()` and `stop()` do the same. Each thread has a row, and each
    device one for its programs. One trace at a time; the same ranges are in `torch.profiler`.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self._path = Path(path)
        self._is_on = False

    def start(self) -> "trace":
        if _C.is_tracing():
            raise RuntimeError(
                "torch_pjrt.trace: another trace is being written; stop that one first"
            )
        # A path that cannot be written is found out before the work, not after it.
        self._path.touch()
        _C.start_trace()
        self._is_on = True
        return self

    def stop(self) -> None:
        """Wait for the devices and write the file."""
        if not self._is_on:
            raise RuntimeError("torch_pjrt.trace: stop without start")
        self._is_on = False
        try:
            _C.synchronize_all()
        finally:
            self._path.write_text(_C.stop_trace())

    def __enter__(self) -> "trace":
        return self.start()

    def __exit__(self, *_) -> None:
        self.stop()

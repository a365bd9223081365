"""What a training run prints and draws at its end."""

from pathlib import Path
from statistics import median


class Counters:
    """torch_pjrt's counters since this object was made; all zero where it is not loaded.

    `accelerator`: whether tensors cross to an accelerator, and not to the host.
    """

    def __init__(self, active: bool, accelerator: bool = False):
        self._metrics = None
        self._ways = (
            ("from_accelerator", "to_accelerator")
            if accelerator
            else ("host_to_device", "device_to_host")
        )
        if active:
            import torch_pjrt

            self._metrics = torch_pjrt.metrics
        self._start = self._now()

    def _now(self) -> dict[str, float]:
        return dict(self._metrics.snapshot()) if self._metrics else {}

    def since_start(self) -> dict[str, float]:
        return {key: value - self._start.get(key, 0) for key, value in self._now().items()}

    def programs(self) -> int:
        return int(self.since_start().get("compile.programs", 0))

    def bytes_by(self, what: str) -> int:
        """Bytes of all transfers whose key ends in `what`."""
        figures = self.since_start()
        return int(sum(v for k, v in figures.items() if k.endswith(f"{what}.bytes")))

    def crossed(self) -> tuple[int, int]:
        """Bytes that crossed the border to the device, and back."""
        to_device, back = (self.bytes_by(f"transfer.{way}") for way in self._ways)
        return to_device, back

    def copied(self) -> tuple[int, int]:
        """Of these, the bytes that were copied."""
        to_device, back = (
            crossed - self.bytes_by(f"transfer.{way}.adopted")
            for crossed, way in zip(self.crossed(), self._ways, strict=True)
        )
        return to_device, back

    def fallbacks(self) -> dict[str, int]:
        return {
            key.removeprefix("fallback."): int(value)
            for key, value in self.since_start().items()
            if key.startswith("fallback.") and value
        }


def print_counters(counters: Counters) -> None:
    """The lines about programs and bytes."""
    print(f"programs compiled: {counters.programs()}")
    fallbacks = counters.fallbacks()
    names = ", ".join(f"{name} {count}" for name, count in fallbacks.items())
    print(f"CPU fallbacks: {sum(fallbacks.values())}" + (f" ({names})" if names else ""))
    to_device, back = counters.crossed()
    copied = sum(counters.copied())
    print(f"bytes crossed: {to_device + back:,} ({to_device:,} to the device, {back:,} back)")
    print(f"bytes copied: {copied:,}")
    print(f"bytes cast: {counters.bytes_by('transfer.cast'):,}")
    print(f"bytes adopted: {to_device + back - copied:,}")


def print_copies(steps: list[tuple[int, int]]) -> None:
    """Most bytes that a step copied at the border."""
    to_device, back = (max(copied) for copied in zip(*steps, strict=True))
    print(f"bytes copied a step, at most: {to_device:,} to the device, {back:,} back")


def print_step_time(seconds: list[float]) -> None:
    """Median step; the first three trace and compile, so they are named apart."""
    print(f"first step: {seconds[0] * 1e3:.1f} ms")
    print(f"time a step: {median(seconds[3:] or seconds) * 1e3:.2f} ms (median)")


def plot(path: Path, losses: list[float], accuracies: list[tuple[int, float]]) -> None:
    """Draws loss by step, and test accuracy where it was measured."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, loss_axis = pyplot.subplots(figsize=(8, 4.5))
    loss_axis.plot(range(1, len(losses) + 1), losses, color="tab:blue", linewidth=0.8)
    loss_axis.set(xlabel="step", ylabel="training loss", yscale="log")
    accuracy_axis = loss_axis.twinx()
    steps, values = zip(*accuracies, strict=True)
    accuracy_axis.plot(steps, values, color="tab:orange", marker="o")
    accuracy_axis.set(ylabel="test accuracy", ylim=(min(0.9, *values), 1.0))
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)

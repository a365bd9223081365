"""Counters and timers of what was compiled, executed, copied and left to the CPU.

Names end in what they count: `.calls`, `.bytes`; a timer's own name is its seconds.
"""

from collections.abc import Iterator

from . import _C


def snapshot() -> dict[str, int | float]:
    """Every figure by name. Timers are seconds, with their number of calls beside them."""
    return _C.metrics_snapshot()


def reset() -> None:
    """Set counters and timers to zero. Figures of the present, such as live buffers, stay."""
    _C.metrics_reset()


def fallbacks() -> dict[str, int]:
    """Operators that ran on the CPU, and how often."""
    return {
        name.removeprefix("fallback."): int(count)
        for name, count in snapshot().items()
        if name.startswith("fallback.") and count
    }


def report() -> str:
    """The figures that are not zero, as a table; copies with their bytes a second."""
    figures = {name: value for name, value in snapshot().items() if value}
    if not figures:
        return "nothing has run on device xla yet"
    lines = dict(_copies(figures))
    parts = tuple(f"{name}." for name in lines)
    for name, value in figures.items():
        prefix, _, part = name.removesuffix(".calls").rpartition(".")
        if not (f"{prefix}." in parts and part in ("bytes", "seconds")) and name not in {
            f"{copies}.calls" for copies in lines
        }:
            lines[name] = _text(name, value)
    width = max(map(len, lines))
    return "\n".join(f"{name:<{width}}  {lines[name]}" for name in sorted(lines))


def _copies(figures: dict[str, int | float]) -> Iterator[tuple[str, str]]:
    for name in figures:
        prefix = name.removesuffix(".seconds")
        bytes_, calls = figures.get(f"{prefix}.bytes"), figures.get(f"{prefix}.calls")
        if prefix == name or not bytes_ or not calls:
            continue
        seconds = figures[name]
        yield (
            prefix,
            f"{calls:,} calls, {bytes_ / (1 << 20):,.1f} MiB, {seconds:.6f} s, "
            f"{bytes_ / (1 << 30) / seconds:.2f} GiB/s",
        )


def _text(name: str, value: int | float) -> str:
    if isinstance(value, float):
        return f"{value:.6f} s"
    if "bytes" in name and value >= 1 << 20:
        return f"{value:,} ({value / (1 << 20):.1f} MiB)"
    return f"{value:,}"

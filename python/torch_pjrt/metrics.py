"""Counters and timers of what was compiled, executed, copied and left to the CPU.

Names end in what they count: `.calls`, `.bytes`; a timer's own name is its seconds.
"""

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
    """The figures that are not zero, as a table."""
    figures = {name: value for name, value in snapshot().items() if value}
    if not figures:
        return "nothing has run on device xla yet"
    width = max(map(len, figures))
    return "\n".join(f"{name:<{width}}  {_text(name, value)}" for name, value in figures.items())


def _text(name: str, value: int | float) -> str:
    if isinstance(value, float):
        return f"{value:.6f} s"
    if "bytes" in name and value >= 1 << 20:
        return f"{value:,} ({value / (1 << 20):.1f} MiB)"
    return f"{value:,}"

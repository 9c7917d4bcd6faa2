"""How numbers are said."""

from __future__ import annotations


def ms(seconds: float) -> str:
    """0.24 ms, 12 ms, 1300 ms."""
    value = seconds * 1000
    return f"{value:.2f} ms" if value < 10 else f"{value:.0f} ms"


def size(count: int) -> str:
    """Bytes for people."""
    value = float(count)
    for unit in ("bytes", "KB", "MB"):
        if value < 1024:
            return f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.1f} GB"


def span(seconds: float) -> str:
    """A difference of clocks: 0.3 ms, 42 ms, 3600.0 s."""
    return ms(abs(seconds)) if abs(seconds) < 1 else f"{abs(seconds):.1f} s"


def percent(ratio: float) -> str:
    """0.012 %, 1.2 %."""
    value = abs(ratio) * 100
    return f"{value:.3f} %" if value < 0.1 else f"{value:.1f} %"


def listed(names: list[str]) -> str:
    """a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

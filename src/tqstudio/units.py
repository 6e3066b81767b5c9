"""Formats sizes (decimal units) and percentages for commands, screens and messages."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def size(count: float | None) -> str:
    """Formats bytes as `812 MB` or `1.4 TB`; empty for None."""
    if count is None:
        return ""
    number, unit = _scaled(count)
    return f"{number} {unit}"


def short_size(count: float | None) -> str:
    """Formats bytes for narrow columns, in at most four characters: `812M`, `1.4T`."""
    if count is None:
        return ""
    number, unit = _scaled(count)
    return f"{number}{unit[0].upper()}"


def whole_percent(value: float) -> int:
    """Rounds down to 0–100, so that 100 means complete."""
    return 100 if value >= 100 else int(max(0.0, value))


def _scaled(count: float) -> tuple[str, str]:
    value, unit = float(count), 0
    # 999.5 would be rounded to 1000.
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value /= 1000
        unit += 1
    return (f"{value:.1f}" if unit and value < 9.95 else f"{value:.0f}"), _UNITS[unit]

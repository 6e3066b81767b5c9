"""Sizes (decimal, as disks are sold) and percentages for people: one way for commands, screens, messages."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def size(count: float | None) -> str:
    """Bytes as `812 MB` or `1.4 TB`; nothing for None."""
    if count is None:
        return ""
    number, unit = _scaled(count)
    return f"{number} {unit}"


def short_size(count: float | None) -> str:
    """The same for narrow columns, in at most four characters: `812M`, `1.4T`."""
    if count is None:
        return ""
    number, unit = _scaled(count)
    return f"{number}{unit[0].upper()}"


def whole_percent(value: float) -> int:
    """0–100; never 100 before it is true."""
    return 100 if value >= 100 else int(max(0.0, value))


def _scaled(count: float) -> tuple[str, str]:
    value, unit = float(count), 0
    # What would be rounded to 1000 belongs to the next unit.
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value /= 1000
        unit += 1
    return (f"{value:.1f}" if unit and value < 9.95 else f"{value:.0f}"), _UNITS[unit]

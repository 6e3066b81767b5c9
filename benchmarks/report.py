"""What was measured, as values, and the tables made of it."""

from __future__ import annotations

import statistics
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Floor:
    """What a figure has to reach."""

    bound: float
    sense: Literal["≤", "≥"] = "≤"

    def met(self, value: float) -> bool:
        """Whether the figure reaches it."""
        return value <= self.bound if self.sense == "≤" else value >= self.bound


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: a value per round. Without a floor it is there to read the others by."""

    what: str
    values: tuple[float, ...]
    unit: str
    floor: Floor | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def verdict(self) -> str:
        """`ok`, `short`, or nothing where there is no floor."""
        if self.floor is None:
            return ""
        return "ok" if self.floor.met(self.median) else "short"


@dataclass(slots=True)
class Section:
    """The figures of one benchmark."""

    title: str
    setting: str
    """One sentence: what was run, how often, beside what."""
    rows: list[Row] = field(default_factory=list)

    def add(self, what: str, values: Iterable[float], unit: str, floor: Floor | None = None) -> None:
        self.rows.append(Row(what, tuple(values), unit, floor))


def at_most(bound: float) -> Floor:
    return Floor(bound)


def at_least(bound: float) -> Floor:
    return Floor(bound, "≥")


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(percent / 100 * len(ordered) + 0.5) - 1))]


def say(value: float, unit: str) -> str:
    """A value with the digits that mean something, such as `14.3 s` or `0.98×`."""
    if unit == "×":
        return f"{value:.2f}×"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 or unit != "s" else 3
    return f"{value:,.{digits}f} {unit}".replace(",", " ")


def count(number: int) -> str:
    """A whole number for people: `100 000`."""
    return f"{number:,}".replace(",", " ")


def spread(row: Row) -> str:
    """The smallest and the largest value; nothing for a single one."""
    if len(row.values) < 2:
        return ""
    low, high = (
        say(value, row.unit).removesuffix(f" {row.unit}") for value in (min(row.values), max(row.values))
    )
    return f"{low} – {high}"


def cells(row: Row) -> tuple[str, ...]:
    floor = f"{row.floor.sense} {say(row.floor.bound, row.unit)}" if row.floor else ""
    return row.what, say(row.median, row.unit), spread(row), floor, row.verdict


HEADINGS = ("", "median", "min – max", "floor", "")


def plain(section: Section) -> str:
    """A section for the terminal: columns in line."""
    table = [HEADINGS, *(cells(row) for row in section.rows)]
    widths = [max(_columns(line[column]) for line in table) for column in range(len(HEADINGS))]
    aligned: list[Callable[[str, int], str]] = [_left, _right, _right, _right, _left]
    lines = [section.title.upper(), f"  {section.setting}"]
    for line in table:
        columns = zip(aligned, line, widths, strict=True)
        lines.append("  " + "  ".join(align(cell, width) for align, cell, width in columns).rstrip())
    return "\n".join(lines)


def markdown(sections: Sequence[Section]) -> str:
    """One table for docs/benchmarks.md: the figures that have a floor."""
    lines = ["| what | median | min – max | floor | |", "|---|---:|---:|---:|---|"]
    for section in sections:
        floored = [row for row in section.rows if row.floor is not None]
        if floored:
            lines.append(f"| **{section.title}** | | | | |")
        lines += ["| " + " | ".join(cells(row)) + " |" for row in floored]
    return "\n".join(lines)


def _columns(text: str) -> int:
    return sum(0 if unicodedata.combining(letter) else 1 for letter in text)


def _left(text: str, width: int) -> str:
    return text + " " * (width - _columns(text))


def _right(text: str, width: int) -> str:
    return " " * (width - _columns(text)) + text

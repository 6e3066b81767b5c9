"""The figures of statistics as commands and the terminal UI show them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tqstudio import units
from tqstudio.words import format as fmt

if TYPE_CHECKING:
    from tqstudio.protocol.answers import StatisticsRow

Figure = tuple[str, str, Callable[[Any], str]]
FIGURES: tuple[Figure, ...] = (
    ("done", "done", fmt.number),
    ("failed", "failed", fmt.number),
    ("media", "media_s", fmt.clock_duration),
    ("speed", "speed", fmt.speed),
    ("in", "bytes_in", units.short_size),
    ("out", "bytes_out", units.short_size),
    ("work", "wall_s", fmt.clock_duration),
    ("cpu", "cpu_s", fmt.clock_duration),
    ("off", "eta_error", fmt.share),
    ("90%", "eta_error_p90", fmt.share),
)
"""Title of each figure, its key in `StatisticsRow`, and how it is written."""
NAMES = {
    "done": "jobs done",
    "failed": "jobs failed",
    "media": "media",
    "speed": "speed",
    "in": "bytes in",
    "out": "bytes out",
    "work": "time of workers",
    "cpu": "CPU time of ffmpeg",
    "off": "median ETA error",
    "90%": "nine of ten below",
}
"""What each title stands for."""
LEGEND = "off: the median error of the estimates; 90%: nine of ten errors were smaller"


def values(row: StatisticsRow) -> list[str]:
    """The figures of a row as text; those without work are empty."""
    return [write(row[key]) if row["attempts"] else "" for _, key, write in FIGURES]  # type: ignore[literal-required]


def series(rows: list[StatisticsRow], key: str) -> list[float | None]:
    """One figure of every row, for a sparkline."""
    return [row[key] for row in rows]  # type: ignore[literal-required]

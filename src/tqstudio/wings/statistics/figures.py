"""The figures of statistics as commands and the terminal UI show them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
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
LEGENDS = {"off": "off: the median error of the estimates", "90%": "90%: nine of ten errors were smaller"}
"""The meanings of titles that need an explanation."""
_AUTOMATIC = re.compile(r"(process-)?[0-9a-f]{12}")
"""A batch whose name was generated."""


def name_of(row: StatisticsRow, now: datetime) -> tuple[str, str]:
    """The day, worker or batch of a row, and its end, which is not cut; a generated batch as its videos."""
    key = fmt.plain(row["key"]) or "none"
    return videos_of(row, now) if row["batch"] is not None and _AUTOMATIC.fullmatch(key) else (key, "")


def videos_of(row: StatisticsRow, now: datetime) -> tuple[str, str]:
    """The first video of a batch; how many follow, and when it was added: `film.mp4`, ` +10 11-26 07:00`."""
    if (batch := row["batch"]) is None:
        return "", ""
    more = f" +{fmt.number(batch['jobs'] - 1)}" if batch["jobs"] > 1 else ""
    return fmt.plain(batch["first"]), f"{more} {fmt.moment(batch['created_at'], now)}"


def values(row: StatisticsRow) -> list[str]:
    """The figures of a row as text; those without work are empty."""
    return [write(row[key]) if row["attempts"] else "" for _, key, write in FIGURES]  # type: ignore[literal-required]


def series(rows: list[StatisticsRow], key: str) -> list[float | None]:
    """One figure of every row, for a sparkline."""
    return [row[key] for row in rows]  # type: ignore[literal-required]

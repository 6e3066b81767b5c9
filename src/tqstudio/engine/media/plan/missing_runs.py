"""The difference between what must exist and what the disk has: which video runs are to be made. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tqstudio.engine.media.plan.grid import Grid

Mode = Literal["seek", "linear"]
"""How a run reaches its first fragment: by seeking in the source, or by decoding all of it from the start."""

# Renditions of one run differ by a fragment when it is killed. To make that one again costs less than another
# ffmpeg that decodes the same seconds.
_TOGETHER = 1


@dataclass(frozen=True, slots=True)
class Stored:
    """What the disk has of one rendition."""

    stream_key: str
    """Of the segments; those of another key cannot be continued."""
    fragments: int
    """Verified full fragments from 0 on."""
    ended: bool = False
    """The end of the stream is there too."""


@dataclass(frozen=True, slots=True)
class VideoRun:
    """One ffmpeg: a range of fragments of some renditions."""

    start: int
    """First fragment to be made."""
    stop: int | None
    """First fragment not to be made; None goes on to the end of the source."""
    names: tuple[str, ...]
    """Renditions, largest first."""
    mode: Mode


@dataclass(frozen=True, slots=True)
class EncodePlan:
    """What there is to make, and what is there already."""

    whole: tuple[str, ...]
    """Renditions of which everything is there."""
    runs: tuple[VideoRun, ...]
    """One after another, they make the rest. The last one has no `stop` and proves where the source ends."""


def plan(
    grid: Grid,
    wanted: Mapping[str, str],
    stored: Mapping[str, Stored],
    mode: Mode = "seek",
    latest: int | None = None,
) -> EncodePlan:
    """Work out the runs that are missing.

    Renditions that are as far as each other go on together: one decode feeds them all. One that is further
    behind first makes up its arrears alone, so that the others are not made again.

    Args:
        wanted: the ladder: rendition → stream_key, largest first.
        stored: rendition → what the disk has.
        latest: start no run behind this fragment; by default the last one of the grid's estimate.
    """
    usable = {
        name: found for name, key in wanted.items() if (found := stored.get(name)) and found.stream_key == key
    }
    whole = tuple(name for name in wanted if name in usable and usable[name].ended)
    # The estimated end may lie before the real one. A run has to start where at least a frame is left:
    # without one, ffmpeg writes nothing and the end stays unproved.
    bound = max(0, grid.fragment_count - 1) if latest is None else max(0, latest)
    starts = {
        name: min(usable[name].fragments, bound) if name in usable else 0
        for name in wanted
        if name not in whole
    }
    return EncodePlan(
        whole=whole,
        runs=_runs(starts, mode),
    )


def _runs(starts: Mapping[str, int], mode: Mode) -> tuple[VideoRun, ...]:
    """From each place where renditions stand to the next one, all that stand there or were brought there."""
    places: list[int] = []
    for start in sorted(set(starts.values())):
        if not places or start > places[-1] + _TOGETHER:
            places.append(start)
    ends: list[int | None] = [*places[1:], None]
    return tuple(
        VideoRun(
            place,
            end,
            tuple(name for name, start in starts.items() if start <= place + _TOGETHER),
            mode,
        )
        for place, end in zip(places, ends, strict=False)
    )

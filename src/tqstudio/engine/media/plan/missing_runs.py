"""Plans the video runs that encode the missing fragments of a ladder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tqstudio.engine.media.plan.grid import Grid

# When a run is killed, its renditions may differ by a fragment. Encoding that fragment again is cheaper than
# another ffmpeg process that decodes the same seconds.
_TOGETHER = 1


@dataclass(frozen=True, slots=True)
class Stored:
    """The stored part of one rendition."""

    stream_key: str
    """Key of the stored segments; only segments with the same key can be appended."""
    fragments: int
    """Count of verified full fragments, contiguous from 0."""
    ended: bool = False
    """Whether the end of the stream is stored too."""


@dataclass(frozen=True, slots=True)
class VideoRun:
    """One ffmpeg process that encodes a range of fragments of some renditions."""

    start: int
    """First fragment to encode."""
    stop: int | None
    """End of the range, exclusive; None encodes to the end of the source."""
    names: tuple[str, ...]
    """Renditions, largest first."""


@dataclass(frozen=True, slots=True)
class EncodePlan:
    """Complete renditions, and the runs that complete the others."""

    complete: tuple[str, ...]
    """Complete renditions."""
    runs: tuple[VideoRun, ...]
    """In the order of execution. The last one has no `stop` and determines where the source ends."""


def plan(
    grid: Grid,
    wanted: Mapping[str, str],
    stored: Mapping[str, Stored],
    latest: int | None = None,
) -> EncodePlan:
    """Plan the missing runs.

    Renditions with equal progress continue in one run, fed by one decoder. A rendition with less progress
    first catches up in a run of its own, so that the others are not encoded again.

    Args:
        wanted: the ladder: rendition → stream_key, largest first.
        stored: rendition → its stored part.
        latest: start no run after this fragment; by default the last one of the grid's estimate.
    """
    usable = {
        name: found for name, key in wanted.items() if (found := stored.get(name)) and found.stream_key == key
    }
    complete = tuple(name for name in wanted if name in usable and usable[name].ended)
    # A run must start where at least one frame is left: without one, ffmpeg writes nothing and the end of the
    # source remains unknown.
    bound = max(0, grid.fragment_count - 1) if latest is None else max(0, latest)
    starts = {
        name: min(usable[name].fragments, bound) if name in usable else 0
        for name in wanted
        if name not in complete
    }
    return EncodePlan(complete, _runs(starts))


def _runs(starts: Mapping[str, int]) -> tuple[VideoRun, ...]:
    """One run between each two starting points, with all renditions that start at or before the first."""
    points: list[int] = []
    for start in sorted(set(starts.values())):
        if not points or start > points[-1] + _TOGETHER:
            points.append(start)
    ends: list[int | None] = [*points[1:], None]
    return tuple(
        VideoRun(point, end, tuple(name for name, start in starts.items() if start <= point + _TOGETHER))
        for point, end in zip(points, ends, strict=False)
    )

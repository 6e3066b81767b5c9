"""Plans the video runs that encode the missing fragments of a ladder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tqstudio.engine.media.plan.grid import Grid

# When a run is killed, its renditions may differ by a fragment. Encoding that fragment again is cheaper than
# another ffmpeg process that decodes the same seconds.
_TOGETHER = 1
# With fewer frames than it reorders, x264 writes another init.mp4 than the stored one: measured with 2
# frames, not with 5.
_MIN_FRAMES = 16


@dataclass(frozen=True, slots=True)
class VideoRun:
    """One ffmpeg process that encodes a range of fragments of some renditions."""

    start: int
    """First fragment to encode."""
    stop: int | None
    """End of the range, exclusive; None encodes to the end of the source."""
    names: tuple[str, ...]
    """Renditions, largest first."""
    apart: bool = False
    """It is a part that another worker encodes, whose beginning need not follow stored fragments."""


def plan(grid: Grid, stored: Mapping[str, int], latest: int | None = None) -> list[VideoRun]:
    """Plan the runs of incomplete renditions, one between each two starting points, in their order.

    Renditions with equal progress continue in one run, fed by one decoder. A rendition with less progress
    first catches up in a run of its own, so that the others are not encoded again. The last run has no `stop`
    and determines where the source ends.

    Args:
        stored: rendition → full fragments that are stored, contiguous from 0; largest first.
        latest: start no run after this fragment; by default the last one after which, by the grid's estimate,
            there are enough frames.
    """
    # A run must start where at least one frame is left: without one, ffmpeg writes nothing and the end of the
    # source remains unknown.
    bound = max(0, grid.fragment_at(grid.total_frames - _MIN_FRAMES) if latest is None else latest)
    starts = {name: min(fragments, bound) for name, fragments in stored.items()}
    points: list[int] = []
    for start in sorted(set(starts.values())):
        if not points or start > points[-1] + _TOGETHER:
            points.append(start)
    ends: list[int | None] = [*points[1:], None]
    return [
        VideoRun(point, end, tuple(name for name, start in starts.items() if start <= point + _TOGETHER))
        for point, end in zip(points, ends, strict=False)
    ]

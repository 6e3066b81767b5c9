"""The difference between what must exist and what the disk has. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from tqstudio.engine.media.grid import Grid
from tqstudio.engine.media.ladder import Rung


@dataclass(frozen=True, slots=True)
class EncodePlan:
    """What one video run has to make."""

    resume_at: int
    """The first segment of the run: the smallest finished prefix of its rungs."""
    rungs: tuple[Rung, ...]
    """Renditions that are not finished, largest first. Empty: there is nothing to do."""
    finished: tuple[Rung, ...]
    """Renditions that are complete on disk; never made again."""

    @property
    def nothing_to_do(self) -> bool:
        """Everything that must exist does."""
        return not self.rungs


def plan(
    grid: Grid,
    rungs: Sequence[Rung],
    prefixes: Mapping[str, int],
    complete: Set[str],
    resume_segments: bool = True,
) -> EncodePlan:
    """Work out the next run.

    Several unfinished renditions resume together, at the smallest prefix: in one run they differ by one
    segment at most, and one decode feeds them all. Segments that are there already are dropped by the store,
    not replaced.

    Args:
        rungs: the ladder; skipped rungs are left out.
        prefixes: rendition name → verified segments from 0 on; a missing name has none.
        complete: names of the renditions whose end is proved by a complete marker.
        resume_segments: False makes unfinished renditions from their first segment.
    """
    wanted = [rung for rung in rungs if not rung.skipped]
    missing = tuple(rung for rung in wanted if rung.name not in complete)
    resume_at = min((prefixes.get(rung.name, 0) for rung in missing), default=0) if resume_segments else 0
    # The estimated end may lie before the real one. A run has to start where at least a frame is left:
    # without one, ffmpeg writes nothing and the end stays unproved.
    resume_at = min(resume_at, max(0, grid.segment_count - 1))
    return EncodePlan(
        resume_at=max(0, resume_at),
        rungs=missing,
        finished=tuple(rung for rung in wanted if rung.name in complete),
    )

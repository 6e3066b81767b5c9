"""Decides whether a job fits on its volumes, from their measured states alone.

A job fits when its output has free space for its ladder, for the rest of the running jobs on the same volume,
and for the reserve. A ladder is estimated as `disk_factor` × its source, at most what its bit rates allow,
minus its segments in the store. The database's volume needs some space too, and both need free inodes.

A job waits alone for a volume that does not answer or a source that is away. For anything else the whole
queue waits, even if a later job would fit: that job would take the space that the first one waits for, and
large files would never start. The reason names the job, so that a person can pause it or lower its priority.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from tqstudio.config import Settings
from tqstudio.engine.files.volumes import Volume, still_to_come
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import max_files_bytes, max_ladder_bytes
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.store.machine.gates import JobVolumes
from tqstudio.errors import MEANINGS, ErrorCode, Problem
from tqstudio.paths import display
from tqstudio.units import size

DATABASE_ROOM_BYTES = 16_000_000
"""Space needed on the volume of the home: for the write-ahead log, the logs and some database pages."""
_LOW_HOME_BYTES = 20 * DATABASE_ROOM_BYTES
FILES_ROOM = 500
"""Inodes needed on a volume with a limited number of them: some ten minutes of a ladder."""
OF_ONE_JOB = frozenset((ErrorCode.DISK_NOT_RESPONDING, ErrorCode.SOURCE_UNAVAILABLE, ErrorCode.OUTSIDE_HOURS))
"""Codes with which a job waits alone."""


class Use(Enum):
    """What a place is measured for."""

    HOME = "home"
    OUTPUT = "output"
    SOURCE = "source"


class MeasuredPath(NamedTuple):
    """A path whose volume is measured."""

    use: Use
    path: bytes


@dataclass(frozen=True, slots=True)
class VolumeState:
    """The volume of a place, as last measured."""

    space: Volume | None = None
    """None if it cannot be checked: the job finds out why."""
    problem: Problem | None = None
    """Why nothing can be read or written there now."""
    made: Mapping[int, int] = field(default_factory=dict)
    """Sizes of the segment stores there by video, in bytes, as far as they were measured."""
    has_files: bool | None = True
    """Whether the folder of a source has entries; None if it does not exist."""

    @property
    def free(self) -> int:
        """Bytes free; 0 if that cannot be checked."""
        return 0 if self.space is None else self.space.free


@dataclass(frozen=True, slots=True)
class Volumes:
    """The states of all measured places.

    Args:
        started_at: start of this supervisor, µs since 1970 in UTC.
    """

    home: MeasuredPath
    started_at: int
    states: Mapping[MeasuredPath, VolumeState] = field(default_factory=dict)

    def know(self, need: JobVolumes, running: Sequence[JobVolumes]) -> bool:
        """Whether everything was measured that `fits` needs."""
        outputs = (MeasuredPath(Use.OUTPUT, each.output_root) for each in running)
        return all(place in self.states for place in (self.home, *places(need), *outputs))


@dataclass(frozen=True, slots=True)
class Waits:
    """The volume that a job waits for, and why."""

    path: bytes
    code: ErrorCode
    why: str
    hint: str = ""
    """What to do, if more space would not help."""
    free: int = 0
    needed: int = 0
    of_files: bool = False
    """Inodes are short; `free` and `needed` count those."""
    total: int = 0
    """The size of a volume with too little space, in bytes; 0 if unknown."""

    @property
    def alone(self) -> bool:
        """Whether other jobs may start meanwhile."""
        return self.code in OF_ONE_JOB

    @classmethod
    def for_problem(cls, path: bytes, problem: Problem, *, then: str = "") -> Waits:
        return cls(path, ErrorCode(problem.code), problem.message + then, problem.hint)

    @classmethod
    def of_bytes(cls, path: bytes, volume: Volume, needed: int, why: str) -> Waits:
        return cls(path, ErrorCode.DISK_LOW, why, free=volume.free, needed=needed, total=volume.total)


def sources(need: JobVolumes) -> list[MeasuredPath]:
    """The places where a job reads, the drop folder first."""
    folders = dict.fromkeys((need.folder or os.path.dirname(need.source), os.path.dirname(need.source)))
    return [MeasuredPath(Use.SOURCE, folder) for folder in folders]


def places(need: JobVolumes) -> list[MeasuredPath]:
    """The places where a job reads and writes."""
    return [*sources(need), MeasuredPath(Use.OUTPUT, need.output_root)]


def fits(
    need: JobVolumes,
    running: Sequence[JobVolumes],
    volumes: Volumes,
    settings: Settings,
    *,
    margin: float = 0.0,
) -> Waits | None:
    """What a job waits for; None if it fits beside the running ones. `volumes` must know all of them.

    Args:
        margin: additional space required, as a fraction.
    """
    if (alone := waits_alone(need, volumes, is_missing=False)) is not None:
        return alone
    home, output = volumes.states[volumes.home], volumes.states[MeasuredPath(Use.OUTPUT, need.output_root)]
    if home.space is not None and (short := short_at_home(volumes.home.path, home.space, margin)) is not None:
        return short
    if output.problem is not None:
        return Waits.for_problem(need.output_root, output.problem, then=f"; {need.name} waits for it")
    if output.space is None:
        return None
    beside = sum(_to_come(volumes, other, settings, output.space.device) for other in running)
    reserve = settings.disk_reserve_bytes
    needed = reserve + beside + _to_come(volumes, need, settings, output.space.device)
    before = f" before {need.name} can begin"
    running_too = f", {size(beside)} are for running jobs" if beside else ""
    more = f" ({size(reserve)} of them stay free{running_too})"
    return _short(need.output_root, output.space, needed, margin, before=before, more=more)


def short_at_home(path: bytes, volume: Volume, margin: float = 0.0) -> Waits | None:
    """What the volume of the database lacks; None if it has enough."""
    return _short(path, volume, DATABASE_ROOM_BYTES, margin, of="the database in ")


def output_waits(path: bytes, state: VolumeState, settings: Settings, margin: float = 0.0) -> Waits | None:
    """What an output lacks for any job, however small; None if it can be used."""
    if state.problem is not None:
        return None if state.problem.code in OF_ONE_JOB else Waits.for_problem(path, state.problem)
    return None if state.space is None else _short(path, state.space, settings.disk_reserve_bytes, margin)


def _short(
    path: bytes, volume: Volume, needed: int, margin: float, *, of: str = "", before: str = "", more: str = ""
) -> Waits | None:
    """What a volume lacks: inodes, however many bytes are free, or bytes."""
    shown = display(path)
    if lacks_files(volume, margin):
        files = volume.files or 0
        why = f"the file system of {shown} has {files} files (inodes) free, {FILES_ROOM} are needed{before}"
        return Waits(path, ErrorCode.DISK_LOW, why, free=files, needed=FILES_ROOM, of_files=True)
    if volume.free >= needed * (1 + margin):
        return None
    why = f"the disk of {of}{shown} has {size(volume.free)} free, {size(needed)} are needed{before}{more}"
    return Waits.of_bytes(path, volume, needed, why)


def low_soon(volumes: Volumes, settings: Settings) -> list[Waits]:
    """The disks of the database and of outputs in use that have less than twice the space they need."""
    found = []
    for place, state in volumes.states.items():
        needed = _LOW_HOME_BYTES if place.use is Use.HOME else 2 * settings.disk_reserve_bytes
        if place.use is not Use.SOURCE and state.space is not None and state.space.free < needed:
            found.append(Waits.of_bytes(place.path, state.space, needed // 2, "low soon"))
    return found


def waits_alone(need: JobVolumes, volumes: Volumes, *, is_missing: bool) -> Waits | None:
    """What a job waits for while others may start: a volume that does not answer, a source that is away.

    Args:
        is_missing: whether a worker did not find the source. Otherwise it may lie beneath a mount point.
    """
    codes = OF_ONE_JOB if is_missing else (ErrorCode.DISK_NOT_RESPONDING,)
    for place in places(need):
        state = volumes.states.get(place)
        if state is not None and state.problem is not None and state.problem.code in codes:
            return Waits.for_problem(place.path, state.problem)
    if not is_missing:
        return None
    folder = sources(need)[0].path
    has_files = volumes.states[sources(need)[0]].has_files
    # This supervisor may have started before the disk was mounted, and so never have seen it.
    is_older = need.added_at < volumes.started_at
    if has_files is None and (is_older or need.folder is not None):
        return Waits.for_problem(folder, away(f"the folder {display(folder)} is missing"))
    if has_files is False and is_older:
        return Waits.for_problem(
            folder, away(f"the folder {display(folder)} is empty; its disk may not be mounted")
        )
    return None


def away(why: str) -> Problem:
    """The problem of sources that are not available now."""
    return Problem(ErrorCode.SOURCE_UNAVAILABLE, why, MEANINGS[ErrorCode.SOURCE_UNAVAILABLE].hint)


def lacks_files(volume: Volume, margin: float = 0.0) -> bool:
    """Whether a volume has too few inodes left."""
    return volume.files is not None and volume.files < FILES_ROOM * (1 + margin)


def _to_come(volumes: Volumes, need: JobVolumes, settings: Settings, device: int) -> int:
    """Bytes that a job will still write to this volume."""
    state = volumes.states[MeasuredPath(Use.OUTPUT, need.output_root)]
    if state.space is None or state.space.device != device:
        return 0
    most, files = _max_bytes(need.facts, need.profile) if need.facts else (0, 0)
    return still_to_come(need.size, settings.disk_factor, most, state.made.get(need.video, 0), files)


@lru_cache(maxsize=128)
def _max_bytes(facts_json: str, profile_json: str) -> tuple[int, int]:
    """Bytes of a ladder at most, and of the files of the whole video beside it."""
    try:
        facts = SourceFacts.from_json(json.loads(facts_json))
        profile = Profile.from_json(json.loads(profile_json))
        return max_ladder_bytes(facts, profile), max_files_bytes(facts, profile)
    except (KeyError, TypeError, ValueError):
        return 0, 0  # of another version

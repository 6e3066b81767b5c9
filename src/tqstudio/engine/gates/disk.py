"""The disk gate: holds the queue while the next job does not fit on its disk, and reopens automatically.

A job fits when its volume has free space for its ladder, for the rest of the running jobs on the same volume,
and for the reserve. A ladder is estimated as `disk_factor` × its source, minus its segments in the store. The
database's volume needs some space too, and both need free inodes. Jobs wait while their volume does not
answer, while their output is not the disk that was used before, and while it is read-only.

The gate holds the whole queue even if a later job would fit: that job would take the space that the first one
waits for, and large files would never start. The reason names the job, so that a person can pause it or lower
its priority; then the next job counts.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import structlog

from tqstudio.config import Settings
from tqstudio.engine.files.bounded_io import BoundedIO, NoAnswer
from tqstudio.engine.files.mounts import mount_point
from tqstudio.engine.files.volumes import Volume, occupied_bytes, still_to_come, volume_of
from tqstudio.engine.gates.output_volume import OutputDisks
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.outputs.retention import Retention
from tqstudio.engine.outputs.workspace import Workspace
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.jobs import claims
from tqstudio.engine.store.machine import gates
from tqstudio.engine.store.machine.gates import GateRow, Need
from tqstudio.errors import UNWRITTEN, ErrorCode, Problem, TqError
from tqstudio.home import Home
from tqstudio.lifecycle import GateKind, JobStatus
from tqstudio.paths import display
from tqstudio.units import size

TICK_S = 3.0
DATABASE_ROOM_BYTES = 16_000_000
"""Space needed on the volume of the home: for the write-ahead log, the logs and some database pages."""
FILES_ROOM = 500
"""Inodes needed on a volume with a limited number of them: some ten minutes of a ladder."""
_FRESH_S = 1.0
"""How long a measurement of a volume is reused: there may be thousands of claims."""
_HINT_INTERVAL_S = 0.2
"""Minimum between two measurements caused by ended jobs, which may be thousands."""
_MARGIN = 0.05
"""Hysteresis: the share of additional space needed before a shut gate opens."""
_FIRST_WAIT_S = 10.0
_MAX_WAIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Shortage:
    """A volume with too little space: its path, bytes free and needed, and the reason to display."""

    path: bytes
    free: int
    needed: int
    reason: str
    hint: str = ""
    """What to do if space is not the problem."""
    code: ErrorCode = ErrorCode.DISK_LOW
    of_files: bool = False
    """Inodes are short; `free` and `needed` count those."""
    too_small: str = ""
    """The size of a volume that would have too little space even if it were empty."""


@dataclass(frozen=True, slots=True)
class NoRoom:
    """Why a job cannot start. Without a shortage or a silence, the volumes must be measured first."""

    needs: tuple[Need, ...]
    """The job's own first, then those of the running jobs."""
    shortage: Shortage | None = None
    silence: str = ""
    """Message about a disk that does not answer. Only this job waits for it."""


@dataclass(frozen=True, slots=True)
class _Measurement:
    """The volume of an output root or a folder of sources, and the sizes of segment stores there."""

    at: float
    volume: Volume | None
    made: Mapping[int, int] = field(default_factory=dict)
    silence: str = ""
    """Message about a path that does not answer."""
    trouble: Problem | None = None


@dataclass(frozen=True, slots=True)
class _Retry:
    """How often a volume was found full, when it is retried in any case, and how much was free then."""

    tries: int
    due: float
    free: int


class DiskGate:
    """Checks whether the next job fits before it is claimed, and shuts and opens the gate.

    `judge` runs in the database's threads and reads a mapping that is only replaced as a whole.
    """

    def __init__(
        self,
        home: Home,
        settings: Settings,
        db: Database,
        workspace: Workspace,
        retention: Retention,
        bounded_io: BoundedIO,
        outputs: OutputDisks,
    ) -> None:
        self._outputs = outputs
        self._settings, self._db, self._workspace, self._retention = settings, db, workspace, retention
        self._bounded_io = bounded_io
        self._home = os.fsencode(home.root)
        self._measurements: Mapping[bytes, _Measurement] = {}
        self._hinted = -_HINT_INTERVAL_S
        self._tries: dict[bytes, _Retry] = {}
        self._waits: _Retry | None = None
        """For the gate that is shut now, if its volume was really full."""
        self._lock = asyncio.Lock()
        self._shortage: Shortage | None = None
        self._failures: dict[bytes, Problem] = {}
        """Outputs that failed during a job, and what to do."""
        self._predicted = ""
        """Reason of a gate that was shut before anything was written."""
        self._log = structlog.get_logger()

    def hint(self, events: Iterable[EventRow]) -> None:
        """Measure again after a job ended early: it may have used more space than estimated."""
        now = time.monotonic()
        if now - self._hinted < _HINT_INTERVAL_S:
            return
        if any(e.source == JobStatus.IN_PROGRESS and e.target != JobStatus.DONE for e in events):
            self._hinted, self._measurements = now, {}

    # Checking

    def judge(self, db: Connection, job: int, margin: float = 0.0) -> NoRoom | None:
        """Why this job does not fit now; None if it does.

        Args:
            margin: additional space required, as a fraction.
        """
        need, running = gates.needs_with_running(db, job)
        if need is None:
            return None
        needs = (need, *running)
        looks = self._measurements
        if not self._all_fresh(looks, needs):
            return NoRoom(needs)
        if silence := next((looks[place].silence for place in _places(need) if looks[place].silence), ""):
            return NoRoom(needs, silence=silence)
        shortage = self._at_home(looks, margin) or self._at_output(looks, needs, margin)
        return None if shortage is None else NoRoom(needs, shortage)

    def _all_fresh(self, looks: Mapping[bytes, _Measurement], needs: Sequence[Need]) -> bool:
        """Whether every volume that these needs concern was measured within `_FRESH_S`."""
        now = time.monotonic()
        roots = {self._home, *_places(needs[0]), *(need.output_root for need in needs)}
        return all(root in looks and now - looks[root].at <= _FRESH_S for root in roots)

    def _at_home(self, looks: Mapping[bytes, _Measurement], margin: float) -> Shortage | None:
        volume = looks[self._home].volume
        if volume is None:
            return None
        if lacks_files(volume, margin):
            return _of_files(self._home, volume, "")
        if volume.free >= DATABASE_ROOM_BYTES * (1 + margin):
            return None
        return Shortage(
            self._home,
            volume.free,
            DATABASE_ROOM_BYTES,
            f"the disk of the database in {display(self._home)} has {size(volume.free)} free,"
            f" {size(DATABASE_ROOM_BYTES)} are needed",
        )

    def _at_output(
        self, looks: Mapping[bytes, _Measurement], needs: tuple[Need, ...], margin: float
    ) -> Shortage | None:
        need, *running = needs
        root, volume = need.output_root, looks[need.output_root].volume
        if (trouble := looks[root].trouble) is not None:
            return Shortage(
                root,
                0,
                0,
                f"{trouble.message}; {need.name} waits for it",
                trouble.hint,
                ErrorCode(trouble.code),
            )
        if volume is None:
            return None  # the path cannot be checked: the job finds out why
        if lacks_files(volume, margin):
            return _of_files(root, volume, f" before {need.name} can begin")
        beside = sum(
            self._to_come(looks, other) for other in running if _on(looks[other.output_root], volume)
        )
        reserve = self._settings.disk_reserve_bytes
        needed = reserve + beside + self._to_come(looks, need)
        if volume.free >= needed * (1 + margin):
            return None
        running_too = f", {size(beside)} are for running jobs" if beside else ""
        return Shortage(
            need.output_root,
            volume.free,
            needed,
            f"the disk of {display(need.output_root)} has {size(volume.free)} free, {size(needed)} are needed"
            f" before {need.name} can begin ({size(reserve)} of them stay free{running_too})",
        )

    def _to_come(self, looks: Mapping[bytes, _Measurement], need: Need) -> int:
        made = looks[need.output_root].made.get(need.video, 0)
        return still_to_come(need.size, self._settings.disk_factor, made)

    async def _measure(self, needs: Sequence[Need]) -> None:
        by_root: dict[bytes, set[int]] = {place: set() for place in (self._home, *_places(needs[0]))}
        for need in needs:
            by_root.setdefault(need.output_root, set()).add(need.video)
        looks = await asyncio.gather(*(self._measure_one(root, videos) for root, videos in by_root.items()))
        now = time.monotonic()
        fresh = {root: look for root, look in self._measurements.items() if now - look.at < _FRESH_S}
        self._measurements = fresh | dict(zip(by_root, looks, strict=True))

    async def _measure_one(self, root: bytes, of_videos: set[int]) -> _Measurement:
        def measure() -> _Measurement:
            store = self._workspace.sink(root) / "segments"
            made = {video: occupied_bytes(store / str(video)) for video in of_videos}
            return _Measurement(time.monotonic(), volume_of(Path(os.fsdecode(root))), made)

        try:
            # A dead mount may have many folders, each of which would block a thread: check its root first.
            await self._bounded_io.run(
                point := mount_point(root), partial(volume_of, Path(os.fsdecode(point)))
            )
            # Only outputs contain earlier work that must be there.
            trouble = await self._outputs.trouble(root) if of_videos else None
            found = await self._bounded_io.run(root, measure)
        except NoAnswer as silent:
            return _Measurement(time.monotonic(), None, silence=silent.strerror)
        return replace(found, trouble=trouble)

    async def _volume(self, root: bytes) -> Volume | None:
        """The volume of a path; None also if it does not answer."""
        try:
            return await self._bounded_io.run(root, lambda: volume_of(Path(os.fsdecode(root))))
        except NoAnswer:
            return None

    async def _trouble(self, root: bytes) -> Problem | None:
        """What is wrong with an output; None also if it does not answer, which is handled elsewhere."""
        if root == self._home:
            return None
        try:
            return await self._outputs.trouble(root)
        except NoAnswer:
            return None

    # Shutting

    def failed(self, root: bytes, error: TqError) -> None:
        """Record why the gate is about to be shut: this output failed during a job, not for lack of space."""
        self._failures[root] = Problem(error.code, error.message, error.hint)

    async def settle(self, refused: NoRoom) -> None:
        """Handle a refusal: measure the volumes, free space, or shut the gate."""
        if refused.silence:
            return  # that job was postponed; the next one may be claimed
        job = refused.needs[0].job
        async with self._lock:
            if refused.shortage is None and self._all_fresh(self._measurements, refused.needs):
                return  # another claim has measured while this one waited
            await self._measure(refused.needs)
            if refused.shortage is None:
                return
            again = await self._db.read(self.judge, job)
            if again is None or again.shortage is None:
                return
            if not again.shortage.hint:
                await self._make_room(again.shortage.path)
            await self._measure(again.needs)
            still = await self._db.read(self.judge, job)
            if still is not None and still.shortage is not None:
                self._shortage, self._predicted = still.shortage, still.shortage.reason
                await self._db.write(_shut, still.shortage)

    async def _make_room(self, path: bytes) -> None:
        """Remove unfinished work that no job needs."""
        if path != self._home:
            await self._retention.make_room(path)

    # Opening

    async def tick(self) -> None:
        """Open the gate once the next job fits, with a margin; free space while it is shut.

        After a disk was really full, it opens when space was freed, or after an exponential backoff: if the
        estimate is too low, the same job would otherwise fail again and again.
        """
        if self._db.refusal is not None:
            await self._try_database()
            return
        await self._outputs.keep_locks()
        gate = await self._shut_gate()
        now = time.monotonic()
        self._tries = {path: a for path, a in self._tries.items() if now < a.due + _MAX_WAIT_S}
        if gate is None or gate.path is None:
            self._waits = None
            return
        async with self._lock:
            if gate.path not in self._failures and await self._trouble(gate.path) is None:
                await self._make_room(gate.path)
            if not await self._is_short(gate.path) and await self._is_time(gate, now):
                self._waits = None
                self._failures.pop(gate.path, None)
                await self._db.write(_open)

    async def _is_time(self, gate: GateRow, now: float) -> bool:
        """Whether a gate whose volume has enough space may open: at once, if it was shut by prediction."""
        assert gate.path is not None
        if gate.reason == self._predicted:
            return True
        volume = await self._volume(gate.path)
        free = volume.free if volume is not None else 0
        if self._waits is None:
            tries = self._tries[gate.path].tries + 1 if gate.path in self._tries else 0
            wait_s = min(_MAX_WAIT_S, _FIRST_WAIT_S * 2.0 ** min(tries, 20))
            self._waits = self._tries[gate.path] = _Retry(tries, now + wait_s, free)
        freed = self._settings.disk_reserve_bytes * _MARGIN
        return now >= self._waits.due or free > self._waits.free + freed

    async def _shut_gate(self) -> GateRow | None:
        shut = await self._db.read(gates.listing)
        return next((gate for gate in shut if gate.kind is GateKind.DISK), None)

    async def _is_short(self, path: bytes) -> bool:
        """Whether there is too little space for the next job, or, without one, for the reserve."""
        self._measurements = {}
        self._shortage = None
        job = await self._db.read(claims.head)
        refused = None if job is None else await self._db.read(self.judge, job, _MARGIN)
        if job is not None and refused is not None:
            await self._measure(refused.needs)
            refused = await self._db.read(self.judge, job, _MARGIN)
            self._shortage = refused.shortage if refused is not None else None
            return self._shortage is not None
        if await self._trouble(path) is not None:
            return True
        volume = await self._volume(path)
        needed = DATABASE_ROOM_BYTES if path == self._home else self._settings.disk_reserve_bytes
        return volume is not None and (volume.free < needed * (1 + _MARGIN) or lacks_files(volume, _MARGIN))

    async def _try_database(self) -> None:
        """Try whether the database can be written to again."""
        volume = await self._volume(self._home)
        if volume is not None and volume.free < DATABASE_ROOM_BYTES * (1 + _MARGIN):
            return
        gate = self.of_database()
        if gate is None:
            return
        try:
            await self._db.write_again(_recorded, gate)
        except TqError as error:
            if error.code not in UNWRITTEN:
                raise
            return
        self._log.info("the database can be written again")

    # Showing

    def of_database(self) -> GateRow | None:
        """The gate of a database that cannot be written to, and so cannot store it."""
        refusal = self._db.refusal
        if refusal is None:
            return None
        return GateRow(GateKind.DISK, refusal.error.message, self._home, refusal.since)

    async def figures(self, gate: GateRow) -> Shortage | None:
        """The present shortage of a shut disk gate; None if more space would not help."""
        refusal = self._db.refusal
        if gate.path is None or (refusal is not None and refusal.error.code is not ErrorCode.DISK_LOW):
            return None
        trouble = await self._trouble(gate.path) or self._failures.get(gate.path)
        if trouble is not None:
            return Shortage(gate.path, 0, 0, gate.reason, trouble.hint, ErrorCode(trouble.code))
        short = self._shortage
        needed = DATABASE_ROOM_BYTES if gate.path == self._home else self._settings.disk_reserve_bytes
        if short is not None and short.path == gate.path:
            needed = short.needed
        volume = await self._volume(gate.path)
        if volume is not None and lacks_files(volume):
            return _of_files(gate.path, volume, "")
        if volume is None:
            return None
        too_small = size(volume.total) if volume.never_has(needed) else ""
        return Shortage(gate.path, volume.free, needed, gate.reason, too_small=too_small)


def lacks_files(volume: Volume, margin: float = 0.0) -> bool:
    """Whether a volume has too few inodes left, however many bytes are free."""
    return volume.files is not None and volume.files < FILES_ROOM * (1 + margin)


def _of_files(path: bytes, volume: Volume, before: str) -> Shortage:
    files = volume.files or 0
    reason = (
        f"the file system of {display(path)} has {files} files (inodes) free, {FILES_ROOM} are needed{before}"
    )
    return Shortage(path, files, FILES_ROOM, reason, of_files=True)


def _places(need: Need) -> tuple[bytes, bytes]:
    """The folders where a job reads and writes."""
    return os.path.dirname(need.source), need.output_root


def _on(look: _Measurement, volume: Volume) -> bool:
    return look.volume is not None and look.volume.device == volume.device


def _shut(db: Connection, shortage: Shortage) -> None:
    gates.shut(db, GateKind.DISK, shortage.reason, now=now_us(), actor="supervisor", path=shortage.path)


def _open(db: Connection) -> None:
    gates.reopen(db, GateKind.DISK, now=now_us(), actor="supervisor")


def _recorded(db: Connection, gate: GateRow) -> None:
    """Record the gate that could not be written while the disk was full."""
    if gates.shut(db, gate.kind, gate.reason, now=gate.since, actor="supervisor", path=gate.path):
        gates.reopen(db, gate.kind, now=now_us(), actor="supervisor")

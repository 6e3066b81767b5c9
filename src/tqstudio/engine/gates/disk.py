"""The disk gate: no job begins that does not fit, and a queue held up by a full disk goes on by itself.

A job fits when its volume has free what its ladder will take, what the running jobs on the same volume will
still take, and the reserve. What a ladder takes is estimated as `disk_factor` × its source, less what the
segment store has of it. The database's volume must have some room too, and both must have inodes left.
Whether there is room on a volume that does not answer nobody knows: its jobs wait until it does. So do those
whose output is not the disk that was written to before, or takes no files.

The gate holds up the whole queue when the job that is next does not fit, also where a later one would: one
that overtook would take the very room that the first waits for, and large files would never have their turn.
The reason names the job, so a person can pause it or move it down; then the next one counts.
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
from tqstudio.engine.host.clock import MICROSECOND, now_us
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
"""What the volume of the home has to have free: the write-ahead log, the logs, and a copy of some pages."""
FILES_ROOM = 500
"""Files (inodes) that a volume has to have free, where it counts them: some ten minutes of a ladder."""
_FRESH_S = 1.0
"""How long a look at a volume counts: claims may come by the thousand, and what runs is accounted for."""
_HINTS_APART_S = 0.2
"""Jobs may end by the thousand too; then a look counts at least so long."""
_MARGIN = 0.05
"""Of what is needed, on top, before a shut gate opens: it must not flap around one figure."""
_FIRST_WAIT_S = 10.0
_MAX_WAIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Shortage:
    """A volume with too little room: its path, bytes free and bytes needed, and the sentence for people."""

    path: bytes
    free: int
    needed: int
    reason: str
    hint: str = ""
    """What to do where room is not what is short."""
    code: ErrorCode = ErrorCode.DISK_LOW
    of_files: bool = False
    """It lacks files (inodes), and `free` and `needed` count those."""
    too_small: str = ""
    """The size of a volume that would have too little room even if it were empty."""


@dataclass(frozen=True, slots=True)
class NoRoom:
    """Why a job is not handed out. Without a shortage or a silence the volumes have to be looked at first."""

    needs: tuple[Need, ...]
    """The job's own first, then those of the jobs that run."""
    shortage: Shortage | None = None
    silence: str = ""
    """Which disk does not answer. This job waits for it, and no other."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What was found at an output root or a folder of sources, and what segment stores held there then."""

    at: float
    volume: Volume | None
    made: Mapping[int, int] = field(default_factory=dict)
    silence: str = ""
    """What is said of a place that does not answer."""
    trouble: Problem | None = None


@dataclass(frozen=True, slots=True)
class _Try:
    """How often a volume was found full, when it is tried again anyhow, and how much was free then."""

    tries: int
    due: float
    free: int


class DiskGate:
    """Judges the next job before it is claimed, shuts the gate and opens it.

    `judge` runs on the database's threads and reads one mapping that is replaced as a whole.
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
        self._looks: Mapping[bytes, _Look] = {}
        self._hinted = -_HINTS_APART_S
        self._tries: dict[bytes, _Try] = {}
        self._waits: _Try | None = None
        """Of the gate that is shut now, if its volume was really full."""
        self._alone = asyncio.Lock()
        self._shortage: Shortage | None = None
        self._said: dict[bytes, Problem] = {}
        """Outputs that failed in the middle of work, and what to do."""
        self._foreseen = ""
        """Reason of a gate that was shut before anything was written."""
        self._log = structlog.get_logger()

    def hint(self, events: Iterable[EventRow]) -> None:
        """Something happened; a job that ended early may have taken more than was kept for it."""
        now = time.monotonic()
        if now - self._hinted < _HINTS_APART_S:
            return
        if any(e.source == JobStatus.IN_PROGRESS and e.target != JobStatus.DONE for e in events):
            self._hinted, self._looks = now, {}

    # Judging

    def judge(self, db: Connection, job: int, margin: float = 0.0) -> NoRoom | None:
        """Whether this job fits now; None when it does.

        Args:
            margin: this much more than is needed has to be there, as a fraction.
        """
        need, running = gates.needs_with_running(db, job)
        if need is None:
            return None
        needs = (need, *running)
        looks = self._looks
        if not self._all_fresh(looks, needs):
            return NoRoom(needs)
        if silence := next((looks[place].silence for place in _places(need) if looks[place].silence), ""):
            return NoRoom(needs, silence=silence)
        shortage = self._at_home(looks, margin) or self._at_output(looks, needs, margin)
        return None if shortage is None else NoRoom(needs, shortage)

    def _all_fresh(self, looks: Mapping[bytes, _Look], needs: Sequence[Need]) -> bool:
        """Whether every volume that these needs are about was looked at a moment ago."""
        now = time.monotonic()
        roots = {self._home, *_places(needs[0]), *(need.output_root for need in needs)}
        return all(root in looks and now - looks[root].at <= _FRESH_S for root in roots)

    def _at_home(self, looks: Mapping[bytes, _Look], margin: float) -> Shortage | None:
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
        self, looks: Mapping[bytes, _Look], needs: tuple[Need, ...], margin: float
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
            return None  # nothing of the path can be looked at: the job finds out why
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

    def _to_come(self, looks: Mapping[bytes, _Look], need: Need) -> int:
        made = looks[need.output_root].made.get(need.video, 0)
        return still_to_come(need.size, self._settings.disk_factor, made)

    async def _measure(self, needs: Sequence[Need]) -> None:
        by_root: dict[bytes, set[int]] = {place: set() for place in (self._home, *_places(needs[0]))}
        for need in needs:
            by_root.setdefault(need.output_root, set()).add(need.video)
        looks = await asyncio.gather(*(self._look_at(root, videos) for root, videos in by_root.items()))
        now = time.monotonic()
        fresh = {root: look for root, look in self._looks.items() if now - look.at < _FRESH_S}
        self._looks = fresh | dict(zip(by_root, looks, strict=True))

    async def _look_at(self, root: bytes, of_videos: set[int]) -> _Look:
        def look() -> _Look:
            store = self._workspace.sink(root) / "segments"
            made = {video: occupied_bytes(store / str(video)) for video in of_videos}
            return _Look(time.monotonic(), volume_of(Path(os.fsdecode(root))), made)

        try:
            # The folders of a dead mount may be many; asked one by one each of them would cost a thread.
            await self._bounded_io.run(
                point := mount_point(root), partial(volume_of, Path(os.fsdecode(point)))
            )
            # Only at an output something was made that has to be there.
            trouble = await self._outputs.trouble(root) if of_videos else None
            found = await self._bounded_io.run(root, look)
        except NoAnswer as silent:
            return _Look(time.monotonic(), None, silence=silent.strerror)
        return replace(found, trouble=trouble)

    async def _volume(self, root: bytes) -> Volume | None:
        """None also when it does not answer."""
        try:
            return await self._bounded_io.run(root, lambda: volume_of(Path(os.fsdecode(root))))
        except NoAnswer:
            return None

    async def _trouble(self, root: bytes) -> Problem | None:
        """None also where it does not answer: that is found out elsewhere."""
        if root == self._home:
            return None
        try:
            return await self._outputs.trouble(root)
        except NoAnswer:
            return None

    # Shutting

    def failed(self, root: bytes, error: TqError) -> None:
        """The gate is about to be shut over this output: it failed amid work, and not for want of room."""
        self._said[root] = Problem(error.code, error.message, error.hint)

    async def settle(self, refused: NoRoom) -> None:
        """Do what a refusal asks for: look at the volumes, make room, or shut the gate."""
        if refused.silence:
            return  # that job was put off; the next may be claimed
        job = refused.needs[0].job
        async with self._alone:
            if refused.shortage is None and self._all_fresh(self._looks, refused.needs):
                return  # another claim has looked while this one waited
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
                self._shortage, self._foreseen = still.shortage, still.shortage.reason
                await self._db.write(_shut, still.shortage)

    async def _make_room(self, path: bytes) -> None:
        """Unfinished work that no job needs goes first."""
        if path != self._home:
            await self._retention.make_room(path)

    # Opening

    async def tick(self) -> None:
        """Open the gate once the next job fits, with a margin; while it is shut, make room.

        After a disk that was really full it opens when space was freed, and else every further try waits
        twice as long: an estimate that is too low would let the same job in again and again.
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
        async with self._alone:
            if gate.path not in self._said and await self._trouble(gate.path) is None:
                await self._make_room(gate.path)
            if not await self._is_short(gate.path) and await self._is_time(gate, now):
                self._waits = None
                self._said.pop(gate.path, None)
                await self._db.write(_open)

    async def _is_time(self, gate: GateRow, now: float) -> bool:
        """Whether a gate may open whose volume has what is needed: at once, if it was shut for that."""
        assert gate.path is not None
        if gate.reason == self._foreseen:
            return True
        volume = await self._volume(gate.path)
        free = volume.free if volume is not None else 0
        if self._waits is None:
            tries = self._tries[gate.path].tries + 1 if gate.path in self._tries else 0
            wait_s = min(_MAX_WAIT_S, _FIRST_WAIT_S * 2.0 ** min(tries, 20))
            self._waits = self._tries[gate.path] = _Try(tries, now + wait_s, free)
        freed = self._settings.disk_reserve_bytes * _MARGIN
        return now >= self._waits.due or free > self._waits.free + freed

    async def _shut_gate(self) -> GateRow | None:
        shut = await self._db.read(gates.listing)
        return next((gate for gate in shut if gate.kind is GateKind.DISK), None)

    async def _is_short(self, path: bytes) -> bool:
        """Whether there is too little room for the job that is next, or, without one, for the reserve."""
        self._looks = {}
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
        """Find out by writing whether the database can be written again."""
        volume = await self._volume(self._home)
        if volume is not None and volume.free < DATABASE_ROOM_BYTES * (1 + _MARGIN):
            return
        gate = self.of_database()
        if gate is None:
            return
        try:
            await self._db.write_again(_recorded, gate, int(self._settings.lease_s * MICROSECOND))
        except TqError as error:
            if error.code not in UNWRITTEN:
                raise
            return
        self._log.info("the database can be written again")

    # Showing

    def of_database(self) -> GateRow | None:
        """The gate of a database that cannot be written, and so cannot hold it."""
        refusal = self._db.refusal
        if refusal is None:
            return None
        return GateRow(GateKind.DISK, refusal.error.message, self._home, refusal.since)

    async def figures(self, gate: GateRow) -> Shortage | None:
        """A shut disk gate with what is free and needed as it is now; None where more room is of no help."""
        refusal = self._db.refusal
        if gate.path is None or (refusal is not None and refusal.error.code is not ErrorCode.DISK_LOW):
            return None
        trouble = await self._trouble(gate.path) or self._said.get(gate.path)
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
    """Whether a volume has too few files (inodes) left, however many bytes are free."""
    return volume.files is not None and volume.files < FILES_ROOM * (1 + margin)


def _of_files(path: bytes, volume: Volume, before: str) -> Shortage:
    files = volume.files or 0
    reason = (
        f"the file system of {display(path)} has {files} files (inodes) free, {FILES_ROOM} are needed{before}"
    )
    return Shortage(path, files, FILES_ROOM, reason, of_files=True)


def _places(need: Need) -> tuple[bytes, bytes]:
    """Where a job reads and writes."""
    return os.path.dirname(need.source), need.output_root


def _on(look: _Look, volume: Volume) -> bool:
    return look.volume is not None and look.volume.device == volume.device


def _shut(db: Connection, shortage: Shortage) -> None:
    gates.shut(db, GateKind.DISK, shortage.reason, now=now_us(), actor="supervisor", path=shortage.path)


def _open(db: Connection) -> None:
    gates.reopen(db, GateKind.DISK, now=now_us(), actor="supervisor")


def _recorded(db: Connection, gate: GateRow, lease_us: int) -> None:
    """Tell what could not be told while it was so, and renew the leases that could not be renewed."""
    if gates.shut(db, gate.kind, gate.reason, now=gate.since, actor="supervisor", path=gate.path):
        gates.reopen(db, gate.kind, now=now_us(), actor="supervisor")
    claims.renew_live(db, now=now_us(), before=gate.since, lease_us=lease_us)

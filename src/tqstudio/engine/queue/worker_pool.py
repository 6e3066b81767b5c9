"""Starts and supervises the local worker processes, one per slot, and restarts them when they die."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

import structlog

from tqstudio.engine.access.worker_tokens import WorkerTokens
from tqstudio.engine.host import children
from tqstudio.engine.host.children import Child
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.host.restart_delay import MAX_RESTART_WAIT_S, RestartDelay
from tqstudio.engine.host.waiting import wait_until_set
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.machine import workers
from tqstudio.errors import UNWRITTEN, TqError
from tqstudio.home import Home

REAP_AFTER_S = 0.5
KILL_AFTER_S = 1.5
"""Time to stop after SIGTERM; its ffmpeg ends within milliseconds."""
LEAVES_WITHIN_S = 10.0
"""As `KILL_AFTER_S`, of a worker that is removed while the others work."""
GIVE_UP_AFTER_S = 2.0
"""A killed process that still exists after this time is in uninterruptible I/O; its slot is reused."""
_DATABASE_WAIT_S = 1.0
_SLOT, _GPU_SLOT = re.compile(r"[cg]pu-\d+"), re.compile(r"gpu-\d+")


@dataclass(frozen=True, slots=True)
class Slot:
    """The configuration of one worker process."""

    name: str
    kind: str
    encoder: str | None = None
    device: str | None = None
    label: str | None = None
    decodes: str = ""


@dataclass
class _Running:
    slot: Slot
    worker: int
    token: str
    child: Child
    given_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it was killed but has not ended: it is in uninterruptible I/O."""
    why: str = ""
    """Why it was killed."""


Lost = Callable[[str, str, str, bool], Awaitable[None]]
"""Called with instance, worker, why, and whether it ended on request."""


class WorkerPool:
    """Keeps one process running in each slot until it is stopped."""

    def __init__(
        self, home: Home, db: Database, worker_tokens: WorkerTokens, ffmpeg: str, lost: Lost
    ) -> None:
        self._home, self._db, self._worker_tokens = home, db, worker_tokens
        self._ffmpeg, self._lost = ffmpeg, lost
        self._running: dict[str, _Running] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._slots: dict[str, Slot] = {}
        self._stopping = asyncio.Event()
        self.notes: dict[str, str] = {}
        """Worker name → why it is not running now."""
        self._log = structlog.get_logger()

    async def prepare(self, slots: Sequence[Slot]) -> None:
        """Registers the workers of these slots; `start` starts their processes."""
        await self._db.write(_ensure_all, slots)
        self._slots |= {slot.name: slot for slot in slots}

    def start(self, slot: Slot) -> None:
        """Starts the process of a slot and keeps it running; idempotent."""
        if slot.name not in self._tasks and not self._stopping.is_set():
            self._slots[slot.name] = slot
            self._tasks[slot.name] = asyncio.create_task(self._keep(slot))

    async def add(self) -> str:
        """Starts one more CPU worker, until the supervisor ends; returns its name."""
        # Not the name of one that still ends, whose token a second process would replace.
        taken = {*self._slots, *self._tasks}
        name = next(name for number in count() if (name := f"cpu-{number}") not in taken)
        like = next((slot for slot in self._slots.values() if slot.kind == "cpu"), Slot(name, "cpu"))
        slot = replace(like, name=name)
        await self.prepare([slot])
        self.start(slot)
        return name

    def remove(self, name: str) -> None:
        """Ends the process of a slot and the slot; its job is requeued, with its finished segments."""
        self._slots.pop(name, None)
        if (task := self._tasks.get(name)) is not None:
            task.add_done_callback(lambda _: self._tasks.pop(name, None))
        if (running := self._running.get(name)) is not None:
            running.child.signal(signal.SIGTERM)
            asyncio.get_running_loop().call_later(LEAVES_WITHIN_S, self._kill, running)

    def has(self, name: str) -> bool:
        """Whether the pool has a slot of that name."""
        return name in self._slots

    def is_reserved(self, name: str) -> bool:
        """Whether a name is of a worker of this machine, or may become one with more slots."""
        return self.has(name) or self._worker_tokens.issued(name) or bool(_SLOT.fullmatch(name))

    def is_obsolete(self, name: str) -> bool:
        """Whether a worker's row is obsolete: from an earlier, larger pool or announced to an earlier
        supervisor. Workers of missing GPUs are not obsolete."""
        return not self.has(name) and not self.announced(name) and not _GPU_SLOT.fullmatch(name)

    def announced(self, name: str) -> bool:
        """Whether the worker got its token by hand and is started outside the pool."""
        # A removed slot has its task until its process has ended.
        return name not in {*self._slots, *self._tasks} and self._worker_tokens.knows(name)

    def note_of(self, name: str) -> str | None:
        """Returns why a worker is not running; None if it runs or is unknown to the pool."""
        return self.notes.get(name)

    async def _keep(self, slot: Slot) -> None:
        """Restarts the slot's process whenever it ends, with a growing delay if it keeps dying."""
        delay = RestartDelay()
        while not self._is_over(slot):
            try:
                running = await self._spawn(slot)
            except Exception as error:
                why = (
                    error.message if isinstance(error, TqError) else getattr(error, "strerror", None) or error
                )
                self.notes[slot.name] = f"cannot start: {why}"
                if not isinstance(error, OSError | TqError):
                    self._log.exception("a worker cannot start", worker=slot.name)
                await wait_until_set(self._stopping, MAX_RESTART_WAIT_S)
                continue
            if self._is_over(slot):
                # Started meanwhile: `terminate` or `remove` has missed it, and it has no job yet.
                self._kill(running)
            began = time.monotonic()
            await _first_of(running.child.exited, running.given_up)
            how, lived_s = _how(running), time.monotonic() - began
            await self._until_written(partial(self._ended, running, how))
            if self._is_over(slot):
                return
            wait_s = delay.after(lived_s)
            if wait_s:
                self.notes[slot.name] = f"{how}; restarts in {wait_s:.1f} s"
                await wait_until_set(self._stopping, wait_s)

    def _is_over(self, slot: Slot) -> bool:
        """Whether the slot is to have no process any more."""
        return self._stopping.is_set() or self._slots.get(slot.name) != slot

    async def _until_written(self, step: Callable[[], Awaitable[None]]) -> None:
        """Repeats a step until the database can be written; not while stopping."""
        while True:
            try:
                return await step()
            except Exception as error:
                if self._stopping.is_set():
                    raise
                if not isinstance(error, TqError) or error.code not in UNWRITTEN:
                    self._log.warning("a worker's end is not stored yet", error=str(error))
            await wait_until_set(self._stopping, _DATABASE_WAIT_S)

    async def _spawn(self, slot: Slot) -> _Running:
        row = await self._db.write(_ensure, slot)
        token = self._worker_tokens.issue(row.id, slot.name, slot.kind)
        environment = {
            "TQSTUDIO_HOME": str(self._home.root),
            "TQSTUDIO_WORKER_SOCKET": str(self._home.socket),
            "TQSTUDIO_WORKER_TOKEN": token,
            "TQSTUDIO_WORKER_NAME": slot.name,
            "TQSTUDIO_WORKER_KIND": slot.kind,
            # Not over the socket: the process that starts a worker decides what it executes.
            "TQSTUDIO_WORKER_FFMPEG": self._ffmpeg,
            "TQSTUDIO_WORKER_ENCODER": slot.encoder or "",
            "TQSTUDIO_WORKER_DEVICE": slot.device or "",
            "TQSTUDIO_WORKER_DECODES": slot.decodes,
        }
        log = self._home.logs / f"worker-{slot.name}.log"
        with log.open("ab") as stderr:
            child = children.spawn("tqstudio.engine.worker", environment=environment, stderr=stderr)
        running = _Running(slot, row.id, token, child)
        self._running[slot.name] = running
        self.notes.pop(slot.name, None)
        self._log.info("worker started", worker=slot.name, pid=child.pid)
        return running

    async def _ended(self, running: _Running, how: str) -> None:
        self._worker_tokens.revoke(running.token)
        self._running.pop(running.slot.name, None)
        row = await self._db.read(workers.by_id, running.worker)
        instance = row.instance if row else None
        await self._db.write(workers.ended, running.worker, instance=instance, now=now_us(), why=how)
        self._log.info("worker ended", worker=running.slot.name, pid=running.child.pid, how=how)
        if instance is not None:
            await self._lost(instance, running.slot.name, how, self._is_over(running.slot))
        # Its ffmpeg receives the parent-death signal now and is a zombie shortly after.
        asyncio.get_running_loop().call_later(REAP_AFTER_S, children.reap_orphans)

    def end_offline(self, name: str) -> None:
        """Kills a local process without heartbeats; `_keep` starts a new one."""
        if (running := self._running.get(name)) is not None:
            self._log.warning("worker is offline", worker=name, pid=running.child.pid)
            self._kill(running)

    def replace(self, name: str, why: str) -> None:
        """Kills a stuck local process; `_keep` starts a new one."""
        if (running := self._running.get(name)) is not None:
            self._log.warning("worker is stuck", worker=name, pid=running.child.pid, why=why)
            running.why = why
            self._kill(running)

    def _kill(self, running: _Running) -> None:
        """Kills a process; its slot is reused even if uninterruptible I/O keeps it alive."""
        running.child.kill()
        asyncio.get_running_loop().call_later(GIVE_UP_AFTER_S, running.given_up.set)

    def terminate(self) -> None:
        """Asks every worker to release its job and exit."""
        self._stopping.set()
        for running in self._running.values():
            running.child.signal(signal.SIGTERM)

    async def stop(self) -> None:
        """Ends every worker: SIGTERM first, killed after `KILL_AFTER_S`. Idempotent."""
        self.terminate()
        if self._running:
            done = asyncio.gather(*(running.child.exited.wait() for running in self._running.values()))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(KILL_AFTER_S):
                    await done
            for running in self._running.values():
                self._kill(running)
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()
        self._slots.clear()


def _ensure(db: Connection, slot: Slot) -> workers.WorkerRow:
    return workers.ensure(db, slot.name, slot.kind, device=slot.label or slot.device)


def _ensure_all(db: Connection, slots: Sequence[Slot]) -> None:
    for slot in slots:
        _ensure(db, slot)


async def _first_of(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()


def _how(running: _Running) -> str:
    """Describes how a process ended."""
    child = running.child
    how = f"the worker {child.how}" if child.exited.is_set() else "the worker is stuck and cannot be killed"
    return f"{how}: {running.why}" if running.why else how


def default_cpu_workers(processors: int, memory_bytes: int) -> int:
    """Returns the default number of CPU workers: one per 8 processors and 4 GB of memory, at least one.

    One ffmpeg with a ladder uses about eight processors. Its measured peak is 0.55 GB for 1080p and 3.4 GB
    for 4K at preset medium.
    """
    return max(1, min(processors // 8, memory_bytes // 4_000_000_000))

"""One life of the supervisor: the real one, from `main` on, with nothing but its outside replaced."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine

from tqstudio.engine import supervisor
from tqstudio.engine.api import events
from tqstudio.engine.assembly import services
from tqstudio.engine.files import bounded_io
from tqstudio.engine.gates import measure
from tqstudio.engine.gates.load import LoadGate
from tqstudio.engine.host import children, failpoints, orphan_processes
from tqstudio.engine.http import doors
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.parts import scheduler
from tqstudio.engine.parts.part import Part
from tqstudio.engine.store.db import errors
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.connection_thread import MAX_SHARING
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.dialects.sqlite import engine_of
from tqstudio.errors import ErrorCode, TqError

from .timekeeping import patched

if TYPE_CHECKING:
    from tqstudio.engine.parts.scheduler import Every

    from .world import World

LIFE: contextvars.ContextVar[Life | None] = contextvars.ContextVar("life", default=None)
"""Whose code runs: what a dead supervisor still had to do is never done."""

QUICK_S = 0.004
"""A turn of the database, or of a thread, on a good day."""


class PowerCut(BaseException):
    """The supervisor ends here."""


class Life:
    """A supervisor's process. Once `dead`, it writes nothing, answers no one and sees no time pass."""

    def __init__(self, world: World) -> None:
        self.world, self.dead, self.open = world, False, False
        self.stalled_until = self.hangs_until = 0.0
        """Until then the process gets no processor; its writes wait for the disk of the database."""
        self.fail_point: str | None = None
        self.context = contextvars.copy_context()
        self.context.run(LIFE.set, self)
        self.db = _SimulatedDatabase(world.home.database, self)
        self.intake: _Intake | None = None
        self._supervisor: Any = None

    @property
    def services(self) -> Any:
        return self._supervisor.services

    @property
    def running(self) -> bool:
        """Whether requests are answered."""
        return self.open and not self.dead

    def begin(self) -> None:
        self.run(self._main())

    def run(self, coroutine: Any) -> asyncio.Task[Any]:
        """Run something as a part of this process."""
        task = self.world.loop.create_task(coroutine, context=self.context)
        # What is dead waits for ever; were it forgotten, Python would end it, and it would report that.
        self.world.parts.add(task)
        # But what has ended must go: only then is an error that no one asked for reported.
        task.add_done_callback(self.world.parts.discard)
        return task

    async def _main(self) -> None:
        self.db.open()
        settings, found = self.world.settings, FFmpeg("/usr/bin/ffmpeg", "9.0", "0" * 12)
        try:
            self._supervisor = supervisor.Supervisor(
                self.world.home,
                settings,
                self.db,
                found,
                supervisor.home_lock.HomeLock(self.world.home),
                supervisor.ServiceManager(),
                until_idle=False,
            )
            await self._supervisor.main()
            self.world.note("supervisor", "ended in order")
        except TqError as error:
            if error.code is not ErrorCode.DISK_LOW:
                raise
            self.world.note("supervisor", "cannot start: the disk is full")
        self.die()

    def die(self) -> None:
        """End at once, as by SIGKILL; its own workers die with it."""
        if not self.dead:
            self.dead, self.open = True, False
            if self._supervisor is not None:
                self._supervisor.services.workspace.unlock()  # as the kernel does
            # Not from within a transaction of its own, which rolls back first.
            self.world.loop.call_soon(self.db.cut)
            self.world.after_death(self)

    def delay_s(self) -> float:
        """How long the next turn of a thread takes."""
        rng, now = self.world.rng, self.world.loop.time()
        quick = rng.random() * (self.world.disks.slow_s or QUICK_S)
        return max(0.0, self.stalled_until - now) + quick

    async def in_motion(self) -> None:
        """Wait until the process gets the processor again."""
        if (left := self.stalled_until - self.world.loop.time()) > 0:
            await asyncio.sleep(left)

    def execute(self, func: Callable[..., Any], args: Sequence[Any]) -> asyncio.Future[Any]:
        """Run a function as on a thread of this process; its answer comes later, or never."""
        answer: asyncio.Future[Any] = self.world.loop.create_future()

        def turn() -> None:
            if self.dead or answer.done():
                return
            if self.world.loop.time() < self.stalled_until:
                self.world.loop.call_later(self.delay_s(), turn)
                return
            try:
                result = func(*args)
            except PowerCut:
                return
            except BaseException as error:
                answer.set_exception(error)
            else:
                answer.set_result(result)

        if not self.dead:
            self.world.loop.call_later(self.delay_s(), turn)
        return answer

    def reach(self, name: str) -> None:
        """What `failpoints.reach` does here."""
        if self.fail_point is not None and name.startswith(self.fail_point):
            self.world.note("fault", f"the supervisor is killed at {name}")
            self.die()
            raise PowerCut


class _SimulatedDatabase(Database):
    """The real database, served on the one thread there is, a turn at a time."""

    def __init__(self, path: Path, life: Life) -> None:
        super().__init__(path)
        self._life, self._wrote = life, False
        self._writer = _Turns(life, self._commit, writes=True)  # type: ignore[assignment]
        self._reader = _Turns(life, self._look)  # type: ignore[assignment]
        self._searcher = _Turns(life, self._look)  # type: ignore[assignment]

    def open(self) -> None:
        super().open()
        self._writer.db.close()  # type: ignore[attr-defined]
        self._writer.db = _Mortal(engine_of(self.address), self._life)  # type: ignore[attr-defined]
        # What survives a power cut is shown elsewhere; here processes die, and the system stays.
        self._writer.db.raw.execute("PRAGMA synchronous=OFF")
        self._life.world.audit.attach(self._writer.db.raw)

    def cut(self) -> None:
        for turns in (self._writer, self._reader, self._searcher):
            turns.cut()

    def _commit(self, db: Connection, calls: Sequence[Any]) -> None:
        if not self._life.dead:
            self._wrote = True
            super()._commit(db, calls)

    def _deliver(self, calls: Sequence[Any]) -> None:
        if self._life.dead:
            return
        if self._wrote:
            self._wrote = False
            self._life.world.audit.after_commit()
        super()._deliver(calls)


class _Mortal(Connection):
    """The connection that writes, of a process that may be killed in the middle of a transaction."""

    __slots__ = ("_life",)

    def __init__(self, engine: Engine, life: Life) -> None:
        super().__init__(engine)
        self._life = life

    def begin(self) -> None:
        self._life.world.disks.limit(self.raw)
        super().begin()

    def commit(self) -> None:
        if self._life.dead:
            raise PowerCut
        super().commit()


class _Turns:
    """Serves the calls of one connection in their order; those that wait together share a turn."""

    def __init__(
        self, life: Life, serve: Callable[[Connection, Sequence[Any]], None], *, writes: bool = False
    ) -> None:
        self._life, self._serve, self._writes = life, serve, writes
        self._waiting: list[Any] = []
        self._scheduled = False
        self.db: Any = None

    def open(self, make: Callable[[], Connection]) -> None:
        self.db = make()

    def submit(self, call: Any) -> None:
        if self._life.dead:
            if self._life.world.closing:
                raise RuntimeError("the database is not open")
            return
        self._waiting.append(call)
        if call.loop is None:
            self._turn()
        elif not self._scheduled:
            self._next_turn(self._life.delay_s())

    def submit_with_others(self, call: Any, _loop: asyncio.AbstractEventLoop) -> None:
        # What waits shares a turn in any case.
        self.submit(call)

    def _turn(self) -> None:
        self._scheduled = False
        if self._life.dead or not self._waiting:
            return
        if self._waiting[0].loop is not None and (left := self._held_up_s()) > 0:
            self._next_turn(left)
            return
        calls, self._waiting = self._waiting[:MAX_SHARING], self._waiting[MAX_SHARING:]
        self._serve(self.db, calls)
        if self._waiting and not self._scheduled:
            self._next_turn(self._life.delay_s())

    def _next_turn(self, in_s: float) -> None:
        self._scheduled = True
        self._life.world.loop.call_later(in_s, self._turn)

    def _held_up_s(self) -> float:
        until = max(self._life.stalled_until, self._life.hangs_until if self._writes else 0.0)
        return until - self._life.world.loop.time()

    def cut(self) -> None:
        self._waiting.clear()
        if self.db is not None:
            self.db.rollback()
            self.db.close()
            self.db = None

    def close(self) -> None:
        self.cut()


class _Schedule:
    """In the place of APScheduler: interval jobs in simulated time, one run of each at a time."""

    running = True

    def __init__(self) -> None:
        self._jobs: list[tuple[Callable[[], Any], float, float]] = []
        self._at_once: list[Callable[[], Any]] = []
        self._tasks: list[asyncio.Task[None]] = []

    def add_job(self, run: Callable[[], Any], every: Every, *, next_run_time: datetime) -> None:
        self._jobs.append((run, every.interval.total_seconds(), every.jitter or 0.0))
        if next_run_time - datetime.now(UTC) < every.interval / 2:
            self._at_once.append(run)

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._keep(*job)) for job in self._jobs]

    async def _keep(self, run: Callable[[], Any], seconds: float, jitter: float) -> None:
        life = LIFE.get()
        assert life is not None
        if run in self._at_once:
            await run()
        while not life.dead:
            await asyncio.sleep(seconds + jitter * life.world.rng.random())
            await life.in_motion()
            if not life.dead:
                await run()

    def shutdown(self, wait: bool = True) -> None:
        del wait
        for task in self._tasks:
            task.cancel()


class _Intake(Part):
    """In the place of the watcher: the simulation says itself which file has settled."""

    def __init__(self, *, offer: Callable[..., Any], **_more: Any) -> None:
        self.offer = offer
        life = LIFE.get()
        assert life is not None
        life.intake = self

    async def set_folders(self, _rows: Any) -> None:
        pass

    def look_again(self, _path: bytes) -> None:
        pass

    def states(self) -> dict[int, Any]:
        return {}


class _Prober(Part):
    """In the place of the process that looks at waiting files: none is looked at before its job runs."""

    def __init__(self, *_parts: Any) -> None:
        pass

    def wake(self) -> None:
        pass


class _Door:
    """In the place of the HTTP server: requests are answered while it serves."""

    def __init__(self, _app: Any) -> None:
        self._closed = asyncio.Event()

    def end(self) -> None:
        life = LIFE.get()
        assert life is not None
        life.open = False
        self._closed.set()

    async def listen_on(self, listener: Any) -> None:
        del listener

    async def serve(self, sockets: Any) -> None:
        del sockets
        life = LIFE.get()
        assert life is not None
        life.open = not life.dead
        life.world.note("supervisor", "answers")
        await self._closed.wait()


class _HomeGuard:
    """Replaces the real guard: the simulation never removes the home."""

    def __init__(self, *_parts: Any, **_named: Any) -> None:
        pass

    def open_socket(self) -> _Listener:
        return _Listener()

    def close_socket(self) -> None:
        pass

    async def watch(self, _listen_on: Any) -> str:
        await asyncio.Event().wait()
        return ""


class _Listener:
    def close(self) -> None:
        pass


def _reach(name: str) -> None:
    if (life := LIFE.get()) is not None:
        life.reach(name)


@contextmanager
def outside_replaced(world: World) -> Iterator[None]:
    """Sockets, processes, signals, the scheduler's clock and the disk's size are the simulation's."""
    with patched(
        (doors, "SocketServer", _Door),
        (services, "Intake", _Intake),
        (services, "Prober", _Prober),
        (doors, "make_app", lambda *_: None),
        (children, "become_subreaper", lambda: None),
        (events, "SNAPSHOT_INTERVAL_S", 60.0),
        (supervisor, "HomeGuard", _HomeGuard),
        (scheduler, "Scheduler", _Schedule),
        (services, "LoadGate", lambda *parts: LoadGate(*parts, lambda: world.reading)),
        (measure, "volume_of", world.disks.volume_of),
        (errors, "volume_of", world.disks.volume_of),
        (orphan_processes, "end_orphans", lambda _store: []),
        (children, "mark", lambda *_mark: None),
        (children, "spawn", world.spawn),
        (children, "reap_orphans", lambda: None),
        (failpoints, "reach", _reach),
        (bounded_io, "on_a_thread", lambda look: world.loop.run_in_executor(None, look)),
    ):
        yield

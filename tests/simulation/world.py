"""Everything outside the supervisor, and the course of events: trouble first, then calm, then the end."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import shutil
import signal
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import structlog

from tqstudio.config import Settings
from tqstudio.engine.store.db.schema import migrate
from tqstudio.errors import ErrorCode
from tqstudio.home import Home

from . import invariants
from .audit import Audit, Violation
from .disks import Disks
from .faults import ROOMY, Faults
from .life import LIFE, Life, PowerCut, outside_replaced
from .network import Answer, Network
from .people import People
from .process import Process
from .timekeeping import NS, Clock, VirtualLoop

LAST_ACTIONS = 30
CALM_STEPS = 3_000
"""Steps in which every job must end once all trouble is over."""
CALM_S = 7200.0
RETRY_ROUNDS = 8
_GAP_S = 1.2


@dataclass(frozen=True)
class Nature:
    """What happens to whoever works on a file: expected crashes and failures in one attempt."""

    name: str
    crash: float = 0.0
    failure: float = 0.0
    codes: tuple[str, ...] = (ErrorCode.ENCODER_EXIT.value,)
    wears: bool = False
    """Whoever works on it dies of it whenever another segment is finished and reported."""


NATURES = (
    (12, Nature("good")),
    (2, Nature("flaky", failure=0.5, codes=("ENCODER_EXIT", "STALLED", "OUT_OF_MEMORY"))),
    (1, Nature("broken", failure=9.0, codes=("NO_MEDIA",))),
    (1, Nature("hopeless", failure=9.0, codes=("ENCODER_SIGNAL",))),
    (1, Nature("hostile", crash=9.0)),
    (1, Nature("nasty", crash=0.4)),
    (1, Nature("greedy", failure=0.5, codes=("GPU_BUSY",))),
    (1, Nature("wearing", wears=True)),
)
_GETS_DONE = ("good", "wearing")
"""Natures of which each job is done once all trouble is over."""


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    seed: int
    fault_profile: str
    steps: int
    commits: int
    simulated_s: float
    digest: str
    """Of the whole trace: equal seeds make equal ones."""
    jobs: dict[str, int]
    seen: frozenset[tuple[str, str | None, str]]
    """Every (trigger, source, target) of an event; the code where there is no target."""


class World:
    """One simulated machine.

    Args:
        root: an empty folder for the home, the sources and the outputs.
        fault_profile: which faults there are, of `faults.FAULT_PROFILES`.
        only: names of the invariants that count; empty for all.
    """

    def __init__(self, seed: int, root: Path, fault_profile: str, only: frozenset[str] = frozenset()) -> None:
        self.seed, self.root, self.fault_profile = seed, root, fault_profile
        self.trouble = 1.0
        """How often messages are lost, late or repeated: 0 in calm."""
        self.rng = random.Random(seed)
        self.clock = Clock()
        self.steps = 0
        self.trace: deque[str] = deque(maxlen=LAST_ACTIONS)
        self._digest = sha256()
        self.loop = VirtualLoop(self.clock, self._execute)
        self.loop.set_exception_handler(self._on_exception)
        self.parts: set[asyncio.Task[Any]] = set()
        """What was begun as a part of a supervisor's process and has not ended."""
        self.violation: Violation | None = None
        self.closing = False

        self.home = Home(root / "home")
        self.settings = Settings(
            workers=4,
            gpu=False,
            # The invariants read whole histories, and a million steps are more than thirty days.
            event_retention_s=10 * 365 * 86_400,
            lease_s=60,
            heartbeat_s=10,
            lease_scan_s=15,
            offline_s=150,
            long_poll_s=15,
            gpu_grace_s=20,
            backoff_s=10,
            backoff_max_s=120,
            drain_s=10,
            keep_old_s=300,
            keep_failed_work_s=900,
            disk_reserve_bytes=1,
            max_load=2.0,
            output=str(root / "out"),
        )
        self.disks = Disks(self.home.root)
        self.reading = ROOMY
        """What the machine says of its load and memory."""
        self.sound_since = 0.0
        """Since when, by the loop's clock, a supervisor has run without being disturbed."""
        self.stalls: list[tuple[float, float]] = []
        """From when until when, by the loop's clock, the supervisor gets no processor."""
        self.set_back_us = 0
        """How far the wall clock was set back of late: so much later may what waits be due."""
        self.life: Life | None = None
        self.processes: list[Process] = []
        self._pids = 1000
        self.audit = Audit(self, only)
        self.network = Network(self)
        self.people = People(self)
        self.faults = Faults(self, fault_profile)

    # Course

    def run(self, steps: int) -> Outcome:
        """So many steps of trouble, then calm until every job has ended.

        Raises:
            Violation: with the seed, the step and what happened last.
        """
        with self._installed():
            try:
                self.loop.run_until_complete(self._course(steps))
            except RuntimeError:
                if self.violation is None:
                    raise
            except Violation as error:
                self.violation = error
            finally:
                self._close()
        if self.violation is not None:
            reported = Violation(self._report(self.violation))
            reported.invariant = self.violation.invariant
            raise reported from self.violation
        counts: dict[str, int] = {}
        for row in self.audit.known.values():
            counts[row["status"]] = counts.get(row["status"], 0) + 1
        elapsed = (self.clock.boot - 1_000 * NS) / NS
        return Outcome(
            seed=self.seed,
            fault_profile=self.fault_profile,
            steps=self.steps,
            commits=self.audit.commits,
            simulated_s=elapsed,
            digest=self._digest.hexdigest(),
            jobs=counts,
            seen=frozenset(self.audit.seen),
        )

    @contextmanager
    def _installed(self) -> Iterator[None]:
        before = random.getstate()
        random.seed(self.seed)
        with ExitStack() as stack:
            stack.enter_context(self.clock.installed())
            stack.enter_context(outside_replaced(self))
            structlog.configure(processors=[self._on_log], cache_logger_on_first_use=False)
            try:
                yield
            finally:
                structlog.reset_defaults()
                random.setstate(before)

    async def _course(self, steps: int) -> None:
        self.home.create()
        self.home.database.write_bytes(_empty_database())
        self.start_supervisor()
        while self.steps < steps:
            await asyncio.sleep(self.rng.expovariate(1 / _GAP_S))
            self._something_happens()
            self.audit.hold(invariants.OF_A_STEP, self.audit)
        await self._calm()
        self.audit.everything()
        self.audit.hold(invariants.AT_THE_END, self.audit)

    def _something_happens(self) -> None:
        if self.rng.random() < 0.75:
            self.people.act()
        else:
            self.faults.strike()

    async def _calm(self) -> None:
        """Trouble ends, people put right what they shut and paused; then every job ends (liveness)."""
        self.note("world", "calm")
        self.trouble = 0.0
        self.faults.heal()
        await self._until_all_ended()
        # One of a video at a time can be open, so a video with several failed jobs takes several rounds.
        for _ in range(RETRY_ROUNDS):
            if not (failed := self._failed_for_no_reason()):
                return
            self.people.begin_again(failed)
            await asyncio.sleep(30)
            await self._until_all_ended()
        if failed := self._failed_for_no_reason():
            self._violate("a_good_source_is_done", f"these jobs fail in calm: {failed}")

    async def _until_all_ended(self) -> None:
        # A clock that was set back has moved away what waits for a time.
        until = self.loop.time() + CALM_S + self.set_back_us / 1e6
        last_step = self.steps + CALM_STEPS + self.set_back_us // 1_000_000
        while waiting := sorted(self.audit.open):
            if self.loop.time() > until or self.steps > last_step:
                why = [self._why_open(job) for job in waiting]
                self._violate("every_job_ends", f"these jobs never end: {why}")
                return
            self.faults.heal()
            self.people.put_right()
            await asyncio.sleep(20)

    def _violate(self, rule: str, why: str) -> None:
        if self.audit.counts(rule):
            violation = Violation(why)
            violation.invariant = rule
            raise violation

    def _failed_for_no_reason(self) -> list[int]:
        return [
            job
            for job, row in self.audit.known.items()
            if row["status"] == "failed" and row["deleted_at"] is None and self._nature(row) in _GETS_DONE
        ]

    def _why_open(self, job: int) -> str:
        row = self.audit.known[job]
        names = ("id", "status", "control", "not_before", "instance", "prefer_gpu")
        return str({name: row[name] for name in names})

    # What happens, and what is reported of it

    def note(self, actor: str, what: str) -> None:
        """Write a line of the trace."""
        line = f"{self.steps:6} {(self.clock.boot - 1_000 * NS) / NS:10.3f} {actor:10} {what}"
        self.trace.append(line)
        self._digest.update(line.encode())

    def step(self, actor: str, what: str) -> None:
        """One step: something reached the supervisor from outside, or befell it."""
        self.steps += 1
        self.note(actor, what)

    def arrived(self, sender: Process, verb: str, body: dict[str, Any], job: int) -> None:
        named = f" job {job} epoch {body.get('epoch')}" if job else ""
        self.step(sender.name, f"{verb}{named}")
        if verb == "claim":
            self.audit.claiming[sender.instance] += 1
        if verb in ("complete", "fail", "release"):
            self.audit.arrived(job, body["epoch"], sender.instance, ends=True)
        for beat in body.get("jobs", ()):
            self.audit.arrived(beat["job"], beat["epoch"], sender.instance)

    def answered(
        self, sender: Process, verb: str, body: dict[str, Any], job: int, answer: Answer, arrived_us: int
    ) -> None:
        if verb == "claim" and answer.error is None and (given := answer.body["job"]) is not None:
            self.audit.grant(given["job"], given["epoch"], sender.instance, arrived_us)
        if verb == "progress":
            made = sum(rendition["segments_done"] for rendition in body["renditions"])
            if answer.error is None:
                self.audit.heard[job, body["epoch"]] = self.life, made
            elif (job, body["epoch"]) in self.audit.heard:
                # What was refused for a full disk may have been taken note of before.
                life, before = self.audit.heard[job, body["epoch"]]
                self.audit.heard[job, body["epoch"]] = life, min(before, made)
        if verb in ("complete", "fail", "release") and answer.error is None:
            self.audit.answered(job, body["epoch"], sender.instance, answer.body["status"])
        if verb == "heartbeat" and answer.error is None:
            for beat in body["jobs"]:
                if beat["job"] not in answer.body["lost"]:
                    self.audit.renewed(beat["job"], beat["epoch"], sender.instance, arrived_us)
        if job and answer.error is not None and answer.error.code is ErrorCode.LOST_LEASE:
            self.audit.refused(job, body["epoch"], sender.instance)

    @property
    def stopped_us(self) -> int:
        """How long the machine slept and the supervisor got no processor until now, all together."""
        now = self.loop.time()
        stalled_s = sum(min(until, now) - since for since, until in self.stalls if since < now)
        return self.clock.suspended // 1000 + int(stalled_s * 1_000_000)

    def disturbed(self, seconds: float = 0.0) -> None:
        """For so long the supervisor cannot do its work in time."""
        self.sound_since = max(self.sound_since, self.loop.time() + seconds)

    def mistake(
        self, what: str, rule: str = "nothing_fails_unforeseen", error: BaseException | None = None
    ) -> None:
        """The supervisor did what it never should, by one of `invariants.OF_THE_COURSE`."""
        if self.violation is None and self.audit.counts(rule):
            self.violation = Violation(what)
            self.violation.invariant = rule
            self.violation.__cause__ = error
            self.loop.stop()

    def _on_exception(self, _loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Violation):
            self.violation = self.violation or error
            self.loop.stop()
        elif error is not None and not self.closing and not isinstance(error, PowerCut):
            where = context.get("future") or context.get("task") or context.get("handle")
            self.mistake(f"{context.get('message')}: {error!r} in {where}", error=error)

    def _on_log(self, _logger: Any, level: str, event: dict[str, Any]) -> Any:
        if level in ("error", "critical", "exception") and not self.closing:
            self.mistake(f"the supervisor logged: {event}")
        raise structlog.DropEvent

    def _report(self, error: Violation) -> str:
        last = "\n".join(self.trace)
        where = f"seed {self.seed}, faults {self.fault_profile}, step {self.steps}"
        return f"{where}: {error.invariant}: {error}\nthe last {len(self.trace)} actions:\n{last}"

    # The supervisor and the processes

    def start_supervisor(self) -> None:
        if self.life is None or self.life.dead:
            self.note("supervisor", "starts")
            self.disturbed()
            self.life = Life(self)
            self.life.begin()

    def after_death(self, life: Life) -> None:
        """Its children die with it."""
        for process in [p for p in self.processes if p.local]:
            process.on_exit = lambda _status: None
            process.kill()
        if life is self.life:
            self.life = None

    def _execute(self, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        life = LIFE.get()
        assert life is not None, "no one else uses threads"
        return life.execute(func, args)

    def next_pid(self) -> int:
        self._pids += 1
        return self._pids

    def add(self, process: Process) -> Process:
        self.processes = [p for p in self.processes if p.alive] + [process]
        return process

    def spawn(self, module: str, *_arguments: str, environment: Any, **_more: Any) -> Child:
        """In the place of `children.spawn`."""
        assert module == "tqstudio.engine.worker", module
        name, kind = environment["TQSTUDIO_WORKER_NAME"], environment["TQSTUDIO_WORKER_KIND"]
        self.note("supervisor", f"spawns {name}")
        return Child(self.add(Process(self, name, kind, environment["TQSTUDIO_WORKER_TOKEN"], local=True)))

    def nature_of(self, description: dict[str, Any]) -> Nature:
        return self.people.nature_of_source(os.fsdecode(_decoded(description["source"]["path_b64"])))

    def _nature(self, row: Any) -> str:
        source = self.audit.raw.execute(
            "SELECT source FROM video WHERE id = ?", (row["video_id"],)
        ).fetchone()
        return self.people.nature_of_source(os.fsdecode(source[0])).name

    # The end

    def _close(self) -> None:
        """End what is left, so that nothing of it is reported later."""
        self.closing = True
        if self.life is not None:
            self.life.die()
        for process in self.processes:
            process.on_exit = lambda _status: None
            process.kill()
        self.loop.run_until_complete(asyncio.sleep(0))
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        if left:
            self.loop.run_until_complete(asyncio.wait(left, timeout=3600))
        self.loop.close()


class Child:
    """In the place of `children.Child`."""

    stdin = stdout = None

    def __init__(self, process: Process) -> None:
        self.exited = asyncio.Event()
        self._process = process
        self._status = 0
        process.on_exit = self._see_exit

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def how(self) -> str:
        return f"it ended with {self._status}"

    def signal(self, number: signal.Signals) -> None:
        if number == signal.SIGKILL:
            self._process.kill()
        else:
            self._process.stop()

    def kill(self) -> None:
        self._process.kill()

    def _see_exit(self, status: int) -> None:
        self._status = status
        self.exited.set()


@cache
def _empty_database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        migrate(path)
        return path.read_bytes()


def _decoded(text: str) -> bytes:
    from tqstudio import paths

    return paths.decode(text)


def simulate(
    seed: int, steps: int, fault_profile: str = "mixed", only: frozenset[str] = frozenset()
) -> Outcome:
    """Run one world in a folder of its own, in memory where the system has one.

    Raises:
        Violation: with the seed, the step and what happened last.
    """
    _empty_database()
    memory = Path("/dev/shm")
    where = memory if os.access(memory, os.W_OK) else None
    root = Path(tempfile.mkdtemp(prefix="tqs-", dir=where))
    with _rare_collections():
        try:
            return World(seed, root, fault_profile, only).run(steps)
        finally:
            shutil.rmtree(root, ignore_errors=True)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """A world makes small garbage by the million: to look for cycles in it takes a fifth of its time."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()

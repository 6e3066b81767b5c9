"""Injects faults: disks, clocks, the database, load, and kills."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tqstudio.engine.gates.load import Reading

from .disks import PLENTY

if TYPE_CHECKING:
    from .life import Life
    from .process import Process
    from .world import World

_FAIL_POINTS = (
    *(f"publish.{step}" for step in ("intended", "built", "renamed", "master_written", "pointed")),
    *(f"publish.{step}" for step in ("set_aside", "recording", "recorded")),
    *(f"settle.{step}" for step in ("begun", "pointed", "set_aside", "recording", "recorded", "undone")),
    "settle.",
)
ROOMY = Reading(load=0.1, memory_bytes=8_000_000_000)

FAULT_PROFILES: dict[str, dict[str, int]] = {
    "mixed": {
        "kill_worker": 12,
        "freeze": 12,
        "partition": 12,
        "stop_worker": 4,
        "kill_supervisor": 2,
        "end_supervisor": 2,
        "arm": 3,
        "stall": 5,
        "suspend": 2,
        "set_clock": 2,
        "fill_disk": 3,
        "fill_home": 1,
        "slow_disk": 4,
        "hang_database": 2,
        "press": 2,
    },
    "zombies": {"kill_worker": 2, "freeze": 8, "partition": 6, "slow_disk": 1},
    "outages": {"kill_supervisor": 3, "end_supervisor": 2, "arm": 12, "kill_worker": 4, "fill_disk": 1},
    "time": {"suspend": 4, "set_clock": 4, "stall": 6, "hang_database": 4, "freeze": 2},
    "shortages": {
        "fill_disk": 6,
        "fill_home": 2,
        "press": 4,
        "slow_disk": 2,
        "hang_database": 2,
        "kill_worker": 2,
    },
    "restarts": {"end_supervisor": 6, "kill_worker": 6, "stop_worker": 4, "stall": 1},
    "hangs": {"hang_database": 6, "slow_disk": 1},
}
"""Kinds of worlds: how often which fault comes, beside the others."""


@dataclass(frozen=True)
class Temper:
    """What workers are like, beside the faults that befall them."""

    watches_clock: float = 0.5
    """How many of them drop a job when its lease must have run out, as a worker should."""
    believes: float = 0.8
    """How many drop a job when the answer is that it was lost, as a worker should."""
    slowness: float = 1.0
    """How much longer than usual an encode takes."""


TEMPERS = {
    "zombies": Temper(watches_clock=0.1, believes=0.2, slowness=8.0),
    "hangs": Temper(watches_clock=0.0, slowness=60.0),
}
"""Where most workers are stubborn, or have a job in their hands for longer than a lease."""


class Faults:
    """Kills, silences and shifts things; most of it passes by itself."""

    def __init__(self, world: World, fault_profile: str) -> None:
        self.world = world
        self._weights = FAULT_PROFILES[fault_profile]
        self.temper = TEMPERS.get(fault_profile, Temper())

    def strike(self) -> None:
        """One thing goes wrong."""
        [fault] = self.world.rng.choices(list(self._weights), list(self._weights.values()))
        getattr(self, f"_{fault}")()

    def heal(self) -> None:
        """Everything that lasts is over."""
        world = self.world
        world.disks.heal()
        world.reading = ROOMY
        for process in world.processes:
            process.partitioned = False
            process.thaw()
        if world.life is not None:
            world.life.fail_point, world.life.stalled_until, world.life.hangs_until = None, 0.0, 0.0

    def _step(self, what: str) -> None:
        self.world.step("fault", what)

    def _later(self, low_s: float, high_s: float, what: object) -> None:
        self.world.loop.call_later(self.world.rng.uniform(low_s, high_s), what)  # type: ignore[arg-type]

    def _span(self) -> tuple[float, float]:
        """Any time, or one about which a lease runs out and is taken back."""
        lease_s = self.world.settings.lease_s
        return (1, 3 * lease_s) if self.world.rng.random() < 0.5 else (0.8 * lease_s, 1.6 * lease_s)

    # Workers

    def _a_process(self) -> Process | None:
        """One of them; one that has a job rather than an idle one."""
        alive = [p for p in self.world.processes if p.alive]
        busy = [p for p in alive if p.held is not None]
        choice = busy if busy and self.world.rng.random() < 0.8 else alive
        return self.world.rng.choice(choice) if choice else None

    def _kill_worker(self) -> None:
        if (process := self._a_process()) is not None:
            self._step(f"kill {process.instance}")
            process.kill()

    def _stop_worker(self) -> None:
        if (process := self._a_process()) is not None:
            self._step(f"SIGTERM {process.instance}")
            process.stop()

    def _freeze(self) -> None:
        if (process := self._a_process()) is not None and not process.frozen:
            self._step(f"freeze {process.instance}")
            process.freeze()
            self._later(*self._span(), process.thaw)

    def _partition(self) -> None:
        process = self._a_process()
        if process is not None and not process.partitioned:
            self._step(f"partition {process.instance}")
            process.partitioned = True

            def reconnect() -> None:
                process.partitioned = False

            self._later(*self._span(), reconnect)

    # The supervisor

    def _running(self) -> Life | None:
        life = self.world.life
        return life if life is not None and life.running else None

    def _kill_supervisor(self) -> None:
        if (life := self.world.life) is not None:
            self._step("kill the supervisor")
            life.die()

    def _end_supervisor(self) -> None:
        if life := self._running():
            how = self.world.rng.choice(("SIGTERM", "SIGTERM twice", "down", "down --drain"))
            self._step(f"{how} for the supervisor")
            if how.startswith("SIGTERM"):
                for _ in how.split():
                    self.world.loop.signal_handlers[signal.SIGTERM]()
            else:
                life.run(self._down(life, drain="--drain" in how))

    async def _down(self, life: Life, *, drain: bool) -> None:
        life.services.shutdown.request_by_api(drain)

    def _arm(self) -> None:
        if life := self._running():
            life.fail_point = self.world.rng.choice(_FAIL_POINTS)
            self._step(f"the supervisor will be killed at {life.fail_point}")

    def _stall(self) -> None:
        """The supervisor's process gets no processor; everything else keeps running."""
        if life := self._running():
            seconds = self.world.rng.choice((1, 1, 2, 5, 20, 90))
            self._step(f"the supervisor stalls for {seconds} s")
            since = max(life.stalled_until, now := self.world.loop.time())
            life.stalled_until = max(since, now + seconds)
            self.world.stalls.append((since, life.stalled_until))
            self.world.disturbed(seconds)

    # The machine

    def _suspend(self) -> None:
        seconds = self.world.rng.choice((5, 60, 600, 7200))
        self._step(f"the machine sleeps for {seconds} s")
        self.world.clock.suspend(seconds)

    def _set_clock(self) -> None:
        seconds = self.world.rng.choice((-3600, -30, -2, 2, 30, 3600))
        self._step(f"the clock is set by {seconds} s")
        self.world.clock.set_wall(seconds)
        back_us = max(0, -seconds) * 1_000_000
        self.world.set_back_us += back_us

        def forget() -> None:
            self.world.set_back_us -= back_us

        self._later(900, 900, forget)

    def _fill_disk(self) -> None:
        """The outputs' disk has nothing free, or so little that a job fits and two do not."""
        disks = self.world.disks
        disks.output_free = self.world.rng.choice((0, 60, 150))
        self._step(f"the disk has {disks.output_free} bytes free")

        def free() -> None:
            disks.output_free = PLENTY

        self._later(5, 60, free)

    def _fill_home(self) -> None:
        """The disk of the database has too little free for another job, or nothing: then it cannot grow."""
        disks = self.world.disks
        disks.home_free = self.world.rng.choice((0, 1_000_000))
        self._step(f"the disk of the database has {disks.home_free} bytes free")
        seconds = self.world.rng.uniform(5, 60)
        if disks.database_is_full:
            self.world.disturbed(seconds + 10)

        def free() -> None:
            disks.home_free = PLENTY

        self.world.loop.call_later(seconds, free)

    def _slow_disk(self) -> None:
        self._step("the disk is slow")
        self.world.disks.slow_s = self.world.rng.choice((0.2, 2.0))

        def quick() -> None:
            self.world.disks.slow_s = 0.0

        self._later(5, 30, quick)

    def _hang_database(self) -> None:
        """The disk of the database answers no write for a while; everything else keeps running."""
        if life := self._running():
            seconds = self.world.rng.choice((2, 10, 30, 90))
            self._step(f"the database hangs for {seconds} s")
            life.hangs_until = max(life.hangs_until, self.world.loop.time() + seconds)
            self.world.disturbed(seconds)

    def _press(self) -> None:
        """Other programs take the memory, or the processors."""
        busy = Reading(load=9.0, memory_bytes=ROOMY.memory_bytes)
        self.world.reading = self.world.rng.choice((busy, Reading(load=0.1, memory_bytes=1_000_000)))
        self._step(f"the machine has {self.world.reading}")

        def ease() -> None:
            self.world.reading = ROOMY

        self._later(5, 60, ease)

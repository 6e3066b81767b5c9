"""Time that moves only when nothing is left to do, and an event loop that lives in it."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

NS = 1_000_000_000
_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock:
    """The clocks of the simulated machine, in nanoseconds.

    `steady` stands still while the machine is suspended, `boot` does not, and the wall clock can be set.
    """

    def __init__(self) -> None:
        self.steady = 1_000 * NS
        self.suspended = 0
        self._wall_ahead = 1_800_000_000 * NS

    @property
    def boot(self) -> int:
        return self.steady + self.suspended

    @property
    def wall(self) -> int:
        return self.boot + self._wall_ahead

    def suspend(self, seconds: float) -> None:
        """The machine sleeps: no program sees the time go by."""
        self.suspended += int(seconds * NS)

    def set_wall(self, seconds: float) -> None:
        """A user sets the clock forward, or back."""
        self._wall_ahead += int(seconds * NS)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """In here this is what Python's `time` reports."""
        real_ns, real = time.clock_gettime_ns, time.clock_gettime
        steady, boot = time.CLOCK_MONOTONIC, _BOOT

        def clock_gettime_ns(which: int) -> int:
            if which == boot:
                return self.boot
            return self.steady if which == steady else real_ns(which)

        def clock_gettime(which: int) -> float:
            return clock_gettime_ns(which) / NS if which in (boot, steady) else real(which)

        with patched(
            (time, "time_ns", lambda: self.wall),
            (time, "time", lambda: self.wall / NS),
            (time, "monotonic_ns", lambda: self.steady),
            (time, "monotonic", lambda: self.steady / NS),
            (time, "clock_gettime_ns", clock_gettime_ns),
            (time, "clock_gettime", clock_gettime),
        ):
            yield


@contextmanager
def patched(*replacements: tuple[Any, str, Any]) -> Iterator[None]:
    """Put other things in the place of names: (where, name, what)."""
    before = [(where, name, getattr(where, name)) for where, name, _ in replacements]
    for where, name, what in replacements:
        setattr(where, name, what)
    try:
        yield
    finally:
        for where, name, what in before:
            setattr(where, name, what)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in simulated time, on one thread: equal seeds make equal orders.

    Args:
        execute: how a function for a thread pool is run.
    """

    def __init__(self, clock: Clock, execute: Callable[..., asyncio.Future[Any]]) -> None:
        self._sim_clock, self._execute = clock, execute
        self.signal_handlers: dict[int, Callable[[], object]] = {}
        super().__init__()

    def _run_once(self) -> None:
        """One turn. When nothing is left to do before the next timer, its time has come."""
        ready, timers, clock = self._ready, self._scheduled, self._sim_clock  # type: ignore[attr-defined]
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            while timers and timers[0].cancelled():
                heapq.heappop(timers)._scheduled = False
            if not timers:
                raise RuntimeError("the simulation stands still: no task waits for anything")
            if (when := timers[0].when()) > clock.steady / NS:
                clock.steady = max(clock.steady + 1, round(when * NS))
        # Not a nanosecond early: who waits for the rest would wait again and again while time stands still.
        now = clock.steady / NS
        while timers and timers[0].when() <= now:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def time(self) -> float:
        return self._sim_clock.steady / NS

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, _executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        return self._execute(func, *args)

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> None:
        self.signal_handlers[sig] = lambda: callback(*args)

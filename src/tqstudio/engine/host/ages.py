"""Decides what is old enough to be removed; after a jump of the wall clock, nothing is for a day."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import structlog

from tqstudio.engine.files import bounded_io, durable
from tqstudio.engine.host.clock import MICROSECOND, RunningClock, now_us, since_boot_us

JUMP_US = 86_400 * MICROSECOND
"""The wall clock has jumped if it is so much further ahead of the time since boot."""
HOLD_US = 86_400 * MICROSECOND
"""For so much running time after a jump nothing is old."""
_DRIFT_US = 3600 * MICROSECOND
"""The file is written again once the clock was set by so much."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class _Stored:
    """What is known of the clock in a later process."""

    boot: str
    """Which boot of the machine; empty if that is unknown."""
    offset_us: int
    """Wall clock less time since boot."""
    ahead_us: int
    left_us: int


class Ages:
    """What is old enough to be removed or expired by its age.

    A jump is noticed while a supervisor runs, and from one to the next on a machine that was not booted
    between. What was off for long is no jump: a studio that runs once a week would never remove anything.

    Args:
        path: the file that keeps what is left of a hold for the next supervisor.
        running: its read moves it, see `RunningClock`.
        wall: µs since 1970 in UTC.
        boot: monotonic µs, including the time of a suspend.
    """

    def __init__(
        self,
        path: Path,
        running: RunningClock,
        *,
        wall: Callable[[], int] = now_us,
        boot: Callable[[], int] = since_boot_us,
    ) -> None:
        self._path, self._running, self._wall, self._boot = path, running, wall, boot
        self._boot_id = ""
        with contextlib.suppress(OSError):
            self._boot_id = _BOOT_ID.read_text().strip()
        self._offset_us, self._until, self.ahead_us = wall() - boot(), 0, 0
        self._stored: _Stored | None = None
        # Without the file, or with a damaged one, only a jump from here on is noticed.
        with contextlib.suppress(OSError, ValueError, TypeError):
            self._stored = stored = _Stored(**json.loads(durable.read(path)))
            self._until = running.now_us() + min(max(0, stored.left_us), HOLD_US)
            self.ahead_us = stored.ahead_us
            if stored.boot and stored.boot == self._boot_id:
                self._offset_us = stored.offset_us
        self._look()

    def before(self, keep_us: int) -> int:
        """Return the time before which things have been kept long enough; 0 after a jump."""
        return 0 if self.held_us else self._wall() - keep_us

    @property
    def held_us(self) -> int:
        """For how much more running time nothing is old, because the wall clock jumped ahead; else 0."""
        self._look()
        return max(0, self._until - self._running.now_us())

    async def save(self) -> None:
        """Store what the next supervisor has to know, if that has changed; errors cost it that."""
        new = _Stored(self._boot_id, self._offset_us, self.ahead_us, self.held_us)
        old = self._stored
        if (
            old is not None
            and (old.boot, old.left_us) == (new.boot, new.left_us)
            and abs(old.offset_us - new.offset_us) < _DRIFT_US
        ):
            return
        self._stored = new
        await bounded_io.on_a_thread(partial(self._write, json.dumps(asdict(new)).encode()))

    def _write(self, content: bytes) -> None:
        temporary = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):
            durable.write(temporary, content)
            temporary.replace(self._path)

    def _look(self) -> None:
        offset_us = self._wall() - self._boot()
        if (ahead_us := offset_us - self._offset_us) > JUMP_US:
            self._until, self.ahead_us = self._running.now_us() + HOLD_US, ahead_us
            structlog.get_logger().warning(
                "the clock jumped ahead: nothing is removed by its age for a day",
                seconds=ahead_us / MICROSECOND,
            )
        self._offset_us = offset_us

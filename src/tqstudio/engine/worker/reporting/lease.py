"""Tracks the lease of a worker's job: its expiry, and requests to stop.

Written by the heartbeat thread and by signal handlers, read by the main thread. It uses no lock, because a
signal handler runs in the main thread, which may hold it.
"""

from __future__ import annotations

from collections.abc import Callable

from tqstudio.engine.host.clock import since_boot
from tqstudio.engine.worker.reporting.outcome import Failed, Lost, Stopped, StopReason
from tqstudio.lifecycle import Control


class StopWork(Exception):
    """Unwinds the steps of a job after its lease has ended."""

    def __init__(self, outcome: Stopped | Lost | Failed) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome


_REASONS: dict[str, StopReason] = {
    Control.PAUSE.value: "pause",
    Control.CANCEL.value: "cancel",
    Control.RESTART.value: "restart",
    "hours": "hours",
}


class Lease:
    """The lease of one job.

    Args:
        lease_s: seconds until it expires after the claim or an answered heartbeat. Then another worker may
            have the job, so this one stops even if the supervisor cannot be reached.
        asked_at: clock time at which the claim was sent; its answer may have been delayed.
        clock: monotonic seconds, including time in suspend.
    """

    def __init__(
        self,
        job: int,
        epoch: int,
        lease_s: float,
        asked_at: float | None = None,
        clock: Callable[[], float] = since_boot,
    ) -> None:
        self.job = job
        self.epoch = epoch
        self.lease_s = lease_s
        self._clock = clock
        self._until = (clock() if asked_at is None else asked_at) + lease_s
        self._control: StopReason | None = None
        self._shutdown = False
        self._lost: str | None = None
        self._failure: Failed | None = None

    def renew(self, asked_at: float) -> None:
        """Renew after an answered heartbeat that was sent at this clock time."""
        self._until = max(self._until, asked_at + self.lease_s)

    def control(self, word: str) -> None:
        """Set the control request from an answer; `none` withdraws it."""
        self._control = _REASONS.get(word)

    def shut_down(self) -> None:
        """Request a stop because the worker shuts down."""
        self._shutdown = True

    def lose(self, why: str) -> None:
        """Mark the lease as lost."""
        self._lost = why

    def fail(self, failure: Failed) -> None:
        """Request that the attempt ends with this failure, which happened in another thread."""
        self._failure = failure

    @property
    def ended(self) -> Stopped | Lost | Failed | None:
        """The reason to stop working; None to continue."""
        if self._lost is not None:
            return Lost(self._lost)
        if self._clock() >= self._until:
            return Lost(f"no heartbeat was answered for {self.lease_s:g} s")
        if self._control is not None:
            return Stopped(self._control)
        if self._shutdown:
            return Stopped("shutdown")
        return self._failure

    def check(self) -> None:
        """Raise StopWork if the lease has ended."""
        if (ended := self.ended) is not None:
            raise StopWork(ended)

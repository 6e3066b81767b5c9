"""The right to work on a job, as the worker knows it.

Written by the thread that talks to the supervisor and by signal handlers, read by the one that works. It
takes no lock: a signal handler runs in the middle of the main thread, which may be holding it.
"""

from __future__ import annotations

from collections.abc import Callable

from tqstudio.engine.host.clock import since_boot
from tqstudio.engine.worker.outcome import Lost, Stopped, StopReason
from tqstudio.lifecycle import Control


class StopWork(Exception):
    """Unwinds the steps of a job whose lease has ended."""

    def __init__(self, outcome: Stopped | Lost) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome


_REASONS: dict[str, StopReason] = {
    Control.PAUSE.value: "pause",
    Control.CANCEL.value: "cancel",
    Control.RESTART.value: "restart",
}


class Lease:
    """One job in this worker's hands.

    Args:
        lease_s: seconds it holds after the claim, and after every heartbeat that was answered. Then another
            worker may have the job, so this one stops by itself, also when nobody can be reached who would
            say so.
        asked_at: when the claim was sent. It may have been answered long before this process could read
            the answer.
        clock: seconds, never going back, with those of a suspend.
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

    def renew(self, asked_at: float) -> None:
        """The supervisor took a heartbeat that was sent at this time of the clock."""
        self._until = max(self._until, asked_at + self.lease_s)

    def control(self, word: str) -> None:
        """What a person wants of the job, as every answer carries it; `none` takes a wish back."""
        self._control = _REASONS.get(word)

    def shut_down(self) -> None:
        """The worker was asked to end."""
        self._shutdown = True

    def lose(self, why: str) -> None:
        """The supervisor says that the job is no longer ours."""
        self._lost = why

    @property
    def ended(self) -> Stopped | Lost | None:
        """Why work must stop now; None to go on."""
        if self._lost is not None:
            return Lost(self._lost)
        if self._clock() >= self._until:
            return Lost(f"no heartbeat was answered for {self.lease_s:g} s")
        if self._control is not None:
            return Stopped(self._control)
        if self._shutdown:
            return Stopped("shutdown")
        return None

    def check(self) -> None:
        """
        Raises:
            StopWork: the lease has ended.
        """
        if (ended := self.ended) is not None:
            raise StopWork(ended)

"""The thread that talks to the supervisor while the main thread works: beats and progress out, wishes in."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import structlog

from tqstudio.engine.host.clock import since_boot
from tqstudio.engine.worker import calls, retry_delay
from tqstudio.engine.worker.lease import Lease
from tqstudio.engine.worker.progress_report import Report
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol.calls import Call

PROGRESS_S = 0.5
_LEAST_TIMEOUT_S = 1.0
_WARN_AFTER = 3

_log = structlog.get_logger()
T = TypeVar("T")

LOST_CODES = frozenset({ErrorCode.LOST_LEASE, ErrorCode.NOT_FOUND})
"""Answers that mean: this job is not yours."""


class Line(Protocol):
    """What is needed of `connection.Client`."""

    def send(self, call: Call[T], *, timeout_s: float = 30.0) -> T: ...


@dataclass
class _Assignment:
    lease: Lease
    report: Report
    reports: bool = True
    quiet_s: float = 0.0
    """For how long the main thread has not run, as far as this one could see: see `Pulse._watch`."""


class Pulse:
    """Beats every `heartbeat_s`, and posts the progress of the current job twice a second.

    Only beats renew the lease: progress shows that the work moves, not that it is still ours.

    Args:
        measure: answers (CPU percent, bytes of memory) for a beat.
        on_refused: called when the token is no longer good.
    """

    def __init__(
        self,
        line: Line,
        instance: str,
        heartbeat_s: float,
        measure: Callable[[], tuple[float, int]],
        on_refused: Callable[[], None],
    ) -> None:
        self._line = line
        self._instance = instance
        self._heartbeat_s = heartbeat_s
        self._measure = measure
        self._on_refused = on_refused
        self._current: _Assignment | None = None
        # An older state must not arrive behind a newer one.
        self._posting = threading.Lock()
        self._wake = threading.Event()
        self._ended = False
        self._failures = 0
        self._retry_s = 0.0
        self._next_beat = self._looked = since_boot()
        main = threading.main_thread().ident
        assert main is not None
        self._main_clock, self._main_ran = time.pthread_getcpuclockid(main), 0.0
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No more is sent; a request under way is not waited for."""
        self._ended = True
        self._wake.set()

    def nudge(self) -> None:
        """Post at once: something a person waits for has changed."""
        self._wake.set()

    def take_up(self, lease: Lease, report: Report) -> None:
        """From now on beats renew this lease, the first at once, and its progress is posted."""
        self._current = _Assignment(lease, report)
        self._next_beat = since_boot()
        self._wake.set()

    def conclude(self) -> None:
        """Post the last progress: the outcome is about to be told. The lease is still renewed."""
        if self._current is not None:
            self._current.quiet_s = 0.0
        self.post()
        if self._current is not None:
            self._current.reports = False

    def put_down(self) -> None:
        """The job has ended."""
        self._current = None

    def beat(self) -> None:
        """Send one heartbeat."""
        current, sent_at = self._current, since_boot()
        self._next_beat = sent_at + self._heartbeat_s
        jobs = [] if current is None else [(current.lease.job, current.lease.epoch)]
        try:
            answer = self._line.send(
                calls.heartbeat(self._instance, jobs, *self._measure()), timeout_s=self._timeout_s(current)
            )
        except TqError as error:
            self._not_heard(error)
            self._next_beat = since_boot() + min(self._retry_s or self._heartbeat_s, self._heartbeat_s)
            return
        self._heard()
        if current is None:
            return
        lease = current.lease
        if lease.job in answer["lost"]:
            lease.lose("the supervisor gave the job to another worker")
            return
        lease.renew(sent_at)
        if (control := answer["controls"].get(str(lease.job))) is not None:
            lease.control(control)

    def post(self) -> None:
        """Send the progress of the current job."""
        with self._posting:
            self._post()

    def _post(self) -> None:
        current = self._current
        if current is None or not current.reports:
            return
        lease, request = current.lease, current.report.request()
        quiet_s = round(current.quiet_s, 3)
        body = {"instance": self._instance, "epoch": lease.epoch, "quiet_s": quiet_s, **request}
        try:
            answer = self._line.send(calls.progress(lease.job, body), timeout_s=self._timeout_s(current))
        except TqError as error:
            if error.code in LOST_CODES:
                lease.lose(error.message)
                return
            self._not_heard(error)
            return
        self._heard()
        lease.control(answer["control"])
        current.report.delivered(request)

    def _run(self) -> None:
        while not self._ended:
            try:
                self._watch()
                if since_boot() >= self._next_beat:
                    self.beat()
                self.post()
            except Exception:  # without its pulse a worker loses every job: it has to go on
                _log.exception("pulse failed")
            until_beat = max(0.0, self._next_beat - since_boot())
            until_post = max(PROGRESS_S, self._retry_s) if self._current is not None else until_beat
            self._wake.wait(min(until_post, until_beat))
            self._wake.clear()

    def _watch(self) -> None:
        """See whether the main thread has run at all. One that waits for a disk does not, and nobody else can
        tell: the lease is renewed all the same."""
        now, ran = since_boot(), time.clock_gettime(self._main_clock)
        if (current := self._current) is not None:
            # A process that was stopped was quiet for no longer than until it looked again.
            quiet_s = current.quiet_s + min(now - self._looked, self._heartbeat_s)
            current.quiet_s = quiet_s if ran == self._main_ran else 0.0
        self._looked, self._main_ran = now, ran

    def _timeout_s(self, current: _Assignment | None) -> float:
        # Several requests must fit into a lease, or one slow answer would look like the end of it.
        span_s = self._heartbeat_s if current is None else current.lease.lease_s / 4
        return max(_LEAST_TIMEOUT_S, span_s)

    def _heard(self) -> None:
        if self._failures:
            _log.info("the supervisor answers again", failures=self._failures)
        self._failures, self._retry_s = 0, 0.0

    def _not_heard(self, error: TqError) -> None:
        if error.code is ErrorCode.UNAUTHORIZED:
            self._on_refused()
            return
        self._failures += 1
        self._retry_s = retry_delay.after(self._retry_s) if self._retry_s else retry_delay.FIRST_S
        if self._failures == 1:
            _log.info("the supervisor does not take reports", code=error.code.value, error=error.message)
        elif self._failures == _WARN_AFTER:
            _log.warning("the supervisor still takes no reports", code=error.code.value, error=error.message)

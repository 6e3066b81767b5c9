"""Sends heartbeats and progress from a thread of their own, and receives control requests in the answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import structlog

from tqstudio.engine.host.clock import since_boot
from tqstudio.engine.worker.reporting import calls, retry_delay
from tqstudio.engine.worker.reporting.lease import Lease
from tqstudio.engine.worker.reporting.progress_report import Report
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol.calls import Call

PROGRESS_S = 0.5
_MIN_TIMEOUT_S = 1.0
_WARN_AFTER = 3

_log = structlog.get_logger()
T = TypeVar("T")

LOST_CODES = frozenset({ErrorCode.LOST_LEASE, ErrorCode.NOT_FOUND})
"""Error codes that mean that the lease is lost."""


class WorkerClient(Protocol):
    """The part of `protocol.client.Client` that workers use."""

    def send(self, call: Call[T], *, timeout_s: float = 30.0) -> T: ...


@dataclass
class _Assignment:
    lease: Lease
    report: Report
    reports: bool = True
    blocked_s: float = 0.0
    """Seconds for which the main thread used no CPU, see `HeartbeatThread._check_main_thread`."""


class HeartbeatThread:
    """Sends a heartbeat every `heartbeat_s`, and the progress of the current job twice a second.

    Only heartbeats renew the lease.

    Args:
        measure: returns (CPU percent, bytes of memory) for a heartbeat.
        on_refused: called if the supervisor rejects the token.
    """

    def __init__(
        self,
        client: WorkerClient,
        instance: str,
        heartbeat_s: float,
        measure: Callable[[], tuple[float, int]],
        on_refused: Callable[[], None],
    ) -> None:
        self._client = client
        self._instance = instance
        self._heartbeat_s = heartbeat_s
        self._measure = measure
        self._on_refused = on_refused
        self._current: _Assignment | None = None
        # An older state must not arrive after a newer one.
        self._posting = threading.Lock()
        self._wake = threading.Event()
        self._ended = False
        self._failures = 0
        self._retry_s = 0.0
        self._next_beat = self._checked_at = since_boot()
        main = threading.main_thread().ident
        assert main is not None
        self._main_clock, self._main_ran = time.pthread_getcpuclockid(main), 0.0
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sending, without waiting for a pending request."""
        self._ended = True
        self._wake.set()

    def wake(self) -> None:
        """Send the progress immediately."""
        self._wake.set()

    def attach(self, lease: Lease, report: Report) -> None:
        """Renew this lease and send its progress from now on; the first heartbeat is sent immediately."""
        self._current = _Assignment(lease, report)
        self._next_beat = since_boot()
        self._wake.set()

    def flush(self) -> None:
        """Send the final progress, before the outcome is reported. The lease is still renewed."""
        if self._current is not None:
            self._current.blocked_s = 0.0
        self.post()
        if self._current is not None:
            self._current.reports = False

    def detach(self) -> None:
        """Stop renewing the lease: the job has ended."""
        self._current = None

    def beat(self) -> None:
        """Send one heartbeat."""
        current, sent_at = self._current, since_boot()
        self._next_beat = sent_at + self._heartbeat_s
        jobs = [] if current is None else [(current.lease.job, current.lease.epoch)]
        try:
            answer = self._client.send(
                calls.heartbeat(self._instance, jobs, *self._measure()), timeout_s=self._timeout_s(current)
            )
        except TqError as error:
            self._request_failed(error)
            self._next_beat = since_boot() + min(self._retry_s or self._heartbeat_s, self._heartbeat_s)
            return
        self._request_succeeded()
        if current is None:
            return
        lease = current.lease
        if lease.job in answer["lost"]:
            lease.lose("the supervisor assigned the job to another worker")
            return
        lease.renew(sent_at)
        if (control := answer["controls"].get(str(lease.job))) is not None:
            lease.control(control)

    def post(self) -> None:
        """Send the progress of the current job."""
        with self._posting:
            current = self._current
            if current is None or not current.reports:
                return
            lease, request = current.lease, current.report.request()
            blocked_s = round(current.blocked_s, 3)
            body = {"instance": self._instance, "epoch": lease.epoch, "blocked_s": blocked_s, **request}
            call = calls.progress(lease.job, body)
            try:
                answer = self._client.send(call, timeout_s=self._timeout_s(current))
            except TqError as error:
                if error.code in LOST_CODES:
                    lease.lose(error.message)
                else:
                    self._request_failed(error)
                return
            self._request_succeeded()
            lease.control(answer["control"])
            current.report.is_divided = answer.get("divided", False)
            current.report.delivered(request)

    def _run(self) -> None:
        while not self._ended:
            try:
                self._check_main_thread()
                if since_boot() >= self._next_beat:
                    self.beat()
                self.post()
            except Exception:  # without heartbeats the worker would lose all its jobs: continue
                _log.exception("heartbeat failed")
            until_beat = max(0.0, self._next_beat - since_boot())
            until_post = max(PROGRESS_S, self._retry_s) if self._current is not None else until_beat
            self._wake.wait(min(until_post, until_beat))
            self._wake.clear()

    def _check_main_thread(self) -> None:
        """Measure for how long the main thread has used no CPU, as when it is blocked by a disk.

        The lease is renewed anyway, so the supervisor needs this to detect a blocked worker.
        """
        now, ran = since_boot(), time.clock_gettime(self._main_clock)
        if (current := self._current) is not None:
            # Limit the step: while the whole process was suspended, this thread did not run either.
            blocked_s = current.blocked_s + min(now - self._checked_at, self._heartbeat_s)
            current.blocked_s = blocked_s if ran == self._main_ran else 0.0
        self._checked_at, self._main_ran = now, ran

    def _timeout_s(self, current: _Assignment | None) -> float:
        # Several requests must fit into a lease, or one slow answer would let it expire.
        span_s = self._heartbeat_s if current is None else current.lease.lease_s / 4
        return max(_MIN_TIMEOUT_S, span_s)

    def _request_succeeded(self) -> None:
        if self._failures:
            _log.info("the supervisor answers again", failures=self._failures)
        self._failures, self._retry_s = 0, 0.0

    def _request_failed(self, error: TqError) -> None:
        if error.code is ErrorCode.UNAUTHORIZED:
            self._on_refused()
            return
        self._failures += 1
        self._retry_s = retry_delay.after(self._retry_s) if self._retry_s else retry_delay.FIRST_S
        if self._failures == 1:
            _log.info("reporting to the supervisor failed", code=error.code.value, error=error.message)
        elif self._failures == _WARN_AFTER:
            _log.warning(
                "reporting to the supervisor still fails", code=error.code.value, error=error.message
            )

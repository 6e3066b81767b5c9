"""Reports the outcome of a job to the supervisor, and retries until it is answered."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import structlog

from tqstudio import paths
from tqstudio.engine.worker.heartbeat import LOST_CODES, WorkerClient
from tqstudio.engine.worker.job.failure import describe
from tqstudio.engine.worker.reporting import calls, retry_delay
from tqstudio.engine.worker.reporting.lease import Lease
from tqstudio.engine.worker.reporting.outcome import (
    Done,
    Failed,
    Lost,
    Outcome,
    RangeMade,
    Stopped,
    problem_of,
)
from tqstudio.errors import ErrorCode, TqError

if TYPE_CHECKING:
    from tqstudio.protocol.worker_answers import ClaimedJob

_COMPLETE_TIMEOUT_S = 120.0
"""The supervisor publishes before it answers."""
_TIMEOUT_S = 15.0

_log = structlog.get_logger()


class OutcomeReport:
    """Sends outcomes.

    Args:
        stopping: whether the worker is stopping, so that nothing is retried.
        on_refused: called if the supervisor rejects the token.
    """

    def __init__(
        self,
        client: WorkerClient,
        instance: str,
        stopping: Callable[[], bool],
        on_refused: Callable[[], None],
    ) -> None:
        self._client = client
        self._instance = instance
        self._stopping = stopping
        self._on_refused = on_refused

    def send(self, job: ClaimedJob, lease: Lease, steps: dict[str, float], outcome: Outcome) -> str | None:
        """Report an outcome; returns the new status of the job, or None if it could not be delivered."""
        token = {"instance": self._instance, "epoch": lease.epoch, "steps": steps}
        match outcome:
            case Lost():
                _log.warning("job lost", job=lease.job, why=outcome.why)
                return None
            case _ if job.get("range"):
                return self._send_or_log(lease, "range", {**token, "problem": problem_of(outcome)})
            case Stopped():
                return self._send_or_log(lease, "release", {**token, "reason": outcome.reason})
            case Failed():
                return self._fail(lease, token, outcome)
            case Done():
                body = {**token, "manifest": outcome.manifest, "full_hash": outcome.full_hash}
                try:
                    return self._send(lease, "complete", body, _COMPLETE_TIMEOUT_S)
                except TqError as error:
                    # The supervisor could not publish it.
                    path = paths.decode(job["source"]["path_b64"])
                    return self._fail(lease, token, describe(error, path))
            case RangeMade():
                raise AssertionError("a whole job has another outcome")

    def _fail(self, lease: Lease, token: dict[str, Any], failed: Failed) -> str | None:
        body = {**token, "code": failed.code.value, "text": failed.text, "hint": failed.hint}
        return self._send_or_log(lease, "fail", body)

    def _send_or_log(self, lease: Lease, verb: str, body: dict[str, Any]) -> str | None:
        try:
            return self._send(lease, verb, body)
        except TqError as error:
            _log.error(
                "outcome rejected", job=lease.job, verb=verb, code=error.code.value, error=error.message
            )
            return None

    def _send(
        self, lease: Lease, verb: str, body: dict[str, Any], timeout_s: float = _TIMEOUT_S
    ) -> str | None:
        """Send until it is answered, or raise that it was rejected; the request is idempotent."""
        retry_s = retry_delay.FIRST_S
        while True:
            try:
                return self._client.send(calls.end(lease.job, verb, body), timeout_s=timeout_s)["status"]
            except TqError as error:
                if error.code in LOST_CODES:
                    _log.warning("job lost before its outcome was reported", job=lease.job, verb=verb)
                    return None
                if error.code is ErrorCode.UNAUTHORIZED:
                    self._on_refused()
                    return None
                if error.code not in calls.ASKED_AGAIN:
                    raise
            if self._stopping() or isinstance(lease.ended, Lost):
                return None
            time.sleep(retry_s)
            retry_s = retry_delay.after(retry_s)

"""Tells the supervisor how a job ended, until it is heard."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import structlog

from tqstudio import paths
from tqstudio.engine.worker import calls, retry_delay
from tqstudio.engine.worker.heartbeat import LOST_CODES, Line
from tqstudio.engine.worker.job.failure import describe
from tqstudio.engine.worker.lease import Lease
from tqstudio.engine.worker.outcome import Done, Failed, Lost, Outcome, Stopped
from tqstudio.errors import UNANSWERED, UNWRITTEN, ErrorCode, TqError

if TYPE_CHECKING:
    from tqstudio.protocol.answers import ClaimedJob

_COMPLETE_TIMEOUT_S = 120.0
"""The supervisor publishes before it answers."""
_TIMEOUT_S = 15.0

_log = structlog.get_logger()


class OutcomeReport:
    """
    Args:
        stopping: whether the worker is to end, so that it waits for nobody.
        on_refused: called when the token is no longer good.
    """

    def __init__(
        self, line: Line, instance: str, stopping: Callable[[], bool], on_refused: Callable[[], None]
    ) -> None:
        self._line = line
        self._instance = instance
        self._stopping = stopping
        self._on_refused = on_refused

    def tell(self, job: ClaimedJob, lease: Lease, steps: dict[str, float], outcome: Outcome) -> str | None:
        """The job's status after it was told; None when there is nobody who would hear it."""
        token = {"instance": self._instance, "epoch": lease.epoch, "steps": steps}
        match outcome:
            case Lost():
                _log.warning("job lost", job=lease.job, why=outcome.why)
                return None
            case Stopped():
                return self._send_anyhow(lease, "release", {**token, "reason": outcome.reason})
            case Failed():
                return self._fail(lease, token, outcome)
            case Done():
                body = {**token, "manifest": outcome.manifest, "full_hash": outcome.full_hash}
                try:
                    return self._send(lease, "complete", body, _COMPLETE_TIMEOUT_S)
                except TqError as error:
                    # It could not be published.
                    path = paths.decode(job["source"]["path_b64"])
                    return self._fail(lease, token, describe(error, path))

    def _fail(self, lease: Lease, token: dict[str, Any], failed: Failed) -> str | None:
        body = {**token, "code": failed.code.value, "text": failed.text, "hint": failed.hint}
        return self._send_anyhow(lease, "fail", body)

    def _send_anyhow(self, lease: Lease, verb: str, body: dict[str, Any]) -> str | None:
        try:
            return self._send(lease, verb, body)
        except TqError as error:
            _log.error("not accepted", job=lease.job, verb=verb, code=error.code.value, error=error.message)
            return None

    def _send(
        self, lease: Lease, verb: str, body: dict[str, Any], timeout_s: float = _TIMEOUT_S
    ) -> str | None:
        """Send it again and again: the supervisor answers a repeated one as it answered the first.

        Raises:
            TqError: it was heard and not accepted.
        """
        retry_s = retry_delay.FIRST_S
        while True:
            try:
                return self._line.send(calls.end(lease.job, verb, body), timeout_s=timeout_s)["status"]
            except TqError as error:
                if error.code in LOST_CODES:
                    _log.warning("the job was lost before it could be told", job=lease.job, verb=verb)
                    return None
                if error.code is ErrorCode.UNAUTHORIZED:
                    self._on_refused()
                    return None
                # UNWRITTEN: the supervisor cannot write it down yet.
                if error.code not in UNANSWERED | UNWRITTEN:
                    raise
            if self._stopping() or isinstance(lease.ended, Lost):
                return None
            time.sleep(retry_s)
            retry_s = retry_delay.after(retry_s)

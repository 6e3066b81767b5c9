"""Computes the full hash of a source in a background thread during the encode."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time

from tqstudio.engine.media.source import fingerprint
from tqstudio.engine.media.source.fingerprint import Original
from tqstudio.engine.worker.job.limits import Deadline
from tqstudio.engine.worker.reporting.lease import Lease
from tqstudio.errors import ErrorCode, TqError

_NICENESS = 10
_POLL_S = 0.1


class SourceHash:
    """A hash that is computed in a thread of low priority, started immediately.

    The caller must call `stop` in all cases. `wait` raises the errors of the thread.
    """

    def __init__(self, source: Original) -> None:
        self._source = source
        self._stopping = threading.Event()
        self._digest: str | None = None
        self._error: Exception | None = None
        self._moved_at = time.monotonic()
        self._thread = threading.Thread(target=self._compute, name="source-hash", daemon=True)
        self._thread.start()

    def wait(self, lease: Lease, deadline: Deadline, stall_s: float) -> str:
        """Wait for the hash: 64 hex digits.

        Raises StopWork if the lease ended, TIMEOUT, STALLED if nothing could be read for `stall_s`, and as
        `full_hash`.
        """
        while self._thread.is_alive():
            lease.check()
            deadline.check()
            if time.monotonic() - self._moved_at > stall_s:
                raise TqError(ErrorCode.STALLED, f"no data could be read from the source for {stall_s:g} s")
            self._thread.join(_POLL_S)
        if self._error is not None:
            raise self._error
        if self._digest is None:
            raise RuntimeError("the hash was stopped before `wait`")
        return self._digest

    def stop(self) -> None:
        """Cancel the hash. Idempotent."""
        self._stopping.set()

    def _must_stop(self) -> bool:
        self._moved_at = time.monotonic()
        return self._stopping.is_set()

    def _compute(self) -> None:
        if sys.platform == "linux":
            # On Linux the niceness is per thread.
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        try:
            self._digest = fingerprint.full_hash(self._source.path, self._must_stop)
            self._source.note_hashed()
        except fingerprint.HashingStopped:
            return
        except Exception as error:  # raised by `wait`
            self._error = error

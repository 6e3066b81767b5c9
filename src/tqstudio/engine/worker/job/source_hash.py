"""The hash of every byte of a source, computed beside the encode."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time

from tqstudio.engine.media.source import fingerprint
from tqstudio.engine.worker.job.limits import Deadline
from tqstudio.engine.worker.lease import Lease
from tqstudio.errors import ErrorCode, TqError

_NICENESS = 10
_LOOK_S = 0.1


class SourceHash:
    """Starts at once, in a thread of low priority; `stop` it in every case.

    Raises nothing itself: what goes wrong comes out of `wait`.
    """

    def __init__(self, path: bytes) -> None:
        self._path = path
        self._stopping = threading.Event()
        self._digest: str | None = None
        self._error: Exception | None = None
        self._moved_at = time.monotonic()
        self._thread = threading.Thread(target=self._compute, name="source-hash", daemon=True)
        self._thread.start()

    def wait(self, lease: Lease, deadline: Deadline, stall_s: float) -> str:
        """The digest, 64 hex digits.

        Raises:
            StopWork: the lease ended meanwhile.
            TqError: as of `full_hash`; TIMEOUT; STALLED when nothing could be read for `stall_s`.
        """
        while self._thread.is_alive():
            lease.check()
            deadline.check()
            if time.monotonic() - self._moved_at > stall_s:
                raise TqError(ErrorCode.STALLED, f"nothing of the source could be read for {stall_s:g} s")
            self._thread.join(_LOOK_S)
        if self._error is not None:
            raise self._error
        if self._digest is None:
            raise RuntimeError("the hash was stopped before it was waited for")
        return self._digest

    def stop(self) -> None:
        """Give up. May be called again and after the end."""
        self._stopping.set()

    def _must_stop(self) -> bool:
        self._moved_at = time.monotonic()
        return self._stopping.is_set()

    def _compute(self) -> None:
        if sys.platform == "linux":
            # On Linux the niceness of a thread is its own.
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        try:
            self._digest = fingerprint.full_hash(self._path, self._must_stop)
        except fingerprint.Stopped:
            return
        except Exception as error:  # raised again where somebody waits for it
            self._error = error

"""Keeps the segment store of a studio equal to the local one, while the local one is written.

What other workers make of the job comes the other way.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import structlog

from tqstudio.engine.files import durable
from tqstudio.engine.media.check import digests
from tqstudio.engine.media.plan.file_names import FRAGMENTS_NAME, INIT_NAME
from tqstudio.engine.media.segments.store import COMPLETE_NAME
from tqstudio.engine.worker.job.failure import describe
from tqstudio.engine.worker.reporting.lease import Lease, StopWork
from tqstudio.engine.worker.reporting.outcome import Lost
from tqstudio.engine.worker.reporting.progress_report import Report
from tqstudio.errors import ErrorClass, ErrorCode, TqError, class_of
from tqstudio.wings.remote.worker.link import Link

_INTERVAL_S = 0.5
_LOOK_S, _RARELY_S = 3.0, 30.0
"""How often to look for segments of other workers, while there are some and otherwise: a supervisor that was
restarted knows of none."""
_NAMES_TIMEOUT_S = 60.0
_WAIT_S = 0.1
_MAX_LOG_BYTES = 32 * 1024 * 1024
_LOG_PAUSE_S = 60.0
"""After the studio could not store a part of the log."""
_MAX_DAMAGED = 3
"""Times that a file is sent."""

_log = structlog.get_logger()
_State = tuple[int, int, int]


class Mirror:
    """Sends new files and removals from a thread of its own, and the log of the attempt.

    Args:
        known: the files that the studio has, as `state_of` gives them.
        source: its path, for messages.
        log: the log of the attempt, which may not exist yet; None to send none.
        report: of the job, of which other workers may make parts; None for a part.
        identity: of the source at the studio.
    """

    def __init__(
        self,
        link: Link,
        lease: Lease,
        store: Path,
        known: dict[str, _State],
        source: bytes,
        log: Path | None,
        report: Report | None = None,
        identity: Mapping[str, int] | None = None,
    ) -> None:
        self._link, self._lease, self._store, self._log = link, lease, store, log
        self._known, self._source, self._report = known, source, report
        self._identity = identity
        self._first: dict[str, Any] | None = None
        """A quality that is to be published when all its files are sent."""
        if report is not None:
            self._report_first, report.publish_first = report.publish_first, self._keep_first
        self._looked_at = 0.0
        self._logged = 0
        self._log_after = 0.0
        self._ending = threading.Event()
        self._abandoned = False
        link.check = self._require_needed
        self.error: TqError | None = None
        """Why nothing more is sent."""
        self._thread = threading.Thread(target=self._run, name="mirror", daemon=True)
        self._thread.start()

    def finish(self, check: Callable[[], None], within_s: float = math.inf) -> None:
        """Wait until everything is sent, or the time is over.

        Args:
            check: called meanwhile; its exceptions end the wait.

        Raises:
            TqError: the studio refuses a file.
        """
        self._ending.set()
        ends_at = time.monotonic() + within_s
        while self._thread.is_alive() and time.monotonic() < ends_at:
            self._thread.join(_WAIT_S)
            check()
        if self.error is not None:
            raise self.error

    def abandon(self) -> None:
        """Send no more."""
        self._abandoned = True
        self._ending.set()

    def _keep_first(self, manifest: dict[str, Any]) -> None:
        self._first = manifest

    def _require_needed(self) -> None:
        if self._abandoned:
            raise StopWork(Lost("its files are no longer needed"))
        require_held(self._lease)

    def _run(self) -> None:
        try:
            while True:
                is_last, first = self._ending.is_set(), self._first
                self._send_changes()
                if first is not None:
                    self._first = None
                    self._report_first({**first, "source": self._identity})
                if is_last:
                    return
                self._fetch_others()
                self._ending.wait(_INTERVAL_S)
        except StopWork:
            return
        except TqError as error:
            self._end(error)
        except Exception as error:
            _log.exception("files could not be sent")
            self._end(TqError(ErrorCode.INTERNAL, f"files could not be sent: {error!r}"))
        finally:
            self._link.close()

    def _end(self, error: TqError) -> None:
        """End the attempt: what it encodes from here on would not arrive."""
        self.error = error
        if class_of(error.code) is ErrorClass.LOST or error.code is ErrorCode.NOT_FOUND:
            self._lease.lose(error.message)
        else:
            _log.warning("files could not be sent", code=error.code.value, error=error.message)
            self._lease.fail(describe(error, self._source))

    def _send_changes(self) -> None:
        found = states(self._store)
        gone = self._known.keys() - found.keys()
        # The fragments of a segment go after it has arrived: they are what a lost worker leaves of it.
        fragments = {path for path in gone if FRAGMENTS_NAME in path.split("/")}
        self._remove(gone - fragments)
        for path in sorted(found, key=_order):
            if self._known.get(path) != found[path]:
                self._send(path, found[path])
        self._remove(fragments)
        self._send_log()

    def _fetch_others(self) -> None:
        """Copy the segments that other workers have stored, of streams that are being made here."""
        if self._report is None or not self._report.divides:
            return
        now, interval_s = time.monotonic(), _LOOK_S if self._report.is_divided else _RARELY_S
        if now < self._looked_at + interval_s:
            return
        self._looked_at = now
        names = self._link.get("store/names", _NAMES_TIMEOUT_S)["names"]
        # The first segments of all streams first, as they are joined.
        for path in sorted(names, key=lambda name: name.rpartition("/")[2]):
            target = self._store / path
            if path in self._known or target.exists() or not (target.parent / INIT_NAME).exists():
                continue
            if target.resolve().is_relative_to(self._store.resolve()) and fetch(self._link, path, target):
                self._known[path] = state_of(target)

    def _remove(self, paths: set[str]) -> None:
        if paths:
            self._link.post("store/remove", {"paths": sorted(paths)})
            for path in paths:
                del self._known[path]

    def _send(self, path: str, state: _State) -> None:
        try:
            # Of one open file: another may take its place meanwhile, which the next scan shows.
            with (self._store / path).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                self._send_file(file, path=path, size=size, blake3=digests.of_open(file))
        except FileNotFoundError:
            return  # joined or discarded meanwhile
        self._known[path] = state

    def _send_file(self, file: BinaryIO, *, size: int, **about: str) -> None:
        """Send all parts of a file, an empty one for an empty file; from its start if it arrives damaged."""
        for left in reversed(range(_MAX_DAMAGED)):
            try:
                offset = self._link.send("store", file, 0, size=size, **about)
                while offset < size:
                    offset = self._link.send("store", file, offset, size=size, **about)
                return
            except TqError as error:
                if error.code is not ErrorCode.UPLOAD_DAMAGED or not left:
                    raise

    def _send_log(self) -> None:
        """Send what was added to the log; errors of the log fail no job."""
        if self._log is None or time.monotonic() < self._log_after:
            return
        try:
            with self._log.open("rb") as file:
                while self._logged < min(os.fstat(file.fileno()).st_size, _MAX_LOG_BYTES):
                    self._logged = self._link.send("log", file, self._logged)
        except FileNotFoundError:
            return
        except TqError as error:
            if class_of(error.code) is ErrorClass.LOST:
                raise
            _log.warning("the log could not be sent", code=error.code.value, error=error.message)
            self._log_after = time.monotonic() + _LOG_PAUSE_S


def fetch(link: Link, path: str, target: Path, size: float = math.inf) -> bool:
    """Copy a stored file of the studio, whose size may be known; False if it is not stored any more."""
    # The encode may look for it meanwhile.
    unfinished = target.with_name(f".{target.name}")
    with unfinished.open("wb") as file:
        try:
            while file.tell() < size and (content := link.read("store", path=path, offset=file.tell())):
                file.write(content)
        except TqError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                raise
            unfinished.unlink()
            return False
    durable.sync(unfinished)
    unfinished.replace(target)
    return True


def require_held(lease: Lease) -> None:
    """Raise StopWork if the lease is lost; other reasons to stop do not end a transfer."""
    if isinstance(ended := lease.ended, Lost):
        raise StopWork(ended)


def states(store: Path) -> dict[str, _State]:
    """The visible files of a store: path → what changes with its content."""
    found: dict[str, _State] = {}
    _scan(os.fspath(store), "", found.__setitem__)
    return found


def _scan(folder: str, below: str, add: Callable[[str, _State], None]) -> None:
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        try:
            if entry.is_dir(follow_symlinks=False):
                _scan(entry.path, f"{below}{entry.name}/", add)
            else:
                add(f"{below}{entry.name}", _state(entry.stat(follow_symlinks=False)))
        except FileNotFoundError:
            continue


def state_of(path: Path) -> _State:
    """What changes with the content of a file."""
    return _state(path.stat())


def _state(found: os.stat_result) -> _State:
    return found.st_size, found.st_mtime_ns, found.st_ino


def _order(path: str) -> tuple[bool, bool, str]:
    """Records of complete streams last, and what all segments need first."""
    name = path.rpartition("/")[2]
    return name == COMPLETE_NAME, not name.startswith("init"), path

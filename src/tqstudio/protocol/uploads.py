"""Uploads a file to the studio of another machine in parts, and resumes where an earlier attempt stopped.

It speaks the tus protocol, see `wings/uploads/api.py`. The URL of an unfinished upload is kept in
the home of the client, by studio, path, size and modification time.
"""

from __future__ import annotations

import base64
import hashlib
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPMessage
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from tqstudio.errors import UNANSWERED, ErrorCode, TqError
from tqstudio.home import current_home
from tqstudio.path_checks import refused
from tqstudio.paths import display
from tqstudio.protocol.client import decode
from tqstudio.protocol.remote import Exchange, Remote

if TYPE_CHECKING:
    from tqstudio.protocol.answers import UploadView

FIRST_BYTES, MIN_BYTES, MAX_BYTES = 4_000_000, 250_000, 16_000_000
"""Sizes of a part. They follow the speed of the line, as a studio waits 30 s for a request at most."""
_FAST_S, _SLOW_S = 2.0, 8.0
"""The next part is twice as large if one took less, and half as large if it took longer."""
PAUSES_S = (1, 2, 4, 8, 16, 30, 30, 30, 30, 30)
"""Before each further attempt without progress."""
_TIMEOUT_S = 60.0
_FINISH_TIMEOUT_S = 3600.0
"""For the last part: the studio may have to read the whole file."""
_HASHED_BYTES = 16 * 1024 * 1024
_AGAIN = frozenset((0, 404, 408, 409, 423, 429, 460, 500, 502, 503, 504))
"""HTTP statuses after which the offset is asked for and the upload continues; 0: there was no answer."""

Progress = Callable[[int, int], object]
"""Called with the bytes that the studio has, and the size of the file."""


class Upload:
    """Uploads one file.

    Args:
        about: what `add` was given, by the keys of Upload-Metadata.
        progress: called before each part.
        pause: called to wait some seconds.
    """

    def __init__(
        self,
        at: Remote,
        path: bytes,
        about: Mapping[str, str],
        progress: Progress = lambda _offset, _size: None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._at, self._path, self._about = at, path, about
        self._progress, self._pause = progress, pause
        self._exchange = Exchange(at)
        self._url = ""
        self._status = 0
        """HTTP status of the last answer; 0 if there was none."""
        self._part_bytes = FIRST_BYTES

    def run(self) -> UploadView:
        """Upload the file, or what is missing of it.

        Raises:
            TqError: SOURCE_MISSING, PERMISSION or SOURCE_CHANGED of the file; NO_SUPERVISOR when the studio
                could not be reached for minutes; otherwise the studio's error.
        """
        try:
            file = open(self._path, "rb", buffering=0)  # noqa: SIM115 - closed below
        except FileNotFoundError:
            raise TqError(ErrorCode.SOURCE_MISSING, f"{display(self._path)} does not exist") from None
        except PermissionError as error:
            raise refused(self._path, error, "read") from None
        try:
            with file:
                return self._run(file)
        finally:
            self._exchange.close()

    def _run(self, file: FileIO) -> UploadView:
        found = os.fstat(file.fileno())
        memo = _memo(self._at, self._path, found)
        state: UploadView | None = None
        begun, failures, damaged = False, 0, None
        while True:
            try:
                if state is None:
                    state = self._resumed(memo, damaged) or self._begin(file, found.st_size, memo)
                    begun = True
                while state["result"] is None:
                    self._progress(state["offset"], found.st_size)
                    state = self._send_part(file, found, memo, state)
                    failures = 0
            except TqError as error:
                is_lost = error.code in UNANSWERED or self._status in _AGAIN
                if error is damaged or not (begun and is_lost) or failures == len(PAUSES_S):
                    raise
                damaged = error if error.code is ErrorCode.UPLOAD_DAMAGED else None
                state = None
                self._part_bytes = max(MIN_BYTES, self._part_bytes // 2)
                self._pause(PAUSES_S[failures])
                failures += 1
            else:
                self._progress(found.st_size, found.st_size)
                memo.unlink(missing_ok=True)
                return state

    def _resumed(self, memo: Path, damaged: TqError | None) -> UploadView | None:
        """The state of the upload that was begun before; None if there is none.

        Args:
            damaged: the error of the last attempt, if that was its kind: the studio has removed the upload if
                the whole file was damaged.
        """
        with suppress(OSError):
            self._url = self._url or memo.read_text()
        if not self._url:
            return None
        try:
            return self._state()
        except TqError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                raise
            self._url = ""
            memo.unlink(missing_ok=True)
            if damaged is not None:
                raise damaged from None
            return None

    def _begin(self, file: FileIO, size: int, memo: Path) -> UploadView:
        from blake3 import blake3

        self._progress(0, size)
        hasher, offset = blake3(max_threads=blake3.AUTO), 0
        while chunk := os.pread(file.fileno(), _HASHED_BYTES, offset):
            hasher.update(chunk)
            offset += len(chunk)
        name = os.path.basename(self._path).decode("utf-8", "replace")
        about = {"filename": name, "blake3": hasher.hexdigest(), **self._about}
        headers = {
            "Upload-Length": str(size),
            "Upload-Metadata": ",".join(
                f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in about.items()
            ),
        }
        answer = self._require(self._ask("POST", "/v1/uploads", headers=headers))
        self._url = answer["Location"]
        # Without it, a later command cannot resume this upload.
        with suppress(OSError):
            memo.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            memo.write_text(self._url)
        return self._state()

    def _state(self) -> UploadView:
        state: UploadView = decode(*self._ask("GET", self._url)[:3])
        return state

    def _send_part(self, file: FileIO, found: os.stat_result, memo: Path, state: UploadView) -> UploadView:
        """Send the next part; an empty one at the end, when only the result is missing."""
        from blake3 import blake3

        now = os.fstat(file.fileno())
        if (now.st_size, now.st_mtime_ns) != (found.st_size, found.st_mtime_ns):
            memo.unlink(missing_ok=True)
            raise TqError(
                ErrorCode.SOURCE_CHANGED,
                f"{display(self._path)} changed while it was uploaded",
                "upload it again once it is complete",
            )
        offset = state["offset"]
        part = os.pread(file.fileno(), self._part_bytes, offset)
        digest = base64.b64encode(blake3(part).digest()).decode()
        headers = {
            "Content-Type": "application/offset+octet-stream",
            "Upload-Offset": str(offset),
            "Upload-Checksum": f"blake3 {digest}",
        }
        is_last = offset + len(part) == found.st_size
        began = time.monotonic()
        answer = self._ask("PATCH", self._url, part, headers, _FINISH_TIMEOUT_S if is_last else _TIMEOUT_S)
        offset = int(self._require(answer)["Upload-Offset"])
        taken_s = time.monotonic() - began
        if taken_s < _FAST_S:
            self._part_bytes = min(MAX_BYTES, self._part_bytes * 2)
        elif taken_s > _SLOW_S:
            self._part_bytes = max(MIN_BYTES, self._part_bytes // 2)
        if is_last:
            return self._state()
        return {**state, "offset": offset}

    # Requests

    def _ask(
        self,
        method: str,
        url: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> tuple[int, str, bytes, HTTPMessage]:
        """Send a request and return status, reason, body and headers of the answer.

        Raises:
            TqError: NO_SUPERVISOR.
        """
        self._status = 0
        answer = self._exchange.ask(
            method, url, body, {"Tus-Resumable": "1.0.0", **(headers or {})}, timeout_s
        )
        self._status = answer[0]
        return answer

    def _require(self, answer: tuple[int, str, bytes, HTTPMessage]) -> HTTPMessage:
        """The headers of an answer.

        Raises:
            TqError: the studio's error.
        """
        status, reason, content, headers = answer
        if status >= 400:
            decode(status, reason, content)
        return headers


def _memo(at: Remote, path: bytes, found: os.stat_result) -> Path:
    """The file that keeps the URL of an unfinished upload."""
    key = f"{','.join(sorted(at.urls))}\n{found.st_size}\n{found.st_mtime_ns}\n".encode() + path
    return current_home().unfinished_uploads / hashlib.sha256(key).hexdigest()[:32]

"""Sends requests about the files of a job, and repeats them until they are answered."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from http.client import HTTPMessage
from typing import IO, Any
from urllib.parse import urlencode

from tqstudio.engine.worker.reporting import retry_delay
from tqstudio.engine.worker.reporting.calls import ASKED_AGAIN
from tqstudio.engine.worker.reporting.lease import Lease
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol import content_digest
from tqstudio.protocol.client import decode
from tqstudio.protocol.remote import Exchange, Remote

PART_BYTES = 8 * 1024 * 1024
"""Largest part of a file in one request."""
_FIRST_PART_BYTES, _MIN_PART_BYTES = 1024 * 1024, 64 * 1024
_FAST_S, _SLOW_S = 1.0, 6.0
"""The next part is larger by the least one after a part that took less, and half as large after one that took
longer or was lost: a studio waits 30 s for a request at most."""
_TIMEOUT_S = 60.0
_MAX_DAMAGED = 3
_Request = tuple[dict[str, Any], bytes | None]
"""Parameters and body."""
_Answer = tuple[int, str, bytes, HTTPMessage]
_AGAIN = ASKED_AGAIN | {ErrorCode.DISK_NOT_RESPONDING, ErrorCode.OUTPUT_UNAVAILABLE, ErrorCode.OUTPUT_SHARED}
"""Codes of requests that are sent again: what is wrong at the studio is shown there, and costs no attempt."""


class Link:
    """The connection of one thread for the files of one job.

    Args:
        check: called before each attempt; its exceptions end the request.
        bytes_per_s: the rate that transfers in one direction keep to on average; 0 for no limit.
    """

    def __init__(
        self, at: Remote, lease: Lease, instance: str, check: Callable[[], None], bytes_per_s: float = 0
    ) -> None:
        self._exchange, self._lease = Exchange(at), lease
        self.check, self._bytes_per_s = check, bytes_per_s
        self._params = {"epoch": lease.epoch, "instance": instance}
        self.part_bytes = _FIRST_PART_BYTES
        """The size of parts that suits the line."""

    def get(self, what: str, timeout_s: float) -> Any:
        """Ask for a JSON answer."""
        return decode(*self._repeat("GET", what, lambda: ({}, None), timeout_s)[:3])

    def post(self, what: str, body: dict[str, Any]) -> None:
        """Send a JSON request."""
        content = json.dumps(body).encode()
        self._repeat("POST", what, lambda: ({}, content))

    def read(self, what: str, **params: Any) -> bytes:
        """Read a part of a file, again if it arrives damaged; empty at the end of the file."""
        for _ in range(_MAX_DAMAGED):
            _, _, body, headers = self._repeat(
                "GET", what, lambda: (params | {"length": self.part_bytes}, None)
            )
            if headers[content_digest.HEADER] == content_digest.of(body):
                return body
        raise TqError(ErrorCode.UPLOAD_DAMAGED, f"a part of the {what} arrived damaged several times")

    def send(self, what: str, file: IO[bytes], offset: int, **params: Any) -> int:
        """Send a part of a file; returns where it ends."""

        def part() -> tuple[dict[str, Any], bytes]:
            file.seek(offset)
            return params | {"offset": offset}, file.read(self.part_bytes)

        self._repeat("PUT", what, part)
        return file.tell()

    def close(self) -> None:
        self._exchange.close()

    def _repeat(
        self, method: str, what: str, request: Callable[[], _Request], timeout_s: float = _TIMEOUT_S
    ) -> _Answer:
        """Send a request until it is answered.

        Raises:
            TqError: the studio's error, unless it is temporary.
        """
        retry_s = retry_delay.FIRST_S
        while True:
            self.check()
            # Made again for each attempt: parts become smaller.
            params, body = request()
            url = f"/v1/worker/jobs/{self._lease.job}/{what}?{urlencode(self._params | params)}"
            began = time.monotonic()
            try:
                answer = self._exchange.ask(method, url, body, _headers(method, body), timeout_s)
                if answer[0] >= 400:
                    decode(*answer[:3])
                self._pace(len(body or answer[2]), time.monotonic() - began)
                return answer
            except TqError as error:
                if error.code not in _AGAIN:
                    raise
            self.part_bytes = max(_MIN_PART_BYTES, self.part_bytes // 2)
            time.sleep(retry_s)
            retry_s = retry_delay.after(retry_s)

    def _pace(self, size: int, took_s: float) -> None:
        """Adapt the size of parts to the line, and keep to the rate."""
        if took_s > _SLOW_S:
            self.part_bytes = max(_MIN_PART_BYTES, self.part_bytes // 2)
        elif took_s < _FAST_S and size >= self.part_bytes:
            self.part_bytes = min(PART_BYTES, self.part_bytes + _MIN_PART_BYTES)
        if self._bytes_per_s:
            time.sleep(max(0.0, size / self._bytes_per_s - took_s))


def _headers(method: str, body: bytes | None) -> dict[str, str]:
    if body is None:
        return {}
    kind = "application/json" if method == "POST" else "application/octet-stream"
    return {content_digest.HEADER: content_digest.of(body), "Content-Type": kind}

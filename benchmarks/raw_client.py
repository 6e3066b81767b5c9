"""The supervisor's API with next to no cost of its own, so that its time is measured and not a client's."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any


class RawClient:
    """One connection that is kept open.

    Args:
        token: of a worker, for the worker's calls.
    """

    def __init__(self, path: Path, token: str | None = None, timeout_s: float = 60) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        self._socket.connect(str(path))
        self._more = f"Authorization: Bearer {token}\r\n" if token else ""

    def get(self, path: str) -> Any:
        return json.loads(self.ask("GET", path))

    def post(self, path: str, body: object) -> Any:
        return json.loads(self.ask("POST", path, json.dumps(body).encode()))

    def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The body of the answer.

        Raises:
            RuntimeError: the answer is not a good one.
        """
        head = f"{method} {path} HTTP/1.1\r\nHost: tqstudio\r\n{self._more}"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self._socket.sendall(f"{head}\r\n".encode() + body)
        received = b""
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self._more_bytes()
        headers = received[:end].decode("latin-1").split("\r\n")
        length = next(int(line[15:]) for line in headers if line.lower().startswith("content-length:"))
        while len(received) < end + 4 + length:
            received += self._more_bytes()
        status, answer = int(headers[0].split(" ")[1]), received[end + 4 :]
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {answer.decode(errors='replace')}")
        return answer

    def _more_bytes(self) -> bytes:
        if not (chunk := self._socket.recv(256 * 1024)):
            raise RuntimeError("the supervisor hung up")
        return chunk

    def close(self) -> None:
        self._socket.close()

"""A real HTTP server on loopback that receives alerts, and answers as a test wants."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Answer = Callable[[int], int]
"""Returns the status of the answer to the n-th request, counted from 0."""


@dataclass(frozen=True)
class Received:
    """A request."""

    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def key(self) -> str:
        return self.headers["idempotency-key"]


class Receiver:
    """The server's side of what a test sends."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.received: list[Received] = []
        self.status: Answer = lambda _: 204
        self.headers: dict[str, str] = {}
        self.free = threading.Event()
        """Requests are not answered until it is set."""
        self.free.set()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def take(self, request: Received) -> int:
        with self._lock:
            self.received.append(request)
            number = len(self.received) - 1
        self.free.wait()
        return self.status(number)


@contextmanager
def serving(certificate: tuple[Path, Path] | None = None) -> Iterator[Receiver]:
    """A server that runs until the end of the block; with a certificate and its key it speaks TLS."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status = receiver.take(Received(self.path, headers, raw))
            try:
                self.send_response(status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()
            except OSError:
                return  # the sender was killed

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    receiver = Receiver(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.free.set()
        server.shutdown()
        server.server_close()
        thread.join()

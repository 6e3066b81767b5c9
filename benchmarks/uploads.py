"""How fast a file is uploaded to a studio, against a PUT to a server that only writes it to the same disk."""

from __future__ import annotations

import contextlib
import http.client
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.options import Options
from benchmarks.report import Section, at_least
from benchmarks.studio import studio
from tqstudio.protocol.remote import Remote
from tqstudio.protocol.uploads import Upload

_MEGABYTE = 1_000_000

# Takes one connection after the other; syncs the file before it answers, as an upload is.
_PLAIN = """
import os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_PUT(self):
        left, block = int(self.headers["Content-Length"]), memoryview(bytearray(1 << 20))
        with open(sys.argv[1], "wb", buffering=0) as file:
            while left:
                count = self.rfile.readinto(block[:left])
                file.write(block[:count])
                left -= count
            os.fsync(file.fileno())
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass

server = HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def measure(options: Options, root: Path) -> Section:
    section = Section(
        "Uploads",
        f"a file of {options.hashed_mb} MB, loopback without TLS; {options.rounds} rounds, taking turns",
    )
    source = root / "source.mp4"
    with source.open("wb") as file:
        for _ in range(options.hashed_mb):
            file.write(os.urandom(_MEGABYTE))
    os.environ["TQSTUDIO_HOME"] = str(root / "client")
    uploaded, put = list[float](), list[float]()
    with studio(root / "home", ["--listen", "127.0.0.1:0"]) as running, _plain_server(root / "put") as port:
        with contextlib.closing(running.line()) as line:
            token = line.post("/v1/tokens", {"name": "bench", "role": "operate"})["token"]
        listen = urlsplit(running.status()["supervisor"]["listen"])
        at = Remote("bench", "127.0.0.1", listen.port or 0, token, None)
        for number in range(options.rounds):
            put.append(_megabytes_per_s(source, lambda: _put(source, port)))
            about = {"filename": f"round {number}.mp4", "hold": "true"}
            upload = Upload(at, os.fsencode(source), about)
            uploaded.append(_megabytes_per_s(source, upload.run))
    section.add("upload ÷ plain PUT", [u / p for u, p in zip(uploaded, put, strict=True)], "×", at_least(0.8))
    section.add("upload, hashed twice and durable every 16 MB", uploaded, "MB/s")
    section.add("plain PUT", put, "MB/s")
    return section


@contextlib.contextmanager
def _plain_server(target: Path) -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", _PLAIN, target], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def _put(source: Path, port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.blocksize = 1 << 20
    with source.open("rb") as file, contextlib.closing(connection):
        connection.request("PUT", "/", file, {"Content-Length": str(source.stat().st_size)})
        if connection.getresponse().status != 204:
            raise RuntimeError("the plain server failed")


def _megabytes_per_s(path: Path, what: Callable[[], object]) -> float:
    began = time.perf_counter()
    what()
    return path.stat().st_size / _MEGABYTE / (time.perf_counter() - began)

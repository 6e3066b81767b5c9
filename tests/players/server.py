"""Serves ladders, players and the page that plays them, on loopback, as any web server with ranges would."""

from __future__ import annotations

import mimetypes
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from waiting import until

for ending, kind in (
    (".m3u8", "application/vnd.apple.mpegurl"),
    (".mpd", "application/dash+xml"),
    (".m4s", "video/iso.segment"),
    (".vtt", "text/vtt"),
):
    mimetypes.add_type(kind, ending)


@contextmanager
def serving(ladders: Path) -> Iterator[str]:
    """Serve a folder below `/out` until the block ends; gives the address."""
    ladders.mkdir(parents=True, exist_ok=True)
    app = Starlette(
        routes=[
            Mount("/out", StaticFiles(directory=ladders)),
            Mount("/", StaticFiles(directory=Path(__file__).parent)),
        ]
    )
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            until(lambda: server.started, "the web server listens")
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()

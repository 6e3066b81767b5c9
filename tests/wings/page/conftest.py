"""A studio with a published film, its page, and a browser that sends what no browser would."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from e2e.studio import Studio
from players.conftest import chromium
from tqstudio.wings.page import process
from waiting import until

__all__ = ["chromium"]

LENGTH_S = 12
_CHAPTERS = ";FFMETADATA1\n" + "".join(
    f"[CHAPTER]\nTIMEBASE=1/1\nSTART={at}\nEND={at + 4}\ntitle={title}\n"
    for at, title in ((0, "Opening"), (4, "<b>The walk</b>"), (8, "End"))
)
_SPOKEN = "1\n00:00:00,500 --> 00:00:11,500\nGuten Tag\n"


@dataclass(frozen=True)
class Film:
    """A published film of 12 s: three qualities, two sounds, subtitles, chapters, a storyboard."""

    studio: Studio
    job: int
    video: int
    folder: Path
    source: Path


def make_source(ffmpeg: str, folder: Path) -> Path:
    (folder / "chapters.txt").write_text(_CHAPTERS)
    (folder / "de.srt").write_text(_SPOKEN)
    command = [
        *(ffmpeg, "-v", "error", "-nostdin", "-y"),
        *("-f", "lavfi", "-i", f"testsrc2=s=640x360:r=25:d={LENGTH_S}"),
        *("-f", "lavfi", "-i", f"sine=440:d={LENGTH_S}", "-f", "lavfi", "-i", f"sine=880:d={LENGTH_S}"),
        *("-i", str(folder / "de.srt"), "-i", str(folder / "chapters.txt")),
        *("-map", "0", "-map", "1", "-map", "2", "-map", "3", "-map_chapters", "4"),
        *("-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-c:a", "aac", "-c:s", "srt"),
        *("-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=ger"),
        *("-metadata:s:s:0", "language=ger", str(folder / "film.mkv")),
    ]
    subprocess.run(command, check=True, timeout=60)
    return folder / "film.mkv"


@pytest.fixture(scope="session")
def film(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Film]:
    root = tmp_path_factory.mktemp("page")
    studio = Studio(root / "studio", ffmpeg).up()
    source = make_source(ffmpeg, root)
    job = studio.done(studio.add(source))
    view = job["video_view"]
    yield Film(studio, job["id"], view["id"], Path(view["generation"]["master"]).parent, source)
    process.close(studio.home)
    studio.down()


@pytest.fixture
def planted(film: Film) -> Iterator[Path]:
    """The ladder's folder, which is as it was after the test."""
    kept = film.folder.with_name("kept")
    shutil.copytree(film.folder, kept, symlinks=True)
    yield film.folder
    shutil.rmtree(film.folder, ignore_errors=True)
    kept.rename(film.folder)


class Browser:
    """Sends requests to a page; it knows the prefix once it has opened an address."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.prefix = ""

    def open(self, address: str) -> Browser:
        """Follow an address that `tqstudio open --print` has printed."""
        status, body, _ = self.get(address.partition(f":{self.port}")[2])
        found = re.search(r"url=(/[\w-]{22}/)(#/video/\d+)?\"", body.decode())
        assert (status, bool(found)) == (200, True), body
        assert found is not None
        self.prefix = found[1]
        return self

    @contextlib.contextmanager
    def asking(self, path: str, *, method: str = "GET", **headers: str) -> Iterator[HTTPResponse]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        given = {"Host": f"127.0.0.1:{self.port}"} | {k.replace("_", "-"): v for k, v in headers.items()}
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in given.items():
            connection.putheader(name, value)
        connection.endheaders()
        try:
            yield connection.getresponse()
        finally:
            connection.close()

    def get(self, path: str, **more: str) -> tuple[int, bytes, Any]:
        with self.asking(path, **more) as answer:
            return answer.status, answer.read(), answer.headers

    def inside(self, path: str, **more: str) -> tuple[int, bytes, Any]:
        return self.get(self.prefix + path, **more)

    def status(self, path: str, **more: str) -> int:
        return self.inside(path, **more)[0]

    def api(self, path: str) -> Any:
        status, body, _ = self.inside(f"api/{path}")
        assert status == 200, body
        return json.loads(body)


def printed_address(studio: Studio, *arguments: str) -> str:
    answer = studio("open", *arguments, "--print", SSH_CONNECTION="")
    assert answer.code == 0, answer.err
    return answer.out.strip()


def port_of(address: str) -> int:
    return int(address.split("/")[2].partition(":")[2])


@pytest.fixture
def browser(film: Film) -> Browser:
    """A browser in which the page is open."""
    page = process.start(film.studio.home)
    return Browser(page.port).open(page.address(process.new_code(film.studio.home, ".url"), None))


Serve = Callable[..., tuple[Browser, "subprocess.Popen[bytes]"]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves a page of a home with limits of the test's own."""
    started: list[subprocess.Popen[bytes]] = []

    def start(studio: Studio, **limits: float) -> tuple[Browser, subprocess.Popen[bytes]]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            code = (
                "import asyncio, socket; from tqstudio.home import current_home;"
                " from tqstudio.wings.page.server import serve;"
                f" asyncio.run(serve(current_home(), socket.socket(fileno={listener.fileno()}), **{limits}))"
            )
            started.append(
                subprocess.Popen(
                    [sys.executable, "-c", code], env=studio.environment, pass_fds=[listener.fileno()]
                )
            )
            browser = Browser(listener.getsockname()[1])
        browser.open(f"http://127.0.0.1:{browser.port}/open/{process.new_code(studio.home, '.url')}")
        return browser, started[-1]

    yield start
    for each in started:
        each.terminate()
        until(lambda each=each: each.poll() is not None, "the page has ended")

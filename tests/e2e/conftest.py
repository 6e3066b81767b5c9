"""Clips made with ffmpeg's own sources, and supervisors to give them to."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from sqlalchemy import URL

import postgres
from harness import PROGRAM
from tqstudio.engine.media.ffmpeg.binary import locate
from tqstudio.protocol import calls
from waiting import until

from .studio import Studio
from .terminal import Terminal

MakeClip = Callable[..., Path]
MakeStudio = Callable[..., Studio]
Held = Callable[..., list[int]]
MakeFleet = Callable[..., list[Studio]]
LEASES = {"lease_s": 8, "heartbeat_s": 0.5, "lease_scan_s": 0.5, "reconnect_s": 8}
"""Of supervisors that stand by for each other: short ones."""
PASSWORD = "open-sesame-4711"
"""Of a database; it must be shown nowhere."""


@pytest.fixture(scope="session")
def ffmpeg() -> str:
    return locate(os.environ.get("TQSTUDIO_FFMPEG")).path


@pytest.fixture(scope="session")
def clip(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> MakeClip:
    """Makes a clip once a session and answers its path; copy it before it is changed."""
    folder = tmp_path_factory.mktemp("clips")

    def make(
        *, fps: str = "25", seconds: int = 4, size: str = "320x180", channels: int = 2, video: bool = True
    ) -> Path:
        name = f"{size}-{fps.replace('/', '_')}-{seconds}s-{channels}ch{'' if video else '-sound'}.mp4"
        path = folder / name
        if path.exists():
            return path
        pictures = ("-f", "lavfi", "-i", f"testsrc2=s={size}:r={fps}:d={seconds}")
        sound = ("-f", "lavfi", "-i", f"sine=r=44100:d={seconds}")
        subprocess.run(
            [
                *(ffmpeg, "-v", "error", "-nostdin", "-y"),
                *(pictures if video else ()),
                *(sound if channels else ()),
                *(("-c:v", "libx264", "-preset", "ultrafast", "-g", "50") if video else ()),
                *(("-ac", str(channels), "-c:a", "aac") if channels else ()),
                *("-pix_fmt", "yuv420p", "-movflags", "+faststart"),
                f"file:{path}",
            ],
            check=True,
            timeout=60,
        )
        return path

    return make


@pytest.fixture
def copy(tmp_path: Path) -> Callable[..., Path]:
    """Copies a clip into this test's own folder, under any name."""
    folder = tmp_path / "sources"

    def make(source: Path, name: str) -> Path:
        folder.mkdir(exist_ok=True)
        return Path(shutil.copyfile(source, folder / name))

    return make


@pytest.fixture(scope="session")
def one_for_all(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    studio = Studio(tmp_path_factory.mktemp("shared"), ffmpeg).up()
    yield studio
    studio.down()


@pytest.fixture
def shared(one_for_all: Studio) -> Iterator[Studio]:
    """A supervisor with one worker for all tests that leave it as they found it."""
    yield one_for_all
    # One that failed half-way is not to fail those that come after it.
    one_for_all.let_work()


@pytest.fixture
def make_studio(ffmpeg: str, tmp_path: Path) -> Iterator[MakeStudio]:
    """Makes homes of this test's own; whatever runs in them at the end is stopped, and nothing is left."""
    made: list[Studio] = []

    def make(
        *, real_ffmpeg: Path | None = None, before: Sequence[str] = (), **settings: str | float
    ) -> Studio:
        root = tmp_path / f"studio-{len(made)}"
        made.append(Studio(root, str(real_ffmpeg or ffmpeg), before=before, **settings))
        return made[-1]

    yield make
    for studio in made:
        studio.down()


@pytest.fixture
def studio(shared: Studio) -> Iterator[Studio]:
    """A supervisor whose queue is empty."""
    _empty(shared)
    yield shared
    _empty(shared)


def _empty(studio: Studio) -> None:
    """Take every job and drop folder off the lists, also those of other tests."""
    for folder in studio.client.send(calls.folders())["folders"]:
        studio.client.send(calls.remove_folder(folder["id"]))
    while rows := studio.client.send(calls.jobs(limit=200))["jobs"]:
        for row in rows:
            if row["status"] == "in_progress":
                studio.do("cancel", row["id"])
                until(lambda job=row["id"]: studio.job(job)["status"] == "cancelled", "the job has ended")
        studio.client.send(calls.act("delete", [row["id"] for row in rows]))


@pytest.fixture
def held(studio: Studio, clip: MakeClip, tmp_path: Path) -> Held:
    """Adds so many clips on hold: jobs that stay as they are until a key does something to them."""

    def add(count: int, name: str = "clip") -> list[int]:
        folder = tmp_path / "held"
        folder.mkdir(exist_ok=True)
        source = clip(seconds=1, size="160x90")
        paths = [Path(shutil.copyfile(source, folder / f"{name}-{at:03}.mp4")) for at in range(count)]
        return [result["job"] for result in studio.offer(*paths, hold=True)]

    return add


@pytest.fixture
def terminal(studio: Studio) -> Iterator[Terminal]:
    # The view of the test before, and its sort order.
    (studio.home.root / "ui.json").unlink(missing_ok=True)
    with Terminal(PROGRAM, studio.environment) as terminal:
        yield terminal


@pytest.fixture
def database() -> URL:
    """A new database, with a password that must be shown nowhere; the server does not ask for it."""
    return postgres.empty_database().set(password=PASSWORD)


@pytest.fixture
def on_postgresql(make_studio: MakeStudio, database: URL) -> Callable[..., Studio]:
    """Makes studios, not started yet, whose settings file names the database."""

    def make(url: URL = database, **settings: str | float) -> Studio:
        studio = make_studio(**settings)
        studio.home.database.unlink()
        text = url.render_as_string(hide_password=False)
        studio.home.config.write_text(f"database = {json.dumps(text)}\n")
        return studio

    return make


@pytest.fixture
def fleet(on_postgresql: Callable[..., Studio], tmp_path: Path) -> MakeFleet:
    """Makes supervisors on one database and one output, not started yet, that stand by for each other."""

    def make(*names: str, **settings: str | float) -> list[Studio]:
        chosen = {"standby": "true", "listen": "127.0.0.1:0", **LEASES, **settings}
        studios = [on_postgresql(name=name, **chosen) for name in names]
        for studio in studios:
            studio.out = tmp_path / "out"
        return studios

    return make

"""Takes the pictures of the UI in README and docs from a real supervisor with real jobs: `make pictures`.

`docs/queue.svg` is a picture of the queue; `docs/wall.svg` moves, and shows the wall while three workers
share a film. Takes about two minutes.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path

from moving_svg import joined, without_fonts
from tqstudio.cli.session.sample_clips import SampleClip, create
from tqstudio.engine.media.ffmpeg.binary import locate
from tqstudio.home import Home
from tqstudio.paths import decode, encode
from tqstudio.protocol import calls, launch
from tqstudio.protocol.client import AsyncClient, Client
from tqstudio.ui.app import StudioApp
from tqstudio.ui.screens.queue.screen import LIVE_S
from tqstudio.wings.wall.screen import REREAD_S

DOCS = Path(__file__).parents[1] / "docs"
QUEUE_SIZE, WALL_SIZE = (150, 42), (104, 24)
CLIPS = (
    SampleClip("interview.mp4", "gradients=size=640x360:rate=25:seed=7", 330, 6),
    SampleClip("recital.mp4", "mandelbrot=size=480x854:rate=30:maxiter=200", 660, 6),
    SampleClip("holiday-2026.mp4", "testsrc2=size=1280x720:rate=30000/1001", 440, 60),
    SampleClip("garden-tour.mp4", "testsrc2=size=854x480:rate=24", 220, 8),
    SampleClip("wedding-part-2.mp4", "testsrc2=size=854x480:rate=24", 220, 9),
)
WAITING = (
    *("lecture-01.mkv", "lecture-02.mkv", "lecture-03.mkv", "drone-over-the-lake.mov", "birthday.mp4"),
    *("cam1-2026-11-20.ts", "cam1-2026-11-21.ts", "conference-opening.mkv", "kitchen-timelapse.mp4"),
    *("school-play-act-1.mp4", "school-play-act-2.mp4", "match-highlights.webm", "interview-raw.mkv"),
)
"""Names of more copies of the last clip, which only wait."""
FILM = SampleClip("holiday-2026.mp4", "testsrc2=size=1280x720:rate=24", 440, 120)
EVERY_PERCENT, SHOWN_S = 3, 0.6


@contextmanager
def studio(*options: str) -> Iterator[tuple[Home, Client, Callable[[SampleClip], str]]]:
    """Start a supervisor in a home of its own; the function makes a clip and returns its path, encoded."""
    folder = Path(tempfile.mkdtemp(prefix="tqstudio-picture-"))
    home = Home(folder / "home")
    process = launch.start(home, [*options])
    try:
        launch.wait_until_up(home, process)
        supervisor = Client(home.socket)
        yield home, supervisor, lambda clip: encode(create(clip, folder / "clips", locate().path))
        supervisor.send(calls.shutdown())
        process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def until_running_at(supervisor: Client, percent: float) -> bool:
    """Wait until the long clip has come so far; False if it is done."""
    while True:
        page = await asyncio.to_thread(supervisor.send, calls.jobs())
        [job] = [job for job in page["jobs"] if job["name"].startswith("holiday")]
        if job["status"] == "done" or job["progress"] > percent:
            return job["status"] != "done"
        await asyncio.sleep(0.1)


async def queue(home: Home, supervisor: Client) -> str:
    app = StudioApp(lambda: AsyncClient(home.socket), home=home)
    async with app.run_test(size=QUEUE_SIZE) as pilot:
        await until_running_at(supervisor, 60)
        await pilot.press("g")
        await pilot.pause(LIVE_S + 1)
        return without_fonts(app.export_screenshot(title="tqstudio"))


async def wall(home: Home, supervisor: Client) -> str:
    app = StudioApp(lambda: AsyncClient(home.socket), home=home, view="wall", read_only=True)
    frames: list[str] = []
    async with app.run_test(size=WALL_SIZE) as pilot:
        while await until_running_at(supervisor, len(frames) * EVERY_PERCENT):
            await pilot.pause(REREAD_S)
            frames.append(app.export_screenshot(title="tqstudio wall"))
    return joined(frames[:-1], SHOWN_S)


def picture(
    take: Callable[[Home, Client], Coroutine[None, None, str]], home: Home, supervisor: Client
) -> None:
    """Write the picture that a function takes, under its name."""
    (DOCS / f"{take.__name__}.svg").write_text(asyncio.run(take(home, supervisor)))


def copies(clip: str) -> Iterator[Path]:
    """Make files of the names that wait, each with other bytes."""
    original = Path(os.fsdecode(decode(clip)))
    for name in WAITING:
        copy = original.with_name(name)
        copy.write_bytes(original.read_bytes() + name.encode())
        yield copy


def main() -> None:
    os.environ["COLORTERM"] = "truecolor"
    with studio("--profile", "fast") as (home, supervisor, made):
        paths = [made(clip) for clip in CLIPS]
        notes = home.root.parent / "clips" / "notes.mp4"
        notes.write_text("This is no video.\n")
        answer = supervisor.send(calls.add([encode(notes), *paths]))
        supervisor.send(calls.add([encode(path) for path in copies(paths[-1])]))
        supervisor.send(calls.act("pause", [job for job in [answer["results"][-1]["job"]] if job]))
        picture(queue, home, supervisor)
    with studio("--workers", "3") as (home, supervisor, made):
        supervisor.send(calls.add([made(FILM)], overrides={"first": "off"}))
        picture(wall, home, supervisor)


if __name__ == "__main__":
    main()

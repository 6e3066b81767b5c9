"""Takes the pictures of the UI in README and docs from a real supervisor with real jobs: `make pictures`.

`docs/demo.svg` moves: a folder is filled, a worker is killed, the wall, the results; `asciinema play
build/demo.cast` plays the same. `docs/queue.svg` is a picture of the queue; `docs/wall.svg` moves, and shows
the wall while three workers share a film. Takes about four minutes; a name as argument takes that one only.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path

from moving_svg import without_fonts
from reel import Reel
from tqstudio.cli.commands.studio.demo import TIPS
from tqstudio.cli.session.sample_clips import SampleClip, create, drop
from tqstudio.engine.media.ffmpeg.binary import locate
from tqstudio.home import Home
from tqstudio.paths import decode, encode
from tqstudio.protocol import calls, launch
from tqstudio.protocol.client import AsyncClient, Client
from tqstudio.ui.app import StudioApp
from tqstudio.ui.screens.queue.screen import LIVE_S
from tqstudio.wings.wall.screen import REREAD_S

DOCS = Path(__file__).parents[1] / "docs"
DEMO_SIZE, QUEUE_SIZE, WALL_SIZE = (104, 30), (150, 42), (104, 24)
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
DEMO_CLIPS = (FILM, *(clip for clip in CLIPS if clip.name != FILM.name))
DEMO_PROFILE = """
extends = "fast"
description = "Short segments, so that many are seen"
first = "off"

[video]
preset = "faster"
segment_s = 3
gop_s = 1
"""
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
        [job] = [job for job in page["jobs"] if job["name"] == FILM.name]
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
    reel = Reel(app)
    percent = 0
    async with app.run_test(size=WALL_SIZE) as pilot:
        while await until_running_at(supervisor, percent):
            await pilot.pause(REREAD_S)
            reel.take("tqstudio wall", SHOWN_S)
            percent += EVERY_PERCENT
    return reel.svg()


async def demo(home: Home, supervisor: Client) -> str:
    folder = home.root.parent
    (home.profiles / "fast.toml").write_text(DEMO_PROFILE)
    watched = folder / "videos"
    watched.mkdir()
    output = encode(folder / "site")
    supervisor.send(calls.add_folder(encode(watched), output_b64=output, profile="fast", settle_s=0.5))
    clips = [create(clip, folder / "clips", locate().path) for clip in DEMO_CLIPS]
    app = StudioApp(lambda: AsyncClient(home.socket), home=home, tips=TIPS)
    reel = Reel(app)
    async with app.run_test(size=DEMO_SIZE) as pilot:

        async def scene(title: str, *percents: float) -> None:
            """Take a picture each time that the film has come so far."""
            for percent in percents:
                await until_running_at(supervisor, percent)
                await pilot.pause(LIVE_S / 4)
                reel.take(title, SHOWN_S)

        await pilot.pause(LIVE_S)
        reel.take("A folder is watched", 2 * SHOWN_S)
        for clip in clips:
            await asyncio.to_thread(drop, clip, watched)
        while len(supervisor.send(calls.jobs())["jobs"]) < len(clips):
            await pilot.pause(0.1)
        await scene("Videos that are put into it become jobs", *range(0, 22, 3))
        await pilot.press("g", "enter")
        await scene("enter: a job, its qualities segment by segment", *range(22, 38, 3))
        kill_worker(supervisor)
        await scene("kill -9 of its worker: finished segments are kept", *[0] * 4, *range(40, 56, 3))
        await pilot.press("escape", "w")
        await scene("w: the wall, who makes which segment", *range(56, 98, 3))
        await pilot.press("w")
        await until_running_at(supervisor, 100)
        await pilot.pause(LIVE_S)
        reel.take("Verified to the frame and published: o plays it in the browser", 5 * SHOWN_S)
    cast = DOCS.parent / "build" / "demo.cast"
    cast.parent.mkdir(exist_ok=True)
    cast.write_text(reel.cast())
    return reel.svg()


def picture(
    take: Callable[[Home, Client], Coroutine[None, None, str]], home: Home, supervisor: Client
) -> None:
    """Write the picture that a function takes, under its name."""
    (DOCS / f"{take.__name__}.svg").write_text(asyncio.run(take(home, supervisor)))


def kill_worker(supervisor: Client) -> None:
    """Kill the worker of the long clip."""
    [job] = [job for job in supervisor.send(calls.jobs())["jobs"] if job["name"] == FILM.name]
    for worker in supervisor.send(calls.workers())["workers"]:
        if worker["name"] == job["worker"] and worker["pid"] is not None:
            os.kill(worker["pid"], signal.SIGKILL)


def copies(clip: str) -> Iterator[Path]:
    """Make files of the names that wait, each with other bytes."""
    original = Path(os.fsdecode(decode(clip)))
    for name in WAITING:
        copy = original.with_name(name)
        copy.write_bytes(original.read_bytes() + name.encode())
        yield copy


def of_demo() -> None:
    with studio("--workers", "3") as (home, supervisor, _):
        picture(demo, home, supervisor)


def of_queue() -> None:
    with studio("--profile", "fast") as (home, supervisor, made):
        paths = [made(clip) for clip in CLIPS]
        notes = home.root.parent / "clips" / "notes.mp4"
        notes.write_text("This is no video.\n")
        answer = supervisor.send(calls.add([encode(notes), *paths]))
        supervisor.send(calls.add([encode(path) for path in copies(paths[-1])]))
        supervisor.send(calls.act("pause", [job for job in [answer["results"][-1]["job"]] if job]))
        picture(queue, home, supervisor)


def of_wall() -> None:
    with studio("--workers", "3") as (home, supervisor, made):
        supervisor.send(calls.add([made(FILM)], overrides={"first": "off"}))
        picture(wall, home, supervisor)


PICTURES = {"demo": of_demo, "queue": of_queue, "wall": of_wall}


if __name__ == "__main__":
    os.environ["COLORTERM"] = "truecolor"
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]()

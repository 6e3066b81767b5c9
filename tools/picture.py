"""Renders the README's picture of the UI, `docs/queue.svg`, from a real supervisor with real jobs.

    python tools/picture.py

Takes about a minute.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from pathlib import Path

from tqstudio.cli.session.sample_clips import SampleClip, create
from tqstudio.engine.media.ffmpeg.binary import locate
from tqstudio.home import Home
from tqstudio.paths import encode
from tqstudio.protocol import calls, launch
from tqstudio.protocol.client import AsyncClient, Client
from tqstudio.ui.app import StudioApp

TARGET = Path(__file__).parents[1] / "docs" / "queue.svg"
SIZE = (104, 26)
CLIPS = (
    SampleClip("interview.mp4", "gradients=size=640x360:rate=25:seed=7", 330, 6),
    SampleClip("recital.mp4", "mandelbrot=size=480x854:rate=30:maxiter=200", 660, 6),
    SampleClip("holiday-2026.mp4", "testsrc2=size=1280x720:rate=30000/1001", 440, 60),
    SampleClip("garden-tour.mp4", "testsrc2=size=854x480:rate=24", 220, 8),
    SampleClip("wedding-part-2.mp4", "testsrc2=size=854x480:rate=24", 220, 9),
)


async def take(home: Home, supervisor: Client) -> str:
    app = StudioApp(lambda: AsyncClient(home.socket), home=home)
    async with app.run_test(size=SIZE) as pilot:
        await until_running_at(supervisor, 60)
        await pilot.press("g")
        await pilot.pause(1.0)
        return app.export_screenshot(title="tqstudio")


async def until_running_at(supervisor: Client, percent: float) -> None:
    while True:
        page = await asyncio.to_thread(supervisor.send, calls.jobs(statuses=["in_progress"]))
        if any(job["progress"] > percent and job["name"].startswith("holiday") for job in page["jobs"]):
            return
        await asyncio.sleep(0.1)


def main() -> None:
    os.environ["COLORTERM"] = "truecolor"
    folder = Path(tempfile.mkdtemp(prefix="tqstudio-picture-"))
    home = Home(folder / "home")
    process = launch.start(home, ["--profile", "fast"])
    try:
        launch.wait_until_up(home, process)
        supervisor = Client(home.socket)
        paths = [create(clip, folder / "clips", locate().path) for clip in CLIPS]
        notes = folder / "clips" / "notes.mp4"
        notes.write_text("This is no video.\n")
        answer = supervisor.send(calls.add([encode(path) for path in [notes, *paths]]))
        supervisor.send(calls.act("pause", [job for job in [answer["results"][-1]["job"]] if job]))
        picture = asyncio.run(take(home, supervisor))
        # The picture must not fetch a font from anywhere.
        TARGET.write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL))
        supervisor.send(calls.shutdown())
        process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

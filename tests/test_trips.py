"""What `make trips` records: functions that run while it is switched on, in every process and thread."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tqstudio.engine.media.ffmpeg import confine

TOOLS = str(Path(__file__).resolve().parents[1] / "tools")
sys.path.append(TOOLS)

import trips  # noqa: E402

PROGRAM = f"""
import asyncio, json, mmap, os, signal, subprocess, sys, threading
from tqstudio import units
from tqstudio.engine.host import waiting

with open(os.environ["{trips.FOLDER}"] + "/switch", "r+b") as file:
    switch = mmap.mmap(file.fileno(), 1)

async def wait():
    event = asyncio.Event()
    waits = asyncio.create_task(waiting.wait_until_set(event, 60))
    await asyncio.sleep(0)
    units.whole_percent(0.5)
    switch[0] = 1
    event.set()
    await waits

asyncio.run(wait())
from tqstudio.engine.media.plan import profile_keys
thread = threading.Thread(target=units.size, args=(1,))
thread.start()
thread.join()
policy = json.dumps({{"parent": os.getpid(), "nice": 0, "confined": False}})
subprocess.run([sys.executable, "-I", "-S", "{confine.__file__}", policy, "/bin/true"], check=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[trips.Recorder]:
    before = dict(os.environ)
    yield trips.Recorder(tmp_path / "records")
    os.environ.clear()
    os.environ.update(before)


def test_what_runs_is_recorded_in_threads_coroutines_and_children(recorder: trips.Recorder) -> None:
    ended = subprocess.run([sys.executable, "-P", "-c", PROGRAM], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert recorder.ran(()) == {
        "engine/media/ffmpeg/confine.py": ["main"],
        "engine/host/waiting.py": ["wait_until_set"],
        "units.py": ["_scaled", "size"],
    }


def test_a_wing_belongs_to_the_trips_that_use_it() -> None:
    ran = {"wings/__init__.py": ["load"], "wings/remote/link.py": ["send"], "engine/remote/link.py": ["send"]}
    assert trips.strangers(trips.TRIPS["drop"], ran) == ["wings/remote/link.py"]
    assert trips.strangers(trips.TRIPS["remote"], ran) == []

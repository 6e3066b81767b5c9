"""Films that are just long enough for a quality to be sought, and a profile that asks for one."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from e2e.studio import Studio, video_runs

PROFILE = """
extends = "web"
storyboard = false

[video]
preset = "ultrafast"
quality = 90
copy = "never"
segment_s = 2
gop_s = 1
rungs = [
    { short_side = 90, maxrate_kbps = 600 },
    { short_side = 60, maxrate_kbps = 300 },
]
"""
MakeFilm = Callable[..., Path]


@pytest.fixture(scope="session")
def film(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> MakeFilm:
    """Makes a small film of many bits, by default just long enough."""
    folder = tmp_path_factory.mktemp("films")

    def make(seconds: int = 61, *rate: str) -> Path:
        path = folder / f"{seconds}-{'-'.join(rate)}.mp4"
        if not path.exists():
            pictures = f"testsrc2=s=160x90:r=5:d={seconds},noise=alls=8:allf=t"
            coded = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "5", *(rate or ("-crf", "10")))
            command = [ffmpeg, "-v", "error", "-nostdin", "-y", "-f", "lavfi", "-i", pictures, *coded]
            subprocess.run([*command, "-pix_fmt", "yuv420p", f"file:{path}"], check=True, timeout=60)
        return path

    return make


def decided(studio: Studio) -> list[Any]:
    """The CRFs that are stored of all videos."""
    with closing(sqlite3.connect(f"file:{studio.home.database}?mode=ro", uri=True)) as db:
        return [each for (crfs,) in db.execute("SELECT crfs FROM video") for each in json.loads(crfs)]


def used_crfs(job: Any) -> set[str]:
    """The CRFs with which the runs of the newest attempt encode its rungs."""
    runs = video_runs(job["attempts_log"][-1])
    return {value for run in runs for word, value in pairwise(run) if word == "-crf"}

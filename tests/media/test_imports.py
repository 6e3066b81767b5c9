"""What the supervisor imports of this package must not bring the media libraries with it: they parse media,
and it must never do that itself."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    [
        *("source.facts", "source.colour"),
        *("plan.grid", "plan.keys", "plan.rungs", "plan.profiles"),
        *("ffmpeg.hardware", "segments.playlists", "segments.checked", "segments.store"),
    ],
)
def test_light_modules_stay_light(module: str) -> None:
    assert _libraries_of(f"tqstudio.engine.media.{module}") == "[]\n"


def test_the_supervisor_loads_no_parser() -> None:
    assert "'av'" not in _libraries_of("tqstudio.engine.program")


def _libraries_of(module: str) -> str:
    code = (
        f"import sys, {module};"
        "print([name for name in ('av', 'ffmpeg', 'imageio_ffmpeg', 'm3u8') if name in sys.modules])"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout

"""What the supervisor imports of this package must not bring the media libraries with it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    ["facts", "grid", "hardware", "hashes", "ladder", "playlists", "profiles", "rendition", "segment_store"],
)
def test_light_modules_stay_light(module: str) -> None:
    code = (
        f"import sys, tqstudio.engine.media.{module};"
        "print([name for name in ('av', 'ffmpeg', 'imageio_ffmpeg', 'm3u8') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert answer.stdout == "[]\n"

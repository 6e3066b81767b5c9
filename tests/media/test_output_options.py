"""What encoders are asked for, seen in what they make."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.output_options import encoder_options
from tqstudio.engine.media.plan.profiles import load
from tqstudio.engine.media.plan.rungs import Rung

from .conftest import run_ffmpeg


@pytest.mark.parametrize(
    ("width", "height", "preset"),
    [(3840, 2160, "slow"), (3840, 2160, "slower"), (3840, 2160, "veryslow"), (2560, 1440, "veryslow")],
)
def test_no_preset_exceeds_the_level_that_apple_allows(
    ffmpeg: FFmpeg, tmp_path: Path, width: int, height: int, preset: str
) -> None:
    rung = Rung("top", width, height, 40_000, preset=preset)
    options = encoder_options(load("web"), rung, 2, "libx264", None)
    made = tmp_path / "made.mp4"
    words = [word for name, value in options.items() for word in (f"-{name}", str(value))]
    run_ffmpeg(ffmpeg, "-f", "lavfi", "-i", f"testsrc2=s={width}x{height}:r=30:d=0.1", *words, str(made))
    with av.open(str(made)) as file:
        extradata = file.streams.video[0].codec_context.extradata
    assert extradata is not None
    assert extradata[3] in (50, 51, 52), "of avcC: the level"

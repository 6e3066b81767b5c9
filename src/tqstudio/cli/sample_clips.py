"""Creates the sample clips of `demo` with ffmpeg's test sources."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tqstudio import path_checks
from tqstudio.errors import ErrorCode, TqError

MAKE_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Clip:
    """A clip: a picture and a tone."""

    name: str
    picture: str
    """A lavfi source with size and rate."""
    tone_hz: int
    seconds: int


CLIPS = (
    Clip("test card 720p29.97.mp4", "testsrc2=size=1280x720:rate=30000/1001", 440, 7),
    Clip("mandelbrot portrait.mp4", "mandelbrot=size=480x854:rate=30:maxiter=200", 660, 6),
    Clip("gradients 360p25.mp4", "gradients=size=640x360:rate=25:speed=0.02:seed=7", 330, 6),
)


def create(clip: Clip, folder: Path, ffmpeg: str) -> Path:
    """Create a clip in `folder` unless it exists; returns its path.

    Raises:
        TqError: ENCODER_EXIT if ffmpeg fails.
    """
    target = folder / clip.name
    if path_checks.is_file(target):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".{clip.name}"
    argv = [
        *(ffmpeg, "-hide_banner", "-loglevel", "error", "-nostdin", "-y"),
        *("-f", "lavfi", "-i", clip.picture, "-f", "lavfi", "-i", f"sine={clip.tone_hz}:sample_rate=48000"),
        *("-t", str(clip.seconds), "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"),
        *("-c:a", "aac", "-b:a", "96k", f"file:{unfinished}"),
    ]
    try:
        subprocess.run(argv, check=True, capture_output=True, timeout=MAKE_TIMEOUT_S)
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        raise _cannot(clip, lines[-1] if lines else f"exit status {error.returncode}") from None
    except subprocess.TimeoutExpired:
        raise _cannot(clip, f"it took more than {MAKE_TIMEOUT_S:.0f} s") from None
    unfinished.rename(target)
    return target


def _cannot(clip: Clip, why: str) -> TqError:
    return TqError(
        ErrorCode.ENCODER_EXIT,
        f"ffmpeg could not create the sample clip {clip.name!r}: {why}",
        "run: tqstudio doctor",
    )


def drop(clip: Path, folder: Path) -> Path:
    """Copy a clip into a drop folder as an upload should: under a temporary name, then renamed."""
    import shutil

    folder.mkdir(parents=True, exist_ok=True)
    target = folder / clip.name
    if not path_checks.is_there(target):
        unfinished = folder / f".{clip.name}.part"
        shutil.copyfile(clip, unfinished)
        os.replace(unfinished, target)
    return target

"""Generates the videos that the sandbox transcodes: short, but long enough to be interrupted."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from tqstudio import path_checks
from tqstudio.errors import ErrorCode, TqError

PROFILE_NAME = "drill"
PROFILE = """
extends = "fast"
description = "For the drill: many short segments, and two versions of each ladder"
first = "240p"

[video]
segment_s = 2
gop_s = 1
rungs = [
    { short_side = 360, maxrate_kbps = 800 },
    { short_side = 240, maxrate_kbps = 400 },
    { short_side = 180, maxrate_kbps = 250 },
]
"""
RUNGS = ("360p", "240p", "180p")
GOP_S = 1
_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Clip:
    """A source with a known number of frames."""

    name: str
    fps: Fraction
    frames: int
    size: str

    @property
    def seconds(self) -> float:
        return float(self.frames / self.fps)


CLIPS = (
    Clip("film.mp4", Fraction(24), 480, "640x360"),
    Clip("ntsc.mp4", Fraction(30000, 1001), 601, "640x360"),
    Clip("portrait.mp4", Fraction(25), 425, "360x640"),
)


def make(clip: Clip, folder: Path, ffmpeg: str) -> Path:
    """Generate a clip unless it exists, and return its path. Raises as `generate`."""
    target = folder / clip.name
    picture = f"testsrc2=size={clip.size}:rate={clip.fps}"
    tone = f"sine=440:sample_rate=48000:d={clip.seconds:.3f}"
    return generate(target, picture, tone, ("-frames:v", str(clip.frames)), ffmpeg)


def generate(target: Path, picture: str, tone: str, length: Sequence[str], ffmpeg: str) -> Path:
    """Generate a video from two sources of ffmpeg unless it exists, and return its path.

    The options in `length` end it. Raises ENCODER_EXIT when ffmpeg fails.
    """
    inputs = ("-f", "lavfi", "-i", picture, "-f", "lavfi", "-i", tone)
    codecs = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", "-b:a", "96k")
    return write(target, (*inputs, *length, *codecs), ffmpeg)


def write(target: Path, options: Sequence[str], ffmpeg: str) -> Path:
    """Let ffmpeg write a file with these options unless it exists, and return its path.

    Raises ENCODER_EXIT when ffmpeg fails.
    """
    if path_checks.is_file(target):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}")
    argv = [ffmpeg, "-hide_banner", "-loglevel", "error", "-nostdin", "-y", *options, f"file:{unfinished}"]
    try:
        subprocess.run(argv, check=True, capture_output=True, timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise _cannot(target, f"it took more than {_TIMEOUT_S:.0f} s") from None
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        raise _cannot(target, lines[-1] if lines else f"exit status {error.returncode}") from None
    unfinished.rename(target)
    return target


def _cannot(target: Path, why: str) -> TqError:
    what = f"ffmpeg could not generate the clip {target.name!r}: {why}"
    return TqError(ErrorCode.ENCODER_EXIT, what, "run: tqstudio doctor")

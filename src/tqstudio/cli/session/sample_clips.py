"""Creates the sample clips of `demo` with ffmpeg's test sources."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tqstudio import path_checks
from tqstudio.drill.clips import generate


@dataclass(frozen=True, slots=True)
class SampleClip:
    """A clip: a picture and a tone."""

    name: str
    picture: str
    """A lavfi source with size and rate."""
    tone_hz: int
    seconds: int


CLIPS = (
    SampleClip("test card 720p29.97.mp4", "testsrc2=size=1280x720:rate=30000/1001", 440, 7),
    SampleClip("mandelbrot portrait.mp4", "mandelbrot=size=480x854:rate=30:maxiter=200", 660, 6),
    SampleClip("gradients 360p25.mp4", "gradients=size=640x360:rate=25:speed=0.02:seed=7", 330, 6),
)


def create(clip: SampleClip, folder: Path, ffmpeg: str) -> Path:
    """Create a clip in `folder` unless it exists; returns its path. Raises as `clips.generate`."""
    tone = f"sine={clip.tone_hz}:sample_rate=48000"
    return generate(folder / clip.name, clip.picture, tone, ("-t", str(clip.seconds)), ffmpeg)


def drop(clip: Path, folder: Path) -> Path:
    """Copy a clip into a drop folder as an upload should: under a temporary name, then renamed."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / clip.name
    if not path_checks.is_there(target):
        unfinished = folder / f".{clip.name}.part"
        shutil.copyfile(clip, unfinished)
        os.replace(unfinished, target)
    return target

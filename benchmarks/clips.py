"""The clips that are encoded, made by ffmpeg: moving shapes, a zoom into fine structure, and grain."""

from __future__ import annotations

import subprocess
from pathlib import Path

# The filters that draw are slow, so so much is drawn; the rest of a clip shows it again.
_DRAWN_S = 15
_FPS = 30
_PICTURE = (
    "[0:v]scale=1920:1080:flags=bicubic,format=yuv420p[far];[1:v]format=yuv420p[near];"
    "[far][near]overlay=x='480+300*sin(t/3)':y='270+150*cos(t/4)',noise=c0s=4:c0f=t+u,format=yuv420p[v]"
)
_SOUND = "[1:a][2:a]amix=2,aformat=channel_layouts=stereo[a]"


def make(ffmpeg: str, folder: Path, seconds: int) -> Path:
    """A clip of 1080p30 with stereo sound, read once, so that it is in the page cache.

    It is H.264 High with B-frames and CABAC, as cameras and editors write it: what decodes easily would hide
    what decoding once is worth.
    """
    clip = folder / f"bench-{seconds}s.mp4"
    if not clip.exists():
        drawn = folder / f"drawn-{seconds}s.mp4"
        pictures = _inputs(
            f"mandelbrot=size=640x360:rate={_FPS}:maxiter=300:start_scale=0.6:end_scale=0.0005:end_pts=2000",
            f"testsrc2=size=960x540:rate={_FPS}",
        )
        sounds = _inputs(
            "sine=220:sample_rate=48000,tremolo=5",
            "anoisesrc=color=pink:amplitude=0.2:sample_rate=48000",
        )
        _run(
            [
                *(ffmpeg, *pictures, "-filter_complex", _PICTURE, "-map", "[v]"),
                *("-frames:v", str(min(seconds, _DRAWN_S) * _FPS), "-c:v", "libx264"),
                *("-preset", "ultrafast", "-crf", "18", str(drawn)),
            ]
        )
        # Only the picture is shown again: sound of another length would tear a hole at each turn.
        _run(
            [
                *(ffmpeg, "-stream_loop", "-1", "-i", str(drawn), *sounds, "-filter_complex", _SOUND),
                *("-map", "0:v", "-map", "[a]", "-t", str(seconds), "-c:v", "libx264", "-preset", "veryfast"),
                *("-crf", "18", "-maxrate", "24M", "-bufsize", "48M", "-c:a", "aac", "-b:a", "160k"),
                str(clip),
            ]
        )
        drawn.unlink()
    clip.read_bytes()
    return clip


def _inputs(*sources: str) -> list[str]:
    return [word for source in sources for word in ("-f", "lavfi", "-i", source)]


def _run(command: list[str]) -> None:
    quiet = [command[0], "-hide_banner", "-loglevel", "error", "-nostdin", "-y", *command[1:]]
    ended = subprocess.run(quiet, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"no clip could be made: {ended.stderr.decode(errors='replace')[-2000:]}")


def endless(ffmpeg: str) -> list[str]:
    """An encode of 1080p that never ends and writes nothing: the load beside which others are measured."""
    return [
        *(
            ffmpeg,
            "-hide_banner",
            "-nostdin",
            "-nostats",
            "-f",
            "lavfi",
            "-i",
            "testsrc2=size=1920x1080:rate=30",
        ),
        *("-c:v", "libx264", "-preset", "veryfast", "-f", "null", "-"),
    ]

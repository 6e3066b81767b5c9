"""AV1 against SVT-AV1 by hand, tone-mapped against plain pictures, and confined against free starts."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.options import Options
from benchmarks.report import Section, at_least, at_most
from tqstudio.engine.media.ffmpeg import binary
from tqstudio.engine.media.ffmpeg.command import video_command
from tqstudio.engine.media.ffmpeg.process import can_be_confined, start
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.grid import make_grid
from tqstudio.engine.media.plan.rungs import build_ladder
from tqstudio.engine.media.source.probe import probe

_SECONDS = 6
_HDR = "format=yuv420p10le,setparams=color_primaries=bt2020:color_trc=smpte2084:colorspace=bt2020nc:range=tv"
_SDR = "format=yuv420p10le,setparams=color_primaries=bt709:color_trc=bt709:colorspace=bt709:range=tv"


def measure(options: Options, root: Path) -> Section:
    ffmpeg = binary.locate()
    section = Section(
        "Encoders", f"{_SECONDS} s of 1080p24, 10 bits; {options.rounds} rounds, what is compared takes turns"
    )
    sdr, hdr = (
        _clip(ffmpeg.path, root / f"{name}.mkv", tags) for name, tags in (("sdr", _SDR), ("hdr", _HDR))
    )
    archive = profiles.load("archive")
    av1: list[float] = []
    mapped: dict[str, list[float]] = {"web": [], "fast": []}
    started: list[float] = []
    for number in range(options.rounds):
        work = root / f"round-{number}"
        ours = _seconds(_encode, ffmpeg, sdr, archive, "libsvtav1", work / "ours")
        by_hand = _seconds(_svt_by_hand, ffmpeg.path, sdr, work / "by-hand")
        av1.append(ours / by_hand)
        for name, ratios in mapped.items():
            plain, toned = (
                _seconds(_encode, ffmpeg, clip, profiles.load(name), "libx264", work / f"{name}-{clip.stem}")
                for clip in (sdr, hdr)
            )
            ratios.append(plain / toned)
    work = root / "starts"
    work.mkdir()
    for _ in range(options.starts):
        confined, free = (_seconds(_start, ffmpeg.path, work, it) for it in (True, False))
        started.append((confined - free) * 1000)
    section.add("profile archive ÷ SVT-AV1 by hand, 1080p", av1, "×", at_most(1.1))
    section.add("speed of a tone-mapped 1080p of `web` ÷ a plain one", mapped["web"], "×", at_least(0.4))
    section.add("the same, 720p of `fast`", mapped["fast"], "×")
    section.add("confinement of one ffmpeg", started, "ms", at_most(100))
    return section


def _clip(ffmpeg: str, path: Path, filters: str) -> Path:
    source = f"testsrc2=s=1920x1080:r=24:d={_SECONDS},noise=alls=8:allf=t"
    command = [ffmpeg, "-v", "error", "-f", "lavfi", "-i", source, "-vf", filters]
    _run(
        [*command, "-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=error", str(path)],
        path.parent,
    )
    return path


def _encode(ffmpeg: binary.FFmpeg, source: Path, profile: profiles.Profile, encoder: str, work: Path) -> None:
    """The largest quality of a profile, with the command of a job."""
    facts = probe(os.fsencode(source))
    rung = next(rung for rung in build_ladder(facts, profile) if not rung.skipped)
    (work / rung.name).mkdir(parents=True)
    grid = make_grid(facts, profile)
    _run(video_command(ffmpeg, os.fsencode(source), facts, grid, profile, [rung], encoder), work)


def _svt_by_hand(ffmpeg: str, source: Path, work: Path) -> None:
    """The same settings in one file."""
    work.mkdir(parents=True)
    settings = ("-preset", "5", "-crf", "24", "-maxrate", "4000k", "-bufsize", "8000k", "-g", "48")
    command = [ffmpeg, "-v", "error", "-i", str(source), "-pix_fmt", "yuv420p10le", "-c:v", "libsvtav1"]
    _run([*command, *settings, "out.mp4"], work)


def _start(ffmpeg: str, work: Path, confined: bool) -> None:
    run = start(
        [ffmpeg, "-version"], work, work / "log", nice=0, confined=confined and can_be_confined(ffmpeg)
    )
    if run.wait(60):
        raise RuntimeError(run.log_tail())


def _run(command: Sequence[str], folder: Path) -> None:
    subprocess.run(command, check=True, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True)


def _seconds(action: Callable[..., None], *given: object) -> float:
    began = time.perf_counter()
    action(*given)
    return time.perf_counter() - began

"""What files of a whole video cost: a publish with one beside a publish without, in shares of the encode."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from benchmarks import clips
from benchmarks.options import Options
from benchmarks.processes import cpu_s
from benchmarks.report import Section, at_most
from benchmarks.studio import Studio, studio
from tqstudio.engine.media.ffmpeg import binary

_MOST_PERCENT = 1.0
_TURNS = 4
"""Of each kind, per round."""


def measure(options: Options, root: Path) -> Section:
    section = Section(
        "Files of the whole video",
        f"{options.clip_s} s of 1080p30, profile fast: CPU of the supervisor and the ffmpeg that it starts to"
        " publish the kept ladder with an MP4, less that without, ÷ CPU of the job's encode",
    )
    clip = clips.make(binary.locate().path, root.parent, options.clip_s)
    output, shares = root / "out", []
    # While nothing is encoded, the periodic work of the supervisor hides nothing.
    with studio(root / "home") as running:
        _job(running, clip, output, files='["mp4"]', dash=False)
        encode = _encode_cpu_s(running)
        [made] = output.glob("*/v1/*.mp4")
        size = made.stat().st_size / 1e6
        for _ in range(options.rounds):
            without, with_file = 0.0, 0.0
            # Every job changes something, so that each publishes; an MPD is in one of two of both kinds.
            for turn in range(_TURNS):
                without += _job(running, clip, output, files="[]", dash=turn % 2 == 0)
                with_file += _job(running, clip, output, files='["mp4"]', dash=turn % 2 == 0)
            shares.append((with_file - without) / _TURNS / encode * 100)
    section.add("more CPU with an MP4", shares, "%", at_most(_MOST_PERCENT))
    section.add("its size", [size], "MB")
    return section


def _job(running: Studio, clip: Path, output: Path, *, files: str, dash: bool) -> float:
    """Publish a ladder with these settings; processor seconds of the supervisor and what it starts."""
    before = sum(cpu_s(running.pid))
    asked = ("--set", f"files={files}", "--set", f"dash={'true' if dash else 'false'}")
    running.run("process", "-i", str(clip), "-o", str(output), "--profile", "fast", *asked)
    return sum(cpu_s(running.pid)) - before


def _encode_cpu_s(running: Studio) -> float:
    with contextlib.closing(running.line()) as line:
        job: Any = line.get("/v1/jobs/1")
    return float(sum(attempt["cpu_s"] or 0 for attempt in job["attempts_log"]))

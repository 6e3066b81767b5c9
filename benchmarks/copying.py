"""A ladder whose largest quality is a copy of its source, against the same one without."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from benchmarks import clips
from benchmarks.ladder import run_job
from benchmarks.options import Options
from benchmarks.report import Section, at_most
from benchmarks.studio import studio
from tqstudio.engine.media.ffmpeg import binary

PROFILE = "web"
_TAGS = "setparams=color_primaries=bt709:color_trc=bt709:colorspace=bt709:range=tv"
_RATE = ("-b:v", "4M", "-maxrate", "5M", "-bufsize", "10M", "-g", "120")


def measure(options: Options, root: Path) -> Section:
    section = Section(
        "A ladder with a copy against one without",
        f"{options.clip_s} s of 1080p30 at 4 Mb/s, a key frame every 4 s at most; profile {PROFILE};"
        f" {options.rounds} rounds, one after the other",
    )
    program = binary.locate().path
    clip = root / "fits.mp4"
    drawn = clips.make(program, root.parent, options.clip_s)
    command = [program, "-v", "error", "-nostdin", "-y", "-i", str(drawn), "-vf", _TAGS, "-c:a", "copy"]
    subprocess.run([*command, "-c:v", "libx264", "-preset", "veryfast", *_RATE, str(clip)], check=True)
    cpu: list[float] = []
    wall: list[float] = []
    with studio(root / "home") as running:
        for number in range(options.rounds):
            costs = []
            for copy in ("fitting", "never"):
                output = root / f"{copy}-{number}"
                chosen = ("--profile", PROFILE, "--set", f"video.copy={copy}")
                costs.append(run_job(running, clip, output, *chosen).cost)
                shutil.rmtree(output)
            cpu.append(costs[0].cpu_s / costs[1].cpu_s)
            wall.append(costs[0].wall_s / costs[1].wall_s)
    section.add("CPU of a job with a copy ÷ without", cpu, "×", at_most(0.50))
    section.add("the same, from queueing to done", wall, "×")
    return section

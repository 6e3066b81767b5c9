"""How long a job takes on a worker of another machine, against the worker beside the studio; on loopback."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from benchmarks import clips
from benchmarks.options import Options
from benchmarks.processes import until
from benchmarks.report import Section, at_most
from benchmarks.studio import Studio, studio, tqstudio
from tqstudio.engine.media.ffmpeg import binary

_LOCAL, _REMOTE = "cpu-0", "attic"


def measure(options: Options, root: Path) -> Section:
    clip = clips.make(binary.locate().path, root.parent, options.clip_s)
    taken: dict[str, list[float]] = {_LOCAL: [], _REMOTE: []}
    with studio(root / "home", ["--listen", "127.0.0.1:0"]) as running, connected(running, root):
        for number in range(options.rounds):
            for name in (_LOCAL, _REMOTE):
                for each in (_LOCAL, _REMOTE):
                    running.run("worker", "enable" if each == name else "disable", each)
                taken[name].append(job_s(running, clip, root / f"{name}-{number}"))
    section = Section(
        "A worker on another machine",
        f"{options.clip_s} s of 1080p30, profile fast; loopback without TLS; {options.rounds} rounds",
    )
    ratios = [there / here for here, there in zip(taken[_LOCAL], taken[_REMOTE], strict=True)]
    section.add("job there ÷ job beside the studio, wall", ratios, "×", at_most(1.10))
    section.add("job there, wall", taken[_REMOTE], "s")
    section.add("job beside the studio, wall", taken[_LOCAL], "s")
    return section


@contextlib.contextmanager
def connected(running: Studio, root: Path) -> Iterator[None]:
    """A worker with a home of its own, connected over TCP."""
    home = root / "far"
    home.mkdir()
    token = home / "token"
    token.touch(0o600)
    token.write_text(running.run("token", "create", _REMOTE, "--role", "worker"))
    url = str(running.status()["supervisor"]["listen"])
    process = subprocess.Popen(
        [*tqstudio(), "--connect", url, "--token-file", str(token), "worker", "run"],
        env=running.environment | {"TQSTUDIO_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(
            lambda: any(w["name"] == _REMOTE and w["pid"] for w in running.status()["workers"]),
            "it registers",
        )
        yield
    finally:
        process.terminate()
        process.wait()


def job_s(running: Studio, clip: Path, output: Path) -> float:
    """Seconds from the moment a job was queued to `done`."""
    running.run("process", "-i", str(clip), "-o", str(output), "--profile", "fast", "--json")
    with contextlib.closing(running.line()) as line:
        job = line.get("/v1/jobs?sort=newest&limit=1")["jobs"][0]
    shutil.rmtree(output)
    ended, began = (datetime.fromisoformat(job[key]) for key in ("completed_at", "created_at"))
    return (ended - began).total_seconds()

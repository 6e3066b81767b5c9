"""What more machines bring for a single video, whose own worker is on another machine too."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks import clips, cpu_share
from benchmarks.options import Options
from benchmarks.processes import until
from benchmarks.remote import job_s
from benchmarks.report import Section, at_least
from benchmarks.studio import Studio, studio, tqstudio
from tqstudio.engine.media.ffmpeg import binary

_MACHINES = ("one", "two", "three")
_CORES = 0.5
"""Of each machine: three and the studio fit on two cores."""
_LOOPS = 10
"""Of the clip: ten minutes."""


def measure(options: Options, root: Path) -> Section:
    ffmpeg = binary.locate().path
    clip = _long(ffmpeg, clips.make(ffmpeg, root.parent, options.clip_s), options.clip_s * _LOOPS)
    section = Section(
        "One video on several machines",
        f"{options.clip_s * _LOOPS} s of 360p30, profile fast; each machine has {_CORES} cores; one round",
    )
    try:
        taken = _times(root, clip)
    except cpu_share.Unlimited as error:
        section.setting += f"; not measured: {error}"
        return section
    section.add("job on one ÷ on two, wall", [taken[1] / taken[2]], "×", at_least(0.85 * 2))
    section.add("job on one ÷ on three, wall", [taken[1] / taken[3]], "×")
    section.add("job on one, wall", [taken[1]], "s")
    return section


def _times(root: Path, clip: Path) -> dict[int, float]:
    """Number of machines → seconds of the job."""
    taken: dict[int, float] = {}
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(studio(root / "home", ["--listen", "127.0.0.1:0"]))
        running.run("worker", "disable", "cpu-0")
        for name in _MACHINES:
            group = stack.enter_context(cpu_share.group(name, _CORES))
            stack.enter_context(_machine(running, root, name, group))
        for count in (1, 2, 3):
            for number, name in enumerate(_MACHINES):
                running.run("worker", "enable" if number < count else "disable", name)
            taken[count] = job_s(running, clip, root / f"by-{count}")
    return taken


@contextlib.contextmanager
def _machine(running: Studio, root: Path, name: str, group: Path) -> Iterator[None]:
    """A worker with a home and a share of the processors of its own."""
    home = root / name
    home.mkdir()
    token = home / "token"
    token.touch(0o600)
    token.write_text(running.run("token", "create", name, "--role", "worker"))
    url = str(running.status()["supervisor"]["listen"])
    process = subprocess.Popen(
        [*tqstudio(), "--connect", url, "--token-file", str(token), "worker", "run"],
        env=running.environment | {"TQSTUDIO_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    # What it starts, ffmpeg too, belongs to the same group.
    (group / "cgroup.procs").write_text(str(process.pid))
    try:
        until(
            lambda: any(w["name"] == name and w["pid"] for w in running.status()["workers"]),
            f"{name} registers",
        )
        yield
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(home, ignore_errors=True)


def _long(ffmpeg: str, clip: Path, seconds: int) -> Path:
    """The clip again and again, in 360p."""
    made = clip.with_name(f"bench-360p-{seconds}s.mp4")
    if not made.exists():
        subprocess.run(
            [
                *(ffmpeg, "-v", "error", "-nostdin", "-y", "-stream_loop", "-1", "-i", str(clip)),
                *("-t", str(seconds), "-vf", "scale=640:360", "-c:v", "libx264", "-preset", "veryfast"),
                *("-crf", "20", "-c:a", "copy", str(made)),
            ],
            stdin=subprocess.DEVNULL,
            check=True,
        )
    return made

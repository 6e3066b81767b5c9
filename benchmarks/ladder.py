"""A whole job against the same ladder made by hand.

The hand-written commands get every advantage: sound and poster ride along in the one process (or the first),
nothing is checked, hashed, made durable or published.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import av

from benchmarks import clips
from benchmarks.options import Options
from benchmarks.processes import Cost, cpu_s, run
from benchmarks.report import Section, at_most
from benchmarks.studio import Studio, studio
from tqstudio.config import Settings
from tqstudio.engine.media.ffmpeg import binary
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.rungs import Rung, build_ladder
from tqstudio.engine.media.source.probe import probe

PROFILE = "fast"
_FPS = 30
_POSTER_FRAME = 90


@dataclass(frozen=True, slots=True)
class _Job:
    """A job that is done."""

    cost: Cost
    """From the moment it was queued to `done`."""
    ffmpeg_cpu_s: float
    worker_cpu_s: float
    """Without its ffmpeg: watching, storing, verifying, hashing."""
    supervisor_cpu_s: float
    command_s: float
    steps: Mapping[str, float]
    """Seconds of each."""


def measure(options: Options, root: Path) -> Section:
    program = binary.locate().path
    clip = clips.make(program, root.parent, options.clip_s)
    profile = profiles.load(PROFILE)
    rungs = [rung for rung in build_ladder(probe(bytes(clip)), profile) if not rung.skipped]
    one = [_command(program, clip, profile, rungs, with_sound=True)]
    each = [
        _command(program, clip, profile, [rung], with_sound=number == 0) for number, rung in enumerate(rungs)
    ]
    jobs: list[_Job] = []
    by_hand: list[Cost] = []
    one_by_one: list[Cost] = []
    with studio(root / "home") as running:
        nice = Settings().ffmpeg_nice
        made = _by_hand(root, one, rungs, nice, by_hand)
        for number in range(options.rounds):
            output = root / f"job-{number}"
            jobs.append(run_job(running, clip, output, "--profile", PROFILE))
            published = [playlist.parent for playlist in output.glob("*/v*/*p/index.m3u8")]
            _require_equal(published, made)
            _by_hand(root, each, rungs, nice, one_by_one)
            made = _by_hand(root, one, rungs, nice, by_hand)
            shutil.rmtree(output)
    # A machine whose speed changes from minute to minute is as fast during a job as before and after it.
    around = [_mean(before, after) for before, after in pairwise(by_hand)]
    return _report(options, jobs, around, one_by_one)


def _mean(one: Cost, other: Cost) -> Cost:
    return Cost((one.wall_s + other.wall_s) / 2, (one.cpu_s + other.cpu_s) / 2)


def _report(
    options: Options, jobs: Sequence[_Job], by_hand: Sequence[Cost], one_by_one: Sequence[Cost]
) -> Section:
    section = Section(
        "A job against the same ladder by hand",
        f"{options.clip_s} s of 1080p30 to 720p, 480p and 360p (profile {PROFILE}); {options.rounds} rounds:"
        " job, one command per quality, one command, which is also run before the first; a job is compared"
        " with the mean of the two runs around it",
    )
    made = [job.cost for job in jobs]
    for name, others, floor in (
        ("one ffmpeg command", by_hand, at_most(1.05)),
        ("one ffmpeg per quality", one_by_one, at_most(0.80)),
    ):
        pairs = list(zip(made, others, strict=True))
        section.add(f"job ÷ {name}, wall", [job.wall_s / other.wall_s for job, other in pairs], "×", floor)
        section.add(f"job ÷ {name}, CPU", [job.cpu_s / other.cpu_s for job, other in pairs], "×", floor)
    for name, costs in (("job", made), ("one command", by_hand), ("one command per quality", one_by_one)):
        section.add(f"{name}, wall", [cost.wall_s for cost in costs], "s")
        section.add(f"{name}, CPU", [cost.cpu_s for cost in costs], "s")
    section.add("CPU of the job's ffmpegs", [job.ffmpeg_cpu_s for job in jobs], "s")
    section.add("CPU of its worker", [job.worker_cpu_s for job in jobs], "s")
    section.add("CPU of the supervisor", [job.supervisor_cpu_s for job in jobs], "s")
    section.add("`tqstudio process`, from its queueing to its summary", [job.command_s for job in jobs], "s")
    for step in jobs[0].steps:
        section.add(f"step {step} of the job", [job.steps.get(step, 0.0) for job in jobs], "s")
    return section


def run_job(running: Studio, clip: Path, output: Path, *chosen: str) -> _Job:
    """Run a job through the product, as a user does."""
    worker = running.worker_pid()
    before = cpu_s(running.pid), cpu_s(worker)
    printed = running.run("process", "-i", str(clip), "-o", str(output), *chosen, "--json")
    after = cpu_s(running.pid), cpu_s(worker)
    summary = json.loads(printed.splitlines()[-1])["summary"]
    if summary["done"] != 1:
        raise RuntimeError(f"the job is not done: {printed}")
    line = running.line()
    newest = line.get("/v1/jobs?sort=newest&limit=1")["jobs"][0]["id"]
    job = line.get(f"/v1/jobs/{newest}")
    line.close()
    wall_s = (_time(job["completed_at"]) - _time(job["created_at"])).total_seconds()
    # What the supervisor's children used belongs to it: it starts none for a job but the worker.
    supervisor = sum(after[0]) - sum(before[0])
    own, encoders = (after[1][part] - before[1][part] for part in (0, 1))
    return _Job(
        Cost(wall_s, supervisor + own + encoders),
        encoders,
        own,
        supervisor,
        summary["seconds"],
        job["attempts_log"][-1]["steps"],
    )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _by_hand(root: Path, commands: list[list[str]], rungs: list[Rung], nice: int, costs: list[Cost]) -> Path:
    """Run commands in an empty directory, add what they cost; answers the directory."""
    directory = root / "by-hand"
    shutil.rmtree(directory, ignore_errors=True)
    for name in (*(rung.name for rung in rungs), "audio"):
        (directory / name).mkdir(parents=True)
    costs.append(run(commands, directory, nice))
    return directory


def _command(
    program: str, clip: Path, profile: profiles.Profile, rungs: list[Rung], *, with_sound: bool
) -> list[str]:
    """What a user would write who knows ffmpeg: decode once, split, scale, encode, cut."""
    gop = profile.gop_s * _FPS
    branches = [*(f"[s{number}]" for number in range(len(rungs))), *(["[p]"] if with_sound else [])]
    graph = f"[0:v]split={len(branches)}{''.join(branches)}"
    for number, rung in enumerate(rungs):
        graph += (
            f";[s{number}]scale={rung.width}:{rung.height},setsar=1,format={profile.pixel_format}[o{number}]"
        )
    if with_sound:
        graph += f";[p]select='eq(n,{_POSTER_FRAME})',scale=-2:{profile.poster_height}[poster]"
    command = [
        *(program, "-hide_banner", "-nostdin", "-nostats", "-loglevel", "warning", "-y", "-i", str(clip)),
        *("-filter_complex", graph),
    ]
    for number, rung in enumerate(rungs):
        command += [
            # Without it ffmpeg repeats the last frame of some clips, and the ladders are not the same.
            *("-map", f"[o{number}]", "-fps_mode", "passthrough"),
            *("-c:v", "libx264", "-preset", profile.preset, "-crf", str(profile.crf)),
            *("-profile:v", profile.video_profile, "-maxrate", f"{rung.maxrate_kbps}k"),
            *("-bufsize", f"{round(rung.maxrate_kbps * profile.bufsize_factor)}k"),
            *("-g", str(gop), "-keyint_min", str(gop), "-sc_threshold", "0", "-flags", "+cgop"),
            *_hls(rung.name, profile.segment_s),
        ]
    if with_sound:
        command += [
            *("-map", "0:a:0", "-c:a", profile.audio_codec, "-b:a", f"{profile.audio_bitrate_kbps}k"),
            *("-ac", str(profile.audio_channels), "-ar", str(profile.audio_sample_rate)),
            *_hls("audio", profile.segment_s),
            *("-map", "[poster]", "-frames:v", "1", "-q:v", "3", "-update", "1", "poster.jpg"),
        ]
    return command


def _hls(directory: str, segment_s: int) -> list[str]:
    return [
        *("-f", "hls", "-hls_time", str(segment_s), "-hls_playlist_type", "vod", "-hls_segment_type", "fmp4"),
        *("-hls_flags", "independent_segments", "-hls_segment_filename", f"{directory}/seg_%05d.m4s"),
        f"{directory}/index.m3u8",
    ]


def _require_equal(published: Sequence[Path], by_hand: Path) -> None:
    """The two ladders must have the same frames in as many segments, or they cannot be compared.

    Raises:
        RuntimeError: they differ.
    """
    if not published:
        raise RuntimeError("the job published no ladder")
    for rendition in published:
        ours, theirs = _frames(rendition), _frames(by_hand / rendition.name)
        if ours != theirs:
            raise RuntimeError(f"{rendition.name}: {ours} (segments, frames), by hand {theirs}")


def _frames(rendition: Path) -> tuple[int, int]:
    segments = len(list(rendition.glob("seg_*.m4s")))
    with av.open(str(rendition / "index.m3u8")) as container:
        return segments, sum(1 for packet in container.demux(video=0) if packet.size)

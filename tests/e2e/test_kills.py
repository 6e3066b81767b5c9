"""Processes die by SIGKILL in the middle of their work; nothing is lost and no process is left behind."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness import lives, until_ended
from tqstudio.engine.host import memory
from tqstudio.engine.worker.job.limits import memory_limit
from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeClip, MakeStudio
from .ladder import check_ladder
from .studio import PROFILE, Studio, audio_runs, mark, marks, published_marks, video_runs

RUNGS = ("180p", "120p", "90p")


@pytest.fixture
def long(clip: MakeClip, copy) -> Path:
    return copy(clip(seconds=12), "long.mp4")


def _kill_worker(studio: Studio) -> int:
    """End the worker as a crash would; its pid is the one the status names."""
    pid = int(studio.worker()["pid"])
    os.kill(pid, signal.SIGKILL)
    return pid


def _video_segments(studio: Studio, job: int) -> set[tuple[int, int]]:
    stored = studio.stored_segments(studio.job(job)["video"])
    return {mark(path) for path in stored if "audio" not in str(path)}


def _least_encoded_s(studio: Studio, job: int) -> float:
    """Seconds of media that are encoded, of the quality that has least."""
    now = studio.job(job)
    length = now["source"]["duration_s"] or 0.0
    made = [row["progress"] / 100 * length for row in now["renditions"] if row["status"] == "in_progress"]
    return min(made, default=0.0)


def _segments_reported(studio: Studio, job: int) -> int:
    return sum(rendition["segments_done"] for rendition in studio.job(job)["renditions"])


def _whole(job: Any) -> None:
    master = Path(job["video_view"]["generation"]["master"])
    check_ladder(master, frames=300, fps=Fraction(25), names=RUNGS)


@pytest.mark.slow
@pytest.mark.fault(
    "A worker is killed", "A new worker resumes the job at the last finished fragment", area="resume"
)
def test_a_killed_worker_is_replaced_and_its_job_resumes(make_studio: MakeStudio, long: Path) -> None:
    studio = make_studio().up()
    watch = studio.watch(studio.last_seq())
    with studio.paced(2):
        job = studio.add(long)
        encoders = studio.running(job)
        tmpdir = f"TMPDIR={studio.home.tmpdir('cpu-0')}".encode()
        for pid in encoders:
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            assert tmpdir in environment
            assert not [entry for entry in environment if entry.startswith(b"TQSTUDIO_")]
            assert resource.prlimit(pid, resource.RLIMIT_DATA)[1] == memory_limit(memory.total())
        killed = _kill_worker(studio)
        until_ended(encoders)
        before = _video_segments(studio, job)
        lost = watch.wait_for("the loss", lambda e: e.name == "event" and e.data["trigger"] == "worker_lost")
        assert (lost.data["job"], lost.data["source"], lost.data["target"]) == (job, "in_progress", "pending")
        assert lost.data["code"] == "WORKER_LOST"
        assert "SIGKILL" in lost.data["detail"]
        again = studio.running(job)
        assert studio.worker()["pid"] != killed
        assert not set(again) & set(encoders)
    done = studio.done(job)
    assert (done["crashes"], done["attempts"]) == (1, 0)
    assert [attempt["outcome"] for attempt in done["attempts_log"]] == ["lost", "done"]
    assert before
    assert before <= published_marks(done), "no finished segment was replaced"
    first, second = done["attempts_log"]
    assert (first["resumed_from"], second["resumed_from"]) == (0, len(before) // len(RUNGS))
    assert done["error"] is None
    _whole(done)
    assert not list(studio.out.glob(".tqstudio/*/scratch/*")), "what the killed worker left is gone"
    until(lambda: not [pid for pid in encoders if psutil.pid_exists(pid)], "the dead were collected")


@pytest.mark.slow
@pytest.mark.fault(
    "A worker is killed after the encode", "The result is adopted without an ffmpeg run", area="resume"
)
def test_killed_behind_the_encode_no_video_is_encoded_again(make_studio: MakeStudio, long: Path) -> None:
    """The supervisor is held still, so the worker cannot report its result before it is killed."""
    studio = make_studio().up()
    supervisor = psutil.Process(studio.status()["supervisor"]["pid"])
    with studio.paced(6):
        job = studio.add(long)
        encoders = studio.running(job)
        worker, video = int(studio.worker()["pid"]), studio.job(job)["video"]
    supervisor.suspend()
    try:
        until_ended(encoders)
        proofs = f".tqstudio/*/segments/{video}/*/*/complete.json"
        until(lambda: len(list(studio.out.glob(proofs))) == 4, "three qualities and the sound are whole")
        running_jobs = f".tqstudio/*/segments/{video}/storyboard-*/storyboard.vtt"
        until(lambda: list(studio.out.glob(running_jobs)), "the storyboard is made")
        before = marks(studio.stored_segments(video))
        os.kill(worker, signal.SIGKILL)
    finally:
        supervisor.resume()
    done = studio.done(job)
    first, second = done["attempts_log"]
    assert (first["outcome"], second["outcome"]) == ("lost", "done")
    assert len(video_runs(first)) == 1
    assert second["argv"] == [], "nothing was left to encode"
    assert (done["crashes"], done["attempts"]) == (1, 0)
    assert published_marks(done) - published_marks(done, "audio-*") == before
    assert Path(done["video_view"]["generation"]["poster"]).is_file()
    _whole(done)


@pytest.mark.slow
@pytest.mark.fault(
    "Workers die again and again while the job advances",
    "Each finished segment or fragment resets the count of crashes; the job ends",
    area="resume",
)
@pytest.mark.parametrize(
    ("segment_s", "max_crashes", "crashes"), [(2, 2, 1), pytest.param(20, 3, 2, marks=pytest.mark.more)]
)
def test_a_job_that_gets_further_outlives_any_number_of_workers(
    make_studio: MakeStudio, clip: MakeClip, copy, segment_s: int, max_crashes: int, crashes: int
) -> None:
    """It makes some GOPs between two deaths: a segment, or a part of one, which the next attempt finds."""
    studio = make_studio(max_crashes=max_crashes).up()
    studio.write_profile("tiny", PROFILE.replace("segment_s = 2", f"segment_s = {segment_s}"))
    segments = []
    with studio.paced(2):
        job, before = studio.add(copy(clip(seconds=40), "longer.mp4")), 0.0
        for kills in range(3):
            until(lambda s=before + 2.5: _least_encoded_s(studio, job) > s, "some GOPs more are made")
            encoders, before = studio.running(job, segments=0), _least_encoded_s(studio, job)
            _kill_worker(studio)
            until_ended(encoders)
            until(lambda n=kills: len(studio.job(job)["attempts_log"]) == n + 2, "it resumes")
            segments.append(_segments_reported(studio, job))
    done = studio.done(job)
    assert [attempt["outcome"] for attempt in done["attempts_log"]] == ["lost"] * 3 + ["done"]
    assert done["crashes"] == crashes, "in a row"
    assert done["attempts"] == 0
    resumed_at = [attempt["resumed_at_s"] for attempt in done["attempts_log"]]
    assert sorted(set(resumed_at)) == resumed_at, "each resumes behind the one before"
    assert (max(segments) == 0) == (segment_s == 20)


@pytest.mark.slow
@pytest.mark.fault(
    "A job kills its workers without progress",
    "`REPEATED_CRASHES` at the third in a row; the next job runs",
    area="resume",
)
def test_a_job_that_kills_its_workers_is_poison(
    make_studio: MakeStudio, long: Path, clip: MakeClip, copy
) -> None:
    studio = make_studio().up()
    # No segment can be finished between two deaths.
    with studio.paced(0.05):
        job = studio.add(long)
        for _ in range(3):
            encoders = studio.running(job)
            _kill_worker(studio)
            until_ended(encoders)
            until(
                lambda: studio.worker()["pid"] is None or studio.job(job)["status"] != "in_progress", "seen"
            )
        failed = studio.wait(job, "failed")
    assert failed["crashes"] == 3
    assert failed["attempts"] == 0
    assert failed["error"]["code"] == "REPEATED_CRASHES"
    assert failed["error"]["exhausted"]
    assert failed["error"]["hint"]
    assert [event["code"] for event in failed["events"] if event["target"] == "failed"] == [
        "REPEATED_CRASHES"
    ]
    # The next job has a worker again, and a user may let the poisoned one go again.
    studio.done(studio.add(copy(clip(), "innocent.mp4")))
    studio.do("retry", job)
    done = studio.done(job)
    assert (done["crashes"], done["attempts"]) == (0, 0)


@pytest.mark.slow
@pytest.mark.fault(
    "The supervisor is killed",
    "Its workers and ffmpegs die with it; the next supervisor resumes at the fragment",
    area="resume",
)
def test_a_killed_supervisor_leaves_no_process_and_the_next_resumes(
    make_studio: MakeStudio, long: Path, clip: MakeClip, copy
) -> None:
    studio = make_studio().up()
    finished = studio.add(copy(clip(channels=0), "finished.mp4"))
    studio.done(finished)
    held = studio.add(copy(clip(fps="24"), "held.mp4"), hold=True)
    with studio.paced(2):
        job = studio.add(long)
        encoders = studio.running(job)
        worker = int(studio.worker()["pid"])
        video_encoder = next(pid for pid in encoders if "libx264" in psutil.Process(pid).cmdline())
        os.kill(video_encoder, signal.SIGSTOP)
        until(
            lambda: list(studio.out.glob(".tqstudio/*/segments/*/audio-und/*/complete.json")),
            "the sound is whole",
        )
        video = studio.job(job)["video"]
        studio.client.send(calls.pause_queue("to look at what the next one finds"))
        studio.kill()
        until_ended([worker, *encoders])
        studio.until_gone()
    before = marks(studio.stored_segments(video))
    assert before

    assert list(studio.out.glob(".tqstudio/*/scratch/*"))
    studio.up()
    until(lambda: not list(studio.out.glob(".tqstudio/*/scratch/*")), "what the dead left is removed")
    assert not list(studio.home.logs.glob("jobs/*/*.runs"))
    waiting = studio.job(job)
    assert (waiting["status"], waiting["step"], waiting["worker"]) == ("pending", None, None)
    assert {row["status"] for row in waiting["renditions"]} == {"pending", "skipped"}
    studio.client.send(calls.resume_queue())
    done = studio.done(job)
    assert (done["attempts"], done["crashes"]) == (0, 0), "it was no one's fault"
    assert [attempt["outcome"] for attempt in done["attempts_log"]] == ["lost", "done"]
    assert audio_runs(done["attempts_log"][1]) == [], "the finished sound was not made again"
    assert before <= published_marks(done)
    assert "requeued:supervisor" in [event["trigger"] for event in done["events"]]
    assert studio.job(finished)["status"] == "done"
    assert len(studio.job(finished)["attempts_log"]) == 1
    assert studio.job(held)["status"] == "paused"
    _whole(done)


@pytest.fixture
def with_a_script(make_studio: MakeStudio) -> Studio:
    """The script that stands for ffmpeg starts it as a child, which does not die with the worker."""
    studio = make_studio()
    script = studio.root / "ffmpeg"
    script.write_text(script.read_text().replace("exec ", "", 1) + "exit $?\n")
    return studio.up()


@pytest.mark.slow
@pytest.mark.fault("ffmpegs outlive a killed supervisor", "The next one ends them", area="supervisor")
def test_ffmpegs_that_outlive_a_killed_supervisor_are_ended_by_the_next(
    with_a_script: Studio, long: Path, make_studio: MakeStudio
) -> None:
    studio = with_a_script
    neighbour = make_studio().up()
    with studio.paced(1):
        job = studio.add(long)
        encoders = studio.running(job)
        worker = int(studio.worker()["pid"])
        # Stopped, so that they do not end by themselves.
        for pid in encoders:
            os.kill(pid, signal.SIGSTOP)
        mine = subprocess.Popen([shutil.which("sleep") or "sleep", "600"], env=dict(studio.environment))
        try:
            studio.kill()
            until_ended([worker])
            assert [pid for pid in encoders if lives(pid)], "they outlived it"
            studio.up()
            until_ended(encoders)
            assert lives(mine.pid), "what a user runs in this home is left alone"
        finally:
            mine.kill()
            mine.wait()
    assert (studio.done(job)["crashes"], studio.job(job)["attempts"]) == (0, 0)
    assert "ended processes of an earlier supervisor" in studio.home.supervisor_log.read_text()
    assert lives(neighbour.worker()["pid"])


@pytest.mark.slow
def test_ffmpegs_that_outlive_a_killed_worker_are_ended_at_once(with_a_script: Studio, long: Path) -> None:
    studio = with_a_script
    with studio.paced(1):
        job = studio.add(long)
        encoders = studio.running(job)
        _kill_worker(studio)
        until_ended(encoders)
    done = studio.done(job)
    assert done["crashes"] == 1
    _whole(done)

"""One video on several workers: idle ones encode ranges of it. Whoever dies, no finished segment is lost."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tqstudio.protocol import calls
from waiting import until
from wings.remote.test_studio import Far

from .conftest import MakeClip, MakeStudio
from .ladder import check_ladder
from .studio import Studio, mark, published_marks

RUNGS = ("180p", "120p", "90p")
SECONDS = 40
Copy = Callable[..., Path]


@pytest.fixture
def studio(make_studio: MakeStudio) -> Studio:
    return make_studio(workers=2).up()


def check(job: Any) -> None:
    master = Path(job["video_view"]["generation"]["master"])
    check_ladder(master, frames=25 * SECONDS, fps=Fraction(25), names=RUNGS)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def ranges_of(studio: Studio, job: int) -> list[Any]:
    division = studio.job(job)["division"]
    return [] if division is None else list(division["ranges"])


def until_helped(studio: Studio, job: int, done: int = 1) -> Any:
    """Wait until another worker has finished so many segments of a range; returns it."""

    def found() -> Any:
        return next((each for each in ranges_of(studio, job) if each["done"] >= done), None)

    return until(found, "another worker makes a range")


def stored(studio: Studio, job: int) -> dict[str, int]:
    """The stored segments of video of a job."""
    paths = studio.stored_segments(studio.job(job)["video"])
    video = [path for path in paths if path.name.startswith("seg_") and "audio" not in str(path)]
    return {f"{path.parts[-3]}/{path.name}": mark(path) for path in video}


def is_published(job: Any, kept: dict[str, int]) -> None:
    """Check that the very files that were stored are published: none was made again."""
    assert {*kept.values()} <= published_marks(job)


@pytest.mark.slow
def test_idle_workers_help_and_one_that_is_killed_loses_nothing(
    studio: Studio, clip: MakeClip, copy: Copy
) -> None:
    with studio.paced(2):
        job = studio.add(copy(clip(seconds=SECONDS), "film.mp4"))
        helped = until_helped(studio, job)
        assert helped["end"] < SECONDS // 2, "the last segment is made by the job's own worker"
        row = studio.job(job)
        assert helped["worker"] != row["worker"]
        kept = stored(studio, job)
        assert f"180p/seg_{helped['first']:05}.m4s" in kept
        os.kill(int(studio.worker(helped["worker"])["pid"]), signal.SIGKILL)
        until(lambda: len(stored(studio, job)) > len(kept) + 3)
    ended = studio.done(job)
    check(ended)
    is_published(ended, kept)
    assert [attempt["worker"] for attempt in ended["attempts_log"]] == [row["worker"]]
    assert not studio.stored_segments(ended["video"])
    assert not list(studio.out.glob(".tqstudio/*/scratch/*"))


@pytest.mark.more
def test_one_that_is_killed_at_once_stops_no_other(studio: Studio, clip: MakeClip, copy: Copy) -> None:
    """Its range goes to another one, which starts with the same segment."""
    with studio.paced(0.5):
        job = studio.add(copy(clip(seconds=SECONDS), "film.mp4"))
        killed = until_helped(studio, job, done=0)
        until(lambda: studio.encoders(killed["worker"]), "its ffmpeg runs")
        os.kill(int(studio.worker(killed["worker"])["pid"]), signal.SIGKILL)
        until(lambda: killed not in ranges_of(studio, job), "its range has ended")
        until_helped(studio, job)
    studio.do("cancel", job)
    until(lambda: studio.job(job)["status"] == "cancelled")
    until(lambda: not list(studio.out.glob(".tqstudio/*/scratch/*")), "no scratch directory is left")
    assert not list(studio.home.job_logs(job).glob("*.runs"))


@pytest.mark.slow
@pytest.mark.parametrize("victim", [pytest.param("worker", marks=pytest.mark.more), "supervisor"])
def test_what_all_have_made_outlives_a_kill(studio: Studio, clip: MakeClip, copy: Copy, victim: str) -> None:
    with studio.paced(2):
        job = studio.add(copy(clip(seconds=SECONDS), "film.mp4"))
        until_helped(studio, job, done=2)
        kept = stored(studio, job)
        if victim == "worker":
            os.kill(int(studio.worker(studio.job(job)["worker"])["pid"]), signal.SIGKILL)
            until(lambda: studio.job(job)["crashes"] == 1)
        else:
            os.kill(studio.status()["supervisor"]["pid"], signal.SIGKILL)
            studio.died()
            studio.up()
    ended = studio.done(job)
    check(ended)
    is_published(ended, kept)


@pytest.mark.more
@pytest.mark.parametrize("operation", ["pause", "cancel"])
def test_an_operation_reaches_all_workers_of_a_job(
    studio: Studio, clip: MakeClip, copy: Copy, operation: str
) -> None:
    with studio.paced(2):
        job = studio.add(copy(clip(seconds=SECONDS), "film.mp4"))
        until_helped(studio, job)
        studio.do(operation, job)
        until(lambda: not studio.encoders("cpu-0") and not studio.encoders("cpu-1"), "no ffmpeg runs")
        assert ranges_of(studio, job) == []
    if operation == "pause":
        kept = stored(studio, job)
        studio.do("resume", job)
        ended = studio.done(job)
        check(ended)
        is_published(ended, kept)


@pytest.mark.more
def test_a_killed_supervisor_costs_a_worker_of_another_machine_nothing(
    make_studio: MakeStudio, clip: MakeClip, copy: Copy, tmp_path: Path
) -> None:
    """It has the job, and learns from the store what the workers beside the studio have made of it."""
    studio = make_studio(listen=f"127.0.0.1:{free_port()}", reconnect_s=20).up()
    far = Far(studio, tmp_path / "far")
    studio.client.send(calls.worker_action("cpu-0", "disable"))
    far.start()
    try:
        with studio.paced(1):
            job = studio.add(copy(clip(seconds=SECONDS), "film.mp4"))
            studio.running(job)
            studio.client.send(calls.worker_action("cpu-0", "enable"))
            until_helped(studio, job, done=2)
            kept = stored(studio, job)
            os.kill(studio.status()["supervisor"]["pid"], signal.SIGKILL)
            studio.died()
            studio.up()
        ended = studio.done(job)
        check(ended)
        assert len(ended["attempts_log"]) == 1
        is_published(ended, kept)
    finally:
        said = far.end()
    assert "Traceback" not in said


@pytest.mark.more
@pytest.mark.parametrize("owner", ["local", "remote"])
def test_another_machine_takes_part(
    make_studio: MakeStudio, clip: MakeClip, copy: Copy, tmp_path: Path, owner: str
) -> None:
    """It has the job, or makes ranges of it; in both cases it shares no file."""
    studio = make_studio(listen="127.0.0.1:0").up()
    far = Far(studio, tmp_path / "far")
    first, second = ("cpu-0", far.name) if owner == "local" else (far.name, "cpu-0")
    studio.client.send(calls.worker_action("cpu-0", "disable"))
    far.start()
    until(lambda: studio.worker(far.name)["status"] == "idle")
    try:
        studio.client.send(calls.worker_action(second, "disable"))
        studio.client.send(calls.worker_action(first, "enable"))
        with studio.paced(2):
            job = studio.add(copy(clip(seconds=SECONDS), "film.mp4"))
            studio.running(job)
            studio.client.send(calls.worker_action(second, "enable"))
            helped = until_helped(studio, job)
            assert (studio.job(job)["worker"], helped["worker"]) == (first, second)
            name = f"180p/seg_{helped['first']:05}.m4s"
            until(lambda: name in stored(studio, job), "it has arrived")
        ended = studio.done(job)
        check(ended)
        [attempt] = ended["attempts_log"]
        begun = [argv[argv.index("-start_number") + 1] for argv in attempt["argv"] if "libx264" in argv]
        assert attempt["worker"] == first
        assert len(begun) > 1, "its own worker has skipped what the other one made"
        assert not studio.stored_segments(ended["video"])
    finally:
        said = far.end()
    assert "Traceback" not in said

"""Several workers, several jobs, and workers that die among them: every job ends once, and whole."""

from __future__ import annotations

import os
import signal
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeClip, MakeStudio
from .ladder import check_ladder
from .studio import Studio
from .test_event_log import rebuilt


@pytest.mark.slow
def test_every_job_is_made_once_whatever_dies(make_studio: MakeStudio, clip: MakeClip, copy) -> None:
    studio = make_studio(workers=3).up()
    names = ("cpu-0", "cpu-1", "cpu-2")
    sources = [copy(clip(seconds=6), f"clip-{n}.mp4") for n in range(6)]
    with studio.paced(2):
        jobs = [result["job"] for result in studio.offer(*sources)]
        until(lambda: all(studio.worker(name)["job"] for name in names), "all workers are busy")
        held = [studio.worker(name)["job"] for name in names]
        assert len(set(held)) == 3, "one job each"
        assert studio.status()["jobs"]["in_progress"] == 3
        for name in names[:2]:
            os.kill(studio.worker(name)["pid"], signal.SIGKILL)
        until(lambda: sum(studio.job(job)["crashes"] for job in jobs) == 2, "both losses were seen")
    for job in jobs:
        done = studio.done(job)
        assert done["attempts"] == 0
        assert done["crashes"] == (1 if job in held[:2] else 0)
        history = rebuilt(studio.events(job))
        assert Counter(history)["done"] == 1
        master = Path(done["video_view"]["generation"]["master"])
        check_ladder(master, frames=150, fps=Fraction(25), names=("180p", "120p", "90p"))
    assert len({studio.job(job)["video_view"]["slug"] for job in jobs}) == 6


@pytest.mark.more
def test_one_name_from_two_folders_gets_two_ladders(shared: Studio, clip: MakeClip, tmp_path: Path) -> None:
    studio = shared
    jobs = []
    for folder, fps in (("a", "24"), ("b", "25")):
        path = tmp_path / folder / "film.mp4"
        path.parent.mkdir()
        path.write_bytes(clip(fps=fps).read_bytes())
        jobs.append(studio.add(path))
    done = [studio.done(job) for job in jobs]
    masters = {Path(job["video_view"]["generation"]["master"]) for job in done}
    assert len(masters) == 2
    assert all(master.is_file() for master in masters)


@pytest.mark.more
def test_a_file_offered_many_times_has_one_job(shared: Studio, clip: MakeClip, copy) -> None:
    studio = shared
    source = copy(clip(), "once.mp4")
    with studio.paced(2):
        results = [studio.offer(source)[0] for _ in range(5)]
        assert [result["decision"] for result in results] == ["queued"] + ["waiting"] * 4
        assert len({result["job"] for result in results}) == 1
    studio.done(results[0]["job"])
    assert studio.offer(source)[0]["decision"] == "cached"
    video = studio.job(results[0]["job"])["video"]
    assert studio.client.send(calls.jobs(video=video))["jobs"][0]["id"] == results[0]["job"]
    assert len(studio.client.send(calls.jobs(video=video))["jobs"]) == 1


@pytest.mark.more
def test_a_worker_that_is_drained_ends_its_job_and_takes_no_more(
    shared: Studio, clip: MakeClip, copy
) -> None:
    studio = shared
    with studio.paced(1):
        first = studio.add(copy(clip(seconds=20), "first.mp4"))
        studio.running(first)
        assert studio("worker", "drain", "cpu-0").code == 0
        assert studio.worker()["status"] == "draining"
        second = studio.add(copy(clip(), "second.mp4"))
    studio.done(first)
    until(lambda: studio.worker()["job"] is None, "it is free")
    assert studio.job(second)["status"] == "pending"
    assert studio.job(second)["attempts_log"] == []
    assert studio("worker", "enable", "cpu-0").code == 0
    studio.done(second)

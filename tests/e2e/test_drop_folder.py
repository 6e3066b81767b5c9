"""Files in a drop folder that change, go, come back and are renamed, as people and programs do that."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tqstudio.paths import encode
from tqstudio.protocol import calls
from tqstudio.protocol.client import Client
from waiting import until

from .conftest import MakeClip, MakeStudio
from .ladder import check_ladder
from .studio import Studio


class Drop:
    """A drop folder of a running studio."""

    def __init__(self, studio: Studio, path: Path, **rules: Any) -> None:
        self.studio, self.path = studio, path
        path.mkdir(exist_ok=True)
        rules = {"output_b64": encode(studio.out), "settle_s": 0.2, "profile": "tiny"} | rules
        self.id = studio.client.send(calls.add_folder(encode(path), **rules))["id"]

    def put(self, source: Path, name: str) -> Path:
        """A copy that is renamed into place."""
        part = self.path / f".{name}.part"
        shutil.copyfile(source, part)
        return part.rename(self.path / name)

    def jobs(self) -> list[Any]:
        return sorted(
            self.studio.client.send(calls.jobs(limit=500))["jobs"],  # type: ignore[arg-type]
            key=lambda job: job["id"],
        )

    def job(self, number: int = 0) -> int:
        """The id of the job that was made as this one, waiting for it."""
        until(lambda: len(self.jobs()) > number, f"job {number} of the folder is made")
        return int(self.jobs()[number]["id"])

    def state(self) -> Any:
        folders = self.studio.client.send(calls.folders())["folders"]
        return next(folder for folder in folders if folder["id"] == self.id)


@pytest.fixture
def drop(make_studio: MakeStudio, tmp_path: Path) -> Drop:
    return Drop(make_studio().up(), tmp_path / "in")


def pad(path: Path, size: int = 12_000_000) -> int:
    """Put a box that players skip behind a clip; answers a place in it that no sample covers."""
    begins = path.stat().st_size
    with path.open("ab") as file:
        file.write(size.to_bytes(4, "big") + b"free" + bytes(size - 8))
    return begins + 2_000_000


@pytest.mark.slow
def test_a_change_between_the_samples_is_seen(drop: Drop, clip: MakeClip, copy) -> None:
    source = copy(clip(), "a.mp4")
    place = pad(source)
    path = drop.put(source, "a.mp4")
    first = drop.studio.done(drop.job())
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"x" * 350)
    second = drop.studio.done(drop.job(1))
    numbers = [detail["video_view"]["generation"]["number"] for detail in (first, second)]
    assert (numbers, second["kind"], second["owner"]) == ([1, 2], "changed", "folder")
    assert {change["what"] for change in second["changes"]} == {"modified", "content"}
    of_origin = calls.jobs("kind:changed owner:folder")
    assert [row["id"] for row in Client(drop.studio.home.socket).send(of_origin)["jobs"]] == [second["id"]]
    assert drop.studio.offer(path)[0]["decision"] == "cached"

    os.utime(path)
    settled = "decision=cached"
    until(lambda: settled in drop.studio.home.supervisor_log.read_text(), "another time, the same bytes")
    assert len(drop.jobs()) == 2
    assert drop.state()["checking"] == 0


@pytest.mark.more
def test_a_done_source_is_moved_and_its_copy_skipped(
    make_studio: MakeStudio, tmp_path: Path, clip: MakeClip, copy
) -> None:
    done = tmp_path / "done"
    done.mkdir()
    rules = {"duplicates": "skip", "after_done": "move", "done_dir_b64": encode(done)}
    drop = Drop(make_studio().up(), tmp_path / "in", **rules)
    source = copy(clip(), "a.mp4")
    place = pad(source)
    path = drop.put(source, "a.mp4")
    job = drop.job()
    drop.studio.done(job)
    until(lambda: drop.studio.events(job)[-1]["trigger"] == "source_moved", "the source is moved")
    assert not path.exists()
    assert (done / "a.mp4").read_bytes() == source.read_bytes()
    master = Path(drop.studio.video_of(job)["generation"]["master"])
    check_ladder(master, frames=100, fps=Fraction(25), names=("180p", "120p", "90p"))

    drop.put(source, "copy.mp4")
    [skipped] = until(lambda: drop.state()["skipped"], "the copy is read and skipped")
    assert (skipped["name"], skipped["code"]) == ("copy.mp4", "DUPLICATE")
    assert "done/a.mp4" in skipped["reason"]
    with source.open("r+b") as file:
        file.seek(place)
        file.write(b"x" * 350)
    drop.put(source, "other.mp4")
    assert drop.studio.job(drop.job(1))["name"] == "other.mp4"


@contextmanager
def held(studio: Studio) -> Iterator[None]:
    """No job begins in here."""
    studio.client.send(calls.pause_queue())
    yield
    studio.client.send(calls.resume_queue())


def _rsync(source: Path, target: Path) -> None:
    """As `rsync -a` does: under a hidden name, with the times of the source, and then renamed."""
    hidden = target.with_name(f".{target.name}.Xa81bQ")
    subprocess.run(["cp", "-p", source, hidden], check=True)
    hidden.rename(target)


BACK = {
    "mv": lambda source, target: subprocess.run(["mv", source, target], check=True),
    "cp -p": lambda source, target: subprocess.run(["cp", "-p", source, target], check=True),
    "cp": lambda source, target: subprocess.run(["cp", source, target], check=True),
    "rsync -a": _rsync,
}


@pytest.mark.more
@pytest.mark.fault(
    "A source is missing when its job starts and returns later",
    "`SOURCE_MISSING`, then requeued when the file is back",
    area="resume",
)
def test_a_file_that_returns_is_made_by_the_job_that_missed_it(
    drop: Drop, clip: MakeClip, tmp_path: Path
) -> None:
    studio, aside = drop.studio, tmp_path / "aside"
    aside.mkdir()
    with held(studio):
        paths = {way: drop.put(clip(seconds=1), f"{way}.mp4") for way in BACK}
        jobs = {way: drop.job(number) for number, way in enumerate(BACK)}
        for path in paths.values():
            path.rename(aside / path.name)
    for job in jobs.values():
        assert studio.wait(job, "failed")["error"]["code"] == "SOURCE_MISSING"
    for way, path in paths.items():
        BACK[way](aside / path.name, path)
    for job in jobs.values():
        until(lambda job=job: studio.job(job)["status"] == "done", f"job {job} is done")  # type: ignore[misc]
    assert len(drop.jobs()) == len(BACK)
    assert drop.state()["skipped"] == []

    # A folder that goes with its files, and comes back while no supervisor runs.
    with held(studio):
        (drop.path / "cam").mkdir()
        shutil.copyfile(clip(seconds=1), drop.path / "cam" / "late.mp4")
        late = drop.job(len(BACK))
        (drop.path / "cam").rename(aside / "cam")
    studio.wait(late, "failed")
    studio.down()
    (aside / "cam").rename(drop.path / "cam")
    studio.up()
    until(lambda: studio.job(late)["status"] == "done", "the last one is done")
    assert len(drop.jobs()) == len(BACK) + 1


@pytest.mark.slow
def test_a_file_that_is_taken_away_while_it_is_made_resumes_when_it_is_back(
    drop: Drop, clip: MakeClip, tmp_path: Path
) -> None:
    studio = drop.studio
    with studio.paced(2):
        path = drop.put(clip(seconds=12), "a.mp4")
        job = drop.job()
        studio.running(job)
        path.rename(tmp_path / "a.mp4")
        assert studio.wait(job, "failed")["error"]["code"] == "SOURCE_MISSING"
        (tmp_path / "a.mp4").rename(path)
    until(lambda: studio.job(job)["status"] == "done", "it is done")
    attempts = studio.job(job)["attempts_log"]
    assert attempts[-1]["resumed_from"], "what was made before is not made again"
    assert len(drop.jobs()) == 1


@pytest.mark.slow
def test_what_failed_otherwise_is_named_with_the_way_to_retry_it(drop: Drop) -> None:
    path = drop.path / "a.mp4"
    path.write_bytes(b"no video")
    job = drop.job()
    drop.studio.wait(job, "failed")
    os.utime(path)

    def named() -> Any:
        return [skipped for skipped in drop.state()["skipped"] if skipped["name"] == "a.mp4"]

    (skipped,) = until(named, "the file is named")
    assert skipped["code"] == "NO_MEDIA"
    assert f"job {job} failed" in skipped["reason"]
    assert f"tqstudio job retry {job}" in skipped["hint"]
    path.write_bytes(b"no video either")
    until(lambda: len(drop.jobs()) == 2, "another file is another job")


def _names(drop: Drop) -> list[str]:
    return [str(job["name"]) for job in drop.jobs()]


@pytest.mark.more
@pytest.mark.fault(
    "A waiting source is renamed within the drop folders", "The job follows the file", area="resume"
)
def test_files_that_are_renamed_while_they_wait_stay_the_same_jobs(
    drop: Drop, clip: MakeClip, tmp_path: Path
) -> None:
    studio = drop.studio
    other = Drop(studio, tmp_path / "other", priority=7)
    with held(studio):
        for number in range(6):
            drop.put(clip(seconds=1), f"cam{number}.mp4")
        until(lambda: len(drop.jobs()) == 6, "all are queued")
        ids = [job["id"] for job in drop.jobs()]
        subprocess.run(["mv", drop.path / "cam0.mp4", drop.path / "Käse.mp4"], check=True)
        (drop.path / "sub").mkdir()
        for number in (1, 2):
            (drop.path / f"cam{number}.mp4").rename(drop.path / "sub" / f"new{number}.mp4")
        (drop.path / "cam3.mp4").rename(other.path / "moved.mp4")
        # To another name and back.
        (drop.path / "cam4.mp4").rename(drop.path / "there.mp4")
        until(lambda: "there.mp4" in _names(drop), "it is followed")
        (drop.path / "there.mp4").rename(drop.path / "cam4.mp4")
        # It stays where it was, under a name that no folder watches.
        os.link(drop.path / "cam5.mp4", tmp_path / "kept.mp4")
        (drop.path / "cam5.mp4").rename(drop.path / "old5.mp4")
        names = ["Käse.mp4", "new1.mp4", "new2.mp4", "moved.mp4", "cam4.mp4", "old5.mp4"]
        until(lambda: _names(drop) == names, "every job has the new name of its file")
        (drop.path / "sub").rename(drop.path / "inner")
        until(lambda: drop.state()["settling"] == 0, "all is looked at")
        assert [job["priority"] for job in drop.jobs()] == [0, 0, 0, 7, 0, 0], "as its new folder says"
    for job in ids:
        studio.done(job)
    assert [job["id"] for job in drop.jobs()] == ids
    slugs = {entry.name for entry in studio.out.iterdir() if not entry.name.startswith(".")}
    assert slugs == {"käse", "new1", "new2", "moved", "cam4", "old5"}
    details = [event["detail"] for event in studio.events(ids[0]) if event["trigger"] == "renamed"]
    assert details == [f"{drop.path}/cam0.mp4 is now {drop.path}/Käse.mp4"]


@pytest.mark.more
def test_a_file_that_is_renamed_while_no_supervisor_runs_stays_the_same_job(
    drop: Drop, clip: MakeClip
) -> None:
    studio = drop.studio
    with held(studio):
        path = drop.put(clip(seconds=1), "a.mp4")
        job = drop.job()
        studio.down()
        path.rename(drop.path / "b.mp4")
        studio.up()
    until(lambda: studio.job(job)["status"] == "done", "it is done")
    assert (_names(drop), drop.state()["skipped"]) == (["b.mp4"], [])


@pytest.mark.more
def test_finished_films_follow_their_files_to_other_names_folders_and_roots(
    drop: Drop, clip: MakeClip, tmp_path: Path
) -> None:
    studio = drop.studio
    drop.put(clip(seconds=1), "a.mp4")
    (drop.path / "show").mkdir()
    shutil.copyfile(clip(seconds=2), drop.path / "show" / "b.mp4")
    ids = [studio.done(drop.job(number))["id"] for number in (0, 1)]
    (drop.path / "a.mp4").rename(drop.path / "c.mp4")
    until(lambda: _names(drop)[0] == "c.mp4", "it is followed")
    studio.down()
    (drop.path / "show").rename(drop.path / "other")
    (drop.path / "c.mp4").rename(drop.path / "d.mp4")
    studio.up()
    until(lambda: _names(drop)[0] == "d.mp4", "it is followed")
    drop.path.rename(tmp_path / "films")
    moved = Drop(studio, tmp_path / "films", duplicates="skip")
    videos = [studio.job(job)["video"] for job in ids]

    def sources() -> list[str]:
        return [studio.client.send(calls.video(video))["path"] for video in videos]

    until(lambda: sources() == [f"{moved.path}/d.mp4", f"{moved.path}/other/b.mp4"], "all are followed")
    assert moved.state()["skipped"] == []
    assert [job["id"] for job in drop.jobs()] == ids, "nothing is encoded again"
    assert {path.name for path in studio.out.iterdir() if not path.name.startswith(".")} == {"a", "b"}


@pytest.mark.slow
@pytest.mark.fault(
    "One of two hard-linked names of a source is removed while its job waits",
    "The other name carries the job",
    area="resume",
)
def test_two_names_of_one_file_are_one_job_that_the_other_name_carries(drop: Drop, clip: MakeClip) -> None:
    studio = drop.studio
    with held(studio):
        path = drop.put(clip(seconds=1), "a.mp4")
        job = drop.job()
        os.link(path, drop.path / "b.mp4")
        drop.put(clip(seconds=2), "c.mp4")
        until(lambda: len(drop.jobs()) == 2, "the next file is queued")
        assert _names(drop) == ["a.mp4", "c.mp4"]
        path.unlink()
        until(lambda: _names(drop) == ["b.mp4", "c.mp4"], "the other name carries it")
    studio.done(job)
    studio.done(drop.job(1))
    assert len(drop.jobs()) == 2


@pytest.mark.slow
@pytest.mark.fault(
    "A source is renamed while it is encoded",
    "The job follows the file and resumes; nothing is counted",
    area="resume",
)
def test_a_file_that_is_renamed_while_it_is_made_is_resumed(drop: Drop, clip: MakeClip) -> None:
    studio = drop.studio
    with studio.paced(2):
        path = drop.put(clip(seconds=12), "a.mp4")
        job = drop.job()
        studio.running(job)
        path.rename(drop.path / "b.mp4")
        until(lambda: studio.job(job)["attempts_log"][0]["ended_at"], "the worker misses it")
    until(lambda: studio.job(job)["status"] == "done", "it is done")
    detail = studio.job(job)
    assert detail["attempts"] == 0, "that is no failure"
    assert detail["attempts_log"][-1]["resumed_from"], "what was made before is not made again"
    assert (_names(drop), len(drop.jobs())) == (["b.mp4"], 1)


@pytest.mark.slow
@pytest.mark.fault(
    "The supervisor is killed while thousands of files are queued",
    "Each gets one job",
    area="database",
)
def test_a_burst_gets_one_job_for_each_file_although_the_supervisor_is_killed(
    drop: Drop, tmp_path: Path
) -> None:
    studio = drop.studio
    studio.client.send(calls.pause_queue("to look at the jobs"))
    names = [f"{number:04d}.mp4" for number in range(2000)]
    for name in names:
        (tmp_path / name).write_text(name)
    for name in names:
        (tmp_path / name).rename(drop.path / name)
    seen = []
    for enough in (1, 700):
        seen.append(until(lambda least=enough: _count(studio, least), "some are queued"))
        studio.kill()
        studio.until_gone()
        studio.up()
    assert seen[0] < len(names), "it was killed in between"
    until(lambda: _count(studio, len(names)), "all are queued")
    with contextlib.closing(sqlite3.connect(studio.home.database)) as db:
        sources = [row[0] for row in db.execute("SELECT source FROM job JOIN video ON video.id = video_id")]
    assert sorted(sources) == [os.fsencode(drop.path / name) for name in names]
    assert drop.state()["skipped"] == []


def _count(studio: Studio, least: int) -> int:
    """The number of jobs, if it is at least this; else 0."""
    found = sum(studio.status()["jobs"].values())
    return found if found >= least else 0

"""Sources are moved or deleted once their ladder is published: by whom, when, and killed at any step.

The test plays the worker, so that nothing is encoded; supervisors, their database and the files are real.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from engine.test_completion import bench_of
from harness import LiveSupervisor, MakeSupervisor
from tqstudio import paths
from tqstudio.engine.host.failpoints import VARIABLE
from tqstudio.protocol import calls
from waiting import WAIT_S, until

CONTENT = b"not much of a film" * 1000
NAME = "show/caf\udce9 1.mp4"


class House:
    """A drop folder, its output, a folder for what is done, and the lives of their supervisor."""

    def __init__(self, root: Path, done: Path, make: MakeSupervisor) -> None:
        self.root, self._make = root, make
        self.drop, self.out, self.done = root / "drop", root / "out", done
        self.drop.mkdir()

    def start(self, point: str = "") -> None:
        self.live: LiveSupervisor = self._make(self.root / "home", **{VARIABLE: point}).start()
        self.live.send(calls.worker_action("cpu-0", "disable"))

    def watch(self, after_done: str, **more: Any) -> dict[str, Any]:
        if after_done == "move":
            more["done_dir_b64"] = paths.encode(self.done)
        output = paths.encode(self.out)
        call = calls.add_folder(
            paths.encode(self.drop), output_b64=output, after_done=after_done, settle_s=0, **more
        )
        return dict(self.live.send(call))

    def drops(self, name: str = NAME, content: bytes = CONTENT) -> Path:
        path = self.drop / name
        path.parent.mkdir(exist_ok=True)
        path.with_name("new.part").write_bytes(content)
        path.with_name("new.part").rename(path)
        return path

    def claimed(self) -> tuple[Any, Any]:
        worker = self.live.worker("by-hand").register()
        job = until(worker.claim, "the file is queued")
        return worker, job

    def publish(self, worker: Any, job: Any, touch: Callable[[], None] = lambda: None, **more: Any) -> int:
        """Publish a ladder for the source as it is now; the supervisor may die of what follows.

        Args:
            touch: called after the source was encoded.
        """
        bench = bench_of(job)
        for name in ("360p", "audio-en"):
            bench.rendition(name, f"{name}-of-{job['job']}")
        source = os.stat(paths.decode(job["source"]["path_b64"]))
        identity = {
            "size": source.st_size,
            "mtime_ns": source.st_mtime_ns,
            "inode": source.st_ino,
            "ctime_ns": source.st_ctime_ns,
        }
        token = {"instance": worker.instance, "epoch": job["epoch"]}
        manifest = bench.manifest(source=identity, **more).model_dump()
        full_hash = blake3(
            Path(os.fsdecode(paths.decode(job["source"]["path_b64"]))).read_bytes()
        ).hexdigest()
        touch()
        with contextlib.suppress(OSError, HTTPException):
            answer = worker.post(
                f"jobs/{job['job']}/complete", **token, manifest=manifest, full_hash=full_hash
            )
            assert answer == (200, {"job": job["job"], "status": "done"})
        return int(job["job"])

    def makes(self, **more: Any) -> int:
        return self.publish(*self.claimed(), **more)

    def dies(self) -> None:
        assert self.live.process.wait(WAIT_S) == -signal.SIGKILL

    def events(self, job: int) -> list[str]:
        return [event["trigger"] for event in self.show(job)["events"]]

    def show(self, job: int) -> Any:
        return self.live.send(calls.job(job))

    def until_event(self, job: int, kind: str) -> None:
        until(lambda: kind in self.events(job), f"job {job} has the event {kind}")

    def warned(self, job: int) -> Any:
        """Wait for the warning that the source was kept."""

        def warnings() -> list[Any]:
            return [each for each in self.show(job)["warnings"] if each["code"] == "SOURCE_KEPT"]

        [warning] = until(warnings, "the warning")
        return warning["text"]

    def due(self) -> list[int]:
        """The jobs whose source is to be moved or deleted."""
        with contextlib.closing(sqlite3.connect(f"file:{self.live.home.database}?mode=ro", uri=True)) as db:
            return [row[0] for row in db.execute("SELECT job_id FROM source_removal ORDER BY job_id")]

    def plays(self, job: int) -> bool:
        """Whether the ladder is complete, byte by byte."""
        generation = self.show(job)["video_view"]["generation"]
        master = Path(generation["master"])
        sums = (master.parent / f"v{generation['number']}" / "BLAKE3SUMS").read_text().splitlines()
        folder = master.parent / f"v{generation['number']}"
        return bool(sums) and all(
            blake3((folder / name).read_bytes()).hexdigest() == digest
            for digest, name in (line.split("  ", 1) for line in sums)
        )

    def sources(self) -> list[Path]:
        """Every file with the content of the source, wherever it is."""
        found = [path for root in (self.drop, self.done) for path in root.rglob("*") if path.is_file()]
        return [path for path in found if path.read_bytes() == CONTENT]


@pytest.fixture(params=[pytest.param("same", marks=pytest.mark.slow), "other"])
def done_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder on the file system of the drop folder, or on another one."""
    if request.param == "same":
        (tmp_path / "done").mkdir()
        yield tmp_path / "done"
        return
    if not os.access("/dev/shm", os.W_OK) or os.stat("/dev/shm").st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture
def house(tmp_path: Path, done_dir: Path, make_supervisor: MakeSupervisor) -> House:
    return House(tmp_path, done_dir, make_supervisor)


@pytest.fixture
def near(tmp_path: Path, make_supervisor: MakeSupervisor) -> House:
    """All on one file system, with a running supervisor."""
    (tmp_path / "done").mkdir()
    near = House(tmp_path, tmp_path / "done", make_supervisor)
    near.start()
    return near


@pytest.mark.slow
def test_a_source_is_moved_and_encoded_again_from_there(house: House) -> None:
    house.start()
    house.watch("move")
    source = house.drops()
    before = source.stat()
    job = house.makes()
    house.until_event(job, "source_moved")
    moved = house.done / NAME
    assert house.sources() == [moved]
    assert moved.stat().st_mtime_ns == before.st_mtime_ns
    shown = house.show(job)
    assert os.fsdecode(paths.decode(shown["path_b64"])) == str(moved)
    assert (shown["status"], shown["warnings"], house.plays(job)) == ("done", [], True)

    [again] = house.live.send(calls.act("retranscode", [job]))["results"]
    worker, claimed = house.claimed()
    assert claimed["job"] == again["new_job"]
    assert paths.decode(claimed["source"]["path_b64"]) == os.fsencode(moved)
    assert claimed["drop_folder_b64"] is None
    house.publish(worker, claimed)
    assert house.sources() == [moved], "only the job of the folder moves it"


@pytest.mark.slow
def test_a_source_is_deleted(near: House) -> None:
    near.watch("delete")
    near.drops()
    job = near.makes()
    near.until_event(job, "source_deleted")
    assert near.sources() == []
    assert near.plays(job)
    assert near.show(job)["video_view"]["source_deleted_at"]
    [refused] = near.live.send(calls.act("retranscode", [job]))["results"]
    assert refused["error"]["code"] == "REFUSED"
    assert "deleted the source" in refused["error"]["message"]

    near.drops()
    until(lambda: not near.show(job)["video_view"]["source_deleted_at"], "the file is noticed")


@pytest.mark.more
def test_names_that_are_taken_get_a_number(near: House) -> None:
    near.watch("move")
    (near.done / "film.mp4").write_bytes(b"another film")
    (near.done / "film-2.mp4").mkdir()
    jobs = []
    for _ in range(2):
        near.drops("film.mp4")
        jobs.append(near.makes())
        near.until_event(jobs[-1], "source_moved")
    assert [path.name for path in sorted(near.sources())] == ["film-3.mp4", "film-4.mp4"]
    assert (near.done / "film.mp4").read_bytes() == b"another film"
    videos = {near.show(job)["video"] for job in jobs}
    assert len(videos) == 2, "the second file of a name does not replace the ladder of the first"


POINTS = ("removal.begun", "removal.reserved", "removal.removed")
FAR = ("removal.begun", "removal.copied", "removal.named", "removal.removed")


@pytest.mark.slow
@pytest.mark.fault(
    "The supervisor is killed while it moves a source whose job is done",
    "The source is in one place, whole; the next supervisor finishes the move",
    area="publishing",
)
@pytest.mark.parametrize("done_dir", ["same", "other"], indirect=True)
def test_killed_while_it_moves(house: House) -> None:
    far = house.done.stat().st_dev != house.drop.stat().st_dev
    house.start()
    house.watch("move")
    for number, point in enumerate(FAR if far else POINTS):
        house.live.stop()
        house.start(point)
        source = house.drops(f"{number}.mp4")
        job = house.makes()
        house.dies()
        assert house.sources(), "it is never lost"
        house.start()
        house.until_event(job, "source_moved")
        assert not source.exists()
        assert (house.done / f"{number}.mp4").read_bytes() == CONTENT
        assert house.plays(job)
    assert sorted(path.name for path in house.done.iterdir()) == [f"{n}.mp4" for n in range(number + 1)]


@pytest.mark.slow
@pytest.mark.fault(
    "The supervisor is killed while it deletes a source whose job is done",
    "The ladder is complete; the next supervisor finishes the deletion",
    area="publishing",
)
def test_killed_while_it_deletes(near: House) -> None:
    near.watch("delete")
    for number, point in enumerate(("publish.recorded", "removal.begun", "removal.removed")):
        near.live.stop()
        near.start(point)
        source = near.drops(f"{number}.mp4")
        worker, claimed = near.claimed()
        near.publish(worker, claimed)
        near.dies()
        near.start()
        near.until_event(claimed["job"], "source_deleted")
        assert not source.exists()
        assert near.plays(claimed["job"])


def published_without_a_removal(near: House, **more: Any) -> int:
    """A job that is done, by a supervisor that died before it looked at the source."""
    near.live.stop()
    near.start("publish.recorded")
    job = near.makes(**more)
    near.dies()
    return job


def flip(path: Path) -> None:
    """Change a byte that nothing but a digest notices."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.more
@pytest.mark.parametrize(
    ("after_done", "harm"),
    [
        ("delete", flip),
        pytest.param("delete", Path.unlink, marks=pytest.mark.more),
        pytest.param("move", Path.unlink, marks=pytest.mark.more),
    ],
)
@pytest.mark.fault(
    "A published ladder is damaged before its source is moved or deleted",
    "The source stays, with the warning `SOURCE_KEPT`",
    area="publishing",
)
def test_without_a_complete_ladder_the_source_stays(near: House, after_done: str, harm: Any) -> None:
    near.watch(after_done)
    source = near.drops("film.mp4")
    job = published_without_a_removal(near)
    harm(next(near.out.glob("film/v1/360p/seg_00001.m4s")))
    near.start()
    assert "no longer complete" in near.warned(job)
    assert near.sources() == [source]
    assert near.show(job)["status"] == "done"


@pytest.mark.more
def test_a_ladder_that_lacks_something_is_not_the_only_copy(near: House) -> None:
    near.watch("delete")
    source = near.drops()
    job = near.makes(warnings=[{"code": "SOURCE_DAMAGED", "text": "a hole"}])
    assert "SOURCE_DAMAGED" in near.warned(job)
    assert near.sources() == [source]


@pytest.mark.slow
@pytest.mark.parametrize("preserves_time", [pytest.param(False, marks=pytest.mark.slow), True])
def test_another_file_of_the_name_stays(near: House, preserves_time: bool) -> None:
    near.watch("delete")
    source = near.drops("film.mp4")
    published_without_a_removal(near)
    before = source.stat()
    with source.open("r+b") as file:
        file.write(b"another")
    if preserves_time:
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    # Otherwise it is queued again, and its job needs it.
    (near.drop / ".tqignore").write_text("film.mp4")
    near.start()
    other = near.drops("other.mp4")
    near.until_event(near.makes(), "source_deleted")
    assert (source.exists(), other.exists()) == (True, False)
    assert near.due() == []


@pytest.mark.more
def test_a_source_with_another_time_and_the_same_bytes_is_moved(near: House) -> None:
    near.watch("move")
    source = near.drops()
    worker, job = near.claimed()
    number = near.publish(worker, job, touch=lambda: os.utime(source, ns=(1, 1)))
    near.until_event(number, "source_moved")
    assert not source.exists()


@pytest.mark.more
def test_jobs_that_were_added_by_hand_leave_their_source(near: House) -> None:
    near.watch("move")
    outside = near.root / "outside.mp4"
    outside.write_bytes(CONTENT)
    output = paths.encode(near.out)
    near.live.send(calls.add([paths.encode(outside)], output_b64=output))
    near.makes()
    dropped = near.drops()
    near.until_event(near.makes(), "source_moved")
    assert (outside.exists(), dropped.exists()) == (True, False)


@pytest.mark.more
def test_a_source_that_left_its_folder_stays(near: House) -> None:
    near.watch("delete")
    source = near.drops("film.mp4")
    jobs = until(lambda: near.live.send(calls.jobs(limit=9))["jobs"], "it is queued")
    outside = near.root / "outside.mp4"
    source.rename(outside)
    call = calls.add([paths.encode(outside)], output_b64=paths.encode(near.out))
    [followed] = near.live.send(call)["results"]
    assert (followed["decision"], followed["job"]) == ("waiting", jobs[0]["id"])
    assert near.makes() == followed["job"]
    until(lambda: not near.due(), "nothing is due")
    assert outside.read_bytes() == CONTENT
    assert "source_deleted" not in near.events(followed["job"])


@pytest.mark.more
def test_a_source_that_another_job_needs_waits_for_it(near: House) -> None:
    folder = near.watch("move")
    source = near.drops()
    worker, claimed = near.claimed()
    other = paths.encode(near.root / "other")
    call = calls.add([paths.encode(source)], output_b64=other, hold=True)
    [held] = near.live.send(call)["results"]
    job = near.publish(worker, claimed)
    # The removal of a second file comes after the first was looked at.
    near.drops("second.mp4")
    near.until_event(near.makes(), "source_moved")
    assert source.exists()
    near.live.send(calls.act("cancel", [held["job"]]))
    near.live.send(calls.edit_folder(folder["id"], priority=1))
    near.until_event(job, "source_moved")
    assert not source.exists()


@pytest.mark.more
def test_a_rule_that_was_withdrawn_does_not_apply(near: House) -> None:
    folder = near.watch("delete")
    source = near.drops()
    call = calls.add([paths.encode(source)], output_b64=paths.encode(near.root / "other"), hold=True)
    [held] = near.live.send(call)["results"]
    job = near.makes()
    assert near.due() == [job]
    near.live.send(calls.act("cancel", [held["job"]]))
    near.live.send(calls.edit_folder(folder["id"], after_done="keep"))
    until(lambda: not near.due(), "nothing is due")
    near.live.send(calls.edit_folder(folder["id"], after_done="delete"))
    near.drops("second.mp4")
    near.until_event(near.makes(), "source_deleted")
    assert source.exists()


@pytest.mark.more
@pytest.mark.fault(
    "The folder for done sources is missing, or its disk fails",
    "The source stays, with the warning `SOURCE_KEPT`; it is moved once that is possible",
    area="disks",
)
def test_it_is_moved_once_the_folder_is_back(near: House) -> None:
    folder = near.watch("move")
    source = near.drops()
    near.done.rename(near.root / "away")
    job = near.makes()
    assert "is missing" in near.warned(job)
    assert near.show(job)["status"] == "done"
    assert source.exists()
    (near.root / "away").rename(near.done)
    near.live.send(calls.edit_folder(folder["id"], priority=1))
    near.until_event(job, "source_moved")
    assert near.show(job)["warnings"] == []
    assert near.sources() == [near.done / NAME]


@pytest.mark.more
@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root ignores modes")
@pytest.mark.parametrize("after_done", ["move", "delete"])
@pytest.mark.fault(
    "A source may not be moved or deleted", "It stays, with the warning `SOURCE_KEPT`", area="publishing"
)
def test_without_permission_it_stays(tmp_path: Path, after_done: str) -> None:
    (tmp_path / "done").mkdir()
    bound = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all"]

    def make(root: Path, **environment: str) -> LiveSupervisor:
        return LiveSupervisor(root, before=bound if os.geteuid() == 0 else (), **environment)

    house = House(tmp_path, tmp_path / "done", make)
    house.start()
    try:
        house.watch(after_done)
        source = house.drops()
        worker, claimed = house.claimed()
        source.parent.chmod(0o500)
        job = house.publish(worker, claimed)
        assert "ermission" in house.warned(job)
        assert (house.show(job)["status"], house.sources(), house.due()) == ("done", [source], [])
        assert "warning" in house.events(job)
    finally:
        source.parent.chmod(0o700)
        house.live.clear_away()

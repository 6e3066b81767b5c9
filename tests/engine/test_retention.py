"""What is removed, when, and what never is; on a real database with real files."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from harness import MakeSupervisor
from store.conftest import supervisor_of
from tqstudio import paths
from tqstudio.config import Settings
from tqstudio.engine import outputs
from tqstudio.engine.files.bounded_io import BoundedIO
from tqstudio.engine.host.ages import Ages
from tqstudio.engine.host.clock import MICROSECOND, RunningClock, now_us
from tqstudio.engine.outputs import Place
from tqstudio.engine.outputs.retention import Retention
from tqstudio.engine.outputs.workspace import Workspace
from tqstudio.engine.store import events
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import claims, jobs, operations, outcomes, progress
from tqstudio.engine.store.jobs.claims import Claimant, HeldLease
from tqstudio.engine.store.jobs.outcomes import Failure
from tqstudio.engine.store.jobs.retry_rules import RetryRules
from tqstudio.engine.store.library import generations, videos
from tqstudio.engine.store.lists import records
from tqstudio.engine.store.machine import workers
from tqstudio.errors import ErrorCode
from tqstudio.lifecycle import Operation
from tqstudio.protocol import calls
from waiting import until

from .ladders import Bench, put_in_place
from .test_completion import bench_of, complete

DAY_US = 86_400 * MICROSECOND


RENDITION = progress.RenditionRow(
    name="360p",
    status="in_progress",
    reason=None,
    required=True,
    width=640,
    height=360,
    encoder="libx264",
    progress=42.0,
    segments_done=4,
    segments_total=10,
    speed=None,
    settings_hash=None,
    stream_key=None,
    error=None,
    kept=0.0,
    started_at=None,
    completed_at=None,
)


class House:
    """Videos with jobs and files, made at a time of the test's choice."""

    def __init__(self, db: Database, out: Path) -> None:
        self.db, self.out = db, out
        self.ahead_us = 0
        """How far the wall clock was set ahead for what is removed by age."""
        self.workspace = Workspace(db, "uuid", BoundedIO())
        self.work_dir = self.workspace.work_dir(self.root)
        self.work_dir.mkdir(parents=True)

    @property
    def root(self) -> bytes:
        return os.fsencode(self.out)

    def retention(self, **settings: Any) -> Retention:
        ages = Ages(self.out / "clock.json", RunningClock(DAY_US), wall=lambda: now_us() + self.ahead_us)
        return Retention(Settings(**settings), self.db, self.workspace, BoundedIO(), ages)

    def video(self) -> int:
        number = len(self.db.read_now(videos.page, after=0, limit=99)) + 1
        new = videos.NewVideo(
            source=b"/in/%d.mp4" % number,
            output_root=self.root,
            name=f"{number}.mp4",
            title="",
            slug=f"clip-{number}",
            size=1,
            mtime_ns=1,
            quick_hash=None,
        )
        return self.db.write_now(videos.create, new, now=1)

    def job(self, video: int) -> int:
        new = jobs.NewJob(video=video, profile="web", profile_json="{}", prefer_gpu=False)
        job = self.db.write_now(jobs.create, new, now=now_us(), actor="test")
        assert job is not None
        return job

    def claim(self) -> HeldLease:
        def write(db: Any) -> HeldLease | None:
            row = workers.ensure(db, "w", "cpu", device=None)
            workers.register(
                db,
                row.id,
                instance="one-life",
                pid=1,
                pid_started=1,
                encoder=None,
                capabilities={},
                metadata={},
                now=now_us(),
            )
            who = Claimant(row.id, "w", "cpu", "one-life")
            return claims.claim(
                db, who, supervisor=supervisor_of(db), now=now_us(), idle_gpus=0, gpu_grace_us=0
            )

        lease = self.db.write_now(write)
        assert lease is not None
        return lease

    def failed(self, *, ago_s: float) -> tuple[int, int]:
        """A job that failed so long ago, with what it had made: (job, video)."""
        video = self.video()
        job = self.job(video)
        lease = self.claim()
        self.db.write_now(
            progress.save,
            lease.token,
            progress.Report(step="transcode", progress=40.0, renditions=[RENDITION]),
            at=1,
        )
        self.db.write_now(
            outcomes.fail,
            lease.token,
            Failure(ErrorCode.NO_MEDIA, "no"),
            now=now_us() - int(ago_s * MICROSECOND),
            rules=RetryRules(0, 0, lambda: 0),
            worker="w",
        )
        self.make(video)
        return job, video

    def make(self, video: int) -> None:
        Bench(self.work_dir, video).rendition("360p", "some")

    def has_work(self, video: int) -> bool:
        return (self.work_dir / "segments" / str(video)).exists()

    def operate(self, job: int, operation: Operation) -> None:
        assert self.db.write_now(operations.operate, job, operation, now=now_us(), actor="test")

    def published(self, *ago_s: float) -> tuple[int, Place]:
        """A video with so many generations, each as old as is given."""
        video = self.video()
        row = self.db.read_now(videos.get, video)
        assert row is not None
        place = Place(self.out, row.slug)
        for number, ago in enumerate(ago_s, 1):
            bench = Bench(self.work_dir, video)
            bench.rendition("360p", f"number-{number}")
            rows = put_in_place(self.work_dir, place, number, bench.manifest())
            self.db.write_now(
                generations.record,
                video,
                number,
                settings_hash="ladder",
                poster=None,
                renditions=rows,
                now=now_us() - int(ago * MICROSECOND),
            )
        return video, place

    def history(self, trigger: str) -> list[int | None]:
        """The videos of such events."""
        rows = self.db.read_now(events.after, 0, limit=100)
        return [row.video for row in rows if row.trigger == trigger]


@pytest.fixture
def house(opened: Database, tmp_path: Path) -> House:
    return House(opened, tmp_path / "out")


def names(place: Place) -> set[str]:
    return {entry.name for entry in place.folder.iterdir()}


# Replaced generations


def test_replaced_generations_go_when_their_players_have_had_their_time(house: House) -> None:
    video, place = house.published(9000, 8000, 2000, 100)
    retention = house.retention(keep_old_s=3600)
    asyncio.run(retention.remove_retired())
    # The second one was replaced 2000 s ago.
    assert names(place) == {"master.m3u8", "v2", "v3", "v4"}
    assert house.history("generation_removed") == [video]
    asyncio.run(house.retention(keep_old_s=0).remove_retired())
    assert names(place) == {"master.m3u8", "v4"}, "what plays is never removed"
    current = house.db.read_now(generations.current, video)
    assert current is not None
    assert outputs.intact(place, 4, current.renditions)
    asyncio.run(house.retention(keep_old_s=0).remove_retired())
    assert house.history("generation_removed") == [video] * 3, "each is reported once"


@pytest.mark.fault(
    "The database lists a playing generation as replaced",
    "It stays, because the master playlist names it",
    area="publishing",
)
def test_one_that_still_plays_is_not_removed(house: House) -> None:
    """The master says so, whatever the database thinks."""
    _, place = house.published(9000, 8000)
    current = house.db.read_now(generations.get, 1)
    assert current is not None
    outputs.set_current(place, 1, current.renditions)
    asyncio.run(house.retention(keep_old_s=0).remove_retired())
    assert outputs.intact(place, 1, current.renditions)


def test_after_a_jump_of_the_clock_nothing_is_old(house: House) -> None:
    _, place = house.published(9000, 8000)
    job, video = house.failed(ago_s=1)
    retention = house.retention()
    house.ahead_us = 365 * DAY_US
    asyncio.run(retention.remove_retired())
    asyncio.run(retention.expire_work())
    assert names(place) == {"master.m3u8", "v1", "v2"}
    assert house.has_work(video)
    assert house.history("generation_removed") + house.history("work_removed") == []
    house.operate(job, Operation.DELETE)
    asyncio.run(retention.jobs_deleted([job]))
    assert not house.has_work(video), "a person asked for that"


@pytest.mark.parametrize("by", ["a full disk", "a person"])
def test_a_clock_that_was_set_back_keeps_no_work_that_is_in_the_way(house: House, by: str) -> None:
    job, video = house.failed(ago_s=-365 * 86_400)
    if by == "a person":
        house.operate(job, Operation.DELETE)
        asyncio.run(house.retention().jobs_deleted([job]))
    else:
        asyncio.run(house.retention().make_room(house.root))
    assert not house.has_work(video)


@pytest.mark.fault("Retention is killed while it deletes", "It continues at its next run", area="publishing")
@pytest.mark.parametrize("half", ["renamed", "half of the trash"])
def test_a_removal_that_was_killed_continues(house: House, half: str) -> None:
    video, place = house.published(9000, 8000)
    place.generation(1).rename(place.trash(1))
    if half == "half of the trash":
        (place.trash(1) / "360p" / "index.m3u8").unlink()
    asyncio.run(house.retention(keep_old_s=0).remove_retired())
    assert names(place) == {"master.m3u8", "v2"}
    assert house.history("generation_removed") == [video]


def test_a_disk_that_is_not_mounted_is_waited_for(house: House, tmp_path: Path) -> None:
    _, place = house.published(9000, 8000)
    away = house.out.rename(tmp_path / "away")
    house.out.mkdir()
    asyncio.run(house.retention(keep_old_s=0).remove_retired())
    assert house.history("generation_removed") == []
    house.out.rmdir()
    away.rename(house.out)
    asyncio.run(house.retention(keep_old_s=0).remove_retired())
    assert names(place) == {"master.m3u8", "v2"}


def test_one_output_that_cannot_be_reached_holds_up_no_other(house: House, tmp_path: Path) -> None:
    gone = House(house.db, tmp_path / "gone")
    for _ in range(60):
        gone.published(9000, 8000)
    gone.out.rename(tmp_path / "away")
    _, place = house.published(9000, 8000)
    asyncio.run(house.retention(keep_old_s=0).remove_retired())
    assert names(place) == {"master.m3u8", "v2"}


# Unfinished work


def test_unfinished_work_expires(house: House) -> None:
    _, old = house.failed(ago_s=8 * 86_400)
    job, _ = house.failed(ago_s=8 * 86_400)
    _, new = house.failed(ago_s=6 * 86_400)
    cancelled = house.video()
    house.operate(house.job(cancelled), Operation.CANCEL)
    house.make(cancelled)
    house.make(4711)
    house.operate(job, Operation.RETRY)
    retried = 2
    asyncio.run(house.retention().expire_work())
    assert not house.has_work(old)
    assert not house.has_work(4711), "no database remembers whose it is"
    assert [house.has_work(video) for video in (new, retried, cancelled)] == [True, True, True]
    assert house.history("work_removed") == [old, 4711]
    assert not list((house.work_dir / "trash").iterdir())


@pytest.mark.fault(
    "The disk is full of unfinished work of failed jobs", "That work is removed first", area="disks"
)
def test_a_full_disk_takes_it_at_once_and_first(house: House) -> None:
    _, failed = house.failed(ago_s=1)
    waiting = house.video()
    house.make(waiting)
    house.job(waiting)
    _, place = house.published(9000, 8000)
    asyncio.run(house.retention().make_room(house.root))
    assert not house.has_work(failed)
    assert house.has_work(waiting), "a job that can still run resumes with what it has"
    assert names(place) == {"master.m3u8", "v1", "v2"}, "players keep theirs"


def test_nothing_is_removed_where_that_is_switched_off(house: House) -> None:
    job, video = house.failed(ago_s=99 * 86_400)
    retention = house.retention(cleanup_partial=False)
    asyncio.run(retention.expire_work())
    asyncio.run(retention.make_room(house.root))
    house.operate(job, Operation.DELETE)
    asyncio.run(retention.jobs_deleted([job]))
    assert house.has_work(video)


def test_a_deleted_job_that_was_waiting_can_be_taken_back(house: House) -> None:
    video = house.video()
    job = house.job(video)
    house.make(video)
    house.operate(job, Operation.DELETE)
    asyncio.run(house.retention().jobs_deleted([job]))
    asyncio.run(house.retention().expire_work())
    assert house.has_work(video)
    asyncio.run(house.retention(keep_failed_work_s=0).expire_work())
    assert not house.has_work(video)


def test_work_of_a_newer_job_stays_when_an_older_one_is_deleted(house: House) -> None:
    job, video = house.failed(ago_s=86_400)
    house.job(video)
    house.operate(job, Operation.DELETE)
    asyncio.run(house.retention().jobs_deleted([job]))
    assert house.has_work(video)


def test_a_job_whose_work_is_removed_reports_none(house: House) -> None:
    """Nor does its history hide it: whatever brought it about, by a user, by time or by need."""
    deleted, expired, in_the_way = (house.failed(ago_s=ago)[0] for ago in (1, 8 * 86_400, 1))
    retention = house.retention()
    house.operate(deleted, Operation.DELETE)
    assert asyncio.run(retention.jobs_deleted([deleted])) == {deleted: 4}
    house.operate(deleted, Operation.UNDELETE)
    asyncio.run(retention.expire_work())
    for job, segments in ((deleted, 0), (expired, 0), (in_the_way, 4)):
        record = house.db.read_now(records.one, job)
        assert record is not None
        assert (record["progress"], record["renditions"][0]["segments_done"]) == (10.0 * segments, segments)
    asyncio.run(retention.make_room(house.root))
    for job in (deleted, expired, in_the_way):
        assert [(row.trigger, row.detail) for row in house.db.read_now(events.newest, limit=1, job=job)] == [
            ("undeleted", None) if job == deleted else ("work_removed", "4 finished segments")
        ]
    stored = house.db.read_now(events.after, 0, limit=100, job=deleted)
    assert [row.detail for row in stored if row.trigger == "work_removed"] == ["4 finished segments"]


def test_work_of_another_job_on_the_list_stays_when_one_is_deleted(house: House) -> None:
    first, video = house.failed(ago_s=86_400)
    second = house.job(video)
    house.operate(second, Operation.CANCEL)
    house.operate(first, Operation.DELETE)
    assert asyncio.run(house.retention().jobs_deleted([first])) == {}
    assert house.has_work(video)
    house.operate(second, Operation.DELETE)
    asyncio.run(house.retention().jobs_deleted([second]))
    assert not house.has_work(video)


@pytest.fixture
def scratches(house: House) -> dict[str, Path]:
    """Scratch directories: of a running attempt, of its predecessor, of a job that is gone."""
    house.job(house.video())
    lease = house.claim()
    names = {"running": f"{lease.job}-{lease.epoch}", "earlier": f"{lease.job}-0", "gone": "4711-2"}
    folders = {key: house.work_dir / "scratch" / name for key, name in names.items()}
    for folder in folders.values():
        folder.mkdir(parents=True)
        (folder / "seg_00000.m4s.tmp").write_bytes(b"half")
    return folders


def test_scratch_of_the_dead_is_removed(house: House, scratches: dict[str, Path]) -> None:
    asyncio.run(house.retention().expire_work())
    assert all(folder.exists() for folder in scratches.values()), "a worker may still write there"
    long_ago = time.time() - 7200
    for folder in scratches.values():
        os.utime(folder, (long_ago, long_ago))
    asyncio.run(house.retention().expire_work())
    assert {key for key, folder in scratches.items() if folder.exists()} == {"running"}


@pytest.mark.slow
def test_a_start_removes_what_is_old(make_supervisor: MakeSupervisor, tmp_path: Path) -> None:
    """Supervisors that are started for single runs may never live as long as the interval."""
    source = tmp_path / "clip.mp4"
    source.write_bytes(b"clip")
    live = make_supervisor(tmp_path / "home").start()
    live.send(calls.worker_action("cpu-0", "disable"))
    worker = live.worker("by-hand").register()
    [added] = live.send(calls.add([paths.encode(source)]))["results"]
    for key in ("one", "two"):
        job = worker.claim()
        bench = bench_of(job)
        bench.rendition("360p", key)
        assert complete(worker, job, bench)[1]["status"] == "done"
        if key == "one":
            live.send(calls.act("retranscode", [added["job"]]))
    [master] = live.home.output.glob("*/master.m3u8")
    assert {path.name for path in master.parent.glob("v*")} == {"v1", "v2"}
    live.stop()
    make_supervisor(tmp_path / "home", TQSTUDIO_KEEP_OLD_S="0").start()
    until(lambda: not (master.parent / "v1").exists(), "the replaced ladder is removed", 30)
    assert (master.parent / "v2").is_dir()

"""Videos are deleted and brought back: with their ladders, jobs, and whatever kills the supervisor meanwhile.

The test plays the worker, so that nothing is encoded; supervisors, their database and the files are real.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from engine.conftest import Desk
from harness import LiveSupervisor, MakeSupervisor
from tqstudio import paths
from tqstudio.engine.host.failpoints import VARIABLE
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol import calls
from waiting import until
from wings.after_done.test_after_done import House

NAME = "film.mp4"


class Library(House):
    """A drop folder with one published film, and the lives of its supervisor."""

    def __init__(self, root: Path, make: MakeSupervisor) -> None:
        super().__init__(root, root / "done", make)
        self.keep_old_s = "3600"

    def start(self, point: str = "") -> None:
        # What is done to a file but not to its content is noticed by the next scan alone.
        settings = {"TQSTUDIO_KEEP_OLD_S": self.keep_old_s, "TQSTUDIO_RESCAN_S": "1"}
        self.live = self._make(self.root / "home", **{VARIABLE: point}, **settings)
        self.live.start()
        self.live.send(calls.worker_action("cpu-0", "disable"))

    def first(self, point: str = "") -> None:
        """The first start."""
        self.start(point)
        self.watch("keep")

    def joins(self, live: LiveSupervisor) -> None:
        """Be one of several libraries of a supervisor that runs."""
        self.live = live
        self._folder = self.watch("keep")["id"]

    def leaves(self) -> None:
        self.live.send(calls.remove_folder(self._folder))

    def again(self, point: str = "") -> None:
        """Restart the supervisor, which may have been killed."""
        with contextlib.suppress(OSError, TqError):
            self.live.stop()
        self.start(point)

    def publishes(self, name: str = NAME) -> int:
        self.drops(name)
        return self.makes()

    def delete(self, video: int) -> Any:
        return self.live.send(calls.delete_video(video))

    def undelete(self, video: int) -> Any:
        return self.live.send(calls.undelete_video(video))

    def killed_by(self, call: Any) -> None:
        with contextlib.suppress(OSError, HTTPException, TqError):
            self.live.send(call)
        self.dies()

    def listed(self, line: str = "") -> list[int]:
        rows = self.live.send(calls.jobs(line, limit=500))["jobs"]
        return [row["id"] for row in rows if Path(row["path"]).is_relative_to(self.drop)]

    def files(self, slug: str = "film") -> dict[str, bytes]:
        """What players can read, by its path."""
        folder = self.out / slug
        return {
            str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }

    def trashed(self) -> list[Path]:
        return [path for path in self.out.glob(".tqstudio/*/deleted/*") if any(path.iterdir())]

    def state(self) -> list[str]:
        with contextlib.closing(sqlite3.connect(f"file:{self.live.home.database}?mode=ro", uri=True)) as db:
            query = "SELECT state FROM deletion JOIN video ON video.id = video_id WHERE output_root = ?"
            return [row[0] for row in db.execute(query, (os.fsencode(self.out),))]

    def refused(self, call: Any) -> TqError:
        with pytest.raises(TqError) as caught:
            self.live.send(call)
        return caught.value


@pytest.fixture
def own(tmp_path: Path, make_supervisor: MakeSupervisor) -> Library:
    """A library whose supervisors are its own, of which none was started yet."""
    return Library(tmp_path, make_supervisor)


@pytest.fixture
def library(desk: Desk, own: Library) -> Iterator[Library]:
    """A library of the standing supervisor, which outlives it."""
    own.joins(desk.live)
    yield own
    own.leaves()


def test_a_deleted_video_is_brought_back_byte_for_byte(library: Library) -> None:
    seq = library.live.send(calls.events(limit=1))["last_seq"]
    job = library.publishes()
    before, video = library.files(), library.show(job)["video"]
    assert "master.m3u8" in before
    deleted = library.delete(video)
    assert deleted["deleted_at"]
    assert (library.files(), library.listed(), library.listed("state:deleted")) == ({}, [], [job])
    assert len(library.trashed()) == 1
    [refused] = library.live.send(calls.act("undelete", [job]))["results"]
    assert f"tqstudio video undelete {video}" in refused["error"]["message"]
    assert library.delete(video)["deleted_at"] == deleted["deleted_at"], "it is deleted once"

    back = library.undelete(video)
    assert back["deleted_at"] is None
    assert (library.files(), library.listed(), library.trashed()) == (before, [job], [])
    assert library.plays(job)
    assert library.undelete(video)["deleted_at"] is None
    kinds = [event["trigger"] for event in library.live.send(calls.events(after=seq))["events"]]
    assert (kinds.count("video_deleted"), kinds.count("video_undeleted")) == (1, 1)


def test_an_unknown_video_is_reported(library: Library) -> None:
    for call in (calls.delete_video(4_711_000), calls.undelete_video(4_711_000)):
        assert library.refused(call).code is ErrorCode.NOT_FOUND


@pytest.mark.slow
def test_its_drop_folder_does_not_queue_it_again(own: Library) -> None:
    own.first()
    job = own.publishes()
    video = own.show(job)["video"]
    own.delete(video)
    own.again()
    other = own.publishes("other.mp4")
    assert own.listed() == [other], "the folder was scanned"
    os.utime(own.drop / NAME)
    skipped = until(lambda: own.live.send(calls.folders())["folders"][0]["skipped"], "the file is refused")
    assert skipped[0]["name"] == NAME
    assert f"tqstudio video undelete {video}" in skipped[0]["hint"]
    assert own.listed() == [other]

    own.drops(NAME, b"another film")
    worker, claimed = own.claimed()
    assert claimed["video"] == video
    assert own.state() == []
    assert own.files() != {}, "the ladder stays playable until the new one is published"
    own.publish(worker, claimed)


def test_what_is_added_again_is_brought_back(library: Library) -> None:
    job = library.publishes()
    before, video = library.files(), library.show(job)["video"]
    library.delete(video)
    add = calls.add([paths.encode(library.drop / NAME)], output_b64=paths.encode(library.out))
    [result] = library.live.send(add)["results"]
    assert (result["video"], library.live.send(calls.video(video))["deleted_at"]) == (video, None)
    assert (library.files(), library.state()) == (before, [])


def test_what_is_in_its_place_is_not_overwritten(library: Library) -> None:
    job = library.publishes()
    before, video = library.files(), library.show(job)["video"]
    library.delete(video)
    (library.out / "film").mkdir()
    (library.out / "film" / "mine.txt").write_text("mine")
    refused = library.refused(calls.undelete_video(video))
    assert (refused.code, library.state()) == (ErrorCode.REFUSED, ["trashed"])
    assert (library.out / "film" / "mine.txt").read_text() == "mine"
    assert library.live.send(calls.video(video))["deleted_at"]
    (library.out / "film" / "mine.txt").unlink()
    library.undelete(video)
    assert library.files() == before


def test_the_folder_of_another_is_not_moved(library: Library) -> None:
    job = library.publishes()
    video = library.show(job)["video"]
    (library.out / "film").rename(library.out / "taken")
    (library.out / "film").mkdir()
    (library.out / "film" / ".owner").write_text("another")
    library.delete(video)
    assert library.files() == {".owner": b"another"}
    assert library.refused(calls.undelete_video(video)).code is ErrorCode.REFUSED


def test_its_running_job_ends_first(library: Library) -> None:
    library.drops()
    worker, claimed = library.claimed()
    job, video, epoch = claimed["job"], claimed["video"], claimed["epoch"]
    library.delete(video)
    assert (library.state(), library.show(job)["word"]) == (["trashing"], "cancelling…")
    token = {"instance": worker.instance, "epoch": epoch}
    answer = worker.send(f"jobs/{job}/progress", **token, step="transcode", progress=1)
    assert answer["control"] == "cancel"
    worker.send(f"jobs/{job}/release", **token, reason="cancel")
    until(lambda: library.state() == ["trashed"], "the job has ended")
    assert (library.show(job)["status"], library.listed()) == ("cancelled", [])
    assert worker.claim() is None
    [refused] = library.live.send(calls.act("retry", [job]))["results"]
    assert not refused["ok"]

    library.undelete(video)
    assert library.listed() == [job]
    assert library.live.send(calls.act("retry", [job]))["results"][0]["ok"]


def test_a_waiting_job_is_cancelled(library: Library) -> None:
    library.drops()
    [job] = until(library.listed, "the file is queued")
    library.delete(library.show(job)["video"])
    assert (library.show(job)["status"], library.state()) == ("cancelled", ["trashed"])


@pytest.mark.more
def test_a_ladder_is_removed_after_a_while(own: Library) -> None:
    own.first()
    job = own.publishes()
    video = own.show(job)["video"]
    own.delete(video)
    own.keep_old_s = "0"
    own.again()
    until(lambda: own.state() == [], "it is removed")
    until(lambda: not list(own.out.glob(".tqstudio/*/trash/*")), "the trash is emptied")
    assert (own.files(), own.trashed()) == ({}, [])
    refused = own.refused(calls.undelete_video(video))
    assert "files were removed" in refused.message
    add = calls.add([paths.encode(own.drop / NAME)], output_b64=paths.encode(own.out))
    [result] = own.live.send(add)["results"]
    assert (result["decision"], result["video"]) == ("queued", video)
    own.publish(*own.claimed())
    assert own.show(result["job"])["video_view"]["generation"]["number"] == 2


@pytest.mark.slow
@pytest.mark.fault(
    "The supervisor is killed while it deletes a video",
    "The ladder is in its place or in `deleted`, whole; the next supervisor moves it there",
    area="publishing",
)
@pytest.mark.parametrize("point", [pytest.param("deletion.begun", marks=pytest.mark.slow), "deletion.moved"])
def test_killed_while_it_deletes_a_video(own: Library, point: str) -> None:
    own.first(point)
    job = own.publishes()
    before, video = own.files(), own.show(job)["video"]
    own.killed_by(calls.delete_video(video))
    assert (own.files() == before) is (point == "deletion.begun")
    own.again()
    until(lambda: own.state() == ["trashed"], "it is moved")
    assert (own.files(), own.listed()) == ({}, [])
    own.undelete(video)
    assert (own.files(), own.listed()) == (before, [job])


@pytest.mark.more
@pytest.mark.fault(
    "The supervisor is killed while it brings a deleted video back",
    "The ladder is in `deleted` or in its place, whole; the next supervisor brings it back",
    area="publishing",
)
@pytest.mark.parametrize(
    "point", [pytest.param("undeletion.begun", marks=pytest.mark.more), "undeletion.moved"]
)
def test_killed_while_it_brings_a_video_back(own: Library, point: str) -> None:
    own.first(point)
    job = own.publishes()
    before, video = own.files(), own.show(job)["video"]
    own.delete(video)
    own.killed_by(calls.undelete_video(video))
    own.again()
    until(lambda: own.state() == [], "it is back")
    assert (own.files(), own.listed(), own.trashed()) == (before, [job], [])


@pytest.mark.slow
@pytest.mark.fault(
    "The supervisor is killed while it removes the ladder of a deleted video",
    "The next supervisor removes the rest",
    area="publishing",
)
@pytest.mark.parametrize(
    "point", [pytest.param("deletion.expired", marks=pytest.mark.slow), "deletion.removed"]
)
def test_killed_while_it_removes_a_ladder(own: Library, point: str) -> None:
    own.first()
    job = own.publishes()
    video = own.show(job)["video"]
    own.delete(video)
    own.keep_old_s = "0"
    # It may die before it answers.
    with contextlib.suppress(AssertionError, OSError, HTTPException, TqError):
        own.again(point)
    own.dies()
    own.again()
    until(lambda: own.state() == [], "it is removed")
    assert (own.files(), own.trashed()) == ({}, [])
    assert own.live.send(calls.video(video))["generation"] is None


@pytest.mark.slow
def test_a_fresh_start_overwrites_no_ladder(own: Library) -> None:
    own.first()
    job = own.publishes()
    before = own.files()
    answer = own.live.send(calls.clear_queue(manifest=True))
    assert (answer["deleted"], answer["forgotten"]) == (1, 1)
    worker, claimed = own.claimed()
    assert claimed["job"] != job, "its drop folder queues the file again"
    assert own.listed("state:deleted") == []
    own.publish(worker, claimed)
    assert own.files() == before
    assert own.files("film-2") != {}
    assert own.plays(claimed["job"])

"""Undoing what was done to jobs, videos and drop folders; supervisors are real, the test plays workers."""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import LiveSupervisor, MakeSupervisor
from tqstudio import paths
from tqstudio.protocol import calls
from tqstudio.words import undo as words

from .conftest import Desk
from .test_tcp import Studio, studio

__all__ = ["studio"]

_keys = itertools.count()


def undo(live: LiveSupervisor) -> Any:
    return live.send(calls.undo(f"key {next(_keys)}"))


def kept(row: Any) -> dict[str, Any]:
    """What an undo puts back, and what it must not change."""
    names = ("status", "control", "word", "priority", "created_at", "deleted_at", "attempts", "error")
    return {name: row[name] for name in names} | {"log": len(row["attempts_log"])}


def failed(desk: Desk) -> int:
    worker, claimed = desk.running()
    worker.send(f"jobs/{claimed['job']}/fail", epoch=claimed["epoch"], code="NO_MEDIA", text="no video")
    return int(claimed["job"])


def paused(desk: Desk, **more: Any) -> int:
    job = desk.job(**more)
    if not more:
        desk.act("pause", job)
    return job


MAKE: dict[str, Callable[[Desk], int]] = {
    "pending": lambda desk: desk.job(priority=3),
    "paused": paused,
    "held": lambda desk: paused(desk, hold=True),
    "in_progress": lambda desk: int(desk.running()[1]["job"]),
    "failed": failed,
}


@pytest.mark.parametrize(
    ("operation", "status"),
    [
        *(("pause", each) for each in ("pending", "in_progress")),
        *(("resume", each) for each in ("paused", "held")),
        *(("cancel", each) for each in ("pending", "paused", "held", "in_progress", "failed")),
        *(("priority", each) for each in ("pending", "paused", "held", "failed")),
        *(("delete", each) for each in ("pending", "paused", "held", "failed")),
    ],
)
def test_each_action_is_undone(desk: Desk, operation: str, status: str) -> None:
    job = MAKE[status](desk)
    before = kept(desk.show(job))
    [result] = desk.act(operation, job, **({"delta": -5} if operation == "priority" else {}))
    assert result["ok"], result
    assert kept(desk.show(job)) != before
    answer = undo(desk.live)
    assert (answer["operation"], answer["restored"], answer["not_restored"]) == (operation, 1, 0)
    assert kept(desk.show(job)) == before
    assert f"job {job}, " in words.sentence(answer)


@pytest.mark.parametrize("operation", ["pause", "cancel"])
def test_a_job_that_has_stopped_waits_again(desk: Desk, operation: str) -> None:
    worker, claimed = desk.running()
    job = int(claimed["job"])
    place = desk.show(job)["created_at"]
    desk.act(operation, job)
    worker.send(f"jobs/{job}/release", epoch=claimed["epoch"], reason=operation)
    assert desk.show(job)["status"] != "in_progress", "the worker obeys; that is no change by a person"
    assert undo(desk.live)["restored"] == 1
    row = desk.show(job)
    assert (row["status"], row["priority"], row["created_at"]) == ("pending", 1000, place)


def test_a_request_that_is_undone_stops_no_worker(desk: Desk) -> None:
    worker, claimed = desk.running()
    beat = {"jobs": [{"job": claimed["job"], "epoch": claimed["epoch"]}]}
    desk.act("cancel", claimed["job"])
    assert worker.send("heartbeat", **beat)["controls"] == {str(claimed["job"]): "cancel"}
    undo(desk.live)
    assert worker.send("heartbeat", **beat)["controls"] == {str(claimed["job"]): "none"}


@pytest.mark.parametrize(
    "touch",
    [
        lambda desk, job: desk.act("priority", job, delta=1),
        lambda desk, job: (desk.act("resume", job), desk.act("pause", job)),
        lambda desk, job: desk.act("restart", job),
        lambda desk, job: desk.act("delete", job),
    ],
    ids=["priority", "resumed and paused", "restarted", "deleted"],
)
def test_a_job_that_was_changed_since_is_left(desk: Desk, touch: Callable[[Desk, int], Any]) -> None:
    """By another caller: what the same one did later is undone first."""
    alone, touched = desk.job(), desk.job()
    desk.act("pause", alone, touched)
    touch(desk, touched)
    with database(desk.live) as db:
        newest = "SELECT max(id) FROM undo WHERE operation = 'pause' AND id IN (SELECT undo_id FROM undo_step"
        db.execute(f"UPDATE undo SET actor = 'someone else' WHERE id > ({newest} WHERE subject = {alone}))")
    before = kept(desk.show(touched))
    answer = undo(desk.live)
    assert words.sentence(answer) == "resumed 1 job again; 1 left: it was changed since"
    assert desk.show(alone)["status"] == "pending"
    assert kept(desk.show(touched)) == before


@contextlib.contextmanager
def database(live: LiveSupervisor) -> Any:
    with contextlib.closing(sqlite3.connect(live.home.database)) as db, db:
        yield db


def test_what_cannot_be_put_back_says_why(desk: Desk) -> None:
    job = desk.job()
    desk.act("cancel", job)
    [again] = desk.add(Path(desk.show(job)["path"]), force=True)
    answer = undo(desk.live)
    assert (answer["restored"], answer["not_restored"]) == (0, 1), again
    assert "nothing undone; job" in words.sentence(answer)


def test_a_retry_is_not_undone(desk: Desk) -> None:
    job, other = failed(desk), desk.job()
    desk.act("pause", other)
    desk.act("retry", job)
    assert undo(desk.live)["subject"].startswith(f"job {other}, ")
    assert desk.show(job)["status"] == "pending"


def test_ten_actions_are_undone_newest_first(desk: Desk) -> None:
    job = desk.job(priority=0)
    for priority in range(1, 12):
        desk.act("priority", job, priority=priority)
    for priority in range(10, 0, -1):
        assert undo(desk.live)["restored"] == 1
        assert desk.show(job)["priority"] == priority
    nothing = undo(desk.live)
    assert (nothing["operation"], nothing["restored"]) == (None, 0)
    assert desk.show(job)["priority"] == 1, "the eleventh is kept no more"


def test_an_answer_that_is_asked_for_again_undoes_nothing_more(desk: Desk) -> None:
    job = desk.job(priority=0)
    desk.act("priority", job, priority=1)
    desk.act("priority", job, priority=2)
    first = desk.live.send(calls.undo("the same"))
    assert desk.live.send(calls.undo("the same")) == first
    assert desk.show(job)["priority"] == 1


def test_an_action_that_changed_nothing_is_no_level(desk: Desk) -> None:
    job = desk.job()
    desk.act("pause", job)
    desk.act("pause", job)
    desk.act("pause", 999_999)
    assert undo(desk.live)["restored"] == 1
    assert desk.show(job)["status"] == "pending"


def test_many_jobs_come_back_in_parts(desk: Desk) -> None:
    ids = [desk.job() for _ in range(3)]
    desk.act("pause", *ids)
    with database(desk.live) as db:
        [[number]] = db.execute("SELECT max(id) FROM undo")
        # As if it had paused 600 jobs more, which are gone.
        db.executemany(
            "INSERT INTO undo_step (undo_id, subject, version, former) VALUES (?, ?, 1, '{}')",
            [(number, 10_000_000 + each) for each in range(600)],
        )
    first = undo(desk.live)
    assert (first["restored"], first["remaining"]) == (3, 103)
    second = desk.live.send(calls.undo("second", first["undo"]))
    assert (second["not_restored"], second["remaining"], second["undo"]) == (103, 0, None)
    total = words.added(words.added(None, first), second)
    assert words.sentence(total) == "resumed 3 jobs again; 600 left: they were changed since"


def test_the_queue_that_was_cleared_comes_back(desk: Desk) -> None:
    jobs = [failed(desk), desk.job()]
    desk.act("cancel", jobs[1])
    desk.live.send(calls.clear_queue())
    assert all(desk.show(job)["deleted_at"] for job in jobs)
    assert undo(desk.live)["restored"] >= 2
    assert not any(desk.show(job)["deleted_at"] for job in jobs)


# Drop folders.


def folder(desk: Desk, tmp_path: Path) -> Any:
    return desk.live.send(calls.add_folder(paths.encode(tmp_path), settle_s=3600))


def rules(live: LiveSupervisor, number: int) -> Any:
    rows = {row["id"]: row for row in live.send(calls.folders())["folders"]}
    return rows.get(number)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"enabled": False}, "is watched again"),
        ({"hours": "22:00-06:00"}, "the former rules of"),
        ({"patterns": ["*.mov"], "priority": 7}, "the former rules of"),
    ],
)
def test_a_change_of_a_folder_is_undone(desk: Desk, tmp_path: Path, changes: Any, sentence: str) -> None:
    before = folder(desk, tmp_path)
    desk.live.send(calls.edit_folder(before["id"], **changes))
    answer = undo(desk.live)
    assert (answer["restored"], answer["subject"]) == (1, str(tmp_path))
    assert sentence in words.sentence(answer)
    row = rules(desk.live, before["id"])
    assert {name: row[name] for name in ("enabled", "hours", "patterns", "priority")} == {
        name: before[name] for name in ("enabled", "hours", "patterns", "priority")
    }
    desk.live.send(calls.remove_folder(before["id"]))


def test_a_removed_folder_is_watched_again_with_its_videos(desk: Desk, tmp_path: Path) -> None:
    before = folder(desk, tmp_path)
    job = desk.job()
    with database(desk.live) as db:
        db.execute("UPDATE video SET folder_id = ? WHERE id = ?", (before["id"], desk.show(job)["video"]))
    desk.live.send(calls.remove_folder(before["id"]))
    assert words.sentence(undo(desk.live)) == f"{tmp_path} is watched again"
    assert rules(desk.live, before["id"])["path"] == str(tmp_path)
    assert [row["id"] for row in desk.live.send(calls.jobs(f"folder:{before['id']}"))["jobs"]] == [job]
    desk.live.send(calls.remove_folder(before["id"]))


def test_a_folder_that_was_changed_since_is_left(desk: Desk, tmp_path: Path) -> None:
    number = folder(desk, tmp_path)["id"]
    desk.live.send(calls.edit_folder(number, priority=1))
    with database(desk.live) as db:
        db.execute("UPDATE folder SET priority = 2 WHERE id = ?", (number,))
    assert words.sentence(undo(desk.live)) == f"nothing undone; {tmp_path}: it was changed since"
    assert rules(desk.live, number)["priority"] == 2
    desk.live.send(calls.remove_folder(number))


# Videos.


def test_a_deleted_video_comes_back_with_its_waiting_job(desk: Desk) -> None:
    job = desk.job(priority=4)
    before, video = kept(desk.show(job)), desk.show(job)["video"]
    desk.live.send(calls.delete_video(video))
    assert desk.show(job)["status"] == "cancelled"
    answer = undo(desk.live)
    assert words.sentence(answer) == f"video {answer['subject']} is back"
    assert kept(desk.show(job)) == before


def test_a_video_that_was_brought_back_is_left(desk: Desk) -> None:
    video = desk.show(desk.job())["video"]
    desk.live.send(calls.delete_video(video))
    desk.live.send(calls.undelete_video(video))
    assert "it was changed since" in words.sentence(undo(desk.live))


# Time and persons.


def test_a_restart_forgets_nothing_and_a_day_everything(
    tmp_path: Path, make_supervisor: MakeSupervisor
) -> None:
    live = make_supervisor(tmp_path / "home")
    live.start()
    live.send(calls.worker_action("cpu-0", "disable"))
    desk = Desk(live, tmp_path)
    first, second = desk.job(), desk.job()
    desk.act("pause", first)
    desk.act("cancel", second)
    live.stop()
    live.start()
    assert undo(live)["operation"] == "cancel"
    assert desk.show(second)["status"] == "pending"
    with database(live) as db:
        db.execute("UPDATE undo SET at = at - 86400000000")
    assert undo(live)["operation"] is None
    assert desk.show(first)["status"] == "paused"


def test_each_person_undoes_what_that_person_did(studio: Studio, tmp_path: Path) -> None:
    desk, other = Desk(studio.live, tmp_path), studio.client(studio.token("anna", "operate"))
    mine, theirs = desk.job(), desk.job()
    other.send(calls.act("pause", [theirs]))
    desk.act("pause", mine)
    assert other.send(calls.undo("theirs"))["subject"].startswith(f"job {theirs}, ")
    assert (desk.show(mine)["status"], desk.show(theirs)["status"]) == ("paused", "pending")
    assert other.send(calls.undo("nothing left"))["operation"] is None
    assert undo(studio.live)["subject"].startswith(f"job {mine}, ")


# Jobs that match a filter.


def bulk(desk: Desk, operation: str, line: str, **more: Any) -> Any:
    newest = desk.live.send(calls.jobs(sort="-number", limit=1))["jobs"][0]["id"]
    given = {"newest": newest, "key": f"bulk {next(_keys)}"} | more
    return desk.live.send(calls.act_on_matching(operation, line, **given))


def test_what_matches_a_filter_is_changed_and_undone_together(desk: Desk) -> None:
    ids = [desk.job(batch="bulk") for _ in range(4)]
    desk.act("cancel", ids[3])
    answer = bulk(desk, "pause", "batch:bulk", newest=ids[3])
    assert (answer["done"], answer["skipped"], answer["after"]) == (3, {"cancelled": 1}, None)
    assert "is cancelled; retry it first" in answer["reason"]
    assert [desk.show(job)["status"] for job in ids] == ["paused"] * 3 + ["cancelled"]
    assert words.sentence(undo(desk.live)) == "resumed 3 jobs again"


def test_jobs_that_came_later_or_match_no_more_are_left(desk: Desk) -> None:
    first, second, third, later = (desk.job(batch="some") for _ in range(4))
    desk.act("pause", second)
    answer = bulk(desk, "cancel", "batch:some state:pending", newest=third)
    assert answer["done"] == 2
    states = [desk.show(job)["status"] for job in (first, second, third, later)]
    assert states == ["cancelled", "paused", "cancelled", "pending"]


def test_a_slice_that_is_asked_for_again_is_applied_once(desk: Desk) -> None:
    job = desk.job(batch="once", priority=0)
    first = bulk(desk, "priority", "batch:once", delta=1, key="the same slice")
    assert bulk(desk, "priority", "batch:once", delta=1, key="the same slice") == first
    assert desk.show(job)["priority"] == 1


def test_slices_follow_each_other(desk: Desk) -> None:
    ids = [desk.job(batch="slices") for _ in range(2)]
    answer = bulk(desk, "pause", "batch:slices", after=ids[0])
    assert answer["done"] == 1
    assert [desk.show(job)["status"] for job in ids] == ["pending", "paused"]

"""A backup is taken while jobs run, and a restored one does no harm to what came after it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness import LiveSupervisor, MakeSupervisor
from tqstudio import paths
from tqstudio.protocol import calls
from waiting import until

from .test_completion import bench_of, complete


def publish(live: LiveSupervisor, path: Path, out: Path) -> tuple[int, Any]:
    """Make a ladder of a file by hand; the job and the video."""
    path.write_bytes(path.name.encode() * 20)
    call = calls.add([paths.encode(path)], output_b64=paths.encode(out))
    [added] = live.send(call)["results"]
    worker = live.worker("by-hand").register()
    job = until(worker.claim, "the job")
    assert job["job"] == added["job"]
    bench = bench_of(job)
    bench.rendition("360p", f"of-{path.name}-{path.stat().st_mtime_ns}")
    assert complete(worker, job, bench)[1]["status"] == "done"
    return job["job"], live.send(calls.video(job["video"]))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@pytest.mark.slow
@pytest.mark.fault(
    "An older backup is restored",
    "Later ladders keep playing; unknown jobs are `NOT_FOUND` to late workers",
    area="database",
)
def test_a_restored_backup_comes_up_and_leaves_later_ladders_alone(
    make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    out, copy = tmp_path / "out", tmp_path / "kept\u3000\n" / "copy.db"
    live = make_supervisor().start()
    live.send(calls.worker_action("cpu-0", "disable"))
    known, _ = publish(live, tmp_path / "early.mp4", out)
    answer = live("backup", copy, "--json")
    assert answer.code == 0, answer.err
    assert answer.json() == {
        "path": str(copy),
        "path_b64": paths.encode(copy),
        "size": copy.stat().st_size,
    }
    assert copy.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in copy.parent.iterdir()] == [copy.name]
    again = live("backup", copy)
    assert (again.code, "REFUSED" in again.err) == (4, True)
    assert paths.display(os.fsencode(copy.parent)) in live("backup", copy.parent).out
    assert len(list(copy.parent.iterdir())) == 2, "into a folder, under a name of its own"

    later, video = publish(live, tmp_path / "later.mp4", out)
    played = contents(out / video["slug"])
    live.stop()
    for left in live.home.root.glob("tqstudio.db*"):
        left.unlink()
    shutil.copyfile(copy, live.home.database)

    live = make_supervisor().start()
    assert live.send(calls.job(known))["status"] == "done"
    worker = live.worker("late").register()
    report = {"instance": worker.instance, "epoch": 1, "step": "transcode", "progress": 50}
    status, refused = worker.post(f"jobs/{later}/progress", **report)
    assert (status, refused["error"]["code"]) == (404, "NOT_FOUND")
    _, republished = publish(live, tmp_path / "later.mp4", out)
    assert republished["id"] == video["id"], "the number is given again"
    assert republished["slug"] != video["slug"]
    assert contents(out / video["slug"]) == played


@pytest.mark.more
def test_without_a_supervisor(make_supervisor: MakeSupervisor) -> None:
    live = make_supervisor()
    live.home.database.unlink()
    nothing = live("backup")
    assert (nothing.code, "NOT_FOUND" in nothing.err) == (4, True)
    live.start()
    live.send(calls.pause_queue("kept"))
    live.stop()
    answer = live("backup", "--json")
    assert answer.code == 0, answer.err
    made = Path(answer.json()["path"])
    assert made.parent == live.home.backups
    with closing(sqlite3.connect(made)) as db:
        assert db.execute("SELECT reason FROM gate").fetchall() == [("kept",)]
    missing = live("backup", os.devnull + "/x.db")
    assert missing.code != 0
    assert "PERMISSION" in missing.err


@pytest.mark.slow
def test_a_damaged_database_stops_the_start(make_supervisor: MakeSupervisor) -> None:
    live = make_supervisor().start()
    live.stop()
    with live.home.database.open("r+b") as file:
        file.write(b"\0" * 100)
    before = live.home.database.read_bytes()
    answer = live("up", "--detach")
    assert answer.code == 5
    assert "DATABASE_DAMAGED" in answer.err
    assert str(live.home.database) in answer.err
    assert "backup" in answer.err
    assert live.home.database.read_bytes() == before

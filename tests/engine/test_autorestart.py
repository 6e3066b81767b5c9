"""Autorestart through the real supervisor: per job, per folder, and as it is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tqstudio import paths
from tqstudio.errors import TqError
from tqstudio.protocol import calls
from waiting import until

from .conftest import Desk


def fail(desk: Desk, job: int, code: str = "ENCODER_EXIT") -> None:
    worker = desk.worker()
    claimed = until(worker.claim, "it can be claimed")
    assert claimed["job"] == job
    worker.send(f"jobs/{job}/fail", epoch=claimed["epoch"], code=code, text=f"seeded {claimed['epoch']}")


def rule(desk: Desk, job: int) -> dict[str, Any]:
    return dict(desk.show(job)["autorestart"])


@pytest.mark.fault(
    "A job with autorestart fails for a reason that no retry can fix",
    "Not restarted until a person retries it",
    area="workers",
)
def test_a_fatal_error_denies_it_until_a_user_retries(desk: Desk) -> None:
    job = desk.job(priority=1000, autorestart=1, autorestart_delay_s=0)
    expected = {"state": "enabled", "limit": 1, "delay_s": 0, "restarts": 0, "last_at": None, "next_at": None}
    assert rule(desk, job) == expected
    fail(desk, job, "NO_MEDIA")
    assert rule(desk, job) == expected | {"state": "denied"}
    desk.act("retry", job)
    assert rule(desk, job) == expected


def test_a_failed_job_is_requeued_by_itself(desk: Desk) -> None:
    job = desk.job(priority=1000, autorestart=1, autorestart_delay_s=0)
    for _ in range(3):
        fail(desk, job)
        until(lambda: desk.show(job)["status"] != "in_progress", "it ended")
        desk.act("pause", job)  # its backoff
        desk.act("resume", job)
    row = until(
        lambda: shown if (shown := desk.show(job))["autorestart"]["restarts"] else None, "it went again"
    )
    assert (row["status"], row["attempts"], row["autorestart"]["state"]) == ("pending", 0, "in_progress")
    assert row["autorestart"]["last_at"] is not None
    assert "autorestart" in [event["trigger"] for event in row["events"]]


def test_the_next_restart_is_predicted(desk: Desk) -> None:
    job = desk.job(priority=1000, autorestart=3, autorestart_delay_s=3600)
    for _ in range(3):
        fail(desk, job)
        desk.act("pause", job)
        desk.act("resume", job)
    shown = rule(desk, job)
    assert (shown["state"], shown["last_at"]) == ("enabled", None)
    assert shown["next_at"] is not None


def test_files_of_a_folder_have_its_rule(desk: Desk, tmp_path: Path) -> None:
    drop = tmp_path / "drop"
    drop.mkdir()
    call = calls.add_folder(paths.encode(drop), autorestart=2, autorestart_delay_s=7, settle_s=0)
    folder = desk.live.send(call)
    try:
        assert (folder["autorestart"], folder["autorestart_delay_s"]) == (2, 7)
        (drop / "from-a-folder.mp4").write_bytes(b"video of a folder")

        def job() -> Any:
            found = desk.live.send(calls.jobs("from-a-folder"))["jobs"]
            return found[0]["id"] if found else None

        shown = rule(desk, until(job, "the file was taken"))
        assert (shown["state"], shown["limit"], shown["delay_s"]) == ("enabled", 2, 7)
        changed = desk.live.send(calls.edit_folder(folder["id"], autorestart=0))
        assert (changed["autorestart"], changed["autorestart_delay_s"]) == (0, 7)
    finally:
        desk.live.send(calls.remove_folder(folder["id"]))


def test_a_waiting_job_takes_the_rule_over(desk: Desk) -> None:
    path = desk.file()
    [first] = desk.add(path)
    [again] = desk.add(path, autorestart=4)
    assert (again["decision"], again["applied"]) == ("waiting", {"autorestart": 4})
    assert (rule(desk, first["job"])["limit"], rule(desk, first["job"])["delay_s"]) == (4, 60)
    [same] = desk.add(path)
    assert same["applied"] == {}
    assert rule(desk, first["job"])["limit"] == 4, "what is not asked for stays"


def test_a_delay_alone_is_refused(desk: Desk) -> None:
    with pytest.raises(TqError, match="without autorestart"):
        desk.add(desk.file(), autorestart_delay_s=5)

"""Jobs whose source changed while it was encoded, and the files that they wait for."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from store.conftest import Queue
from tqstudio.engine.files.bounded_io import BoundedIO
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.queue.changed_sources import ChangedSources
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import claims
from tqstudio.errors import ErrorCode
from tqstudio.protocol import calls
from waiting import until

from .conftest import Desk


class Waiting:
    """A job that waits for its source."""

    def __init__(self, db: Database, path: Path, settle_s: float = 0.0) -> None:
        self.db, self.path, self.woken = db, path, 0
        path.write_bytes(b"a film")
        self.sources = ChangedSources(db, BoundedIO(), settle_s, self._wake)
        self.job = db.write_now(self._begin)

    def _begin(self, db: Connection) -> int:
        queue = Queue(db)
        lease = queue.claimed()
        source = {"source": os.fsencode(self.path), "id": lease.video}
        db.execute("UPDATE video SET source = :source WHERE id = :id", source)
        queue.fail(lease, ErrorCode.SOURCE_CHANGED)
        return lease.job

    def _wake(self) -> None:
        self.woken += 1

    def look(self) -> bool:
        """Look once; return whether the job may be claimed now."""
        asyncio.run(self.sources.tick())
        return self.db.read_now(lambda db: claims.is_ready(db, self.job))


def test_a_file_has_settled_when_it_is_the_same_for_long_enough(opened: Database, tmp_path: Path) -> None:
    waiting = Waiting(opened, tmp_path / "film.mp4", settle_s=0.3)
    assert not waiting.look()
    assert waiting.woken == 0
    with waiting.path.open("ab") as file:
        file.write(b" that grows")
    assert not waiting.look(), "it is another file now"
    until(waiting.look, "it has settled")
    assert waiting.woken == 1


def test_a_file_that_is_open_for_writing_is_waited_for(opened: Database, tmp_path: Path) -> None:
    waiting = Waiting(opened, tmp_path / "film.mp4")
    with waiting.path.open("ab"):
        assert not waiting.look()
        assert not waiting.look()
    assert waiting.look()


def test_the_wait_for_a_file_that_is_still_written_has_no_end(opened: Database, tmp_path: Path) -> None:
    waiting = Waiting(opened, tmp_path / "film.mp4", settle_s=3600)

    def ends_at(db: Connection) -> int:
        found = db.execute("SELECT not_before FROM job WHERE id = :id", {"id": waiting.job})
        return int(found.scalar_one())

    def nearly_over(db: Connection) -> None:
        db.execute("UPDATE job SET not_before = 1 WHERE id = :id", {"id": waiting.job})

    opened.write_now(nearly_over)
    assert not waiting.look()
    assert opened.read_now(ends_at) > now_us()


def test_a_file_that_is_gone_is_left_to_its_job(opened: Database, tmp_path: Path) -> None:
    waiting = Waiting(opened, tmp_path / "film.mp4", settle_s=3600)
    waiting.path.unlink()
    assert waiting.look()


@pytest.mark.fault(
    "A source is still written while it is encoded",
    "The job waits until the file has settled, uncounted; after ten changes, and in `process`, it fails",
    area="resume",
)
def test_a_job_is_claimed_again_once_its_source_has_settled(desk: Desk) -> None:
    path = desk.file()
    [added] = desk.add(path, priority=1000)
    worker = desk.worker()
    first = worker.claim()
    with path.open("ab"):
        failed = {"code": "SOURCE_CHANGED", "text": "it changed", "hint": ""}
        answer = worker.post(
            f"jobs/{added['job']}/fail", instance=worker.instance, epoch=first["epoch"], **failed
        )
        assert answer == (200, {"job": added["job"], "status": "pending"})
        row = desk.show(added["job"])
        assert (row["attempts"], row["error"]["code"]) == (0, "SOURCE_CHANGED")
    again = until(worker.claim, "the file has settled")
    assert (again["job"], again["epoch"]) == (added["job"], first["epoch"] + 1)
    desk.live.send(calls.act("cancel", [added["job"]]))

"""The disk of the database answers writes with errors while a real worker encodes."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import psutil
import pytest

from tqstudio.errors import TqError
from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeClip, MakeStudio
from .ladder import check_ladder
from .studio import Studio

_LIMIT = 4096
"""Shorter than the first frame of a write-ahead log, longer than the lines that are counted."""


@contextmanager
def failing_writes(studio: Studio) -> Iterator[None]:
    """The kernel refuses what the supervisor writes to a file behind `_LIMIT`, as with a quota that is used
    up: SQLite calls that an I/O error."""
    supervisor = psutil.Process(studio.process.pid)
    before = supervisor.rlimit(resource.RLIMIT_FSIZE)
    supervisor.rlimit(resource.RLIMIT_FSIZE, (_LIMIT, before[1]))
    try:
        yield
    finally:
        supervisor.rlimit(resource.RLIMIT_FSIZE, before)


def _refused(studio: Studio) -> TqError | None:
    try:
        studio.client.send(calls.pause_queue("to see whether it can be written"))
        studio.client.send(calls.resume_queue())
    except TqError as error:
        return error
    return None


@pytest.mark.slow
@pytest.mark.fault(
    "The disk of the database fails writes, or a quota is used up",
    "The same with `DATABASE_UNWRITABLE`",
    area="database",
)
def test_changes_are_refused_and_the_job_is_done_in_its_first_attempt(
    make_studio: MakeStudio, clip: MakeClip, copy
) -> None:
    studio = make_studio(lease_s=2, heartbeat_s=0.5, lease_scan_s=0.5).up()
    with studio.paced(2):
        job = studio.add(copy(clip(seconds=24), "long.mp4"))
        studio.running(job)
    os.truncate(studio.home.supervisor_log, 0)
    with failing_writes(studio):
        refused = until(lambda: _refused(studio), "changes are refused")
        assert refused.code == "DATABASE_UNWRITABLE"
        assert f"the disk of the database {studio.home.database} cannot be written" in refused.message
        assert "quota" in refused.hint
        # What is wrong is reported, and what runs continues.
        [gate] = studio.status()["gates"]
        assert (gate["kind"], gate["reason"]) == ("disk", refused.message)
        assert "check that disk" in gate["hint"]
        answer = studio("add", copy(clip(), "other.mp4"))
        assert answer.code != 0
        assert "DATABASE_UNWRITABLE" in answer.err
        assert "cannot be written" in studio("doctor").out
        # Longer than a lease, and to the last segment.
        expires = datetime.fromisoformat(studio.job(job)["lease_expires_at"])
        until(lambda: datetime.now(UTC) > expires, "longer than a lease")
        until(lambda: not studio.encoders(), "everything is encoded")
        held = studio.job(job)
        assert (held["status"], held["worker"], held["lease_epoch"]) == ("in_progress", "cpu-0", 1)
        lines = studio.home.supervisor_log.read_text().splitlines()
        assert len([line for line in lines if "cannot be written" in line]) == 1
        assert len(lines) < 10, lines
    done = studio.done(job)
    assert (done["attempts"], done["crashes"], len(done["attempts_log"])) == (0, 0, 1)
    assert not studio.status()["gates"]
    master = Path(done["video_view"]["generation"]["master"])
    check_ladder(master, frames=600, fps=Fraction(25), names=("180p", "120p", "90p"))

"""What a worker of another machine does between two jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tqstudio.engine.worker.reporting.outcome import Failed
from tqstudio.errors import ErrorCode
from tqstudio.protocol.remote import Remote
from tqstudio.wings.remote.worker.jobs import RemoteJobs


@pytest.mark.parametrize(
    ("code", "in_mount", "rest_s"),
    [
        (ErrorCode.DISK_LOW, False, 300.0),
        (ErrorCode.OUTPUT_UNAVAILABLE, False, 300.0),
        # The source is copied the next time, for which there is space.
        (ErrorCode.SOURCE_CHANGED, True, 0.0),
        (ErrorCode.NO_MEDIA, False, 0.0),
    ],
)
def test_it_rests_after_a_job_that_lacked_space(
    tmp_path: Path, code: ErrorCode, in_mount: bool, rest_s: float
) -> None:
    mount = tmp_path / "mount"
    at = Remote("nas", "127.0.0.1", 1, "token", None)
    jobs = RemoteJobs(at, "instance", tmp_path / "work", shared=(mount,))
    assert jobs.between_jobs() == 0
    inputs: Any = {"files": [{"version": "1-2-3-4"}]}
    outcome = jobs._as_of_worker(Failed(code, "x", "y"), inputs, mount if in_mount else tmp_path, 7)
    assert isinstance(outcome, Failed)
    assert (outcome.code is ErrorCode.WORKER_DISK) == (code is not ErrorCode.NO_MEDIA)
    assert (jobs.between_jobs(), jobs.between_jobs()) == (rest_s, 0)

"""A worker's own lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import tqstudio

_DIES = """
import os
import sys
import structlog
from tqstudio.engine.worker.reporting import logging_setup
logging_setup.configure("cpu-0")
log = structlog.get_logger()
home = os.environ["TQSTUDIO_HOME"]
log.info("before", path=f"{home}/tmp", source="/films/a b.mp4")
logging_setup.set_roots("/films")
log.info("with a job", path=f"{home}/tmp", source="/films/a b.mp4")
open(f"{home}/not there")
"""


def test_they_name_no_root_and_report_what_the_worker_died_of(tmp_path: Path) -> None:
    died = subprocess.run(
        [sys.executable, "-P", "-c", _DIES],
        env={"TQSTUDIO_HOME": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert died.returncode == 1
    before, with_a_job, last = died.stderr.splitlines()
    assert before.endswith('level=info worker=cpu-0 event=before path=tmp source="/films/a b.mp4"')
    assert with_a_job.endswith('event="with a job" path=tmp source="a b.mp4"')
    assert 'level=critical worker=cpu-0 event="worker crashed" exception="Traceback' in last
    assert "'not there'" in last
    assert str(tmp_path) not in died.stderr
    assert str(Path(tqstudio.__file__).parents[1]) not in died.stderr

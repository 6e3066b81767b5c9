"""In which order the parts of a supervisor start, and end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness import MakeSupervisor
from tqstudio.engine import program
from waiting import until

STARTS = [
    "HomeLock.acquire",
    "require_intact",
    "Database.open",
    "become_subreaper",
    "OutputLocks.acquire",
    "Recovery.begin",
    "WorkerPool.prepare",
    "Publisher.undo_leftovers",
    "Forecasts.load",
    "ApiTokens.load",
    "end_orphans",
    "Doors.start",
    "HomeGuard.open_socket",
    "make_app",
    "Dormant.start",
    "Timetable.start",
    "Prober.start",
    "Intake.start",
    "leave_output",
]
ENDS = [
    "Shutdown.request_by_signal",
    "Dispatcher.close",
    "ServiceManager.draining",
    "Shutdown.until_due",
    "ServiceManager.stopping",
    "Admission.stop",
    "Intake.stop",
    "Prober.stop",
    "LocalWorkers.stop",
    "WorkerPool.stop",
    "Timetable.stop",
    "Dormant.stop",
    "EventStream.stop",
    "Doors.stop",
    "HomeGuard.close_socket",
    "Recovery.stop",
    "Reports.stop",
    "Supervisor._end",
    "Database.close",
    "HomeLock.release",
]
_PROGRAM = f"""
import signal, sys, threading
from pathlib import Path
from tqstudio.config import load_settings
from tqstudio.home import current_home
from {program.__name__} import run

order, phases = open(sys.argv[1], "a", buffering=1), [{STARTS!r}, {ENDS!r}]
seen = set()

def called(frame, event, _):
    name = frame.f_code.co_qualname
    if event == "call" and name == "Shutdown.request_by_signal":
        phases[:1] = []
        seen.clear()
    if event == "call" and name in phases[0] and name not in seen and "tqstudio" in frame.f_code.co_filename:
        seen.add(name)
        print(name, file=order)

settings = load_settings(current_home())
threading.setprofile(called)
sys.setprofile(called)
run(current_home(), settings)
"""


@pytest.mark.slow
def test_parts_start_and_end_in_their_order(make_supervisor: MakeSupervisor, tmp_path: Path) -> None:
    home, order = make_supervisor(), tmp_path / "order"
    order.touch()
    environment = home.environment | {"TQSTUDIO_WORKERS": "1"}
    running = subprocess.Popen([sys.executable, "-P", "-c", _PROGRAM, order], env=environment)
    try:
        until(lambda: STARTS[-1] in order.read_text().split(), "all parts have started")
    finally:
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    named = order.read_text().split()
    assert named == [*STARTS, *ENDS]

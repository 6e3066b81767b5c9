"""A place at which a test ends the supervisor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from tqstudio.engine.host import failpoints

_PROGRAM = """
import os
from tqstudio.engine.host import failpoints
failpoints.reach("here")
failpoints.arm()
assert failpoints.VARIABLE not in os.environ, "its children do not inherit it"
print("armed", flush=True)
failpoints.reach("there")
print("passed", flush=True)
failpoints.reach("here")
print("survived", flush=True)
"""


def _run(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_process_dies_at_the_place_that_is_named_and_at_no_other() -> None:
    done = _run(**{failpoints.VARIABLE: "here"})
    assert (done.returncode, done.stdout.split()) == (-signal.SIGKILL, ["armed", "passed"])


def test_without_the_variable_nothing_happens() -> None:
    done = _run()
    assert (done.returncode, done.stdout.split()) == (0, ["armed", "passed", "survived"])

"""How long commands take that only talk to the supervisor, against a Python that does nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.options import Options
from benchmarks.report import Section, at_most
from benchmarks.seeding import seed
from benchmarks.studio import studio, tqstudio
from tqstudio.home import Home

_JOBS = 1_000


def measure(options: Options, root: Path) -> Section:
    section = Section(
        "Commands", f"a queue of {_JOBS} jobs; each command {options.starts} times, taking turns"
    )
    home = Home(root / "home")
    seed(home, _JOBS)
    cases = {
        "`python -c pass`": [sys.executable, "-c", "pass"],
        "`tqstudio --help`": [*tqstudio(), "--help"],
        "`tqstudio status`": [*tqstudio(), "status"],
        "`tqstudio job list`": [*tqstudio(), "job", "list"],
        "`tqstudio job show 1`": [*tqstudio(), "job", "show", "1"],
    }
    seconds: dict[str, list[float]] = {case: [] for case in cases}
    with studio(home.root) as running:
        # Once unmeasured, so that all of it is in the page cache and compiled.
        for measured in [False] + [True] * options.starts:
            for case, command in cases.items():
                began = time.perf_counter()
                subprocess.run(
                    command,
                    env=running.environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    check=True,
                )
                if measured:
                    seconds[case].append(time.perf_counter() - began)
    for case, taken in seconds.items():
        section.add(case, taken, "s", at_most(0.25) if "tqstudio" in case else None)
    return section

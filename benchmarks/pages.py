"""How fast the API answers a page of a long list, whole and ready to be read."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.parse import quote

from benchmarks.options import Options
from benchmarks.raw_client import RawClient
from benchmarks.report import Section, at_most, count, percentile
from benchmarks.seeding import COMMON, FAR, FOLDER, OWNER, RARE, SCATTERED, SCATTERED_EVERY, seed
from benchmarks.studio import studio
from tqstudio.home import Home

LIMIT = 50
FIRST = f"/v1/jobs?limit={LIMIT}"


def measure(options: Options, root: Path) -> Section:
    home = Home(root / "home")
    seed(home, options.list_jobs)
    section = Section(
        f"A page of {LIMIT} jobs through the API",
        f"{count(options.list_jobs)} jobs in the table; {options.rounds} rounds of {options.pages} pages of"
        " each kind; a figure is the median of a round, the slowest page stands below it",
    )
    asked = cases(options.list_jobs)
    medians: dict[str, list[float]] = {case: [] for case in asked}
    slowest: dict[str, list[float]] = {case: [] for case in asked}
    with studio(home.root) as running:
        line = running.line()
        for case, path in asked.items():
            if not json.loads(line.ask("GET", path))["jobs"] and "no match" not in case:
                raise RuntimeError(f"{case}: nothing is found")
        for _ in range(options.rounds):
            for case, path in asked.items():
                seconds = ask(line, path, options.pages)
                medians[case].append(percentile(seconds, 50) * 1000)
                slowest[case].append(max(seconds) * 1000)
        line.close()
    for case in asked:
        floor = 1_000 if FAR in asked[case] else 300 if "filter=" in asked[case] else 100
        section.add(case, medians[case], "ms", at_most(floor))
        section.add(f"{case}, slowest", slowest[case], "ms")
    return section


def ask(line: RawClient, path: str, times: int) -> list[float]:
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        line.ask("GET", path)
        seconds.append(time.perf_counter() - began)
        # No client asks for one page a thousand times; a slow kind is known after two seconds.
        if sum(seconds) > 2:
            break
    return seconds


def cases(jobs: int) -> dict[str, str]:
    """What is asked for, by its name."""
    waiting, done = jobs // 2 // 10 * 10 + 1, jobs // 2 // 10 * 10 + 7
    return {
        "first page": FIRST,
        "around a waiting job in the middle": f"{FIRST}&around={waiting}",
        "around a done job, deep": f"{FIRST}&around={done}",
        "newest first, around the middle": f"{FIRST}&sort=newest&around={waiting}",
        "newest first, the last page": f"{FIRST}&sort=newest&before=end",
        "by name": f"{FIRST}&sort=name",
        "by name, the last page": f"{FIRST}&sort=name&before=end",
        "largest first, around the middle": f"{FIRST}&sort=-size&around={waiting}",
        "longest first, the failed": f"{FIRST}&sort=-length&filter=state:failed",
        "latest ended first": f"{FIRST}&sort=-ended",
        "only the failed": f"{FIRST}&filter=state:failed",
        f"a folder with one of {SCATTERED_EVERY}": f"{FIRST}&filter=folder:{FOLDER}",
        "a kind and an owner of few": f"{FIRST}&filter=kind:retranscode%20owner:{OWNER}",
        "a kind with no match, newest first": f"{FIRST}&filter=kind:changed&sort=newest",
        "a code with no match": f"{FIRST}&filter=code:REPEATED_CRASHES",
        "a quality with no match": f"{FIRST}&filter=quality:none",
        "older and larger with no match, by name": f"{FIRST}&filter=older:9999w%20larger:999T&sort=name",
        "text in every tenth name": f"{FIRST}&filter={COMMON}",
        "text in every tenth name, by name": f"{FIRST}&filter={COMMON}&sort=name",
        "text in every tenth name, around the middle": f"{FIRST}&filter={COMMON}&around={waiting}",
        "text in few names": f"{FIRST}&filter={RARE}",
        f"text in one of {SCATTERED_EVERY} names": f"{FIRST}&filter={SCATTERED}",
        f"one of {SCATTERED_EVERY}, newest first": f"{FIRST}&filter={SCATTERED}&sort=newest",
        f"one of {SCATTERED_EVERY}, among the done": f"{FIRST}&filter={SCATTERED}%20state:done",
        "all matches at the far end": f"{FIRST}&filter={FAR}&sort=newest",
        "text and a state with no match": f"{FIRST}&filter={COMMON}%20state:done",
        "two words with no match": f"{FIRST}&filter={COMMON}%20{SCATTERED}",
        "one letter with no match": f"{FIRST}&filter=z",
        "two letters with no match": f"{FIRST}&filter=zq",
        "two letters with no match, newest first": f"{FIRST}&filter=zq&sort=newest",
        "a letter beyond ASCII with no match": f"{FIRST}&filter={quote('ø')}",
    }

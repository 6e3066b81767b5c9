"""How fast statistics are added up, of a month with a million attempts."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from benchmarks.options import Options
from benchmarks.raw_client import RawClient
from benchmarks.report import Section, at_most, count
from benchmarks.seeding import seed
from benchmarks.studio import studio
from tqstudio.engine.host.clock import now_us
from tqstudio.home import Home

_SPAN_US = 29 * 86_400 * 1_000_000


def measure(options: Options, root: Path) -> Section:
    home = Home(root / "home")
    seed(home, 10)
    _fill(home, options.list_jobs)
    section = Section(
        "Statistics of a month",
        f"{count(options.list_jobs)} attempts of 8 workers and 1 000 batches; {options.rounds} rounds",
    )
    with studio(home.root) as running:
        line = running.line()
        for by in ("day", "worker", "batch"):
            taken = [_ask_s(line, f"/v1/stats?by={by}") for _ in range(options.rounds)]
            section.add(f"by {by}", taken, "s", at_most(3))
        line.close()
    return section


def _fill(home: Home, rows: int) -> None:
    """Store attempts that ended in equal distances until now."""
    db = sqlite3.connect(home.database, isolation_level=None)
    try:
        db.execute("BEGIN")
        db.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :rows)"
            " INSERT INTO statistic (at, job_id, epoch, status, worker, batch, wall_s, cpu_s, media_s,"
            " bytes_in, bytes_out, eta_error_percent)"
            " SELECT :now - :span + i * (:span / :rows), i, 1, iif(i % 20, 'done', 'failed'),"
            " 'cpu-' || (i % 8), 'batch-' || (i * 1000 / :rows),"
            " 60.5, 200.1, 120.0, 250000000, 100000000, i % 60 FROM n",
            {"rows": rows, "now": now_us(), "span": _SPAN_US},
        )
        db.execute("COMMIT")
    finally:
        db.close()


def _ask_s(line: RawClient, path: str) -> float:
    began = time.perf_counter()
    line.get(path)
    return time.perf_counter() - began

"""`stats`: throughput, speed, bytes, processor time and errors of estimates, by hour, day, batch or
worker."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer

from tqstudio.cli.session.supervisor_session import client
from tqstudio.cli.terminal import printing
from tqstudio.cli.terminal.options import JsonFlag, parse_since
from tqstudio.protocol import calls
from tqstudio.wings.statistics.figures import FIGURES, series, values, videos_of
from tqstudio.words import format as fmt
from tqstudio.words.symbols import choose_glyphs


class By(StrEnum):
    HOUR = "hour"
    DAY = "day"
    BATCH = "batch"
    WORKER = "worker"


def stats(
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="12h|7d|TIME", help="Since then; by default 30 days, of hours 48."),
    ] = None,
    by: Annotated[
        By, typer.Option("--by", metavar="hour|day|batch|worker", help="What to add up by.")
    ] = By.DAY,
    as_json: JsonFlag = False,
) -> int:
    """Show what was done: throughput, speed, bytes and processor time by hour, day, batch or worker.

    MEDIA, IN and OUT count jobs that are done, WORK and CPU all attempts. SPEED is MEDIA ÷ WORK. OFF is the
    median error of the estimates; in column 90%, nine of ten errors were smaller.
    """
    from_then = None if since is None else parse_since(since)
    view = client().send(calls.statistics(by.value, from_then))
    if as_json:
        printing.out_json(view)
        return 0
    if not view["total"]["attempts"]:
        printing.out(f"no attempt has ended since {printing.clock(view['since'])}")
        return 0
    now = datetime.now(UTC).astimezone()
    rows = [(fmt.plain(row["key"]) or "none", *values(row)) for row in view["rows"]]
    last = ("total", *values(view["total"]))
    if by in (By.HOUR, By.DAY) and len(rows) > 1:
        heights = choose_glyphs().heights
        lines = {title: fmt.sparkline(series(view["rows"], key), heights) for title, key, _ in FIGURES}
        for title in ("done", "media", "speed", "cpu"):
            printing.out(f"{title:6} {lines[title]}")
        printing.out()
    heads = (by.value.upper(), *(title.upper() for title, _, _ in FIGURES))
    right = range(1, len(heads))
    if by is By.BATCH:
        # The batch itself stays, because options take it.
        heads, last = (*heads, "VIDEOS"), (*last, "")
        rows = [(*row, "".join(videos_of(each, now))) for row, each in zip(rows, view["rows"], strict=True)]
    printing.table(heads, [*rows, last], right=right, elastic=(len(heads) - 1, 0))
    return 0

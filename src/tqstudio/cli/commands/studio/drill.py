"""`drill`: injects random faults into a sandboxed studio and reports losses."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tqstudio.cli.terminal import printing
from tqstudio.cli.terminal.options import JsonFlag
from tqstudio.words import format as fmt

if TYPE_CHECKING:
    from tqstudio.drill.run import DrillReport


def drill(
    kills: Annotated[int, typer.Option("--kills", "-n", min=1, metavar="N", help="Number of faults.")] = 20,
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="S", help="Repeat the faults of this seed; default: random."),
    ] = None,
    workers: Annotated[
        int, typer.Option("--workers", "-w", min=1, max=16, metavar="N", help="CPU workers.")
    ] = 1,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the sandbox for inspection.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Kill a sandboxed studio at random; what was lost is reported.

    Workers, ffmpeg and the supervisor are killed, stopped and restarted at random times; your own home is not
    touched. Exits with 1 if anything was lost.
    """
    from tqstudio.cli.follow.interrupt import Interrupt
    from tqstudio.drill.run import drill as run
    from tqstudio.drill.sandbox import Sandbox
    from tqstudio.engine.media.ffmpeg.binary import locate

    seed = seed if seed is not None else random.SystemRandom().randrange(1_000_000)
    ffmpeg = locate(None).path
    root = Path(tempfile.mkdtemp(prefix="tqdrill-"))
    printing.err(f"drill sandbox: {root}, seed {seed}; Ctrl-C stops after the current round")
    try:
        with Interrupt() as interrupt:
            report = run(
                Sandbox(root, ffmpeg, workers),
                ffmpeg,
                kills=kills,
                seed=seed,
                log=printing.err,
                asked_to_stop=lambda: interrupt.requested,
            )
    finally:
        if not keep:
            import shutil

            shutil.rmtree(root, ignore_errors=True)
    if as_json:
        printing.out_json(_view(report, seed))
    else:
        _print(report, seed)
    return 1 if report.lost else 0


def _view(report: DrillReport, seed: int) -> dict[str, object]:
    return {
        "seed": seed,
        "faults": dict(report.faults),
        "jobs_done": report.jobs_done,
        "ladders_checked": report.ladders_checked,
        "segments_finished": report.segments_finished,
        "in_flight_s": round(report.in_flight_s, 1),
        "seconds": round(report.seconds, 1),
        "lost": report.lost,
    }


def _print(report: DrillReport, seed: int) -> None:
    total = report.faults.total()
    printing.out(f"{fmt.counted(total, 'fault')} in {fmt.clock_duration(report.seconds)}, seed {seed}")
    for what, count in report.faults.most_common():
        printing.out(f"  {count:5d}  {what}")
    printing.out(f"jobs done            {report.jobs_done}")
    printing.out(f"ladders decoded      {report.ladders_checked}, every frame of every quality")
    printing.out(f"segments finished    {report.segments_finished}")
    printing.out(f"segments re-encoded  {report.segments_made_again}")
    each = report.in_flight_s / total if total else 0.0
    printing.out(f"media in flight      {report.in_flight_s:.1f} s in total, {each:.2f} s per fault")
    printing.out(f"orphaned processes   {report.orphans}")
    for line in report.lost:
        printing.out(printing.painted(f"LOST: {line}", "failed"))
    if not report.lost:
        printing.out(printing.painted("nothing was lost", "done"))

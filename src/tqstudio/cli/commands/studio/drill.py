"""`drill`: injects random faults into a sandboxed studio and reports losses."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tqstudio.cli import printing
from tqstudio.cli.options import JsonFlag

if TYPE_CHECKING:
    from tqstudio.drill.run import Account


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
    """Kill a sandboxed studio at random while it works, and report losses.

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
            account = run(
                Sandbox(root, ffmpeg, workers),
                ffmpeg,
                kills=kills,
                seed=seed,
                say=printing.err,
                asked_to_stop=lambda: interrupt.requested,
            )
    finally:
        if not keep:
            import shutil

            shutil.rmtree(root, ignore_errors=True)
    if as_json:
        printing.out_json(_view(account, seed))
    else:
        _print(account, seed)
    return 1 if account.lost else 0


def _view(account: Account, seed: int) -> dict[str, object]:
    return {
        "seed": seed,
        "faults": dict(account.faults),
        "jobs_done": account.jobs_done,
        "ladders_checked": account.ladders_checked,
        "segments_finished": account.segments_finished,
        "in_flight_s": round(account.in_flight_s, 1),
        "seconds": round(account.seconds, 1),
        "lost": account.lost,
    }


def _print(account: Account, seed: int) -> None:
    total = sum(account.faults.values())
    printing.out(f"{printing.counted(total, 'fault')} in {printing.span(account.seconds)}, seed {seed}")
    for what, count in account.faults.most_common():
        printing.out(f"  {count:5d}  {what}")
    printing.out(f"jobs done            {account.jobs_done}")
    printing.out(f"ladders decoded      {account.ladders_checked}, every frame of every quality")
    printing.out(f"segments finished    {account.segments_finished}")
    printing.out(f"segments re-encoded  {len(account.made_again)}")
    each = account.in_flight_s / total if total else 0.0
    printing.out(f"media in flight      {account.in_flight_s:.1f} s in total, {each:.2f} s per fault")
    printing.out(f"orphaned processes   {account.orphans}")
    for line in account.lost:
        printing.out(printing.painted(f"LOST: {line}", "failed"))
    if not account.lost:
        printing.out(printing.painted("nothing was lost", "done"))

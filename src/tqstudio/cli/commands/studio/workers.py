"""`worker list|enable|disable|drain`, and the worker process itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tqstudio import units
from tqstudio.cli import printing
from tqstudio.cli.options import JsonFlag
from tqstudio.cli.supervisor_session import client, session_for
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol import calls
from tqstudio.words import format as fmt

if TYPE_CHECKING:
    from tqstudio.engine.store.db.connection import Connection

Names = Annotated[
    list[str], typer.Argument(metavar="NAME...", help="Worker names, such as cpu-0.", show_default=False)
]


def list_workers(as_json: JsonFlag = False) -> int:
    """List the workers."""
    workers = client().send(calls.workers())["workers"]
    if as_json:
        printing.out_json({"workers": workers})
        return 0
    printing.table(
        ("WORKER", "KIND", "STATUS", "JOB", "STEP", "SPEED", "CPU", "MEMORY", "BEAT", "ENCODER", "NOTE"),
        [
            (
                worker["name"],
                worker["kind"],
                worker["status"],
                str(worker["job"] or ""),
                worker["step"] or "",
                fmt.speed(worker["speed"]),
                "" if worker["cpu_percent"] is None else f"{worker['cpu_percent']:.0f} %",
                units.size(worker["memory_bytes"]),
                printing.age(worker["last_heartbeat_at"]),
                worker["encoder"] or "",
                worker["note"] or "",
            )
            for worker in workers
        ],
        right=(3, 5, 6, 7, 8),
        elastic=(10,),
        statuses=[worker["status"] for worker in workers],
    )
    return 0


def enable(names: Names, as_json: JsonFlag = False) -> int:
    """Enable workers."""
    return _do("enable", names, as_json)


def disable(names: Names, as_json: JsonFlag = False) -> int:
    """Disable workers; a running job is finished first."""
    return _do("disable", names, as_json)


def drain(names: Names, as_json: JsonFlag = False) -> int:
    """Let workers finish their job and take no more."""
    return _do("drain", names, as_json)


def _do(verb: str, names: list[str], as_json: bool) -> int:
    def known(db: Connection) -> bool:
        from tqstudio.engine.store.machine import workers

        return any(workers.by_name(db, name) for name in names)

    error = TqError(
        ErrorCode.NOT_FOUND, f"there is no worker {names[0]}", "list them with: tqstudio worker list"
    )
    at = session_for(known, error).client
    views = [at.send(calls.worker_action(name, verb)) for name in names]
    if as_json:
        printing.out_json({"workers": views})
        return 0
    for view in views:
        does = "takes jobs"
        if verb != "enable":
            does = "takes no jobs until it is enabled"
            if view["job"] is not None:
                does = f"finishes job {view['job']}, then {does}"
        printing.out(f"{view['name']} ({view['status']}) {does}")
    return 0


def run() -> int:
    """Run a worker process; started by the supervisor."""
    from tqstudio.engine.worker import program

    return int(program.main() or 0)

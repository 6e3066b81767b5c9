"""`worker list|add|remove|enable|disable|drain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tqstudio import units
from tqstudio.cli.session.supervisor_session import SupervisorSession, client, session_for
from tqstudio.cli.terminal import options, printing
from tqstudio.cli.terminal.options import JsonFlag
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import readable
from tqstudio.protocol import calls
from tqstudio.words import format as fmt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tqstudio.engine.store.db.connection import Connection

HEADS = ("WORKER", "KIND", "STATUS", "JOB", "STEP", "SPEED", "CPU", "MEMORY", "BEAT", "ENCODER", "NOTE")
Columns = Annotated[str | None, options.columns(HEADS)]
Names = Annotated[
    list[str], typer.Argument(metavar="NAME...", help="Worker names, such as cpu-0.", show_default=False)
]


def list_workers(
    columns: Annotated[str | None, options.columns(HEADS)] = None, as_json: JsonFlag = False
) -> int:
    """List the workers."""
    workers = client().send(calls.workers())["workers"]
    if as_json:
        printing.out_json({"workers": workers})
        return 0
    printing.table(
        HEADS,
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
        columns=columns,
    )
    return 0


def _command(verb: str, about: str) -> Callable[..., int]:
    def command(names: Names, as_json: JsonFlag = False) -> int:
        at = _session(names).client
        known = {worker["name"] for worker in at.send(calls.workers())["workers"]}
        if unknown := [name for name in names if name not in known]:
            raise _unknown(unknown[0])
        views = [at.send(calls.worker_action(name, verb)) for name in names]
        if as_json:
            printing.out_json({"workers": views})
            return 0
        for view in views:
            does = "takes jobs" if verb == "enable" else "takes no jobs until it is enabled"
            if verb != "enable" and view["job"] is not None:
                does = f"finishes job {view['job']}, then {does}"
            printing.out(f"{view['name']} ({view['status']}) {does}")
        return 0

    command.__doc__ = about
    return command


enable = _command("enable", "Enable workers.")
disable = _command("disable", "Disable workers; a running job is finished first.")
drain = _command("drain", "Let workers finish their job; they take no more.")


def add(as_json: JsonFlag = False) -> int:
    """Start one more CPU worker on this machine.

    It ends with the supervisor; the setting `workers` is their number at the start.
    """
    view = client().send(calls.add_worker())
    lasts = "until the supervisor ends; the setting workers is their number at the start"
    return printing.answer(view, f"{view['name']} is {view['status']} {lasts}", as_json)


def remove(names: Names, as_json: JsonFlag = False) -> int:
    """End workers and take them off the list.

    A running job is requeued, with its finished segments. Workers of GPUs can only be disabled; of another
    machine its token is revoked.
    """
    at = client()
    known = {worker["name"] for worker in at.send(calls.workers())["workers"]}
    if unknown := [name for name in names if name not in known]:
        raise _unknown(unknown[0])
    answers = [at.send(calls.remove_worker(name)) for name in names]
    if as_json:
        printing.out_json({"workers": answers})
        return 0
    for answer in answers:
        requeued = "" if answer["job"] is None else f"; job {answer['job']} is requeued"
        printing.out(f"{answer['removed']} is removed{requeued}")
    return 0


def _session(names: Sequence[str]) -> SupervisorSession:
    """The supervisor for a change of workers, at least one of which exists."""

    def known(db: Connection) -> bool:
        from tqstudio.engine.store.machine import workers

        return any(workers.by_name(db, name) for name in names)

    return session_for(known, _unknown(names[0]))


def _unknown(name: str) -> TqError:
    what = f"there is no worker {readable(name)}; nothing was changed"
    return TqError(ErrorCode.NOT_FOUND, what, "list them with: tqstudio worker list")

"""`status`: shows supervisor, queue, workers and disks, once or repeatedly."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from tqstudio import units
from tqstudio.cli.session.supervisor_session import client
from tqstudio.cli.terminal import printing
from tqstudio.cli.terminal.options import JsonFlag
from tqstudio.errors import in_one_line
from tqstudio.paths import readable
from tqstudio.protocol import calls
from tqstudio.words import format as fmt

if TYPE_CHECKING:
    from tqstudio.protocol.answers import ErrorView, StatusView

WATCH_S = 1.0
_CLEAR = "\x1b[H\x1b[2J"


def status(
    as_json: JsonFlag = False,
    plain: Annotated[bool, typer.Option("--plain", help="One `key value` per line, for scripts.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every second.")] = False,
) -> int:
    """Show supervisor, queue, workers and disks."""
    at = client()
    view = at.send(calls.status())
    while True:
        if as_json:
            printing.out_json(view, indent=None if watch else 2)
        elif plain:
            _print_plain(view)
        else:
            if watch and printing.terminal():
                print(_CLEAR, end="")
            _print(view)
        if not watch:
            return 0
        time.sleep(WATCH_S)
        view = at.send(calls.status())


def _print(view: StatusView) -> None:
    of = view["supervisor"]
    state = "draining, up" if of["draining"] else "up"
    on = f" on {of['name']}" if of["standbys"] else ""
    printing.out(
        f"supervisor  {state} {printing.age(of['started_at'])}{on}, pid {of['pid']}, version {of['version']}"
    )
    if not view["ready"]["ready"]:
        why = "; ".join(each["reason"] for each in view["ready"]["reasons"])
        printing.out(printing.painted(f"not ready   {why}", "paused"))
    printing.out(f"home        {of['home']}")
    if of["listen"]:
        printing.out(f"listening   {of['listen']}")
    for each in of["standbys"]:
        printing.out(f"standby     {each['name']}, seen {printing.age(each['seen_at'])} ago")
    printing.out(f"ffmpeg      {of['ffmpeg_version']} ({of['ffmpeg']})")
    if damage := of.get("damage"):
        _print_problem("database", damage)
    if jump := of.get("clock_jump"):
        ahead, left = (fmt.short_duration(jump[key]) for key in ("ahead_s", "held_s"))
        text = f"it jumped {ahead} ahead: nothing is removed by its age for {left} of running time"
        printing.out(printing.painted(f"clock       {text}", "paused"))
    queue = f"queue       {printing.counts_line(view['jobs'])}"
    if view["speed"]:
        queue += f"   {fmt.speed(view['speed'])} real time"
    printing.out(queue)
    if view["jobs"].get("failed"):
        printing.out(f"            {printing.ARROW} tqstudio job list --status failed")
    if view["eta"] is not None:
        printing.out(f"            about {fmt.with_range(view['eta'])} left")
    error = view["eta_error"]
    if error["median"] is not None:
        of_jobs = f"the median of the last {error['jobs']} jobs" if error["jobs"] > 1 else "with the last job"
        printing.out(f"estimates   off by {error['median']:.0%}, {of_jobs}")
    for gate in view["gates"]:
        since = printing.age(gate["since"])
        printing.out(printing.painted(f"blocked     {printing.gate_reason(gate)} (since {since})", "paused"))
        if "path" in gate:
            needed = f", {units.size(gate['needed'])} needed" if gate["needed"] else ""
            printing.out(f"            {readable(gate['path'])}: {units.size(gate['free'])} free{needed}")
        printing.out(f"            {printing.ARROW} {gate['hint']}")
    for disk in view["disk"]:
        free, total, reserve = (units.size(disk[key]) for key in ("free", "total", "reserve"))
        printing.out(f"disk        {free} free of {total} at {readable(disk['path'])} ({reserve} reserved)")
    for folder in view["folders"]:
        _print_problem(f"folder {folder['id']}", folder["problem"])
    waiting = view["deliveries"]
    if waiting["count"]:
        printing.out(f"buckets     {fmt.counted(waiting['count'], 'ladder')} to upload or remove")
    if waiting["problem"]:
        _print_problem("", waiting["problem"])
    printing.out()
    workers = view["workers"]
    printing.table(
        ("WORKER", "KIND", "STATUS", "PID", "JOB", "STEP", "SPEED"),
        [
            (
                worker["name"],
                worker["kind"],
                worker["status"],
                str(worker["pid"] or ""),
                str(worker["job"] or ""),
                worker["step"] or worker["note"] or "",
                fmt.speed(worker["speed"]),
            )
            for worker in workers
        ],
        right=(3, 4, 6),
        elastic=(5,),
        statuses=[worker["status"] for worker in workers],
    )


def _print_problem(of: str, problem: ErrorView) -> None:
    text = in_one_line(problem["code"], problem["message"])
    printing.out(printing.painted(f"{of:12}{text}", "failed"))
    printing.out(f"            {printing.ARROW} {problem['hint']}")


def _print_plain(view: StatusView) -> None:
    of = view["supervisor"]
    lines: list[tuple[str, object]] = [
        ("supervisor.pid", of["pid"]),
        ("supervisor.version", of["version"]),
        ("supervisor.started_at", of["started_at"]),
        ("supervisor.home", of["home"]),
        ("ready", str(view["ready"]["ready"]).lower()),
        ("supervisor.draining", str(of["draining"]).lower()),
        *((f"jobs.{name}", count) for name, count in sorted(view["jobs"].items())),
        *((f"worker.{w['name']}.status", w["status"]) for w in view["workers"]),
        *((f"worker.{w['name']}.job", w["job"]) for w in view["workers"] if w["job"] is not None),
        *((f"gate.{gate['kind']}", printing.gate_reason(gate)) for gate in view["gates"]),
        *((f"folder.{each['id']}.problem", each["problem"]["code"]) for each in view["folders"]),
        ("deliveries.count", view["deliveries"]["count"]),
        *((f"disk.{readable(disk['path'])}.free", disk["free"]) for disk in view["disk"]),
    ]
    if jump := of.get("clock_jump"):
        lines.append(("supervisor.clock_jump.held_s", round(jump["held_s"])))
    for key, value in lines:
        printing.out(f"{key} {value}")

"""`up`, `down` and `log-level`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, get_args

import typer

from tqstudio.cli.session.supervisor_session import client, home_command, session, stop
from tqstudio.cli.terminal import printing
from tqstudio.cli.terminal.options import JsonFlag
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import current_home
from tqstudio.lifecycle import LogLevel
from tqstudio.paths import absolute
from tqstudio.protocol import calls, remote
from tqstudio.protocol.client import Client
from tqstudio.words import format as fmt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tqstudio.engine.queue.shutdown_summary import ShutdownSummary
    from tqstudio.home import Home


_LEVELS = "|".join(get_args(LogLevel))


def up(
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Start it in the background and return.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            "-w",
            min=1,
            max=256,
            metavar="N",
            help="Number of CPU workers; default: chosen by the number of cores.",
        ),
    ] = None,
    gpu: Annotated[bool | None, typer.Option(help="Use GPU encoders that work.")] = None,
    profile: Annotated[str | None, typer.Option(metavar="NAME", help="Default profile.")] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="DIR|URL", help="Default output folder or bucket.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option("--listen", metavar="IP:PORT", help="Also listen on TCP, for callers with a token."),
    ] = None,
    standby: Annotated[
        bool | None,
        typer.Option("--standby", help="Stand by while another supervisor leads the same database."),
    ] = None,
    level: Annotated[
        LogLevel | None,
        typer.Option("--log-level", metavar=_LEVELS, help="Least severe lines of logs/supervisor.log."),
    ] = None,
    until_idle: Annotated[bool, typer.Option("--until-idle", hidden=True)] = False,
    as_json: JsonFlag = False,
) -> int:
    """Start the supervisor; in the foreground, or with --detach in the background.

    If one is already running, nothing is started, and options without effect are reported.
    """
    from tqstudio.protocol import launch

    home = current_home()
    flags = _flags(workers, gpu, profile, output, listen, standby, level)
    if launch.supervisor_of(home) and (running := launch.join(home, stay=not until_idle)):
        _report_running(running["pid"], flags, as_json=as_json)
        return 0
    if detach:
        _start_in_background(home, flags, as_json=as_json)
        return 0
    # The engine is imported only by the process that becomes the supervisor.
    from tqstudio.config import load_settings
    from tqstudio.engine import program

    settings = load_settings(
        home,
        workers=workers,
        gpu=gpu,
        profile=profile,
        output=absolute(output) if output else None,
        listen=listen,
        standby=standby,
        log_level=level,
    )
    read = not launch.in_background(home)
    if read:
        drain = fmt.short_duration(settings.drain_s)
        printing.err(
            f"starting the supervisor in {home.root};"
            f" Ctrl-C gives running jobs {drain} to finish, a second one stops at once"
        )
    left = program.run(home, settings, until_idle=until_idle)
    if read:
        printing.err(remaining_summary(left))
    return 0


def _start_in_background(home: Home, flags: Mapping[str, Sequence[str]], *, as_json: bool) -> None:
    from tqstudio.protocol import launch

    started = session([word for words in flags.values() for word in words], quiet=True, stay=True)
    up_now = launch.supervisor_of(home)
    pid = up_now["pid"] if up_now else 0
    if not started.started:
        # Another command was faster.
        _report_running(pid, flags, as_json=as_json)
    elif as_json:
        printing.out_json({"started": True, "pid": pid, "home": str(home.root), "without_effect": []})
    else:
        printing.out(f"the supervisor is running in the background (pid {pid}, home {home.root})")


def _report_running(pid: int, flags: Iterable[str], *, as_json: bool) -> None:
    """Report a running supervisor. Args: `flags` are given options that only apply at a start."""
    home, idle = str(current_home().root), [*flags]
    if as_json:
        printing.out_json({"started": False, "pid": pid, "home": home, "without_effect": idle})
        return
    printing.out(f"a supervisor is already running (pid {pid}, home {home})")
    if idle:
        have = "has" if len(idle) == 1 else "have"
        printing.err(
            f"{', '.join(idle)} {have} no effect on it;"
            f" to restart it: {home_command('down')}, then run this again"
        )


def remaining_summary(of: ShutdownSummary) -> str:
    """Summarise the jobs that a stopped supervisor leaves, and how to continue."""
    parts = ["the supervisor has stopped", "no job is left"]
    if of.left:
        text = f"{fmt.counted(of.left, 'job')} {'is' if of.left == 1 else 'are'} left"
        if of.begun:
            which = "started" if of.left == 1 else f"{of.begun} of them started"
            text += f", {which}: finished parts are kept"
        parts[1] = text
    if of.paused:
        parts.append(f"{of.paused} {'is' if of.paused == 1 else 'are'} paused")
    if of.left:
        parts.append(f"continue with: {home_command('up')}")
    return "; ".join(parts)


def _flags(
    workers: int | None,
    gpu: bool | None,
    profile: str | None,
    output: str | None,
    listen: str | None,
    standby: bool | None,
    level: str | None,
) -> dict[str, list[str]]:
    """The given start options by name, each as its words on a command line."""
    flags = {}
    if workers is not None:
        flags["--workers"] = ["--workers", str(workers)]
    if gpu is not None:
        name = "--gpu" if gpu else "--no-gpu"
        flags[name] = [name]
    if profile is not None:
        flags["--profile"] = ["--profile", profile]
    if output is not None:
        flags["--output"] = ["--output", absolute(output)]
    if listen is not None:
        flags["--listen"] = ["--listen", listen]
    if standby:
        flags["--standby"] = ["--standby"]
    if level is not None:
        flags["--log-level"] = ["--log-level", level]
    return flags


def down(
    drain: Annotated[bool, typer.Option("--drain", help="Finish running jobs first.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Stop the supervisor.

    Running jobs are interrupted and resume at the next start.
    """
    # One that stands by is stopped itself, not the one that leads.
    at = client() if remote.named() else Client(current_home().socket)
    home = str(current_home().root)
    if drain:
        printing.err("waiting for the running jobs; Ctrl-C stops waiting, not draining")
    try:
        pid = stop(at, drain=drain, timeout_s=None) if drain else stop(at)
    except TqError as error:
        if error.code is not ErrorCode.NO_SUPERVISOR:
            raise
        text = f"no supervisor is running in {home}; nothing to stop"
        return printing.answer({"stopped": False, "home": home}, text, as_json)
    view = {"stopped": True, "pid": pid, "home": home}
    return printing.answer(view, f"the supervisor (pid {pid}) has stopped", as_json)


def log_level(
    level: Annotated[LogLevel, typer.Argument(metavar=_LEVELS, show_default=False)],
    as_json: JsonFlag = False,
) -> int:
    """Change the log level of the supervisor; it holds until that stops. The setting is log_level."""
    answer = client().send(calls.log_level(level))
    text = f"the supervisor logs {answer['level']} (before: {answer['before']})"
    return printing.answer(answer, text, as_json)

"""`up` and `down`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tqstudio.cli import printing
from tqstudio.cli.options import JsonFlag
from tqstudio.cli.supervisor_session import door, here, session, stop
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import current_home
from tqstudio.paths import absolute

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tqstudio.engine.queue.shutdown_summary import Remainder


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
            help="CPU workers; chosen by the machine otherwise.",
        ),
    ] = None,
    gpu: Annotated[bool | None, typer.Option(help="Use GPU encoders where they work.")] = None,
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="Profile of files that name none.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="DIR", help="Where ladders go by default.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Start the supervisor, here or in the background.

    Beside one that runs already there is nothing to do; options for a start have no effect then, and that
    is said.
    """
    from tqstudio.protocol import launch

    home = current_home()
    flags = _flags(workers, gpu, profile, output)
    if view := launch.running(home):
        _say_it_runs(view["pid"], flags, as_json=as_json)
        return 0
    if detach:
        started = session([word for words in flags.values() for word in words], quiet=True)
        up_now = launch.running(home)
        pid = up_now["pid"] if up_now else 0
        if not started.started:
            # Another command was faster.
            _say_it_runs(pid, flags, as_json=as_json)
        elif as_json:
            printing.out_json({"started": True, "pid": pid, "home": str(home.root), "without_effect": []})
        else:
            printing.out(f"the supervisor runs in the background (pid {pid}, home {home.root})")
        return 0
    # The engine is imported by the process that becomes the supervisor, and by no other command.
    from tqstudio.config import load_settings
    from tqstudio.engine import supervisor

    settings = load_settings(
        home, workers=workers, gpu=gpu, profile=profile, output=absolute(output) if output else None
    )
    read = not launch.in_background(home)
    if read:
        drain = printing.span(settings.drain_s)
        printing.say(
            f"the supervisor starts in {home.root};"
            f" Ctrl-C gives running jobs {drain}, a second one stops at once"
        )
    left = supervisor.run(home, settings)
    if read:
        printing.say(what_is_left(left))
    return 0


def _say_it_runs(pid: int, flags: Iterable[str], *, as_json: bool) -> None:
    """Args: `flags`: options of this command that only a start can follow."""
    home, idle = str(current_home().root), [*flags]
    if as_json:
        printing.out_json({"started": False, "pid": pid, "home": home, "without_effect": idle})
        return
    printing.out(f"a supervisor runs already (pid {pid}, home {home})")
    if idle:
        have = "has" if len(idle) == 1 else "have"
        printing.say(
            f"{', '.join(idle)} {have} no effect on it; to start it anew: {here('down')}, then this again"
        )


def what_is_left(of: Remainder) -> str:
    """How a supervisor ended, what it leaves, and how to go on with it."""
    parts = ["the supervisor ended", "no job is left"]
    if of.left:
        told = f"{printing.counted(of.left, 'job')} {'is' if of.left == 1 else 'are'} left"
        if of.begun:
            which = "begun" if of.left == 1 else f"{of.begun} of them begun"
            told += f", {which}: what is finished of {'it' if of.begun == 1 else 'them'} is kept"
        parts[1] = told
    if of.paused:
        parts.append(f"{of.paused} {'is' if of.paused == 1 else 'are'} paused")
    if of.left:
        parts.append(f"go on with: {here('up')}")
    return "; ".join(parts)


def _flags(
    workers: int | None, gpu: bool | None, profile: str | None, output: str | None
) -> dict[str, list[str]]:
    """The options for the start that were given, by name, as the words of a command line."""
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
    return flags


def down(
    drain: Annotated[bool, typer.Option("--drain", help="Let running jobs end first.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Stop the supervisor.

    Running jobs stop at once and go on where they were at the next start.
    """
    at = door()
    if drain:
        printing.say("waiting until the running jobs are done; Ctrl-C stops waiting, not draining")
    try:
        pid = stop(at, drain=drain, timeout_s=None) if drain else stop(at)
    except TqError as error:
        if error.code is not ErrorCode.NO_SUPERVISOR:
            raise
        if as_json:
            printing.out_json({"stopped": False, "home": str(current_home().root)})
        else:
            printing.out(f"no supervisor runs in {current_home().root}; nothing to stop")
        return 0
    if as_json:
        printing.out_json({"stopped": True, "pid": pid, "home": str(current_home().root)})
    else:
        printing.out(f"the supervisor (pid {pid}) has stopped")
    return 0

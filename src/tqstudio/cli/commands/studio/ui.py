"""`tqstudio` without a command: the terminal UI; `keys` prints its keys."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tqstudio.cli.session.supervisor_session import home_command
from tqstudio.cli.terminal import printing
from tqstudio.cli.terminal.options import JsonFlag
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home, current_home
from tqstudio.paths import readable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from subprocess import Popen

    from tqstudio.protocol.client import AsyncClient
    from tqstudio.ui.data.tips import Tip


_ANSWER_S = 3.0
"""How long the UI waits for a supervisor that does not answer before it opens."""


def has_terminal() -> bool:
    """Whether stdin, stdout and stderr, on which Textual draws, are terminals."""
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def open_screen() -> int:
    """Run the UI; starts a supervisor in the background if none is running.

    Raises:
        TqError: BAD_REQUEST without a terminal, before anything is started; or the reason why no supervisor
            could be started, if the user quit because of it.
    """
    _require_terminal()
    from tqstudio.protocol import launch, remote

    home = current_home()
    if remote.chosen() is not None:
        return show(home)
    started = None
    try:
        # It keeps running after the UI, even if it was started for a single run.
        if launch.join(home, stay=True, timeout_s=_ANSWER_S) is None:
            started = launch.start(home)
    except TqError as error:
        if error.code is not ErrorCode.SUPERVISOR_NOT_RESPONDING:
            raise  # the UI shows one that does not answer
    return show(home, "no supervisor was running: starting one" if started else "", started=started)


def _require_terminal() -> None:
    if not has_terminal():
        raise TqError(
            ErrorCode.BAD_REQUEST,
            "the terminal UI needs a terminal, which stdin, stdout or stderr is not",
            "use the commands instead, such as tqstudio status; see: tqstudio --help",
        )


def keys(as_json: JsonFlag = False) -> int:
    """Print the keys of the terminal UI: with those of keys.toml in the home, and what is wrong there."""
    from tqstudio.ui.actions.keys_file import read_keys
    from tqstudio.ui.actions.registry import ACTIONS
    from tqstudio.ui.data.keys import key_sign

    found, groups = read_keys(current_home().keys), [each.group for each in ACTIONS]
    rows = [
        (
            list(dict.fromkeys(key for view in each.views for key in found.of(view, each.name))),
            each.name,
            each.help,
        )
        for each in sorted(ACTIONS, key=lambda each: groups.index(each.group))
    ]
    rows += [([key], "", command.run) for key, command in found.commands.items()]
    if as_json:
        keys = [dict(zip(("keys", "action", "help"), row, strict=True)) for row in rows]
        printing.out_json({"keys": keys, "problems": found.problems})
    else:
        shown = [(" ".join(map(key_sign, keys)), name, readable(about)) for keys, name, about in rows]
        printing.table(("KEY", "ACTION", "WHAT IT DOES"), shown, elastic=(2,))
    for problem in found.problems:
        printing.err(printing.error_lines(ErrorCode.BAD_CONFIG, problem, "see: docs/ui.md, Keys of your own"))
    return printing.exit_code(ErrorCode.BAD_CONFIG) if found.problems else 0


def show(
    home: Home,
    notice: str = "",
    *,
    tips: Sequence[Tip] = (),
    started: Popen[bytes] | None = None,
    stops: bool = False,
    read_only_view: str | None = None,
) -> int:
    """Run the UI until the user quits. It connects by itself, so no supervisor needs to be ready.

    Args:
        tips: actions to try, shown until each was tried.
        started: the supervisor that was just started; the UI shows why if it fails.
        stops: the caller stops the supervisor afterwards.
        read_only_view: the view of a read-only screen.
    """
    from tqstudio import ui
    from tqstudio.protocol import remote

    def client() -> AsyncClient:
        from tqstudio.protocol.client import AsyncClient

        return AsyncClient(remote.chosen() or home.socket)

    def name() -> str:
        at = remote.chosen()
        return at.name if at else ""

    keeps_running = f"the supervisor keeps running; {home_command('down')} stops it"
    return ui.run(
        client,
        home=home,
        notice=notice,
        tips=tips,
        started=started,
        remote=name,
        exit_message="" if stops or read_only_view or remote.is_chosen() else keeps_running,
        read_only_view=read_only_view,
    )


def wall() -> int:
    """Show who encodes what, on a read-only screen.

    Running jobs are bands, each segment in the colour of the machine that made it. It starts no supervisor,
    and waits for one.
    """
    _require_terminal()
    return show(current_home(), read_only_view="wall")

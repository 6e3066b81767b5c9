"""How the terminal is left: by signals, by ctrl+z, and by a connection that is lost."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness import PROGRAM
from waiting import until

from .conftest import Held
from .studio import Studio
from .terminal import Terminal

NORMAL: set[int] = set()
DRAWN = {1049, 1000, 1003, 1006, 2004, 1004}
"""The alternate screen, the mouse, pasted text and the focus: what the program switches on."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGHUP,
        *(
            pytest.param(number, marks=pytest.mark.more)
            for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT)
        ),
    ],
    ids=lambda number: number.name,
)
def test_a_signal_leaves_the_terminal_as_it_was(
    studio: Studio, terminal: Terminal, number: signal.Signals
) -> None:
    terminal.shows("the queue is empty")
    assert terminal.modes >= DRAWN
    assert terminal.attributes() != terminal.at_first
    terminal.send(number)
    assert terminal.ended() == 128 + number
    until(lambda: not terminal.modes & DRAWN, "the modes are switched off")
    assert terminal.attributes() == terminal.at_first
    assert terminal.cursor_shown
    assert "Traceback" not in terminal.text()
    assert studio.status()["supervisor"]["pid"]


def test_a_terminal_that_is_closed_ends_the_program(studio: Studio, terminal: Terminal) -> None:
    terminal.shows("the queue is empty")
    terminal.hang_up()
    assert terminal.ended() == 128 + signal.SIGHUP
    assert studio.status()["supervisor"]["pid"]


def test_a_terminal_that_takes_no_output_does_not_hold_up_the_end(terminal: Terminal) -> None:
    terminal.shows("the queue is empty")
    with terminal.stalled():
        # More than the terminal, and what is written to it, can hold.
        terminal.press("t" * 200)
        process = psutil.Process(terminal.process.pid)
        until(lambda: not process.cpu_percent(interval=0.2), "it waits")
        terminal.send(signal.SIGTERM)
        terminal.ended()
        assert terminal.attributes() == terminal.at_first


@pytest.fixture
def shell(studio: Studio, tmp_path: Path) -> Iterator[Terminal]:
    """A shell with job control, in which the program is started; its leader is a script, as of a wrapper."""
    (tmp_path / "wrapper").write_text(f'#!/bin/sh\n{shlex.join(PROGRAM)}\necho "it ended with $?"\n')
    environment = {**studio.environment, "PS1": "ready> ", "HOME": str(tmp_path)}
    with Terminal(["bash", "--norc", "--noprofile", "--noediting", "-i"], environment) as terminal:
        terminal.shows("ready>")
        # Relative, so that no message of the shell is wider than the screen.
        terminal.press(f"stty -g > {tmp_path}/before; cd; clear; sh wrapper\n")
        yield terminal


@pytest.mark.parametrize(
    ("keys", "opens", "back"),
    [
        ("", "clip-000.mp4", ""),
        pytest.param("/clip", "/clip", "\r", marks=pytest.mark.more),
        ("?", "What can be done here", "?"),
        ("=", "Priority of", "\r"),
    ],
    ids=["list", "filter", "help", "dialog"],
)
def test_ctrl_z_goes_back_to_the_shell_and_fg_to_the_program(
    held: Held, shell: Terminal, tmp_path: Path, keys: str, opens: str, back: str
) -> None:
    shell.shows("the queue is empty")
    held(3)
    shell.shows("3 jobs", "clip-002.mp4")
    shell.press(keys)
    shell.shows(opens)
    drawn = shell.settled()
    shell.press("\x1a")
    shell.shows("Stopped", "ready>")
    assert not shell.modes & DRAWN
    shell.press(f"stty -g > {tmp_path}/after; clear; bg\n")
    shell.shows("wrapper &")
    job = psutil.Process(shell.process.pid).children(recursive=True)
    until(lambda: {each.status() for each in job} == {psutil.STATUS_STOPPED}, "the shell keeps the terminal")
    shell.press("clear; fg\n")
    shell.shows(*drawn.split("\n")[2:8])
    assert shell.modes >= DRAWN
    assert (tmp_path / "after").read_text() == (tmp_path / "before").read_text()
    shell.press(f"{back}q")
    shell.shows("the supervisor keeps running", "it ended with 0", "ready>")


def test_a_process_that_was_stopped_unasked_comes_back_too(terminal: Terminal, held: Held) -> None:
    held(3)
    terminal.shows("3 jobs", "clip-002.mp4")
    terminal.send(signal.SIGSTOP)
    terminal.send(signal.SIGCONT)
    until(lambda: terminal.taken == 2, "the program takes the terminal again")
    terminal.shows("3 jobs", "clip-002.mp4")
    terminal.press("q")
    assert terminal.ended() == 0
    assert terminal.attributes() == terminal.at_first


def test_ctrl_z_without_a_shell_to_go_back_to_changes_nothing(terminal: Terminal, held: Held) -> None:
    held(3)
    terminal.shows("3 jobs", "clip-002.mp4")
    terminal.press("\x1a")
    until(lambda: terminal.taken == 2, "the program takes the terminal again")
    terminal.press("?")
    terminal.shows("What can be done here")
    terminal.press("?q")
    assert terminal.ended() == 0
    assert terminal.attributes() == terminal.at_first

"""Keys as people press them: whole bursts on a real terminal, with the real program and a real supervisor."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

import psutil

from harness import PROGRAM
from tqstudio.protocol import calls
from waiting import until

from .conftest import Held, MakeClip
from .studio import Studio, done_to
from .terminal import Terminal


def test_a_filter_typed_in_one_burst(studio: Studio, held: Held, terminal: Terminal) -> None:
    """Every letter of it is a command of the list."""
    jobs = held(3)
    terminal.shows("3 jobs", "sort order", "clip-002.mp4")
    terminal.press("/state:failed\r")
    terminal.shows("/state:failed", "0 of 3", "sort order")
    terminal.press("\x1b")
    terminal.shows("3 jobs", "sort order")
    assert "marked" not in terminal.text()
    assert done_to(studio, jobs) == []


def test_keys_behind_a_filter_act_on_what_it_finds(studio: Studio, held: Held, terminal: Terminal) -> None:
    others = held(30, "other")
    (wanted,) = held(1, "wanted")
    terminal.shows("31 jobs", "other-000.mp4")
    terminal.press("/wanted\r+")
    done = until(lambda: done_to(studio, [*others, wanted]), "the priority was raised")
    assert done == [(wanted, "priority_changed")]


def test_a_priority_typed_in_one_burst(studio: Studio, held: Held, terminal: Terminal) -> None:
    """2 is a view."""
    jobs = held(3)
    terminal.shows("3 jobs", "clip-000.mp4")
    terminal.press("=25\r")
    until(lambda: studio.job(jobs[0])["priority"] == 25, "the priority is set")
    assert done_to(studio, jobs) == [(jobs[0], "priority_changed")]
    terminal.shows("3 jobs", "clip-000.mp4")


def test_a_path_typed_in_one_burst(studio: Studio, held: Held, terminal: Terminal, clip: MakeClip) -> None:
    jobs = held(1)
    source = clip(seconds=1, size="160x90")
    terminal.shows("1 job", "clip-000.mp4")
    with studio.paced(0.01):
        terminal.press(f"n{source}\r")
        terminal.shows("2 jobs", source.name)
    assert done_to(studio, jobs) == []


def test_a_folder_typed_in_one_burst(studio: Studio, terminal: Terminal, tmp_path: Path) -> None:
    folder = tmp_path / "drop"
    folder.mkdir()
    terminal.shows("the queue is empty")
    terminal.press(f"3n{folder}\r")
    folders = until(lambda: studio.client.send(calls.folders())["folders"], "the folder is watched")
    assert [each["path"] for each in folders] == [str(folder)]


def test_a_command_looked_up_in_one_burst(studio: Studio, held: Held, terminal: Terminal) -> None:
    jobs = held(3)
    terminal.shows("3 jobs", "sort order")
    terminal.press(":Rapes")
    terminal.shows("Rapes")
    terminal.press("\x1b")
    terminal.lacks("Rapes")
    assert "sort order" in terminal.text()
    assert "marked" not in terminal.text()
    assert done_to(studio, jobs) == []


def test_a_line_of_the_menu_found_and_done_in_one_burst(
    studio: Studio, held: Held, terminal: Terminal
) -> None:
    """Of the letters most are commands of the list."""
    jobs = held(2)
    terminal.shows("2 jobs", "clip-001.mp4")
    terminal.press("j?raise\r")
    done = until(lambda: done_to(studio, jobs), "the priority was raised")
    assert done == [(jobs[1], "priority_changed")]


def test_the_palette_goes_to_a_job(studio: Studio, held: Held, terminal: Terminal) -> None:
    jobs = held(40)
    terminal.shows("40 jobs", "clip-000.mp4")
    terminal.press(":clip-037")
    terminal.shows(f"job {jobs[37]}  clip-037.mp4")
    terminal.press("\r")
    terminal.lacks(f"job {jobs[37]}  clip-037.mp4")
    terminal.press("+")
    done = until(lambda: done_to(studio, jobs), "the priority was raised")
    assert done == [(jobs[37], "priority_changed")]


def _children(terminal: Terminal) -> set[str]:
    """The names of the programs that the UI has started, and theirs."""
    names = set[str]()
    for process in psutil.Process(terminal.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            names.add(process.name())
    return names


def test_keys_and_commands_of_ones_own(studio: Studio, held: Held) -> None:
    (job,) = held(1, "a 'film'")
    studio.home.keys.write_text(
        'raise = "space"\n[commands]\nY = { run = "echo is {id} {name}; sleep 1000", terminal = true }\n'
    )
    try:
        with Terminal(PROGRAM, studio.environment) as terminal:
            terminal.shows("1 job", "keys.toml: space is raise and mark")
            terminal.press("Y")
            terminal.shows(f"is {job} a 'film'-000.mp4")
            # Between two programs it is the shell that gets the keys, and it may start the next one.
            until(lambda: "sleep" in _children(terminal), "the second program runs")
            terminal.press("\x1a\x03")
            terminal.shows("1 job", "sort order")
            terminal.press(" ")
            done = until(lambda: done_to(studio, [job]), "the priority was raised")
            assert done == [(job, "priority_changed")]
            assert terminal.process.poll() is None, "ctrl+c was for the command"
    finally:
        studio.home.keys.unlink()


def test_the_program_can_be_left_while_an_answer_is_waited_for(
    studio: Studio, held: Held, terminal: Terminal
) -> None:
    held(1)
    terminal.shows("1 job", "clip-000.mp4")
    studio.process.send_signal(signal.SIGSTOP)
    try:
        terminal.press("+")
        terminal.press("\x03")
        assert terminal.ended() == 0
    finally:
        studio.process.send_signal(signal.SIGCONT)


def test_the_palette_explains_the_settings_of_the_supervisor(studio: Studio, terminal: Terminal) -> None:
    terminal.shows("the queue is empty")
    terminal.press(":reserve_b")
    reserve = studio.environment["TQSTUDIO_DISK_RESERVE_BYTES"]
    terminal.shows(f"setting disk_reserve_bytes = {reserve}")
    terminal.press("\r")
    terminal.shows("free disk space that jobs leave unused", f"now      {reserve}", "default  2000000000")
    terminal.shows(f"disk_reserve_bytes = {reserve}", "TQSTUDIO_DISK_RESERVE_BYTES in its environment")

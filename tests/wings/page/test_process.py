"""`tqstudio open`: one page a home, shown by the desktop's program, printed where there is none."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
from pathlib import Path

import pytest

from e2e.conftest import MakeClip
from tqstudio.errors import TqError
from tqstudio.home import Home
from tqstudio.wings.page import process
from waiting import until

from .conftest import Browser, Film, port_of, printed_address


@pytest.mark.slow
def test_a_running_page_is_used_again_until_it_is_closed(film: Film) -> None:
    studio = film.studio
    first, second = (port_of(printed_address(studio)) for _ in range(2))
    assert first == second
    lock = studio.home.root / "page" / "lock"
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    refused = studio("open", "--print", "--port", str(first + 1), "--json")
    assert refused.last_line()["error"]["code"] == "ALREADY_RUNNING"
    assert studio("open", "--close").out == "closed\n"
    assert process.find(studio.home) is None
    assert studio("open", "--close").out == "no page was open\n"
    assert port_of(printed_address(studio, "--port", str(first))) == first


def test_closing_voids_the_codes_and_takes_no_job(film: Film) -> None:
    studio, folder = film.studio, process.folder_of(film.studio.home)
    page = process.start(studio.home)
    codes = [process.new_code(studio.home, suffix) for suffix in process.LIFETIMES_S]
    refused = studio("open", "7", "--close", "--json").last_line()["error"]
    assert (refused["code"], process.find(studio.home)) == ("BAD_REQUEST", page)
    assert studio("open", "--close").out == "closed\n"
    assert [each.name for each in folder.iterdir()] == ["lock"]
    process.new_code(studio.home, ".url")
    assert studio("open", "--close").out == "no page was open\n"
    assert [each.name for each in folder.iterdir()] == ["lock"]
    assert not any(process.redeem(studio.home, code) for code in codes)


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    with socket.create_server((process.HOST, 0)) as taken, pytest.raises(TqError, match="cannot be used"):
        process.start(home, taken.getsockname()[1])
    assert process.find(home) is None


@pytest.fixture
def desktop(tmp_path: Path) -> dict[str, str]:
    """A desktop whose program to open files copies them, and writes down how it was called."""
    program = tmp_path / "bin" / "xdg-open"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$0 $@" > {tmp_path}/called\ncat "$1" > {tmp_path}/opened\n')
    program.chmod(0o755)
    variables = {"DISPLAY": ":7", "SSH_CONNECTION": "", "WAYLAND_DISPLAY": ""}
    return {"PATH": f"{program.parent}:/usr/bin:/bin", **variables}


@pytest.mark.slow
def test_the_browser_is_led_by_a_file_so_that_no_command_line_has_the_code(
    film: Film, desktop: dict[str, str], tmp_path: Path
) -> None:
    answer = film.studio("open", str(film.job), "--json", **desktop)
    assert answer.json() | {"port": 0} == {"opened": True, "url": "", "port": 0}
    address = (tmp_path / "opened").read_text().partition("url=")[2].partition('"')[0]
    code, video = address.split("/")[4:]
    assert int(video) == film.video
    assert code not in (tmp_path / "called").read_text()
    assert Browser(port_of(address)).open(address).api("videos")["videos"]


@pytest.mark.parametrize(
    "more",
    [
        {"SSH_CONNECTION": "192.0.2.7 5022 192.0.2.1 22"},
        {"DISPLAY": ""},
        {"PATH": "/nowhere"},
    ],
)
def test_without_a_desktop_the_address_is_printed(
    film: Film, desktop: dict[str, str], more: dict[str, str], tmp_path: Path
) -> None:
    answer = film.studio("open", **desktop | more)
    address = answer.out.strip()
    assert not (tmp_path / "opened").exists()
    assert Browser(port_of(address)).open(address).api("jobs") == []
    port = port_of(address)
    assert f"ssh -L {port}:127.0.0.1:{port} " in answer.err
    assert ("@192.0.2.1" in answer.err) is ("SSH_CONNECTION" in more)


def test_a_program_that_fails_gives_way_to_the_address(film: Film, desktop: dict[str, str]) -> None:
    Path(desktop["PATH"].partition(":")[0], "xdg-open").write_text("#!/bin/sh\nexit 3\n")
    assert film.studio("open", **desktop).out.startswith("http://127.0.0.1:")


def test_a_job_without_a_result_is_refused(film: Film, clip: MakeClip) -> None:
    (added,) = film.studio.offer(clip(seconds=1, size="160x90"), hold=True)
    answer = film.studio("open", str(added["job"]), "--print", "--json")
    error = answer.last_line()["error"]
    assert (error["code"], "has nothing to play" in error["message"]) == ("REFUSED", True)
    assert film.studio("open", "99999", "--print", "--json").last_line()["error"]["code"] == "NOT_FOUND"
    film.studio.do("cancel", added["job"])
    film.studio.do("delete", added["job"])


@pytest.mark.parametrize("command", [("open",), ("embed", ".")])
def test_another_machines_studio_is_refused(film: Film, command: tuple[str, ...]) -> None:
    answer = film.studio("--connect", "https://box:8443", *command)
    assert (answer.code, "run it there" in answer.err) == (2, True)


def test_a_page_that_was_killed_is_started_again(film: Film) -> None:
    page = process.start(film.studio.home)
    os.kill(page.pid, signal.SIGKILL)
    until(lambda: process.find(film.studio.home) is None, "it has no lock any more")
    assert process.start(film.studio.home).pid != page.pid


def test_the_result_as_json_has_the_address(film: Film) -> None:
    answer = json.loads(film.studio("open", "--print", "--json").out)
    assert answer["opened"] is False
    assert answer["url"].startswith(f"http://127.0.0.1:{answer['port']}/open/")

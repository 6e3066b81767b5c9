"""Folders of another user: what may not be looked at is reported in a sentence, and is never "missing"."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import Answer, Program
from tqstudio import __version__

_NO_OVERRIDE = "-dac_override,-dac_read_search"

pytestmark = pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None,
    reason="root reads everything, and setpriv is not there to forbid it",
)


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A folder that may not be searched, with a folder `in` and a file `in/x.db` in it."""
    folder = tmp_path / "closed"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "x.db").touch()
    folder.chmod(0)
    yield folder
    folder.chmod(0o700)


def _shell(home: Path, **environment: str) -> Program:
    forbid = ("setpriv", "--bounding-set", _NO_OVERRIDE, "--inh-caps", _NO_OVERRIDE, "--")
    return Program(home, before=forbid if os.geteuid() == 0 else (), **environment)


def _refused(answer: Answer, path: Path) -> None:
    assert answer.code == 2
    first, hint = answer.err.splitlines()[-2:]
    assert first == f"error: PERMISSION: {path} cannot be accessed: Permission denied"
    assert hint.lstrip()


@pytest.mark.parametrize(
    ("words", "path"),
    [(("backup",), "in/x.db"), (("verify",), "in"), (("folder", "add"), "in")],
    ids=["backup", "verify", "folder add"],
)
def test_a_path_below(words: tuple[str, ...], path: str, closed: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    _refused(_shell(home)(*words, str(closed / path)), closed / path)
    assert not home.exists()


def test_a_socket_below(closed: Path) -> None:
    """Not: its supervisor belongs to another user."""
    answer = _shell(closed / "in")("job", "list")
    _refused(answer, closed / "in" / "supervisor.sock")


def test_a_closed_folder_in_an_output_does_not_end_its_verification(closed: Path, tmp_path: Path) -> None:
    """Such as lost+found."""
    (tmp_path / "film").mkdir()
    (tmp_path / "film" / "master.m3u8").touch()
    answer = _shell(tmp_path / "home")("verify", str(tmp_path))
    assert f"FAIL  {tmp_path}/film/master.m3u8" in answer.out
    assert f"not checked: {closed}" in answer.err


def test_a_home_below(closed: Path) -> None:
    tqstudio = _shell(closed / "home")
    for verb in ("up", "status", "profile list", "backup"):
        answer = tqstudio(*verb.split())
        assert answer.code == 2
        assert answer.err.startswith("error: PERMISSION: ")
        assert f"{closed}/home" in answer.err


@pytest.mark.slow
def test_doctor(closed: Path) -> None:
    answer = _shell(closed / "home")("doctor", "--json")
    assert answer.code == 1
    checks = {check["name"]: check for check in answer.json()["checks"]}
    assert checks["version"]["ok"]
    wrong = {name: check for name, check in checks.items() if not check["ok"]}
    assert set(wrong) == {"home", "settings", "permissions", "supervisor"}
    assert all(check["hint"] for check in wrong.values())
    for name in ("home", "settings", "permissions"):
        assert "cannot be accessed: Permission denied" in wrong[name]["detail"]


def test_the_cache_of_the_demo(closed: Path, tmp_path: Path) -> None:
    tqstudio = _shell(tmp_path, XDG_CACHE_HOME=str(closed))
    del tqstudio.environment["TQSTUDIO_HOME"]
    answer = tqstudio("demo")
    assert answer.code == 2
    assert f"error: PERMISSION: {closed}/tqstudio/demo/{__version__}/clips/" in answer.err


def test_a_cache_that_may_not_be_written(closed: Path, tmp_path: Path) -> None:
    closed.chmod(0o500)
    tqstudio = _shell(tmp_path, XDG_CACHE_HOME=str(closed))
    del tqstudio.environment["TQSTUDIO_HOME"]
    answer = tqstudio("demo")
    assert answer.code == 2
    assert f"error: PERMISSION: {closed}/tqstudio cannot be used: Permission denied\n" in answer.err


@pytest.mark.slow
def test_profiles_that_may_not_be_listed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "profiles").mkdir(parents=True)
    (home / "profiles").chmod(0)
    tqstudio = _shell(home)
    _refused(tqstudio("profile", "list"), home / "profiles")
    answer = tqstudio("doctor", "--json")
    assert answer.code == 1
    wrong = {check["name"]: check for check in answer.json()["checks"] if not check["ok"]}
    assert set(wrong) == {"profiles"}
    assert str(home / "profiles") in wrong["profiles"]["detail"]


def test_ladders_that_may_not_be_listed(tmp_path: Path) -> None:
    ladders = tmp_path / "ladders"
    ladders.mkdir()
    ladders.chmod(0o100)
    answer = _shell(tmp_path / "home")("verify", str(ladders))
    assert answer.code == 2
    assert answer.err.startswith(f"error: PERMISSION: {ladders} cannot be used: Permission denied\n")

"""The folder of a supervisor."""

from __future__ import annotations

import os
import shutil
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from engine.users import OTHER_UID, as_other_user, needs_root, receive
from tqstudio.engine.host.home_lock import HomeLock
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.protocol import remote


def test_a_copy_of_a_home_has_an_id_of_its_own(tmp_path: Path) -> None:
    home, copy = Home(tmp_path / "home"), Home(tmp_path / "copy")
    home.root.mkdir()
    known = home.id()
    shutil.copytree(home.root, copy.root)
    assert copy.id() != known, "it would take the other one for its own last run, and take over at once"
    assert home.id() == known


def test_commands_follow_a_leader_in_a_home_whose_name_is_no_utf8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / os.fsdecode(b"a \xff"))
    home.root.mkdir()
    remote.follow(home, "nas", "http://127.0.0.1:1", "tq_token", None)
    monkeypatch.setenv("TQSTUDIO_HOME", str(home.root))
    monkeypatch.setenv(remote.CONNECT, remote.LEADER)
    found = remote.chosen()
    assert found is not None
    assert (found.port, found.token) == (1, "tq_token")


def test_a_leader_that_is_not_known_yet_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TQSTUDIO_HOME", str(tmp_path))
    monkeypatch.setenv(remote.CONNECT, remote.LEADER)
    with pytest.raises(TqError) as refused:
        remote.chosen()
    assert refused.value.code is ErrorCode.NO_SUPERVISOR, "not a setting to correct: workers try again"


@needs_root
def test_no_other_user_chooses_a_leader() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home")
        home.create()
        remote.follow(home, "nas", "http://127.0.0.1:1", "tq_token", None)
        for path in (home.root, home.leader):
            os.chown(path, OTHER_UID - 1, -1)
        for path in (home.root.parent, home.root):
            path.chmod(0o755)
        held = HomeLock(home)
        held.acquire()

        def ask(line: Connection) -> None:
            os.environ["TQSTUDIO_HOME"] = str(home.root)
            line.send(remote.is_chosen())

        with as_other_user(ask) as line:
            assert receive(line) is False
        home.leader.chmod(0o644)
        os.chown(home.leader, OTHER_UID, -1)
        with as_other_user(ask) as line:
            assert receive(line) is True, "its own"
        home.root.chmod(0o700)
        with as_other_user(ask) as line:
            assert receive(line) is False, "it is not readable, which the socket reports"
        held.release()

"""The folder of a supervisor."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

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

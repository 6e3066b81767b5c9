"""The lock that keeps a second supervisor of the same store out of an output."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tqstudio.engine.files.bounded_io import BoundedIO
from tqstudio.engine.outputs import workspace
from tqstudio.engine.outputs.workspace import Workspace
from tqstudio.engine.store.db.database import Database
from tqstudio.errors import ErrorCode, TqError


@pytest.fixture
def ours(opened: Database) -> Workspace:
    return Workspace(opened, "uuid", BoundedIO())


def root(tmp_path: Path, name: str = "out") -> bytes:
    (tmp_path / name / ".tqstudio" / "uuid").mkdir(parents=True)
    return os.fsencode(tmp_path / name)


def is_free(output: bytes) -> bool:
    lock = Path(os.fsdecode(output)) / ".tqstudio" / "uuid" / "lock"
    return subprocess.run(["flock", "--nonblock", lock, "true"], check=False).returncode == 0


def test_it_is_held_until_the_end(ours: Workspace, tmp_path: Path) -> None:
    output = root(tmp_path)
    for _ in range(2):
        ours.require_lock(output)
        assert not is_free(output)
    assert ours.locked() == {output}
    ours.unlock()
    assert is_free(output)
    assert ours.locked() == set()


def test_a_second_one_is_refused(ours: Workspace, opened: Database, tmp_path: Path) -> None:
    output = root(tmp_path)
    ours.require_lock(output)
    other = Workspace(opened, "uuid", BoundedIO())
    with pytest.raises(TqError, match="restored backup") as caught:
        other.require_lock(output)
    assert caught.value.code is ErrorCode.OUTPUT_IN_USE
    assert other.locked() == set()
    Workspace(opened, "another", BoundedIO()).require_lock(output)
    ours.unlock()
    other.require_lock(output)
    other.unlock()


def test_an_output_has_one_lock_under_all_its_names(ours: Workspace, tmp_path: Path) -> None:
    output = root(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "out")
    ours.require_lock(output)
    ours.require_lock(os.fsencode(tmp_path / "link"))
    assert not is_free(output)


def test_where_there_is_no_work_folder_nothing_is_made(ours: Workspace, tmp_path: Path) -> None:
    output = os.fsencode(tmp_path / "out")
    ours.require_lock(output)
    assert not (tmp_path / "out").exists()
    ours.require_lock(root(tmp_path))
    (tmp_path / "out").rename(tmp_path / "gone")
    ours.require_lock(output)
    assert ours.locked() == set(), "nothing of a disk that is away is kept open"


def test_a_lock_that_a_user_removed_is_created_again(ours: Workspace, tmp_path: Path) -> None:
    output = root(tmp_path)
    ours.require_lock(output)
    (tmp_path / "out" / ".tqstudio" / "uuid" / "lock").unlink()
    ours.require_lock(output)
    assert not is_free(output)


def test_it_stays_while_something_unfinished_lies_there(
    ours: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = root(tmp_path)
    store = tmp_path / "out" / ".tqstudio" / "uuid" / "segments" / "7"
    store.mkdir(parents=True)
    ours.require_lock(output)
    ours.unlock_unused(output)
    assert not is_free(output), "it was asked for a moment ago"
    monkeypatch.setattr(workspace, "_UNUSED_S", 0.0)
    ours.unlock_unused(output)
    assert not is_free(output)
    store.rmdir()
    ours.unlock_unused(output)
    assert is_free(output)


def test_network_file_systems_are_left_alone(
    ours: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = root(tmp_path)
    monkeypatch.setattr(workspace, "misses_inotify", lambda _path: True)
    ours.require_lock(output)
    assert not (tmp_path / "out" / ".tqstudio" / "uuid" / "lock").exists()

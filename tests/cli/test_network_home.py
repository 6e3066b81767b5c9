"""A home on a file system of another machine: its queue would not be safe there."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from engine.users import needs_root
from harness import LiveSupervisor, Program

HINT = (
    "set TQSTUDIO_HOME to a folder on a disk of this machine, or database to PostgreSQL; sources and outputs"
    " may stay there"
)


def _where(mounted: Path, kind: str, tmp_path: Path) -> tuple[str, ...]:
    """Words before a command that is to see a mount, of which it knows only from the kernel's table."""
    table = tmp_path / "mountinfo"
    line = f"999 1 0:99 / {mounted} rw - {kind} nas:/export rw\n"
    table.write_text(Path("/proc/self/mountinfo").read_text() + line)
    script = f'mount --bind {shlex.quote(str(table))} /proc/$$/mountinfo && exec "$@"'
    return ("unshare", "-m", "sh", "-c", script, "sh")


@pytest.mark.fault(
    "The home is on NFS, SMB or another network file system",
    "The start stops with `BAD_CONFIG` before a database is created; with PostgreSQL it may be there",
    area="database",
)
@needs_root
def test_a_home_on_nfs_is_refused(tmp_path: Path) -> None:
    nas = tmp_path / "nas"
    tqstudio = Program(nas / "home", before=_where(nas, "nfs4", tmp_path))
    answer = tqstudio("up")
    assert answer.code == 2
    what = f"{tqstudio.home.database} is on a network file system (nfs4), where SQLite may lose jobs"
    assert answer.err.splitlines()[-2:] == [f"error: BAD_CONFIG: {what}", f"  → {HINT}"]
    assert not tqstudio.home.root.exists()
    [found] = [row for row in tqstudio("doctor", "--json").json()["checks"] if row["name"] == "database"]
    assert (found["level"], found["hint"]) == ("fail", HINT)


@pytest.mark.slow
@needs_root
def test_a_link_to_it_is_refused_too(tmp_path: Path) -> None:
    nas = tmp_path / "nas"
    nas.mkdir()
    (tmp_path / "linked").symlink_to(nas)
    answer = Program(tmp_path / "linked", before=_where(nas, "cifs", tmp_path))("up")
    assert answer.code == 2
    assert "is on a network file system (cifs)" in answer.err
    assert list(nas.iterdir()) == []


@pytest.mark.slow
@needs_root
def test_outputs_and_the_home_of_a_queue_on_postgresql_may_be_there(tmp_path: Path) -> None:
    nas = tmp_path / "nas"
    nas.mkdir()
    before = _where(nas, "nfs", tmp_path)
    live = LiveSupervisor(tmp_path / "home", before=before, TQSTUDIO_OUTPUT=str(nas))
    try:
        live.start()
        assert live.stop() == 0
    finally:
        live.clear_away()
    answer = Program(nas / "home", before=before, TQSTUDIO_DATABASE="postgresql://media@127.0.0.1:1/x")("up")
    assert "DATABASE_UNREACHABLE" in answer.err, "it comes that far"

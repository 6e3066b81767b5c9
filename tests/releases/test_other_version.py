"""A home of a version that this one cannot open is refused by whatever would open it, and stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from databases import committed
from e2e.terminal import Terminal
from harness import PROGRAM, Answer, MakeSupervisor, Program
from tqstudio.engine.store.db.schema import SCHEMA_VERSION
from tqstudio.protocol import calls, launch
from waiting import until

from . import kept_home, next_version
from .next_version import NEXT

SENTENCES = {
    NEXT: f"has schema {NEXT}, of a newer tqstudio; this one supports up to {SCHEMA_VERSION}",
    "0021": "has schema 0021, of a development version before 0.1.0, which no release opens",
}
HINT = "install that version again, or start with an empty TQSTUDIO_HOME"
_OF_STARTS = {"supervisor.lock", "supervisor.socket-path", "logs/start.log", "ui.json"}
_OF_READERS = {"tqstudio.db-wal", "tqstudio.db-shm"}


@pytest.fixture(params=[NEXT, pytest.param("0021", marks=pytest.mark.slow)])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tqstudio(version: str, tmp_path: Path) -> Program:
    """The command, with the home of another version."""
    kept_home.unpack(kept_home.ARCHIVES[-1], tmp_path / "kept")
    tqstudio = Program(tmp_path / "kept" / "home")
    with committed(tqstudio.home.database) as db:
        db.execute("UPDATE alembic_version SET version_num = :version", {"version": version})
        db.execute("ALTER TABLE job ADD COLUMN of_that_version TEXT NOT NULL DEFAULT 'kept'")
    for name in _OF_READERS:
        tqstudio.home.root.joinpath(name).unlink(missing_ok=True)
    return tqstudio


def _files(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a folder, with its time and content."""
    found = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def _is_as_it_was(tqstudio: Program, before: dict[str, tuple[int, bytes]]) -> None:
    now, own = _files(tqstudio.home.root.parent), {f"home/{name}" for name in _OF_STARTS | _OF_READERS}
    changed = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    assert changed <= own
    assert now.get("home/tqstudio.db-wal", (0, b""))[1] == b"", "nothing is in the log"


def _is_refused(answer: Answer, tqstudio: Program, version: str) -> None:
    assert answer.code == 5
    said = answer.err.splitlines()[-2:]
    assert said == [
        f"error: DATABASE_VERSION: {tqstudio.home.database} {SENTENCES[version]}",
        f"  → {HINT}",
    ]


@pytest.mark.fault(
    "A home of a newer release, or of a development version, is opened",
    "Commands and UI refuse with `DATABASE_VERSION`; every file there stays as it is",
    area="database",
)
@pytest.mark.parametrize(
    "words",
    [
        ("up",),
        pytest.param(("up", "--detach"), marks=pytest.mark.slow),
        pytest.param(("process",), marks=pytest.mark.slow),
        ("backup",),
    ],
    ids="-".join,
)
def test_commands_refuse_it(words: tuple[str, ...], version: str, tqstudio: Program, tmp_path: Path) -> None:
    before = _files(tqstudio.home.root.parent)
    more = {"process": ("-i", tmp_path / "kept" / "sources"), "backup": (tmp_path / "copy.db",)}
    _is_refused(tqstudio(*words, *more.get(words[0], ())), tqstudio, version)
    _is_as_it_was(tqstudio, before)
    assert not (tmp_path / "copy.db").exists()


def test_status_and_doctor_say_so(version: str, tqstudio: Program) -> None:
    before = _files(tqstudio.home.root.parent)
    answer = tqstudio("status")
    assert answer.code == 3
    assert "tqstudio up --detach" in answer.err, "which is refused"
    [found] = [row for row in tqstudio("doctor", "--json").json()["checks"] if row["name"] == "database"]
    assert SENTENCES[version] in found["detail"]
    assert found["hint"] == HINT
    assert tqstudio("doctor", "--repair").code != 0
    _is_as_it_was(tqstudio, before)


@pytest.mark.slow
def test_the_terminal_ui_says_so(version: str, tqstudio: Program) -> None:
    before = _files(tqstudio.home.root.parent)
    with Terminal(PROGRAM, tqstudio.environment, columns=240) as terminal:
        terminal.shows("The supervisor cannot start", "DATABASE_VERSION", f"has schema {version}", HINT)
        log = launch.start_log(tqstudio.home)
        log.unlink()
        terminal.press("S")
        until(lambda: log.exists() and "DATABASE_VERSION" in log.read_text(), "it is refused again")
        terminal.shows("The supervisor cannot start", "DATABASE_VERSION")
        terminal.press("q")
        assert terminal.ended() == 5
    assert SENTENCES[version] in " ".join(terminal.text().split())
    _is_as_it_was(tqstudio, before)


@pytest.mark.slow
@pytest.mark.fault(
    "The version before an upgrade is installed again",
    "It refuses the migrated database; with the copy from before the migration it has every job again",
    area="database",
)
def test_the_way_back(make_supervisor: MakeSupervisor, tmp_path: Path) -> None:
    kept_home.unpack(kept_home.ARCHIVES[-1], tmp_path / "kept")
    root = tmp_path / "kept" / "home"
    newer = make_supervisor(root, **next_version.make(tmp_path / "next")).start()
    jobs = newer.send(calls.jobs(limit=200))["jobs"]
    newer.stop()
    older = make_supervisor(root)
    before = _files(root.parent)
    _is_refused(older("up"), older, NEXT)
    _is_as_it_was(older, before)
    # As docs/upgrading.md says.
    for name in _OF_READERS:
        (root / name).unlink(missing_ok=True)
    (root / "backups" / f"before-schema-{NEXT}.db").replace(older.home.database)
    older.start()
    assert [(row["id"], row["name"]) for row in older.send(calls.jobs(limit=200))["jobs"]] == [
        (row["id"], row["name"]) for row in jobs
    ]

"""A supervisor that cannot start: what it prints and leaves, its exit code, whether systemd tries again."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from databases import committed
from engine.users import OTHER_UID, needs_root
from harness import QUICK, Answer, Program
from tqstudio import path_checks
from tqstudio.cli.session import service_unit
from tqstudio.engine.store.db.schema import migrate
from tqstudio.engine.store.machine import supervisors
from tqstudio.errors import ErrorCode
from tqstudio.home import Home

from .test_service import settings

_UNIT = settings(service_unit.text("/usr/bin/python3", Path("/srv/tq"), 15))
_STAYS = [int(code) for code in _UNIT["RestartPreventExitStatus"][0].split()]
_BOTH = pytest.mark.parametrize("words", [("up",), ("up", "--detach")], ids=" ".join)


@pytest.fixture
def tqstudio(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path / "home", **QUICK)
    yield program
    program("down")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with an empty queue."""
    made = Home(tmp_path / "home")
    made.create()
    migrate(made.database)
    return made


def _says(answer: Answer, code: str, *texts: object) -> None:
    """It is one error, in a sentence, with what to do."""
    error, hint = answer.err.splitlines()[-2:]
    assert error.startswith(f"error: {code}: "), answer.err
    assert all(str(text) in error for text in texts), error
    assert hint.lstrip()
    assert "Traceback" not in answer.err


@contextlib.contextmanager
def _mounted(folder: Path, options: str) -> Iterator[None]:
    folder.mkdir(mode=0o700, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"mode=700,{options}", "none", folder]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this user may not mount: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


# OSErrors


@pytest.mark.more
@_BOTH
def test_in_a_home_whose_disk_is_full(words: tuple[str, ...], tqstudio: Program) -> None:
    root = tqstudio.home.root
    with _mounted(root, "size=64k"):
        with contextlib.suppress(OSError), (root / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
        answer = tqstudio(*words)
        assert answer.code == 4
        _says(answer, "DISK_LOW", root, "No space left on device")
        view = tqstudio(*words, "--json")
        assert (view.code, view.last_line()["error"]["code"]) == (4, "DISK_LOW")


def test_in_a_home_on_a_disk_that_was_remounted_to_be_read_only(tqstudio: Program) -> None:
    with _mounted(tqstudio.home.root, "ro"):
        answer = tqstudio("up", "--detach")
    assert answer.code == 1
    _says(answer, "IO_ERROR", tqstudio.home.root, "Read-only file system")


@pytest.mark.more
@pytest.mark.parametrize("name", ["supervisor.lock", "leader.toml"])
def test_with_a_folder_in_place_of_a_file(name: str, tqstudio: Program) -> None:
    (tqstudio.home.root / name).mkdir(parents=True)
    answer = tqstudio("up", "--detach")
    assert answer.code == 2
    _says(answer, "PERMISSION", tqstudio.home.root / name, "Is a directory")


def test_with_a_file_in_place_of_the_home(tqstudio: Program) -> None:
    tqstudio.home.root.touch()
    answer = tqstudio("up", "--detach")
    assert answer.code == 2
    _says(answer, "PERMISSION", tqstudio.home.root)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.EDQUOT, ErrorCode.DISK_LOW),
        (errno.EIO, ErrorCode.IO_ERROR),
        (errno.ESTALE, ErrorCode.IO_ERROR),
        (errno.EMFILE, ErrorCode.SYSTEM_LIMIT),
        (errno.ENOMEM, ErrorCode.OUT_OF_MEMORY),
        (errno.EACCES, ErrorCode.PERMISSION),
        (errno.ENAMETOOLONG, ErrorCode.PERMISSION),
    ],
    ids=lambda value: str(value),
)
def test_the_code_of_each_refusal(number: int, code: ErrorCode) -> None:
    error = path_checks.refused("/home", OSError(number, os.strerror(number)), "used")
    assert (error.code, error.message) == (code, f"/home cannot be used: {os.strerror(number)}")
    assert error.hint
    assert "automatically" not in error.hint, "nothing runs that would try again"


def test_on_an_address_that_is_not_there_yet(tqstudio: Program) -> None:
    answer = tqstudio("up", "--detach", "--listen", "192.0.2.1:8750", TQSTUDIO_INSECURE_LISTEN="true")
    assert answer.code == 4
    _says(answer, "REFUSED", "192.0.2.1:8750", "Cannot assign requested address")


# What is left


@pytest.mark.slow
@needs_root
@_BOTH
def test_root_leaves_nothing_in_the_home_of_a_user(words: tuple[str, ...], tqstudio: Program) -> None:
    root = tqstudio.home.root
    root.mkdir()
    os.chown(root, OTHER_UID, OTHER_UID)
    answer = tqstudio(*words)
    assert answer.code == 2
    _says(answer, "PERMISSION", root, f"uid {OTHER_UID}")
    assert list(root.iterdir()) == []


# What systemd does


def _newer(home: Home) -> None:
    with committed(home.database) as db:
        db.execute("UPDATE alembic_version SET version_num = '9999'")


def _damaged(home: Home) -> None:
    home.database.write_bytes(b"no database" * 1000)


def _of_development(home: Home) -> None:
    with committed(home.database) as db:
        db.execute("UPDATE alembic_version SET version_num = '0021'")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (_newer, "DATABASE_VERSION"),
        (_damaged, "DATABASE_DAMAGED"),
        (_of_development, "DATABASE_VERSION"),
    ],
)
def test_a_database_that_someone_must_see_to_ends_the_service(
    cause: Callable[[Home], None], code: str, home: Home, tqstudio: Program
) -> None:
    cause(home)
    before = home.database.read_bytes()
    answer = tqstudio("up", "--detach")
    assert answer.code == 5
    _says(answer, code, home.database)
    assert answer.code in _STAYS
    assert home.database.read_bytes() == before


@pytest.mark.slow
def test_a_wrong_setting_ends_the_service(tqstudio: Program) -> None:
    answer = tqstudio("up", TQSTUDIO_PROFILE="none")
    assert answer.code == 2
    _says(answer, "BAD_CONFIG")
    assert answer.code in _STAYS


@pytest.mark.slow
def test_a_full_disk_is_tried_again(tqstudio: Program) -> None:
    with _mounted(tqstudio.home.root, "size=16k"):
        answer = tqstudio("up")
    _says(answer, "DISK_LOW")
    assert answer.code not in _STAYS


@pytest.mark.more
def test_a_server_that_does_not_answer_yet_is_tried_again(tqstudio: Program) -> None:
    answer = tqstudio("up", TQSTUDIO_DATABASE="postgresql://media@127.0.0.1:1/tqstudio")
    _says(answer, "DATABASE_UNREACHABLE")
    assert answer.code not in _STAYS


@pytest.mark.slow
def test_a_database_that_another_program_has_locked_is_tried_again(home: Home, tqstudio: Program) -> None:
    with committed(home.database) as db:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("UPDATE alembic_version SET version_num = version_num")
        answer = tqstudio("up")
    _says(answer, "DATABASE_BUSY", home.database)
    assert answer.code not in _STAYS


@pytest.mark.more
def test_an_output_that_another_supervisor_uses_is_tried_again(
    home: Home, tqstudio: Program, tmp_path: Path
) -> None:
    with committed(home.database) as db:
        _, store = supervisors.begin(db, pid=1, version="0", now=1, lease_us=1)
        db.execute(
            "INSERT INTO video (source, output_root, name, name_lower, title, slug, size, mtime_ns,"
            " created_at) VALUES (x'2f61', :out, 'a', 'a', 'a', 'a', 1, 1, 1)",
            {"out": os.fsencode(tmp_path / "out")},
        )
    work = tmp_path / "out" / ".tqstudio" / store
    work.mkdir(parents=True)
    with (work / "lock").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        answer = tqstudio("up")
    _says(answer, "OUTPUT_IN_USE", tmp_path / "out")
    assert answer.code not in _STAYS

"""Checks a home for `doctor`: processes, database, outputs, leftovers, disks and kernel limits.

Read-only; works with and without a running supervisor.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil

from tqstudio import path_checks
from tqstudio.config import Settings
from tqstudio.engine.files.volumes import Volume, occupied_bytes, volume_of
from tqstudio.engine.gates.decide import DATABASE_ROOM_BYTES, FILES_ROOM, lacks_files
from tqstudio.engine.host import orphan_processes
from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.outputs.workspace import FOLDER, require_unshared
from tqstudio.engine.store.db import errors, integrity, opening
from tqstudio.engine.store.db.connection import Address, Connection, address_of, connect, dialect_of, shown
from tqstudio.engine.store.db.schema import SCHEMA_VERSION, schema_version
from tqstudio.engine.store.library import folders, videos
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.ladder_files import OWNER_NAME
from tqstudio.paths import display
from tqstudio.protocol import running
from tqstudio.protocol.answers import CheckView, check_view
from tqstudio.units import size

_GENERATION = re.compile(r"v(\d+)")
_SCRATCH = re.compile(r"(\d+)-(\d+)")
_AHEAD_US = 60 * MICROSECOND
_INOTIFY = Path("/proc/sys/fs/inotify")
_WATCHES_ARE_TIGHT = 0.8
_MAX_FOLDERS = 200_000


def examine(home: Home, settings: Settings) -> Iterator[CheckView]:
    """Checks a home and the outputs that its database names."""
    yield permissions(home)
    yield _processes(home)
    try:
        with errors.converted(address_of(home, settings)):
            yield from _database(home, settings)
    except TqError as error:
        yield check_view("database", "fail", error.message, error.hint)


def _database(home: Home, settings: Settings) -> Iterator[CheckView]:
    address = address_of(home, settings)
    if isinstance(address, Path):
        opening.require_local(address)
    is_none = (
        opening.is_empty(address)
        if isinstance(address, Path)
        else schema_version(address, read_only=True) is None
    )
    if is_none:
        yield check_view("database", "ok", "none yet; the first start creates it")
        return
    if (problem := opening.problem_of(address)) is not None:
        error = problem.error(address)
        yield check_view("database", "fail", error.message, error.hint)
        return
    version = schema_version(address, read_only=True)
    yield check_view("database", "ok", f"intact, {_facts(address)}, {_schema(version)}")
    if version == SCHEMA_VERSION:
        with closing(connect(address, read_only=True)) as db:
            yield _event_times(db)
            yield from _outputs(db, settings, home)
            yield from _watches(db)


def _facts(address: Address) -> str:
    if isinstance(address, Path):
        return f"{size(address.stat().st_size)}, SQLite {sqlite3.sqlite_version}"
    found = dialect_of(address)
    with closing(connect(address, read_only=True)) as db:
        server, used = db.execute(found.VERSION).scalar(), db.execute(found.SIZE).scalar_one()
    return f"{shown(address)}, {size(used)}, PostgreSQL {server}"


def _schema(version: str | None) -> str:
    later = "" if version == SCHEMA_VERSION else f", which the next start migrates to {SCHEMA_VERSION}"
    return f"schema {version}{later}"


# The home


def permissions(home: Home) -> CheckView:
    """Checks that only this user has access to a home."""
    try:
        if not path_checks.is_there(home.root):
            return check_view("permissions", "ok", "the first start creates the home")
    except TqError as error:
        return check_view("permissions", "fail", error.message, error.hint)
    found = home.root.stat()
    if found.st_uid != os.geteuid():
        hint = "run tqstudio as its owner, or choose another home with --home"
        return check_view("permissions", "fail", f"{home.root} belongs to user {found.st_uid}", hint)
    if found.st_mode & 0o077:
        mode = f"{found.st_mode & 0o777:o}"
        detail = f"other users have access to {home.root} (mode {mode})"
        return check_view("permissions", "warn", detail, f"close it with: chmod 700 {home.root}")
    return check_view("permissions", "ok", "only you have access to the home")


def _processes(home: Home) -> CheckView:
    """Finds processes that outlived their supervisor, and supervisors whose home was removed."""
    holder = running.holder(home)
    if holder is None and running.listening(home):
        holder = 0
    left, ghosts = [], set()
    for pid in psutil.pids():
        supervisor = orphan_processes.root_of(pid)
        # This process has the mark if a script that the supervisor started runs `doctor`.
        if supervisor is None or orphan_processes.home_of(pid) != str(home.root) or pid == os.getpid():
            continue
        if not supervisor.lives:
            left.append(pid)
        elif supervisor.pid != holder:
            ghosts.add(supervisor.pid)
    if ghosts and holder != 0:
        pids = " ".join(map(str, sorted(ghosts)))
        detail = f"a supervisor (pid {pids}) still runs for an earlier {home.root}, which was removed"
        hint = f"it ends automatically within seconds; if not: kill -9 {pids}"
        return check_view("processes", "warn", detail, hint)
    if holder is not None:
        return check_view("processes", "ok", "those of the running supervisor")
    if not left:
        return check_view("processes", "ok", "none left over")
    pids = " ".join(map(str, left))
    return check_view(
        "processes", "warn", f"still running without a supervisor: {pids}", f"end them: kill {pids}"
    )


# The database


def _event_times(db: Connection) -> CheckView:
    ahead = integrity.newest_event_at(db) - now_us()
    if ahead > _AHEAD_US:
        detail = f"the newest event is {ahead / MICROSECOND:.0f} s in the future: the clock was set back"
        hint = "correct the clock with NTP; backoffs and leases depend on it"
        return check_view("event times", "warn", detail, hint)
    return check_view("event times", "ok", "no event is in the future")


# Outputs


def _outputs(db: Connection, settings: Settings, home: Home) -> Iterator[CheckView]:
    volume = volume_of(home.root)
    if volume is not None:
        short = volume.free < DATABASE_ROOM_BYTES
        detail = f"{size(volume.free)} free for the database, {size(DATABASE_ROOM_BYTES)} are needed"
        hint = f"free some space at {home.root}"
        text = f"{ErrorCode.DISK_LOW}: {detail}" if short else detail
        yield check_view("disk of the home", "fail" if short else "ok", text, hint)
        yield from _inodes(home.root, volume)
    seen = set() if volume is None else {volume.device}
    uuid = integrity.store_uuid(db)
    left: list[Path] = []
    for root in videos.output_roots(db):
        yield from _users(root, settings)
        volume = volume_of(Path(os.fsdecode(root)))
        if volume is not None and volume.free < settings.disk_reserve_bytes:
            detail = f"{size(volume.free)} free, but {size(settings.disk_reserve_bytes)} are reserved"
            text = f"{ErrorCode.DISK_LOW}: {detail}"
            hint = "free some space there"
            if volume.never_has(settings.disk_reserve_bytes):
                hint = f"its size is {size(volume.total)}: lower disk_reserve_bytes, or choose another output"
            yield check_view(f"disk of {display(root)}", "fail", text, hint)
        if volume is not None and volume.device not in seen:
            seen.add(volume.device)
            yield from _inodes(Path(os.fsdecode(root)), volume)
        if uuid is not None:
            left += _left_over(db, root, uuid)
    yield _orphans(left)


def _users(root: bytes, settings: Settings) -> Iterator[CheckView]:
    try:
        if not settings.allow_shared_output:
            require_unshared(root)
    except TqError as shared:
        yield check_view(f"users of {display(root)}", "fail", f"{shared.code}: {shared.message}", shared.hint)
    except OSError:
        return  # inaccessible outputs are reported by another check


def _inodes(folder: Path, volume: Volume) -> Iterator[CheckView]:
    if lacks_files(volume):
        detail = f"the file system of {folder} has {volume.files} files free, {FILES_ROOM} are needed"
        yield check_view(
            f"inodes of {folder}", "fail", detail, "remove files there: its limit of files is reached"
        )


def _orphans(left: list[Path]) -> CheckView:
    if not left:
        return check_view("left over", "ok", "no unused folders")
    total = size(sum(occupied_bytes(folder) for folder in left))
    shown = ", ".join(display(os.fsencode(folder)) for folder in left[:3])
    more = f" and {len(left) - 3} more" if len(left) > 3 else ""
    return check_view(
        "left over", "warn", f"{total} in unused folders: {shown}{more}", "check them, then remove them"
    )


def _left_over(db: Connection, root: bytes, uuid: str) -> Iterator[Path]:
    """Finds scratch directories, segment stores and generations that the database does not know."""
    output = Path(os.fsdecode(root))
    work_dir = output / FOLDER / uuid
    for folder in _folders(work_dir / "scratch"):
        scratch = _SCRATCH.fullmatch(folder.name)
        if scratch and not integrity.runs(db, int(scratch[1]), int(scratch[2])):
            yield folder
    for folder in _folders(work_dir / "segments"):
        if folder.name.isdigit() and not integrity.has_video(db, int(folder.name)):
            yield folder
    for folder in _ladders(output):
        if not _is_ours(folder, uuid):
            continue
        known = integrity.numbers_at(db, root, folder.relative_to(output).as_posix())
        if known is None:
            continue  # a restored database may not know it, and it may be in use
        for generation in _folders(folder):
            number = _GENERATION.fullmatch(generation.name)
            if number and int(number[1]) not in known and not _plays(folder, generation.name):
                yield generation


def _ladders(folder: Path) -> Iterator[Path]:
    """Finds the folders of ladders, at any depth."""
    for inner in _folders(folder):
        if os.path.lexists(inner / OWNER_NAME):
            yield inner
        elif not inner.name.startswith("."):
            yield from _ladders(inner)


def _is_ours(folder: Path, uuid: str) -> bool:
    try:
        return (folder / OWNER_NAME).read_text(errors="replace").startswith(f"{uuid} ")
    except OSError:
        return False


def _plays(folder: Path, name: str) -> bool:
    try:
        return f"{name}/" in (folder / "master.m3u8").read_text(errors="replace")
    except OSError:
        return False


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink())
    except OSError:
        return []


# Limits


def _watches(db: Connection) -> Iterator[CheckView]:
    """Checks that the kernel's limit of inotify watches suffices for all drop folders."""
    watched = [row for row in folders.listing(db) if row.enabled and row.watch != "polling"]
    if not watched or not _INOTIFY.is_dir():
        return
    allowed = int((_INOTIFY / "max_user_watches").read_text())
    wanted = 0
    for row in watched:
        for _ in os.walk(row.path) if row.recursive else (row.path,):
            wanted += 1
            if wanted > _MAX_FOLDERS:
                break
    tight = wanted > _WATCHES_ARE_TIGHT * allowed
    detail = f"{wanted} folders to watch, {allowed} watches allowed per user"
    hint = f"raise the limit: sudo sysctl fs.inotify.max_user_watches={max(524_288, 2 * wanted)}"
    yield check_view("inotify", "warn" if tight else "ok", detail, hint)

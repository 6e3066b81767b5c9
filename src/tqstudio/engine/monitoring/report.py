"""Writes the report that an issue asks for: versions, checks, settings, counts and the last lines of logs.

Read-only; works with and without a running supervisor, and with a database that cannot be opened.
"""

from __future__ import annotations

import heapq
import os
import platform
import re
import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from importlib import metadata
from pathlib import Path

import psutil

from tqstudio import __version__
from tqstudio.config import Settings
from tqstudio.engine.monitoring import settings as settings_views
from tqstudio.engine.monitoring.private_names import PrivateNames, without_hosts
from tqstudio.engine.store.db import errors
from tqstudio.engine.store.db.connection import address_of, connect
from tqstudio.engine.store.library import folders, names, videos
from tqstudio.engine.store.lists import pages
from tqstudio.errors import TqError
from tqstudio.home import Home
from tqstudio.paths import readable_lines
from tqstudio.protocol.answers import CheckView
from tqstudio.units import size

_NEWEST_FILMS = 2_000
"""Whose names are replaced beside those of jobs that the logs name."""
_LINES, _ATTEMPT_LINES, _ATTEMPT_LOGS, _EXAMINED = 200, 150, 3, 200
_FAILED = re.compile(r"^[\d-]+ [\d:.]+ failed: ", re.MULTILINE)
_JOB = re.compile(r"\bjob[= ](\d{1,18})\b")
_COMMANDS = ("on_done", "on_failed", "on_viewable")
"""Settings that may contain passwords of other programs."""


def report(
    home: Home, settings: Settings | None, checks: Iterable[CheckView], *, with_names: bool
) -> Iterator[str]:
    """Yields the sections of the report.

    Args:
        settings: None if they cannot be read.
        checks: what `doctor` found.
        with_names: leave the names of films and folders in it.
    """
    facts = {
        "versions": _versions(),
        "machine": _machine(),
        "checks": [f"{c['level']:5} {c['name']}: {c['detail']}" for c in checks],
        "settings that differ": _settings(settings) if settings else ["cannot be read"],
    }
    logs = {path.relative_to(home.root).as_posix(): _last(path, n) for path, n in _logs(home)}
    logs = {name: lines for name, lines in logs.items() if lines}
    private, facts["jobs"] = _of_database(home, settings, "\n".join(map("\n".join, logs.values())))
    if with_names:
        kind = "Names of films and folders are in it, as asked for."
    elif private:
        kind = "Names of films and folders are replaced."
    else:
        kind, logs = "Its logs are left out: without the database their names of films are not known.", {}
    yield without_hosts(f"Report of tqstudio {__version__}. {kind} Read it before you share it.\n")
    for title, lines in (facts | logs).items():
        text = readable_lines("\n".join(lines))
        if private and not with_names:
            text = private.replaced(text)
        yield without_hosts(f"== {title}\n{text}\n")


def _versions() -> list[str]:
    needs = [each for each in metadata.requires("tqstudio") or [] if "'dev'" not in each.replace('"', "'")]
    found = {name: _version(name) for name in (re.split(r"[^\w.-]", need, maxsplit=1)[0] for need in needs)}
    packages = " ".join(f"{name}={version}" for name, version in sorted(found.items()) if version)
    return [
        f"tqstudio {__version__}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}",
        f"{_distribution()}, {platform.system()} {platform.release()}, {platform.machine()}",
        packages,
    ]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None  # of an extra


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return "unknown distribution"


def _machine() -> list[str]:
    memory = psutil.virtual_memory()
    return [
        f"{os.cpu_count()} CPUs, {size(memory.total)} of memory, of which {size(memory.available)} are free"
    ]


def _settings(settings: Settings) -> list[str]:
    lines = []
    for view in settings_views.views(settings):
        if view["value"] != view["default"]:
            lines.append(f"{view['name']} = {'not shown' if view['name'] in _COMMANDS else view['value']}")
    return lines or ["none"]


def _of_database(home: Home, settings: Settings | None, logged: str) -> tuple[PrivateNames | None, list[str]]:
    """Read which names to replace, and how many jobs there are by status."""
    jobs = sorted({int(found) for found in _JOB.findall(logged)})[-10_000:]
    try:
        address = address_of(home, settings or Settings())
        with errors.converted(address), closing(connect(address, read_only=True)) as db:
            films = names.of_videos(db, jobs, newest=_NEWEST_FILMS)
            places = {folder.path for folder in folders.listing(db)} | set(videos.output_roots(db))
            counts = pages.counts_by_status(db)
    except TqError as error:
        return None, [f"{error.code}: {error.message}"]
    return PrivateNames(home.root, films, places), [", ".join(f"{n} {name}" for name, n in counts.items())]


def _logs(home: Home) -> Iterator[tuple[Path, int]]:
    """The logs of the programs, and of the last attempts that failed, each with how many lines are wanted."""
    yield from ((path, _LINES) for path in sorted(home.logs.glob("*.log")))
    attempts = heapq.nlargest(_EXAMINED, home.logs.glob("jobs/*/*.log"), key=_changed)
    failed = (path for path in attempts if _FAILED.search("\n".join(_last(path, _ATTEMPT_LINES))))
    yield from ((path, _ATTEMPT_LINES) for path, _ in zip(failed, range(_ATTEMPT_LOGS), strict=False))


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _last(path: Path, lines: int) -> Sequence[str]:
    try:
        with path.open(errors="backslashreplace") as file:
            return [line.rstrip("\n") for line in deque(file, lines)]
    except OSError as error:
        return [f"cannot be read: {error.strerror}"]

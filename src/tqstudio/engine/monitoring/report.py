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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import psutil
from sqlalchemy import select

from tqstudio import __version__
from tqstudio.config import Settings
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.monitoring import settings as settings_views
from tqstudio.engine.monitoring.private_names import PrivateNames, without_hosts
from tqstudio.engine.store.db import errors, tables
from tqstudio.engine.store.db.connection import address_of, connect
from tqstudio.engine.store.library import folders, names, videos
from tqstudio.engine.store.lists import pages
from tqstudio.engine.store.machine import standbys, workers
from tqstudio.errors import TqError
from tqstudio.home import Home
from tqstudio.paths import readable_lines
from tqstudio.protocol.answers import CheckView, SettingView
from tqstudio.units import size

_NEWEST_FILMS = 2_000
"""Whose names are replaced beside those of jobs that the logs name."""
_LINES, _ATTEMPT_LINES, _ATTEMPT_LOGS, _EXAMINED = 200, 150, 3, 200
_FAILED = re.compile(r"^[\d-]+ [\d:.]+ failed: ", re.MULTILINE)
_JOB = re.compile(r"\bjob[= ](\d{1,18})\b")
_INVALID = re.compile(r"(?<=is invalid: it is ).*(?= and must be )", re.DOTALL)
_PATHS = ("output", "ffmpeg", "tls_cert", "tls_key", "incoming", "redis_roots")
_URLS = ("database", "redis_url", "alert_webhook", "alert_apprise")
_HOST_OF_URL = re.compile(r"://(?:[^/@\s]*@)?([^/:?,\s]+)")
_SHIPPED = frozenset(profiles.available())


@dataclass(frozen=True)
class _Known:
    """What the database names."""

    films: Sequence[names.VideoNames] = ()
    folders: Collection[bytes] = ()
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Names of machines and profiles, and what to show instead."""


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
        "checks": [_INVALID.sub("<set>", f"{c['level']:5} {c['name']}: {c['detail']}") for c in checks],
        "settings that differ": _settings(settings) if settings else ["cannot be read"],
    }
    logs = {path.relative_to(home.root).as_posix(): _last(path, n) for path, n in _logs(home)}
    logs = {name: lines for name, lines in logs.items() if lines}
    known, facts["jobs"] = _of_database(home, settings, "\n".join(map("\n".join, logs.values())))
    if with_names:
        kind = "Names of films and folders are in it, as asked for."
    elif known:
        kind = "Names of films and folders are replaced."
    else:
        kind, logs = "Its logs are left out: without the database their names of films are not known.", {}
    known = known or _Known()
    hosts = {**(_hosts(settings) if settings else {}), **_own_profiles(home.profiles), **known.hosts}
    private = PrivateNames(home.root, known.films, known.folders, _paths(settings) if settings else ())
    yield f"Report of tqstudio {__version__}. {kind} Read it before you share it.\n"
    for title, lines in (facts | logs).items():
        text = readable_lines("\n".join(lines))
        yield f"== {title}\n{without_hosts(text if with_names else private.replaced(text), hosts)}\n"


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
    differing = (view for view in settings_views.views(settings) if view["value"] != view["default"])
    return [f"{view['name']} = {_harmless(settings, view)}" for view in differing] or ["none"]


def _harmless(settings: Settings, view: SettingView) -> str:
    """The value of a setting, unless it is a text that may name something."""
    value, kind = getattr(settings, view["name"]), Settings.model_fields[view["name"]].annotation
    names_nothing = view["name"] == "hours" or kind is not str or value in ("", *_SHIPPED)
    return view["value"] if names_nothing else "<set>"


def _paths(settings: Settings) -> list[bytes]:
    values = ",".join(getattr(settings, name) for name in _PATHS).split(",")
    return [os.fsencode(value.strip()) for value in values if value.strip()]


def _hosts(settings: Settings) -> dict[str, str]:
    found = _HOST_OF_URL.findall(" ".join(getattr(settings, name) for name in _URLS))
    found += [settings.name, settings.redis_prefix, settings.listen.rpartition(":")[0]]
    found += map(str.strip, settings.hosts.split(","))
    # Addresses are replaced anyway.
    return {name: "<host>" for name in found if re.search("[A-Za-z]", name) and name != "localhost"}


def _own_profiles(folder: Path, used: Iterable[str] = ()) -> dict[str, str]:
    own = sorted({*used, *(path.stem for path in folder.glob("*.toml"))} - _SHIPPED)
    return {name: f"<profile {number}>" for number, name in enumerate(own, 1)}


def _of_database(home: Home, settings: Settings | None, logged: str) -> tuple[_Known | None, list[str]]:
    """Read which names to replace, and how many jobs there are by status."""
    jobs = sorted({int(found) for found in _JOB.findall(logged)})[-10_000:]
    try:
        address = address_of(home, settings or Settings.model_construct())
        with errors.converted(address), closing(connect(address, read_only=True)) as db:
            films = names.of_videos(db, jobs, newest=_NEWEST_FILMS)
            drops = folders.listing(db)
            places = {*videos.output_roots(db), *(path for each in drops for path in _places(each))}
            remote = [worker.name for worker in workers.listing(db) if worker.type == "remote"]
            peers = {peer.name for peer in (*standbys.listing(db), standbys.leader(db)) if peer}
            of_jobs = select(tables.job.c.profile).where(tables.job.c.id.in_(jobs)).distinct()
            used = [*(each.profile for each in drops), *db.execute(of_jobs).scalars()]
            counts = pages.counts_by_status(db)
    except TqError as error:
        return None, [f"{error.code}: {error.message}"]
    hosts = dict.fromkeys(peers, "<host>") | _own_profiles(home.profiles, used)
    hosts |= {name: f"<worker {number}>" for number, name in enumerate(remote, 1)}
    return _Known(films, places, hosts), [", ".join(f"{n} {name}" for name, n in counts.items())]


def _places(folder: folders.FolderRow) -> Iterator[bytes]:
    yield from (folder.path, folder.output_root)
    if folder.done_dir:
        yield folder.done_dir


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

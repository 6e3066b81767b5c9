"""Packs the home of a release with its outputs and sources, and unpacks it in another place."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import sqlite3
import tarfile
from pathlib import Path
from typing import Any

from e2e.studio import Studio
from tqstudio.protocol import calls

HERE = Path(__file__).parent
ARCHIVES = sorted(HERE.glob("home-*.tar.xz"))
PLACE = b"/tqstudio-kept"
"""Stands in the archive for the folder that home, outputs and sources are in."""
SETTINGS = {"profile": "small", "workers": 2, "name": "kept"}
"""Of the supervisor that opens it."""
OWN_SETTINGS = {"divide_jobs": "false", "keep_old_s": "86400", "upload_expiry_s": "604800"}
"""Of the settings file of the home."""
SHOWN_NAME = "shown.json"
"""What the API of the release answered last, in that folder."""

_CODED = re.compile(r"(?<=\")(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?(?=\")")
"""A path in base64, as JSON has it."""


def pack(root: Path, archive: Path) -> None:
    """Pack a folder with the home `home`, in which no supervisor runs; its paths are replaced in it."""
    _move(root, bytes(root), PLACE)
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        tar.add(root, ".", filter=_without_owner)


def unpack(archive: Path, root: Path) -> Any:
    """Unpack it as this folder; returns what the release has shown of it."""
    with tarfile.open(archive) as tar:
        tar.extractall(root, filter="data")
    (root / "home").chmod(0o700)
    _move(root, PLACE, bytes(root))
    return json.loads((root / SHOWN_NAME).read_text())


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _move(root: Path, old: bytes, new: bytes) -> None:
    """Replace a path in the database, its write-ahead log included, and in texts."""
    home = root / "home"
    with contextlib.closing(sqlite3.connect(home / "tqstudio.db")) as raw:
        raw.create_function("moved", 1, lambda value: _moved(value, old, new), deterministic=True)
        for (table,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for _, column, *_ in raw.execute(f"PRAGMA table_info({table})").fetchall():
                changed = f"{column} IS NOT moved({column})"
                raw.execute(f"UPDATE {table} SET {column} = moved({column}) WHERE {changed}")
        raw.commit()
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for path in (root / SHOWN_NAME, *home.glob("*.toml"), *home.glob("logs/**/*.log")):
        path.write_text(_moved(path.read_text(), old, new))


def _moved(value: Any, old: bytes, new: bytes) -> Any:
    if isinstance(value, bytes):
        return value.replace(old, new)
    if not isinstance(value, str):
        return value

    def coded(found: re.Match[str]) -> str:
        path = base64.b64decode(found[0])
        return base64.b64encode(path.replace(old, new)).decode() if path.startswith(old) else found[0]

    return _CODED.sub(coded, value.replace(old.decode(), new.decode()))


def shown(studio: Studio) -> dict[str, Any]:
    """What the API shows of a home; a job by its number."""
    pages = [studio.send(calls.jobs(line, limit=200))["jobs"] for line in ("", "state:deleted")]
    settings = {row["name"]: row["value"] for row in studio.send(calls.settings())["settings"]}
    return {
        "jobs": {str(row["id"]): studio.send(calls.job(row["id"])) for page in pages for row in page},
        "events": studio.send(calls.events(after=0, limit=1000))["events"],
        "videos": studio.send(calls.videos(limit=200))["videos"],
        "folders": studio.send(calls.folders())["folders"],
        "tokens": studio.send(calls.tokens())["tokens"],
        "workers": studio.send(calls.workers())["workers"],
        "gates": studio.status()["gates"],
        "settings": {name: settings[name] for name in OWN_SETTINGS},
    }

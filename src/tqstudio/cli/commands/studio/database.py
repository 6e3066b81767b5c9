"""`backup` copies the database to a file while it is in use; `database copy` moves it, to PostgreSQL too."""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tqstudio import path_checks, units
from tqstudio.cli.session.supervisor_session import client
from tqstudio.cli.terminal import printing
from tqstudio.cli.terminal.options import JsonFlag
from tqstudio.home import Home, current_home
from tqstudio.paths import absolute, data, display, encode
from tqstudio.protocol import calls

if TYPE_CHECKING:
    from sqlalchemy import URL

TIMEOUT_S = 3600.0


def backup(
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="PATH", help="A new file, or an existing folder; default: the home's backups/."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Copy the database to a new file; the copy is checked.

    Works with and without a supervisor. To restore a copy see docs/backup.md.
    """
    from tqstudio.protocol import launch

    home = current_home()
    target = _target(home, path)
    if launch.supervisor_of(home) is not None:
        size = client().send(calls.backup(encode(target)), timeout_s=TIMEOUT_S)["size"]
    else:
        from tqstudio.config import load_settings
        from tqstudio.engine.store.db import backup as store
        from tqstudio.engine.store.db.connection import address_of

        size = store.copy(address_of(home, load_settings(home)), target)
    view = {"path": data(target), "path_b64": encode(target), "size": size}
    return printing.answer(view, f"{display(os.fsencode(target))}: {units.size(size)}, checked", as_json)


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="A file of SQLite, or a URL of PostgreSQL.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="A new file, or an empty database.")],
    as_json: JsonFlag = False,
) -> int:
    """Copy a whole database: between a file of SQLite and PostgreSQL, in either direction.

    The supervisors of both must be stopped. Afterwards set `database` in config.toml to the copy.
    """
    from tqstudio.engine.host.home_lock import HomeLock
    from tqstudio.engine.store.db import copying
    from tqstudio.engine.store.db.connection import shown

    old, new = _address(source), _address(target)
    with contextlib.ExitStack() as locks:
        for home in (Home(each.parent) for each in (old, new) if isinstance(each, Path)):
            if home.database not in (old, new) or not home.root.is_dir():
                continue  # a copy elsewhere, which no supervisor uses
            held = HomeLock(home)
            held.acquire()
            locks.callback(held.release)
        rows = copying.copy(
            old, new, progress=lambda name, count: printing.err(f"{name}: {count} rows") if count else None
        )
    view = {"from": shown(old), "to": shown(new), "rows": rows}
    return printing.answer(view, f"{shown(new)}: {rows} rows", as_json)


def _address(given: str) -> Path | URL:
    from tqstudio.engine.store.db.connection import url_of

    return url_of(given) if "://" in given else Path(absolute(given))


def _target(home: Home, path: str | None) -> Path:
    name = f"tqstudio-{datetime.now(UTC):%Y%m%d-%H%M%S}.db"
    if path is None:
        return home.backups / name
    chosen = Path(absolute(path))
    return chosen / name if path_checks.is_folder(chosen) else chosen

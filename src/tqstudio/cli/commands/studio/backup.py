"""`backup`: copies the database, with or without a running supervisor."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from tqstudio import path_checks, units
from tqstudio.cli import printing
from tqstudio.cli.options import JsonFlag
from tqstudio.cli.supervisor_session import client
from tqstudio.home import Home, current_home
from tqstudio.paths import absolute, data, display, encode
from tqstudio.protocol import calls

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
    """Copy the database to a new file, and check the copy.

    Works with and without a supervisor. To restore a copy see docs/backup.md.
    """
    from tqstudio.protocol import launch

    home = current_home()
    target = _target(home, path)
    if launch.running(home) is not None:
        size = client().send(calls.backup(encode(target)), timeout_s=TIMEOUT_S)["size"]
    else:
        from tqstudio.engine.store.db import backup as store

        size = store.copy(home.database, target)
    view = {"path": data(target), "path_b64": encode(target), "size": size}
    return printing.answer(view, f"{display(os.fsencode(target))}: {units.size(size)}, checked", as_json)


def _target(home: Home, path: str | None) -> Path:
    name = f"tqstudio-{datetime.now(UTC):%Y%m%d-%H%M%S}.db"
    if path is None:
        return home.backups / name
    chosen = Path(absolute(path))
    return chosen / name if path_checks.is_folder(chosen) else chosen

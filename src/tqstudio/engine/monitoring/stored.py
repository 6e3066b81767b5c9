"""Reads what the monitoring needs of the database."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.lists import pages
from tqstudio.engine.store.machine import gates, workers
from tqstudio.engine.store.machine.gates import GateRow
from tqstudio.engine.store.machine.workers import WorkerRow
from tqstudio.errors import UNWRITTEN, TqError


@dataclass(frozen=True, slots=True)
class Stored:
    """Jobs by status, workers, closed gates."""

    jobs: Mapping[str, int]
    workers: Sequence[WorkerRow]
    gates: Sequence[GateRow]


async def read(db: Database) -> Stored:
    """Reads from a database whose writer answers too."""
    found, _ = await asyncio.gather(db.read(_read), _write_nothing(db))
    return found


def _read(db: Connection) -> Stored:
    return Stored(pages.counts_by_status(db), workers.listing(db), gates.listing(db))


async def _write_nothing(db: Database) -> None:
    """Wait for the writer; one that refuses to write, because its disk is full, answers as well."""
    try:
        await db.write(lambda _: None)
    except TqError as error:
        if error.code not in UNWRITTEN:
            raise

"""Reads what the monitoring needs of the database."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tqstudio.engine.host.clock import MICROSECOND
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.library import deliveries
from tqstudio.engine.store.lists import pages
from tqstudio.engine.store.machine import gates, standbys, supervisors, workers
from tqstudio.engine.store.machine.gates import GateRow
from tqstudio.engine.store.machine.workers import WorkerRow
from tqstudio.errors import UNWRITTEN, TqError

_SEEN_US = 3 * standbys.SEEN_S * MICROSECOND
"""One that has not been seen for so long does not stand by."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Jobs by status, workers, closed gates; copies for buckets; other supervisors."""

    jobs: Mapping[str, int]
    workers: Sequence[WorkerRow]
    gates: Sequence[GateRow]
    deliveries: Mapping[str, int]
    standbys: int
    leader_changes: int


async def read(db: Database) -> Stored:
    """Read from a database whose writer answers too."""
    found, _ = await asyncio.gather(db.read(_read), _write_nothing(db))
    return found


def _read(db: Connection) -> Stored:
    waiting, failing = deliveries.waiting_and_failing(db)
    return Stored(
        pages.counts_by_status(db),
        workers.listing(db),
        gates.listing(db),
        {"waiting": waiting, "failing": failing},
        standbys.number(db, after=db.now_us() - _SEEN_US),
        supervisors.leader_changes(db),
    )


async def _write_nothing(db: Database) -> None:
    """Wait for the writer; one that refuses to write, because its disk is full, answers as well."""
    try:
        await db.write(lambda _: None)
    except TqError as error:
        if error.code not in UNWRITTEN:
            raise

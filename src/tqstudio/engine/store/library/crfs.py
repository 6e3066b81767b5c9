"""Stores the CRFs that were decided for the quality that a profile asks for, with their video."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import bindparam, select, update

from tqstudio.engine.store.db import tables
from tqstudio.engine.store.db.connection import Connection
from tqstudio.protocol.worker_answers import DecidedCrf

_MAX_KEPT = 64
"""Of a video: of the codecs and encoders of many settings."""

_CRFS = select(tables.video.c.crfs).where(tables.video.c.id == bindparam("video"))


def of_video(db: Connection, video: int) -> list[DecidedCrf]:
    """Returns the CRFs that were decided for a video, of any content and settings, newest last."""
    return json.loads(db.execute(_CRFS, {"video": video}).scalar_one())  # type: ignore[no-any-return]


def add(db: Connection, video: int, decided: Sequence[DecidedCrf]) -> None:
    """Records decided CRFs, in place of those for the same settings and encoder; keeps the newest."""
    new = {(each["settings_hash"], each["encoder"]) for each in decided}
    kept = [each for each in of_video(db, video) if (each["settings_hash"], each["encoder"]) not in new]
    stored = json.dumps([*kept, *decided][-_MAX_KEPT:])
    db.execute(update(tables.video).where(tables.video.c.id == video).values(crfs=stored))

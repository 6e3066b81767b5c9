"""Changes a database without a supervisor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tqstudio.engine.store.db.connection import Connection, connect


@contextmanager
def committed(path: Path) -> Iterator[Connection]:
    """A connection whose changes are committed at the end."""
    db = connect(path)
    try:
        yield db
        db.commit()
    finally:
        db.close()

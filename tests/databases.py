"""Changes a database without a supervisor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tqstudio.engine.store.db.connection import Address, Connection, connect


@contextmanager
def committed(address: Address) -> Iterator[Connection]:
    """A connection whose changes are committed at the end."""
    db = connect(address)
    try:
        yield db
        db.commit()
    finally:
        db.close()

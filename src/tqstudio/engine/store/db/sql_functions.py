"""What statements call and SQLite does not know by itself."""

from __future__ import annotations

import sqlite3


def add(connection: sqlite3.Connection) -> None:
    """Teach them to a connection."""
    connection.create_function("name_holds", 2, name_holds, deterministic=True)


def name_holds(name: str, wanted: str) -> bool:
    """Whether the name holds the text, which is in small letters, in any alphabet."""
    return wanted in name.lower()

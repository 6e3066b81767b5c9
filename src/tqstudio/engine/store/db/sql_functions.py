"""Defines the SQL functions that statements use in addition to SQLite's own."""

from __future__ import annotations

import sqlite3


def add(connection: sqlite3.Connection) -> None:
    """Registers the functions on a connection."""
    connection.create_function("name_holds", 2, name_holds, deterministic=True)


def name_holds(name: str, wanted: str) -> bool:
    """Whether the name contains the lower-case text, ignoring case in any alphabet."""
    return wanted in name.lower()

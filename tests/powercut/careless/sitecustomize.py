"""Makes a studio that forgets to sync, in one of three ways. To show that the cuts would be noticed.

Loaded by Python itself in every process of the studio, as this folder is in its PYTHONPATH.
"""

from __future__ import annotations

import os
import sqlite3
from typing import Any

_careless = os.environ.get("POWERCUT_CARELESS")
_CARE = "PRAGMA synchronous=FULL"
_HURRY = f"PRAGMA synchronous={'NORMAL' if _careless == 'commits' else 'OFF'}"


def _nothing(_descriptor: int) -> None:
    """Where a sync should be."""


class _Hurried(sqlite3.Connection):
    """Believes that SQLite is slow because of its syncs."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        return super().execute(_HURRY if sql == _CARE else sql, *values)


def _connect(*arguments: Any, **named: Any) -> sqlite3.Connection:
    return _Hurried(*arguments, **named)


if _careless == "files":
    os.fsync = os.fdatasync = _nothing  # type: ignore[assignment]
if _careless in ("database", "commits"):
    sqlite3.connect = _connect  # type: ignore[assignment]

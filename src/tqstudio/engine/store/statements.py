"""SQL text."""

from __future__ import annotations


def text(sql: str) -> str:
    return sql

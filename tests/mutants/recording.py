"""Sees the store's statements where they run, and puts others in their place."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from tqstudio.engine import store
from tqstudio.engine.store.db.connection import Connection

_STORE = str(Path(inspect.getfile(store)).parent)


@dataclass(frozen=True, slots=True, order=True)
class Statement:
    """A text that a function of the store runs."""

    function: str
    """`module.function`"""
    sql: str


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A line of the store."""

    file: str
    line: int


Seen = Callable[[Statement, Place], str]
"""Told of a statement that is about to run; answers with what runs in its place."""


@contextmanager
def watched(seen: Seen) -> Iterator[None]:
    """While it lasts, all of the store's statements in this process go by `seen`."""
    run = Connection.execute

    def execute(self: Connection, sql: str, values: Mapping[str, Any] | None = None) -> Any:
        frame = sys._getframe(1)
        code = frame.f_code
        # A generator or lambda within a function has a name of its own: `page.<locals>.<genexpr>`.
        if code.co_filename.startswith(_STORE):
            function = f"{Path(code.co_filename).stem}.{code.co_qualname.partition('.<locals>')[0]}"
            sql = seen(Statement(function, sql), Place(code.co_filename, frame.f_lineno))
        return run(self, sql, values)

    Connection.execute = execute  # type: ignore[method-assign]
    try:
        yield
    finally:
        Connection.execute = run  # type: ignore[method-assign]


def places() -> dict[Place, range]:
    """Every call in the store that runs a statement: where it begins, and its lines."""
    found = {}
    for path in sorted(Path(_STORE).rglob("*.py")):
        if path.name == "connection.py" or "migrations" in path.parts:  # the driver's own calls
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if _is_execute(node):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                found[Place(str(path), node.lineno)] = lines
    return found


def _is_execute(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "execute"

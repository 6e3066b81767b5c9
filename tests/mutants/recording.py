"""Sees the store's statements where they run, and puts others in their place."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from sqlalchemy import event

from tqstudio import wings
from tqstudio.engine import store
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.dialects import sqlite

_STORE, _WINGS = (str(Path(inspect.getfile(package)).parent) for package in (store, wings))
_NO_STATEMENTS = ("backup.py", "connection.py", "schema.py", "sqlite.py")
"""Modules that call the driver itself, or create the tables."""


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
"""Called with a statement that is about to run; answers with what runs in its place."""


@contextmanager
def watched(seen: Seen) -> Iterator[None]:
    """Pass all of the store's statements in this process to `seen`, as SQL with named values."""
    run, make = Connection.execute, sqlite.create_engine
    caller: list[tuple[str, Place]] = []

    def execute(self: Connection, statement: Any, values: Any = None) -> Any:
        frame = sys._getframe(1)
        code = frame.f_code
        if not _is_of_store(code.co_filename):
            return run(self, statement, values)
        # A generator or lambda within a function has a name of its own: `page.<locals>.<genexpr>`.
        function = f"{module_of(Path(code.co_filename))}.{code.co_qualname.partition('.<locals>')[0]}"
        caller.append((function, Place(code.co_filename, frame.f_lineno)))
        try:
            return run(self, statement, values)
        finally:
            caller.clear()

    def in_its_place(_c: Any, _cursor: Any, sql: str, values: Any, *_: Any) -> tuple[str, Any]:
        # The first statement of a transaction is preceded by the one that begins it.
        if caller and not sql.startswith("BEGIN"):
            function, place = caller.pop()
            sql = seen(Statement(function, " ".join(sql.split())), place)
        return sql, values

    def named(*arguments: Any, **more: Any) -> Any:
        # A statement that lacks a clause needs fewer values: by position they would be the wrong ones.
        engine = make(*arguments, paramstyle="named", **more)
        event.listen(engine, "before_cursor_execute", in_its_place, retval=True)
        return engine

    Connection.execute = execute  # type: ignore[method-assign]
    sqlite.create_engine = named
    sqlite.engine_of.cache_clear()
    try:
        yield
    finally:
        Connection.execute = run  # type: ignore[method-assign]
        sqlite.create_engine = make
        sqlite.engine_of.cache_clear()


def module_of(path: Path) -> str:
    """Return the name of a module of the store; the statements of a wing have the wing's."""
    return path.parent.name if path.stem == "store" else path.stem


def files() -> list[Path]:
    """Return the modules of the store and those of the wings' statements."""
    return sorted([*Path(_STORE).rglob("*.py"), *Path(_WINGS).glob("*/store.py")])


def _is_of_store(file: str) -> bool:
    return file.startswith(_STORE) or (file.startswith(_WINGS) and file.endswith("/store.py"))


def places() -> dict[Place, range]:
    """Every call in the store that runs a statement: where it begins, and its lines."""
    found = {}
    for path in files():
        if path.name in _NO_STATEMENTS or "migrations" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if _is_execute(node):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                found[Place(str(path), node.lineno)] = lines
    return found


def _is_execute(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "execute"

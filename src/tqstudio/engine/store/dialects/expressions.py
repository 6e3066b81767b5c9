"""Parts of statements that SQLite and PostgreSQL write differently: statements that use them run on both."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Text
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.dialects.sqlite.dml import OnConflictDoNothing, OnConflictDoUpdate
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction, ReturnTypeFromArgs

NOT_INDEXED = "NOT INDEXED"
"""The hint that makes SQLite read the table alone."""

upsert = insert
"""INSERT with ON CONFLICT. PostgreSQL's own costs 3 MB of memory; it reads one attribute more."""
OnConflictDoNothing.constraint_target = OnConflictDoUpdate.constraint_target = None  # type: ignore[attr-defined]


def indexed_by(index: str) -> str:
    """Returns the hint for SQLite that names an index: `with_hint(job, indexed_by(…), "sqlite")`.

    Without statistics it chooses among the indexes of `job` by their columns alone, often wrongly.
    """
    return f"INDEXED BY {index}"


class json_value(GenericFunction[Any]):
    """The value of a key, as text, of a column that holds a JSON object: `json_value(column, "key")`."""

    type = Text()
    inherit_cache = True


class greatest(ReturnTypeFromArgs[Any]):
    """The largest of several values, none of them NULL."""

    inherit_cache = True


class least(ReturnTypeFromArgs[Any]):
    """The smallest of several values, none of them NULL."""

    inherit_cache = True


def _parts(element: GenericFunction[Any], compiler: SQLCompiler, **how: Any) -> list[str]:
    clauses: list[ColumnElement[Any]] = list(element.clauses)
    return [compiler.process(each, **how) for each in clauses]


@compiles(json_value, "sqlite")
def _(element: GenericFunction[Any], compiler: SQLCompiler, **how: Any) -> str:
    column, key = _parts(element, compiler, **how)
    return f"json_extract({column}, '$.' || {key})"


@compiles(json_value, "postgresql")
def _(element: GenericFunction[Any], compiler: SQLCompiler, **how: Any) -> str:
    column, key = _parts(element, compiler, **how)
    return f"json_extract_path_text(CAST({column} AS json), {key})"


@compiles(greatest, "sqlite")
def _(element: GenericFunction[Any], compiler: SQLCompiler, **how: Any) -> str:
    return f"max({', '.join(_parts(element, compiler, **how))})"


@compiles(least, "sqlite")
def _(element: GenericFunction[Any], compiler: SQLCompiler, **how: Any) -> str:
    return f"min({', '.join(_parts(element, compiler, **how))})"

"""Selects the columns for the fields of a data class, and makes its values from rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from sqlalchemy import ColumnElement, FromClause, Result, Row, literal, select
from typing_extensions import is_typeddict

from tqstudio.engine.store.db.connection import Connection

T = TypeVar("T")


def is_any(db: Connection, table: FromClause) -> bool:
    """Whether a table has a row."""
    return bool(db.execute(select(select(literal(1)).select_from(table).exists())).scalar_one())


class Rows(Generic[T]):
    """Makes values of a data class; the types of its fields decide what is a flag, an enumeration or JSON.

    Args:
        of: tables with columns of the fields' names; the first that has one counts.
        others: the name of another column, or what is selected instead; None for what is not selected.
    """

    def __init__(self, cls: type[T], *of: FromClause, **others: str | ColumnElement[Any] | None) -> None:
        hints = get_type_hints(cls)
        named = {field.name: others.get(field.name, field.name) for field in fields(cls)}  # type: ignore[arg-type]
        selected = {name: source for name, source in named.items() if source is not None}
        self._cls = cls
        self._conversions = {name: _conversion(hints[name]) for name in selected}
        self.columns = [_column(source, of).label(name) for name, source in selected.items()]

    def value(self, row: Row[Any], **given: Any) -> T:
        """Makes the value of a row that begins with `columns`. Args: `given` are the unselected fields."""
        stored = zip(self._conversions.items(), row, strict=False)
        values = {
            name: value if convert is None or value is None else convert(value)
            for (name, convert), value in stored
        }
        return self._cls(**values, **given)

    def first(self, found: Result[Any]) -> T | None:
        """Makes the value of the first row; None if there is none."""
        row = found.first()
        return None if row is None else self.value(row)


def _column(source: str | ColumnElement[Any], of: Sequence[FromClause]) -> ColumnElement[Any]:
    return next(each.c[source] for each in of if source in each.c) if isinstance(source, str) else source


def _conversion(hint: Any) -> Callable[[Any], Any] | None:
    """Returns how a field of this type is made from a column; None if it is the column's value."""
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    kind = next(get_origin(each) or each for each in kinds if each is not NoneType)
    if kind in (tuple, frozenset):
        return lambda text: kind(json.loads(text))
    if kind in (list, dict, Mapping) or is_typeddict(kind):
        return json.loads
    return kind if kind is bool or issubclass(kind, Enum) else None

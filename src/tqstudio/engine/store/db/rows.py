"""Selects the columns for the fields of a data class or a message, and makes its values from rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from sqlalchemy import BigInteger, ColumnElement, FromClause, LargeBinary, Result, Row, literal, select
from typing_extensions import is_typeddict

from tqstudio.engine.host.clock import iso_time
from tqstudio.engine.store.db.connection import Connection
from tqstudio.paths import data, encode

T = TypeVar("T")


def is_any(db: Connection, table: FromClause) -> bool:
    """Whether a table has a row."""
    return bool(db.execute(select(select(literal(1)).select_from(table).exists())).scalar_one())


class Rows(Generic[T]):
    """Makes values of a data class, or of a message of the API.

    The types of its fields decide what is a flag, an enumeration or JSON. In a field that is
    text, a time becomes ISO 8601, and a path text or, in `…_b64`, base64.

    Args:
        of: tables with columns of the fields' names; the first that has one counts.
        others: the name of another column, or what is selected instead; None for what is not selected.
    """

    def __init__(self, cls: type[T], *of: FromClause, **others: str | ColumnElement[Any] | None) -> None:
        hints = get_type_hints(cls)
        named = {name: others.get(name, name) for name in hints}
        selected = {name: _column(source, of) for name, source in named.items() if source is not None}
        self._cls = cls
        self._conversions = {
            name: _conversion(name, hints[name], column) for name, column in selected.items()
        }
        self.columns = [column.label(name) for name, column in selected.items()]

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


def values_of(table: FromClause, value: Any) -> dict[str, Any]:
    """Returns a data class's values for the columns named as its fields: flags as integers, lists as JSON."""
    names = (field.name for field in fields(value) if field.name in table.c)
    return {name: _stored(getattr(value, name)) for name in names}


def _stored(value: Any) -> Any:
    if isinstance(value, tuple | list | dict):
        return json.dumps(value)
    return int(value) if isinstance(value, bool) else value


def _column(source: str | ColumnElement[Any], of: Sequence[FromClause]) -> ColumnElement[Any]:
    return next(each.c[source] for each in of if source in each.c) if isinstance(source, str) else source


def _conversion(name: str, hint: Any, column: ColumnElement[Any]) -> Callable[[Any], Any] | None:
    """Returns how a field of this type is made from a column; None if it is the column's value."""
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    kind = next(get_origin(each) or each for each in kinds if each is not NoneType)
    if kind in (tuple, frozenset):
        return lambda text: kind(json.loads(text))
    if kind in (list, dict, Mapping) or is_typeddict(kind):
        return json.loads
    if kind is str and isinstance(column.type, BigInteger):
        return iso_time
    if kind is str and isinstance(column.type, LargeBinary):
        return encode if name.endswith("_b64") else data
    return kind if kind is bool or issubclass(kind, Enum) else None

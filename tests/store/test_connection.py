"""How values find their places in a statement."""

from __future__ import annotations

import pytest

from .conftest import Queue


def test_values_are_found_by_their_names(queue: Queue) -> None:
    row = queue.db.execute(
        "SELECT :b, :a, :b, :a_2, ':a', 'it''s :b'", {"a": 1, "b": 2, "a_2": 3, "more": 4}
    ).one()
    assert row == (2, 1, 2, 3, ":a", "it's :b")


def test_one_value_or_none_will_do(queue: Queue) -> None:
    assert queue.db.execute("SELECT :only", {"only": (b"\0")}).one() == (b"\0",)
    assert queue.db.execute("SELECT 1").one() == (1,)


def test_a_value_that_is_missing_is_named(queue: Queue) -> None:
    with pytest.raises(KeyError, match="absent"):
        queue.db.execute("SELECT :here, :absent", {"here": 1})

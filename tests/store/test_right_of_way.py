"""Who waits for whom, and for how long at most."""

from __future__ import annotations

import threading

import pytest

from tqstudio.engine.store.db import right_of_way
from tqstudio.engine.store.db.right_of_way import RightOfWay


def test_who_gives_way_goes_on_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(right_of_way, "LONGEST_S", 60.0)
    way, order, asked = RightOfWay(), [], threading.Event()

    def give_way() -> None:
        asked.set()
        way.give_way()
        order.append("behind")

    other = threading.Thread(target=give_way)
    with way.taken():
        other.start()
        asked.wait()
        order.append("first")
    other.join(timeout=60)
    assert order == ["first", "behind"]


def test_nobody_gives_way_for_long() -> None:
    way, done = RightOfWay(), threading.Event()

    def give_way() -> None:
        way.give_way()
        done.set()

    with way.taken():
        threading.Thread(target=give_way, daemon=True).start()
        assert done.wait(timeout=60), "it waits for as long as it is taken"


def test_it_is_free_again_after_an_error() -> None:
    way = RightOfWay()
    with pytest.raises(ValueError, match="of a write"), way.taken():
        raise ValueError("of a write")
    with way.taken():
        pass
    way.give_way()

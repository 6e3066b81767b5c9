"""What a supervisor leaves alone that was stopped in the middle of a publish, while another one has led."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from tqstudio.engine.outputs import publisher
from tqstudio.errors import ErrorCode, TqError


def leads_no_more() -> None:
    raise TqError(ErrorCode.DATABASE_UNWRITABLE, "another supervisor has led")


def test_it_names_no_generation_in_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    master, outputs = MagicMock(), MagicMock(**{"named.return_value": None, "torn.return_value": []})
    for name, fake in (("master", master), ("outputs", outputs)):
        monkeypatch.setattr(publisher, name, fake)
    for name in ("_require_rules", "_require_same_source"):
        monkeypatch.setattr(publisher, name, lambda _of: None)
    publication: Any = MagicMock(before=None)
    place = publication.place.hold.return_value.__enter__.return_value
    place.building.return_value.exists.return_value = False
    publication.place.hold.return_value.__exit__.return_value = False
    with pytest.raises(TqError):
        publisher._point_if_whole(publication, leads_no_more)
    assert master.write_next.called
    assert not master.replace.called


def test_it_sets_no_segments_aside() -> None:
    workspace: Any = MagicMock()
    db: Any = SimpleNamespace(require_lead=leads_no_more)
    of: Any = publisher.Publisher(MagicMock(), db, MagicMock(), workspace, MagicMock())
    with pytest.raises(TqError):
        asyncio.run(of._finish(MagicMock(), "publish"))
    assert not workspace.set_aside.called

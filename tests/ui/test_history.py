"""The event history on the screen."""

from __future__ import annotations

import pytest

from tqstudio.ui.screens.history import HistoryScreen

from .conftest import MakeApp, loaded, until
from .fake_supervisor import FakeSupervisor


@pytest.mark.parametrize("width", [60, 80, 120])
async def test_every_event_names_its_video(width: int, make_app: MakeApp, fake: FakeSupervisor) -> None:
    gone = fake.events[0] | {"seq": 907, "job": 12, "video": 12, "video_name": "long ago and far away.mov"}
    fake.events.append(gone)
    async with make_app(view="history").run_test(size=(width, 24)) as pilot:
        app = await loaded(pilot)
        screen = app.screen
        assert isinstance(screen, HistoryScreen)
        await until(pilot, lambda: screen.list.count() == 7)

        def rows() -> list[str]:
            return [screen.list.render_line(y).text for y in range(1, screen.list.count() + 1)]

        assert "holiday" in rows()[0]
        assert "long" in rows()[-1], "although its job is in no list"
        await pilot.press("slash", *"far away", "enter")
        await until(pilot, lambda: screen.list.count() == 1)
        fake.happened("pause", 319, target="paused")
        fake.happened("pause", 12, target="paused")
        await pilot.press("escape")
        await until(pilot, lambda: screen.list.count() == 9)
        assert "holiday" in rows()[7], "one that has just happened too"

"""The first line: what it leaves out where there is no room."""

from __future__ import annotations

import re

import pytest

from tqstudio.ui.app import StudioApp

from .conftest import MakeApp, loaded, until
from .fake_supervisor import FakeSupervisor
from .samples import many_jobs


def header(app: StudioApp) -> str:
    return app.screen.query_one("#header").render_line(0).text.rstrip()


@pytest.mark.parametrize("width", range(60, 121, 3))
async def test_no_figure_is_cut(width: int, make_app: MakeApp, fake: FakeSupervisor) -> None:
    fake.jobs = [*fake.jobs, *many_jobs(1234)]
    async with make_app().run_test(size=(width, 24)) as pilot:
        text = header(await loaded(pilot))
        parts = r"(  +2\.7×( real time)?( +[▁-█]+)?)?(  +ETA 41m ±4)?(  +disk 872 GB)?"
        assert re.fullmatch(r" tqstudio ● up 3d[^×]*[⊘✓]\d+( cancelled)?" + parts, text), text
        assert "ETA 41m ±4" in text
        assert ("real time" in text) or width < 110


@pytest.mark.parametrize(("width", "curves"), [(99, 0), (140, 2), (160, 2), (240, 2)])
async def test_curves_have_the_room_that_is_left(width: int, curves: int, make_app: MakeApp) -> None:
    async with make_app().run_test(size=(width, 24)) as pilot:
        text = header(await loaded(pilot))
        found = re.findall(r"[▁-█]{6,}", text)
        assert len(found) == curves, text
        assert ("cpu" in text) == (curves == 2)


async def test_a_paused_queue_has_no_end(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(120, 24)) as pilot:
        app = await loaded(pilot)
        assert "ETA" in header(app)
        await pilot.press("P")
        await until(pilot, lambda: "ETA" not in header(app))
        await pilot.press("P")
        await until(pilot, lambda: "ETA" in header(app))

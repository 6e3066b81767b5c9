"""Wide screens are used: with data that fills them, most of their cells say something."""

from __future__ import annotations

import pytest

from tqstudio.ui.app import StudioApp
from tqstudio.ui.screens.job.screen import JobScreen

from .conftest import MakeApp, loaded, screen_text, until
from .fake_supervisor import FakeSupervisor
from .samples import job_row, many_jobs

LOG_LINE = (
    "[video-720p] frame= 1200 fps= 52 q=23.0 size=N/A time=00:00:50.00 bitrate=N/A speed=2.17x elapsed="
)


def blank(app: StudioApp) -> float:
    """The share of the cells that are blank."""
    text = "".join(screen_text(app))
    return text.count(" ") / len(text)


MOST = 0.6
"""The share of the cells that may be blank."""
SIZES = [(160, 50), (240, 70)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("keys", "shows"), [((), "l log"), (("enter",), "Log"), (("w",), "speed")])
async def test_few_cells_are_blank(
    size: tuple[int, int],
    keys: tuple[str, ...],
    shows: str,
    make_app: MakeApp,
    fake: FakeSupervisor,
) -> None:
    fake.log_line = LOG_LINE
    running = [job_row(number, f"film-{number}.mp4", "in_progress") for number in range(200, 240)]
    fake.jobs = [*fake.jobs, *running, *many_jobs(120)]
    app = make_app()
    async with app.run_test(size=size) as pilot:
        await loaded(pilot)
        if not keys:
            await app.screen._read_live()  # type: ignore[attr-defined]
        await pilot.press(*keys)
        await until(pilot, lambda: any(shows in line for line in screen_text(app)), shows)
        app.painter.now()
        await pilot.pause()
        assert blank(app) <= MOST, "\n".join(screen_text(app))


@pytest.mark.parametrize("size", SIZES)
async def test_the_page_of_a_done_job(size: tuple[int, int], make_app: MakeApp, fake: FakeSupervisor) -> None:
    fake.log_line = LOG_LINE
    app = make_app()
    async with app.run_test(size=size) as pilot:
        await loaded(pilot)
        app.push_screen(JobScreen(app.context, 317))
        await until(pilot, lambda: any("▀" in line for line in screen_text(app)), "the picture")
        await until(pilot, lambda: any("Bits" in line for line in screen_text(app)), "the bits")
        app.painter.now()
        await pilot.pause()
        assert blank(app) <= MOST, "\n".join(screen_text(app))


async def test_the_log_is_that_of_the_job_under_the_cursor(make_app: MakeApp, fake: FakeSupervisor) -> None:
    """The next job has no log yet when the cursor moves to it."""
    fake.log_line = LOG_LINE
    fake.jobs = [job_row(number, f"film-{number}.mp4", "in_progress") for number in (200, 201)]
    app = make_app()
    async with app.run_test(size=(160, 50)) as pilot:
        await loaded(pilot)
        await app.screen._read_live()  # type: ignore[attr-defined]
        await until(pilot, lambda: any("frame= 1200" in line for line in screen_text(app)), "the log")
        await pilot.press("j")
        app.painter.now()
        await pilot.pause()
        assert not any("frame= 1200" in line for line in screen_text(app))

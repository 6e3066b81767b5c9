"""The line of tips: what is worth a try, until it was tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from tqstudio.cli.commands.studio.demo import TIPS
from tqstudio.ui.app import StudioApp

from .conftest import MakeApp, loaded, until
from .fake_supervisor import FakeSupervisor
from .samples import job_row


def tips(app: StudioApp) -> str:
    line = app.screen.query_one("#tips")
    return " ".join(line.render_line(0).text.split()) if line.display else ""  # type: ignore[attr-defined]


async def test_each_leaves_when_it_was_tried(make_app: MakeApp) -> None:
    async with make_app(tips=TIPS).run_test(size=(120, 30)) as pilot:
        app = await loaded(pilot)
        rest = "w the wall ? all keys"
        whole = f"try o plays a done clip p pauses enter its segments {rest} esc hides this"
        assert tips(app) == whole
        await pilot.press("p")
        await until(pilot, lambda: "pauses" not in tips(app))
        await pilot.press("enter")
        # The page of a job has no other lines to open, and escape leaves it.
        await until(pilot, lambda: tips(app) == f"try o plays a done clip {rest}")
        await pilot.press("escape", "w")
        await until(pilot, lambda: tips(app) == "try ? all keys")
        await pilot.press("w", "question_mark", "escape", "o")
        await until(pilot, lambda: app.screen is app.painter.full_screens()[0] and not tips(app))


async def test_they_begin_in_the_queue(make_app: MakeApp, tmp_path: Path) -> None:
    (tmp_path / "ui.json").write_text('{"view": "folders"}')
    async with make_app(tips=TIPS).run_test(size=(80, 24)) as pilot:
        assert (await loaded(pilot))._view == "queue"


async def test_escape_closes_the_line(make_app: MakeApp) -> None:
    async with make_app(tips=TIPS).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        assert tips(app)
        await pilot.press("escape")
        await until(pilot, lambda: not tips(app))


async def test_a_result_is_offered_once_there_is_one(make_app: MakeApp, fake: FakeSupervisor) -> None:
    fake.jobs = [job_row(1, "film.mkv", "in_progress", worker="cpu-0")]
    async with make_app(tips=TIPS).run_test(size=(120, 30)) as pilot:
        app = await loaded(pilot)
        assert tips(app).startswith("try p pauses")
        fake.finish(1)
        await until(pilot, lambda: tips(app).startswith("try o plays a done clip enter its segments ? all"))


@pytest.mark.parametrize("width", [60, 80, 100])
async def test_no_tip_is_cut(make_app: MakeApp, width: int) -> None:
    async with make_app(tips=TIPS).run_test(size=(width, 24)) as pilot:
        app = await loaded(pilot)
        rest = tips(app).removeprefix("try ")
        for tip in TIPS:
            rest = rest.replace(f"{app.context.sign(tip.action)} {tip.does}", "")
        assert rest.replace("esc hides this", "").split() == []


async def test_keys_are_those_of_the_user(make_app: MakeApp, tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text('view_wall = "f9"\nhelp = []\n')
    async with make_app(tips=TIPS).run_test(size=(120, 30)) as pilot:
        app = await loaded(pilot)
        assert "f9 the wall :help all keys" in tips(app)


async def test_without_tips_there_is_no_line(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        assert not tips(await loaded(pilot))


async def test_all_tips_fit_into_eighty_columns(make_app: MakeApp) -> None:
    async with make_app(tips=TIPS).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        assert all(f"{app.context.sign(tip.action)} {tip.does}" in tips(app) for tip in TIPS)

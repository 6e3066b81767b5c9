"""The dialog of `e`: what is typed, what it costs, and what is sent."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Label, Select

from tqstudio.ui.app import StudioApp
from tqstudio.ui.screens.dialogs.change import ChangeJobs
from tqstudio.ui.screens.dialogs.dialogs import Problem, Remark, Tick

from .conftest import MakeApp, loaded, messages, until
from .fake_supervisor import FakeSupervisor
from .samples import many_jobs


def asked(fake: FakeSupervisor) -> list[dict[str, Any]]:
    return [dict(call.body or {}) for call in fake.sent if call.path == "/v1/jobs/forecast"]


def cost(app: StudioApp) -> str:
    return str(app.screen.query_one("#cost", Label).render())


async def opened(pilot: Pilot[None], *keys: str) -> StudioApp:
    app = await loaded(pilot)
    await pilot.press(*keys, "e")
    await until(pilot, lambda: isinstance(app.screen, ChangeJobs) and "at most" in cost(app), "its cost")
    return app


async def closed(pilot: Pilot[None], app: StudioApp) -> None:
    await until(pilot, lambda: not isinstance(app.screen, ChangeJobs), "the dialog is closed")


def ticks(app: StudioApp) -> dict[str, bool]:
    return {tick.name or "": tick.value for tick in app.screen.query(".choices Tick").results(Tick)}


async def test_a_done_job_is_encoded_again(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await opened(pilot, "G")
        assert ticks(app) == {"1080p": True, "720p": True, "480p": True}
        assert "left out, above source: 2160p" in cost(app)
        assert "41 kept, 100 made again" in cost(app)
        assert app.screen.query_one("#crf", Input).placeholder == "22"
        await pilot.press("enter")
        await until(pilot, lambda: fake.operations())
        assert fake.operations() == [{"operation": "change", "ids": [314]}]
        await until(pilot, lambda: "new job 400" in messages(app))
        await closed(pilot, app)


async def test_a_waiting_job_gets_what_is_typed(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await opened(pilot, "j", "j", "j")
        screen = app.screen
        screen.query_one("#crf").focus()
        await pilot.press(*"20", "tab", "tab", *"-7", "tab", "space", "tab", "space")
        app.screen.query_one(".choices Tick").focus()
        await pilot.press("space", "enter")
        await until(pilot, lambda: fake.operations())
        assert fake.operations() == [
            {
                "operation": "change",
                "ids": [322],
                "overrides": {"video.crf": "20", "video.copy": "fitting"},
                "priority": -7,
                "hold": True,
                "renditions": ["720p", "480p"],
            }
        ]
        await until(pilot, lambda: "job 322 changed; z undoes it" in messages(app))
        assert fake.job(322)["status"] == "paused"


async def test_a_profile_is_chosen_with_its_description(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await opened(pilot, "G")
        select, about = app.screen.query_one(Select), app.screen.query_one("#about", Remark)
        assert (select.prompt, str(about.render())) == ("web, as it is", "the profile web")
        await pilot.press("space")
        await until(pilot, lambda: select.expanded)
        await pilot.press("down", "enter")
        await until(pilot, lambda: str(about.render()) == "the profile fast")
        await until(pilot, lambda: app.screen.query_one("#crf", Input).placeholder == "28")
        await pilot.press("enter")
        await until(pilot, lambda: fake.operations())
        assert fake.operations()[0]["profile"] == "fast"


async def test_one_call_asks_what_several_keys_cost(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await opened(pilot, "G")
        assert len(asked(fake)) == 1
        app.screen.query_one("#crf").focus()
        await pilot.press(*"18")
        assert "calculating what it costs" in cost(app)
        await until(pilot, lambda: "at most" in cost(app))
        assert asked(fake)[1:] == [{"ids": [314], "overrides": {"video.crf": "18"}}]


@pytest.mark.parametrize(
    ("field", "typed", "said"),
    [
        ("crf", "99", "video.crf cannot be 99; allowed"),
        ("priority", "soon", "'soon' is not a whole number"),
        ("priority", "1001", "1001 is out of range: at most 1000"),
    ],
)
async def test_what_cannot_be_is_said_before_enter(
    field: str, typed: str, said: str, make_app: MakeApp
) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await opened(pilot, "G")
        app.screen.query_one(f"#{field}").focus()
        await pilot.press(*typed)
        await until(pilot, lambda: said in cost(app))


async def test_a_refusal_keeps_what_was_typed(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await opened(pilot, "j", "j", "j")
        fake.claim(322)
        app.screen.query_one("#crf").focus()
        await pilot.press(*"20", "enter")
        problem = app.screen.query_one(Problem)
        await until(pilot, lambda: "is running; pause it first" in str(problem.render()))
        assert app.screen.query_one("#crf", Input).value == "20"
        await pilot.press("escape")
        await closed(pilot, app)


async def test_at_least_one_quality_is_ticked(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await opened(pilot, "G")
        await pilot.press("a", "enter")
        problem = app.screen.query_one(Problem)
        await until(pilot, lambda: "tick at least one quality, or esc" in str(problem.render()))
        assert not fake.operations()
        await pilot.press("a", "enter")
        await until(pilot, lambda: fake.operations())
        assert fake.operations()[0]["renditions"] == [], "all"


async def test_a_running_job_says_which_key_helps(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("e")
        await until(pilot, lambda: "is running; pause it first, then change it" in messages(app))


async def test_marks_of_both_kinds_change_together(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(120, 40)) as pilot:
        app = await opened(pilot, "G", "space", "g", "j", "j", "j", "space")
        title = str(app.screen.query_one(".title", Label).render())
        assert title == "Change 2 jobs: 1 encoded again, 1 changed"
        app.screen.query_one("#priority").focus()
        await pilot.press("5", "enter")
        await until(pilot, lambda: fake.operations())
        [sent] = fake.operations()
        assert (sorted(sent["ids"]), sent["priority"]) == ([314, 322], 5)
        await until(pilot, lambda: "1 job changed; 1 new job" in messages(app))


async def test_all_that_match_change_in_slices(make_app: MakeApp, fake: FakeSupervisor) -> None:
    fake.jobs = many_jobs(1_200)
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await opened(pilot, "a")
        newest = max(row["id"] for row in fake.jobs)
        assert asked(fake) == [{"filter": "", "newest": newest}]
        assert "estimated from 50 of 1 200 jobs: 50 changed" in cost(app)
        app.screen.query_one("#priority").focus()
        await pilot.press("5", "enter")
        await until(pilot, lambda: "1 200 changed" in messages(app))
        sent = [dict(call.body or {}) for call in fake.sent if call.path == "/v1/jobs/bulk"]
        assert [(each["operation"], each["priority"]) for each in sent] == [("change", 5)] * len(sent)

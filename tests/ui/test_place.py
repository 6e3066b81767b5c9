"""The cursor keeps its place: after an action of the user on the next row, else on its job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from textual import events

from tqstudio.ui.data.job_window import ACTED_S

from .conftest import MakeApp, loaded, messages, until
from .fake_supervisor import FakeSupervisor
from .samples import many_jobs
from .test_queue import current, ends, queue_of


@pytest.fixture(params=[40, 5_000], ids=["all of it", "a part of the list"])
def fake(request: pytest.FixtureRequest) -> FakeSupervisor:
    """Jobs that wait, but for one that runs."""
    jobs = many_jobs(request.param)
    for row in jobs:
        row |= {"status": "pending", "word": "pending"}
    jobs[0] |= {"status": "in_progress", "word": "running"}
    return FakeSupervisor(jobs)


def statuses(fake: FakeSupervisor, *jobs: int) -> list[str]:
    return [fake.job(job)["status"] for job in jobs]


async def test_three_neighbours_are_paused_in_one_burst(
    make_app: MakeApp, fake: FakeSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the supervisor takes to answer: the rows stay as they were typed at."""
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        monkeypatch.setattr("tqstudio.ui.app.TYPING_S", 0.0)
        for key in ("j", "j", "p", "j", "p", "j", "p"):
            app.post_message(events.Key(key, key))
        await until(pilot, lambda: len(fake.operations()) == 3)
        assert statuses(fake, 2, 3, 4, 5, 6) == ["pending", "paused", "paused", "paused", "pending"]
        window = app.context.model.jobs
        await until(pilot, lambda: window.index_of(3) != 2 and window.index_of(6) == 2, "the rows have moved")
        assert current(app) == 6
        assert queue_of(app).list.top == 0


async def test_one_after_the_other_as_the_list_closes_up(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("j", "j")
        shown = queue_of(app).list
        for job in (3, 4, 5):
            assert current(app) == job
            await pilot.press("p")
            await until(pilot, lambda job=job: shown.shown_key == job + 1, "the cursor is on the next one")
        assert "press again" not in messages(app)
        assert [each["ids"] for each in fake.operations()] == [[3], [4], [5]]


@pytest.mark.parametrize(("key", "status"), [("plus", "pending"), ("r", "failed")])
async def test_a_job_that_an_action_moves_up(
    make_app: MakeApp, fake: FakeSupervisor, key: str, status: str
) -> None:
    for job in (8, 9, 10):
        row = fake.job(job)
        fake.jobs.remove(row)
        at = len(fake.jobs) if status == "failed" else job - 1
        fake.jobs.insert(at, row | {"status": status, "word": status})
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press(*(["G", "k"] if status == "failed" else "j" * 8))
        assert current(app) == 9
        await pilot.press(key)
        await until(pilot, lambda: app.context.model.jobs.index_of(10) is not None and current(app) == 10)


async def test_it_follows_a_job_that_moves_by_itself(
    make_app: MakeApp, fake: FakeSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that was acted on a while ago."""
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("j", "j", "plus")
        await until(pilot, lambda: fake.operations() and current(app) == 4, "the next row")
        window = app.context.model.jobs
        await pilot.press("grave_accent")
        assert current(app) == 3
        monkeypatch.setattr("tqstudio.ui.data.job_window.monotonic", lambda: window._acted_at[3] + ACTED_S)
        row = fake.job(3)
        fake.jobs.remove(row)
        fake.jobs.insert(0, row | {"status": "in_progress", "word": "running"})
        fake.happened("claim", 3, source="pending", target="in_progress")
        await until(pilot, lambda: window.index_of(3) == 0, "it runs")
        assert current(app) == 3


async def test_back_to_the_job_acted_on_last(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("grave_accent")
        assert "no job was acted on yet" in messages(app)
        await pilot.press("j", "j", "p")
        await until(pilot, lambda: current(app) == 4, "it has moved away")
        await pilot.press("grave_accent")
        await until(pilot, lambda: current(app) == 3, "the cursor is on it")
        await pilot.press("g", "slash", *"state:running", "enter", "grave_accent")
        await until(pilot, lambda: "job 3 is not in this list" in messages(app))


async def test_what_ends_is_left_as_before(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        ends(fake, 1)
        await until(pilot, lambda: current(app) == 2)


async def test_the_next_ui_is_as_this_one_was_left(make_app: MakeApp, tmp_path: Path) -> None:
    async with make_app(theme=None).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("s", "down", "enter")
        await until(pilot, lambda: app.context.model.jobs.query.sort == "-number")
        await pilot.press("tab", "t")
        await pilot.press("3")
        theme = app.theme
    async with make_app(theme=None).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        assert (app._view, app.theme, app.context.model.jobs.query.sort) == ("folders", theme, "-number")
        await pilot.press("1")
        await until(pilot, lambda: queue_of(app).pane.page == "facts")
        assert not app.context.model.jobs.query.narrowed, "a filter ends with its UI"
    stored = json.loads((tmp_path / "ui.json").read_text())
    assert stored == {"sort": "-number", "pane": "facts", "theme": theme, "view": "queue"}


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"view": "roof", "sort": 3, "pane": "x", "theme": "no"}']
)
async def test_what_cannot_be_understood_is_as_nothing(
    make_app: MakeApp, tmp_path: Path, content: str
) -> None:
    (tmp_path / "ui.json").write_text(content)
    async with make_app(theme=None).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        assert (app._view, app.context.model.jobs.query.sort) == ("queue", "order")
        assert queue_of(app).pane.page == "qualities"

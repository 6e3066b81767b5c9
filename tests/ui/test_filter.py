"""The filter line and the orders of the job list: complaints, completions, the last filters, menu, heads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from textual.widgets import OptionList

from tqstudio.protocol.filters import SORTS
from tqstudio.ui.app import StudioApp
from tqstudio.ui.data.query import turned
from tqstudio.ui.screens.dialogs.choose import ChooseSort
from tqstudio.ui.widgets.completion import completions

from .conftest import MakeApp, loaded, messages, until
from .fake_supervisor import FakeSupervisor
from .samples import job_row
from .test_queue import hints, queue_of, remark, text_of

KNOWN = {"folder": ["cam1", "My Films"], "profile": ["fast", "web"]}


@pytest.mark.parametrize(
    ("line", "first", "number"),
    [
        ("", "state:", 13),
        ("f", "folder:", 1),
        ("film st", "film state:", 1),
        ("!co", "!code:", 1),
        ("nothing", None, 0),
        ("state:f", "state:failed", 1),
        ("state:failed", None, 0),
        ("state:failed,", "state:failed,running", None),
        ("state:!pa", "state:paused", 1),
        ("x !code:exit", "x !code:ENCODER_EXIT", 1),
        ("folder:m", 'folder:"My Films"', 2),
        ('folder:"my f', 'folder:"My Films"', 1),
        ("profile:", "profile:fast", 2),
        ("owner:x", None, 0),
        ("older:", "older:1h", 5),
        ("colour:", None, 0),
    ],
)
def test_completions(line: str, first: str | None, number: int | None) -> None:
    found = completions(line, KNOWN)
    assert (found[0] if found else None) == first
    assert number in (None, len(found))


def value(app: StudioApp) -> str:
    return queue_of(app).filter_line.value


async def test_an_unknown_word_is_a_complaint_while_typing(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(120, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("slash")
        queue_of(app).filter_line.value = "colour:r"
        await until(pilot, lambda: "unknown word “colour:”" in hints(app))
        assert "state:" in hints(app), "it lists those that exist"
        assert len(app.context.model.jobs) == 14, "the list stays"
        await pilot.press("enter")
        await until(pilot, lambda: queue_of(app).typing(), "it can be corrected")
        await pilot.press("escape")
        await until(pilot, lambda: not hints(app))


async def test_a_folder_that_does_not_exist_is_a_complaint_too(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(120, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("slash")
        queue_of(app).filter_line.value = "folder:nowhere"
        await until(pilot, lambda: "no drop folder “nowhere”" in hints(app))
        assert len(app.context.model.jobs) == 14


async def test_what_is_not_finished_is_no_complaint(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(120, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("slash", *"state:p")
        await until(pilot, lambda: "tab pending  paused" in hints(app))
        await pilot.press("enter")
        await until(pilot, lambda: "may be paused or pending" in hints(app), "now it is")


async def test_tab_takes_words_and_values(make_app: MakeApp, fake: FakeSupervisor) -> None:
    fake.jobs[4] |= {"path": "/mnt/nas/cam1/screen.webm"}
    async with make_app().run_test(size=(120, 24)) as pilot:
        app = await loaded(pilot)
        await until(pilot, lambda: app.context.model.folders)
        await pilot.press("slash", "s", "tab")
        await until(pilot, lambda: value(app) == "state:")
        await pilot.press("f", "tab", "enter")
        await until(pilot, lambda: [row["id"] for row in app.context.model.jobs.rows] == [316])
        await pilot.press("escape", "slash", *"folder:c", "tab")
        await until(pilot, lambda: value(app) == "folder:cam1")
        await pilot.press("enter")
        await until(pilot, lambda: [row["id"] for row in app.context.model.jobs.rows] == [323])


@pytest.mark.slow
async def test_the_last_ten_filters_come_back(make_app: MakeApp, tmp_path: Path) -> None:
    async with make_app().run_test(size=(120, 24)) as pilot:
        app = await loaded(pilot)
        for number in range(12):
            await pilot.press("slash", "ctrl+u", *f"name{number}", "enter")
            await until(pilot, lambda n=number: app.context.model.jobs.query.line() == f"name{n}")
    stored = json.loads((tmp_path / "ui.json").read_text())["filters"].split("\n")
    assert stored == [f"name{number}" for number in range(2, 12)]
    async with make_app().run_test(size=(120, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("slash", *"x", "up")
        await until(pilot, lambda: value(app) == "name11")
        await pilot.press(*["up"] * 20)
        await until(pilot, lambda: value(app) == "name2")
        await pilot.press(*["down"] * 20)
        await until(pilot, lambda: value(app) == "x", "what was typed")


def test_an_order_is_turned_round_when_it_is_chosen_again() -> None:
    assert [turned("order", by) for by in ("name", "size", "order")] == ["name", "-size", "-order"]
    assert [turned(turned("name", by), by) for by in ("name", "size", "state")] == ["name", "size", "-state"]


async def test_the_menu_of_orders(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        assert remark(app).endswith("sort order")
        for by, sort, shown in (
            ("name", "name", "name ↑"),
            ("size", "-size", "size ↓"),
            ("size", "size", "size ↑"),
        ):
            await pilot.press("s")
            await until(pilot, lambda: isinstance(app.screen, ChooseSort))
            menu = app.screen.query_one(OptionList)
            assert [option.id for option in menu.options] == [*SORTS]
            menu.highlighted = SORTS.index(by)
            await pilot.press("enter")
            await until(pilot, lambda s=sort: app.context.model.jobs.query.sort == s)
            await until(pilot, lambda s=shown: remark(app).endswith(f"sort {s}"))
        await pilot.press("s", "escape")
        assert app.context.model.jobs.query.sort == "size"


async def test_a_click_on_a_head_sorts_or_says_why_not(make_app: MakeApp) -> None:
    names = ["beta.mp4", "Alpha.mp4", "gamma.mp4"]
    fake = FakeSupervisor([job_row(number, name, "pending") for number, name in enumerate(names, 1)])
    async with make_app(client_factory=lambda: fake).run_test(size=(160, 24)) as pilot:
        app = await loaded(pilot)

        async def click(title: str) -> None:
            await pilot.click("#jobs", offset=(text_of(app)[0].index(title) + 1, 0))

        await click("video")
        rows = app.context.model.jobs
        await until(pilot, lambda: [row["id"] for row in rows.rows] == [2, 1, 3])
        await until(pilot, lambda: "video↑" in text_of(app)[0])
        await click("video")
        await until(pilot, lambda: [row["id"] for row in rows.rows] == [3, 1, 2])
        await until(pilot, lambda: "video↓" in text_of(app)[0])
        await click("source")
        await until(pilot, lambda: "by picture there is no order" in messages(app))
        await click("done")
        await until(pilot, lambda: "rows would jump" in messages(app))
        assert rows.query.sort == "-name"

"""The registry is complete and free of clashes; keys that cannot act say why; nothing is lost unasked."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from textual.widgets import Button

from tqstudio.lifecycle import Control, JobStatus, Operation
from tqstudio.ui.actions.registry import (
    ACTIONS,
    BY_NAME,
    SCROLLED,
    View,
    actions_of,
    bindings_of,
    enabled,
    label,
    operation_for,
)
from tqstudio.ui.app import StudioApp
from tqstudio.ui.data.target import Target
from tqstudio.ui.screens.dialogs.dialogs import Confirm
from tqstudio.ui.screens.frame.text import TextScreen
from tqstudio.ui.screens.job.log import LogScreen
from tqstudio.ui.screens.job.screen import JobScreen
from tqstudio.ui.screens.views import VIEWS, view_class
from tqstudio.ui.widgets.job_list import JobList

from .conftest import MakeApp, loaded, messages, screen_text, until
from .fake_supervisor import FakeSupervisor
from .samples import many_jobs, missing_folder, sample_jobs
from .test_queue import current

EVERY_VIEW: tuple[View, ...] = get_args(View)

KEYS = {
    "everywhere": [
        "question_mark",
        "colon",
        "ctrl+p",
        "slash",
        "escape",
        "1",
        "2",
        "3",
        "4",
        "tab",
        "t",
        "z",
        "q",
    ],
    "lists": ["j", "k", "up", "down", "g", "G", "home", "end", "ctrl+u", "ctrl+d", "pageup", "pagedown"],
    "marks": ["space", "a", "u", "s", "f", "F", "enter", "y"],
    "job": ["p", "x", "r", "e", "R", "plus", "minus", "D", "X", "l", "c", "i"],
    "queue": ["P", "W", "n"],
}
"""The keys that the screens promise."""


@pytest.mark.parametrize("view", EVERY_VIEW)
def test_no_key_means_two_things(view: View) -> None:
    keys = [key for action in actions_of(view) for key in action.keys]
    assert len(keys) == len(set(keys))


def test_every_action_has_key_word_and_sentence() -> None:
    for view in SCROLLED:
        names = [action.name for action in actions_of(view)]
        assert len(names) == len(set(names)), view
    for action in ACTIONS:
        assert action.keys, action.name
        assert action.text, action.name
        assert len(action.help) > 5, action.name
        assert action.views, action.name


def test_the_queue_has_every_promised_key() -> None:
    known = {key for action in actions_of("queue") for key in action.keys}
    assert {key for keys in KEYS.values() for key in keys} <= known


@pytest.mark.parametrize("view", EVERY_VIEW)
def test_every_action_is_carried_out_somewhere(view: View) -> None:
    others = {"job": JobScreen, "text": TextScreen, "log": LogScreen}
    screen = view_class(view) if view in VIEWS else others[view]
    for action in actions_of(view):
        assert hasattr(screen, f"do_{action.name}") or hasattr(StudioApp, f"do_{action.name}"), action.name


@pytest.mark.parametrize("view", EVERY_VIEW)
def test_bindings_can_be_remapped_one_by_one(view: View) -> None:
    ids = [binding.id for binding in bindings_of(view)]  # type: ignore[union-attr]
    assert len(ids) == len(set(ids))


def test_the_footer_offers_what_a_job_allows() -> None:
    by_status = {row["status"]: [Target.of(row)] for row in sample_jobs()}
    by_name = {action.name: action for action in ACTIONS}
    assert enabled(by_name["change"], by_status["done"])
    assert enabled(by_name["change"], by_status["paused"])
    assert not enabled(by_name["change"], by_status["in_progress"])
    assert not enabled(by_name["change"], [])
    assert enabled(by_name["retry"], by_status["failed"])
    assert enabled(by_name["retry"], [*by_status["in_progress"], *by_status["failed"]]), "one allows it"
    assert not enabled(by_name["pause"], by_status["done"])
    assert label(by_name["pause"], by_status["paused"]) == "resume"
    assert label(by_name["pause"], by_status["in_progress"]) == "pause"
    assert label(by_name["pause"], [*by_status["paused"], *by_status["in_progress"]]) == "pause"


def footer(app: StudioApp) -> str:
    return str(app.screen.query_one("#footer").render_line(0).text)


async def test_the_footer_is_about_the_marked_jobs(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(160, 24)) as pilot:
        app = await loaded(pilot)
        assert "p pause  x cancel" in footer(app)
        assert "unmark" not in footer(app)
        await pilot.press("G", "space")
        await until(pilot, lambda: "◆1 marked  e change" in footer(app))
        await pilot.press("g")
        await until(pilot, lambda: app.screen.query_one("#jobs", JobList).cursor == 0)
        offered = footer(app)
        assert "e change  u unmark" in offered, "the running job under the cursor does not matter"
        assert not any(word in offered for word in ("pause  ", "cancel", "details", "log", "copy"))
        await pilot.press("j", "j", "j", "j", "j", "j", "j", "j", "space")
        await until(pilot, lambda: "◆2 marked  p resume" in footer(app))
        assert "e change" in footer(app)


@pytest.mark.parametrize("view", ["1", "2", "3", "4", "5", "enter", "l"])
async def test_what_was_done_is_undone_step_by_step_from_any_screen(
    view: str, make_app: MakeApp, fake: FakeSupervisor
) -> None:
    async with make_app().run_test(size=(120, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("G", "D")
        await until(pilot, lambda: "delete: 1 job; z restores it" in messages(app))
        await pilot.press("g", "j", "j", "j", "space", "space", "D")
        await until(pilot, lambda: len(fake.deleted) == 3)
        await pilot.press(view)
        await until(pilot, lambda: view == "1" or app.screen.VIEW != "queue")
        await pilot.press("z")
        await until(pilot, lambda: "2 jobs restored to the list" in messages(app))
        assert [row["id"] for row in fake.deleted] == [314]
        await pilot.press("z")
        await until(pilot, lambda: "job 314, intro.mp4 restored to the list" in messages(app))
        assert not fake.deleted
        await pilot.press("z")
        await until(pilot, lambda: "nothing left to undo" in messages(app))


async def test_a_job_that_was_changed_since_is_left(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(120, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("j", "j", "j", "space", "space", "p")
        await until(pilot, lambda: len(fake.undoable) == 1)
        [touched, alone] = fake.undoable[0][1]
        fake.happened("priority_changed", touched, actor="user")
        await pilot.press("z")
        what = "resumed 1 job again; 1 left: it was changed since"
        await until(pilot, lambda: what in messages(app))
        assert (fake.job(touched)["status"], fake.job(alone)["status"]) == ("paused", "pending")


async def test_a_video_is_deleted_after_a_question_and_brought_back(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    def sent() -> list[str]:
        return [call.method for call in fake.sent if call.path.startswith("/v1/videos/314")]

    async with make_app().run_test(size=(120, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("G", "X")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("escape")
        assert "DELETE" not in sent()
        await pilot.press("X")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("tab", "enter")
        await until(pilot, lambda: "video intro.mp4 deleted; z brings it back" in messages(app))
        await until(pilot, lambda: all(row["id"] != 314 for row in app.context.model.jobs.rows))
        await pilot.press("z")
        await until(pilot, lambda: "video intro.mp4 is back" in messages(app))
        await until(pilot, lambda: any(row["id"] == 314 for row in app.context.model.jobs.rows))
        assert [method for method in sent() if method != "GET"] == ["DELETE"]


async def test_an_undo_that_could_not_be_sent_can_be_tried_again(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    async with make_app().run_test(size=(120, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("G", "D")
        await until(pilot, lambda: fake.deleted)
        fake.down = True
        await pilot.press("z")
        await until(pilot, lambda: "NO_SUPERVISOR" in messages(app))
        fake.down = False
        await pilot.press("z")
        await until(pilot, lambda: "intro.mp4 restored to the list" in messages(app))


async def test_a_lost_answer_is_asked_for_again_and_nothing_is_done_twice(
    make_app: MakeApp, fake: FakeSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tqstudio.ui.data.feed.AGAIN_S", (0.01,) * 20)
    before = fake.job(322)["priority"]
    async with make_app().run_test(size=(120, 24)) as pilot:
        app = await loaded(pilot)
        await go_to(app, pilot, 322)
        fake.lost = 2
        await pilot.press("plus")
        await until(pilot, lambda: "the answer was lost; asking for it again" in messages(app))
        await until(pilot, lambda: len(fake.operations()) == 3)
        assert fake.job(322)["priority"] == before + 1
        await pilot.press("plus")
        await until(pilot, lambda: fake.job(322)["priority"] == before + 2)
        fake.lost = 1
        await pilot.press("z")
        await until(pilot, lambda: "the former priority of job 322" in messages(app))
        assert fake.job(322)["priority"] == before + 1, "one action was undone"
        assert "SUPERVISOR_NOT_RESPONDING" not in messages(app)
        fake.lost = 100
        await pilot.press("minus")
        await until(pilot, lambda: "SUPERVISOR_NOT_RESPONDING" in messages(app))
        assert fake.job(322)["priority"] == before


async def test_deleted_jobs_are_restored_in_the_bin(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(120, 30)) as pilot:
        app = await loaded(pilot)
        await pilot.press("G", "space", "k", "space", "D")
        await until(pilot, lambda: len(fake.deleted) == 2)
        await pilot.press("slash", *"state:deleted", "enter")
        await until(pilot, lambda: len(app.context.model.jobs.rows) == 2)
        assert "r restore" in footer(app)
        assert any("deleted – r restores it" in line for line in screen_text(app))
        await pilot.press("x")
        await until(pilot, lambda: "is deleted; restore it first" in messages(app))
        await pilot.press("enter")
        await until(pilot, lambda: app.screen.VIEW == "job" and "r restore" in footer(app))
        assert any("deleted – r restores it" in line for line in screen_text(app))
        await pilot.press("r")
        await until(pilot, lambda: "1 job restored to the list" in messages(app))
        await until(pilot, lambda: "r restore" not in footer(app), "it is read again")
        await pilot.press("escape", "a", "r")
        await until(pilot, lambda: not fake.deleted)
        await until(pilot, lambda: not app.context.model.jobs.rows)
        assert not app.context.model.marks


def test_what_is_in_the_list_is_retried_before_what_is_deleted() -> None:
    failed, gone = (Target(number, "", JobStatus.FAILED, Control.NONE, 0, number == 2) for number in (1, 2))
    retry = BY_NAME["retry"]
    assert operation_for(retry, [failed, gone]) is Operation.RETRY
    assert operation_for(retry, [gone]) is Operation.UNDELETE
    assert (label(retry, [failed, gone]), label(retry, [gone])) == ("retry", "restore")
    assert operation_for(retry, [failed]) is Operation.RETRY


@pytest.mark.parametrize("view", ["1", "2", "3", "4", "enter", "l"])
async def test_the_queue_is_paused_and_resumed_wherever_it_is_shown(
    view: str, make_app: MakeApp, fake: FakeSupervisor
) -> None:
    async with make_app().run_test(size=(160, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press(view)
        await until(pilot, lambda: "P pause all" in footer(app))
        await pilot.press("P")
        await until(pilot, lambda: "P resume all" in footer(app))
        notice = app.screen.query_one("#notice")
        await until(pilot, lambda: "P resumes it" in notice.render_line(0).text)
        await pilot.press("P")
        await until(pilot, lambda: "P pause all" in footer(app))
        assert not fake.gates


@pytest.mark.parametrize("view", ["1", "2", "4", "enter"])
async def test_escape_hides_a_folders_remark_wherever_that_is_offered(
    view: str, make_app: MakeApp, fake: FakeSupervisor
) -> None:
    fake.folders.append(missing_folder())
    async with make_app().run_test(size=(220, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press(view)
        screen = app.screen
        notice = screen.query_one("#notice")
        await until(pilot, lambda: "esc hides this" in notice.render_line(0).text)
        await pilot.press("escape")
        await until(pilot, lambda: not notice.has_class("open"))
        assert app.screen is screen


@pytest.mark.parametrize("width", [60, 80, 100, 160, 220])
async def test_a_notice_says_what_to_do_at_every_width(
    width: int, make_app: MakeApp, fake: FakeSupervisor
) -> None:
    fake.folders.append(missing_folder())
    async with make_app().run_test(size=(width, 24)) as pilot:
        app = await loaded(pilot)
        notice = app.screen.query_one("#notice")

        def text() -> str:
            return " ".join(notice.render_line(y).text.strip() for y in range(notice.size.height))

        await until(pilot, lambda: "3 shows" in text())
        assert text().startswith("▲ SOURCE_MISSING: the folder /mnt/usb is gone")


async def test_a_key_that_cannot_act_says_why(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("r")
        await until(pilot, lambda: "job 319 is running; use restart" in messages(app))
        await pilot.press("G", "p")
        await until(pilot, lambda: "is done; there is nothing left to pause" in messages(app))
        assert not fake.operations()


async def test_a_refused_action_shows_error_and_hint(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        # The job has ended in the meantime; the UI does not know yet.
        fake.jobs[0] = fake.jobs[0] | {"status": "done"}
        await pilot.press("p")
        await until(pilot, lambda: "nothing left to pause – see the reason" in messages(app))
        assert "REFUSED: " in messages(app)


async def test_a_restart_asks_and_keeps_by_default(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert isinstance(app.focused, Button)
        assert str(app.focused.label) == "Keep it as it is"
        text = " ".join(str(label.content) for label in app.screen.query("Label"))
        assert "Lost: 225 finished segments" in text
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, Confirm))
        assert not fake.operations()
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: fake.operations())
        assert fake.operations() == [{"operation": "restart", "ids": [319]}]


async def test_what_can_be_undone_does_not_ask(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("x")
        await until(pilot, lambda: "cancel: 1 job; z undoes it" in messages(app))
        assert fake.job(319)["control"] == "cancel"
        await pilot.press("z")
        await until(pilot, lambda: "is undone" in messages(app))
        assert fake.job(319)["control"] == "none"
        await pilot.press("3", "D")
        await until(pilot, lambda: "is not watched any more; its jobs stay; z undoes it" in messages(app))
        count = len(fake.folders)
        await pilot.press("z")
        await until(pilot, lambda: "is watched again" in messages(app))
        assert len(fake.folders) == count + 1


async def go_to(app: StudioApp, pilot: Any, job: int) -> None:
    for _ in range(20):
        if current(app) == job:
            return
        await pilot.press("j")
        await pilot.pause()
    raise AssertionError(f"job {job} is not on the list")


async def ask_to_delete(app: StudioApp, pilot: Any, job: int) -> str:
    """`D` on that job; what the dialog says."""
    await go_to(app, pilot, job)
    await pilot.press("D")
    await until(pilot, lambda: isinstance(app.screen, Confirm), "it asks")
    return " ".join(str(label.content) for label in app.screen.query("Label"))


async def test_deleting_finished_segments_asks_first(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        text = await ask_to_delete(app, pilot, 315)
        assert "Lost: 141 finished segments." in text
        assert isinstance(app.focused, Button)
        assert str(app.focused.label) == "Keep it"
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, Confirm))
        await pilot.press("z")
        await until(pilot, lambda: "nothing left to undo" in messages(app))
        assert not fake.operations()
        await ask_to_delete(app, pilot, 315)
        await pilot.press("y")
        await until(pilot, lambda: fake.operations())
        assert fake.operations() == [{"operation": "delete", "ids": [315]}]
        notice = "delete: 1 job; z restores it without its segments"
        await until(pilot, lambda: notice in messages(app), "it is reported what undoing does not bring back")
        await pilot.press("z")
        await until(pilot, lambda: not fake.deleted)


@pytest.mark.parametrize("job", [315, 316], ids=["kept by the settings", "nothing finished"])
async def test_deleting_without_loss_does_not_ask(make_app: MakeApp, fake: FakeSupervisor, job: int) -> None:
    fake.cleanup_partial = job != 315
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await go_to(app, pilot, job)
        await pilot.press("D")
        await until(pilot, lambda: fake.operations() == [{"operation": "delete", "ids": [job]}])
        await until(pilot, lambda: "delete: 1 job; z restores it" in messages(app))


async def test_deleting_many_says_what_stays_and_undoing_it_asks_nothing(make_app: MakeApp) -> None:
    fake = FakeSupervisor(many_jobs(30))
    async with make_app(client_factory=lambda: fake).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("a")
        await until(pilot, lambda: len(app.context.model.marks) == 30)
        await pilot.press("slash", *"nothing", "enter")
        await until(pilot, lambda: not app.context.model.jobs.rows)
        await pilot.press("D")
        await until(pilot, lambda: isinstance(app.screen, Confirm), "it asks")
        text = " ".join(str(label.content) for label in app.screen.query("Label"))
        assert "Delete 30 jobs (30 hidden by the filter)?" in text
        assert "z restores them. Ladders and sources stay." in text
        assert str(app.screen.query_one("#go", Button).label) == "Delete"
        await pilot.press("y")
        await until(pilot, lambda: len(fake.deleted) == 30)
        await pilot.press("z")
        await until(pilot, lambda: not fake.deleted)


async def test_cancelling_many_before_the_first_segment_promises_none(make_app: MakeApp) -> None:
    running = sample_jobs()[0] | {"id": 999, "video": 999}
    for each in running["renditions"]:
        each["segments_done"] = 0
    fake = FakeSupervisor([running, *many_jobs(30)])
    async with make_app(client_factory=lambda: fake).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("a")
        await until(pilot, lambda: len(app.context.model.marks) == 31)
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        text = " ".join(str(label.content) for label in app.screen.query("Label"))
        assert "No segment is finished yet" in text
        assert "0 finished" not in text


async def test_cancelling_what_has_no_work_does_not_ask(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        await loaded(pilot)
        await pilot.press("j", "j", "j", "x")
        await until(pilot, lambda: fake.operations())
        assert fake.operations() == [{"operation": "cancel", "ids": [322]}]


async def test_pause_shows_at_once_and_resumes(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("j", "j", "j", "p")
        await until(pilot, lambda: (row := app.context.model.jobs.row(322)) and row["status"] == "paused")
        await until(pilot, lambda: current(app) == 322)
        await pilot.press("p")
        await until(pilot, lambda: len(fake.operations()) == 2)
        assert [body["operation"] for body in fake.operations()] == ["pause", "resume"]


async def test_priority_by_key_and_by_number(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("j", "j", "j", "plus")
        await until(pilot, lambda: len(fake.operations()) == 1)
        await pilot.press("equals_sign")
        await until(pilot, lambda: len(app.screen_stack) == 3)
        await pilot.press("backspace", "backspace", *"42", "enter")
        await until(pilot, lambda: len(fake.operations()) == 2)
        assert fake.operations() == [
            {"operation": "priority", "ids": [322], "delta": 1},
            {"operation": "priority", "ids": [322], "priority": 42},
        ]


async def test_a_job_that_slips_under_the_cursor_is_not_hit(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("j", "j", "j")
        window = app.context.model.jobs
        left = [row for row in fake.jobs if row["id"] != 322]
        window.show({"jobs": left, "total": 13, "before": None, "after": None})
        await app.perform("pause")
        await until(pilot, lambda: "check it and press again" in messages(app))
        assert not fake.operations()


async def test_a_worker_in_quarantine_says_why_and_how_to_let_it_work(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    async with make_app(view="workers").run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("G")
        await until(pilot, lambda: any("e enables it again" in line for line in lines_of(app, "#facts")))
        assert any("failed 3 different jobs in a row" in line for line in lines_of(app, "#facts"))
        await pilot.press("e")
        await until(pilot, lambda: fake.workers[3]["status"] == "idle")
        assert "gpu-1 is idle" in messages(app)


def lines_of(app: Any, selector: str) -> list[str]:
    widget = app.screen.query_one(selector)
    return [widget.render_line(y).text for y in range(widget.size.height)]


async def test_a_running_job_is_shown_as_pausing_until_its_worker_has_stopped(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    def shown() -> str:
        row = app.context.model.job(319)
        return row["word"] if row else ""

    def last_event() -> str:
        return app.context.model.events[-1]["trigger"]

    async with make_app().run_test(size=(120, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("p")
        await until(pilot, lambda: shown() == "pausing…" and last_event() == "pause_requested")
        assert "p resume" in footer(app)
        await pilot.press("p")
        await until(pilot, lambda: shown() == "running" and last_event() == "resume_requested")
        await pilot.press("p")
        await until(pilot, lambda: shown() == "pausing…")
        fake.obey(319)
        await until(pilot, lambda: shown() == "paused" and last_event() == "pause")
        assert current(app) == 320, "the cursor keeps its place"


async def test_a_change_has_the_list_read_once(
    make_app: MakeApp, fake: FakeSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_app().run_test(size=(120, 24)) as pilot:
        app = await loaded(pilot)
        model, feed = app.context.model, app.context.feed
        read_for: list[str] = []
        refresh_soon = feed.refresh_soon

        def refresh() -> None:
            read_for.append(model.events[-1]["trigger"])
            refresh_soon()

        monkeypatch.setattr(feed, "refresh_soon", refresh)
        await pilot.press("p")
        await until(
            pilot,
            lambda: model.job(319)["word"] == "pausing…" and model.events[-1]["trigger"] == "pause_requested",
        )
        fake.obey(319)
        await until(pilot, lambda: model.job(319)["status"] == "paused")
        assert read_for == ["pause"], "for the event of the worker, not for the answer or the request"


async def test_a_refusal_shows_the_state_that_the_job_has_by_now(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    async with make_app().run_test(size=(120, 24)) as pilot:
        app = await loaded(pilot)
        fake.job(319).update(status="done", word="done")
        await pilot.press("p")
        await until(pilot, lambda: app.context.model.job(319)["word"] == "done")

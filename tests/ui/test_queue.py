"""The queue: the cursor stays on its job, filters, marks, long lists."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.widgets import Input

from tqstudio import paths
from tqstudio.ui.app import StudioApp
from tqstudio.ui.data.query import Query, query_of
from tqstudio.ui.screens.dialogs.ask_path import AskPath
from tqstudio.ui.screens.dialogs.dialogs import Confirm, Problem
from tqstudio.ui.screens.queue.screen import QueueScreen
from tqstudio.ui.widgets.footer import Footer
from tqstudio.ui.widgets.job_list import JobList
from tqstudio.ui.widgets.row_list import RowList

from .conftest import MakeApp, loaded, messages, until
from .fake_supervisor import FakeSupervisor
from .samples import NOW, job_live, job_row, many_jobs, rendition


def queue_of(app: StudioApp) -> QueueScreen:
    screen = app.screen_stack[1]
    assert isinstance(screen, QueueScreen)
    return screen


def current(app: StudioApp) -> int | None:
    row = queue_of(app).current()
    return row["id"] if row else None


def problem_of(app: StudioApp) -> str:
    """What the dialog on top says is wrong."""
    problem = app.screen.query_one(Problem)
    return str(problem.content) if problem.display else ""


def remark(app: StudioApp) -> str:
    return queue_of(app).tab_text()[1]


def hints(app: StudioApp) -> str:
    """The line below the filter."""
    line = queue_of(app).filter_line.hints
    return line.render_line(0).text if line.display else ""


def text_of(app: StudioApp) -> list[str]:
    """The lines of the job list as they stand on the screen."""
    jobs = queue_of(app).list
    return [jobs.render_line(y).text for y in range(jobs.size.height)]


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (120, 40)])
async def test_an_empty_queue_says_how_to_begin(size: tuple[int, int], make_app: MakeApp) -> None:
    fake = FakeSupervisor([])
    async with make_app(client_factory=lambda: fake).run_test(size=size) as pilot:
        app = await loaded(pilot)
        text = "\n".join(text_of(app))
        assert "the queue is empty" in text
        assert "n         adds a video" in text
        assert size[1] < 24 or "q         leaves; the supervisor continues with the queue" in text
        fake.jobs.append(job_row(1, "first.mp4"))
        fake.happened("create", 1)
        await until(pilot, lambda: "first.mp4" in "\n".join(text_of(app)))
        assert "adds a video" not in "\n".join(text_of(app))


async def test_an_empty_queue_shows_where_to_put_videos(make_app: MakeApp) -> None:
    fake = FakeSupervisor([])
    first = fake.folders[0]
    async with make_app(client_factory=lambda: fake).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        for folders, shown, hidden in (
            ([first | {"path": "/srv/{a}\tb"}], r"          /srv/{a}\tb", "3 then n"),
            ([first | {"enabled": False}], "3 then n  watches a folder", first["path"]),
            ([], "3 then n  watches a folder", "watched folders"),
        ):
            fake.folders = folders
            app.context.feed.read_folders_soon()
            await until(pilot, lambda: shown in "\n".join(text_of(app)))  # noqa: B023
            assert hidden not in "\n".join(text_of(app))


async def test_keys_pressed_at_once_count_from_each_other(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        for key in ("end", "up", "up"):
            await app.perform(key)
        assert current(app) == 315


async def test_new_rows_do_not_move_the_cursor_off_its_job(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("j", "j")
        assert current(app) == 321
        fake.jobs.insert(0, job_row(500, "first.mp4", "in_progress"))
        fake.jobs.insert(1, job_row(501, "second.mp4", "in_progress"))
        fake.happened("create", 500)
        await until(pilot, lambda: app.context.model.jobs.index_of(501) == 1, "the new rows are shown")
        assert current(app) == 321


async def test_the_cursor_follows_a_job_that_moves(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        assert current(app) == 319
        paused = fake.jobs.pop(0)
        at = next(at for at, row in enumerate(fake.jobs) if row["status"] == "failed")
        fake.jobs.insert(at, paused | {"status": "paused", "word": "paused"})
        fake.happened("pause", 319)
        await until(pilot, lambda: app.context.model.jobs.index_of(319) == at, "the job has moved")
        assert current(app) == 319
        jobs = queue_of(app).list
        assert jobs.top <= jobs.cursor < jobs.top + jobs.page
        assert any("holiday" in line for line in text_of(app))


def ends(fake: FakeSupervisor, *ended: int) -> None:
    """The jobs are done, and stand at the end of the list."""
    for job in ended:
        row = fake.job(job)
        fake.jobs.remove(row)
        fake.jobs.append(row | {"status": "done", "word": "done", "progress": 100.0})
    for job in ended:
        fake.happened("complete", job, source="in_progress", target="done")


@pytest.mark.parametrize("height", [24, 50], ids=["a part of the list", "all of it"])
async def test_the_list_stays_with_what_runs_when_jobs_end(
    make_app: MakeApp, fake: FakeSupervisor, height: int
) -> None:
    fake.jobs[:] = many_jobs(40)
    for row in fake.jobs[:4]:
        row |= {"status": "in_progress", "word": "running"}
    async with make_app().run_test(size=(80, height)) as pilot:
        app = await loaded(pilot)
        assert current(app) == 1
        ends(fake, 1)
        await until(pilot, lambda: app.context.model.jobs.rows[-1]["id"] == 1, "the job has moved")
        assert (current(app), queue_of(app).list.top) == (2, 0)
        await pilot.press("j")
        ends(fake, 3, 4, 2)
        await until(pilot, lambda: app.context.model.jobs.rows[-1]["id"] == 2, "the jobs have moved")
        assert (current(app), queue_of(app).list.top) == (5, 0)


async def test_a_long_list_stays_with_what_runs_when_a_job_ends(make_app: MakeApp) -> None:
    fake = FakeSupervisor(many_jobs(5_000))
    for row in fake.jobs[:2]:
        row |= {"status": "in_progress", "word": "running"}
    async with make_app(client_factory=lambda: fake).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        ends(fake, 1)
        await until(pilot, lambda: app.context.model.jobs.rows[0]["id"] == 2, "the list was read again")
        assert (current(app), queue_of(app).list.top, app.context.model.jobs.offset) == (2, 0, 0)
        app.context.feed.refresh_soon()
        asked = len(fake.sent)
        await until(pilot, lambda: len(fake.sent) > asked + 1, "and again")
        assert current(app) == 2


@pytest.mark.parametrize("count", [40, 5_000], ids=["all of it", "a part of the list"])
async def test_the_list_stays_with_what_runs_when_many_jobs_end_at_once(
    make_app: MakeApp, count: int
) -> None:
    fake = FakeSupervisor(many_jobs(count))
    for row in fake.jobs[:2]:
        row |= {"status": "in_progress", "word": "running"}
    async with make_app(client_factory=lambda: fake).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("j")
        ends(fake, *range(1, 21))
        await until(pilot, lambda: app.context.model.jobs.rows[0]["id"] == 21, "the list was read again")
        assert (current(app), queue_of(app).list.top) == (22, 0)


@pytest.mark.parametrize("typed", ["4001", "#4001"])
async def test_a_number_finds_the_job_that_has_it(typed: str, make_app: MakeApp) -> None:
    fake = FakeSupervisor([row | {"name": f"{row['id'] * 7} tape.mp4"} for row in many_jobs(5_000)])
    async with make_app(client_factory=lambda: fake).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("slash")
        app.screen.query_one(Input).value = typed
        await pilot.press("enter")
        await until(pilot, lambda: current(app) == 4001)
        assert not app.context.model.jobs.query.narrowed
        await pilot.press("slash")
        app.screen.query_one(Input).value = "1400"
        await pilot.press("enter")
        await until(pilot, lambda: current(app) in (200, 2000, 2001), "names come first")
        await pilot.press("slash")
        app.screen.query_one(Input).value = "987654"
        await pilot.press("enter")
        await until(pilot, lambda: "no job matches" in "".join(text_of(app)))


async def test_in_other_orders_the_cursor_stays_on_a_job_that_ends(make_app: MakeApp) -> None:
    fake = FakeSupervisor(many_jobs(40))
    async with make_app(client_factory=lambda: fake).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("s", "down", "enter")
        await until(pilot, lambda: app.context.model.jobs.query.sort == "-number")
        await pilot.press("g", "j", "j")
        assert current(app) == 38
        for row in fake.jobs:
            row |= {"status": "done", "word": "done"}
        fake.happened("complete", 38, source="in_progress", target="done")
        await until(pilot, lambda: app.context.model.jobs.rows[2]["status"] == "done", "it was read again")
        assert current(app) == 38


async def test_a_key_does_not_hit_the_job_that_took_the_place_of_one_that_ended(
    make_app: MakeApp, fake: FakeSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tqstudio.ui.screens.queue.screen.IGNORE_KEYS_S", 600.0)
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        ends(fake, 319)
        await until(pilot, lambda: current(app) == 320)
        await pilot.press("p")
        assert not fake.operations()
        monkeypatch.setattr("tqstudio.ui.screens.queue.screen.IGNORE_KEYS_S", 0.0)
        await pilot.press("p")
        await until(pilot, lambda: [each["ids"] for each in fake.operations()] == [[320]])


async def test_one_job_after_the_other_is_deleted_without_a_pause(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("j", "j", "j", "D")
        await until(pilot, lambda: 322 in app.context.model.just_deleted)
        await pilot.press("D")
        await until(pilot, lambda: [each["ids"] for each in fake.operations()] == [[322], [323]])


async def test_a_source_that_becomes_known_is_shown_at_once(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(100, 24)) as pilot:
        app = await loaded(pilot)
        assert not any("1440p48" in line for line in text_of(app))
        at = next(at for at, row in enumerate(fake.jobs) if row["status"] == "pending")
        known = {**fake.jobs[at]["source"], "height": 1440, "fps": 48.0}
        fake.jobs[at] = fake.jobs[at] | {"source": known}
        fake.push("sources", {"jobs": [{"id": fake.jobs[at]["id"], "source": known}]})
        await until(pilot, lambda: any("1440p48" in line for line in text_of(app)), "the row shows it")


async def test_a_row_that_goes_leaves_the_cursor_in_its_place(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("j", "j")
        del fake.jobs[2]
        fake.happened("delete", 321)
        await until(pilot, lambda: app.context.model.jobs.index_of(321) is None)
        assert current(app) == 322


async def test_progress_repaints_the_row_without_asking(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        asked = sum(call.path == "/v1/jobs" for call in fake.sent)
        row = fake.job(319)
        further = [each | {"progress": 77.0} for each in row["renditions"]]
        fake.push("progress", {"jobs": [job_live(row, progress=75.6, renditions=further)]})
        # The job's own figure, rounded down.
        await until(pilot, lambda: any("75%" in line for line in text_of(app)), "the new progress is shown")
        assert sum(call.path == "/v1/jobs" for call in fake.sent) == asked


@pytest.mark.parametrize("status", ["in_progress", "pending", "paused", "failed", "cancelled"])
async def test_the_progress_of_a_job_is_what_the_supervisor_says(
    make_app: MakeApp, fake: FakeSupervisor, status: str
) -> None:
    """Not the mean of its qualities: a large one counts more than a small one."""
    qualities = [rendition("720p", 10, 100), rendition("480p", 90, 100)]
    fake.jobs[:] = [job_row(7, "a.mp4", status, progress=38.99, renditions=qualities)]
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        [line] = [line for line in text_of(app) if "a.mp4" in line]
        assert "38%" in line


async def test_filter_by_state_and_words(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("slash", *"state:failed", "enter")
        await until(pilot, lambda: [row["id"] for row in app.context.model.jobs.rows] == [316])
        await pilot.press("escape")
        await until(pilot, lambda: len(app.context.model.jobs) == 14)
        await pilot.press("slash", *"[red]", "enter")
        await until(pilot, lambda: [row["id"] for row in app.context.model.jobs.rows] == [324])
        assert any("[red]x.mp4" in line for line in text_of(app))


@pytest.mark.parametrize("view", ["1", "2"])
async def test_while_a_filter_is_typed_no_key_is_offered_that_is_text(view: str, make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)

        def offered() -> str:
            return app.screen.query_one(Footer).render_line(0).text

        await pilot.press(view)
        await until(pilot, lambda: "q quit" in offered())
        await pilot.press("slash")
        await until(pilot, lambda: "enter applies the filter  esc clears the filter" in offered())
        assert "q quit" not in offered()
        await pilot.press("escape")
        await until(pilot, lambda: "q quit" in offered(), "the keys are back")


async def test_a_wrong_state_is_named(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("slash", *"state:lost", "enter")
        await until(pilot, lambda: "“lost”" in hints(app))


async def test_a_click_on_a_count_filters(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        header = app.screen.query_one("#header")
        x = header.render_line(0).text.index("✗1")
        await pilot.click("#header", offset=(x, 0))
        await until(pilot, lambda: [row["id"] for row in app.context.model.jobs.rows] == [316])


async def test_columns_hold_for_every_name(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        jobs = queue_of(app).list
        for y in range(jobs.size.height):
            assert jobs.render_line(y).cell_length == jobs.size.width


async def test_click_selects_and_double_click_opens(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.click("#jobs", offset=(20, 4))
        assert current(app) == 322
        await pilot.click("#jobs", offset=(20, 2), times=2)
        await until(pilot, lambda: getattr(app.screen, "job", None) == 320)


async def test_marks_stay_with_their_jobs_and_act_together(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("j", "j", "j", "space", "space", "p")
        await until(pilot, lambda: fake.operations())
        assert fake.operations()[0] == {"operation": "pause", "ids": [322, 323]}
        await pilot.press("escape")
        assert not queue_of(app).list.marks


@pytest.mark.slow
async def test_a_hundred_thousand_jobs(make_app: MakeApp) -> None:
    fake = FakeSupervisor(many_jobs(100_000))
    async with make_app(client_factory=lambda: fake).run_test(size=(120, 40)) as pilot:
        app = await loaded(pilot)
        window = app.context.model.jobs
        await pilot.press("G")
        await until(pilot, lambda: current(app) == 100_000, "the last job is selected")
        assert window.after is None
        assert len(window) <= 600
        await pilot.press("g")
        await until(pilot, lambda: current(app) == 1, "the first job is selected")
        for _ in range(30):
            await pilot.press("pagedown")
        await until(pilot, lambda: current(app) == 1 + 30 * (queue_of(app).list.page - 1))
        assert len(window) <= 800
        assert window.offset is not None
        assert window.offset + queue_of(app).list.cursor + 1 == current(app)
        for _ in range(30):
            await pilot.press("pageup")
        await until(pilot, lambda: current(app) == 1)


async def test_the_answer_to_a_replaced_filter_is_discarded(make_app: MakeApp) -> None:
    fake = FakeSupervisor(many_jobs(3_000))
    async with make_app(client_factory=lambda: fake).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        window = app.context.model.jobs
        fake.pages = asyncio.Semaphore(0)
        app.start(app.context.feed.job_pages.ask(query_of("zebra")))
        await until(pilot, lambda: window.query == query_of("zebra"), "it searches")
        app.start(app.context.feed.job_pages.ask(Query(sort="-number")))
        await until(pilot, lambda: window.query == Query(sort="-number"), "another filter replaces it")
        for _ in range(3):
            assert window.rows
            fake.pages.release()
        await until(pilot, lambda: window.rows[0]["id"] == 3_000, "the new list is shown")


async def test_only_visible_rows_are_drawn(make_app: MakeApp) -> None:
    fake = FakeSupervisor(many_jobs(5_000))
    drawn: list[int] = []

    class Counting(JobList):
        def _draw(self, row, *args, **more):  # type: ignore[no-untyped-def]
            drawn.append(row["id"])
            return super()._draw(row, *args, **more)

    import tqstudio.ui.screens.queue.screen as module

    original, module.JobList = module.JobList, Counting  # type: ignore[misc]
    try:
        async with make_app(client_factory=lambda: fake).run_test(size=(80, 24)) as pilot:
            await loaded(pilot)
            drawn.clear()
            await pilot.press("j")
            await pilot.pause()
            assert 0 < len(drawn) <= 4
    finally:
        module.JobList = original  # type: ignore[misc]


async def test_a_frozen_list_keeps_its_rows(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("F")
        fake.jobs.insert(0, job_row(500, "first.mp4", "in_progress"))
        fake.happened("create", 500)
        await until(pilot, lambda: app.context.model.last_seq == 907)
        assert app.context.model.jobs.index_of(500) is None
        await pilot.press("F")
        await until(pilot, lambda: app.context.model.jobs.index_of(500) == 0, "the list moves again")


async def test_files_and_folders_are_added(make_app: MakeApp, fake: FakeSupervisor, tmp_path: Path) -> None:
    folder = tmp_path / "drop"
    folder.mkdir()
    for name in ("a.mp4", "b.mp4", "notes.txt", "half.mp4.part"):
        (folder / name).write_bytes(b"x")
    problem = {"code": "NO_MEDIA", "message": "the file holds no video", "hint": "remove it"}
    fake.decisions["notes.txt"] = {"decision": "rejected", "job": None, "error": problem}
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, AskPath))
        app.screen.query_one("#path", Input).value = str(folder)
        await pilot.press("enter")
        await until(pilot, lambda: "2 queued" in messages(app))
        (sent,) = [call for call in fake.sent if call.path == "/v1/videos"]
        assert [paths.decode(path).rpartition(b"/")[2] for path in (sent.body or {})["paths_b64"]] == [
            b"a.mp4",
            b"b.mp4",
        ]
        await until(pilot, lambda: not isinstance(app.screen, AskPath))
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, AskPath))
        app.screen.query_one("#path", Input).value = str(folder / "notes.txt")
        await pilot.press("enter")
        await until(pilot, lambda: "holds no video – remove it" in problem_of(app))


def bulk_requests(fake: FakeSupervisor) -> list[dict[str, object]]:
    return [dict(call.body or {}) for call in fake.sent if call.path == "/v1/jobs/bulk"]


async def test_all_that_match_are_marked_and_changed_in_slices(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    fake.jobs = many_jobs(1_200)
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        before = len(fake.sent)
        await pilot.press("a")
        await until(pilot, lambda: "all 1 200 jobs marked; u unmarks" in messages(app))
        assert len([call for call in fake.sent[before:] if call.path == "/v1/jobs"]) == 1, "no page is read"
        footer = app.screen.query_one(Footer)
        await until(pilot, lambda: "all 1 200 jobs marked" in footer.render_line(0).text)
        newest = max(row["id"] for row in fake.jobs)
        fake._new = newest + 1
        later = fake._create("later.mp4")
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, Confirm), "it asks")
        assert "Cancel all 1 200 jobs?" in " ".join(str(each.content) for each in app.screen.query("Label"))
        await pilot.press("y")
        await until(pilot, lambda: len(bulk_requests(fake)) == 3)
        await until(pilot, lambda: "1 200 cancelled" in messages(app))
        requests = bulk_requests(fake)
        assert {request["newest"] for request in requests} == {newest}
        assert len({request["idempotency_key"] for request in requests}) == 1
        assert fake.job(later)["status"] == "pending"
        assert sum(row["status"] == "cancelled" for row in fake.jobs) == 1_200


async def test_all_that_match_are_restored(make_app: MakeApp, fake: FakeSupervisor) -> None:
    rows = many_jobs(700)
    fake.jobs, fake.deleted = rows[:1], [row | {"deleted_at": NOW.isoformat()} for row in rows[1:]]
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("slash", *"state:deleted", "enter", "a")
        await until(pilot, lambda: "all 699 jobs that match state:deleted marked" in messages(app))
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, Confirm), "it asks")
        await pilot.press("y")
        await until(pilot, lambda: "699 restored" in messages(app))
        assert len(fake.jobs) == 700
        assert not app.context.model.marks


async def test_escape_stops_after_a_slice(make_app: MakeApp, fake: FakeSupervisor) -> None:
    fake.jobs, fake.slice = many_jobs(1_200), 10
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("a")
        await until(pilot, lambda: app.context.model.marks)
        fake.slices = asyncio.Semaphore(1)
        await pilot.press("p", "y")
        await until(pilot, lambda: len(bulk_requests(fake)) == 2, "the second slice is asked for")
        await until(pilot, lambda: "10 of 1 200 · esc stops after this slice" in messages(app))
        await pilot.press("escape")
        fake.slices.release()
        await until(pilot, lambda: "20 paused; stopped" in messages(app))
        assert len(bulk_requests(fake)) == 2
        assert app.context.model.bulk is None


async def test_an_answer_that_was_lost_is_asked_for_again(
    make_app: MakeApp, fake: FakeSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tqstudio.ui.data.feed.AGAIN_S", [0.01] * 500)
    fake.jobs = many_jobs(600)
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("a")
        await until(pilot, lambda: app.context.model.marks)
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        fake.down = True
        await pilot.press("y")
        await until(pilot, lambda: "cancelling 0 of 600" in messages(app))
        fake.down = False
        await until(pilot, lambda: "600 cancelled" in messages(app))
        assert "NO_SUPERVISOR" not in messages(app)


async def test_a_range_is_marked_from_here_to_there(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        ids = [row["id"] for row in app.context.model.jobs.rows]
        await pilot.press("j", "j", "j", "v", "k", "k", "v")
        await until(pilot, lambda: sorted(app.context.model.marks) == sorted(ids[1:4]))


async def test_what_shares_an_error_code_is_marked(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        failed = next(row for row in fake.jobs if row["status"] == "failed")
        code = failed["error"]["code"]
        alike = [row["id"] for row in fake.jobs if row["error"] and row["error"]["code"] == code]
        while current(app) != failed["id"]:
            await pilot.press("j")
        await pilot.press("asterisk")
        await until(pilot, lambda: sorted(app.context.model.marks) == sorted(alike))
        assert app.context.model.jobs.query.line() == f"code:{code}"


async def test_marks_are_dropped_when_no_one_knows_what_became_of_their_jobs(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("space")
        assert app.context.model.marks
        fake.push("reset", {})
        await until(pilot, lambda: not app.context.model.marks)
        await until(pilot, lambda: "marks removed" in app.screen.query_one("#notice").render_line(0).text)


@pytest.mark.parametrize(
    ("width", "least"), [(80, 26), (100, 29), (120, 29), (132, 29), (140, 29), (160, 40), (200, 40)]
)
async def test_names_keep_their_room(make_app: MakeApp, width: int, least: int) -> None:
    name = "".join(chr(ord("a") + at % 26) for at in range(80))
    async with make_app(
        client_factory=lambda: FakeSupervisor([job_row(1, f"{name}.mp4", "in_progress")])
    ).run_test(size=(width, 24)) as pilot:
        app = await loaded(pilot)
        [line] = [line for line in text_of(app) if "abc" in line]
        shown = next(word for word in line.split() if word.startswith("abc"))
        assert len(shown) >= least
        assert ("quality" in text_of(app)[0]) is (width < 140)
        assert text_of(app)[0].split()[-1] in ("ETA", "ends", "worker")


async def test_a_wide_list_has_a_bar_and_the_time_at_which_a_job_ends(make_app: MakeApp) -> None:
    rows = [job_row(1, "runs.mp4", "in_progress", progress=50.0, eta_s=3700.0)]
    rows += [job_row(2, "ends-tomorrow.mp4", "in_progress", progress=1.0, eta_s=90_000.0)]
    rows += [job_row(3, "waits.mp4", "pending", eta_s=120.0), job_row(4, "done.mp4", "done", progress=100.0)]
    fake = FakeSupervisor(rows)
    async with make_app(client_factory=lambda: fake).run_test(size=(139, 24)) as pilot:
        app = await loaded(pilot)
        assert "ETA" in text_of(app)[0]
        assert "1h01" in text_of(app)[1]
        await pilot.resize_terminal(140, 24)
        await until(pilot, lambda: "ends" in text_of(app)[0])
        runs, tomorrow, waits, done = text_of(app)[1:5]
        assert runs.count("━") in (4, 5)
        assert "13:01" in runs
        assert "Sun 13:00" in tomorrow
        assert "~02:00" in waits
        assert "━" not in waits + done


async def test_the_pane_beside_the_list_says_what_happened(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(160, 50)) as pilot:
        app = await loaded(pilot)

        def pane() -> list[str]:
            shown = queue_of(app).pane
            return [shown.render_line(y).text for y in range(shown.size.height)]

        [claimed] = [line for line in pane() if "claimed by cpu-0" in line]
        assert "11:55:00" in claimed
        fake.happened("pause_requested", 319, actor="user")
        await until(pilot, lambda: any("pause requested" in line for line in pane()))
        lines = pane()
        newest = next(at for at, line in enumerate(lines) if "pause requested" in line)
        assert newest < lines.index(claimed)


@pytest.mark.parametrize(("view", "kind"), [("2", "worker"), ("3", "folder"), ("4", "event")])
async def test_a_filter_that_finds_nothing_is_reported(make_app: MakeApp, view: str, kind: str) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press(view, "slash", *"zebra", "enter")
        rows = app.screen.query_one(RowList)
        text = f"no {kind} matches the filter – esc shows all"
        await until(pilot, lambda: any(text in rows.render_line(y).text for y in range(rows.size.height)))


async def test_enter_on_a_folder_shows_its_jobs(make_app: MakeApp, fake: FakeSupervisor) -> None:
    fake.jobs[4] |= {"path": "/mnt/nas/cam1/screen.webm"}
    async with make_app().run_test(size=(120, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("slash", *"mp4", "enter", "3")
        await until(pilot, lambda: app.context.model.folders)
        await pilot.press("j", "enter")
        await until(pilot, lambda: [row["id"] for row in app.context.model.jobs.rows] == [323])
        assert queue_of(app).tab_text()[0] == "folder:2"
        assert "in cam1 · " in remark(app)
        await pilot.press("slash", "end", *" state:done", "enter")
        await until(pilot, lambda: "no job matches the filter" in "".join(text_of(app)))
        assert app.context.model.jobs.query == query_of("folder:2 state:done")
        await pilot.press("escape")
        await until(pilot, lambda: len(app.context.model.jobs) == 14)


@pytest.mark.parametrize("width", [80, 160])
async def test_a_waiting_job_that_will_fail_is_marked(
    make_app: MakeApp, fake: FakeSupervisor, width: int
) -> None:
    problem = {"code": "NO_MEDIA", "message": "the file holds no video", "hint": "remove it"}
    row = fake.job(323)
    row["source"] = row["source"] | {"problem": problem}
    async with make_app().run_test(size=(width, 24)) as pilot:
        app = await loaded(pilot)
        [line] = [line for line in text_of(app) if "screen.webm" in line]
        assert "▲ NO_MEDIA" in line

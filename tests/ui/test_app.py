"""Start, loss of the supervisor, views, copying, leaving."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from textual.strip import Strip

from tqstudio.home import Home
from tqstudio.protocol.calls import Call
from tqstudio.ui import run
from tqstudio.ui.app import StudioApp
from tqstudio.ui.data.model import Link
from tqstudio.ui.screens.frame.text import TextScreen
from tqstudio.ui.screens.job.screen import JobScreen
from tqstudio.ui.widgets.document import Document
from tqstudio.ui.widgets.filter_line import FilterLine
from tqstudio.ui.widgets.job_list import JobList
from tqstudio.ui.widgets.job_pane import JobPane
from tqstudio.ui.widgets.line_view import LineView

from .conftest import MakeApp, loaded, messages, screen_text, until
from .fake_supervisor import FakeSupervisor
from .samples import divide, job_live, job_row, rendition, sample_jobs
from .test_queue import text_of


def notice_of(app: StudioApp) -> str:
    notice = app.screen.query_one("#notice")
    return " ".join(notice.render_line(y).text.strip() for y in range(notice.size.height))


def test_without_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(FakeSupervisor, home=Home(tmp_path)) == 2
    assert "needs a terminal" in capsys.readouterr().err


def test_the_ui_loads_no_engine_and_no_http_before_it_paints() -> None:
    code = (
        "import sys, tqstudio.ui, tqstudio.ui.app\n"
        "heavy = ('tqstudio.engine', 'httpx', 'pydantic', 'sqlalchemy')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_the_model_knows_no_terminal() -> None:
    code = (
        "import sys, tqstudio.ui.data.feed, tqstudio.ui.data.model\n"
        "print('textual' in sys.modules, 'rich' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False False"


async def test_it_paints_before_the_supervisor_answers(make_app: MakeApp) -> None:
    def no_supervisor() -> FakeSupervisor:
        raise AssertionError("asked before the first picture")

    app = make_app(client_factory=no_supervisor)
    app._begin = lambda: None  # type: ignore[method-assign]
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "connecting" in app.screen.query_one("#header").render_line(0).text)


async def test_it_comes_back_and_continues_from_the_last_event(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    async with make_app(backoff_s=(0.02,)).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        fake.happened("pause", 319)
        await until(pilot, lambda: app.context.model.last_seq == 907)
        fake.down = True
        fake.drop()
        await until(pilot, lambda: app.context.model.connection.link is Link.LOST)
        app.painter.now()
        await until(pilot, lambda: "S starts one" in notice_of(app))
        assert any("holiday" in line for line in text_of(app))
        fake.happened("resume", 319)
        fake.down = False
        await until(pilot, lambda: app.context.model.up and app.context.model.last_seq == 908)
        assert fake.asked_after == [906, 907]
        app.painter.now()
        await until(pilot, lambda: not notice_of(app))


async def test_a_reset_reads_everything_again(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        fake.jobs = sample_jobs()[:3]
        fake.events = fake.events[-1:]
        fake.push("reset", {"oldest": 906})
        await until(pilot, lambda: len(app.context.model.jobs) == 3)
        assert fake.asked_after == [906, 906]


async def test_a_shut_gate_says_what_to_do(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("P")
        await until(pilot, lambda: "P resumes it" in notice_of(app))
        await pilot.press("P")
        await until(pilot, lambda: not notice_of(app))
        assert not fake.gates


async def test_every_view_and_back(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        for key, word in (("2", "gpu-1"), ("3", "/srv/upload"), ("4", "failed, will be retried")):
            await pilot.press(key)
            await until(
                pilot,
                lambda word=word: any(
                    word in line.text
                    for view in app.painter.full_screens()[0].query(LineView)
                    for line in view._shown.values()
                ),
                f"{word} is shown",
            )
        await pilot.press("escape")
        assert app.painter.full_screens()[0].VIEW == "queue"


async def test_the_job_and_its_texts(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.detail)
        await pilot.press("y")
        assert (
            app.clipboard
            == "ffmpeg -nostdin -i file:/srv/upload/holiday-2026.mp4 -c:v libx264 -f hls index.m3u8"
        )
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, TextScreen) and app.screen._text.text != "reading…")
        assert isinstance(app.screen, TextScreen)
        log = app.screen._text
        assert len(log.text.splitlines()) == 200
        await until(pilot, lambda: log.cursor == log.count() - 1, "a log shows its end")
        await pilot.press("escape", "escape")
        await until(pilot, lambda: app.screen_stack[-1].VIEW == "queue")


async def test_the_log_of_a_job_that_has_not_started_is_no_error(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("j", "j", "j", "l")
        await until(pilot, lambda: isinstance(app.screen, TextScreen) and app.screen._text.text != "reading…")
        assert app.screen._text.text == "job 322 has not started yet"


async def test_a_job_says_how_long_each_quality_took(make_app: MakeApp, fake: FakeSupervisor) -> None:
    row = next(each for each in fake.jobs if each["status"] == "in_progress")
    row["renditions"][-1] = rendition("360p", 120, status="completed")
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.detail)
        assert app.screen.detail["id"] == row["id"]

        def shown() -> str:
            return "\n".join(line.text for line in app.screen.document._shown.values())

        await until(pilot, lambda: "in 31:20" in shown(), "it is shown")
        moving = [each | {"progress": 100.0} for each in row["renditions"]]
        fake.push("progress", {"jobs": [job_live(row, renditions=moving)]})
        qualities = app.screen.detail["renditions"]
        await until(
            pilot,
            lambda: app.screen.detail["renditions"] is not qualities,
            "the stream, which has no times, was heard",
        )
        app.painter.now()
        await pilot.pause()
        assert "in 31:20" in shown()


async def test_a_divided_job_shows_who_makes_what(make_app: MakeApp, fake: FakeSupervisor) -> None:
    row = next(each for each in fake.jobs if each["status"] == "in_progress")
    divide(row)
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("tab")
        pane = app.screen.query_one(JobPane)
        facts = "\n".join(pane.render_line(y).text for y in range(pane.size.height))
        assert "cpu-0 with box-2 and cpu-2" in facts
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.detail)

        def shown() -> str:
            return "\n".join(line.text for line in app.screen.document._shown.values())

        async def live(**more: Any) -> None:
            detail = app.context.model.detail
            fake.push("progress", {"jobs": [job_live(row, **more)]})
            await until(pilot, lambda: app.context.model.detail is not detail, "the stream was heard")
            app.painter.now()
            await pilot.pause()

        await until(pilot, lambda: "segments: cpu-0 from 40, box-2 84–95, cpu-2 96–107" in shown())
        await until(pilot, lambda: shown().count("█▸") == 9, "three workers are in each of three strips")
        await until(pilot, lambda: "on cpu-0 with box-2 and cpu-2" in shown())
        await live(division=row["division"] | {"ranges": row["division"]["ranges"][:1]})
        await until(pilot, lambda: "segments: cpu-0 from 40, box-2 84–95 " in shown())
        await live(division=None)
        await until(pilot, lambda: shown().count("█▸") == 3, "its own worker alone is in each strip")
        assert "segments:" not in shown()
        assert "·█" not in shown()


async def test_a_job_whose_qualities_are_not_reported_yet_keeps_those_that_are_known(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    row = next(each for each in fake.jobs if each["status"] == "in_progress")
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.detail)
        before = app.context.model.detail
        without = {key: value for key, value in job_live(row).items() if key != "renditions"}
        fake.push("progress", {"jobs": [without | {"step": "probe"}]})
        await until(pilot, lambda: app.context.model.detail is not before, "the stream was heard")
        assert app.context.model.detail["step"] == "probe"
        assert app.context.model.detail["renditions"] == before["renditions"]
        assert app.context.model.up


async def test_leaving_is_immediate(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await loaded(pilot)
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running or app._exit)
    assert app.return_code == 0


async def test_too_small_a_terminal_is_reported(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(59, 20)) as pilot:
        app = await loaded(pilot)
        assert app.screen.query_one("#too-small").display
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: not app.screen.query_one("#too-small").display)


async def test_too_small_a_terminal_takes_no_key_but_the_one_that_leaves(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await loaded(pilot)
        await pilot.resize_terminal(59, 14)
        await until(pilot, lambda: app.screen.query_one("#too-small").display)
        before = len(fake.sent)
        await pilot.press("j", "p", "x", "D", "P", "n", "t", "2", "enter", "question_mark", "colon", "ctrl+p")
        await pilot.pause()
        assert app.screen is app._views["queue"]
        assert app.screen.query_one(JobList).cursor == 0
        assert [call for call in fake.sent[before:] if call.method != "GET"] == []
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running or app._exit)


async def test_a_studio_on_another_machine_is_named_and_not_started(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    app = make_app(remote=lambda: "nas", backoff_s=(0.05,))
    async with app.run_test(size=(80, 24)) as pilot:
        await loaded(pilot)
        assert " tqstudio at nas ● up" in app.screen.query_one("#header").render_line(0).text
        fake.down = True
        fake.drop()
        await until(pilot, lambda: "no studio answers at nas" in notice_of(app))
        assert "start it" not in app.screen.query_one("#footer").render_line(0).text
        await pilot.press("S")
        await until(pilot, lambda: "on its own machine" in messages(app))


async def test_too_small_a_terminal_can_be_left_from_below_a_dialog(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await loaded(pilot)
        fake.down = True
        fake.drop()
        await until(pilot, lambda: notice_of(app), "something stands in the way")
        await pilot.press("question_mark")
        await pilot.resize_terminal(22, 8)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.query("#too-small"))
        shown = [widget for widget in app.screen.children if widget.display and widget.size.height]
        assert [widget.id for widget in shown] == ["too-small"]
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running or app._exit)


async def test_a_filter_outlasts_too_small_a_terminal(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("slash", "h")
        await pilot.resize_terminal(59, 14)
        await until(pilot, lambda: app.screen.query_one("#too-small").display)
        line = app.screen.query_one(FilterLine)
        assert not line.display
        await pilot.press("o")
        assert line.value == "h"
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: line.display and line.has_focus, "what was typed can be continued")
        await pilot.press("o")
        assert line.value == "ho"


async def test_a_view_that_was_not_shown_while_the_theme_changed_stays_live(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(100, 30)) as pilot:
        app = await loaded(pilot)
        await pilot.press("2", "1", "t", "t", "2")
        view = app.screen

        def cursor() -> list[str]:
            """What the terminal has got, which may differ from what the widgets would draw."""
            strips = view._compositor.render_strips()
            marked = app.context.glyphs.cursor
            return [strip.text for strip in strips if marked in strip.text]

        before = cursor()
        await pilot.press("j")
        await until(pilot, lambda: cursor() != before, "the cursor moves")


async def test_unknown_messages_are_passed_over(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app(backoff_s=(0.02,)).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        fake.push_anything("something new", {})
        fake.push_anything("progress", {"not": "understood"})
        await until(pilot, lambda: "cannot understand" in app.context.model.connection.reason)
        await until(pilot, lambda: app.context.model.up)
        fake.happened("create", 319)
        await until(pilot, lambda: app.context.model.last_seq == 907)


@pytest.mark.parametrize(("width", "sign"), [(80, "▲ 2 "), (160, "▲ 2 warnings ")])
async def test_a_job_with_warnings_reports_them(
    make_app: MakeApp, fake: FakeSupervisor, width: int, sign: str
) -> None:
    warnings = [
        {"code": "AUDIO_LEFT_OUT", "text": "1 audio track is left out: stream 2"},
        {"code": "CHAPTERS_LEFT_OUT", "text": "5 chapters are left out"},
    ]
    fake.jobs = [job_row(1, "film.mkv", "done", warnings=warnings)]
    async with make_app().run_test(size=(width, 24)) as pilot:
        app = await loaded(pilot)
        assert sum(sign in line for line in text_of(app)) == 1
        pane = app.screen.query_one("#pane", JobPane)
        assert any(
            "▲ 2 warnings: AUDIO_LEFT_OUT" in pane.render_line(y).text for y in range(pane.size.height)
        )
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.detail)
        app.painter.now()
        page = app.screen.query_one("#document", Document)
        shown = [page.render_line(y).text for y in range(page.size.height)]
        assert any("▲ CHAPTERS_LEFT_OUT: 5 chapters are left out" in line for line in shown)


@pytest.mark.slow
async def test_closed_job_pages_free_what_was_drawn(make_app: MakeApp) -> None:
    def strips() -> int:
        gc.collect()
        return sum(type(each) is Strip for each in gc.get_objects())

    async with make_app().run_test(size=(120, 40)) as pilot:
        app = await loaded(pilot)

        async def read_pages(count: int) -> int:
            for _ in range(count):
                await pilot.press("enter")
                await until(pilot, lambda: app.context.model.detail is not None, "the page shows the job")
                await pilot.press("escape")
            return strips()

        few = await read_pages(5)
        assert await read_pages(20) - few < 300, "one page is some 80 lines"


async def test_a_view_that_opens_may_be_painted_before_it_is_there(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        for view in ("workers", "folders", "history"):
            app._show(view)
            app.painter.now()
            await until(pilot, lambda: app.screen.is_mounted)


def shown(app: StudioApp) -> str:
    """The document on the screen."""
    return "\n".join(each.render_line(y).text for each in app.screen.query(Document) for y in range(45))


def stats_asked(sent: list[Call[Any]]) -> list[str]:
    return [call.params["by"] for call in sent if call.path == "/v1/stats"]


async def test_statistics_are_read_again_when_they_are_shown(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 45)) as pilot:
        app = await loaded(pilot)
        await pilot.press("5")
        await until(pilot, lambda: "By day" in shown(app), "the statistics are shown")
        assert "Last 30 days" in shown(app)
        asked = len(fake.sent)
        await pilot.press("escape")
        assert "By day" not in shown(app)
        await pilot.press("5")
        await until(pilot, lambda: stats_asked(fake.sent[asked:]) == ["hour", "day", "worker", "batch"])


async def test_why_there_are_no_statistics(
    make_app: MakeApp, fake: FakeSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        monkeypatch.setattr(fake, "down", True)
        await pilot.press("5")
        await until(pilot, lambda: "NO_SUPERVISOR" in shown(app), "the reason is shown")


async def test_the_status_does_not_wait_for_a_slow_list(make_app: MakeApp, fake: FakeSupervisor) -> None:
    fake.pages = asyncio.Semaphore(0)
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = pilot.app
        await until(pilot, lambda: "up 3d" in screen_text(app)[0], "the header is drawn")
        assert not app.context.model.jobs.loaded
        fake.pages.release()
        await loaded(pilot)

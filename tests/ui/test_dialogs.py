"""What is asked: a prefill gives way, a mistake is reported in place, limits are named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input, Label, OptionList
from textual.widgets.option_list import Option

from tqstudio import paths
from tqstudio.ui.screens.dialogs.ask_path import AskPath, pasted
from tqstudio.ui.screens.dialogs.dialogs import AskPriority, AskText, Caution, Confirm
from tqstudio.ui.screens.frame.text import TextLines
from tqstudio.ui.screens.help import HelpScreen
from tqstudio.ui.screens.job.screen import JobScreen
from tqstudio.ui.screens.job.source_facts import NAME_CELLS

from .conftest import MakeApp, loaded, messages, until
from .fake_supervisor import FakeSupervisor
from .samples import profile
from .test_queue import problem_of


def help_of(app: Any) -> list[str]:
    """The texts of the menu's lines."""
    options = app.screen.query_one(OptionList).options
    return [str(option.prompt) for option in options if isinstance(option, Option)]


def pane_of(app: Any, name: str = "#pane") -> str:
    pane = app.screen.query_one(name)
    return "\n".join(pane.render_line(y).text for y in range(pane.size.height))


async def test_a_studio_on_another_machine_gets_files_by_a_command(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TQSTUDIO_CONNECT", "nas")
    async with make_app(remote=lambda: "nas").run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("n")
        await until(pilot, lambda: "tqstudio --connect nas add FILE" in messages(app))
        assert not isinstance(app.screen, AskPath)
        await pilot.press("3", "n")
        await until(pilot, lambda: "drop folders are changed on the machine of nas" in messages(app))
        assert not isinstance(app.screen, AskPath)
        assert "add folder" not in pane_of(app, "#footer")


async def test_typing_replaces_the_prefill_and_an_error_keeps_the_dialog(
    make_app: MakeApp, fake: FakeSupervisor, tmp_path: Path
) -> None:
    video = tmp_path / "new.mp4"
    video.write_bytes(b"x")
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, AskPath))
        assert app.screen.query_one("#path", Input).value
        await pilot.press(*"~", "slash", *"nosuch", "full_stop", *"txt", "enter")
        await until(pilot, lambda: "there is no file or folder" in problem_of(app))
        assert problem_of(app).startswith("SOURCE_MISSING: ")
        assert problem_of(app).endswith(" – check the path")
        assert app.screen.query_one("#path", Input).value == "~/nosuch.txt"
        app.screen.query_one("#path", Input).value = str(video)
        app.screen.query_one("#output", Input).value = str(tmp_path / "out")
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, AskPath))
        assert "new.mp4: queued as job 400" in messages(app)
        body = [call.body for call in fake.sent if call.path == "/v1/videos"][-1]
        assert paths.decode((body or {})["output_b64"]) == bytes(tmp_path / "out")


@pytest.mark.parametrize(
    ("became", "expected"),
    [
        (
            {"decision": "cached", "job": 7, "master": "/srv/x/master.m3u8"},
            "new.mp4: its ladder is complete: /srv/x/master.m3u8",
        ),
        (
            {"decision": "waiting", "job": 7, "status": "paused"},
            "new.mp4: is paused as job 7; p on job 7 resumes it",
        ),
        (
            {"decision": "waiting", "job": 7, "status": "in_progress", "other_job": 9},
            "new.mp4: job 7 is already encoding it (job 9 encodes the same file for another output)",
        ),
        (
            {
                "decision": "waiting",
                "job": 7,
                "status": "pending",
                "applied": {"profile": "fast", "hold": True},
            },
            "new.mp4: waits in the queue as job 7; held; now with profile fast",
        ),
        ({"decision": "retried", "job": 7}, "new.mp4: job 7 requeued"),
        (
            {"decision": "changed", "reason": "ladder", "job": 7},
            "new.mp4: its ladder is incomplete; queued as job 7 to encode what is missing",
        ),
    ],
    ids=["cached", "paused", "running", "changed", "retried", "damaged"],
)
async def test_what_became_of_a_file_is_reported(
    became: dict[str, Any], expected: str, make_app: MakeApp, fake: FakeSupervisor, tmp_path: Path
) -> None:
    video = tmp_path / "new.mp4"
    video.write_bytes(b"x")
    fake.decisions["new.mp4"] = became
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, AskPath))
        app.screen.query_one("#path", Input).value = str(video)
        await pilot.press("enter")
        await until(pilot, lambda: expected in messages(app).split("\n"))


async def test_what_became_of_a_folder_is_summed_up(
    make_app: MakeApp, fake: FakeSupervisor, tmp_path: Path
) -> None:
    for name in ("a.mp4", "b.mp4", "c.mp4", "d.mp4"):
        (tmp_path / name).write_bytes(b"x")
    fake.decisions["b.mp4"] = {"decision": "cached", "job": 7, "master": "/srv/x/master.m3u8"}
    waits = {"decision": "waiting", "job": 8, "status": "pending", "applied": {"priority": 3}}
    fake.decisions["c.mp4"] = waits
    problem = {"code": "REFUSED", "message": "d.mp4 is being made", "hint": "wait for it"}
    fake.decisions["d.mp4"] = {"decision": "rejected", "job": None, "error": problem}
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, AskPath))
        app.screen.query_one("#path", Input).value = str(tmp_path)
        await pilot.press("enter")
        summed = "4 files: 1 queued, 1 already complete, 1 already in the queue, 1 refused"
        why = "1 now with priority 3; first error: REFUSED: d.mp4 is being made – wait for it"
        await until(pilot, lambda: f"{summed}; {why}" in messages(app))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/srv/a b.mp4", "/srv/a b.mp4"),
        ("'/srv/a b.mp4'", "/srv/a b.mp4"),
        ('"/srv/a b.mp4"', "/srv/a b.mp4"),
        (r"/srv/a\ b\(1\).mp4", "/srv/a b(1).mp4"),
        ("'/srv/it'\\''s.mp4'", "/srv/it's.mp4"),
        ("/srv/it's.mp4", "/srv/it's.mp4"),
        ("/srv/a\\ b c.mp4", "/srv/a\\ b c.mp4"),
        ("file:///srv/a%20b%C3%A9.mp4", "/srv/a bé.mp4"),
        ("file:///srv/caf%E9.mp4", "/srv/caf\udce9.mp4"),
        ("s3://films/vod", "s3://films/vod"),
    ],
)
def test_pasted_paths_may_be_quoted(text: str, path: str) -> None:
    assert pasted(text) == path


def test_a_name_with_quotes_is_taken_as_it_is(tmp_path: Path) -> None:
    video = tmp_path / "'new'.mp4"
    video.touch()
    assert pasted(str(video)) == str(video)


async def test_editing_the_path_takes_the_error_away(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, AskPath))
        await pilot.press(*"x", "enter")
        await until(pilot, lambda: problem_of(app))
        await pilot.press("y")
        await until(pilot, lambda: not problem_of(app))


async def test_the_defaults_are_shown(make_app: MakeApp, tmp_path: Path) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, AskPath))
        field = app.screen.query_one("#output", Input)
        await until(pilot, lambda: field.placeholder == str(tmp_path / "output"))
        await pilot.press("escape")
        (tmp_path / "config.toml").write_text('output = "/srv/site"\n')
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, AskPath))
        await until(pilot, lambda: app.screen.query_one("#output", Input).placeholder == "/srv/site")


async def test_a_broken_profile_is_left_out_and_reported(make_app: MakeApp, fake: FakeSupervisor) -> None:
    problem = {"code": "BAD_CONFIG", "message": "profile /p/mine.toml: no rungs", "hint": "add one"}
    fake.profiles.append(profile("mine", error=problem))
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, AskPath))
        field = app.screen.query_one("#profile", Input)
        await until(pilot, lambda: field.placeholder == "web; others: fast")
        text = str(app.screen.query_one(Caution).render())
        assert text == "invalid profile: BAD_CONFIG: profile /p/mine.toml: no rungs"


async def test_a_restart_says_that_finished_segments_go(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        asked = "\n".join(str(label.render()) for label in app.screen.query(Label))
        kept = sum(each["segments_done"] for each in app.context.model.jobs.rows[0]["renditions"])
        assert f"Lost: {kept} finished segments" in asked
        assert "requeue a stuck job instead, press p twice" in asked


async def test_a_priority_beyond_the_limits_is_refused(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("j", "j", "j", "equals_sign")
        await until(pilot, lambda: isinstance(app.screen, AskPriority))
        await pilot.press(*"5000", "enter")
        await until(pilot, lambda: "5000 is out of range: at most 1000" in problem_of(app))
        await pilot.press("end", "backspace", "enter")
        await until(pilot, lambda: fake.operations())
        assert fake.operations() == [{"operation": "priority", "ids": [322], "priority": 500}]


async def test_the_queue_is_paused_until_a_time(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("W")
        await until(pilot, lambda: isinstance(app.screen, AskText))
        await pilot.press(*"lunch", "enter")
        await until(pilot, lambda: "type a time such as 30m" in problem_of(app))
        await pilot.press("ctrl+u", *"2h", "enter")
        await until(pilot, lambda: app.context.model.paused, "it is paused")
        [gate] = fake.gates
        wait = datetime.fromisoformat(gate["until"]) - datetime.now(UTC)
        assert timedelta(minutes=100) < wait <= timedelta(hours=2)
        shown = f"{datetime.fromisoformat(gate['until']).astimezone():%m-%d %H:%M}"
        await until(pilot, lambda: f"queue paused until {shown}" in messages(app))
        await until(pilot, lambda: f"the queue is paused until {shown}" in pane_of(app, "#notice"))
        await pilot.press("P")
        await until(pilot, lambda: fake.gates == [], "P resumes it earlier")


async def test_toasts_do_not_pile_up(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24), notifications=True) as pilot:
        app = await loaded(pilot)
        for text in ("one", "two", "three"):
            app.toast(text)
            app.toast(f"problem {text}", problem=True)
        await until(pilot, lambda: messages(app).split("\n") == ["three", "problem three"])


async def test_a_failed_job_says_what_to_do_and_where_the_log_is(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    long = "upload-17.mp4 says it lasts 60 s and ends after 30 s, " * 3
    fake.job(316)["error"] |= {"message": f"{long}so it was cut off"}
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("G", "k", "k", "k")
        await until(pilot, lambda: "SOURCE_TRUNCATED" in pane_of(app))
        for text in ("so it was cut off", "→ copy the whole file again", "l log", "attempt-1.log"):
            assert text in pane_of(app)


@pytest.mark.parametrize(
    ("path", "shown", "copied"),
    [
        ("/srv/東京\u3000می\u200cخواهم.mp4".encode(), "東京\u3000می\u200cخواهم.mp4", None),
        ("/srv/é\n\x1b[31m.mp4".encode(), "é\\n\\x1b[31m.mp4", None),
        (b"/srv/caf\xe9.mp4", "caf\\xe9.mp4", "$'/srv/caf\\xe9.mp4'"),
    ],
)
async def test_a_path_is_shown_harmless_and_copied_as_it_is(
    make_app: MakeApp, fake: FakeSupervisor, path: bytes, shown: str, copied: str | None
) -> None:
    row = {"name": shown, "path": paths.data(path), "path_b64": paths.encode(path)}
    fake.job(327).update(row)
    fake.folders[0] |= {"path": paths.data(path), "path_b64": paths.encode(path)}
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("G", "k", "k", "k", "k")
        await until(pilot, lambda: f"/srv/{shown}" in pane_of(app))
        await pilot.press("y")
        assert app.clipboard == (copied or path.decode())
        await pilot.press("3")
        await until(pilot, lambda: f"/srv/{shown}" in pane_of(app, "#folders"))


async def test_a_held_and_a_done_job_say_what_can_be_done(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("G")
        await until(pilot, lambda: "mpv /srv/streams/holiday-2026/master.m3u8" in pane_of(app))
        assert "y copies the path" in pane_of(app)
        assert pane_of(app, "#footer").split()[:2] == ["y", "copy"]
        await pilot.press("y")
        assert app.clipboard == "/srv/streams/holiday-2026/master.m3u8"
        await pilot.press("k", "k", "k", "k")
        await until(pilot, lambda: "p starts it" in pane_of(app))
        assert "/srv/upload/archive-1998.avi" in pane_of(app)


@pytest.mark.parametrize(
    ("opened", "resized"), [((60, 15), (120, 40)), ((120, 40), (62, 40))], ids=["larger", "smaller"]
)
async def test_help_fits_the_terminal_whatever_its_size_was(
    opened: tuple[int, int], resized: tuple[int, int], make_app: MakeApp
) -> None:
    async with make_app().run_test(size=resized) as pilot:
        await loaded(pilot)
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen) and help_of(pilot.app))
        fresh = help_of(pilot.app)
        await pilot.resize_terminal(*opened)
        await until(pilot, lambda: help_of(pilot.app) != fresh)
        await pilot.resize_terminal(*resized)
        await until(pilot, lambda: help_of(pilot.app) == fresh)
    async with make_app().run_test(size=opened) as pilot:
        await loaded(pilot)
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen) and help_of(pilot.app))
        await pilot.resize_terminal(*resized)
        await until(pilot, lambda: help_of(pilot.app) == fresh, "as if it had been opened there")


async def test_long_facts_are_wrapped_beside_their_names(make_app: MakeApp, fake: FakeSupervisor) -> None:
    path = f"/srv/{'a long folder name/' * 6}the  end.mp4"
    fake.job(319)["path"] = path
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("i")
        await until(pilot, lambda: "/srv/" in pane_of(app, "#text"))
        lines = app.screen.query_one(TextLines).lines()
        first = next(at for at, line in enumerate(lines) if "/srv/" in line)
        assert lines[first].startswith("  path")
        assert all(line.startswith(" " * NAME_CELLS) for line in lines[first + 1 : first + 3])
        assert " ".join(line[NAME_CELLS:] for line in lines[first : first + 3]).endswith("end.mp4")


async def test_help_explains_signs_and_filter(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        await loaded(pilot)
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen) and help_of(pilot.app))
        explained = help_of(pilot.app)
        assert any(line.split() == ["✗", "failed"] for line in explained)
        assert "state:failed,paused" in "\n".join(explained)


async def test_the_log_of_an_earlier_attempt(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(120, 40)) as pilot:
        app = await loaded(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.detail)
        await pilot.press("tab", "l")

        def asked() -> list[dict[str, Any]]:
            """Without those for the end of the log on the job's page."""
            logs = [dict(call.params) for call in fake.sent if call.path.endswith("/log")]
            return [params for params in logs if "lines" not in params]

        await until(pilot, asked)
        assert asked()[0] == {"attempt": 1}

"""The log of a job: folded, searched, in colours, saved; the logs of its neighbours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tqstudio.ui.app import StudioApp
from tqstudio.ui.screens.job.log import LogScreen

from .conftest import MakeApp, loaded, messages, until
from .fake_supervisor import FakeSupervisor

LOG = """\
2026-11-21 11:55:00.106 job 319, attempt 1 (epoch 1): holiday-2026.mp4
2026-11-21 11:55:00.107 transcode: started
2026-11-21 11:55:00.108 [video] $ ffmpeg -nostdin -i file:holiday-2026.mp4 -c:v libx264 out.m3u8
[video] Input #0, mov,mp4, from 'file:holiday-2026.mp4':
[video]   Metadata:
[video]     major_brand     : isom
[video] Stream mapping:
[audio]   Stream #0:1 -> #0:0
[video] [h264 @ 0x55d] error while decoding MB 12 14
2026-11-21 11:56:00.100 warning: SOURCE_DAMAGED: the pictures are damaged at 00:12
[video] [hls @ 0x12] Opening '480p/frag_00001.m4s.tmp' for writing
[video] [hls @ 0x12] Opening '480p/frag_00002.m4s.tmp' for writing
[video] [hls @ 0x12] Opening '480p/frag_00003.m4s.tmp' for writing
2026-11-21 11:57:00.100 failed: ENCODER_EXIT: ffmpeg ended with status 187"""
FOLDED = """\
11:55:00.106 job 319, attempt 1 (epoch 1): holiday-2026.mp4
11:55:00.107 transcode: started
11:55:00.108 [video] $ ffmpeg …
[video] Input #0, mov,mp4, from 'file:holiday-2026.mp4': … 3 more lines
[audio]   Stream #0:1 -> #0:0
[video] [h264] error while decoding MB 12 14
11:56:00.100 warning: SOURCE_DAMAGED: the pictures are damaged at 00:12
[video] [hls] Opening '480p/frag_00001.m4s.tmp' for writing … 2 more lines
11:57:00.100 failed: ENCODER_EXIT: ffmpeg ended with status 187"""


@pytest.fixture(autouse=True)
def _logs(fake: FakeSupervisor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def log(number: int, attempt: int | None, _: int | None = None) -> Any:
        text = LOG if number == 319 else f"2026-11-21 11:00:00.000 job {number}"
        return {"job": number, "attempt": attempt or 1, "path": f"/logs/{number}.log", "text": text}

    monkeypatch.setattr(fake, "_log", log)
    monkeypatch.chdir(tmp_path)


async def opened(pilot: Pilot[None]) -> tuple[StudioApp, LogScreen]:
    app = await loaded(pilot)
    await pilot.press("l")
    await until(pilot, lambda: isinstance(app.screen, LogScreen) and app.screen._text.text != "reading…")
    assert isinstance(app.screen, LogScreen)
    return app, app.screen


def shown(screen: LogScreen) -> str:
    lines = screen._lines
    return "\n".join(lines.render_line(y).text.strip() for y in range(lines.size.height)).strip()


def here(screen: LogScreen) -> str:
    """The line that was jumped to."""
    assert screen._lines.at is not None
    return screen._lines.lines()[screen._lines.at]


async def test_what_is_long_and_seldom_read_is_folded(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(100, 30)) as pilot:
        _, screen = await opened(pilot)
        assert shown(screen) == FOLDED
        await pilot.press("enter")
        assert "libx264 out.m3u8" in shown(screen)
        assert shown(screen).count("Opening") == 3
        await pilot.press("enter")
        assert shown(screen) == FOLDED


async def test_long_lines_are_wrapped_or_cut(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(60, 30)) as pilot:
        _, screen = await opened(pilot)
        wrapped = screen._lines.count()
        assert "for writing … 2" in " ".join(shown(screen).split())
        await pilot.press("w")
        assert screen._lines.count() == len(FOLDED.splitlines()) < wrapped


async def test_search_goes_from_match_to_match(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(100, 15)) as pilot:
        app, screen = await opened(pilot)
        await pilot.press("n")
        assert "/ searches for a text first" in messages(app)
        await pilot.press("g", "slash", *"HOLIDAY", "enter")
        assert "job 319, attempt 1" in here(screen)
        await pilot.press("n")
        assert "Input #0" in here(screen)
        await pilot.press("n")
        assert "job 319, attempt 1" in here(screen), "around the end"
        await pilot.press("N")
        assert "Input #0" in here(screen)
        marked = [segment.text for segment in screen._lines.render_line(3) if segment.style.reverse]
        assert marked == ["holiday"]
        assert not screen._lines.follow
        await pilot.press("slash", *"zebra", "enter")
        await until(pilot, lambda: "nothing in this log matches" in messages(app))


async def test_the_errors(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(100, 30)) as pilot:
        app, screen = await opened(pilot)
        await pilot.press("g", "e")
        assert "error while decoding" in here(screen)
        await pilot.press("e")
        assert "ENCODER_EXIT" in here(screen)
        palette = app.context.palette
        styles = {
            line.split()[-1]: [
                segment.style for segment in screen._lines.render_line(y) if segment.text.strip()
            ]
            for y, line in enumerate(FOLDED.splitlines())
        }
        assert styles["14"][-1].color == styles["187"][-1].color == palette.error.color
        assert styles["00:12"][-1].color == palette.warning.color
        assert styles["started"][-1].bold
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "job 320" in shown(screen))
        await pilot.press("e")
        assert "no line of this log is about an error" in messages(app)


async def test_the_logs_of_the_neighbours(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(100, 30)) as pilot:
        app, screen = await opened(pilot)
        assert screen.tab_text()[1] == "log of job 319 – following"
        await pilot.press("left_square_bracket")
        assert "there is no job beside it" in messages(app)
        await pilot.press("right_square_bracket", "right_square_bracket")
        await until(pilot, lambda: "job 321" in shown(screen))
        while screen._job != fake.jobs[-1]["id"]:
            await pilot.press("right_square_bracket")
        assert screen.tab_text()[1] == f"log of job {fake.jobs[-1]['id']}", "what has ended is not followed"


async def test_it_is_saved_under_a_name_that_is_free(make_app: MakeApp, tmp_path: Path) -> None:
    async with make_app().run_test(size=(100, 30)) as pilot:
        app, screen = await opened(pilot)
        await pilot.press("s", "s")
        await until(pilot, lambda: "tqstudio-job-319-2.log" in messages(app))
        for name in ("tqstudio-job-319.log", "tqstudio-job-319-2.log"):
            assert (tmp_path / name).read_text() == LOG + "\n"
        # What is shown is the end of a long one.
        whole = tmp_path / "whole.log"
        whole.write_text("a beginning\n" + LOG)
        screen._copied = str(whole)
        await pilot.press("s")
        await until(pilot, lambda: "tqstudio-job-319-3.log" in messages(app))
        assert (tmp_path / "tqstudio-job-319-3.log").read_text() == whole.read_text()
        app.context.model.remote = "nas"
        await pilot.press("s")
        await until(pilot, lambda: "tqstudio-job-319-4.log" in messages(app))
        assert (tmp_path / "tqstudio-job-319-4.log").read_text() == LOG + "\n"

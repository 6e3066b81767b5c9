"""The wall: bands of segments in the colour of their machine; a read-only screen of it."""

from __future__ import annotations

from typing import Any

from textual.pilot import Pilot

from tqstudio.protocol import requests
from tqstudio.ui.actions.registry import READ_ONLY
from tqstudio.ui.app import StudioApp
from tqstudio.ui.screens.help import HelpScreen
from tqstudio.words.symbols import ASCII

from .conftest import MakeApp, loaded, messages, screen_text, until
from .fake_supervisor import FakeSupervisor
from .samples import wall_job, wall_quality
from .test_actions import footer
from .test_app import notice_of


def wall_text(app: StudioApp) -> list[str]:
    wall = app.screen.query_one("#wall")
    return [wall.render_line(y).text for y in range(wall.size.height)]


async def wall_shown(pilot: Pilot[None]) -> None:
    """Show the wall, and wait until it has been read."""
    app = await loaded(pilot)
    await pilot.press("w")
    await until(pilot, lambda: any("▸ " in line or "> " in line for line in wall_text(app)), "bands")


def strip_of(app: StudioApp, quality: str, at: int = 0) -> str:
    """The line of a quality in a band."""
    return [line for line in wall_text(app) if line.strip().startswith(quality)][at]


def colours_of(app: StudioApp, line: str) -> list[Any]:
    """The colours of the full segments in the line that has this text, in order, each once."""
    wall = app.screen.query_one("#wall")
    for y in range(wall.size.height):
        strip = wall.render_line(y)
        if strip.text.rstrip() == line.rstrip():
            found = [segment.style.color for segment in strip if segment.style and set(segment.text) == {"█"}]
            return list(dict.fromkeys(found))
    raise AssertionError(f"no line {line!r}")


async def test_each_segment_has_the_colour_of_its_machine(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(160, 50)) as pilot:
        await wall_shown(pilot)
        band = strip_of(app, "720p")
        assert len(colours_of(app, band)) == 4, "three machines, and what is of an unknown one"
        assert band.count("▸") >= 3, "each machine is at a segment"
        title = next(line for line in wall_text(app) if "holiday-2026.mp4" in line)
        for shown in ("A nas", "B mac-pro", "C gpu-box", "earlier", "62%", "left 4m", "done about"):
            assert shown in title
        assert "copied" in strip_of(app, "1080p")
        await pilot.press("w")
        assert app.screen.VIEW == "queue"


async def test_without_colours_segments_are_letters(make_app: MakeApp) -> None:
    app = make_app(glyphs=ASCII)
    async with app.run_test(size=(160, 50)) as pilot:
        await wall_shown(pilot)
        band = strip_of(app, "720p")
        order = [band.index(letter) for letter in ("?", "A", "B", "C")]
        assert order == sorted(order)
        assert "A nas" in "\n".join(wall_text(app))


async def test_more_jobs_than_fit_are_counted(make_app: MakeApp, fake: FakeSupervisor) -> None:
    quality = wall_quality("480p", [(0, 5), (None, 5)], front=[(5, 0)])
    fake.wall["jobs"] = [wall_job(number, f"film-{number}.mp4", [quality], 50.0) for number in range(1, 13)]
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await wall_shown(pilot)
        shown = sum("film-" in line for line in wall_text(app))
        assert 4 <= shown <= 6
        assert f"{12 - shown} more jobs running" in "\n".join(wall_text(app))


async def test_no_key_of_a_read_only_screen_changes_anything(make_app: MakeApp, fake: FakeSupervisor) -> None:
    app = make_app(view="wall", read_only=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.3)
        await pilot.press("P", "1", "x", "escape")
        assert app.screen.VIEW == "wall"
        assert not [call for call in fake.sent if call.method != "GET"]
        assert app.context.remembered.get("view") is None
        await pilot.press("ctrl+p")
        await until(pilot, lambda: "this screen is read-only" in messages(app))
        assert app.screen.VIEW == "wall"
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        assert {line.does[0] for line in app.screen._lines if line.does} == READ_ONLY
        await pilot.press("q")
    assert not app.is_running


async def test_a_read_only_screen_offers_only_what_works(make_app: MakeApp, fake: FakeSupervisor) -> None:
    fake._pause(requests.QueuePause())
    app = make_app(view="wall", read_only=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await loaded(pilot)
        assert footer(app).split() == ["?", "help", "q", "quit"]
        assert "Queue" not in "\n".join(screen_text(app)[:3])
        assert notice_of(app).strip().endswith("the queue is paused")
        fake.down = True
        fake.drop()
        await until(pilot, lambda: "ctrl+r" in footer(app))
        assert footer(app).split() == ["ctrl+r", "try", "now", "?", "help", "q", "quit"]
        assert "S starts" not in notice_of(app)

"""Without a supervisor: what was true is shown as such, and one key helps."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import psutil
import pytest

from tqstudio.home import Home
from tqstudio.protocol.client import AsyncClient
from tqstudio.ui.app import StudioApp
from tqstudio.ui.data.feed import BACKOFF_S, MAX_MISSED_EVENTS, Feed
from tqstudio.ui.data.model import Link, Model

from .conftest import MakeApp, loaded, until
from .fake_supervisor import FakeSupervisor
from .samples import NOW, missing_folder
from .test_app import notice_of
from .test_queue import text_of


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.at = NOW

    def __call__(self) -> datetime:
        return self.at

    def move(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


def line_of(app: StudioApp, name: str) -> str:
    return str(app.screen.query_one(f"#{name}").render_line(0).text)


async def test_ages_tick_and_nothing_else_is_drawn(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    async with make_app(now=clock).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        before = text_of(app)
        jobs = app.screen.query_one("#jobs")
        drawn: list[object] = []
        monkeypatch.setattr(jobs, "refresh", lambda *regions, **_: drawn.extend(regions))
        app.painter.soon()
        await pilot.pause(0.3)
        assert not drawn
        clock.move(7)
        app.painter.soon()
        await until(pilot, lambda: drawn, "the countdown is drawn")
        (region,) = drawn
        assert (region.width, region.height) == (2, 1)  # type: ignore[attr-defined]
        changed = [(a, b) for a, b in zip(before, text_of(app), strict=True) if a != b]
        assert len(changed) == 1
        assert "retry 40s" in changed[0][0]
        assert "retry 33s" in changed[0][1]


async def test_a_supervisor_that_is_silent_needs_no_other_one(
    make_app: MakeApp, fake: FakeSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StudioApp, "_listening", lambda _: True)
    async with make_app(backoff_s=(0.05,)).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        fake.down = True
        fake.drop()
        await until(pilot, lambda: app.context.model.connection.unresponsive)
        await until(pilot, lambda: "does not answer" in notice_of(app))
        assert line_of(app, "footer").split()[:3] == ["ctrl+r", "try", "now"]


async def test_what_may_be_true_no_more_does_not_look_live(make_app: MakeApp, fake: FakeSupervisor) -> None:
    clock = Clock()
    async with make_app(now=clock, backoff_s=(0.05,)).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        fake.down = True
        fake.drop()
        await until(pilot, lambda: app.context.model.connection.link is Link.LOST)
        clock.move(42)
        app.painter.now()
        await pilot.pause()
        assert app.context.palette is not app.context.vivid
        assert "no answer, last seen 42s ago" in line_of(app, "header")
        assert "no supervisor is running, last seen 42s ago – S starts one" in notice_of(app)
        assert line_of(app, "footer").split()[:3] == ["S", "start", "it"]
        holiday = next(line for line in text_of(app) if "holiday" in line)
        assert "running?" in holiday
        assert "03:40" not in holiday
        fake.down = False
        await until(pilot, lambda: app.context.model.up)
        app.painter.now()
        await pilot.pause()
        assert app.context.palette is app.context.vivid
        assert any("▸ running" in line for line in text_of(app))


async def test_a_stream_that_is_cut_is_taken_up_without_a_word(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    """A terminal that stood still for minutes is cut off by a supervisor that lives."""
    async with make_app(backoff_s=(0.0,)).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        links: list[Link] = []
        feed_changed = app.context.feed._changed
        app.context.feed._changed = lambda: (links.append(app.context.model.connection.link), feed_changed())
        attached = len(fake.asked_after)
        fake.drop()
        await until(pilot, lambda: len(fake.asked_after) > attached, "it is attached again")
        assert set(links) == {Link.UP}
        assert fake.asked_after[-1] == app.context.model.last_seq


async def test_who_missed_thousands_of_events_reads_the_newest(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    async with make_app(backoff_s=(0.05,)).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        pattern = fake.events[-1]
        fake.events += [pattern | {"seq": pattern["seq"] + more} for more in range(1, MAX_MISSED_EVENTS + 2)]
        fake.drop()
        await until(pilot, lambda: app.context.model.last_seq == fake.events[-1]["seq"], "it has the newest")
        assert fake.asked_after[-1] == fake.events[-1]["seq"]
        assert len(app.context.model.events) == 200


def test_it_is_looked_for_every_three_seconds() -> None:
    assert max(BACKOFF_S) <= 3


async def test_a_start_is_waited_for_before_silence_is_reported(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    fake.down = True
    opened: list[FakeSupervisor] = []

    def connect() -> FakeSupervisor:
        opened.append(fake)
        return fake

    async with make_app(client_factory=connect, start_timeout_s=60.0).run_test(size=(80, 24)) as pilot:
        app = pilot.app
        assert isinstance(app, StudioApp)
        await until(pilot, lambda: len(opened) > 2, "it is looked for again and again")
        app.painter.now()
        await pilot.pause()
        assert "connecting" in line_of(app, "header")
        assert not notice_of(app)
        fake.down = False
        await until(pilot, lambda: app.context.model.up)


async def test_a_key_starts_a_supervisor(make_app: MakeApp, tmp_path: Path) -> None:
    """A real one, in a home of its own."""
    home = Home(tmp_path / "h")
    app = make_app(home=home, client_factory=lambda: AsyncClient(home.socket), backoff_s=(0.1,))
    before = set(psutil.Process().children())
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "S starts one" in notice_of(app))
        await pilot.press("S")
        try:
            await until(pilot, lambda: app.context.model.up, "it answers", looks=6000)
        finally:
            for supervisor in set(psutil.Process().children()) - before:
                supervisor.terminate()
                await asyncio.to_thread(supervisor.wait, 60)


async def test_a_missing_folder_is_reported_in_every_view(make_app: MakeApp, fake: FakeSupervisor) -> None:
    fake.folders.append(missing_folder())
    async with make_app().run_test(size=(120, 30)) as pilot:
        app = await loaded(pilot)
        for key in "1234":
            await pilot.press(key)
            await until(pilot, lambda: "/mnt/usb is gone" in notice_of(app), "the notice is there")
            assert "Folders ✗1" in line_of(app, "tabs")
        await pilot.press("1", "escape")
        await until(pilot, lambda: not notice_of(app), "it can be put aside")
        assert "Folders ✗1" in line_of(app, "tabs")


async def test_the_feed_ends_whenever_it_is_cancelled(fake: FakeSupervisor) -> None:
    fake.down = True
    for steps in range(60):
        feed = Feed(
            Model(lambda: NOW),
            lambda: fake,
            changed=lambda: None,
            anchor=lambda: (None, False),
            listening=lambda: False,
        )
        running = asyncio.create_task(feed.run())
        for _ in range(steps % 12):
            await asyncio.sleep(0)
        running.cancel()
        done, _ = await asyncio.wait([running], timeout=20)
        assert done, f"cancelled after {steps % 12} steps"

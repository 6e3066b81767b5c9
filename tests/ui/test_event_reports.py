"""Failures, a blocked queue and an empty one are reported in any view."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from tqstudio.ui.app import StudioApp

from .conftest import MakeApp, loaded, messages, until
from .fake_supervisor import FakeSupervisor
from .test_queue import current


@pytest.fixture
def bells(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    rung: list[None] = []
    monkeypatch.setattr(StudioApp, "bell", lambda _: rung.append(None))
    return rung


async def opened(pilot: Pilot[None]) -> StudioApp:
    app = await loaded(pilot)
    await pilot.press("2")
    return app


def fails(fake: FakeSupervisor, *jobs: int) -> None:
    for job in jobs:
        row = fake.job(job)
        row |= {"status": "failed", "word": "failed"}
        fake.happened("fail_final", job, source="in_progress", target="failed", code="ENCODER_EXIT")


async def test_failures_of_a_moment_share_a_report(
    make_app: MakeApp, fake: FakeSupervisor, bells: list[None]
) -> None:
    async with make_app().run_test(size=(100, 24)) as pilot:
        app = await opened(pilot)
        await pilot.press("exclamation_mark")
        assert "no job has failed since" in messages(app)
        fails(fake, 319)
        await until(pilot, lambda: "holiday-2026.mp4 failed: ENCODER_EXIT – ! shows it" in messages(app))
        assert len(bells) == 1
        fails(fake, 320, 321)
        await until(pilot, lambda: "cam1/2026-11-20.ts and 1 other failed" in messages(app))
        assert len(bells) == 2
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: app.painter.full_screens()[0].VIEW == "queue" and current(app) == 321)


@pytest.mark.usefixtures("bells")
async def test_a_queue_that_is_blocked_or_empty(
    make_app: MakeApp, fake: FakeSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tqstudio.ui.event_reports._EMPTY_S", 0.01)
    async with make_app().run_test(size=(100, 24)) as pilot:
        app = await opened(pilot)
        fake.happened("gate_closed", None, actor="user", detail="lunch")
        fake.happened("gate_closed", None, actor="supervisor", detail="the disk of /srv is full")
        await until(pilot, lambda: "the queue is blocked: the disk of /srv is full" in messages(app))
        assert "lunch" not in messages(app)
        for row in fake.jobs:
            row |= {"status": "done", "word": "done"}
        fake.happened("complete", 319, source="in_progress", target="done")
        app.context.feed.refresh_soon()

        def is_empty() -> bool:
            status = app.context.model.status
            return status is not None and not status["jobs"].get("pending")

        await until(pilot, is_empty, "the counts have been read")
        fake.happened("complete", 320, source="in_progress", target="done")
        await until(pilot, lambda: "the queue is empty" in messages(app))


async def test_reports_are_turned_off_for_good(
    make_app: MakeApp, fake: FakeSupervisor, bells: list[None], tmp_path: Path
) -> None:
    async with make_app().run_test(size=(100, 24)) as pilot:
        app = await opened(pilot)
        await pilot.press("b")
        assert "not reported any more" in messages(app)
        fails(fake, 319)
        await until(pilot, lambda: app.reported_job == 319)
        assert not bells
        assert "failed:" not in messages(app)
    assert '"reports": "off"' in (tmp_path / "ui.json").read_text()
    async with make_app().run_test(size=(100, 24)) as pilot:
        app = await loaded(pilot)
        assert not app.event_reports.on
        await pilot.press("b")
        assert app.event_reports.on

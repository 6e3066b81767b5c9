"""The workers as cards, where all of them fit, else as lines."""

from __future__ import annotations

from tqstudio.ui.app import StudioApp

from .conftest import MakeApp, loaded, until
from .fake_supervisor import FakeSupervisor
from .samples import worker


def lines_of(app: StudioApp) -> list[str]:
    view = app.screen.query_one("#workers")
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


def card(app: StudioApp, name: str) -> str:
    """The lines of a worker's card: up to the next empty line."""
    lines = lines_of(app)
    first = next(at for at, line in enumerate(lines) if name in line[:12])
    end = next((at for at in range(first, len(lines)) if not lines[at]), len(lines))
    return "\n".join(lines[first:end])


async def test_a_card_has_the_job_its_bar_and_what_was_done_today(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    fake.workers[0] |= {"status": "busy", "job": 319, "step": "transcode", "cpu_percent": 187.0}
    app = make_app(view="workers")
    async with app.run_test(size=(160, 50)) as pilot:
        await until(pilot, lambda: "holiday-2026.mp4" in "\n".join(lines_of(app)), "the job is read")
        await until(pilot, lambda: "of video" in card(app, fake.workers[0]["name"]), "today is read")
        shown = card(app, fake.workers[0]["name"])
        for part in ("busy", "319", "62%", "left 4m", "cpu 187%", "2.9×", "of video"):
            assert part in shown, part
        assert any(block in shown for block in "▂▃▄▅▆▇"), "the course of the speed"


async def test_a_worker_that_is_off_says_why_and_which_key_helps(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    fake.workers[:] = [
        worker("cpu-0", "idle", job=None, step=None, speed=None),
        worker(
            "gpu-0",
            "disabled",
            enabled=False,
            job=None,
            step=None,
            speed=None,
            quarantine="3 jobs in a row failed",
        ),
    ]
    app = make_app(view="workers")
    async with app.run_test(size=(100, 40)) as pilot:
        await until(pilot, lambda: app.context.model.up and "gpu-0" in "\n".join(lines_of(app)), "read")
        assert "waits for a job" in card(app, "cpu-0")
        assert "3 jobs in a row failed" in card(app, "gpu-0")
        assert "e lets it take jobs" in card(app, "gpu-0")


async def test_many_workers_are_lines(make_app: MakeApp, fake: FakeSupervisor) -> None:
    fake.workers[:] = [worker(f"box-{at}", "idle", job=None, step=None, speed=None) for at in range(20)]
    app = make_app(view="workers")
    async with app.run_test(size=(80, 24)) as pilot:
        await loaded(pilot)
        await until(pilot, lambda: "box-9" in "\n".join(lines_of(app)), "read")
        assert "worker" in lines_of(app)[0], "the head of the columns"
        await pilot.press("G")
        assert "box-19" in "\n".join(lines_of(app))

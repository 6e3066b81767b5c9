"""The workers as cards, where all of them fit, else as lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual.widgets import Label

from tqstudio.ui.app import StudioApp
from tqstudio.ui.screens.dialogs.add_worker import AddWorker
from tqstudio.ui.screens.dialogs.dialogs import Confirm

from .conftest import MakeApp, loaded, messages, until
from .fake_supervisor import FakeSupervisor
from .samples import worker


def lines_of(app: StudioApp) -> list[str]:
    view = app.screen.query_one("#workers")
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


def selected(app: StudioApp) -> Any:
    return app.screen.selected()["name"]  # type: ignore[attr-defined]


def labels(app: StudioApp) -> str:
    return "\n".join(str(label.content) for label in app.screen.query(Label))


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


async def test_a_worker_is_added_here(make_app: MakeApp) -> None:
    app = make_app(view="workers")
    async with app.run_test(size=(80, 24)) as pilot:
        await loaded(pilot)
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, AddWorker))
        assert (
            "one more CPU worker, until the supervisor ends; workers = 3 in config.toml keeps it"
            in labels(app)
        )
        await until(pilot, lambda: "need the setting listen" in labels(app))
        assert app.screen.query_one("#copy").disabled
        await pilot.press("enter")
        await until(pilot, lambda: "cpu-2 starts, and ends with the supervisor" in messages(app))
        assert "cpu-2" in "\n".join(lines_of(app))


async def test_the_command_for_another_machine_is_copied(make_app: MakeApp, tmp_path: Path) -> None:
    text = 'listen = "0.0.0.0:8750"\nhosts = "nas.example"\n'
    text += 'tls_cert = "/etc/nas.pem"\ntls_key = "/etc/key.pem"\n'
    (tmp_path / "config.toml").write_text(text)
    app = make_app(view="workers")
    async with app.run_test(size=(80, 24)) as pilot:
        await loaded(pilot)
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, AddWorker))
        await until(pilot, lambda: not app.screen.query_one("#copy").disabled)
        await pilot.press("right", "enter")
        await until(pilot, lambda: "command copied" in messages(app))
        reached = "--connect https://nas.example:8750 --token-file fleet.token --ca nas.pem"
        assert app.clipboard == f"tqstudio {reached} worker run"


async def test_removing_a_worker_asks_only_when_something_is_interrupted(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    idle = worker("cpu-0", "idle", job=None, step=None, speed=None)
    fake.workers[:] = [idle, worker("cpu-1", "busy", job=319), worker("gpu-0", "idle", kind="gpu", job=None)]
    app = make_app(view="workers")
    async with app.run_test(size=(80, 24)) as pilot:
        await loaded(pilot)
        await pilot.press("D")
        await until(pilot, lambda: "cpu-0 is removed" in messages(app))
        await until(pilot, lambda: selected(app) == "cpu-1")
        await pilot.press("D")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert "Job 319 is requeued" in labels(app)
        await pilot.press("escape")
        assert [each["name"] for each in fake.workers] == ["cpu-1", "gpu-0"]
        await pilot.press("D")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: "cpu-1 is removed; job 319 is requeued" in messages(app))
        await until(pilot, lambda: selected(app) == "gpu-0")
        await pilot.press("D")
        await until(pilot, lambda: "belongs to a GPU of this machine" in messages(app))


async def test_a_worker_of_another_machine_loses_its_token(make_app: MakeApp, fake: FakeSupervisor) -> None:
    fake.workers[:] = [worker("attic", "idle", type="remote", job=None)]
    app = make_app(view="workers")
    async with app.run_test(size=(80, 24)) as pilot:
        await loaded(pilot)
        await pilot.press("D")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert "Its token is revoked" in labels(app)

"""Every key of jobs on every state, against a real supervisor: it is done, or the screen says why not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from harness import LiveSupervisor
from tqstudio.lifecycle import Operation
from tqstudio.protocol.client import AsyncClient
from tqstudio.ui.actions.registry import ACTIONS, JOBS, Action, obstacle
from tqstudio.ui.app import StudioApp
from tqstudio.ui.data.target import Target
from tqstudio.ui.screens.dialogs.change import ChangeJobs
from tqstudio.ui.screens.dialogs.dialogs import Confirm, Dialog
from tqstudio.ui.screens.job.screen import JobScreen

from .conftest import MakeApp, loaded, messages, until
from .sides import Real
from .test_conformance import STATES, live  # noqa: F401

KEYS = [action for action in ACTIONS if action.operation is not None and set(JOBS) <= set(action.views)]
SHOWN = ("status", "control", "priority")


@asynccontextmanager
async def page(make_app: MakeApp, job: int, socket: Path) -> AsyncIterator[Pilot[None]]:
    """The page of a job, once it is read."""
    app = make_app(client_factory=lambda: AsyncClient(socket))
    async with app.run_test(size=(120, 40)) as pilot:
        await loaded(pilot)
        screen = JobScreen(app.context, job)
        app.push_screen(screen)
        await until(pilot, lambda: screen.detail is not None, "the page is read")
        yield pilot


async def _press(pilot: Pilot[None], action: Action) -> None:
    """Press the key of an action, and accept what is asked."""
    app = pilot.app
    await pilot.press(action.keys[0])
    if isinstance(app.screen, ChangeJobs):
        app.screen.query_one("#priority", Input).value = "7"
        await pilot.press("enter")
    elif isinstance(app.screen, Confirm):
        await pilot.press("y")
    elif isinstance(app.screen, Dialog):
        await pilot.press("enter")


async def _facts(real: Real, job: int) -> Any:
    """What an operation on a job may change: its state, or that it is deleted, or that there is a new job."""
    state = await real.state_of(job)
    newest = (await real.events(0))[-1:]
    return {key: state[key] for key in (*SHOWN, "deleted_at")}, newest


def _says(app: StudioApp, why: str) -> bool:
    return why in messages(app)


async def _until_changed(pilot: Pilot[None], real: Real, job: int, before: Any) -> None:
    for _ in range(500):
        if await _facts(real, job) != before:
            return
        await pilot.pause(0.01)
    raise AssertionError("nothing changes")


async def _end(real: Real, job: int) -> None:
    """End a job and delete it, so that it is not claimed instead of the next one."""
    await real.act("cancel", job)
    if job in real.running:
        real.obey(job)
    await real.act("delete", job)


@pytest.mark.parametrize(
    "state",
    [
        state if state in ("pending", "running", "done") else pytest.param(state, marks=pytest.mark.slow)
        for state in STATES
    ],
)
async def test_a_key_acts_or_says_why_not(
    state: str,
    live: LiveSupervisor,  # noqa: F811
    make_app: MakeApp,
    tmp_path: Path,
) -> None:
    real = Real(live, tmp_path)
    assert {action.operation for action in KEYS} >= set(Operation) - {
        Operation.RESUME,
        Operation.UNDELETE,
        Operation.RETRANSCODE,
    }
    try:
        for number, action in enumerate(KEYS):
            job = await real.make(state, f"clip-{number}.mp4")
            async with page(make_app, job, live.home.socket) as pilot:
                app = pilot.app
                assert isinstance(app, StudioApp)
                assert isinstance(app.screen, JobScreen)
                assert app.screen.detail is not None
                targets = [Target.of(app.screen.detail)]
                why = obstacle(action, targets)
                before = await _facts(real, job)
                await _press(pilot, action)
                if why:
                    await until(pilot, partial(_says, app, why), why)
                    assert await _facts(real, job) == before, f"{action.name} on {state}"
                else:
                    await _until_changed(pilot, real, job, before)
            await _end(real, job)
    finally:
        await real.clear()

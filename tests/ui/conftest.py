"""The UI in a headless terminal, on a frozen clock, with a supervisor in memory."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot

from tqstudio.home import Home
from tqstudio.ui.app import StudioApp
from tqstudio.words.symbols import UNICODE

from .fake_supervisor import FakeSupervisor
from .samples import NOW

MakeApp = Callable[..., StudioApp]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run coroutine tests, each in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(autouse=True)
def _still(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TQSTUDIO_ASCII", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setattr("textual.constants.TEXTUAL_ANIMATIONS", "none", raising=False)


@pytest.fixture(autouse=True)
def _effective(monkeypatch: pytest.MonkeyPatch) -> None:
    """A press is over when the keys have had their effect, unless a test keeps an answer back."""
    press = Pilot.press

    async def press_and_wait(pilot: Pilot[None], *keys: str) -> None:
        await press(pilot, *keys)
        for _ in range(20):
            if not isinstance(pilot.app, StudioApp) or pilot.app._keys.idle:
                return
            await pilot.pause(0.01)

    monkeypatch.setattr(Pilot, "press", press_and_wait)


@pytest.fixture
def fake() -> FakeSupervisor:
    return FakeSupervisor()


@pytest.fixture
def make_app(fake: FakeSupervisor, tmp_path: Path) -> MakeApp:
    def make(**more: Any) -> StudioApp:
        options = {"home": Home(tmp_path), "now": lambda: NOW, "glyphs": UNICODE, "theme": "ink"}
        options |= {"start_timeout_s": 0.0} | more
        return StudioApp(options.pop("client_factory", lambda: fake), **options)

    return make


async def until(
    pilot: Pilot[None], condition: Callable[[], object], what: str = "", *, looks: int = 3000
) -> None:
    """Wait for a condition, message by message; with more looks where processes have to start or end."""
    for _ in range(looks):
        if condition():
            await pilot.pause()
            return
        await pilot.pause(0.01)
    raise AssertionError(f"never came true: {what or condition}")


async def loaded(pilot: Pilot[None]) -> StudioApp:
    """The app once it shows the queue and follows the stream."""
    app = pilot.app
    assert isinstance(app, StudioApp)
    await until(pilot, lambda: app.context.model.up and app.context.model.jobs.loaded, "the queue is loaded")
    app.painter.now()
    await pilot.pause()
    return app


def messages(app: StudioApp) -> str:
    """The toasts that are shown."""
    return "\n".join(note.message for note in app._notifications)


def screen_text(app: App[Any]) -> list[str]:
    """The lines of the whole screen as they are composed."""
    return ["".join(segment.text for segment in line) for line in app.screen._compositor.render_strips()]

"""A terminal without Unicode gets none, dialogs included."""

from __future__ import annotations

import pytest
from textual.geometry import Region
from textual.widgets._toast import Toast

from tqstudio.ui.screens.frame.base import StudioScreen
from tqstudio.words.symbols import ASCII

from .conftest import MakeApp, loaded, until


@pytest.mark.parametrize("keys", ["R", "question_mark", "n", "j j j equals_sign", "G e", "ctrl+p"])
async def test_dialogs(keys: str, make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    async with make_app(glyphs=ASCII).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press(*keys.split())
        dialog = app.screen
        assert not isinstance(dialog, StudioScreen)

        def lines() -> list[str]:
            return [strip.text for strip in dialog._compositor.render_strips()]

        if keys == "ctrl+p":
            await until(pilot, lambda: "cancel  (x)" in "".join(lines()), "the actions are listed")
        await until(pilot, lambda: all(line.isascii() for line in lines()), "all is ASCII")


@pytest.mark.parametrize("problem", [False, True])
async def test_toasts(problem: bool, make_app: MakeApp) -> None:
    async with make_app(glyphs=ASCII).run_test(size=(80, 24), notifications=True) as pilot:
        app = await loaded(pilot)
        app.toast("a remark", problem=problem)
        await until(pilot, lambda: app.screen.query(Toast))
        toast = app.screen.query_one(Toast)
        text = "".join(strip.text for strip in toast.render_lines(Region(0, 0, *toast.outer_size)))
        assert "a remark" in text
        assert text.isascii(), text

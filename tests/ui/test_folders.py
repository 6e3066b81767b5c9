"""Folders: their rules in a dialog with a preview, and the dialog that adds one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input, Select

from tqstudio import paths
from tqstudio.protocol.calls import Call
from tqstudio.ui.app import StudioApp
from tqstudio.ui.screens.dialogs.ask_folder import AskFolder
from tqstudio.ui.screens.dialogs.ask_path import AskPath
from tqstudio.ui.screens.dialogs.dialogs import Tick
from tqstudio.ui.screens.dialogs.folder_preview import FolderContent, words_of
from tqstudio.ui.screens.dialogs.folder_rules import EditFolder, _globs, _typed_globs

from .conftest import MakeApp, loaded, messages, until
from .fake_supervisor import FakeSupervisor
from .samples import sample_preview
from .test_queue import problem_of


async def rules_of_the_first(pilot: Pilot[None], fake: FakeSupervisor, path: Path) -> StudioApp:
    """Open the dialog of a folder that is there."""
    fake.folders[0] |= {"path": str(path), "path_b64": paths.encode(str(path))}
    app = await loaded(pilot)
    await until(pilot, lambda: app.context.model.folders is not None)
    await pilot.press("r")
    await until(pilot, lambda: isinstance(app.screen, EditFolder))
    return app


def content_of(app: StudioApp) -> str:
    return str(app.screen.query_one(FolderContent).content)


def previews(fake: FakeSupervisor) -> list[Call[Any]]:
    return [call for call in fake.sent if call.path == "/v1/folders/preview"]


def typed(app: StudioApp, field: str) -> Input:
    return app.screen.query_one(field, Input)


async def test_changed_rules_are_saved_together(
    make_app: MakeApp, fake: FakeSupervisor, tmp_path: Path
) -> None:
    async with make_app(view="folders").run_test(size=(80, 24)) as pilot:
        app = await rules_of_the_first(pilot, fake, tmp_path)
        await pilot.press(*"*.mkv", "space", *"cam1/")
        typed(app, "#hours").value = "22:00-06:00"
        app.screen.query_one(Tick).value = False
        app.screen.query_one("#after_done", Select).value = "delete"
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, EditFolder))
        (sent,) = [call for call in fake.sent if call.method == "PATCH"]
        assert sent.body == {
            "recursive": False,
            "patterns": ["*.mkv", "cam1/"],
            "hours": "22:00-06:00",
            "after_done": "delete",
        }
        await until(pilot, lambda: "z undoes it" in messages(app))


async def test_nothing_changed_sends_nothing(make_app: MakeApp, fake: FakeSupervisor, tmp_path: Path) -> None:
    async with make_app(view="folders").run_test(size=(80, 24)) as pilot:
        app = await rules_of_the_first(pilot, fake, tmp_path)
        await pilot.press("enter")
        await until(pilot, lambda: "no rule was changed" in messages(app))
        assert not [call for call in fake.sent if call.method == "PATCH"]


async def test_a_refusal_keeps_what_was_typed(
    make_app: MakeApp, fake: FakeSupervisor, tmp_path: Path
) -> None:
    async with make_app(view="folders").run_test(size=(80, 24)) as pilot:
        app = await rules_of_the_first(pilot, fake, tmp_path)
        typed(app, "#priority").value = "soon"
        await pilot.press(*"*.mkv", "enter")
        await until(pilot, lambda: "priority: 'soon' is not a whole number" in problem_of(app))
        typed(app, "#priority").value = "5"
        await until(pilot, lambda: not problem_of(app), "the sentence leaves with its cause")
        typed(app, "#hours").value = "lunch"
        await pilot.press("enter")
        await until(pilot, lambda: "hours" in problem_of(app))
        assert (typed(app, "#patterns").value, typed(app, "#priority").value) == ("*.mkv", "5")
        assert fake.folders[0]["patterns"] == []


async def test_choices_open_with_space_and_enter_saves_when_they_are_closed(
    make_app: MakeApp, fake: FakeSupervisor, tmp_path: Path
) -> None:
    async with make_app(view="folders").run_test(size=(80, 24)) as pilot:
        app = await rules_of_the_first(pilot, fake, tmp_path)
        profile = app.screen.query_one("#profile", Select)
        await until(pilot, lambda: len(profile._options) == 2, "the profiles are named")
        profile.focus()
        await pilot.press("space")
        await until(pilot, lambda: profile.expanded)
        await pilot.press("up", "enter")
        await until(pilot, lambda: profile.value == "fast" and not profile.expanded)
        await pilot.press("enter")
        await until(pilot, lambda: fake.folders[0]["profile"] == "fast")


async def test_the_preview_asks_once_for_what_is_typed_in_one_go(
    make_app: MakeApp, fake: FakeSupervisor, tmp_path: Path
) -> None:
    async with make_app(view="folders").run_test(size=(80, 24)) as pilot:
        app = await rules_of_the_first(pilot, fake, tmp_path)
        shown = "29 videos, 3 h 10 min; 2 left out: notes.txt (no video), old/ (excluded)"
        await until(pilot, lambda: content_of(app) == shown)
        before = len(previews(fake))
        fake.preview |= {"videos": 1, "length_s": 0.0, "unknown": 1, "left_out": 0, "reasons": []}
        for letter in "old/":
            typed(app, "#exclude").value += letter
        await until(pilot, lambda: content_of(app) == "1 video, not examined yet")
        asked = previews(fake)[before:]
        assert [(call.body or {})["exclude"] for call in asked] == [["old/"]]


async def test_a_preview_that_takes_long_says_so(
    make_app: MakeApp, fake: FakeSupervisor, tmp_path: Path
) -> None:
    answered = asyncio.Event()
    answer = fake.send

    async def send(call: Call[Any]) -> Any:
        if call.path == "/v1/folders/preview":
            await answered.wait()
        return await answer(call)

    fake.send = send  # type: ignore[method-assign]
    async with make_app(view="folders").run_test(size=(80, 24)) as pilot:
        app = await rules_of_the_first(pilot, fake, tmp_path)
        await until(pilot, lambda: content_of(app) == "looking through the folder…")
        answered.set()
        await until(pilot, lambda: content_of(app).startswith("29 videos"))


def test_what_was_found_in_words() -> None:
    found = sample_preview() | {"unknown": 4, "complete": False, "left_out": 3_000, "length_s": 90.0}
    few = "at least 29 videos, 2 min, 4 of them not examined yet"
    assert words_of(found) == f"{few}; at least 3 000 left out: notes.txt (no video), old/ (excluded), …"
    problem = {"code": "PERMISSION", "message": "/in may not be read", "hint": "give access"}
    none = found | {"videos": 0, "unknown": 0, "length_s": 0.0, "left_out": 0, "problem": problem}
    assert words_of(none) == "no videos. PERMISSION: /in may not be read – give access"
    assert words_of(found | {"complete": True, "left_out": 0, "unknown": 0, "length_s": 12.0}) == (
        "29 videos, 12 s"
    )


def test_patterns_are_typed_as_in_a_shell() -> None:
    assert _globs("*.mkv,  'my films/**' \"it's.mov\" # a\\b") == [
        "*.mkv",
        "my films/**",
        "it's.mov",
        "#",
        "a\\b",
    ]
    assert _globs("") == []
    patterns = ["*.mkv", "my films/**", "it's.mov", 'a"b,c', "[!x]*", "a\\b"]
    assert _globs(_typed_globs(patterns)) == patterns


async def open_add(pilot: Pilot[None], app: StudioApp) -> None:
    await pilot.press("n")
    await until(pilot, lambda: isinstance(app.screen, AskPath))


async def test_a_folder_that_does_not_exist_is_created_at_the_second_enter(
    make_app: MakeApp, fake: FakeSupervisor, tmp_path: Path
) -> None:
    new = tmp_path / "new" / "in"
    async with make_app(view="folders").run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await open_add(pilot, app)
        typed(app, "#path").value = str(new)
        await pilot.press("enter")
        await until(pilot, lambda: problem_of(app) == f"{new} does not exist: enter creates it")
        assert not new.exists()
        typed(app, "#path").value = f"{new}2"
        await until(pilot, lambda: not problem_of(app))
        typed(app, "#path").value = str(new)
        await pilot.press("enter")
        await until(pilot, lambda: problem_of(app), "it was offered for another path meanwhile")
        assert not new.exists()
        await pilot.press("enter")
        await until(pilot, lambda: f"watching {new}" in messages(app))
        assert new.is_dir()
        assert fake.folders[-1]["path"] == str(new)


async def test_what_cannot_be_created_says_why(make_app: MakeApp, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with make_app(view="folders").run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await open_add(pilot, app)
        typed(app, "#path").value = str(tmp_path / "file" / "in")
        await pilot.press("enter")
        await until(pilot, lambda: "enter creates it" in problem_of(app))
        await pilot.press("enter")
        await until(pilot, lambda: "cannot be created: not a directory" in problem_of(app))


async def test_tab_completes_and_takes_the_proposed_output(
    make_app: MakeApp, fake: FakeSupervisor, tmp_path: Path
) -> None:
    (tmp_path / "incoming").mkdir()
    async with make_app(view="folders").run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await open_add(pilot, app)
        path, output = typed(app, "#path"), typed(app, "#output")
        path.value = str(tmp_path / "inc")
        path.cursor_position = len(path.value)
        await pilot.press("tab")
        assert path.value == f"{tmp_path}/incoming/"
        await until(
            pilot, lambda: output.placeholder.startswith(f"tab takes {tmp_path}/incoming-hls; empty: ")
        )
        await until(pilot, lambda: content_of(app).startswith("29 videos"))
        await pilot.press("tab")
        assert app.focused is typed(app, "#profile")
        await pilot.press("tab", "tab")
        assert (app.focused, output.value) == (output, f"{tmp_path}/incoming-hls")
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, AskPath))
        (sent,) = [call for call in fake.sent if (call.method, call.path) == ("POST", "/v1/folders")]
        assert (sent.body or {})["output_b64"] == paths.encode(f"{tmp_path}/incoming-hls")


async def test_what_was_typed_is_there_after_escape_until_it_is_done(
    make_app: MakeApp, tmp_path: Path
) -> None:
    async with make_app(view="folders").run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await open_add(pilot, app)
        assert isinstance(app.screen, AskFolder)
        before = typed(app, "#path").value
        typed(app, "#path").value, typed(app, "#profile").value = str(tmp_path), "fast"
        await pilot.pause()
        await pilot.press("escape", "1")
        await open_add(pilot, app)
        assert typed(app, "#path").value == before, "the other dialog has its own"
        await pilot.press("escape", "3")
        await open_add(pilot, app)
        assert (typed(app, "#path").value, typed(app, "#profile").value) == (str(tmp_path), "fast")
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, AskPath))
        await open_add(pilot, app)
        assert (typed(app, "#path").value, typed(app, "#profile").value) == (before, "")

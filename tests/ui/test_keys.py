"""The `?` menu, the palette and `keys.toml`: what can be found can be done, under the keys of the user."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.content import Content
from textual.pilot import Pilot
from textual.style import Style
from textual.widgets import OptionList

from tqstudio.home import Home
from tqstudio.ui.actions.keys_file import keymap, read_keys
from tqstudio.ui.actions.registry import ACTIONS, actions_of
from tqstudio.ui.screens.command_palette import Palette
from tqstudio.ui.screens.dialogs.dialogs import Problem
from tqstudio.ui.screens.help import HelpScreen
from tqstudio.ui.screens.job.log import LogScreen

from .conftest import MakeApp, loaded, messages, screen_text, until
from .fake_supervisor import FakeSupervisor
from .samples import job_row, many_jobs, profile
from .test_actions import footer, go_to
from .test_dialogs import help_of
from .test_queue import current


async def menu(pilot: Pilot[None], *typed: str) -> Any:
    app = await loaded(pilot)
    await pilot.press("question_mark")
    await until(pilot, lambda: isinstance(app.screen, HelpScreen) and help_of(app))
    await pilot.press(*typed)
    return app


async def found(pilot: Pilot[None], typed: str, wanted: str) -> None:
    """Type into the palette until a line begins so."""
    app = pilot.app
    await pilot.press("colon")
    await until(pilot, lambda: isinstance(app.screen, Palette))
    await pilot.press(*("space" if character == " " else character for character in typed))

    def first() -> str:
        options = app.screen.query_one(OptionList).options if isinstance(app.screen, Palette) else []
        return str(options[0].prompt) if options else ""

    await until(pilot, lambda: first().startswith(wanted), f"{wanted} is found")


def keys_of(tmp_path: Path, text: str) -> Any:
    file = tmp_path / "keys.toml"
    file.write_text(text)
    return read_keys(file)


# The menu.


async def test_the_menu_finds_by_typing_and_runs_the_line(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await menu(pilot, *"workers")
        assert [line.split()[:3] for line in help_of(app)] == [["Everywhere"], ["2", "show", "the"]]
        await pilot.press("enter")
        await until(pilot, lambda: app._view == "workers")
        assert fake.operations() == []


async def test_a_line_that_cannot_act_says_why_and_stays(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await menu(pilot, *"retry", "enter")
        assert "job 319 is running" in str(app.screen.query_one(Problem).content)
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("down")
        assert not app.screen.query_one(Problem).display, "it was about the other line"
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, HelpScreen))
        assert fake.operations() == []


async def test_the_menu_lists_each_action_of_its_view_once(make_app: MakeApp) -> None:
    async with make_app(view="folders").run_test(size=(80, 24)) as pilot:
        app = await menu(pilot)
        names = {line.does[0] for line in app.screen._lines if line.does}
        assert names == {action.name for action in actions_of("folders")}
        await pilot.press("question_mark")
        await until(pilot, lambda: not isinstance(app.screen, HelpScreen))


async def test_words_that_nothing_has_run_nothing(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await menu(pilot, *"xyzzy", "enter")
        assert help_of(app) == ["nothing here has these words"]
        assert isinstance(app.screen, HelpScreen)


# The palette.


async def test_the_palette_goes_to_a_job_that_the_filter_hides(make_app: MakeApp) -> None:
    fake = FakeSupervisor(many_jobs(300))
    async with make_app(client_factory=lambda: fake).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        wanted = fake.jobs[250]
        await pilot.press("slash", *"nothing", "enter")
        await until(pilot, lambda: not app.context.model.jobs.rows)
        await found(pilot, str(wanted["id"]), f"job {wanted['id']}")
        await pilot.press("enter")
        await until(pilot, lambda: current(app) == wanted["id"])
        assert not app.context.model.jobs.query.narrowed


async def test_the_palette_finds_jobs_by_name_on_the_server(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await found(pilot, "old-demo", "job 315")
        await pilot.press("enter")
        await until(pilot, lambda: current(app) == 315)
        asked = [call.params["filter"] for call in fake.sent if call.params.get("filter")]
        assert asked[-1] == "old-demo"


async def test_the_palette_finds_words_in_any_order(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        await loaded(pilot)
        await found(pilot, "demo old", "job 315")


async def test_the_palette_explains_a_setting(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await found(pilot, "disk_res", "setting disk_reserve_bytes = 5000000000")
        await pilot.press("enter")
        await until(pilot, lambda: any("leave unused" in line for line in screen_text(app)))
        shown = "\n".join(screen_text(app))
        for part in ("now      5000000000", "default  2000000000", "≥ 0, whole", "/home/x/config.toml"):
            assert part in shown
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard == "disk_reserve_bytes = 5000000000")


async def test_settings_of_another_machine_are_not_asked_for(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app(remote=lambda: "nas").run_test(size=(80, 24)) as pilot:
        await loaded(pilot)
        await found(pilot, "profile fast", "profile fast")
        assert "/v1/settings" not in {call.path for call in fake.sent}


async def test_names_with_brackets_are_no_markup(make_app: MakeApp, fake: FakeSupervisor) -> None:
    fake.folders[0]["path"] = "/srv/[/x] [red]"
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await until(pilot, lambda: app.context.model.folders)
        await found(pilot, "[red]x", "job 324  [red]x.mp4")
        await pilot.press("escape")
        await found(pilot, "folder /srv/[", "folder /srv/[/x] [red]")
        await pilot.press("escape", "l")
        await until(pilot, lambda: isinstance(app.screen, LogScreen))
        await found(pilot, "job below", "job below  (])")


async def test_the_palette_goes_to_folders_workers_and_profiles(
    make_app: MakeApp, fake: FakeSupervisor
) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await until(pilot, lambda: app.context.model.folders)
        folder, worker = fake.folders[0], fake.workers[-1]
        fake.profiles.append(profile("two words"))
        await found(pilot, f"folder {folder['path']}", f"folder {folder['path']}")
        await pilot.press("enter")
        await until(pilot, lambda: app.context.model.jobs.query.line() == f"folder:{folder['id']}")
        await found(pilot, f"worker {worker['name']}", f"worker {worker['name']}")
        await pilot.press("enter")
        await until(pilot, lambda: app._view == "workers" and app.screen.is_mounted)
        await until(pilot, lambda: app.screen.selected()["name"] == worker["name"])
        await found(pilot, "profile two", "profile two words")
        await pilot.press("enter")
        await until(pilot, lambda: app.context.model.jobs.query.line() == 'profile:"two words"')


async def test_a_theme_is_shown_before_it_is_chosen(make_app: MakeApp, tmp_path: Path) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await found(pilot, "theme dracula", "theme dracula")
        await until(pilot, lambda: app.theme == "dracula")
        await pilot.press("escape")
        await until(pilot, lambda: app.theme == "ink", "nothing was chosen")
        await found(pilot, "theme dracula", "theme dracula")
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, Palette))
        await until(pilot, lambda: app.theme == "dracula")
    assert make_app(theme=None, home=Home(tmp_path)).theme == "dracula", "it is remembered"


async def test_a_search_that_ends_after_its_palette_still_makes_its_line(make_app: MakeApp) -> None:
    part = "command-palette--help-text"
    async with make_app().run_test(size=(80, 24)) as pilot:
        await loaded(pilot)
        await pilot.press("colon")
        await until(pilot, lambda: isinstance(pilot.app.screen, Palette) and pilot.app.screen.is_attached)
        palette = pilot.app.screen
        assert Style.from_styles(palette.get_component_styles(part)) != Style()
        await pilot.press("escape")
        await until(pilot, lambda: not palette.is_attached and pilot.app.screen is not palette)
        styles = palette.get_component_styles(part)
        assert Content("pending").stylize_before(Style.from_styles(styles)).plain == "pending"


# keys.toml


def test_without_a_file_the_keys_are_those_of_the_registry(tmp_path: Path) -> None:
    keys = read_keys(tmp_path / "keys.toml")
    assert keymap(keys) == {}
    assert keys.problems == ()
    for action in ACTIONS:
        assert {keys.of(view, action.name) for view in action.views} == {action.keys}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('paus = "x"', "there is no action paus"),
        ("pause = 7", 'pause must be a key such as "space", or a list of keys'),
        ('pause = "spcae"', "spcae is no key"),
        ('pause = "space"', "space is pause and mark; give mark another key, or [] for none"),
        ('[commands]\nl = "less {source}"', "l is a command of your own and log"),
        ('[commands]\no = "mpv {mastr}"', "the unknown placeholder {mastr}; available: {master}, {folder}"),
        ("[commands]\no = \"mpv '{master}'\"", "{master} in quotes"),
        ('[commands]\no = { run = "x", termnal = true }', "o must be a text, or {"),
        ('[commands]\no = ""', "the command on o is empty"),
        ('commands = "mpv"', "commands must be a table"),
        ("pause = ", "it cannot be read: it is not valid TOML"),
    ],
)
def test_a_mistake_is_named_and_the_rest_counts(text: str, problem: str, tmp_path: Path) -> None:
    keys = keys_of(tmp_path, text)
    assert [problem in each for each in keys.problems] == [True]
    assert keys.problems[0].startswith("keys.toml: ")
    if "[" not in text and "=" in text.strip("= "):
        keys = keys_of(tmp_path, f'help = "f1"\n{text}')
        assert keys.of("queue", "help") == ("f1",)


def test_what_is_meant_is_no_mistake(tmp_path: Path) -> None:
    text = 'pause = "x"\ncancel = ["p", "F9"]\nleave = []\nraise = "esc"\nback = "comma"\nlower = ","\n'
    text += (
        '[commands]\no = "mpv --title={name} {master}; echo ${HOME}"\nk = { run = "less", terminal = true }'
    )
    keys = keys_of(tmp_path, text)
    assert [each for each in keys.problems if "comma is" not in each] == [
        "keys.toml: k is a command of your own and up; give up another key, or [] for none"
    ]
    assert keys.of("queue", "pause") == ("x",)
    assert keys.of("job", "cancel") == ("p", "f9")
    assert keys.of("queue", "leave") == ()
    assert keys.of("queue", "raise") == ("escape",)
    assert keys.of("queue", "open_result") == (), "an own command replaces it"
    assert keys.of("workers", "up") == ("k", "up"), "own commands are for jobs"
    assert keys.commands["k"].terminal


def test_a_file_of_others_runs_nothing(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text('[commands]\no = "rm -r {folder}"\n')
    file.chmod(0o666)
    keys = read_keys(file)
    assert not keys.commands
    assert "other users may change it" in keys.problems[0]


async def test_changed_keys_act_and_are_shown(
    make_app: MakeApp, fake: FakeSupervisor, tmp_path: Path
) -> None:
    (tmp_path / "keys.toml").write_text('pause = "space"\nmark = "p"\ndown = "n"\nadd = []\nnope = "x"\n')
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        assert "space pause" in footer(app)
        assert any("there is no action nope" in note for note in app.context.model.notes)
        await pilot.press("n", "n", "n", "space")
        await until(pilot, lambda: fake.operations() == [{"operation": "pause", "ids": [322]}])
        await pilot.press("p")
        await until(pilot, lambda: len(app.context.model.marks) == 1)
        await pilot.press("j", "down")
        assert len(fake.operations()) == 1
        await pilot.press("question_mark", *"one", "space", *"line", "space", *"down")
        assert [line.split()[0] for line in help_of(app)] == ["Move", "n"]
        await pilot.press("escape")
        await found(pilot, "mark", "mark  (p)")


def test_a_sentence_names_the_key_that_is_set(tmp_path: Path) -> None:
    keys = keys_of(tmp_path, 'undo = "f9"\npause = []\nraise = "z"\n')
    named = ("undo", "pause", "raise", "back", "folder_add")
    assert [*map(keys.sign, named)] == ["f9", ":pause", "z", "esc", "n"]


async def test_sentences_name_the_keys_that_are_set(
    make_app: MakeApp, fake: FakeSupervisor, tmp_path: Path
) -> None:
    (tmp_path / "keys.toml").write_text('undo = "f9"\npause = "f8"\npause_all = "f7"\nfolder_add = "f6"\n')
    fake.folders.clear()
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("f7")
        await until(
            pilot, lambda: any("the queue is paused – f7 resumes it" in line for line in screen_text(app))
        )
        await go_to(app, pilot, 322)
        await pilot.press("x")
        await until(pilot, lambda: "cancel: 1 job; f9 undoes it" in messages(app))
        await pilot.press("f9")
        await until(pilot, lambda: (row := app.context.model.job(322)) and row["status"] == "pending")
        await go_to(app, pilot, 322)
        await pilot.press("f8")
        await until(pilot, lambda: any("paused – f8 resumes it" in line for line in screen_text(app)))
        await pilot.press("3")
        await until(pilot, lambda: any("f6 adds one" in line for line in screen_text(app)))


# Opening the result, and own commands.


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes `tqstudio open` print something; answers the file in which it writes down how it was called."""

    def prints(text: str) -> Path:
        asked, program = tmp_path / "asked", tmp_path / "python"
        program.write_text(f"#!/bin/sh\nprintf '%s ' \"$@\" > {asked}\nprintf %s '{text}'\n")
        program.chmod(0o755)
        monkeypatch.setattr("sys.executable", str(program))
        return asked

    return prints


Prints = Callable[[str], Path]


async def test_o_opens_the_page_of_a_result(make_app: MakeApp, page: Prints) -> None:
    asked = page('{"opened": true, "url": "", "port": 1}')
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("G")
        assert "o open" in footer(app)
        await pilot.press("o")
        await until(pilot, lambda: "opened in the browser" in messages(app))
        assert asked.read_text() == "-P -m tqstudio open 314 --json "


async def test_without_a_browser_the_address_is_copied(make_app: MakeApp, page: Prints) -> None:
    page('{"opened": false, "url": "http://127.0.0.1:1/open/x/7", "port": 1}')
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("G", "o")
        await until(pilot, lambda: app.clipboard == "http://127.0.0.1:1/open/x/7")
        assert "no browser here; copied: http://127.0.0.1:1/open/x/7" in messages(app)


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ('{"error": {"code": "REFUSED", "message": "it stands by", "hint": "ask there"}}', "it stands by"),
        ("", "the page was not opened (0)"),
    ],
)
async def test_a_page_that_does_not_open_says_why(
    printed: str, shown: str, make_app: MakeApp, page: Prints
) -> None:
    page(printed)
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("G", "o")
        await until(pilot, lambda: shown in messages(app))


async def test_of_another_machine_the_path_is_copied(make_app: MakeApp) -> None:
    async with make_app(remote=lambda: "nas").run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("G", "o")
        await until(pilot, lambda: app.clipboard == "/srv/streams/holiday-2026/master.m3u8")


async def test_a_job_without_a_result_says_why(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("o")
        await until(pilot, lambda: "job 319 is running, so there is no result to open yet" in messages(app))
        assert "o open" not in footer(app)


async def test_a_failed_job_will_have_no_result(make_app: MakeApp, fake: FakeSupervisor) -> None:
    fake.jobs = [job_row(1, "film.mkv", "failed")]
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("o")
        await until(pilot, lambda: "job 1 is failed, so there is no result to open –" in messages(app))


@pytest.mark.parametrize("name", ["a b'c.mp4", '$(touch pwned)".mp4', "-n\n;touch pwned", "caf\udce9.mp4"])
async def test_an_own_command_gets_the_facts_whatever_they_contain(
    name: str, make_app: MakeApp, fake: FakeSupervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = f"/srv/{name}".encode("utf-8", "surrogateescape")
    fake.job(322).update(path_b64=base64.b64encode(source).decode())
    (tmp_path / "keys.toml").write_text("[commands]\nF5 = \"printf '%s|' {id} --in={source} > out\"\n")
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await go_to(app, pilot, 322)
        await pilot.press("f5")
        wanted = b"322|--in=" + source + b"|"
        out = tmp_path / "out"
        await until(pilot, lambda: out.exists() and out.read_bytes() == wanted)
    assert not (tmp_path / "pwned").exists()


async def test_an_own_command_that_fails_says_so(make_app: MakeApp, tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text('[commands]\nF5 = "echo no such player >&2; exit 3"\n')
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        await pilot.press("f5")
        await until(pilot, lambda: "failed (3): no such player" in messages(app))
        await pilot.press("2", "f5")
        await until(pilot, lambda: "is not possible here" in messages(app))

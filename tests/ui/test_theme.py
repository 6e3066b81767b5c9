"""Theme files: the shipped ones are whole and legible, a wrong one is reported and never fatal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from math import dist
from pathlib import Path

import pytest
from rich._palettes import EIGHT_BIT_PALETTE, STANDARD_PALETTE
from rich.color import Color as Ink
from rich.color import ColorSystem
from textual.color import Color

from tqstudio.home import Home
from tqstudio.ui.app import StudioApp
from tqstudio.ui.data.model import Link
from tqstudio.ui.look.theme import (
    STATES,
    TEXTUAL,
    Colours,
    ThemeError,
    in_sixteen_colours,
    load_themes,
    read_theme,
    shipped_folder,
    theme_of_textual,
)

from .conftest import MakeApp, loaded, until
from .fake_supervisor import FakeSupervisor
from .samples import missing_folder

SHIPPED = ["ink", "ink-colourblind", "ink-contrast", "paper"]


def contrast(one: str, other: str) -> float:
    def luminance(text: str) -> float:
        parts = [part / 255 for part in Color.parse(text).rgb]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_shipped_themes_begin_with_the_dark_one() -> None:
    themes = load_themes([shipped_folder()])
    assert list(themes.by_name) == SHIPPED
    assert not themes.problems
    assert [themes.by_name[name].dark for name in SHIPPED] == [True, True, True, False]


@pytest.mark.parametrize("name", TEXTUAL)
def test_themes_of_textual_are_made_legible(name: str) -> None:
    theme = theme_of_textual(name)
    inks = [f"state-{state}" for state in STATES] + ["part-dim", "part-faint", "part-strong", "part-key"]
    for paper in (theme.background, theme.variables["part-cursor"]):
        for ink in inks:
            assert contrast(theme.variables[ink], paper or "") >= 4.5, (ink, paper)


def test_high_contrast_is_high() -> None:
    theme = load_themes([shipped_folder()]).by_name["ink-contrast"]
    inks = [f"state-{state}" for state in STATES] + ["part-dim", "part-faint", "part-key", "part-mark"]
    for ink in inks:
        assert contrast(theme.variables[ink], theme.variables["part-cursor"]) >= 7, ink


# What is left of linear RGB without red, and without green, cones (Viénot, Brettel and Mollon 1999).
BLIND = {
    "protanopia": ((0.11238, 0.88762, 0.0), (0.11238, 0.88762, 0.0), (0.00401, -0.00401, 1.0)),
    "deuteranopia": ((0.29275, 0.70725, 0.0), (0.29275, 0.70725, 0.0), (-0.02234, 0.02234, 1.0)),
}


def seen(colour: str, kind: str) -> tuple[float, ...]:
    rgb = [(part / 255) ** 2.2 for part in Color.parse(colour).rgb]
    mixed = (sum(by * part for by, part in zip(row, rgb, strict=True)) for row in BLIND[kind])
    return tuple(max(0.0, part) ** (1 / 2.2) * 255 for part in mixed)


@pytest.mark.parametrize("kind", BLIND)
def test_outcomes_stay_apart_for_colour_blind_eyes(kind: str) -> None:
    theme = load_themes([shipped_folder()]).by_name["ink-colourblind"]
    colours = {state: theme.variables[f"state-{state}"] for state in ("running", "paused", "done", "failed")}
    for (one, ink), (other, same) in combinations(colours.items(), 2):
        assert dist(seen(ink, kind), seen(same, kind)) > 40, (one, other)


@pytest.mark.parametrize("name", SHIPPED)
def test_states_and_text_are_legible(name: str) -> None:
    theme = load_themes([shipped_folder()]).by_name[name]
    for background in (theme.background, theme.variables["part-cursor"], theme.variables["part-bar"]):
        assert background
        for state in STATES:
            assert contrast(theme.variables[f"state-{state}"], background) >= 3, (state, background)
        assert contrast(theme.foreground or "", background) >= 7


@pytest.mark.parametrize("name", SHIPPED)
def test_the_cursor_shows_in_256_colours(name: str) -> None:
    palette = Colours(load_themes([shipped_folder()]).by_name[name])
    papers = [palette.base, palette.cursor, palette.bar]
    numbers = [style.bgcolor.downgrade(ColorSystem.EIGHT_BIT).number for style in papers if style.bgcolor]
    assert len(set(numbers)) == 3


def number(ink: Ink | None) -> int | None:
    """Which of 16 colours a terminal that has no more shows."""
    return ink.downgrade(ColorSystem.STANDARD).number if ink else None


@pytest.mark.parametrize("name", SHIPPED)
def test_states_stay_apart_in_16_colours(name: str) -> None:
    palette = Colours(in_sixteen_colours(load_themes([shipped_folder()]).by_name)[name])
    # What waits, what was ended and what is left out is grey for all three: none of them moves.
    # A warning, and what plays already, stand beside a state, never for one.
    grey_or_beside = ("cancelled", "skipped", "warning", "viewable")
    coloured = {each: number(palette.states[each].color) for each in STATES if each not in grey_or_beside}
    for (one, ink), (other, same) in combinations(coloured.items(), 2):
        assert ink != same, f"{one} looks like {other}"


@pytest.mark.parametrize("name", SHIPPED)
def test_nothing_vanishes_in_16_colours(name: str) -> None:
    palette = Colours(in_sixteen_colours(load_themes([shipped_folder()]).by_name)[name])
    papers = {number(each.bgcolor) for each in (palette.base, palette.cursor, palette.bar, palette.surface)}
    inks = [
        palette.text,
        palette.strong,
        palette.dim,
        palette.faint,
        palette.accent,
        palette.mark,
        palette.key,
    ]
    for ink in (*inks, *palette.states.values(), palette.good, palette.warning, palette.error):
        assert number(ink.color) not in papers
    assert number(palette.cursor.bgcolor) != number(palette.base.bgcolor)
    assert number(palette.notice.bgcolor) != number(palette.base.bgcolor)


@pytest.mark.parametrize("file", sorted((shipped_folder() / "sixteen").iterdir()), ids=lambda file: file.stem)
def test_colours_for_16_are_the_16(file: Path) -> None:
    theme = read_theme(file)
    for key, value in theme.variables.items():
        if key.startswith(("state-", "part-")):
            colour = Color.parse(value).rich_color
            assert STANDARD_PALETTE[number(colour) or 0] == colour.triplet, key


async def test_a_terminal_with_16_colours_gets_them(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = make_app(theme="paper")
    monkeypatch.delenv("COLORTERM")
    monkeypatch.setenv("TERM", "xterm-16color")
    few = make_app(theme="paper")
    assert many.context.palette.states["running"] != few.context.palette.states["running"]
    assert not few.current_theme.dark
    async with few.run_test(size=(80, 24)) as pilot:
        await loaded(pilot)
        await pilot.press("t")
        assert few.theme == "ink"
        assert few.current_theme.dark
        running, done = (number(few.context.palette.states[state].color) for state in ("running", "done"))
        assert running != done


def test_a_small_file_is_enough(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'name = "mine"\n[colors]\nprimary = "#5fafd7"\nforeground = "white"\nbackground = "black"\n'
    )
    theme = read_theme(file)
    assert theme.name == "mine"
    assert Colours(theme).states["failed"].color


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name = ", "cannot be read"),
        ('[colors]\nprimary = "no colour"\n', "'no colour' of 'primary' in [colors] is not a colour"),
        ('[colors]\nprimary = "red"\nforeground = "white"\n', "[colors] has no 'background'"),
        ('[states]\nrunnin = "red"\n', "unknown key 'runnin' in [states]"),
        ("[colors]\nprimary = 3\n", "is not a colour"),
        ("colours = 1\n[colors]\n", "unknown key 'colours'"),
        ("dark = 'yes'\n", "dark must be true or false"),
        ("dark = " + "[\n" * 10_000, "nested too deep"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    with pytest.raises(ThemeError, match=r"wrong\.toml") as caught:
        read_theme(file)
    assert says in str(caught.value)


async def test_a_wrong_user_theme_is_reported_and_t_cycles_the_others(
    make_app: MakeApp, tmp_path: Path
) -> None:
    home = Home(tmp_path)
    home.themes.mkdir()
    (home.themes / "wrong.toml").write_text("name = ")
    (home.themes / "mine.toml").write_text(
        'name = "mine"\n[colors]\nprimary = "red"\nforeground = "white"\nbackground = "black"\n'
    )
    async with make_app(home=home).run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        assert any("wrong.toml" in note for note in app.context.model.notes)
        seen = []
        for _ in range(5):
            await pilot.press("t")
            seen.append(app.theme)
        assert sorted(seen) == sorted([*SHIPPED, "mine"])
        await until(pilot, lambda: (tmp_path / "ui.json").exists())
    assert make_app(home=home, theme=None).theme == seen[-1]


GRAPHICS = re.compile(r"[─━╸│╭╮╰╯▁▂▃▄▅▆▇█▌▐▒▔▊▎\s]*")
"""Lines, bars and frames: no text."""
PAGES: dict[str, tuple[str, ...]] = {
    "queue": ("j", "j", "space"),
    "failed": ("G", "k", "k", "k"),
    "filter": ("slash", *"state:done"),
    "job": ("enter",),
    "log": ("l",),
    "facts": ("i",),
    "workers": ("2", "G"),
    "folders": ("3",),
    "history": ("4", "k"),
    "restart": ("R",),
    "change": ("G", "e"),
    "priority": ("equals_sign",),
    "add": ("n",),
    "until": ("W",),
    "hours": ("3", "h"),
    "help": ("question_mark",),
    "palette": ("colon", *"pa"),
    "toast": ("z",),
    "stale": (),
}


def drawn(app: StudioApp) -> Iterator[tuple[str, Ink, Ink]]:
    """Text, ink and paper of all that stands on the screen; below a dialog, what is dimmed is left out."""
    box = next(iter(app.screen.query(".dialog, CommandList")), app.screen).region
    for line in app.screen._compositor.render_strips()[box.y : box.bottom]:
        for text, style, _ in line.crop(box.x, box.right):
            if style is None or GRAPHICS.fullmatch(text):
                continue
            assert style.color, text
            assert style.bgcolor, text
            assert not style.dim, text
            ink, paper = (style.bgcolor, style.color) if style.reverse else (style.color, style.bgcolor)
            yield text, ink, paper


def shown(colour: Ink, system: ColorSystem) -> str:
    """As a terminal with so many colours shows it."""
    reduced = colour.downgrade(system)
    return (EIGHT_BIT_PALETTE[reduced.number] if reduced.number is not None else reduced.triplet).hex


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(
    "name", [SHIPPED[0], *(pytest.param(name, marks=pytest.mark.slow) for name in SHIPPED[1:])]
)
async def test_all_text_on_the_screen_has_contrast(
    name: str, page: str, make_app: MakeApp, fake: FakeSupervisor
) -> None:
    """At least 4.5 : 1, as WCAG 2 asks of small text (level AA)."""
    fake.folders.append(missing_folder())
    async with make_app(theme=name, backoff_s=(0.05,)).run_test(size=(120, 40)) as pilot:
        app = await loaded(pilot)
        await pilot.press(*PAGES[page])
        if page == "stale":
            fake.down = True
            fake.drop()
            await until(pilot, lambda: app.context.model.connection.link is Link.LOST)
        app.painter.now()
        await until(pilot, lambda: list(drawn(app)), "it is drawn")
        texts = list(drawn(app))
        for system in (ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT):
            poor = {
                (text.strip(), shown(ink, system), shown(paper, system))
                for text, ink, paper in texts
                if contrast(shown(ink, system), shown(paper, system)) < 4.5 and text.strip("▀")
            }
            assert not poor, system

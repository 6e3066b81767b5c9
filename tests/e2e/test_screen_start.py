"""The first seconds of the terminal UI: what it says while it knows nothing, and why no supervisor runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from harness import PROGRAM
from waiting import until

from .conftest import Held, MakeStudio
from .studio import Studio
from .terminal import Terminal


@pytest.fixture
def down(make_studio: MakeStudio) -> Iterator[Studio]:
    """A home in which no supervisor runs; one that is started there ends with the test."""
    studio = make_studio()
    yield studio
    studio("down")
    studio.until_gone()


WRONG = {
    "unknown": (
        "workers = 1\nsetle_s = 2\n",
        "line 2 has the unknown setting setle_s",
        "did you mean settle_s?",
    ),
    "value": ("\n# Files\nsettle_s = 'soon'\n", 'the setting settle_s is invalid: it is "soon"', "line 3"),
    "syntax": ("settle_s = = 2\n", "it is not valid TOML", "at line 1, column 12"),
}


@pytest.mark.more
@pytest.mark.parametrize(("text", "what", "now"), WRONG.values(), ids=WRONG)
def test_wrong_settings_are_shown_with_their_place_and_what_to_do(
    down: Studio, text: str, what: str, now: str
) -> None:
    down.home.config.write_text(text)
    environment = {key: value for key, value in down.environment.items() if key != "TQSTUDIO_SETTLE_S"}
    with Terminal(PROGRAM, environment, columns=200) as terminal:
        terminal.shows("The supervisor cannot start", "BAD_CONFIG", now)

        def joined() -> str:
            return re.sub(r"[│\s]", "", terminal.text())

        until(lambda: str(down.home.config) in joined(), "the file is named")
        until(lambda: what.replace(" ", "") in joined(), "the mistake is named")
        # Corrected, but for another mistake.
        down.home.config.write_text("workrs = 2\n")
        terminal.press("S")
        terminal.shows("The supervisor cannot start", "did you mean workers?")
        down.home.config.write_text("settle_s = 2\n")
        terminal.press("S")
        terminal.shows("the queue is empty")
        terminal.press("q")
        terminal.shows("the supervisor keeps running")
        assert terminal.ended() == 0


def test_leaving_says_once_more_what_is_wrong(down: Studio) -> None:
    down.home.config.write_text("setle_s = 2\n")
    with Terminal(PROGRAM, down.environment) as terminal:
        terminal.shows("The supervisor cannot start", "did you mean settle_s?", "q quits")
        terminal.press("\x1b")
        terminal.lacks("The supervisor cannot start")
        terminal.shows("S starts one")
        terminal.press("q")
        shown = terminal.shows("error: BAD_CONFIG", "did you mean settle_s?")
        assert "the supervisor keeps running" not in shown
        assert terminal.ended() == 2


@pytest.mark.more
def test_any_other_reason_is_shown_too(down: Studio) -> None:
    down.home.database.write_bytes(b"this is no database" * 400)
    with Terminal(PROGRAM, down.environment) as terminal:
        terminal.shows("The supervisor cannot start", "DATABASE_DAMAGED")
        terminal.press("q")
        assert terminal.ended() != 0


@pytest.mark.parametrize("view", ["1", "2", "4"])
def test_nothing_is_called_empty_before_it_was_read(studio: Studio, held: Held, view: str) -> None:
    held(3)
    with Terminal(PROGRAM, studio.environment) as terminal:
        terminal.press(view)
        terminal.shows({"1": "clip-002.mp4", "2": "cpu-0", "4": "queued"}[view])
        for text in ("queue is empty", "0 jobs", "no worker is known", "nothing has happened"):
            assert text.encode() not in terminal.written

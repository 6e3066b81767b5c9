"""`demo`: short without a terminal; on one, a film that fills while the others play, and what to try."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.terminal import Terminal
from harness import QUICK, Program
from tqstudio.cli.session import sample_clips
from tqstudio.engine.media.ffmpeg.binary import locate
from tqstudio.engine.media.source.probe import probe

SHORT_FILM_S = 32


@pytest.fixture
def tqstudio(tmp_path: Path) -> Iterator[Program]:
    settings = {key: value for key, value in QUICK.items() if key != "TQSTUDIO_WORKERS"}
    program = Program(tmp_path / "home", **settings)
    yield program
    program("down")


@pytest.mark.slow
def test_the_film_has_what_menus_of_players_show(tmp_path: Path) -> None:
    film = sample_clips.create_film(tmp_path, locate(None).path)
    found = probe(os.fsencode(film))
    assert found.duration_s >= SHORT_FILM_S
    assert [track.language for track in found.audio] == ["en", "de"]
    assert [track.language for track in found.subtitles] == ["en"]
    assert [chapter.title for chapter in found.chapters][:2] == ["Round 1", "Round 2"]
    assert [each.name for each in tmp_path.iterdir()] == [sample_clips.FILM]


@pytest.mark.slow
def test_on_a_terminal_it_says_what_to_try(tqstudio: Program) -> None:
    tqstudio.home.root.mkdir()
    tqstudio.home.keys.write_text('view_wall = "f9"\n')
    command = [os.fspath(word) for word in tqstudio.command("demo")]
    with Terminal(command, tqstudio.environment) as terminal:
        terminal.shows(sample_clips.FILM, "p pauses  enter its segments  f9 the wall")
        # Two workers: the film does not hold the others up.
        terminal.shows("▸2")
        terminal.shows("try  o plays a done clip  p pauses")
        terminal.press("\x1b[20~")
        terminal.shows("busy", "? all keys")
        terminal.press("\x1b")
        terminal.shows("p pauses  enter its segments  ? all keys")
        assert "f9 the wall" not in terminal.text()
        terminal.press("\x1b")
        terminal.lacks("all keys")
        terminal.press("q")
        terminal.shows("the next demo resumes the others", "the demo's supervisor has stopped")
        assert terminal.ended() == 0


@pytest.mark.slow
def test_without_a_terminal_it_stays_short(tqstudio: Program) -> None:
    done = tqstudio("demo", timeout_s=500)
    assert done.code == 0, done.err
    assert sorted(path.name for path in (tqstudio.home.root / "demo" / "clips").iterdir()) == sorted(
        clip.name for clip in sample_clips.CLIPS
    )
    # What is done stays, and the way to see it again is shown.
    command = [os.fspath(word) for word in tqstudio.command("demo")]
    with Terminal(command, tqstudio.environment) as terminal:
        terminal.shows(sample_clips.FILM, "✓ done", "o plays a done clip")
        terminal.press("q")
        assert terminal.ended() == 0

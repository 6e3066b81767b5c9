"""Players play every kind of package that is published: each quality, sound and subtitle, and every seek."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest

from .conftest import Ask, Published
from .sources import ALONE, KINDS, Kind, cues

pytestmark = pytest.mark.players

OF_HLS = ("hls.js", "shaka")
OF_DASH = ("dash.js", "shaka-mpd")
NATIVE, FILE = "chromium", "file"
DASH_KINDS = (
    *("ladder", "film", "late-sound", "late-picture", "no-sound", "mixed"),
    *("one-segment", "short-end", "short-end-alone", "copied", "copied-plain", "copied-reordered"),
)
"""The timeline of the others is of the same kinds."""
_ONE_FRAME_OF_SOUND_S = 1024 / 48000
_RATE = 4
MPV = shutil.which("mpv")


def pairs(*players: str, of: Any = lambda _: True) -> Iterator[Any]:
    """Each kind with each player; tests of a kind run in one process, which makes its package once."""
    for kind in filter(of, KINDS.values()):
        for player in players:
            if player in OF_DASH and kind.name not in DASH_KINDS:
                continue
            if player == FILE and kind.killed:
                continue  # its job asks for none
            if player != NATIVE or len({codec for _, codec in kind.levels}) == 1:
                marks = pytest.mark.xdist_group(kind.name)
                yield pytest.param(kind, player, id=f"{kind.name}-{player}", marks=marks)


def open_it(ask: Ask, published: Published, kind: Kind, player: str, *, in_turn: bool = False) -> Any:
    """Open a package in a player, once it is published.

    With `in_turn` each segment is loaded in another quality than the one before.
    """
    master = published(kind).master
    slug = master.parent.name
    name = "manifest.mpd" if player in OF_DASH else master.name
    if player == FILE:
        name = f"v1/{slug}.{'mp4' if kind.pictures else 'm4a'}"
    return ask("open", player, f"/out/{slug}/{name}", in_turn)


def length_of(source: Path) -> float:
    """The duration of a source in seconds, as its container declares it."""
    with av.open(str(source)) as container:
        assert container.duration is not None
        return container.duration / av.time_base


def picture_at(kind: Kind, seconds: float) -> int:
    """The number of the source's picture that is shown at this time."""
    return min(max(int(seconds * kind.fps + 0.1) - kind.late, 0), kind.frames - 1)


def is_nearly_whole(kind: Kind, buffered: Any, duration: float) -> bool:
    if len(buffered) != 1:
        return False
    [(start, end)] = buffered
    return start < 0.01 and duration - end < max(1 / kind.fps, _ONE_FRAME_OF_SOUND_S) + 0.002


def check_played(kind: Kind, played: Any, *, rate: int) -> None:
    """Check that all pictures were there, none after a later one, and each in time."""
    assert played["ended"]
    assert is_nearly_whole(kind, played["buffered"], played["duration"]), played["buffered"]
    numbers = [number for _, number in played["pictures"]]
    assert numbers == sorted(numbers)
    # The page reads what is on the screen, which may be newer than the picture it was called for.
    ahead = [number - picture_at(kind, at) for at, number in played["pictures"]]
    assert all(0 <= each <= rate * 2 for each in ahead), played["pictures"]
    assert numbers[-1] > kind.frames / 2


@pytest.mark.parametrize(("kind", "player"), pairs(*OF_HLS, *OF_DASH, NATIVE, FILE))
def test_it_plays_from_start_to_end(ask: Ask, published: Published, kind: Kind, player: str) -> None:
    opened = open_it(ask, published, kind, player)
    if player not in (NATIVE, FILE):
        ask("loaded")
    played = ask("playToEnd", _RATE)
    check_played(kind, played, rate=_RATE)
    a_frame_s = max(1 / kind.fps, _ONE_FRAME_OF_SOUND_S + 0.002)
    assert [opened["duration"], played["duration"]] == pytest.approx(
        [length_of(published(kind).source)] * 2, abs=a_frame_s
    )


@pytest.mark.parametrize(("kind", "player"), pairs(*OF_HLS, *OF_DASH, NATIVE, FILE))
def test_seeks_land_on_their_picture(ask: Ask, published: Published, kind: Kind, player: str) -> None:
    open_it(ask, published, kind, player)
    segment = round(2 * kind.fps)
    last = kind.shown - 1
    # Before anything was played, hls.js may wait for ever for more after the last segment.
    ask("playFor", 0.2)
    inside = [last // segment * segment + 1, last // 2, 0]
    seek(ask, kind, inside)
    if player not in (NATIVE, FILE):
        # Near the end of a segment a player may show the next one, as long as only that is loaded.
        ask("loaded")
    seek(ask, kind, [segment - 1, segment, last, last // segment * segment, 0, last - 1])
    ask("seek", 0, picture_at(kind, 0))
    ask("playFor", 0.5)
    seek(ask, kind, [last - 2])
    assert ask("playToEnd", 1)["ended"]


def seek(ask: Ask, kind: Kind, frames: Iterable[int]) -> None:
    """Seek into the middle of each of these frames, and wait for its picture."""
    for frame in frames:
        seconds = float((min(max(frame, 0), kind.shown - 1) + Fraction(1, 2)) / kind.fps)
        ask("seek", seconds, picture_at(kind, seconds))


@pytest.mark.parametrize(("kind", "player"), pairs(*OF_HLS, *OF_DASH))
def test_every_quality_plays(ask: Ask, published: Published, kind: Kind, player: str) -> None:
    if player == "dash.js" and kind.name in ("mixed", "one-segment"):
        pytest.xfail("a paused dash.js changes neither the codec nor the only segment that it has loaded")
    levels = open_it(ask, published, kind, player)["levels"]
    offered = [(min(each["width"], each["height"]), each["codec"].partition(".")[0]) for each in levels]
    assert set(offered) <= set(kind.levels)
    # Shaka lists those that have the sound that plays.
    listed = kind.levels[:-1] if player == "shaka" and "audio.low_kbps" in kind.settings else kind.levels
    # Of several codecs in one size it keeps the best.
    assert player == "shaka" or set(offered) == set(listed)
    assert {side for side, _ in offered} == {side for side, _ in listed}
    for number, (short_side, _) in enumerate(offered):
        middle = float((kind.frames // 2 + number + 0.5) / kind.fps)
        ask("level", number, short_side, middle, picture_at(kind, middle))
        ask("playFor", 0.5)
        [(start, end)] = ask("loaded")
        assert start <= middle < end


@pytest.mark.parametrize(
    ("kind", "player"), pairs(*OF_HLS, *OF_DASH, NATIVE, FILE, of=lambda kind: kind.sounds)
)
def test_every_sound_track_is_heard(ask: Ask, published: Published, kind: Kind, player: str) -> None:
    offered = open_it(ask, published, kind, player)["sounds"]
    start = kind.sounds[0].late_s
    ask("sound", None, start, kind.sounds[0].hertz)
    heard = set()
    for number, track in enumerate(offered):
        if kind.can_be_decoded(track["channels"]):
            ask("sound", number, start, kind.hertz(track["label"]))
            heard.add(track["label"])
    assert player in (NATIVE, FILE) or heard == {sound.label for sound in kind.sounds}


@pytest.mark.xdist_group(ALONE.name)
@pytest.mark.parametrize("player", [*OF_HLS, *OF_DASH, NATIVE, FILE])
def test_sound_alone_plays_in_each_language(ask: Ask, published: Published, player: str) -> None:
    offered = open_it(ask, published, ALONE, player)["sounds"]
    assert player in (NATIVE, FILE) or [track["label"] for track in offered] == ["English", "German"]
    played = ask("playToEnd", 1)
    assert played["ended"]
    assert played["duration"] == pytest.approx(length_of(published(ALONE).source), abs=0.05)
    ask("sound", None, 0, ALONE.sounds[0].hertz)
    for number, track in enumerate(offered):
        ask("sound", number, 1, ALONE.hertz(track["label"]))


@pytest.mark.parametrize(("kind", "player"), pairs(*OF_HLS, *OF_DASH, of=lambda kind: kind.texts))
def test_every_line_of_subtitles_comes_in_time(
    ask: Ask, published: Published, kind: Kind, player: str
) -> None:
    offered = open_it(ask, published, kind, player)["texts"]
    assert {(track["language"], track["forced"]) for track in offered} == {
        (text.tag, text.disposition == "forced") for text in kind.texts
    }
    ask("loaded")
    for number, track in enumerate(offered):
        [text] = [each for each in kind.texts if each.tag == track["language"]]
        expected = cues(text)
        shown = ask("text", number, [words for *_, words in expected])
        assert [times for *times, _ in shown] == [pytest.approx(times, abs=0.03) for *times, _ in expected]


@pytest.mark.xdist_group("ladder")
def test_a_browser_reads_the_chapters(ask: Ask, published: Published) -> None:
    master = published(KINDS["ladder"]).master
    url = f"/out/{master.parent.name}/v1/chapters.vtt"
    assert ask("cuesOf", url) == [[0, 4, "one"], [4, 9, "two"]]


@pytest.mark.xdist_group("ladder")
@pytest.mark.skipif(MPV is None, reason="mpv is not installed")
def test_mpv_plays_a_file_to_its_end_and_shows_no_subtitles(published: Published) -> None:
    folder = published(KINDS["ladder"]).master.parent
    file = folder / f"v1/{folder.name}.mp4"
    fields = "${sid} ${track-list/count} ${chapter-list/count}"
    quiet = ("--no-config", "--vo=null", "--ao=null", "--untimed", "--term-status-msg=")
    said = subprocess.run(
        [str(MPV), *quiet, f"--term-playing-msg=<{fields}>", str(file)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    kind = KINDS["ladder"]
    assert f"<no {1 + len(kind.sounds) + len(kind.texts)} 2>" in said
    assert "End of file" in said
    assert "error" not in said.lower()


@pytest.mark.xdist_group("mixed")
@pytest.mark.xfail(strict=True, reason="Chromium's own HLS changes between codecs, which its decoders refuse")
def test_chromium_itself_plays_a_ladder_of_several_codecs(ask: Ask, published: Published) -> None:
    open_it(ask, published, KINDS["mixed"], NATIVE)
    assert ask("playToEnd", _RATE)["ended"]


@pytest.mark.xdist_group("dolby")
@pytest.mark.xfail(strict=True, reason="Shaka takes a group with E-AC-3 and AAC for one of AAC")
def test_shaka_offers_only_sound_that_can_be_decoded(ask: Ask, published: Published) -> None:
    offered = open_it(ask, published, KINDS["dolby"], "shaka")["sounds"]
    assert all(KINDS["dolby"].can_be_decoded(track["channels"]) for track in offered)

"""Every subtitle track of text becomes WebVTT in segments, at its times; what fails costs nothing else."""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import pytest

from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.values import RenditionState
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.grid import Grid
from tqstudio.engine.media.plan.profiles import Profile, RungSpec, load, override
from tqstudio.engine.media.plan.subtitles import subtitle_renditions
from tqstudio.engine.media.plan.video_codecs import CODECS
from tqstudio.engine.media.plan.warnings import of_source
from tqstudio.engine.media.segments import webvtt
from tqstudio.engine.media.segments.webvtt import Cue
from tqstudio.engine.media.source.probe import probe
from tqstudio.errors import ErrorCode, TqError, WarningCode

from .conftest import MakeClip, MakeEncode, run_ffmpeg, run_to_end
from .test_ladder_encode import codes_of, scripted

SRT = """1
00:00:00,500 --> 00:00:01,500
one & <i>only</i>

2
00:00:01,800 --> 00:00:04,200
two
lines – ünïcödé

3
00:00:05,000 --> 00:00:05,900
three
"""
TEXTS = ["one &amp; <i>only</i>", "two\nlines – ünïcödé", "three"]
TIMES = [(500, 1500), (1800, 4200), (5000, 5900)]
X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "50")


@pytest.fixture
def one(small: Profile) -> Profile:
    return replace(small, rungs=(RungSpec(90, 120),))


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "words.srt"
    path.write_text(SRT)
    return path


def film(ffmpeg: FFmpeg, path: Path, words: Path, *options: str, tracks: int = 1) -> Path:
    """Six seconds of pictures with the words as subtitles."""
    inputs = [word for _ in range(tracks) for word in ("-i", str(words))]
    maps = [word for number in range(tracks + 1) for word in ("-map", str(number))]
    picture = ("-f", "lavfi", "-i", "testsrc2=s=160x90:r=25:d=6")
    run_ffmpeg(ffmpeg, *picture, *inputs, *maps, *X264, *options, f"file:{path}")
    return path


def subtitles_of(encode: LadderEncode) -> dict[str, RenditionState]:
    return {state.name: state for state in encode.renditions if state.kind == "subtitles"}


def cues_of(state: RenditionState) -> list[Cue]:
    """All cues of a stored rendition, each once."""
    assert state.check is not None
    found: dict[Cue, None] = {}
    for segment in state.check.segments:
        text = (state.directory / segment.name).read_text()
        assert text.startswith("WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:900000,LOCAL:00:00:00.000\n")
        found |= dict.fromkeys(webvtt.parse(text))
    return list(found)


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.mkv", "srt"),
        ("a.mkv", "ass"),
        pytest.param("a.mkv", "webvtt", marks=pytest.mark.slow),
        ("a.mp4", "mov_text"),
        pytest.param("a.mkv", "text", marks=pytest.mark.slow),
    ],
)
def test_text_of_every_codec_is_shown_at_its_time(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, words: Path, tmp_path: Path, name: str, codec: str
) -> None:
    made = encode(film(ffmpeg, tmp_path / name, words, "-c:s", codec, "-metadata:s:s:0", "language=ger"), one)
    run_to_end(made)
    assert (made.state, made.error, codes_of(made)) == ("done", None, [])
    [(label, state)] = subtitles_of(made).items()
    assert (label, state.status) == ("sub-de", "completed")
    cues = cues_of(state)
    plain = [cue.text.replace("<i>", "").replace("</i>", "") for cue in cues]
    assert plain == [text.replace("<i>", "").replace("</i>", "") for text in TEXTS]
    # ASS counts in hundredths of a second.
    assert [(cue.begin, cue.end) for cue in cues] == pytest.approx(TIMES, abs=10)
    video = next(each for each in made.renditions if each.kind == "video")
    assert state.check is not None
    assert video.check is not None
    assert [each.duration_s for each in state.check.segments] == pytest.approx(
        [each.duration_s for each in video.check.segments]
    )
    # In every segment during which it is shown: segments of two seconds.
    texts = [(state.directory / each.name).read_text() for each in state.check.segments]
    assert ["two" in text for text in texts] == [True, True, True]
    assert ["three" in text for text in texts] == [False, False, True]
    assert of_source(made.spec.facts, one) == []


def test_webvtt_keeps_its_positions_speakers_and_ruby(
    encode: MakeEncode, ffmpeg: FFmpeg, one: Profile, tmp_path: Path
) -> None:
    text = "<v Anna>one <ruby>漢<rt>kan</rt></ruby>"
    script = tmp_path / "words.vtt"
    script.write_text(f"WEBVTT\n\n00:01.000 --> 00:02.000 align:left line:10%\n{text}\n")
    made = encode(film(ffmpeg, tmp_path / "a.mkv", script, "-c:s", "copy"), one)
    run_to_end(made)
    [cue] = cues_of(subtitles_of(made)["sub-und"])
    assert (cue.text, cue.settings.split()) == (text, ["align:left", "line:10%"])


@pytest.mark.parametrize("start", [100, 3600])
def test_times_are_those_of_the_pictures_wherever_the_source_starts(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, words: Path, tmp_path: Path, start: int
) -> None:
    whole = film(ffmpeg, tmp_path / "whole.mkv", words, "-c:s", "srt")
    late = tmp_path / "late.mkv"
    run_ffmpeg(
        ffmpeg,
        *("-i", str(whole), "-map", "0", "-c", "copy", "-output_ts_offset", str(start), f"file:{late}"),
    )
    made = encode(late, one)
    run_to_end(made)
    assert made.state == "done", made.error
    [state] = subtitles_of(made).values()
    assert [(cue.begin, cue.end) for cue in cues_of(state)] == pytest.approx(TIMES, abs=50)


def test_times_that_begin_before_zero_are_not_shifted(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, words: Path, tmp_path: Path
) -> None:
    """As in a file that was cut without encoding: what precedes the cut is hidden by an edit list."""
    whole, cut = film(ffmpeg, tmp_path / "whole.mp4", words, "-c:s", "mov_text"), tmp_path / "cut.mp4"
    run_ffmpeg(ffmpeg, "-ss", "1.0", "-i", str(whole), "-map", "0", "-c", "copy", str(cut))
    made = encode(cut, one)
    run_to_end(made)
    assert made.state == "done", made.error
    [state] = subtitles_of(made).values()
    with av.open(str(cut)) as container:
        packets = [each for each in container.demux(subtitles=0) if len(bytes(each)) > 2]
    times = [(each.pts / 1000, (each.pts + each.duration) / 1000) for each in packets]
    assert times[0][0] < 0, "this is such a file"
    expected = [(max(0, begin), end) for begin, end in times if end > 0]
    assert [(cue.begin, cue.end) for cue in cues_of(state)] == pytest.approx(expected, abs=10)


STYLES = (
    "[Script Info]\nScriptType: v4.00+\nPlayResX: 1280\nPlayResY: 720\n\n[V4+ Styles]\n"
    "Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold,"
    " Italic, Underline, StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, Alignment,"
    " MarginL, MarginR, MarginV, Encoding\n"
    "Style: Default,Arial,40,&HFFFFFF,&HFF,0,0,0,0,0,0,100,100,0,0,1,2,2,2,10,10,10,1\n"
    "Style: Sign,Arial,40,&HFFFFFF,&HFF,0,0,-1,0,0,0,100,100,0,0,1,2,2,8,10,10,10,1\n\n[Events]\n"
    "Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
)
SIGNS = {
    "Default,,0,0,0,,spoken": ("spoken", ""),
    "Default,,0,0,0,,{\\an8}SIGN": ("SIGN", " line:0"),
    "Sign,,0,0,0,,styled": ("<b>styled</b>", " line:0"),
    "Default,,0,0,0,,{\\a6}old": ("old", " line:0"),
    "Default,,0,0,0,,{\\an7\\pos(100,200)}door": ("door", " line:0 position:5% align:left"),
    "Default,,0,0,0,,{\\an6}right": ("right", " line:50% position:95% align:right"),
    "Default,,0,0,0,,{\\an1\\c&H0000FF&}red": ("red", " position:5% align:left"),
    "Default,,0,0,0,,{\\pos(1,2)\\p1}m 0 0 l 100 0 100 100{\\p0}": None,
}
"""What an event says, and text and settings of its cue."""


@pytest.mark.parametrize("name", ["film.mkv", "film.ass"])
def test_text_is_shown_on_its_side_and_what_is_not_kept_is_a_warning(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path, name: str
) -> None:
    script, source = tmp_path / "words.ass", tmp_path / "film.mkv"
    events = [
        f"Dialogue: 0,0:00:0{number // 2}.50,0:00:06.00,{event}\n" for number, event in enumerate(SIGNS)
    ]
    script.write_text(STYLES + "".join(events))
    film(ffmpeg, source, script, "-c:s", "copy")
    if name == "film.ass":
        run_ffmpeg(ffmpeg, "-i", str(source), "-map", "0:v", "-c", "copy", str(tmp_path / "bare.mkv"))
        (tmp_path / "bare.mkv").replace(source)
        script.replace(tmp_path / name)
    made = encode(source, one, poster=False)
    run_to_end(made)
    [state] = subtitles_of(made).values()
    assert [(cue.text, cue.settings) for cue in cues_of(state)] == [
        shown for shown in SIGNS.values() if shown
    ]
    [warning] = made.warnings
    assert warning.code is WarningCode.SUBTITLES_LEFT_OUT
    assert warning.text.partition(": ")[2] == (
        "1 of 8 texts are at an edge of the pictures, not at their place;"
        " 1 of 8 texts are drawings, and are left out"
    )


def test_coordinates_of_a_disc_move_no_text(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    source = tmp_path / "film.mkv"
    run_ffmpeg(ffmpeg, "-f", "lavfi", "-i", "testsrc2=s=160x90:r=25:d=6", *X264, str(source))
    source.with_suffix(".srt").write_text(
        "1\n00:00:01,000 --> 00:00:02,000 X1:201 X2:516 Y1:397 Y2:423\nat its usual place\n\n"
        "2\n00:00:03,000 --> 00:00:04,000\n{\\an8}above\n"
    )
    made = encode(source, one, poster=False)
    run_to_end(made)
    [state] = subtitles_of(made).values()
    assert [(cue.text, cue.settings) for cue in cues_of(state)] == [
        ("at its usual place", ""),
        ("above", " line:0"),
    ]


@pytest.mark.slow
def test_no_line_of_odd_text_is_lost(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    """Empty lines, hard spaces in ASS, drawings and comments, which are no text, bytes that are no UTF-8."""
    script = tmp_path / "words.ass"
    script.write_bytes(
        b"[Script Info]\nScriptType: v4.00+\n\n[Events]\n"
        b"Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
        b"Dialogue: 0,0:00:00.50,0:00:01.50,Default,,0,0,0,,top\\N\\Nbottom\n"
        b"Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{\\p1}m 0 0 l 100 0 100 100{\\p0}\n"
        b"Dialogue: 0,0:00:02.00,0:00:03.00,Default,,0,0,0,,{of the translator}\n"
        b"Dialogue: 0,0:00:03.00,0:00:04.00,Default,,0,0,0,,at{unsure}\\hlast\n"
    )
    made = encode(film(ffmpeg, tmp_path / "a.mkv", script, "-c:s", "copy"), one)
    run_to_end(made)
    [state] = subtitles_of(made).values()
    assert [cue.text for cue in cues_of(state)] == ["top\nbottom", "at\xa0last"]
    # The bytes of the file are changed where they stand: its sizes stay.
    source = tmp_path / "latin.mkv"
    plain = tmp_path / "words.srt"
    plain.write_text("1\n00:00:00,500 --> 00:00:01,500\ncafXX\n\n2\n00:00:02,000 --> 00:00:03,000\ntwo\n")
    content = film(ffmpeg, tmp_path / "b.mkv", plain, "-c:s", "srt").read_bytes()
    assert content.count(b"cafXX") == 1
    source.write_bytes(content.replace(b"cafXX", b"caf\xe9s"))
    made = encode(source, one)
    run_to_end(made)
    [state] = subtitles_of(made).values()
    assert [cue.text for cue in cues_of(state)] == ["cafés", "two"]


def test_a_track_that_fails_beside_kept_video_fails_nothing(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, words: Path, tmp_path: Path
) -> None:
    source = film(ffmpeg, tmp_path / "a.mkv", words, "-c:s", "srt")
    broken = scripted(tmp_path / "ffmpeg", ffmpeg, "*sub-und.srt*) exit 1;;")
    made = encode(source, one, ffmpeg=broken, rungs=(), audio=(), poster=False)
    run_to_end(made)
    assert (made.state, made.error, codes_of(made)) == ("done", None, ["RENDITION_LEFT_OUT"])


def test_names_and_roles_are_those_of_the_tracks(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, words: Path, tmp_path: Path
) -> None:
    source = film(
        ffmpeg,
        tmp_path / "a.mkv",
        words,
        *("-c:s", "srt", "-metadata:s:s:0", "language=eng", "-metadata:s:s:1", "language=eng"),
        *("-disposition:s:1", "forced", "-disposition:s:2", "hearing_impaired"),
        tracks=3,
    )
    made = encode(source, one)
    roles = [(each.name, each.track.role) for each in made.spec.subtitles]
    assert roles == [("sub-en", ""), ("sub-en-2", "forced"), ("sub-und", "captions")]


def test_bitmaps_are_left_out_with_a_warning(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, words: Path, tmp_path: Path
) -> None:
    text = film(ffmpeg, tmp_path / "text.mkv", words, "-c:s", "srt")
    source = tmp_path / "bitmaps.mkv"
    run_ffmpeg(
        ffmpeg,
        *("-i", str(text), "-f", "lavfi", "-i", "color=black@0:s=160x90:r=1:d=1,format=pal8"),
        *("-map", "0", "-c", "copy", f"file:{source}"),
    )
    made = encode(source, one)
    tracks = tuple(replace(track, text=False, codec="dvdsub") for track in made.spec.facts.subtitles)
    [warning] = of_source(replace(made.spec.facts, subtitles=tracks), one)
    assert warning.code is WarningCode.SUBTITLES_LEFT_OUT
    assert "dvdsub" in warning.text
    unwanted = replace(one, subtitle_tracks="none")
    assert [each.code for each in of_source(made.spec.facts, unwanted)] == [WarningCode.SUBTITLES_LEFT_OUT]


def test_text_after_the_video_is_left_out_with_a_warning(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, words: Path, tmp_path: Path
) -> None:
    words.write_text(f"{SRT}\n4\n00:00:06,000 --> 00:00:09,000\nafter\n")
    source = film(ffmpeg, tmp_path / "a.mkv", words, "-c:s", "srt")
    for _ in range(2):  # the second time all is there already
        made = encode(source, one, rungs=(), audio=(), poster=False)
        run_to_end(made)
        [warning] = made.warnings
        assert warning.code is WarningCode.SUBTITLES_LEFT_OUT
        assert warning.text == "sub-und: 1 of 4 texts have no time within the video, and are left out"
        assert len(cues_of(subtitles_of(made)["sub-und"])) == len(TEXTS)


def test_a_track_that_fails_costs_nothing_else(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, words: Path, tmp_path: Path
) -> None:
    source = film(
        ffmpeg, tmp_path / "a.mkv", words, "-c:s", "srt", "-metadata:s:s:1", "language=fre", tracks=2
    )
    broken = scripted(tmp_path / "ffmpeg", ffmpeg, "*sub-fr.srt*) echo 'Invalid data found' >&2; exit 1;;")
    made = encode(source, one, ffmpeg=broken)
    run_to_end(made)
    assert (made.state, made.error, codes_of(made)) == ("done", None, ["RENDITION_LEFT_OUT"])
    assert {name: state.status for name, state in subtitles_of(made).items()} == {
        "sub-und": "completed",
        "sub-fr": "failed",
    }


def test_what_is_converted_is_not_converted_again(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, words: Path, tmp_path: Path
) -> None:
    source = film(ffmpeg, tmp_path / "a.mkv", words, "-c:s", "srt")
    first = encode(source, one)
    run_to_end(first)
    [state] = subtitles_of(first).values()
    again = encode(source, one, poster=False)
    again.start()
    assert (again.state, again.runs) == ("done", [])
    (state.directory / "seg_00001.vtt").unlink()
    third = encode(source, one, poster=False)
    run_to_end(third)
    assert [run.label for run in third.runs] == ["sub-und"]
    assert len(cues_of(subtitles_of(third)["sub-und"])) == 3


GRID = Grid(Fraction(25), 25, 50, 0, 125, Fraction(0), Fraction(0), exact=True)


def test_what_lies_outside_of_the_video_is_cut(tmp_path: Path) -> None:
    cues = [
        Cue(-900, -100, "before"),
        Cue(-500, 700, "across"),
        Cue(4800, 9000, "end"),
        Cue(6000, 7000, "after"),
    ]
    check = webvtt.write(cues, 0, GRID, tmp_path)
    assert [(each.name, each.duration_s, each.frames) for each in check.segments] == [
        ("seg_00000.vtt", 2.0, 1),
        ("seg_00001.vtt", 2.0, 0),
        ("seg_00002.vtt", 1.0, 1),
    ]
    names = [each.name for each in check.segments]
    found = [cue for name in names for cue in webvtt.parse((tmp_path / name).read_text())]
    assert found == [Cue(0, 700, "across"), Cue(4800, 5000, "end")]
    assert webvtt.inspect(tmp_path, names, [2.0, 2.0, 1.0]) == check
    with pytest.raises(TqError) as caught:
        webvtt.write([Cue(6000, 7000, "after")], 0, GRID, tmp_path)
    assert caught.value.code is ErrorCode.OUTPUT_EMPTY


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("X-TIMESTAMP-MAP", "X-TIMESTAMP-CAP"),
        lambda text: text.replace("00:00:00.000 --> 00:00:00.700", "00:00:03.000 --> 00:00:03.700"),
        lambda text: text[:0],
    ],
)
def test_a_damaged_segment_is_found(tmp_path: Path, damage: object) -> None:
    webvtt.write([Cue(0, 700, "text")], 0, GRID, tmp_path)
    path = tmp_path / "seg_00000.vtt"
    path.write_text(damage(path.read_text()))  # type: ignore[operator]
    names = [f"seg_0000{number}.vtt" for number in range(3)]
    with pytest.raises(TqError) as caught:
        webvtt.inspect(tmp_path, names, [2.0, 2.0, 1.0])
    assert caught.value.code is ErrorCode.OUTPUT_INVALID


def test_settings_and_identifiers_are_read() -> None:
    text = (
        "WEBVTT\r\nKind: captions\r\n\r\nNOTE a --> b\r\n\r\nSTYLE\r\n::cue {}\r\n\r\n"
        "id\r\n00:01.000 --> 00:02.000 align:start line:0\r\ntext\r\n\r\n"
        "100:00:00.000 --> 100:00:01.500\r\nlate\r\n\r\n00:03.000 --> 00:04.000\r\n"
    )
    assert webvtt.parse(text) == [
        Cue(1000, 2000, "text", " align:start line:0"),
        Cue(360_000_000, 360_001_500, "late"),
    ]


def test_signs_with_a_meaning_are_escaped(tmp_path: Path) -> None:
    text = "I <3 R&D --> <i>one</i> &amp; <b>two</b> <font color=red> a <c"
    webvtt.write([Cue(0, 700, text)], 0, GRID, tmp_path)
    [cue] = webvtt.parse((tmp_path / "seg_00000.vtt").read_text())
    assert cue.text == "I &lt;3 R&amp;D --&gt; <i>one</i> &amp; <b>two</b> &lt;font color=red> a &lt;c"


def captions_of(content: bytes) -> list[bytes]:
    """The closed captions of each picture, in the order in which they are shown."""
    with av.open(io.BytesIO(content)) as container:
        found = [frame.side_data.get("A53_CC") for frame in container.decode(video=0)]
    return [b"" if each is None else bytes(each) for each in found]


def with_captions(ffmpeg: FFmpeg, folder: Path, pairs: Callable[[int], bytes], seconds: int = 4) -> Path:
    """A clip whose pictures carry pairs of bytes of CEA-608, given by the number of the picture, or none."""
    raw, source = folder / "raw.h264", folder / "captions.mkv"
    pictures = f"testsrc2=s=160x90:r=25:d={seconds}"
    run_ffmpeg(ffmpeg, "-f", "lavfi", "-i", pictures, *X264, "-slices", "1", str(raw))
    parts = re.split(rb"(?=\x00\x00\x01[\x01\x21\x41\x61\x65\x25\x45])", raw.read_bytes())
    content = parts[0]
    for number, part in enumerate(parts[1:]):
        if pair := pairs(number):
            payload = bytes.fromhex("b50031") + b"GA94\x03\xc1\xff\xfc" + pair + b"\xff"
            content += b"\x00\x00\x01\x06\x04" + bytes([len(payload)]) + payload + b"\x80"
        content += part
    raw.write_bytes(content)
    run_ffmpeg(ffmpeg, "-r", "25", "-i", str(raw), "-c", "copy", str(source))
    return source


def shown_at(texts: Mapping[int, str]) -> Callable[[int], bytes]:
    """Pairs of CEA-608 that show texts from pictures on, each until the next; "" for none."""
    pairs: dict[int, tuple[int, int]] = {}
    for picture, text in texts.items():
        letters = [(ord(a), ord(b)) for a, b in zip(text[::2], text[1::2] + "\0", strict=False)]
        # Load the hidden page, clear it, go to its last row; afterwards show it. Each command is sent twice.
        load = [(0x14, 0x20), (0x14, 0x2E), (0x14, 0x70)]
        sent = [each for each in load for _ in range(2)] + letters if text else []
        command = (0x14, 0x2F) if text else (0x14, 0x2C)
        begin = picture - len(sent)
        pairs |= {begin + at: pair for at, pair in enumerate([*sent, command, command])}

    def odd(byte: int) -> int:
        return byte if byte.bit_count() % 2 else byte | 0x80

    return lambda number: bytes(map(odd, pairs.get(number, (0, 0))))


@pytest.mark.parametrize("unseekable", [False, True])
@pytest.mark.parametrize("container", ["mkv", "ts"])
def test_captions_in_the_pictures_become_a_track_too(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, container: str, unseekable: bool, tmp_path: Path
) -> None:
    source = with_captions(ffmpeg, tmp_path, shown_at({25: "HELLO WORLD", 50: "", 80: "AGAIN"}))
    if container == "ts":
        late = tmp_path / "late.ts"
        run_ffmpeg(ffmpeg, "-i", str(source), "-c", "copy", "-output_ts_offset", "7", str(late))
        source = late
    made = encode(source, one, poster=False)
    if unseekable:
        made.spec.mark_unseekable()
        made = encode(source, one, poster=False)
    run_to_end(made)
    assert (made.state, made.error, codes_of(made)) == ("done", None, [])
    assert made.spec.facts.unseekable == unseekable
    [(name, state)] = subtitles_of(made).items()
    [planned] = made.spec.subtitles
    assert (name, planned.track.role, state.status) == ("sub-und", "captions", "completed")
    cues = cues_of(state)
    assert [cue.text for cue in cues] == ["HELLO WORLD", "AGAIN"]
    # A picture lasts 40 ms.
    assert [cue.begin for cue in cues] == pytest.approx([25 * 40, 80 * 40], abs=20)
    assert cues[0].end == pytest.approx(50 * 40, abs=20)


def test_captions_that_begin_late_are_found(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    source = with_captions(ffmpeg, tmp_path, lambda number: b"\x80\x80" if number > 300 else b"", 13)
    facts = probe(os.fsencode(source))
    assert facts.captions
    assert [each.track.role for each in subtitle_renditions(facts, load("web"))] == ["captions"]
    assert of_source(facts, load("web")) == []
    [lost] = of_source(facts, load("archive"))
    assert lost.text == "closed captions other than CC1 are left out, because libsvtav1 cannot carry them"
    marked = replace(facts, video=replace(facts.video, stated_twice="stereo"))
    [lost] = of_source(marked, load("web"))
    assert lost.text.startswith("closed captions other than CC1 are left out, because ffmpeg stops at")
    once_unseekable = replace(facts, unseekable=True)
    assert subtitle_renditions(once_unseekable, load("web")) == subtitle_renditions(facts, load("web"))


def test_a_track_of_captions_becomes_text(
    ffmpeg: FFmpeg, clip: MakeClip, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    scc, source = tmp_path / "captions.scc", tmp_path / "captions.mov"
    shown = "9420 9420 94ae 94ae 9470 9470 c845 4c4c 4f80 942f 942f"
    scc.write_text(f"Scenarist_SCC V1.0\n\n00:00:01:00\t{shown}\n\n00:00:02:00\t942c 942c\n")
    film = clip("plain.mp4", audio=0)
    run_ffmpeg(ffmpeg, "-i", str(film), "-i", str(scc), "-map", "0", "-map", "1", "-c", "copy", str(source))
    made = encode(source, one, poster=False)
    run_to_end(made)
    assert (made.state, made.error, codes_of(made)) == ("done", None, [])
    [state] = subtitles_of(made).values()
    assert [cue.text for cue in cues_of(state)] == ["HELLO"]
    assert [each.track.role for each in made.spec.subtitles] == ["captions"]


def test_captions_without_text_cost_a_warning_only(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    made = encode(with_captions(ffmpeg, tmp_path, lambda _: b"\x80\x80", 2), one, poster=False)
    run_to_end(made)
    assert (made.state, codes_of(made)) == ("done", ["RENDITION_LEFT_OUT"])


@pytest.mark.parametrize("codec", ["h264", pytest.param("hevc", marks=pytest.mark.slow), "av1"])
def test_closed_captions_stay_in_the_pictures(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, codec: str, tmp_path: Path
) -> None:
    """Each picture has another pair of letters."""
    source = with_captions(ffmpeg, tmp_path, lambda number: bytes((0x20 + number % 64, 0x20 + number // 64)))
    made = encode(source, override(one, {"video.codec": codec, "subtitles.tracks": "none"}), poster=False)
    run_to_end(made)
    assert (made.state, made.error, codes_of(made)) == ("done", None, [])
    assert made.spec.facts.captions
    [video] = made.renditions
    names = ["init.mp4", *sorted(path.name for path in video.directory.glob("seg_*.m4s"))]
    published = captions_of(b"".join((video.directory / name).read_bytes() for name in names))
    if CODECS[codec].captions:
        assert published == captions_of(source.read_bytes())
        assert len(set(published)) == 100
    else:
        assert set(published) == {b""}
        [left_out] = of_source(made.spec.facts, made.spec.profile)
        assert left_out.code == WarningCode.SUBTITLES_LEFT_OUT


def test_nothing_is_left_beside_the_store(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, words: Path, tmp_path: Path
) -> None:
    made = encode(film(ffmpeg, tmp_path / "a.mkv", words, "-c:s", "srt"), one, poster=False)
    run_to_end(made)
    assert list(made.spec.scratch.iterdir()) == []
    shutil.rmtree(made.spec.scratch)

"""Subtitle files beside a source become further tracks; one that is wrong costs nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import av
import pytest

from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.text_encoding import decode
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.keys import settings_hash
from tqstudio.engine.media.plan.profiles import Profile, RungSpec
from tqstudio.engine.media.plan.warnings import of_source
from tqstudio.engine.media.segments.webvtt import Cue
from tqstudio.engine.media.source import sidecars, source_file
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.errors import WarningCode

from .conftest import MakeClip, MakeEncode, run_ffmpeg, run_to_end
from .test_ladder_encode import codes_of, scripted
from .test_subtitles import SRT, TEXTS, TIMES, cues_of, film, subtitles_of

FRENCH = "Où êtes-vous allé hier soir ?\nJe ne sais pas, c'était déjà très tard.\nÇa ne fait rien, ma chère."
RUSSIAN = "Привет, как дела?\nЯ не знаю, что тебе сказать.\nМы должны идти прямо сейчас."


@pytest.fixture
def one(small: Profile) -> Profile:
    return replace(small, rungs=(RungSpec(90, 120),))


@pytest.fixture
def source(clip: MakeClip, tmp_path: Path) -> Path:
    """A video of six seconds in a folder of its own."""
    path = tmp_path / "films" / "film.mp4"
    path.parent.mkdir()
    os.link(clip("beside.mp4", size="160x90", audio=0, seconds=6), path)
    return path


def srt(text: str) -> str:
    """One cue for each line, one after the other."""
    lines = enumerate(text.splitlines())
    return "\n".join(f"{n + 1}\n00:00:0{n},000 --> 00:00:0{n},900\n{line.strip()}\n" for n, line in lines)


def found(path: Path) -> list[tuple[str, str, str, str, str]]:
    tracks = sidecars.find(os.fsencode(path)).tracks
    return [(os.fsdecode(t.file), t.codec, t.language, t.role, t.title) for t in tracks]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("film.srt", ("subrip", "und", "", "")),
        ("film.de.srt", ("subrip", "de", "", "")),
        ("film.mp4.srt", ("subrip", "und", "", "")),
        ("film.Sub.srt", ("subrip", "und", "", "Sub")),
        ("film.fil.srt", ("subrip", "fil", "", "")),
        ("film.MP4.de.srt", ("subrip", "de", "", "")),
        ("film.de.default.srt", ("subrip", "de", "", "")),
        ("film.ger.forced.ass", ("ass", "de", "forced", "")),
        ("film.pt-BR.VTT", ("webvtt", "pt-BR", "", "")),
        ("film.eng.sdh.ssa", ("ass", "en", "captions", "")),
        ("film.en.cc.srt", ("subrip", "en", "captions", "")),
        ("film.en.hi.srt", ("subrip", "en", "captions", "")),
        ("film.hi.srt", ("subrip", "hi", "", "")),
        ("film.hi.forced.srt", ("subrip", "hi", "forced", "")),
        ("film.forced.srt", ("subrip", "und", "forced", "")),
        ("film.Directors cut.srt", ("subrip", "und", "", "Directors cut")),
        ("film.Directors.cut\n.en.srt", ("subrip", "en", "", "Directors cut")),
        (os.fsdecode(b"film.caf\xe9.srt"), ("subrip", "und", "", "caf\ufffd")),
    ],
)
def test_names_tell_language_and_role(source: Path, name: str, expected: tuple[str, ...]) -> None:
    (source.parent / name).write_text(SRT)
    assert found(source) == [(name, *expected)]


def test_names_are_compared_by_their_bytes(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.mkv")
    (tmp_path / os.fsdecode(b"caf\xe9.de.srt")).write_text(SRT)
    (tmp_path / "caf\ufffd.de.srt").write_text(SRT)
    (tmp_path / "café.de.srt").write_text(SRT)
    assert [name for name, *_ in found(path)] == [os.fsdecode(b"caf\xe9.de.srt")]


def test_files_of_another_video_and_other_files_are_left_alone(source: Path) -> None:
    for name in ("film.two.mkv", "film.two.de.srt", "film.two.srt", "films.srt", "Film.srt", "film.de.txt"):
        (source.parent / name).write_text(SRT)
    (source.parent / "film.de.srt").write_text(SRT)
    assert [name for name, *_ in found(source)] == ["film.de.srt"]
    assert [name for name, *_ in found(source.parent / "film.two.mkv")] == ["film.two.de.srt", "film.two.srt"]


def test_what_is_no_readable_file_is_reported_by_its_name(source: Path, tmp_path: Path) -> None:
    folder, secret = source.parent, tmp_path / "secret"
    secret.write_text(SRT)
    (folder / "film.link.srt").symlink_to(secret)
    (folder / "film.folder.srt").mkdir()
    os.mkfifo(folder / "film.pipe.srt")
    with (folder / "film.large.srt").open("wb") as file:
        file.truncate(sidecars.LARGEST + 1)
    (folder / "film.de.srt").write_text(SRT)
    looked = sidecars.find(os.fsencode(source))
    assert [os.fsdecode(track.file) for track in looked.tracks] == ["film.de.srt"]
    assert [(each.code, each.text.split()[0]) for each in looked.warnings] == [
        (WarningCode.SUBTITLES_LEFT_OUT, f"film.{kind}.srt") for kind in ("folder", "large", "link", "pipe")
    ]


def test_files_that_are_not_read_are_named(source: Path) -> None:
    for name in (
        "film.idx",
        "film.sub",
        *(f"film.{number:02}.srt" for number in range(sidecars.MAX_SIDECARS + 4)),
    ):
        (source.parent / name).write_text(SRT)
    looked = sidecars.find(os.fsencode(source))
    assert len(looked.tracks) == sidecars.MAX_SIDECARS
    [warning] = looked.warnings
    assert warning.code is WarningCode.SUBTITLES_LEFT_OUT
    assert "film.64.srt, film.65.srt, film.66.srt, film.67.srt and 2 more" in warning.text


def test_a_folder_that_is_kept_open_is_read_even_if_another_one_takes_its_place(
    source: Path, tmp_path: Path
) -> None:
    (source.parent / "film.de.srt").write_text(SRT)
    path = os.fsencode(source)
    with source_file.keep_open(path, os.fsencode(tmp_path)):
        [track] = sidecars.find(path).tracks
        source.parent.rename(tmp_path / "moved")
        source.parent.mkdir()
        (source.parent / "film.fr.srt").write_text("secret")
        assert sidecars.find(path).tracks == (track,)
        assert sidecars.read(path, track) == SRT.encode()


def made_with(encode: MakeEncode, source: Path, profile: Profile) -> LadderEncode:
    made = encode(source, profile, poster=False)
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    return made


@pytest.mark.parametrize(
    ("name", "encoding", "text"),
    [
        ("film.ru.srt", "cp1251", RUSSIAN),
        ("film.srt", "koi8-r", RUSSIAN),
        pytest.param("film.fr.srt", "latin-1", FRENCH, marks=pytest.mark.more),
        pytest.param("film.srt", "latin-1", FRENCH, marks=pytest.mark.more),
        ("film.srt", "utf-16", RUSSIAN),
        pytest.param("film.srt", "utf-16-be", FRENCH, marks=pytest.mark.more),
        pytest.param("film.srt", "utf-8-sig", RUSSIAN, marks=pytest.mark.more),
        ("film.srt", "utf-8", "I ♥ you"),
    ],
)
def test_text_is_read_in_its_encoding(
    encode: MakeEncode, one: Profile, source: Path, name: str, encoding: str, text: str
) -> None:
    (source.parent / name).write_bytes(srt(text).replace("\n", "\r\n").encode(encoding))
    made = made_with(encode, source, one)
    [state] = subtitles_of(made).values()
    assert [cue.text for cue in cues_of(state)] == [line.strip() for line in text.splitlines()]
    assert codes_of(made) == []


@pytest.mark.parametrize(
    ("language", "encoding", "text"),
    [
        ("pl", "cp1250", "Gdzie jesteś, kochanie?\nDziękuję za wszystko, przyjacielu."),
        ("hu", "cp1250", "Hol voltál tegnap este?\nŐ soha nem fog visszajönni, tűnődöm."),
        ("tr", "cp1254", "Dün gece neredeydin?\nŞimdi gitmemiz gerekiyor, değil mi?"),
        ("lt", "cp1257", "Nežinau, jau buvo per vėlu.\nAčiū už viską, mano drauge."),
        ("el", "cp1253", "Πού ήσουν χθες το βράδυ;\nΔεν ξέρω, ήταν ήδη πολύ αργά."),
        ("he", "cp1255", "איפה היית אתמול בלילה?\nאני לא יודע, היה מאוחר מדי."),
        ("ja", "cp932", "昨夜はどこにいたの?\n分からない、もう遅かった。"),
        ("zh-TW", "big5", "你昨晚在哪裡?\n我不知道,已經太晚了。"),
        ("sv", "cp1252", "Var var du igår kväll?\nJag vet inte – det var för sent…"),
    ],
)
def test_the_language_decides_between_likely_encodings(language: str, encoding: str, text: str) -> None:
    assert decode(srt(text).encode(encoding), language) == srt(text)


@pytest.mark.parametrize(
    ("damage", "shown"), [(b"\xff\xd0", "\ufffd\ufffd"), (b"\0", ""), (b"\0" * 1000, "")]
)
def test_damage_does_not_turn_utf8_into_another_encoding(damage: bytes, shown: str) -> None:
    assert decode(srt(RUSSIAN).encode() + damage, "ru") == srt(RUSSIAN) + shown


ASS = (
    "[Script Info]\nScriptType: v4.00+\n\n[Events]\n"
    "Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
    "Dialogue: 0,0:00:00.50,0:00:01.50,Default,,0,0,0,,{\\i1}one{\\i0}\n"
)
VTT = "WEBVTT\n\nid\n00:00.500 --> 00:01.500 line:0 align:start\n<v Ann>one\n"


@pytest.mark.parametrize(
    ("name", "text", "cue"),
    [
        ("film.ass", ASS, Cue(500, 1500, "<i>one</i>")),
        ("film.ssa", ASS, Cue(500, 1500, "<i>one</i>")),
        ("film.vtt", VTT, Cue(500, 1500, "<v Ann>one", " line:0 align:start")),
    ],
)
def test_every_format_is_shown_at_its_time(
    encode: MakeEncode, one: Profile, source: Path, name: str, text: str, cue: Cue
) -> None:
    (source.parent / name).write_text(text)
    [state] = subtitles_of(made_with(encode, source, one)).values()
    assert cues_of(state) == [cue]


def late(ffmpeg: FFmpeg, path: Path, start: str, *delay: str) -> Path:
    """Six seconds with sound; `delay` are options for the input of the pictures."""
    seconds = 8 if delay else 6
    run_ffmpeg(
        ffmpeg,
        *(*delay, "-f", "lavfi", "-i", "testsrc2=s=160x90:r=25:d=6"),
        *("-f", "lavfi", "-i", f"sine=d={seconds}", "-map", "0", "-map", "1", "-output_ts_offset", start),
        *("-c:v", "libx264", "-preset", "ultrafast", "-g", "25", "-c:a", "aac", f"file:{path}"),
    )
    return path


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "start", "delay"),
    [
        ("film.mkv", "78", ()),
        ("film.ts", "78", ()),
        ("film.mkv", "0", ("-itsoffset", "2")),
        ("film.mp4", "0", ("-itsoffset", "2")),
        pytest.param("film.ts", "0", ("-itsoffset", "2"), marks=pytest.mark.more),
        pytest.param("film.mp4", "0", (), marks=pytest.mark.more),
    ],
)
def test_times_count_from_the_start_as_players_count_them(
    ffmpeg: FFmpeg,
    encode: MakeEncode,
    one: Profile,
    tmp_path: Path,
    name: str,
    start: str,
    delay: tuple[str, ...],
) -> None:
    source, words = late(ffmpeg, tmp_path / name, start, *delay), tmp_path / "film.srt"
    words.write_text(SRT)
    made = made_with(encode, source, one)
    # ffmpeg puts both together as a player does.
    both = tmp_path / "both.mkv"
    run_ffmpeg(
        ffmpeg,
        *("-i", str(source), "-i", str(words), "-map", "0", "-map", "1", "-c", "copy", "-c:s", "srt"),
        str(both),
    )
    times: dict[str, list[float]] = {"video": [], "audio": [], "subtitle": []}
    with av.open(str(both)) as container:
        for packet in container.demux():
            if packet.pts is not None and packet.time_base is not None:
                times[packet.stream.type].append(float(packet.pts * packet.time_base))
    shown = [begin - min(times["video"]) for begin in times["subtitle"]]
    [state] = subtitles_of(made).values()
    grid = made.spec.grid
    begins = [cue.begin / 1000 - grid.head / grid.fps for cue in cues_of(state)]
    assert begins == pytest.approx(shown, abs=0.03)


def test_times_are_right_in_a_source_that_is_decoded_from_its_start(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    """AVI has no times of presentation."""
    source = tmp_path / "film.avi"
    run_ffmpeg(
        ffmpeg,
        *("-f", "lavfi", "-i", "testsrc2=s=160x90:r=25:d=6", "-f", "lavfi", "-i", "sine=d=6"),
        *("-c:v", "mpeg4", "-bf", "2", "-c:a", "mp2", str(source)),
    )
    source.with_suffix(".srt").write_text(SRT)
    made = made_with(encode, source, one)
    assert made.spec.facts.unseekable
    [state] = subtitles_of(made).values()
    assert [(cue.begin, cue.end) for cue in cues_of(state)] == pytest.approx(TIMES, abs=40)


def test_files_come_after_the_tracks_of_the_source(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    words = tmp_path / "words.srt"
    words.write_text(SRT)
    source = film(ffmpeg, tmp_path / "film.mkv", words, "-c:s", "srt", "-metadata:s:s:0", "language=ger")
    (tmp_path / "film.de.forced.srt").write_text(SRT)
    (tmp_path / "film.fr.srt").write_text(SRT)
    made = made_with(encode, source, one)
    states = subtitles_of(made)
    assert {name: state.status for name, state in states.items()} == dict.fromkeys(
        ("sub-de", "sub-de-2", "sub-fr"), "completed"
    )
    assert [(each.name, each.track.role) for each in made.spec.subtitles][1] == ("sub-de-2", "forced")
    for state in states.values():
        cues = cues_of(state)
        assert [cue.text.replace(" & ", " &amp; ") for cue in cues] == TEXTS
        assert [(cue.begin, cue.end) for cue in cues] == TIMES


def test_a_changed_file_changes_its_own_rendition_alone(
    encode: MakeEncode, one: Profile, source: Path
) -> None:
    for name in ("film.de.srt", "film.fr.srt"):
        (source.parent / name).write_text(SRT)
    first = made_with(encode, source, one)
    (source.parent / "film.fr.srt").write_text(SRT.replace("two", "deux"))
    second = made_with(encode, source, one)
    assert [run.label for run in second.runs] == ["sub-fr"]
    assert cues_of(subtitles_of(second)["sub-fr"])[1].text.startswith("deux")
    keys = [{state.name: state.settings_hash for state in made.renditions} for made in (first, second)]
    assert {name for name in keys[0] if keys[0][name] != keys[1][name]} == {"sub-fr"}


def test_another_name_is_another_rendition(encode: MakeEncode, one: Profile, source: Path) -> None:
    """The name decides the role, which a kept rendition would not get."""

    def key() -> str:
        made = encode(source, one)
        [rendition] = made.spec.subtitles
        return settings_hash("content", one, rendition, made.spec.facts)

    path = source.parent / "film.de.srt"
    path.write_text(SRT)
    before = key()
    path.rename(source.parent / "film.de.forced.srt")
    assert key() != before


@pytest.mark.parametrize(
    "content",
    [b"", b"no subtitles at all\n", bytes(range(256)) * 20, b"#EXTM3U\n#EXTINF:1,\nother.srt\n"],
)
def test_a_file_that_is_no_subtitles_is_left_out_by_its_name(
    encode: MakeEncode, one: Profile, source: Path, content: bytes
) -> None:
    (source.parent / "film.de.srt").write_bytes(content)
    (source.parent / "film.fr.srt").write_text(SRT)
    (source.parent / "other.srt").write_text(SRT)
    made = made_with(encode, source, one)
    assert {name: state.status for name, state in subtitles_of(made).items()} == {
        "sub-de": "failed",
        "sub-fr": "completed",
    }
    [warning] = made.warnings
    assert warning.code is WarningCode.RENDITION_LEFT_OUT
    assert "film.de.srt" in warning.text


def remove(path: Path) -> None:
    path.unlink()


def lengthen(path: Path) -> None:
    with path.open("a") as file:
        file.write("\n4\n00:00:03,000 --> 00:00:03,900\nfour\n")


@pytest.mark.parametrize("change", [remove, lengthen])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_file_that_changes_meanwhile_is_left_out(
    ffmpeg: FFmpeg,
    encode: MakeEncode,
    one: Profile,
    source: Path,
    change: Callable[[Path], None],
    when: str,
    tmp_path: Path,
) -> None:
    path, go = source.parent / "film.de.srt", tmp_path / "go"
    path.write_text(SRT)
    os.mkfifo(go)
    held = scripted(tmp_path / "ffmpeg", ffmpeg, f"*90p/index*) read _ < {go};;")
    made = encode(source, one, poster=False, ffmpeg=held)
    if when == "before":
        change(path)
        made.start()
    else:
        run_to_end(made, lambda: subtitles_of(made)["sub-de"].status == "completed")
        change(path)
    with go.open("w") as file:
        file.write("\n")
    run_to_end(made)
    assert (made.state, codes_of(made)) == ("done", ["RENDITION_LEFT_OUT"])
    assert subtitles_of(made)["sub-de"].status == "failed"
    assert "film.de.srt" in made.warnings[0].text


def test_unwanted_files_are_named(encode: MakeEncode, one: Profile, source: Path) -> None:
    (source.parent / "film.de.srt").write_text(SRT)
    unwanted = replace(one, subtitle_tracks="none")
    made = encode(source, unwanted)
    [warning] = of_source(made.spec.facts, unwanted)
    assert warning.code is WarningCode.SUBTITLES_LEFT_OUT
    assert "film.de.srt (de, subrip)" in warning.text


def test_facts_keep_their_files(encode: MakeEncode, one: Profile, source: Path) -> None:
    (source.parent / "film.de.srt").write_text(SRT)
    facts = encode(source, one).spec.facts
    assert SourceFacts.from_json(facts.to_json()) == facts
    (source.parent / "film.de.srt").unlink()
    assert sidecars.renewed(facts, os.fsencode(source)).subtitles == ()
    gone = source.parent.parent / "gone" / "film.mp4"
    assert sidecars.renewed(facts, os.fsencode(gone)) == facts, "not known, so not changed"

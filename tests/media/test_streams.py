"""Which streams of a source are found, and how long they are when the clock restarts within them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.warnings import of_source
from tqstudio.engine.media.source.facts import OmittedStream, SourceFacts
from tqstudio.engine.media.source.probe import probe, probe_head

from .conftest import MakeEncode, run_ffmpeg, run_to_end

_PICTURES = ("-f", "lavfi", "-i", "testsrc2=s=160x90:r=25:d=3")
_X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p")


def _tone(pitch: int, seconds: int = 3, layout: str = "stereo", rate: int = 48000) -> tuple[str, ...]:
    tone = "|".join([f"0.3*sin(2*PI*{pitch}*t)"] * (2 if layout == "stereo" else 1))
    return "-f", "lavfi", "-i", f"aevalsrc='{tone}':c={layout}:s={rate}:d={seconds}"


def _part(ffmpeg: FFmpeg, path: Path, *arguments: str) -> bytes:
    run_ffmpeg(ffmpeg, *arguments, str(path))
    return path.read_bytes()


def _probed(path: Path) -> SourceFacts:
    facts = probe(os.fsencode(path))
    assert SourceFacts.from_json(facts.to_json()) == facts
    return facts


def _warned(facts: SourceFacts) -> list[str]:
    return [warning.text for warning in of_source(facts, profiles.load("web"))]


def test_tracks_of_another_programme_are_left_out(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    path = tmp_path / "two.ts"
    run_ffmpeg(
        ffmpeg,
        *(*_tone(400), *_PICTURES, *_tone(500), *_PICTURES, *_tone(600)),
        *("-map", "0", "-map", "1", "-map", "2", "-map", "3", "-map", "4", *_X264, "-c:a", "aac"),
        *("-program", "st=0", "-program", "st=1:st=2", "-program", "st=3:st=4", str(path)),
    )
    facts = probe_head(os.fsencode(path))
    assert (facts.video.index, [track.index for track in facts.audio]) == (1, [2])
    assert set(facts.omitted) == {
        OmittedStream(0, "audio", "programme"),
        OmittedStream(3, "video", "other"),
        OmittedStream(4, "audio", "programme"),
    }
    [text] = _warned(facts)
    assert "stream 3 (another video)" in text
    assert "stream 0 (audio of another programme)" in text


def test_a_track_that_begins_late_is_left_out(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    """After the 5 MB in which ffmpeg looks for streams; it also reads the end of the file."""
    noise = ("-f", "lavfi", "-i", "color=s=640x360:r=25:d=3,noise=alls=100:allf=t")
    dense = ("-c:v", "mpeg2video", "-q:v", "1", "-c:a", "aac", "-muxdelay", "0", "-output_ts_offset")
    one = (*noise, *_tone(500))
    first, last = (_part(ffmpeg, tmp_path / f"{at_s}.ts", *one, *dense, f"{at_s}") for at_s in (10, 16))
    assert len(first) > 6_000_000
    two = (*one, *_tone(600), "-map", "0", "-map", "1", "-map", "2")
    path = tmp_path / "late.ts"
    path.write_bytes(first + _part(ffmpeg, tmp_path / "13.ts", *two, *dense, "13") + last)
    facts = _probed(path)
    assert [track.index for track in facts.audio] == [1]
    assert facts.omitted == (OmittedStream(2, "audio", "late"),)
    assert facts.duration_s == pytest.approx(9, abs=0.2)
    assert "begins after the first seconds" in _warned(facts)[0]


@pytest.mark.parametrize("codec", ["libopus", "libvorbis", "flac"])
def test_sound_whose_clock_restarts_is_published_whole(ffmpeg: FFmpeg, tmp_path: Path, codec: str) -> None:
    path = tmp_path / "chained.ogg"
    parts = [_part(ffmpeg, tmp_path / f"{pitch}.ogg", *_tone(pitch), "-c:a", codec) for pitch in (500, 600)]
    path.write_bytes(b"".join(parts))
    facts = _probed(path)
    assert facts.unseekable
    assert facts.duration_s == pytest.approx(6, abs=0.1)
    assert not facts.damage


def test_sound_that_ffmpeg_cannot_follow_breaks_off(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    path = tmp_path / "chained.ogg"
    parts = [
        _part(ffmpeg, tmp_path / f"{layout}.ogg", *_tone(500, layout=layout), "-c:a", "libvorbis")
        for layout in ("stereo", "mono")
    ]
    path.write_bytes(b"".join(parts))
    [damage] = _probed(path).damage
    assert (damage.kind, damage.at_s) == ("cut", pytest.approx(3, abs=0.1))


@pytest.mark.parametrize(("ending", "header"), [("mkv", 0), ("flv", 13)])
def test_a_clock_that_goes_back_is_damage_where_nothing_corrects_it(
    ffmpeg: FFmpeg, tmp_path: Path, ending: str, header: int
) -> None:
    path = tmp_path / f"twice.{ending}"
    part = _part(ffmpeg, tmp_path / f"once.{ending}", *_PICTURES, *_tone(500), *_X264, "-c:a", "aac")
    path.write_bytes(part + part[header:])
    facts = _probed(path)
    [damage] = [each for each in facts.damage if each.kind == "restart"]
    assert damage.at_s == pytest.approx(3, abs=0.2)
    assert "goes back at 0:0" in _warned(facts)[0]


@pytest.mark.parametrize("ending", ["mkv", "flv", "ts"])
@pytest.mark.parametrize("sound", [True, False])
def test_a_screen_on_which_nothing_moves_is_no_damage(
    ffmpeg: FFmpeg, tmp_path: Path, ending: str, sound: bool
) -> None:
    """Recorders make no picture meanwhile; nothing says that any is missing, and the sound goes on."""
    path = tmp_path / f"still.{ending}"
    paused = ("-vf", "select='not(between(t,1,2.3))'", "-fps_mode", "vfr")
    tones = (*_tone(500), "-c:a", "aac") if sound else ()
    run_ffmpeg(ffmpeg, *_PICTURES, *tones, *paused, *_X264, str(path))
    facts = _probed(path)
    assert (facts.damage, facts.video.vfr) == ((), False)
    assert facts.video.duration_s == pytest.approx(3, abs=0.05)


@pytest.mark.parametrize("ending", ["mkv", "flv", "ts"])
def test_data_that_cannot_be_read_are_a_hole_without_sound_too(
    ffmpeg: FFmpeg, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"lost.{ending}"
    # Key frames, from which it is decoded without an error.
    often = ("-g", "5", "-cluster_time_limit", "200") if ending == "mkv" else ("-g", "5")
    run_ffmpeg(ffmpeg, *_PICTURES, *_X264, *often, str(path))
    content = bytearray(path.read_bytes())
    begin, end = (len(content) * third // 3 // 188 * 188 for third in (1, 2))
    content[begin:end] = bytes(end - begin) if ending == "mkv" else b""
    path.write_bytes(content)
    assert "hole" in {damage.kind for damage in _probed(path).damage}


@pytest.mark.parametrize("ending", ["mkv", "mp4", "ts"])
def test_a_long_gap_in_the_sound_is_damage(ffmpeg: FFmpeg, tmp_path: Path, ending: str) -> None:
    """Of more than ten seconds, in which a clock could have changed."""
    path = tmp_path / f"gap.{ending}"
    slow = ("-f", "lavfi", "-i", "testsrc2=s=160x90:r=5:d=20")
    gap = ("-bsf:a", r"noise=drop=between(pts*tb\,5\,16)")
    run_ffmpeg(ffmpeg, *slow, *_tone(500, 20), *_X264, "-c:a", "aac", *gap, str(path))
    [damage] = _probed(path).damage
    assert (damage.kind, damage.at_s) == ("hole", pytest.approx(5, abs=0.1))
    assert damage.length_s == pytest.approx(11, abs=0.1)
    assert "gap at 0:0" in _warned(_probed(path))[0]


def test_pictures_that_are_shown_much_later_than_decoded_are_no_damage(
    ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    """The first packets of Matroska have presentation times alone."""
    path = tmp_path / "slow.mkv"
    slow = ("-f", "lavfi", "-i", "testsrc2=s=160x90:r=5:d=20", "-c:v", "libx265", "-x265-params")
    run_ffmpeg(ffmpeg, *slow, "log-level=error", str(path))
    assert _probed(path).damage == ()


@pytest.mark.parametrize(
    "between",
    [b"", bytes(4), pytest.param(b"G\0\0" * 777, marks=pytest.mark.slow)],
    ids=["ts", "m2ts", "garbage"],
)
def test_a_stream_that_changes_its_codec_is_noticed(ffmpeg: FFmpeg, tmp_path: Path, between: bytes) -> None:
    """Also where packets have times between them, or garbage is among them; its tables are long."""
    path = tmp_path / "changes.ts"
    tracks = ("-map", "0", *("-map", "1") * 30, *("-t", "1.5", "-mpegts_flags", "initial_discontinuity"))
    parts = [
        _part(ffmpeg, tmp_path / f"{codec}.ts", *_PICTURES, *_tone(500), *tracks, *_X264, "-c:a", codec, *at)
        for codec, at in (("mp2", ()), ("ac3", ("-output_ts_offset", "1.5")))
    ]
    stream = b"".join(parts)
    if len(between) == 4:
        stream = b"".join(between + stream[at : at + 188] for at in range(0, len(stream), 188))
    else:
        stream = stream[:10_000] + between + stream[10_000:]
    path.write_bytes(stream)
    [damage] = [each for each in probe(os.fsencode(path)).damage if each.kind == "codec"]
    assert damage.at_s == pytest.approx(1.5, abs=0.3)
    # A table that breaks off in the last packet is none.
    path.write_bytes(parts[0] + parts[0] + b"G\x40\0\x10" + b"\xff" * 184)
    assert not [each for each in probe(os.fsencode(path)).damage if each.kind == "codec"]


@pytest.mark.parametrize(("begin", "end"), [(0.0, 0.3), (0.4, 0.6), (0.5, 1.0)])
def test_parts_that_are_encrypted_are_damage(
    ffmpeg: FFmpeg, tmp_path: Path, begin: float, end: float
) -> None:
    path = tmp_path / "part.ts"
    clear = _part(ffmpeg, path, *_PICTURES, *_tone(500), *_X264, "-g", "5", "-c:a", "aac")
    content = bytearray(clear)
    for at in range(0, len(content), 188):
        is_media = content[at + 1] & 0x1F == 1  # PIDs 256 and 257, not the tables
        if is_media and begin <= at / len(content) < end:
            content[at + 3] |= 0x80
            content[at + 4 : at + 188] = bytes(byte ^ 0x5A for byte in content[at + 4 : at + 188])
    path.write_bytes(content)
    [damage] = [each for each in _probed(path).damage if each.kind == "encrypted"]
    assert damage.at_s == pytest.approx(3 * begin, abs=0.6)
    assert any(text.startswith("parts of the source are encrypted") for text in _warned(_probed(path)))


def test_a_stream_whose_codec_is_not_recognised_is_left_out_with_a_warning(
    ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    """As AV1 in a transport stream, of which only the sound is left."""
    path = tmp_path / "av1.ts"
    coded = ("-c:v", "libsvtav1", "-preset", "12", "-pix_fmt", "yuv420p", "-c:a", "aac")
    run_ffmpeg(ffmpeg, *_PICTURES, *_tone(500), *coded, str(path))
    facts = _probed(path)
    assert facts.video.still
    assert facts.omitted == (OmittedStream(0, "data", "unknown"),)
    assert "stream 0 (of a codec that ffmpeg does not recognise)" in _warned(facts)[0]


def test_a_language_that_looks_like_a_stream_is_none(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    path = tmp_path / "odd.mkv"
    run_ffmpeg(ffmpeg, *_PICTURES, *_X264, "-metadata:s:v:0", "language=en:GB", str(path))
    assert _probed(path).omitted == ()


@pytest.mark.parametrize("which", ["decode", "presentation"])
def test_many_pictures_of_one_time_at_the_start_of_a_changing_clock(
    ffmpeg: FFmpeg, encode: MakeEncode, tmp_path: Path, which: str
) -> None:
    """What is planned is what ffmpeg makes of them."""
    exact = ("-muxdelay", "0", "-muxpreload", "0")
    tones = (*_tone(500), "-c:a", "aac")
    often = ("-c:v", "libx264", "-preset", "veryfast", "-bf", "2", "-g", "10", "-pix_fmt", "yuv420p")
    first = bytearray(_part(ffmpeg, tmp_path / "first.ts", *_PICTURES, *tones, *often, *exact))
    later = ("-output_ts_offset", "100")
    then = _part(ffmpeg, tmp_path / "then.ts", *_PICTURES, *tones, *often, *exact, *later)
    places = list(_times_of_pictures(first))
    for place in places[:25]:
        for at in place[:1] if which == "presentation" else place[1:]:
            kind = first[at] & 0xF0
            first[at : at + 5] = first[places[25][0] :][:5]
            first[at] = first[at] & 0x0F | kind
    source = tmp_path / "one.ts"
    source.write_bytes(bytes(first) + then)
    made = encode(source, poster=False)
    assert made.spec.facts.unseekable
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    frames = [state.check.frames for state in made.renditions if state.check and state.kind == "video"]
    assert frames == [pytest.approx(150, abs=6)] * len(frames)
    assert made.spec.grid.total_frames == pytest.approx(frames[0], abs=3)


def _times_of_pictures(content: bytearray) -> Iterator[tuple[int, ...]]:
    """Where the pictures of a transport stream state when they are shown, and when decoded if apart."""
    for packet in range(0, len(content), 188):
        at = packet + 4 + (1 + content[packet + 4] if content[packet + 3] & 0x20 else 0)
        if content[packet + 1 : packet + 3] == b"A\0" and content[at : at + 3] == b"\0\0\1":
            yield (at + 9, at + 14) if content[at + 7] & 0x40 else (at + 9,)

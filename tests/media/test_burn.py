"""Bitmap subtitles become part of the pictures: of every quality, in their place, while they are shown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import av
import pytest

from pgs import Box, sup
from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.burn import placed
from tqstudio.engine.media.plan.profiles import Profile, override
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.plan.subtitles import Burnt, burnt_subtitles
from tqstudio.engine.media.plan.warnings import of_source
from tqstudio.engine.media.source.facts import NO_PICTURE, AudioTrack, SourceFacts, SubtitleTrack
from tqstudio.engine.media.source.probe import probe
from tqstudio.errors import WarningCode

from .conftest import MakeEncode, leave, run_ffmpeg, run_to_end
from .test_ladder_encode import codes_of
from .test_measure import rows
from .test_resume import streams, video_of

RUNGS = (Rung("144p", 256, 144, 2000, crf=10), Rung("72p", 128, 72, 1000, crf=10))
GREY = "color=gray:s={size}:r=25:d={seconds},format=yuv420p"
H264 = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "25")
LANGUAGE = ("-metadata:s:s:0", "language=ger")
CANVAS = 1280, 720
BOXES = (Box(0.48, 1, 320, 480, 320, 160), Box(1.2, 3.6, 800, 80, 160, 240, forced=True))


def film(
    ffmpeg: FFmpeg,
    path: Path,
    *tracks: bytes,
    canvas_of: str = "256x144",
    seconds: float = 4,
    options: tuple[str, ...] = (),
    video: tuple[str, ...] = H264,
) -> Path:
    """Grey pictures with tracks of PGS."""
    inputs: list[str] = []
    for number, track in enumerate(tracks):
        beside = path.with_suffix(f".{number}.sup")
        beside.write_bytes(track)
        # Only PGS ends a bitmap with the next packet.
        inputs += ["-fix_sub_duration", "-i", str(beside)]
    maps = [word for number in range(len(tracks) + 1) for word in ("-map", str(number))]
    picture = ("-copyts", "-f", "lavfi", "-i", GREY.format(size=canvas_of, seconds=seconds))
    run_ffmpeg(ffmpeg, *picture, *inputs, *maps, "-c:s", "copy", *video, *options, str(path))
    return path


def lit(stream: bytes) -> list[tuple[int, int, int, int] | None]:
    """Where each published picture is white: left, top, right and bottom in thousandths, or None."""
    found: list[tuple[int, int, int, int] | None] = []
    for picture in rows(stream):
        ys = [y for y, row in enumerate(picture) if max(row) > 190]
        xs = [x for row in picture for x, value in enumerate(row) if value > 190]
        across, down = len(picture[0]) / 1000, len(picture) / 1000
        edges = (min(xs) / across, min(ys) / down, (max(xs) + 1) / across, (max(ys) + 1) / down) if xs else ()
        found.append(tuple(map(round, edges)) or None)  # type: ignore[arg-type]
    return found


def expected(boxes: Sequence[Box], count: int) -> list[tuple[int, object]]:
    """What `runs_of` returns for pictures in the shape of the canvas, by the boxes."""
    runs: list[tuple[int, object]] = []
    done = 0
    for box in boxes:
        edges = (box.x, box.y, box.x + box.width, box.y + box.height)
        place = pytest.approx([1000 * edge / CANVAS[n % 2] for n, edge in enumerate(edges)], abs=16)
        first, end = round(box.from_s * 25), min(count, round(box.to_s * 25))
        runs += [(first - done, None), (end - first, place)]
        done = end
    return [*runs, (count - done, None)] if done < count else runs


def runs_of(shown: Sequence[tuple[int, ...] | None]) -> list[tuple[int, object]]:
    """How many pictures in a row show the same."""
    return [(len(list(some)), place and list(place)) for place, some in groupby(shown)]


def burnt(encode: MakeEncode, source: Path, profile: Profile, burn: str, **changes: object) -> LadderEncode:
    made = encode(source, override(profile, {"subtitles.burn": burn}), rungs=RUNGS, poster=False, **changes)
    made.warnings.extend(of_source(made.spec.facts, made.spec.profile))
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    return made


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("film.mkv", "copy"),
        pytest.param("film.dvd.mkv", "dvdsub", marks=pytest.mark.slow),
        pytest.param("film.dvb.ts", "dvbsub", marks=pytest.mark.slow),
    ],
)
def test_a_track_of_a_language_is_in_every_quality(
    encode: MakeEncode, small: Profile, ffmpeg: FFmpeg, tmp_path: Path, name: str, codec: str
) -> None:
    tracks = sup([Box(0.4, 3, 0, 0, 100, 100)], CANVAS), sup(BOXES, CANVAS)
    languages = ("-metadata:s:s:0", "language=fre", "-metadata:s:s:1", "language=ger", "-c:s", codec)
    source = film(ffmpeg, tmp_path / name, *tracks, options=languages)
    made = burnt(encode, source, small, "de")
    assert codes_of(made) == [WarningCode.SUBTITLES_BURNT, WarningCode.SUBTITLES_LEFT_OUT]
    for stream in streams(made).values():
        assert runs_of(lit(stream)) == expected(BOXES, 100)


@pytest.mark.parametrize("name", ["film.mkv", "film.m2ts"])
def test_forced_bitmaps_of_a_full_track(
    encode: MakeEncode, small: Profile, ffmpeg: FFmpeg, tmp_path: Path, name: str
) -> None:
    made = burnt(encode, film(ffmpeg, tmp_path / name, sup(BOXES, CANVAS)), small, "forced")
    assert codes_of(made) == [WarningCode.SUBTITLES_BURNT]
    for stream in streams(made).values():
        assert runs_of(lit(stream)) == expected(BOXES[1:], 100)


@pytest.mark.more
def test_a_resumed_run_shows_what_has_been_there_for_long(
    encode: MakeEncode, small: Profile, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    """It begins to read the pictures ten seconds before its first one."""
    shown = [Box(0.48, 13.2, 320, 480, 320, 160), Box(13.52, 14, 0, 0, 320, 160)]
    source = film(ffmpeg, tmp_path / "film.mkv", sup(shown, CANVAS), options=LANGUAGE, seconds=15)
    whole = streams(burnt(encode, source, small, "de"))
    assert runs_of(lit(whole["144p"])) == expected(shown, 375)
    again = encode(source, override(small, {"subtitles.burn": "de"}), rungs=RUNGS, poster=False)
    again.look_up()
    for state in video_of(again):
        leave(state.directory, 6, 1)
    again = burnt(encode, source, small, "de")
    [video] = [run for run in again.runs if run.label == "video"]
    assert (video.starts_at_s, "-ss" in video.argv, again.spec.facts.unseekable) == (13, True, False)
    resumed = streams(again)
    for name in resumed:
        assert lit(resumed[name]) == lit(whole[name])


def test_a_killed_encode_goes_on_with_them(
    encode: MakeEncode, small: Profile, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    shown = [Box(0.48, 5.2, 320, 480, 320, 160)]
    source = film(ffmpeg, tmp_path / "film.mkv", sup(shown, CANVAS), options=LANGUAGE, seconds=6)
    first = encode(source, override(small, {"subtitles.burn": "de"}), rungs=RUNGS, poster=False)
    run_to_end(first, lambda: all(state.segments_done for state in video_of(first)))
    first.kill()
    made = burnt(encode, source, small, "de")
    for stream in streams(made).values():
        assert runs_of(lit(stream)) == expected(shown, 150)


def test_decoding_from_the_start_keeps_their_times(
    encode: MakeEncode, small: Profile, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    """The pictures begin at zero then, and not at 1.4 s as in the source."""
    source = film(ffmpeg, tmp_path / "film.m2ts", sup(BOXES, CANVAS))
    facts = replace(probe(os.fsencode(source)), unseekable=True)
    made = burnt(encode, source, small, "forced", facts=facts)
    assert made.spec.facts.unseekable
    assert runs_of(lit(streams(made)["144p"])) == expected(BOXES[1:], 100)


def test_what_cannot_be_decoded_is_left_out(
    encode: MakeEncode, small: Profile, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    source = film(ffmpeg, tmp_path / "film.mkv", sup(BOXES, CANVAS), options=LANGUAGE)
    # Each composition claims to be as long as all the rest.
    source.write_bytes(source.read_bytes().replace(b"\x16\x00\x13\x05\x00", b"\x16\xff\x13\x05\x00"))
    made = burnt(encode, source, small, "de")
    assert codes_of(made) == [WarningCode.SUBTITLES_LEFT_OUT]
    for stream in streams(made).values():
        assert runs_of(lit(stream)) == expected([], 100)


@pytest.mark.more
@pytest.mark.parametrize(("curve", "of_signal"), [("smpte2084", 0.5807), ("arib-std-b67", 0.75)])
def test_their_white_is_that_of_text_in_hdr_and_full_white_in_sdr(
    encode: MakeEncode, small: Profile, ffmpeg: FFmpeg, tmp_path: Path, curve: str, of_signal: float
) -> None:
    """203 nits, the reference white of BT.2408: full white would blind in the dark."""
    tags = (
        f"format=yuv420p10le,setparams=range=tv:color_primaries=bt2020:colorspace=bt2020nc:color_trc={curve}"
    )
    x265 = ("-vf", tags, "-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=error")
    track = sup([Box(0.2, 1, 0, 0, *CANVAS)], CANVAS)
    source = film(ffmpeg, tmp_path / "film.mkv", track, seconds=1, options=LANGUAGE, video=x265)
    rungs = (replace(RUNGS[0], codec="hevc", hdr=True), RUNGS[1])
    made = encode(source, override(small, {"subtitles.burn": "de"}), rungs=rungs, poster=False)
    run_to_end(made)
    for rung, stream in streams(made).items():
        (tmp_path / rung).write_bytes(stream)
        with av.open(str(tmp_path / rung)) as media:
            picture = list(media.decode(video=0))[12]
        share = of_signal if rung == "144p" else 1.0
        bits = picture.format.components[0].bits
        middle = picture.planes[0].line_size * 40 + (60 if bits == 8 else 120)
        code = int.from_bytes(bytes(picture.planes[0])[middle : middle + (bits + 7) // 8], "little")
        assert (code / 2 ** (bits - 8) - 16) / 219 == pytest.approx(share, abs=0.012)


@pytest.mark.parametrize(
    ("canvas", "shown", "changes", "place"),
    [
        pytest.param((1920, 1080), (1920, 1080), {}, (1920, 1080, 0, 0), id="same"),
        pytest.param((1920, 1080), (3840, 2160), {}, (3840, 2160, 0, 0), id="larger picture"),
        pytest.param((1920, 1080), (1920, 800), {}, (1422, 800, 248, 0), id="bars cut off"),
        pytest.param((1920, 1080), (1440, 1080), {}, (1440, 810, 0, 134), id="sides cut off"),
        pytest.param((1920, 1080), (1440, 1080), {"width": 1920}, (1440, 1080, 0, 0), id="anamorphic"),
        pytest.param((720, 576), (720, 576), {"width": 1024}, (720, 576, 0, 0), id="DVD"),
        pytest.param((720, 576), (720, 432), {"width": 1024}, (540, 432, 90, 0), id="DVD, bars cut off"),
        pytest.param((720, 576), (1920, 1080), {}, (1920, 1080, 0, 0), id="DVB, of SD"),
        pytest.param(
            (1080, 1920),
            (1920, 1080),
            {"rotation": 90, "width": 1080, "height": 1920},
            (1080, 1920, 0, 0),
            id="rotated",
        ),
    ],
)
def test_where_a_canvas_lies(
    canvas: tuple[int, int], shown: tuple[int, int], changes: dict[str, int], place: tuple[int, ...]
) -> None:
    width, height = shown
    sizes = {"width": width, "height": height, "coded_width": width, "coded_height": height}
    assert placed(canvas, replace(NO_PICTURE, **(sizes | changes))) == place


@pytest.mark.parametrize(
    ("burn", "chosen"),
    [
        ("none", None),
        ("forced", (4, False)),
        ("de", (3, False)),
        ("en", (1, False)),
        ("fr", None),
    ],
)
def test_which_track_is_burnt_in(small: Profile, burn: str, chosen: tuple[int, bool] | None) -> None:
    def track(index: int, language: str, role: str = "", **more: object) -> SubtitleTrack:
        return SubtitleTrack(index, "pgssub", language, "", False, False, role, **more)  # type: ignore[arg-type]

    tracks = (
        track(1, "en-GB", canvas=CANVAS, has_forced=True),
        track(2, "de", "captions", canvas=CANVAS),
        track(3, "de", canvas=CANVAS),
        track(4, "en-GB", "forced", canvas=CANVAS),
        track(5, "fr"),
    )
    video = replace(NO_PICTURE, still=False, width=1280, height=720)
    sound = AudioTrack(6, "aac", 2, 48_000, "en-GB", "", True, "")
    facts = SourceFacts("matroska", 60, 0, 0, 1000, video, (sound,), tracks)
    profile = override(small, {"subtitles.burn": burn})
    found = burnt_subtitles(facts, profile)
    assert (found and (found.track.index, found.forced_only)) == chosen
    without = burnt_subtitles(replace(facts, subtitles=tracks[:3]), override(small, {"burn": "forced"}))
    assert without == Burnt(tracks[0], forced_only=True)

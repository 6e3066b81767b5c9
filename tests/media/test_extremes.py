"""Sources of unusual size, length and rate, compared with the numbered pictures they were made of."""

from __future__ import annotations

import io
import os
import struct
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from statistics import fmean

import av
import pytest

from numbered_pictures import draw
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.source.packet_times import measured_rate
from tqstudio.engine.media.source.probe import probe

from .conftest import MakeEncode, leave, run_ffmpeg, run_to_end
from .corpus import pictures
from .test_range import hear, joined
from .test_resume import streams, video_of

RUNG = (Rung("90p", 160, 90, 400),)
X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p")
FILM = "24000/1001"
TS = ("-muxdelay", "0", "-muxpreload", "0")


def numbered(ffmpeg: FFmpeg, path: Path, rate: str, seconds: float, *options: str) -> Path:
    run_ffmpeg(ffmpeg, "-f", "lavfi", "-i", draw(rate, seconds), *X264, *options, str(path))
    return path


def numbers(encode: MakeEncode, source: Path, **changes: object) -> dict[str, list[int]]:
    """The number that each published picture shows, by quality."""
    made = encode(source, **({"rungs": RUNG, "poster": False} | changes))
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    return {name: [number for _, number in pictures(stream)] for name, stream in streams(made).items()}


@pytest.mark.more
@pytest.mark.parametrize("codec", ["libx264", "libx265"])
def test_8k(encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path, codec: str) -> None:
    large = ("-vf", "scale=7680:4320:flags=neighbor", "-c:v", codec, "-preset", "ultrafast")
    source = numbered(ffmpeg, tmp_path / "8k.mp4", "25", 0.2, *large)
    rungs = (Rung("4320p", 7680, 4320, 60_000, preset="ultrafast"), *RUNG)
    assert numbers(encode, source, rungs=rungs) == {"4320p": [*range(5)], "90p": [*range(5)]}


@pytest.mark.more
def test_one_picture_of_two_hours(encode: MakeEncode, small: Profile, ffmpeg: FFmpeg, tmp_path: Path) -> None:
    """Shown for as long as its sound, and also from where an encode goes on."""
    source, picture = tmp_path / "still.mp4", tmp_path / "one.mp4"
    numbered(ffmpeg, picture, "5", 2, "-vf", "select=eq(n\\,5)", "-fps_mode", "passthrough")
    sound = ("-f", "lavfi", "-i", "sine=r=8000:d=7200", "-c:a", "aac", "-b:a", "16k")
    run_ffmpeg(ffmpeg, "-i", str(picture), *sound, "-map", "0:v", "-map", "1:a", "-c:v", "copy", str(source))
    profile = replace(small, segment_s=30, gop_s=30, preset="ultrafast")
    facts = probe(os.fsencode(source))
    shown = numbers(encode, source, profile=profile, audio=())["90p"]
    assert len(shown) / facts.video.fps == pytest.approx(7200, abs=0.1)
    assert set(shown) == {5}
    again = encode(source, profile, rungs=RUNG, poster=False)
    again.look_up()
    leave(video_of(again)[0].directory, 200)
    assert numbers(encode, source, profile=profile, audio=())["90p"] == shown


@pytest.mark.slow
def test_sound_that_begins_late_is_not_held_in_memory(
    encode: MakeEncode, small: Profile, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    """Neither the silence before it, nor the other track meanwhile."""
    picture, source = tmp_path / "one.mp4", tmp_path / "late.mkv"
    numbered(ffmpeg, picture, "5", 1)
    sounds = [f"sine=f=477:r=48000:d={length},pan=stereo|c0=4*c0|c1=4*c0" for length in (450, 50)]
    sound, late_sound = (("-f", "lavfi", "-i", each) for each in sounds)
    streams_of = ("-map", "0:v", "-map", "1:a", "-map", "2:a", "-c:v", "copy", "-c:a", "pcm_s16le")
    late = ("-itsoffset", "400", *late_sound)
    run_ffmpeg(ffmpeg, "-i", str(picture), *sound, *late, *streams_of, str(source))
    made = encode(
        source, replace(small, segment_s=30, gop_s=30, preset="ultrafast"), rungs=RUNG, poster=False
    )
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    assert max(run.peak_memory for run in made.runs) < 150_000_000
    [second] = [each for each in made.renditions if each.name == "audio-und-2"]
    began, (first, last) = hear(joined(second.directory))
    assert (began[0], first, last) == pytest.approx((400, 0, 450), abs=0.1)


@pytest.mark.parametrize("every_s", [5, 15])
def test_slides_in_a_transport_stream(
    encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path, every_s: int
) -> None:
    """What the first picture is, a demuxer knows when the second one comes."""
    source = numbered(ffmpeg, tmp_path / "slides.ts", f"1/{every_s}", 4 * every_s, *TS)
    shown = numbers(encode, source)["90p"]
    assert [shown.count(number) for number in range(4)] == [len(shown) // 4] * 4


@pytest.mark.parametrize("declared", ["25", "24000/1001", "30000/1001"])
def test_film_that_is_shown_for_two_and_three_fields_in_turn(
    encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path, declared: str
) -> None:
    """Each of its pictures is published once, whatever rate the header declares."""
    film, source = numbered(ffmpeg, tmp_path / "film.mp4", FILM, 4), tmp_path / "film.mkv"
    times = "floor((round({}*TB*24000/1001)*5+1)/2)*1001/60000/TB"
    # Neither does it matter when its clock begins.
    fields = f"setts=pts='{times.format('PTS')}+1.436/TB':dts='{times.format('DTS')}+1.436/TB'"
    run_ffmpeg(ffmpeg, "-i", str(film), "-c", "copy", "-bsf:v", fields, str(source))
    # DefaultDuration, in ns.
    before, after = (
        b"\x23\xe3\x83\x84" + round(10**9 / Fraction(rate)).to_bytes(4) for rate in (FILM, declared)
    )
    content = source.read_bytes()
    assert before in content
    source.write_bytes(content.replace(before, after))
    assert probe(os.fsencode(source)).video.fps == Fraction(FILM)
    assert numbers(encode, source)["90p"] == [*range(96)]


@pytest.mark.more
@pytest.mark.parametrize(("first", "second"), [(25, 50), (24, 30), (30, 24), (24, 25), (60, 24)])
def test_a_rate_that_changes_midway(
    encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path, first: int, second: int
) -> None:
    """Every picture is published, at its time."""
    numbered(ffmpeg, tmp_path / "0.ts", str(first), 4, *TS)
    numbered(ffmpeg, tmp_path / "1.ts", str(second), 4, *TS)
    (tmp_path / "list").write_text("file 0.ts\nfile 1.ts\n")
    source = tmp_path / "midway.mp4"
    run_ffmpeg(ffmpeg, "-f", "concat", "-i", str(tmp_path / "list"), "-c", "copy", str(source))
    facts = probe(os.fsencode(source))
    assert (facts.video.fps, facts.video.vfr) == (max(first, second), True)
    shown = numbers(encode, source)["90p"]
    begin = next(n for n in range(1, len(shown)) if shown[n] < shown[n - 1])
    assert begin / facts.video.fps == pytest.approx(4, abs=0.05)
    assert sorted(set(shown[:begin])) == [*range(4 * first)]
    assert sorted(set(shown[begin:])) == [*range(4 * second)]


@pytest.mark.parametrize("container", ["mkv", "mp4"])
@pytest.mark.parametrize("fps", [60, 30])
def test_bursts_of_a_screen_recording(
    encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path, container: str, fps: int
) -> None:
    """Times in milliseconds, also where they were copied to a container with a finer clock."""
    recorded, source = tmp_path / "recorded.mkv", tmp_path / f"copy.{container}"
    bursts = ("-vf", "select='lt(mod(n,90),15)'", "-fps_mode", "vfr")
    numbered(ffmpeg, recorded, str(fps), 8 * 60 / fps, *bursts)
    run_ffmpeg(ffmpeg, "-i", str(recorded), "-c", "copy", str(source))
    made = [number for number in range(480) if number % 90 < 15]
    assert probe(os.fsencode(source)).video.fps == fps
    # Each stands until the next one; the last one for a picture.
    shown = numbers(encode, source)["90p"]
    assert shown == [max(n for n in made if n <= number) for number in range(made[-1] + 1)]


@pytest.mark.parametrize(
    ("rate", "pictures", "published"),
    [("240", 240, 60), ("180", 181, 60), ("120", 121, 61), ("100", 100, 50)],
)
@pytest.mark.parametrize("container", ["mp4", pytest.param("mkv", marks=pytest.mark.more)])
def test_a_high_rate_is_divided_and_lasts_as_long(
    encode: MakeEncode,
    ffmpeg: FFmpeg,
    tmp_path: Path,
    container: str,
    rate: str,
    pictures: int,
    published: int,
) -> None:
    source = numbered(ffmpeg, tmp_path / f"fast.{container}", rate, pictures / int(rate))
    facts = probe(os.fsencode(source)).video
    assert facts.end_s == pytest.approx(pictures / int(rate), abs=0.0015)
    shown = numbers(encode, source)["90p"]
    assert len(shown) == published
    each = int(rate) // facts.fps
    assert all(number // each == at for at, number in enumerate(shown))


@pytest.mark.parametrize("pictures_of", [25, 50])
def test_packets_without_a_picture_at_the_end_show_the_last_one(
    encode: MakeEncode, tmp_path: Path, pictures_of: int
) -> None:
    """As Fraps writes them while nothing changes, to 6 s; the index calls all of them key frames."""
    source, fps = tmp_path / "fraps.avi", 10
    with av.open(str(source), "w") as written:
        stream = written.add_mux_stream("fraps", rate=fps, width=96, height=54)
        stream.time_base = Fraction(1, fps)
        for number in range(60):
            is_new = number < pictures_of and number % 5 != 3
            # Version 1: a header, and BGR; with the highest bit, the picture before once more.
            picture = struct.pack("<I", 1) + bytes([number * 3 + 40]) * (96 * 54 * 3)
            packet = av.Packet(picture if is_new else struct.pack("<I", 1 | 1 << 31))
            packet.stream, packet.time_base = stream, stream.time_base
            packet.pts = packet.dts = number
            packet.duration, packet.is_keyframe = 1, is_new
            written.mux(packet)
    made = encode(source, poster=False)
    run_to_end(made)
    assert (made.state, made.error, made.warnings) == ("done", None, [])
    [state, *_] = video_of(made)
    first = _brightness(joined(state.directory))
    shown = [max(n for n in range(pictures_of) if n <= at and n % 5 != 3) for at in range(60)]
    assert first == pytest.approx([16 + (number * 3 + 40) * 219 / 255 for number in shown], abs=4)
    leave(state.directory, 2)
    again = encode(source, poster=False)
    run_to_end(again)
    assert (again.state, _brightness(joined(state.directory))) == ("done", first)


@pytest.mark.parametrize(
    ("name", "video"),
    [
        ("still.mp4", ("-c:v", "libx264", "-g", "60")),
        ("still.mkv", ("-c:v", "libx265", "-g", "60", "-x265-params", "log-level=none")),
        ("still.avi", ("-c:v", "mpeg4", "-bf", "0", "-g", "60")),
        pytest.param("still.webm", ("-c:v", "libvpx-vp9", "-g", "60"), marks=pytest.mark.slow),
        pytest.param("still-av1.mkv", ("-c:v", "libsvtav1", "-g", "60"), marks=pytest.mark.slow),
    ],
)
def test_tiny_packets_of_pictures_on_which_nothing_moves_hold_pictures(
    ffmpeg: FFmpeg, tmp_path: Path, name: str, video: tuple[str, ...]
) -> None:
    """A few bytes say that nothing has changed since the key frame, which is no missing picture."""
    source = tmp_path / name
    run_ffmpeg(ffmpeg, "-f", "lavfi", "-i", "color=gray:s=320x180:r=25:d=5", *video, str(source))
    with av.open(str(source)) as container:
        sizes = [packet.size for packet in container.demux(video=0) if packet.size]
    assert sizes[-1] < 100, "nothing moves"
    facts = probe(os.fsencode(source)).video
    assert facts.last_s == pytest.approx(124 / 25, abs=0.002)
    assert facts.end_s == pytest.approx(5, abs=0.002)


def _brightness(content: bytes) -> list[float]:
    with av.open(io.BytesIO(content)) as container:
        planes = (frame.planes[0] for frame in container.decode(video=0))
        return [fmean(bytes(each)[20 * each.line_size :][10:80]) for each in planes]


@pytest.mark.parametrize(
    ("gaps", "nominal", "rate"),
    [
        pytest.param({533: 50, 534: 350, 1067: 99, 5000: 99}, "24000/1001", "24000/1001", id="pauses"),
        pytest.param({533: 50, 534: 350}, "24000/1001", "24000/1001", id="steady"),
        pytest.param({512: 200, 533: 200, 534: 100}, "24", "25", id="two rates"),
        pytest.param(dict.fromkeys(range(500, 525), 20), "25", "25", id="jitter"),
        pytest.param({256: 10, 512: 400, 1024: 100}, "25", "25", id="outliers"),
        pytest.param({427: 50, 641: 50}, "30000/1001", "24000/1001", id="film"),
        pytest.param({427: 57, 641: 43}, "30000/1001", "30000/1001", id="film and video"),
    ],
)
def test_rates_that_are_close_are_told_apart_as_far_as_the_clock_allows(
    gaps: dict[int, int], nominal: str, rate: str
) -> None:
    assert measured_rate(gaps, Fraction(1, 12_800), Fraction(nominal))[0] == Fraction(rate)

"""The whole source decides: rate, size, shape and fields of pictures that change midway, and late sound."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import pytest

from numbered_pictures import draw
from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.source.packet_times import measured_rate
from tqstudio.engine.media.source.probe import probe

from .conftest import MakeEncode, run_ffmpeg, run_to_end
from .corpus import pictures
from .test_range import hear, joined

pytestmark = pytest.mark.slow

EXACT = ("-muxdelay", "0", "-muxpreload", "0")
"""Options of a transport stream whose clock begins at zero."""


@pytest.fixture
def run(ffmpeg: FFmpeg) -> Callable[..., None]:
    return lambda *arguments: run_ffmpeg(ffmpeg, *(str(argument) for argument in arguments))


def rows(content: bytes) -> list[list[bytes]]:
    """The brightness of every picture, row by row."""
    with av.open(io.BytesIO(content)) as container:
        return [
            [bytes(plane)[y * plane.line_size :][: frame.width] for y in range(frame.height)]
            for frame in container.decode(video=0)
            for plane in frame.planes[:1]
        ]


def video(encode: LadderEncode) -> bytes:
    """The largest video rendition of a finished encode."""
    assert encode.state == "done", encode.error
    return joined(encode.renditions[0].directory)


@pytest.mark.parametrize(
    ("ticks", "time_base", "nominal", "rate"),
    [
        pytest.param(
            [33, 34, 33] * 99, Fraction(1, 1000), "60", "30", id="the clock suggests twice the rate"
        ),
        pytest.param([33, 34, 33] * 99, Fraction(1, 1000), "1000", "30", id="the clock itself is the rate"),
        pytest.param([3003] * 99, Fraction(1, 90_000), "60000/1001", "30000/1001", id="NTSC"),
        pytest.param([33, 34, 33], Fraction(1, 1000), "30000/1001", "30000/1001", id="too short to decide"),
        pytest.param([40] * 99, Fraction(1, 1000), "25", "25", id="as declared"),
        pytest.param([17, 16, 17] * 50 + [500], Fraction(1, 1000), "60", "60", id="a pause"),
        pytest.param([17, 17, 16] * 59 + [17, 16], Fraction(1, 1000), "60", "60", id="rounded up at 60"),
        pytest.param([17, 16, 17] * 59 + [16], Fraction(1, 1000), "1000", "60", id="of an unknown rate"),
        pytest.param([8, 8, 9] * 39 + [8], Fraction(1, 1000), "120", "60", id="rounded up at 120"),
        pytest.param([33, 67] * 50, Fraction(1, 1000), "30", "30", id="every second picture is dropped"),
        pytest.param([8, 8, 9] * 99, Fraction(1, 1000), "120", "60", id="more than players show"),
        pytest.param([5000] * 20, Fraction(1, 1000), "1/5", "32/5", id="slides"),
        pytest.param([42, 41] * 40 + [33, 34] * 40, Fraction(1, 1000), "1000", "30", id="24 and 30"),
        pytest.param([40] * 80 + [33, 34] * 40, Fraction(1, 1000), "1000", "30", id="25 and 30"),
        pytest.param([40, 41] * 80, Fraction(1, 1000), "1000", "2000/81", id="an unusual rate"),
    ],
)
def test_the_rate_is_that_of_the_measured_gaps(
    ticks: list[int], time_base: Fraction, nominal: str, rate: str
) -> None:
    assert measured_rate(Counter(ticks), time_base, Fraction(nominal))[0] == Fraction(rate)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("jitter.mov", ("-vf", "settb=1/600,setpts='N*20+mod(N*7,3)'", "-enc_time_base", "1/600")),
        ("jitter.mkv", ("-vf", "settb=1/1000,setpts='N*100/3+mod(N*7,3)'", "-enc_time_base", "1/1000")),
        ("ticks-60.mkv", ("-bsf:v", "h264_metadata=tick_rate=120:fixed_frame_rate_flag=0")),
        ("ticks-1000.mp4", ("-bsf:v", "h264_metadata=tick_rate=2000:fixed_frame_rate_flag=0")),
    ],
)
def test_every_picture_is_made_once(
    name: str, options: tuple[str, ...], run: Callable[..., None], encode: MakeEncode, tmp_path: Path
) -> None:
    source = tmp_path / name
    run(
        *("-f", "lavfi", "-i", draw(30, 3)),
        *("-fps_mode", "passthrough", *options),
        *("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", source),
    )
    made = encode(source)
    run_to_end(made)
    assert [number for _, number in pictures(video(made))] == list(range(90))


@pytest.mark.parametrize("name", ["screen.mp4", "screen.mkv"])
def test_a_still_passage_makes_nothing_longer(
    name: str, run: Callable[..., None], encode: MakeEncode, tmp_path: Path
) -> None:
    """The length of a pause is that of another picture in MP4, which has lengths in the order of decoding."""
    inner = tmp_path / "screen.mp4"
    still = "settb=1/25,setpts='N+gte(N,25)*75'"
    run(
        *("-f", "lavfi", "-i", f"{draw(25, 2)},{still}"),
        *("-fps_mode", "passthrough", "-enc_time_base", "1/90000", "-c:v", "libx264", "-preset", "veryfast"),
        *("-bf", "3", "-g", "250", "-pix_fmt", "yuv420p", "-video_track_timescale", "90000", inner),
    )
    source = tmp_path / name
    if source != inner:
        run("-i", inner, "-c", "copy", source)
    made = encode(source)
    run_to_end(made)
    shown = [number for _, number in pictures(video(made))]
    assert shown == [*range(25), *(24,) * 75, *range(25, 50)]


def _flv_parts(path: Path) -> list[tuple[int, int, bytes]]:
    content, at = path.read_bytes(), 13
    parts = []
    while at < len(content):
        size, time = int.from_bytes(content[at + 1 : at + 4]), int.from_bytes(content[at + 4 : at + 7])
        parts.append((content[at], time, content[at + 11 : at + 11 + size]))
        at += 11 + size + 4
    return parts


def test_a_broadcast_that_changes_its_size_is_whole(
    run: Callable[..., None], encode: MakeEncode, tmp_path: Path
) -> None:
    """As servers record it in FLV: with a new header between two pictures."""
    whole = b""
    for number, size in enumerate(("320x180", "640x360")):
        path = tmp_path / f"{number}.flv"
        run(
            *("-f", "lavfi", "-i", f"color=white:s={size}:r=25:d=1,format=yuv420p"),
            *("-c:v", "libx264", "-preset", "ultrafast", "-g", "25", path),
        )
        whole = whole or path.read_bytes()[:13]
        for kind, time, body in _flv_parts(path):
            moved = (time + 1000 * number).to_bytes(3)
            head = bytes([kind]) + len(body).to_bytes(3) + moved + bytes(4)
            # Without the end of the first sequence, and the description of the second.
            if body[1:2] != b"\x02" and (kind, number) != (18, 1):
                whole += head + body + (len(body) + 11).to_bytes(4)
    source = tmp_path / "live.flv"
    source.write_bytes(whole)
    made = encode(source)
    run_to_end(made)
    shown = rows(video(made))
    assert (len(shown), len({(len(picture[0]), len(picture)) for picture in shown})) == (50, 1)
    assert all(min(row) > 200 for picture in shown for row in picture)


@pytest.mark.parametrize(("rate", "every"), [(120, 2), (240, 4), (144, 3)])
def test_pictures_above_60_a_second_are_left_out_evenly(
    rate: int, every: int, run: Callable[..., None], encode: MakeEncode, tmp_path: Path
) -> None:
    source = tmp_path / "fast.mkv"  # on a clock of milliseconds
    run(
        *("-f", "lavfi", "-i", draw(rate, 2)),
        *("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", source),
    )
    made = encode(source)
    run_to_end(made)
    shown = [number for _, number in pictures(video(made))]
    # The last one is held.
    assert {after - before for before, after in pairwise(shown[:-1])} == {every}
    assert (shown[0] < every, len(shown) - rate * 2 // every in (0, 1)) == (True, True)


@pytest.mark.parametrize("codec", ["libx264", "libvpx", pytest.param("libvpx-vp9", marks=pytest.mark.slow)])
def test_a_recording_that_is_smaller_for_a_second_is_whole(
    run: Callable[..., None], encode: MakeEncode, tmp_path: Path, codec: str
) -> None:
    fast = () if codec == "libx264" else ("-deadline", "realtime")
    for number, size in enumerate(("320x180", "160x90", "320x180")):
        run(
            *("-f", "lavfi", "-i", f"color=white:s={size}:r=25:d=1,format=yuv420p", "-c:v", codec),
            *(*fast, tmp_path / f"{number}.mkv"),
        )
    (tmp_path / "list").write_text("".join(f"file {number}.mkv\n" for number in range(3)))
    source = tmp_path / "call.mkv"
    run("-f", "concat", "-safe", "0", "-i", tmp_path / "list", "-c", "copy", source)
    made = encode(source)
    run_to_end(made)
    shown = rows(video(made))
    assert (len(shown), {len(picture) for picture in shown}) == (75, {144})


def test_pictures_that_shrink_between_key_frames_are_published_in_one_size(
    run: Callable[..., None], encode: MakeEncode, tmp_path: Path
) -> None:
    source = tmp_path / "call.mkv"
    run(
        *("-f", "lavfi", "-i", "color=white:s=320x180:r=25:d=2,format=yuv420p", "-c:v", "libaom-av1"),
        *("-cpu-used", "8", "-g", "99", "-aom-params", "resize-mode=2", source),
    )
    with av.open(str(source)) as container:
        assert len({(frame.width, frame.height) for frame in container.decode(video=0)}) > 3
    made = encode(source)
    run_to_end(made)
    shown = rows(video(made))
    assert (len(shown), len({(len(picture[0]), len(picture)) for picture in shown})) == (50, 1)
    assert all(min(row) > 200 for picture in shown for row in picture)


@pytest.mark.slow
def test_a_recording_that_grows_has_its_largest_size(
    run: Callable[..., None], encode: MakeEncode, tmp_path: Path
) -> None:
    for number, size in enumerate(("160x90", "320x180")):
        run(
            *("-f", "lavfi", "-i", f"color=white:s={size}:r=30:d=3", "-c:v", "libvpx"),
            *("-deadline", "realtime", tmp_path / f"{number}.webm"),
        )
    (tmp_path / "list").write_text("file 0.webm\nfile 1.webm\n")
    source = tmp_path / "grows.webm"
    run("-f", "concat", "-safe", "0", "-i", tmp_path / "list", "-c", "copy", source)
    facts = probe(os.fsencode(source))
    assert (facts.video.width, facts.video.height, facts.video.varies) == (320, 180, True)
    made = encode(source)
    run_to_end(made)
    shown = rows(video(made))
    assert [(len(picture[0]), len(picture)) for picture in shown] == [(256, 144)] * 180
    # Small ones fill the picture too.
    assert all(min(row) > 200 for picture in shown for row in picture)


def test_another_shape_midway_is_not_squeezed(
    run: Callable[..., None], encode: MakeEncode, tmp_path: Path
) -> None:
    """Three seconds in 4:3, then five in 16:9, with the same number of pixels."""
    source = tmp_path / "shapes.ts"
    for name, sar, seconds, offset in (
        ("a", "16/15", 3, EXACT),
        ("b", "64/45", 5, (*EXACT, "-output_ts_offset", "3")),
    ):
        run(
            *("-f", "lavfi", "-i", f"color=white:s=360x288:r=25:d={seconds},setsar={sar}"),
            *("-c:v", "mpeg2video", "-q:v", "3", "-g", "12", *offset, tmp_path / f"{name}.ts"),
        )
    source.write_bytes((tmp_path / "a.ts").read_bytes() + (tmp_path / "b.ts").read_bytes())
    facts = probe(os.fsencode(source))
    assert (facts.video.width, facts.video.height, facts.video.varies) == (512, 288, True)
    made = encode(source)
    run_to_end(made)
    shown = rows(video(made))
    # The 75th picture is the first in 16:9.
    narrow, wide = shown[73], shown[75]
    assert (len(narrow[0]), len(narrow)) == (256, 144)
    # 4:3 of 144 rows is 192 wide: bars of 32 at each side.
    assert max(max(row[:28]) for row in narrow) < 40
    assert max(max(row[-28:]) for row in narrow) < 40
    assert min(min(row[36:-36]) for row in narrow) > 200
    assert min(min(row) for row in shown[100]) > 200
    assert sum(sum(row) for row in wide) / len(wide) / len(wide[0]) > 220


def test_fields_that_begin_midway_are_joined(
    run: Callable[..., None], encode: MakeEncode, tmp_path: Path
) -> None:
    source = tmp_path / "fields.ts"
    moving = (
        "color=s=320x180:r={}:d={},format=yuv420p,geq=lum='if(lt(mod(X-8*N,64),32),235,16)':cb=128:cr=128"
    )
    fields = ("-flags", "+ilme+ildct", "-field_order", "tt")
    for name, rate, filters, options in (
        ("a", 25, "null", EXACT),
        ("b", 50, "tinterlace=interleave_top", (*fields, *EXACT, "-output_ts_offset", "4")),
    ):
        run(
            *("-f", "lavfi", "-i", moving.format(rate, 4), "-vf", filters, "-c:v", "mpeg2video"),
            *("-q:v", "2", "-g", "12", *options, tmp_path / f"{name}.ts"),
        )
    source.write_bytes((tmp_path / "a.ts").read_bytes() + (tmp_path / "b.ts").read_bytes())
    assert probe(os.fsencode(source)).video.interlaced
    made = encode(source)
    run_to_end(made)
    picture = rows(video(made))[150][10:-10]
    # Where fields are interleaved, each row differs from the next and equals the one after that.
    assert apart(picture, 1) - apart(picture, 2) < 2


def apart(picture: list[bytes], lines: int) -> float:
    """The mean difference of pixels that lie so many lines below each other."""
    pairs = list(zip(picture, picture[lines:], strict=False))
    return sum(abs(a - b) for one, other in pairs for a, b in zip(one, other, strict=True)) / (
        len(pairs) * len(picture[0])
    )


@pytest.mark.slow
def test_sound_that_begins_late_is_found(
    run: Callable[..., None], encode: MakeEncode, tmp_path: Path
) -> None:
    """The first nine seconds of a recording have pictures only; the head of the file knows no more."""
    base, source = tmp_path / "base.mp4", tmp_path / "late.ts"
    run(
        *("-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=14,noise=alls=60:allf=t"),
        *("-f", "lavfi", "-i", "aevalsrc='if(between(t,12,12.1),sin(2*PI*1000*t),0)':s=48000:d=14"),
        *("-c:v", "libx264", "-preset", "ultrafast", "-b:v", "6M", "-minrate", "6M", "-maxrate", "6M"),
        *("-bufsize", "6M", "-g", "25", "-c:a", "aac", base),
    )
    run("-i", base, "-t", "9", "-an", "-c", "copy", *EXACT, tmp_path / "a.ts")
    run("-ss", "9", "-i", base, "-c", "copy", "-output_ts_offset", "9", *EXACT, tmp_path / "b.ts")
    source.write_bytes((tmp_path / "a.ts").read_bytes() + (tmp_path / "b.ts").read_bytes())
    facts = probe(os.fsencode(source))
    [track] = facts.audio
    assert (track.channels, track.sample_rate) == (1, 48000)
    made = encode(source)
    run_to_end(made)
    assert made.state == "done", made.error
    sound = next(state for state in made.renditions if state.kind == "audio")
    beeps, covered = hear(joined(sound.directory))
    assert beeps == pytest.approx([12], abs=0.05)
    assert covered == pytest.approx((0, 14), abs=0.3)


@pytest.mark.parametrize("codec", [("libx264", "-bf", "0"), ("mjpeg", "-pix_fmt", "yuvj420p"), ("mpeg4",)])
def test_pictures_and_sound_of_avi_begin_together(
    run: Callable[..., None], encode: MakeEncode, tmp_path: Path, codec: tuple[str, ...]
) -> None:
    """It has no presentation times, and those that ffmpeg invents may be a picture late."""
    source = tmp_path / "clip.avi"
    bars = ("-f", "lavfi", "-i", draw(10, 3))
    sound = ("-f", "lavfi", "-i", "sine=r=48000:d=3", "-c:a", "pcm_s16le")
    run(*bars, *sound, "-c:v", *codec, source)
    made = encode(source, poster=False)
    assert made.spec.grid.zero == 0
    run_to_end(made)
    assert [number for _, number in pictures(video(made))] == list(range(30))


def test_sound_that_is_declared_but_not_there(
    run: Callable[..., None], encode: MakeEncode, tmp_path: Path
) -> None:
    whole, source = tmp_path / "whole.ts", tmp_path / "silent.ts"
    run(
        *("-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=2", "-f", "lavfi", "-i", "sine=d=2"),
        *("-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac", whole),
    )
    content = whole.read_bytes()
    packets = [content[at : at + 188] for at in range(0, len(content), 188)]
    sound = 0x101
    source.write_bytes(
        b"".join(packet for packet in packets if int.from_bytes(packet[1:3]) & 0x1FFF != sound)
    )
    assert len(probe(os.fsencode(source)).audio) == 1
    made = encode(source)
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    assert [state.kind for state in made.renditions] == ["video", "video"]

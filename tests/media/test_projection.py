"""3D and 360° video: what marks it does not stop ffmpeg, and a warning says what players are not told."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.profiles import load
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.plan.warnings import of_source
from tqstudio.engine.media.source.probe import probe
from tqstudio.errors import JobWarning, WarningCode

from .conftest import MakeEncode, run_ffmpeg, run_to_end
from .corpus import pictures
from .test_extremes import RUNG, numbered
from .test_resume import streams

SIDE_BY_SIDE = ("-metadata:s:v:0", "stereo_mode=left_right")
TIMED = ("-c", "copy", "-bsf:v", "setts=pts=N/25/TB:dts=N/25/TB")
HEVC = ("-c:v", "libx265", "-x265-params", "bframes=0:keyint=10:log-level=error")
# Both eyes side by side: SEI of HEVC, of type 45 (ITU-T H.265, D.2.16), and JP3D of MPEG-2 (ETSI TS 101 154).
HEVC_PACKING = bytes([39 << 1, 1, 45, 6, 0x81, 0x81, 0x00, 0x00, 0x00, 0x40, 0x80])
MPEG_PACKING = b"\xb2JP3D\x03\x83\x04\xff"


def h264_twice(ffmpeg: FFmpeg, path: Path) -> None:
    numbered(ffmpeg, path, "25", 2, "-bf", "2", "-x264opts", "frame-packing=3", *SIDE_BY_SIDE)


def hevc_twice(ffmpeg: FFmpeg, path: Path) -> None:
    raw = numbered(ffmpeg, path.with_suffix(".hevc"), "25", 2, *HEVC)
    marked(raw, HEVC_PACKING, lambda kind: kind >> 1 in (19, 20))
    run_ffmpeg(ffmpeg, "-r", "25", "-i", str(raw), *TIMED, *SIDE_BY_SIDE, str(path))


def mpeg2_twice(ffmpeg: FFmpeg, path: Path) -> None:
    raw = numbered(
        ffmpeg, path.with_suffix(".m2v"), "25", 2, "-c:v", "mpeg2video", "-q:v", "2", "-f", "mpeg2video"
    )
    marked(raw, MPEG_PACKING, lambda kind: kind == 1)
    run_ffmpeg(ffmpeg, "-r", "25", "-i", str(raw), *TIMED, *SIDE_BY_SIDE, str(path))


def marked(raw: Path, message: bytes, is_first: Callable[[int], bool]) -> None:
    """Put a message before the first unit of each picture that `is_first` names."""
    units = raw.read_bytes().split(b"\0\0\1")
    written = [units[0]]
    for unit in units[1:]:
        written += [message, unit] if is_first(unit[0]) else [unit]
    raw.write_bytes(b"\0\0\1".join(written))


def box(kind: bytes, *content: bytes) -> bytes:
    return struct.pack(">I4s", 8 + sum(map(len, content)), kind) + b"".join(content)


def with_boxes(path: Path, entry: bytes, boxes: bytes) -> None:
    """Put boxes at the end of the sample entry of the first track of an MP4, whose `moov` is last."""
    data = bytearray(path.read_bytes())
    movie = data.rindex(b"moov")
    names = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", entry)
    outer = [data.index(name, movie) - 4 for name in names]
    end = outer[-1] + int.from_bytes(data[outer[-1] : outer[-1] + 4])
    data[end:end] = boxes
    for at in outer:
        struct.pack_into(">I", data, at, int.from_bytes(data[at : at + 4]) + len(boxes))
    path.write_bytes(data)


def spherical(kind: bytes, values: int) -> bytes:
    """Boxes of Google's Spherical Video V2: whose, no turns, and a projection without bounds."""
    header = box(b"svhd", bytes(5)), box(b"proj", box(b"prhd", bytes(16)), box(kind, bytes(4 + 4 * values)))
    return box(b"sv3d", *header)


def stated(name: str, *options: str) -> Callable[[FFmpeg, Path], Path]:
    return lambda ffmpeg, folder: numbered(ffmpeg, folder / name, "25", 1, *options)


def boxed(boxes: bytes) -> Callable[[FFmpeg, Path], Path]:
    def make(ffmpeg: FFmpeg, folder: Path) -> Path:
        source = numbered(ffmpeg, folder / "film.mp4", "25", 1)
        with_boxes(source, b"avc1", boxes)
        return source

    return make


def of_two_layers(ffmpeg: FFmpeg, folder: Path) -> Path:
    """The parameter set announces a second layer, as that of MV-HEVC; the rest of it is not there."""
    source = numbered(ffmpeg, folder / "spatial.mp4", "25", 1, *HEVC, "-tag:v", "hvc1")
    data = source.read_bytes()
    source.write_bytes(data.replace(b"\x40\x01\x0c\x01\xff\xff", b"\x40\x01\x0c\x11\xff\xff"))
    return source


@pytest.mark.parametrize(
    ("make", "told"),
    [
        pytest.param(stated("a.mkv"), "", id="flat"),
        pytest.param(
            stated("a.mkv", "-metadata:s:v:0", "stereo_mode=anaglyph_cyan_red"), "", id="with glasses"
        ),
        pytest.param(
            stated("a.mp4", *HEVC, "-vf", "format=yuva420p", "-pix_fmt", "yuva420p"), "", id="transparent"
        ),
        pytest.param(stated("a.mkv", *SIDE_BY_SIDE), "3D (side by side)", id="container"),
        pytest.param(stated("a.ts", "-x264opts", "frame-packing=4"), "3D (top and bottom)", id="pictures"),
        pytest.param(
            stated("a.mkv", "-x264opts", "frame-packing=3", *SIDE_BY_SIDE), "3D (side by side)", id="both"
        ),
        pytest.param(boxed(spherical(b"equi", 4)), "360°", id="sphere"),
        pytest.param(boxed(spherical(b"cbmp", 2)), "360° (cube)", id="cube"),
        pytest.param(
            boxed(box(b"st3d", b"\0\0\0\0\1") + spherical(b"equi", 4)),
            "360°, 3D (top and bottom)",
            id="3D sphere",
        ),
    ],
)
def test_what_players_are_not_told_is_a_warning(
    ffmpeg: FFmpeg, tmp_path: Path, make: Callable[[FFmpeg, Path], Path], told: str
) -> None:
    facts = probe(os.fsencode(make(ffmpeg, tmp_path)))
    text = f"players do not know of {told}: they show the pictures as they are stored"
    assert of_source(facts, load("fast")) == (
        [JobWarning(WarningCode.PROJECTION_LEFT_OUT, text)] if told else []
    )


def test_a_second_eye_that_is_not_decoded_is_a_warning(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    facts = probe(os.fsencode(of_two_layers(ffmpeg, tmp_path)))
    text = "further views of the pictures, as for the other eye, are left out"
    assert of_source(facts, load("fast")) == [JobWarning(WarningCode.PROJECTION_LEFT_OUT, text)]


@pytest.mark.parametrize(
    "make",
    [
        h264_twice,
        pytest.param(hevc_twice, marks=pytest.mark.slow),
        pytest.param(mpeg2_twice, marks=pytest.mark.slow),
    ],
)
def test_3d_that_is_marked_twice_is_published(
    encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path, make: Callable[[FFmpeg, Path], None]
) -> None:
    source = tmp_path / "film.mkv"
    make(ffmpeg, source)
    assert probe(os.fsencode(source)).video.stated_twice == "stereo"
    made = encode(source, rungs=RUNG)
    run_to_end(made)
    assert (made.state, made.error, made.warnings) == ("done", None, [])
    shown = [number for _, number in pictures(streams(made)["90p"])]
    assert shown == [*range(50)]


def test_a_rotation_that_is_stated_twice_is_done_once(
    encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    upright, once, twice = (tmp_path / name for name in ("upright.mp4", "once.mp4", "twice.mp4"))
    numbered(ffmpeg, upright, "25", 1)
    run_ffmpeg(ffmpeg, "-display_rotation", "90", "-i", str(upright), "-c", "copy", str(once))
    also = ("-bsf:v", "h264_metadata=display_orientation=insert:rotate=90")
    run_ffmpeg(ffmpeg, "-i", str(once), "-c", "copy", *also, str(twice))
    published = []
    for source in (once, twice):
        made = encode(source, rungs=(Rung("160p", 90, 160, 400),))
        run_to_end(made)
        assert (made.state, made.error, made.warnings) == ("done", None, [])
        published.append(streams(made))
    assert published[0] == published[1]

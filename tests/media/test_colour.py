"""Colours of what is published, read by its own tags as a player does, against those of the source.

Sources are eight patches in a row. Their RGB values become luma and chroma here, by the formulas of the
standards, and what is published becomes RGB again by them: no part of ffmpeg judges another one.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import av
import pytest

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.command import poster_command, video_command
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.grid import make_grid
from tqstudio.engine.media.plan.keys import settings_hash
from tqstudio.engine.media.plan.profiles import Profile, RungSpec
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.plan.warnings import of_source
from tqstudio.engine.media.source.colour import colour_of
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.media.source.probe import probe

from .conftest import MakeEncode, run_ffmpeg, run_to_end
from .test_resume import kill_behind, streams

pytestmark = pytest.mark.slow

RGB = tuple[float, float, float]
SATURATED: tuple[RGB, ...] = (
    *((192, 0, 0), (0, 192, 0), (0, 0, 192), (255, 255, 255)),
    *((128, 128, 128), (0, 0, 0), (200, 150, 120), (60, 90, 160)),
)
# Near the edge of a gamut one code of a 10-bit source is many of an 8-bit one.
SOFT: tuple[RGB, ...] = (
    *((160, 60, 60), (60, 160, 60), (60, 60, 160), (64, 64, 64)),
    *((128, 128, 128), (0, 0, 0), (170, 130, 100), (60, 90, 160)),
)
KR_KB = {1: (0.2126, 0.0722), 5: (0.299, 0.114), 6: (0.299, 0.114), 9: (0.2627, 0.0593)}
BT2020_OF_BT709 = ((0.6274, 0.3293, 0.0433), (0.0691, 0.9195, 0.0114), (0.0164, 0.0880, 0.8956))
RUNG = (Rung("144p", 256, 144, 1000),)
X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-qp", "4")
X265 = ("-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=error:qp=4", "-tag:v", "hvc1")
TAGS_2020 = "color_primaries=bt2020:colorspace=bt2020nc:range=tv"

Make = Callable[..., Path]


@pytest.fixture
def make(ffmpeg: FFmpeg, tmp_path: Path) -> Make:
    """Makes a source of patches: `make("a.mp4", *options, tags="range=pc", matrix=5, …)`."""

    def make(
        name: str,
        *options: str,
        tags: str = "",
        pix_fmt: str = "yuv444p",
        matrix: int = 0,
        full: bool = False,
        patches: Sequence[RGB] = SATURATED,
        size: tuple[int, int] = (320, 180),
        frames: int = 5,
    ) -> Path:
        raw, path = tmp_path / f"{name}.raw", tmp_path / name
        depth = 10 if pix_fmt.endswith("10le") else 8
        columns = [_coded(patch, matrix, full, depth) if matrix else patch for patch in patches]
        raw.write_bytes(_picture(columns, size, depth, pix_fmt) * frames)
        shape = ("-pix_fmt", pix_fmt, "-s", f"{size[0]}x{size[1]}", "-r", "25")
        # As options of the output they would have ffmpeg convert the pictures.
        named = ("-vf", f"setparams={tags}") if tags else ()
        run_ffmpeg(ffmpeg, "-f", "rawvideo", *shape, "-i", str(raw), *named, *options, str(path))
        return path

    return make


def _coded(rgb: RGB, matrix: int, full: bool, depth: int) -> RGB:
    """Y'CbCr of R'G'B' in 0 … 255."""
    kr, kb = KR_KB[matrix]
    r, g, b = (value / 255 for value in rgb)
    y = kr * r + (1 - kr - kb) * g + kb * b
    cb, cr = (b - y) / (2 - 2 * kb), (r - y) / (2 - 2 * kr)
    top = (1 << depth) - 1
    unit = 1 << depth - 8
    low, luma, chroma = (0, top, top) if full else (16 * unit, 219 * unit, 224 * unit)
    return (low + luma * y, 128 * unit + chroma * cb, 128 * unit + chroma * cr)


def _picture(columns: Sequence[RGB], size: tuple[int, int], depth: int, pix_fmt: str) -> bytes:
    width, height = size
    at = [columns[x * len(columns) // width] for x in range(width)]

    def packed(values: Sequence[float]) -> bytes:
        codes = [min((1 << depth) - 1, max(0, round(value))) for value in values]
        return bytes(codes) if depth == 8 else struct.pack(f"<{len(codes)}H", *codes)

    if pix_fmt != "rgb24":
        planes = 1 if pix_fmt == "gray" else 3
        return b"".join(packed([colour[plane] for colour in at]) * height for plane in range(planes))
    return packed([value for colour in at for value in colour]) * height


def ten_bit(make: Make, name: str, patches: Sequence[RGB], tags: str) -> Path:
    """HEVC with the matrix of BT.2020."""
    options = (*X265, "-pix_fmt", "yuv420p10le")
    return make(name, *options, tags=tags, pix_fmt="yuv444p10le", matrix=9, patches=patches)


def published(encode: MakeEncode, source: Path, **changes: object) -> bytes:
    """Init and segments of the one quality that is made of a source."""
    made = encode(source, **({"rungs": RUNG, "poster": False} | changes))
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    return streams(made)["144p"]


def shown(path: Path, width: int, height: int) -> list[RGB]:
    """The patches of the first picture of a file, by its tags."""
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
    assert (frame.width, frame.height) == (width, height)
    return patches_of(frame)


def patches_of(frame: av.VideoFrame) -> list[RGB]:
    kr, kb = KR_KB[int(frame.colorspace)]
    full = int(frame.color_range) == 2
    deep = frame.format.name == "yuv420p10le"
    assert deep or frame.format.name == ("yuvj420p" if full else "yuv420p")

    def sample(plane: int, column: int) -> float:
        part = frame.planes[plane]
        line = bytes(part)[part.height // 2 * part.line_size :]
        at = (2 * column + 1) * part.width // 16
        return int.from_bytes(line[2 * at : 2 * at + 2], "little") / 4 if deep else line[at]

    found = []
    for column in range(8):
        y, cb, cr = (sample(plane, column) for plane in range(3))
        low, luma, chroma = (0, 255, 255) if full else (16, 219, 224)
        y, cb, cr = (y - low) / luma, (cb - 128) / chroma, (cr - 128) / chroma
        r, b = y + (2 - 2 * kr) * cr, y + (2 - 2 * kb) * cb
        g = (y - kr * r - kb * b) / (1 - kr - kb)
        found.append((r * 255, g * 255, b * 255))
    return found


def assert_like(found: Sequence[RGB], expected: Sequence[RGB], within: float = 3) -> None:
    differences = [
        max(abs(a - b) for a, b in zip(one, other, strict=True))
        for one, other in zip(found, expected, strict=True)
    ]
    assert max(differences) <= within, list(zip(found, expected, strict=True))


def first_frame(stream: bytes, tmp_path: Path) -> av.VideoFrame:
    path = tmp_path / "published.mp4"
    path.write_bytes(stream)
    with av.open(str(path)) as container:
        return next(container.decode(video=0))


LUMA = tuple((y, y, y) for y in (0.299 * r + 0.587 * g + 0.114 * b for r, g, b in SATURATED))
HD = {"size": (1280, 720)}
SOURCES = {
    "rgb-png.mov": (("-c:v", "png"), {"pix_fmt": "rgb24"}, SATURATED),
    "rgb-ffv1.mkv": (("-c:v", "ffv1", "-pix_fmt", "bgr0"), {"pix_fmt": "rgb24"}, SATURATED),
    "rgb-h264.mp4": (("-c:v", "libx264rgb", "-qp", "0"), {"pix_fmt": "rgb24"}, SATURATED),
    "rgb-odd.mov": (("-c:v", "png"), {"pix_fmt": "rgb24", "size": (319, 181)}, SATURATED),
    "rgb-alpha.mov": (("-c:v", "qtrle", "-pix_fmt", "argb"), {"pix_fmt": "rgb24"}, SATURATED),
    "rgb-hd.mkv": (("-c:v", "ffv1"), {"pix_fmt": "rgb24", "size": (1280, 720)}, SATURATED),
    "grey.mkv": (("-c:v", "ffv1"), {"pix_fmt": "gray", "matrix": 5, "full": True}, LUMA),
    "grey-limited.mp4": (X265, {"pix_fmt": "gray", "matrix": 5, "tags": "range=tv"}, LUMA),
    "grey-limited-hd.mp4": (X265, {"pix_fmt": "gray", "matrix": 5, "tags": "range=tv", **HD}, LUMA),
    "vp8-full.webm": (
        ("-c:v", "libvpx", "-b:v", "4M", "-pix_fmt", "yuv420p"),
        {"matrix": 5, "full": True, "tags": "range=pc"},
        SATURATED,
    ),
    "vp9-full.webm": (
        ("-c:v", "libvpx-vp9", "-b:v", "4M", "-pix_fmt", "yuv420p"),
        {"matrix": 5, "full": True, "tags": "range=pc"},
        SATURATED,
    ),
    "motion.avi": (
        ("-c:v", "mjpeg", "-q:v", "1", "-pix_fmt", "yuvj420p"),
        {"matrix": 5, "full": True, "pix_fmt": "yuvj444p"},
        SATURATED,
    ),
    "pal.mp4": ((*X264, "-pix_fmt", "yuv420p"), {"matrix": 5, "size": (720, 576)}, SATURATED),
    "ntsc.mp4": ((*X264, "-pix_fmt", "yuv420p"), {"matrix": 6, "size": (640, 480)}, SATURATED),
    "odd.mkv": (("-c:v", "ffv1", "-pix_fmt", "yuv420p"), {"matrix": 6, "size": (319, 181)}, SATURATED),
    "hd.mp4": ((*X264, "-pix_fmt", "yuv420p"), {"matrix": 1, **HD}, SATURATED),
    "hd-full.mp4": (
        (*X264, "-pix_fmt", "yuvj420p"),
        {"matrix": 1, "full": True, "tags": "range=pc:colorspace=bt709", "pix_fmt": "yuvj444p", **HD},
        SATURATED,
    ),
    "hd-in-601.mp4": (
        (*X264, "-pix_fmt", "yuv420p"),
        {"matrix": 6, "tags": "colorspace=smpte170m", **HD},
        SATURATED,
    ),
    "sd-in-709.mp4": (
        (*X264, "-pix_fmt", "yuv420p"),
        {"matrix": 1, "tags": "colorspace=bt709"},
        SATURATED,
    ),
    "ten-bit.mp4": (
        (*X265, "-pix_fmt", "yuv420p10le"),
        {"matrix": 6, "pix_fmt": "yuv444p10le"},
        SATURATED,
    ),
}
QUICK = (
    "rgb-png.mov",
    "grey-limited.mp4",
    "vp9-full.webm",
    "motion.avi",
    "ntsc.mp4",
    "odd.mkv",
    "hd.mp4",
    "sd-in-709.mp4",
)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.more) for name in SOURCES]
)
def test_colours_of_sdr_are_those_of_the_source(
    make: Make, encode: MakeEncode, tmp_path: Path, name: str
) -> None:
    options, shape, expected = SOURCES[name]
    frame = first_frame(published(encode, make(name, *options, **shape)), tmp_path)
    assert (frame.colorspace, frame.color_primaries, frame.color_trc, frame.color_range) == (1, 1, 1, 1)
    assert_like(patches_of(frame), expected)


def test_pictures_in_xyz_of_digital_cinema(make: Make, encode: MakeEncode, tmp_path: Path) -> None:
    """ffmpeg's matrix for them is rough."""
    lossless = ("-c:v", "jpeg2000", "-pred", "1", "-q:v", "1")
    source = make("cinema.mxf", "-vf", "format=rgb48,format=xyz12le", *lossless, pix_fmt="rgb24")
    frame = first_frame(published(encode, source), tmp_path)
    assert_like(patches_of(frame), SATURATED, within=10)


def test_the_picture_and_its_container_carry_the_tags(
    make: Make, encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    stream = published(encode, make("a.mp4", *X264, "-pix_fmt", "yuv420p", matrix=6))
    assert b"colrnclx" + struct.pack(">HHHB", 1, 1, 1, 0) in stream
    whole, bare = tmp_path / "whole.mp4", tmp_path / "bare.h264"
    whole.write_bytes(stream)
    run_ffmpeg(ffmpeg, "-i", str(whole), "-c", "copy", str(bare))
    frame = first_frame(bare.read_bytes(), tmp_path)
    assert (frame.colorspace, frame.color_primaries, frame.color_trc, frame.color_range) == (1, 1, 1, 1)


@pytest.mark.parametrize("codec", ["hevc", "av1"])
def test_every_codec_has_the_colours_of_the_source(
    make: Make, encode: MakeEncode, tmp_path: Path, codec: str
) -> None:
    options, shape, expected = SOURCES["ten-bit.mp4"]
    rungs = [replace(RUNG[0], codec=codec, crf=10)]
    stream = published(encode, make("ten-bit.mp4", *options, **shape), rungs=rungs)
    assert b"colrnclx" + struct.pack(">HHHB", 1, 1, 1, 0) in stream
    frame = first_frame(stream, tmp_path)
    assert (frame.colorspace, frame.color_primaries, frame.color_trc, frame.color_range) == (1, 1, 1, 1)
    assert_like(patches_of(frame), expected)


def test_primaries_near_bt709_keep_their_values_and_their_name(
    make: Make, encode: MakeEncode, tmp_path: Path
) -> None:
    tags = "colorspace=bt470bg:color_primaries=bt470bg:color_trc=bt470bg"
    source = make("pal.mp4", *X264, "-pix_fmt", "yuv420p", tags=tags, matrix=5, size=(720, 576))
    frame = first_frame(published(encode, source), tmp_path)
    assert (frame.colorspace, frame.color_primaries, frame.color_trc) == (1, 5, 1)
    assert_like(patches_of(frame), SATURATED)


def _light(rgb: RGB) -> RGB:
    """Of an SDR display (BT.1886), 1 for white."""
    return tuple((value / 255) ** 2.4 for value in rgb)  # type: ignore[return-value]


def _in_bt2020(light: RGB) -> RGB:
    return tuple(  # type: ignore[return-value]
        max(0.0, sum(weight * value for weight, value in zip(row, light, strict=True)))
        for row in BT2020_OF_BT709
    )


def _pq(rgb: RGB, white_nits: float = 203) -> RGB:
    """R'G'B' of SMPTE ST 2084 for a colour of an SDR display, in 0 … 255."""

    def curve(value: float) -> float:
        y = (value * white_nits / 10000) ** 0.1593017578125
        return float(((0.8359375 + 18.8515625 * y) / (1 + 18.6875 * y)) ** 78.84375)

    return tuple(255 * curve(value) for value in _in_bt2020(_light(rgb)))  # type: ignore[return-value]


def _hlg(rgb: RGB) -> RGB:
    """R'G'B' of ARIB STD-B67, as a display of 1000 nits has to be given it."""
    light = [value * 203 / 1000 for value in _in_bt2020(_light(rgb))]
    luminance = 0.2627 * light[0] + 0.6780 * light[1] + 0.0593 * light[2]

    def curve(value: float) -> float:
        scene = value * luminance ** (1 / 1.2 - 1) if luminance else 0.0
        if scene <= 1 / 12:
            return math.sqrt(3 * scene)
        return 0.17883277 * math.log(12 * scene - 0.28466892) + 0.55991073

    return tuple(255 * curve(value) for value in light)  # type: ignore[return-value]


def _bt2020_sdr(rgb: RGB) -> RGB:
    return tuple(255 * value ** (1 / 2.4) for value in _in_bt2020(_light(rgb)))  # type: ignore[return-value]


HDR10 = f"{TAGS_2020}:color_trc=smpte2084"
WIDE = {
    "bt2020-sdr.mp4": (_bt2020_sdr, f"{TAGS_2020}:color_trc=bt2020-10"),
    "hdr10.mp4": (_pq, HDR10),
    "hlg.mp4": (_hlg, f"{TAGS_2020}:color_trc=arib-std-b67"),
    "hdr10-partly-tagged.mp4": (_pq, "color_trc=smpte2084"),
}


@pytest.mark.parametrize("name", WIDE)
def test_wide_colours_and_brightness_become_those_of_an_sdr_display(
    make: Make, encode: MakeEncode, tmp_path: Path, name: str
) -> None:
    """Up to the knee of the curve: middle grey and skin stay what they are beside a reference white."""
    coded, tags = WIDE[name]
    source = ten_bit(make, name, [coded(patch) for patch in SOFT], tags)
    frame = first_frame(published(encode, source), tmp_path)
    assert (frame.colorspace, frame.color_primaries, frame.color_trc, frame.color_range) == (1, 1, 1, 1)
    assert_like(patches_of(frame), SOFT)


def test_hdr_that_only_the_container_declares_is_mapped(
    make: Make, encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    plain, source = ten_bit(make, "plain.mkv", [_pq(patch) for patch in SOFT], ""), tmp_path / "tagged.mkv"
    tags = ("-color_primaries", "bt2020", "-color_trc", "smpte2084", "-colorspace", "bt2020nc")
    run_ffmpeg(ffmpeg, "-i", str(plain), "-c", "copy", *tags, str(source))
    frame = first_frame(published(encode, source), tmp_path)
    assert (frame.colorspace, frame.color_primaries, frame.color_trc, frame.color_range) == (1, 1, 1, 1)
    assert_like(patches_of(frame), SOFT)


@pytest.mark.parametrize("codec", ["hevc", "av1"])
@pytest.mark.parametrize("name", ["hdr10.mp4", "hlg.mp4"])
def test_hdr_that_is_kept_has_the_values_and_the_tags_of_the_source(
    make: Make, encode: MakeEncode, tmp_path: Path, name: str, codec: str
) -> None:
    curve, tags = WIDE[name]
    source = ten_bit(make, name, [curve(patch) for patch in SATURATED], tags)
    rungs = [replace(RUNG[0], codec=codec, crf=10, hdr=True)]
    stream = published(encode, source, rungs=rungs)
    transfer = colour_of(probe(os.fsencode(source)).video).transfer
    assert b"colrnclx" + struct.pack(">HHHB", 9, transfer, 9, 0) in stream
    frame = first_frame(stream, tmp_path)
    assert (frame.colorspace, frame.color_primaries, frame.color_trc, frame.color_range) == (
        9,
        9,
        transfer,
        1,
    )
    assert_like(patches_of(frame), [curve(patch) for patch in SATURATED])


@pytest.mark.slow
def test_what_describes_the_mastering_display_is_kept_with_hdr_alone(
    ffmpeg: FFmpeg, encode: MakeEncode, tmp_path: Path
) -> None:
    source = tmp_path / "mastered.mkv"
    display = "master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1)"
    run_ffmpeg(
        ffmpeg,
        *("-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=1"),
        *("-vf", f"format=yuv420p10le,setparams=range=tv:{HDR10}", "-c:v", "libx265"),
        *("-x265-params", f"log-level=error:max-cll=1000,400:{display}", str(source)),
    )
    kinds = ("MASTERING_DISPLAY_METADATA", "CONTENT_LIGHT_LEVEL")

    def described(content: bytes) -> list[bytes | None]:
        found = first_frame(content, tmp_path).side_data
        return [None if (data := found.get(kind)) is None else bytes(data) for kind in kinds]

    expected = described(source.read_bytes())
    assert None not in expected
    sdr, ten = RUNG[0], replace(RUNG[0], codec="hevc")
    rungs = [sdr, replace(ten, name="sdr-hevc"), replace(ten, name="hdr", hdr=True)]
    made = encode(source, rungs=rungs, poster=False)
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    assert {name: described(content) for name, content in streams(made).items()} == {
        sdr.name: [None, None],
        "sdr-hevc": [None, None],
        "hdr": expected,
    }


def test_highlights_of_hdr_keep_their_order_and_end_at_white(
    make: Make, encode: MakeEncode, tmp_path: Path
) -> None:
    nits = (50, 100, 203, 300, 500, 700, 1000, 4000)
    steps = [_pq((255, 255, 255), value) for value in nits]
    source = ten_bit(make, "steps.mp4", steps, HDR10)
    greys = [g for _, g, _ in patches_of(first_frame(published(encode, source), tmp_path))]
    assert greys == sorted(greys)
    # Diffuse white is near that of SDR, with room above it.
    assert greys[2] == pytest.approx(226, abs=3)
    assert greys[6] == pytest.approx(255, abs=3)
    assert all(later - earlier > 2 for earlier, later in pairwise(greys))


@pytest.mark.slow
def test_a_frame_of_hdr_is_mapped_alike_wherever_a_run_begins(
    encode: MakeEncode, small: Profile, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    """Its brightness rises from picture to picture, and none depends on those before it."""
    source = tmp_path / "rising.mp4"
    ramp = "geq=lum='64+N*8*gte(X,W/2)+200*lt(X,W/2)':cb=512:cr=512"
    run_ffmpeg(
        ffmpeg,
        *("-f", "lavfi", "-i", f"color=s=320x180:r=25:d=3.6,format=yuv420p10le,{ramp}"),
        *("-vf", f"setparams={HDR10}", *X265, "-g", "25", str(source)),
    )
    finer = replace(small, crf=4)
    whole = encode(source, finer, rungs=RUNG, poster=False, store_root=tmp_path / "whole")
    run_to_end(whole)
    first = encode(source, finer, rungs=RUNG, poster=False)
    kill_behind(first, 2)
    second = encode(source, finer, rungs=RUNG, poster=False)
    run_to_end(second)
    assert (second.state, second.error, second.warnings) == ("done", None, [])
    assert second.runs[-1].starts_at_s == 2
    inits = [state.directory / "init.mp4" for made in (whole, second) for state in made.renditions]
    assert inits[0].read_bytes() == inits[1].read_bytes()

    def all_of(stream: bytes, name: str) -> list[RGB]:
        path = tmp_path / name
        path.write_bytes(stream)
        with av.open(str(path)) as container:
            return [colour for frame in container.decode(video=0) for colour in patches_of(frame)]

    one = all_of(streams(whole)["144p"], "whole.mp4")
    other = all_of(streams(second)["144p"], "joined.mp4")
    assert len(one) == 90 * 8
    assert_like(one, other, within=2)


@pytest.mark.parametrize(("aspect", "size"), [("1", (320, 180)), ("2", (640, 180)), ("1/2", (160, 180))])
def test_a_poster_has_the_colours_and_the_aspect_of_the_video(
    make: Make, encode: MakeEncode, aspect: str, size: tuple[int, int]
) -> None:
    source = ten_bit(make, "hdr10.mp4", [_pq(patch) for patch in SOFT], f"{HDR10},setsar={aspect}")
    made = encode(source)
    run_to_end(made)
    assert made.side.poster is not None
    # Two roundings and JPEG.
    assert_like(shown(made.side.poster, *size), SOFT, within=5)


@pytest.mark.parametrize("name", ["rgb-png.mov", "vp8-full.webm", "ntsc.mp4", "hd.mp4"])
def test_a_poster_of_sdr_has_its_colours(make: Make, encode: MakeEncode, name: str) -> None:
    options, shape, expected = SOURCES[name]
    made = encode(make(name, *options, **shape))
    run_to_end(made)
    assert made.side.poster is not None
    with av.open(str(made.side.poster)) as container:
        assert_like(patches_of(next(container.decode(video=0))), expected, within=5)


@pytest.fixture
def facts(make: Make) -> SourceFacts:
    return probe(str(make("a.mp4", *X264, "-pix_fmt", "yuv420p", matrix=6)).encode())


@pytest.mark.parametrize(("compatibility", "transfer"), [(1, 16), (2, 1), (4, 18), (6, 16)])
def test_the_base_layer_without_tags_is_what_it_is_compatible_with(
    facts: SourceFacts, compatibility: int, transfer: int
) -> None:
    video = replace(facts.video, dv_profile=8, dv_compatibility=compatibility)
    assert colour_of(video).transfer == transfer


@pytest.mark.parametrize(
    ("width", "height", "matrix"),
    [(720, 576, 6), (1024, 576, 6), (640, 480, 6), (1280, 544, 1), (720, 1280, 1), (960, 720, 1)],
)
def test_a_silent_source_is_read_by_its_size(
    facts: SourceFacts, width: int, height: int, matrix: int
) -> None:
    video = replace(facts.video, coded_width=width, coded_height=height)
    assert colour_of(video).matrix == matrix


@pytest.mark.parametrize(
    ("change", "warned"),
    [
        ({}, []),
        ({"color_transfer": 18}, [("HDR_TONE_MAPPED", "HDR (HLG)")]),
        (
            {"color_transfer": 16, "dv_profile": 8, "dv_compatibility": 1},
            [("HDR_TONE_MAPPED", "Dolby Vision 8: its base layer (PQ)")],
        ),
        ({"dv_profile": 5}, [("HDR_TONE_MAPPED", "Dolby Vision 5 (PQ)")]),
        ({"pix_fmt": "yuva444p10le"}, [("ALPHA_LEFT_OUT", "transparency is left out")]),
    ],
)
def test_what_is_lost_is_a_warning(
    facts: SourceFacts, change: dict[str, object], warned: list[tuple[str, str]]
) -> None:
    found = of_source(replace(facts, video=replace(facts.video, **change)), profiles.load("web"))
    assert [one.code for one in found] == [code for code, _ in warned]
    assert all(one.text.startswith(begin) for one, (_, begin) in zip(found, warned, strict=True))


def test_hdr_that_no_rung_of_the_source_keeps_is_a_warning(facts: SourceFacts) -> None:
    hdr = replace(facts, video=replace(facts.video, color_transfer=16))
    for size, codes in ((2160, ["HDR_TONE_MAPPED"]), (144, [])):
        rungs = (RungSpec(size, 900, codec="hevc", hdr=True), RungSpec(144, 500))
        profile = replace(profiles.load("web"), rungs=rungs)
        assert [one.code for one in of_source(hdr, profile)] == codes


def test_what_changes_the_colours_changes_the_key(facts: SourceFacts) -> None:
    profile = profiles.load("web")
    rung = Rung("144p", 256, 144, 1000)
    key = settings_hash("content", profile, rung, facts)
    for change in ({"color_range": 2}, {"color_space": 1}, {"color_transfer": 16}, {"color_primaries": 9}):
        other = replace(facts, video=replace(facts.video, **change))
        assert settings_hash("content", profile, rung, other) != key
    named = replace(facts, video=replace(facts.video, color_space=5))
    assert colour_of(named.video) == replace(colour_of(facts.video), matrix=5)


def test_the_gpu_gets_the_same_pictures(facts: SourceFacts, ffmpeg: FFmpeg) -> None:
    profile = profiles.load("web")
    graphs = [
        argv[argv.index("-filter_complex") + 1]
        for argv in (
            video_command(ffmpeg, b"/a", facts, make_grid(facts, profile), profile, RUNG, encoder)
            for encoder in ("libx264", "h264_nvenc")
        )
    ]
    assert graphs[0].replace("format=yuv420p", "format=nv12") == graphs[1]
    assert "zscale" in graphs[0]
    assert "zscale" in " ".join(poster_command(ffmpeg, b"/a", facts, profile))

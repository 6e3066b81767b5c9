"""3D and 360° video: what marks it does not stop ffmpeg, and a warning says what players are not told."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.source.probe import probe

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

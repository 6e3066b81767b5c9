"""Bitmap subtitles become part of the pictures, made by confined programs of a real worker."""

from __future__ import annotations

from pathlib import Path

import av
import m3u8
import pytest

from pgs import Box, sup

from .conftest import MakeStudio
from .test_warnings import X264, make, processed

CANVAS = 1280, 720
SHOWN = Box(1, 3, 320, 480, 320, 160)


def film(ffmpeg: str, folder: Path, filters: str = "null") -> Path:
    """Six seconds of grey, with a German track of PGS."""
    track = folder / "track.sup"
    track.write_bytes(sup([SHOWN, Box(5, 5.5, 0, 0, 320, 160)], CANVAS))
    grey = ("-copyts", "-f", "lavfi", "-i", f"color=gray:s=320x180:r=25:d=6,{filters}")
    # Only PGS ends a bitmap with the next packet.
    both = (*grey, "-fix_sub_duration", "-i", str(track), "-map", "0", "-map", "1", "-c:s", "copy")
    return make(ffmpeg, folder / "film.mkv", *both, *X264, "-g", "25", "-metadata:s:s:0", "language=ger")


def lit(index: Path) -> list[bool]:
    """Whether each picture of a quality is white in the middle of the first box."""
    playlist = m3u8.load(str(index))
    names = [playlist.segment_map[0].uri, *(segment.uri for segment in playlist.segments)]
    joined = index.parent.parent / f"{index.parent.name}.mp4"
    joined.write_bytes(b"".join((index.parent / name).read_bytes() for name in names))
    x, y = (SHOWN.x + SHOWN.width / 2) / CANVAS[0], (SHOWN.y + SHOWN.height / 2) / CANVAS[1]
    found = []
    with av.open(str(joined)) as media:
        for picture in media.decode(video=0):
            plane = picture.planes[0]
            at = int(y * picture.height) * plane.line_size + int(x * picture.width)
            found.append(bytes(plane)[at] > 190)
    return found


@pytest.mark.slow
def test_the_subtitles_of_a_language_are_in_every_quality(
    make_studio: MakeStudio, ffmpeg: str, tmp_path: Path
) -> None:
    studio = make_studio().up()
    video = processed(studio, film(ffmpeg, tmp_path), "--set", "subtitles.burn=de")
    assert [each["code"] for each in video["warnings"]] == ["SUBTITLES_BURNT"]
    master = Path(video["master"])
    assert studio("verify", "--full", master.parent).code == 0
    expected = [25 <= number < 75 for number in range(150)]
    for entry in m3u8.load(str(master)).playlists:
        assert lit(master.parent / entry.uri) == expected


@pytest.mark.more
def test_damaged_pictures_are_still_reported(make_studio: MakeStudio, ffmpeg: str, tmp_path: Path) -> None:
    """ffmpeg is to ignore damaged subtitles, but not damaged pictures."""
    source = film(ffmpeg, tmp_path, "noise=alls=20:allf=t")
    content = bytearray(source.read_bytes())
    for at in range(len(content) // 2, len(content) * 3 // 4, 997):
        content[at : at + 12] = bytes(value ^ 0x55 for value in content[at : at + 12])
    source.write_bytes(content)
    codes = {}
    for burn in ("none", "de"):
        video = processed(make_studio(), source, "--set", f"subtitles.burn={burn}")
        codes[burn] = {each["code"] for each in video["warnings"]}
    assert codes["none"] - {"SUBTITLES_LEFT_OUT"} == codes["de"] - {"SUBTITLES_BURNT"} == {"SOURCE_DAMAGED"}

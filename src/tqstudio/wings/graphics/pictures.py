"""Scales the poster and the storyboard of a ladder to as many colours as a terminal has cells for.

The supervisor decodes no picture itself: ffmpeg does, confined, from copies of the files.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from tqstudio.engine.files import durable
from tqstudio.engine.files.bounded_io import BoundedIO, NoAnswer
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.errors import classify_exit, from_output_error
from tqstudio.engine.media.ffmpeg.process import can_be_confined, start
from tqstudio.engine.media.plan.file_names import POSTER_NAME, STORED_POSTERS
from tqstudio.engine.media.segments import storyboard
from tqstudio.engine.media.segments.storyboard import Tile
from tqstudio.engine.parts.part import Part
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol.answers import PictureView

Kind = Literal["poster", "storyboard"]
_KEPT = 64
"""Answers that are kept, of at most 15 kB."""
_TIMEOUT_S = 20.0
_MEMORY_BYTES, _LARGEST = 512 * 1024**2, 4 * 1024**2
_INPUT, _OUTPUT = "in-%03d.jpg", "out-%03d.ppm"
_HEAD = re.compile(rb"P6\s(\d+)\s(\d+)\s255\s")


class _Pixels(NamedTuple):
    width: int
    height: int
    rgb: bytes


class Pictures(Part):
    """Scales one picture at a time, and keeps the last ones."""

    def __init__(self, ffmpeg: FFmpeg, bounded_io: BoundedIO) -> None:
        self._ffmpeg, self._bounded_io = ffmpeg, bounded_io
        self._one = asyncio.Lock()
        self._kept: dict[tuple[int, Path, Kind, int, int], PictureView] = {}

    async def get(self, published_at: int, folder: Path, kind: Kind, width: int, height: int) -> PictureView:
        """Return a picture, at most so large.

        Args:
            published_at: of the generation, whose files never change; 0 for a store.
            folder: where it is; one of another video may follow there. Or the store of a video.

        Raises:
            TqError: NOT_FOUND without such a picture; OUTPUT_INVALID if it cannot be decoded; of its disk.
        """
        key = (published_at, folder, kind, width, height)
        async with self._one:
            if (view := self._kept.pop(key, None)) is None:
                view = await self._make(folder, kind, width, height)
            self._kept[key] = view
            if len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
            return view

    async def _make(self, folder: Path, kind: Kind, width: int, height: int) -> PictureView:
        def read() -> tuple[list[Tile], dict[str, bytes]]:
            tiles = [] if kind == "poster" else _spread(storyboard.shown(folder), width, height)
            names = [tile.sprite for tile in tiles] or [_poster(folder)]
            return tiles, {name: durable.read(folder / name) for name in names}

        try:
            tiles, files = await self._bounded_io.run(os.fsencode(folder), read)
            fit, size = f"{width}:{height}:force_original_aspect_ratio=decrease", (width, height)
            if tiles:
                size = _size(tiles[0], width, height)
                # Of a whole sprite, so that each of its pictures gets whole pixels.
                fit = f"iw/{tiles[0].width}*{size[0]}:ih/{tiles[0].height}*{size[1]}"
            scaled = await asyncio.to_thread(_scale, self._ffmpeg, [*files.values()], fit)
            sprites = dict(zip(files, scaled, strict=True))
            parts = [_cut(sprites[tile.sprite], tile, *size) for tile in tiles] or scaled
        except FileNotFoundError:
            hint = "a retranscode of the whole ladder makes it again"
            raise TqError(ErrorCode.NOT_FOUND, f"this ladder has no {kind}", hint) from None
        except NoAnswer as error:
            raise TqError(ErrorCode.DISK_NOT_RESPONDING, error.strerror) from None
        except OSError as error:
            raise from_output_error(error, f"the {kind} cannot be read") from None
        except (ValueError, subprocess.TimeoutExpired) as error:
            hint = "check the ladder with: tqstudio verify"
            raise TqError(ErrorCode.OUTPUT_INVALID, f"the {kind} is damaged: {error}", hint) from None
        return {
            "width": parts[0].width,
            "height": parts[0].height,
            "times": [tile.at_s for tile in tiles],
            "rgb_b64": [base64.b64encode(part.rgb).decode() for part in parts],
        }


def _poster(folder: Path) -> str:
    """The name of the poster of a ladder, or of the newest one in a store."""
    stored = sorted(folder.glob(STORED_POSTERS), key=lambda path: path.stat().st_mtime)
    return stored[-1].name if stored else POSTER_NAME


def _size(tile: Tile, width: int, height: int) -> tuple[int, int]:
    """The size of a picture of the strip, which is as high as asked for, unless it is wider then."""
    scale = min(height / tile.height, width / tile.width)
    return max(1, round(tile.width * scale)), max(1, round(tile.height * scale))


def _spread(tiles: Sequence[Tile], width: int, height: int) -> list[Tile]:
    """As many pictures as fit beside each other, evenly spaced."""
    count = min(len(tiles), width // _size(tiles[0], width, height)[0])
    return [tiles[int((number + 0.5) * len(tiles) / count)] for number in range(count)]


def _scale(ffmpeg: FFmpeg, files: Sequence[bytes], fit: str) -> list[_Pixels]:
    argv = [
        *(ffmpeg.path, "-hide_banner", "-nostdin", "-nostats", "-y", "-threads", "1"),
        *("-f", "image2", "-c:v", "mjpeg", "-start_number", "0", "-i", _INPUT),
        *("-vf", f"scale={fit}:flags=area,format=rgb24"),
        *("-c:v", "ppm", "-f", "image2", "-start_number", "0", _OUTPUT),
    ]
    confined = can_be_confined(ffmpeg.path)
    with tempfile.TemporaryDirectory(prefix="tqstudio-picture-") as name:
        scratch = Path(name)
        for number, content in enumerate(files):
            (scratch / (_INPUT % number)).write_bytes(content)
        run = start(
            argv, scratch, scratch / "log", memory_limit=_MEMORY_BYTES, confined=confined, largest=_LARGEST
        )
        try:
            if status := run.wait(_TIMEOUT_S):
                raise ValueError(classify_exit(status, run.log_tail()).message)
        finally:
            run.kill()
        return [_read(scratch / (_OUTPUT % number)) for number in range(len(files))]


def _read(path: Path) -> _Pixels:
    content = path.read_bytes() if path.exists() else b""
    if (head := _HEAD.match(content)) is None:
        raise ValueError("no picture comes out")
    return _Pixels(int(head[1]), int(head[2]), content[head.end() :])


def _cut(sprite: _Pixels, tile: Tile, width: int, height: int) -> _Pixels:
    """The pixels of one picture of a scaled sprite."""
    left, top = tile.x // tile.width * width, tile.y // tile.height * height
    if left + width > sprite.width or top + height > sprite.height:
        raise ValueError("a picture is outside of its sprite")
    rows = range(top * sprite.width, (top + height) * sprite.width, sprite.width)
    return _Pixels(width, height, b"".join(sprite.rgb[3 * (y + left) : 3 * (y + left + width)] for y in rows))

"""Sources whose timestamps are hard to resume on.

Every picture shows its number, so that none can be mistaken: as 16 black and white bars, which scaling and a
low bit rate leave readable.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import av

from numbered_pictures import BITS, draw
from tqstudio.engine.media.ffmpeg.binary import FFmpeg

from .conftest import run_ffmpeg

_SECONDS = 17.4
_PLAIN = ("-preset", "ultrafast", "-g", "40")
_B_FRAMES = ("-preset", "veryfast", "-bf", "3", "-g", "60", "-sc_threshold", "0")


@dataclass(frozen=True)
class Nasty:
    """One source of the corpus."""

    name: str
    make: Callable[[Corpus, Path], None]
    unseekable: Literal["", "probed", "found"] = ""
    """It can only be decoded from its start: the probe reports it, or the first run finds out."""
    shown: tuple[int, int] = (0, 435)
    """The pictures of the clip that it shows: from, and up to but without."""
    lost: int = 0
    """How many between them it does not have."""
    late_s: float = 0
    """By how much its picture begins behind its sound."""


class Corpus:
    """Makes the clips of which the nasty ones are put together, each once.

    Args:
        folder: receives all files.
        size: of the pictures of all clips.
    """

    def __init__(self, ffmpeg: FFmpeg, folder: Path, size: str = "160x90") -> None:
        self._ffmpeg = ffmpeg
        self._folder = folder
        self._size = size

    def source(self, nasty: Nasty) -> Path:
        """The file, made when it is first asked for."""
        path = self._folder / nasty.name
        if not path.exists():
            nasty.make(self, path)
        return path

    def clip(
        self, name: str, *options: str, fps: str = "25", filters: str = "null", sound: bool = False
    ) -> str:
        """A clip with numbered pictures."""
        path = self._folder / name
        if not path.exists():
            self.run(
                *("-f", "lavfi", "-i", draw(fps, _SECONDS, self._size)),
                *(("-f", "lavfi", "-i", f"sine=r=44100:d={_SECONDS}", "-c:a", "aac") if sound else ()),
                *("-vf", filters, "-c:v", "libx264", "-pix_fmt", "yuv420p", *options, str(path)),
            )
        return str(path)

    def plain(self) -> str:
        """With a tone."""
        return self.clip("plain.mp4", *_PLAIN, sound=True)

    def with_b_frames(self) -> str:
        return self.clip("b-frames.mp4", *_B_FRAMES)

    def part(self, start_s: float, length_s: float, clock_s: float) -> bytes:
        """A piece of the plain clip as MPEG-TS whose clock begins at `clock_s`."""
        path = self._folder / f"part-{start_s}-{length_s}-{clock_s}.ts"
        self.copy(
            self.plain(), path, "-output_ts_offset", f"{clock_s}", before=("-ss", f"{start_s}"), t=length_s
        )
        return path.read_bytes()

    def copy(
        self, source: str, target: Path, *options: str, before: tuple[str, ...] = (), t: float | None = None
    ) -> None:
        """Put the streams of a clip into another container."""
        length = () if t is None else ("-t", f"{t}")
        self.run(*before, *length, "-i", source, "-map", "0", "-c", "copy", *options, str(target))

    def run(self, *arguments: str) -> None:
        run_ffmpeg(self._ffmpeg, *arguments)


def _jump_forward(corpus: Corpus, path: Path) -> None:
    path.write_bytes(corpus.part(0, 8, 0) + corpus.part(8, 20, 20_000))


def _jump_back(corpus: Corpus, path: Path) -> None:
    path.write_bytes(corpus.part(0, 8, 50) + corpus.part(8, 20, 3))


def _hole(corpus: Corpus, path: Path) -> None:
    path.write_bytes(corpus.part(0, 6.4, 0) + corpus.part(9.6, 20, 9.6))


def _frozen(corpus: Corpus, path: Path) -> None:
    filters = "select='lt(t,2.5)+gt(t,15.1)'"
    Path(corpus.clip(path.name, *_B_FRAMES, "-fps_mode", "vfr", filters=filters)).touch()


def _pause(corpus: Corpus, path: Path) -> None:
    """The pictures pause for longer than ffmpeg allows a clock to; the sound does not."""
    filters = "select='lt(t,2.5)+gt(t,15.1)'"
    film = corpus.clip("pause.mp4", *_B_FRAMES, "-fps_mode", "vfr", filters=filters, sound=True)
    corpus.copy(film, path)


def _edit_list(corpus: Corpus, path: Path) -> None:
    corpus.copy(corpus.with_b_frames(), path, before=("-ss", "1.3"))


def with_edits(path: Path, *parts: tuple[float, float]) -> None:
    """Let all tracks of an MP4 (`moov` last) show these parts of them, from and to in seconds.

    From before zero, it is a pause.
    """
    data = bytearray(path.read_bytes())
    moov = data.rindex(b"moov") - 4
    movie = _number_at(data, data.index(b"mvhd", moov) + 16)
    for found in reversed([*re.finditer(b"trak", data[moov:])]):
        track = moov + found.start() - 4
        scale = _number_at(data, data.index(b"mdhd", track) + 16)
        old = data.index(b"edts", track) - 4
        # Its only edit leaves out what comes before the first picture or sound.
        zero = _number_at(data, old + 28)
        edits = [
            (
                round((end - start) * movie),
                0xFFFF_FFFF if start < 0 else zero + round(start * scale),
                1 << 16,
            )
            for start, end in parts
        ]
        content = b"".join(struct.pack(">III", *edit) for edit in edits)
        sizes = 24 + len(content), 16 + len(content)
        data[old : old + 36] = (
            struct.pack(">I4sI4sII", sizes[0], b"edts", sizes[1], b"elst", 0, len(parts)) + content
        )
        for box in (track, moov):
            struct.pack_into(">I", data, box, _number_at(data, box) + sizes[0] - 36)
    path.write_bytes(data)


def _number_at(data: bytes | bytearray, at: int) -> int:
    return int.from_bytes(data[at : at + 4])


def _edits(corpus: Corpus, path: Path) -> None:
    """Two that follow each other, of which the second begins within a GOP."""
    corpus.copy(corpus.with_b_frames(), path)
    with_edits(path, (0, 8.92), (8.92, 17.4))


def _negative(corpus: Corpus, path: Path) -> None:
    corpus.copy(corpus.plain(), path, "-avoid_negative_ts", "disabled", before=("-itsoffset", "-1.5"))


def _late(corpus: Corpus, path: Path) -> None:
    plain = corpus.plain()
    corpus.run(
        "-itsoffset", "3.7", "-i", plain, "-i", plain, "-map", "0:v", "-map", "1:a", "-c", "copy", str(path)
    )


def _open_gop(corpus: Corpus, path: Path) -> None:
    corpus.clip(path.name, *_B_FRAMES, "-x264-params", "open-gop=1", "-flags", "-cgop")


def _b_frames(corpus: Corpus, path: Path) -> None:
    corpus.copy(corpus.with_b_frames(), path)


def _keys_at_cuts(corpus: Corpus, path: Path) -> None:
    corpus.clip(path.name, *_B_FRAMES, "-g", "75")


def _keys_behind_cuts(corpus: Corpus, path: Path) -> None:
    """Decoded before the cut, shown behind it."""
    keys = ",".join(f"{3 * number + 0.04}" for number in range(1, 6))
    corpus.clip(path.name, *_B_FRAMES, "-g", "250", "-force_key_frames", keys)


def _open_behind_cuts(corpus: Corpus, path: Path) -> None:
    """Key frames 1, 2, 3 … frames behind the cuts, and pictures before them that need the GOP before."""
    corpus.clip(path.name, *_B_FRAMES, "-g", "19", "-x264-params", "open-gop=1", "-flags", "-cgop")


def _hevc(corpus: Corpus, path: Path) -> None:
    corpus.clip(
        path.name,
        *("-c:v", "libx265", "-preset", "ultrafast", "-tag:v", "hvc1"),
        *("-x265-params", "keyint=19:min-keyint=19:bframes=3:open-gop=1:scenecut=0:log-level=error"),
    )


def _fragmented(corpus: Corpus, path: Path) -> None:
    """Without an index."""
    corpus.copy(corpus.with_b_frames(), path, "-movflags", "frag_keyframe+empty_moov")


def _ntsc(corpus: Corpus, path: Path) -> None:
    corpus.clip(path.name, *_B_FRAMES, fps="30000/1001")


CORPUS = (
    Nasty("jump-forward.ts", _jump_forward, unseekable="probed"),
    Nasty("jump-back.ts", _jump_back, unseekable="probed"),
    Nasty("hole.ts", _hole, unseekable="probed", lost=80),
    Nasty("frozen.mp4", _frozen, lost=315),
    Nasty("pause.ts", _pause, unseekable="probed", lost=315),
    Nasty("edit-list.mp4", _edit_list, shown=(33, 435)),
    Nasty("edits.mp4", _edits),
    Nasty("negative.mkv", _negative, unseekable="found"),
    Nasty("late.mkv", _late, late_s=3.7),
    Nasty("open-gop.mkv", _open_gop),
    Nasty("open-gop.mp4", _open_gop),
    Nasty("keys-at-cuts.mp4", _keys_at_cuts),
    Nasty("keys-behind-cuts.mp4", _keys_behind_cuts),
    Nasty("open-behind-cuts.mp4", _open_behind_cuts),
    Nasty("hevc.mp4", _hevc),
    Nasty("fragmented.mp4", _fragmented),
    Nasty("b-frames.ts", _b_frames),
    Nasty("ntsc.mp4", _ntsc, shown=(0, 522)),
)


def pictures(stream: bytes) -> list[tuple[int, int]]:
    """(pts, number shown) of every frame, as a player decodes them."""
    with av.open(io.BytesIO(stream)) as container:
        return [(frame.pts or 0, _number(frame)) for frame in container.decode(video=0)]


def _number(frame: av.VideoFrame) -> int:
    """Read the bars in the middle row of the picture."""
    if frame.format.name != "yuv420p":
        frame = frame.reformat(format="yuv420p")
    luma = frame.planes[0]
    middle = frame.height // 2 * luma.line_size
    row = bytes(luma)[middle : middle + frame.width]
    width = frame.width / BITS
    return sum(1 << bit for bit in range(BITS) if row[int((bit + 0.5) * width)] > 125)

"""Small clips made with ffmpeg's own sources, and a profile whose rungs fit them."""

from __future__ import annotations

import io
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tqstudio.engine.media.check.rendition import verify_rendition
from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.values import EncodeSpec
from tqstudio.engine.media.ffmpeg.binary import FFmpeg, locate
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.audio import audio_renditions
from tqstudio.engine.media.plan.file_names import FRAGMENTS_NAME, fragment_name, segment_name
from tqstudio.engine.media.plan.grid import make_grid
from tqstudio.engine.media.plan.profiles import Profile, RungSpec
from tqstudio.engine.media.plan.rungs import build_ladder
from tqstudio.engine.media.plan.subtitles import subtitle_renditions
from tqstudio.engine.media.segments import boxes
from tqstudio.engine.media.segments.checked import RenditionCheck
from tqstudio.engine.media.segments.join import join
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.engine.media.source import sidecars
from tqstudio.engine.media.source.fingerprint import Original
from tqstudio.engine.media.source.probe import probe

MakeClip = Callable[..., Path]
MakeEncode = Callable[..., LadderEncode]


@pytest.fixture(scope="session")
def ffmpeg() -> FFmpeg:
    return locate(os.environ.get("TQSTUDIO_FFMPEG"))


@pytest.fixture(scope="session")
def clip(ffmpeg: FFmpeg, tmp_path_factory: pytest.TempPathFactory) -> MakeClip:
    """Makes a clip once a session: `clip("name.mp4", fps="25", seconds=4, …)`.

    A name with other arguments is another file.
    """
    made: dict[tuple[object, ...], Path] = {}

    def make(
        name: str,
        *,
        fps: str = "25",
        seconds: float = 4,
        size: str = "320x180",
        audio: int = 2,
        filters: str = "null",
        video: tuple[str, ...] = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "50"),
        options: tuple[str, ...] = (),
    ) -> Path:
        arguments = (name, fps, seconds, size, audio, filters, video, options)
        if arguments in made:
            return made[arguments]
        path = made[arguments] = tmp_path_factory.mktemp("clip") / name
        sound = ("-f", "lavfi", "-i", f"sine=r=44100:d={seconds}", "-ac", str(audio), "-c:a", "aac")
        run_ffmpeg(
            ffmpeg,
            *("-f", "lavfi", "-i", f"testsrc2=s={size}:r={fps}:d={seconds}"),
            *(sound if audio else ()),
            *("-vf", filters, *video, *options, f"file:{path}"),
        )
        return path

    return make


@pytest.fixture
def small() -> Profile:
    """`fast` with rungs that a 320×180 clip has, and segments of two seconds."""
    return replace(
        profiles.load("fast"),
        name="small",
        segment_s=2,
        gop_s=1,
        rungs=(RungSpec(144, 300), RungSpec(90, 120)),
    )


@pytest.fixture
def encode(ffmpeg: FFmpeg, small: Profile, tmp_path: Path) -> Iterator[MakeEncode]:
    """Builds an encode of a clip; whatever it started is gone when the test ends."""
    made: list[LadderEncode] = []

    def make(source: Path | bytes, profile: Profile = small, **changes: object) -> LadderEncode:
        path = os.fsencode(source)
        facts = sidecars.renewed(probe(path), path)
        scratch = tmp_path / f"scratch-{len(made)}"
        scratch.mkdir()
        values: dict[str, object] = {
            "ffmpeg": ffmpeg,
            "source": path,
            "original": Original.of(path),
            "facts": facts,
            "grid": make_grid(facts, profile),
            "profile": profile,
            "rungs": build_ladder(facts, profile),
            "audio": audio_renditions(facts, profile),
            "subtitles": subtitle_renditions(facts, profile),
            "content_id": "content",
            "store_root": tmp_path / "store",
            "scratch": scratch,
            "log_dir": tmp_path / "logs",
        }
        made.append(LadderEncode(EncodeSpec(**(values | changes))))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for encode in made:
        encode.kill()


def run_ffmpeg(ffmpeg: FFmpeg, *arguments: str) -> None:
    """Run ffmpeg for a test's own purposes."""
    subprocess.run(
        [ffmpeg.path, "-v", "error", "-nostdin", "-y", *arguments],
        check=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


def run_to_end(encode: LadderEncode, until: Callable[[], bool] = lambda: False) -> list[tuple[str, str]]:
    """Step an encode until it ends, or until a condition holds."""
    new: list[tuple[str, str]] = []
    if encode.state == "idle":
        encode.start()
    while encode.state == "running" and not until():
        new += encode.step()
        if pids_of(encode):
            wait_a_moment(encode)
    return new


def pids_of(encode: LadderEncode) -> tuple[int, ...]:
    """Ids of the running ffmpeg processes of an encode."""
    return tuple(task.run.pid for task in encode.tasks)


def wait_a_moment(encode: LadderEncode) -> None:
    """Block until one of its processes ends, 2 ms at most: a small part of a worker's loop."""
    task = encode.tasks[0]
    try:
        task.run.wait(0.002)
    except subprocess.TimeoutExpired:
        return


def leave(directory: Path, segments: int, fragments: int = 0) -> None:
    """Take away from a stored stream what was not finished yet after so many segments and fragments."""
    (directory / "complete.json").unlink(missing_ok=True)
    stored, folder = sorted(directory.glob("*.m4s")), directory / FRAGMENTS_NAME
    if stored[segments:]:
        # Taken apart again; what was stored of a later segment goes.
        split, each = (_fragments_of(stored[k].read_bytes()) for k in (segments, 0))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for number, content in enumerate(split[:fragments], segments * len(each)):
            (folder / fragment_name(number)).write_bytes(content)
        for path in stored[segments:]:
            path.unlink()
    else:
        for path in sorted(folder.glob("*.m4s"))[fragments:]:
            path.unlink()


def part_short_end(directory: Path) -> None:
    """Leave a complete stream as earlier versions did, with its short end in a segment of its own."""
    store = SegmentStore(directory)
    complete = store.completed()
    assert complete is not None
    check = split_short_end(directory, video=complete.check.width > 0)
    assert check.ends_short
    store.mark_complete(replace(complete, check=check))


def split_short_end(directory: Path, *, video: bool = True) -> RenditionCheck:
    """Move the last fragment of a rendition into a segment of its own."""
    names = SegmentStore(directory).listing()
    path = directory / names[-1]
    *full, rest = _fragments_of(path.read_bytes())
    parts = [directory / f"part-{number}" for number in range(len(full))]
    for part, content in zip(parts, full, strict=True):
        part.write_bytes(content)
    join(parts, path)
    for part in parts:
        part.unlink()
    (directory / segment_name(len(names))).write_bytes(rest)
    return verify_rendition(directory, video=video)


def _fragments_of(segment: bytes) -> list[bytes]:
    """Each with the type in front that the segment begins with, and its own entry of the index."""
    found = boxes.top_level(io.BytesIO(segment), len(segment))
    [kind] = [segment[at - 8 : at + length] for name, at, length in found if name == b"styp"]
    [index] = [segment[at - 8 : at + length] for name, at, length in found if name == b"sidx"]
    entries = [index[at : at + 12] for at in range(40, len(index), 12)]
    heads = [struct.pack(">I", 52) + index[4:38] + struct.pack(">H", 1) + entry for entry in entries]
    begins = [at - 8 for name, at, _ in found if name == b"moof"]
    ends = [*begins[1:], len(segment)]
    return [kind + head + segment[a:b] for head, a, b in zip(heads, begins, ends, strict=True)]

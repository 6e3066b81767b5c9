"""Checks published files against what was published: the rows of the database.

`tqstudio verify` and the check before publication are in `media.check`; they know no database and parse every
frame. The supervisor does not, because damaged files may crash the parser.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path

from tqstudio.engine.media.check import digests
from tqstudio.engine.media.plan.file_names import INIT_NAME
from tqstudio.engine.media.segments import webvtt
from tqstudio.engine.media.segments.inspect import Torn, inspect_init, outline_segment
from tqstudio.engine.media.source.fingerprint import HashingStopped
from tqstudio.engine.outputs import dash, master, whole_files
from tqstudio.engine.outputs.place import Place
from tqstudio.engine.store.library.generations import GenerationRow, PublishedRow
from tqstudio.errors import ErrorCode, TqError
from tqstudio.ladder_files import BUCKET_NAME


class Depth(IntEnum):
    """How much of each file is read."""

    NAMES = 0
    """Nothing: its name, type and size suffice if it was just written or linked."""
    HEADERS = 1
    """The boxes of the media, a few kB of each segment: some 0.03 s for an hour in segments of 6 s. A hole
    left by a crash may not change the size."""
    DIGESTS = 2
    """Every byte."""


def _never() -> bool:
    return False


def intact_with_files(place: Place, generation: GenerationRow) -> bool:
    """As `intact`, with its files of the whole video, by their sizes."""
    folder = place.generation(generation.number)
    try:
        return intact(place, generation.number, generation.renditions) and (
            (folder / BUCKET_NAME).is_file() or whole_files.intact(folder, generation.files)
        )
    except OSError:
        return False


def intact(place: Place, number: int, rows: Sequence[PublishedRow]) -> bool:
    """Whether a generation is as published: its playlists byte by byte, its media by their boxes.

    Media that is in a bucket alone counts as it was when it was copied there.
    """
    try:
        return (
            bool(rows)
            and place.master.read_bytes() == master.text(place, number, rows)
            and dash.intact(place, number, rows)
            and not any(_unsound(place.generation(number), rows, Depth.HEADERS, _never))
        )
    except (OSError, ValueError):
        return False


def damaged(place: Place, generation: GenerationRow, stop: Callable[[], bool]) -> frozenset[str]:
    """The names of the renditions and whole files of a generation of which not every byte is as published.

    Args:
        stop: polled before each file; True aborts.

    Raises:
        HashingStopped: by `stop`.
    """
    folder = place.generation(generation.number)
    renditions = _unsound(folder, generation.renditions, Depth.DIGESTS, stop)
    return frozenset((*renditions, *whole_files.damaged(folder, generation.files, stop)))


def _unsound(
    generation: Path, rows: Sequence[PublishedRow], depth: Depth, stop: Callable[[], bool]
) -> Iterator[str]:
    if (generation / BUCKET_NAME).is_file():
        target = master.target_of(rows)
        return (row.name for row in rows if not _has_playlists(generation, row, target))
    return torn(generation, rows, depth, stop)


def torn(
    generation: Path,
    rows: Sequence[PublishedRow],
    depth: Depth = Depth.NAMES,
    stop: Callable[[], bool] = _never,
) -> Iterator[str]:
    """The names of the renditions of a generation that are not as published, with their playlists."""
    target = master.target_of(rows)
    for row in rows:
        if not _has_playlists(generation, row, target) or not is_intact(generation, row, depth, stop):
            yield row.name


def _has_playlists(generation: Path, row: PublishedRow, target: int | None) -> bool:
    try:
        return all(
            (generation / row.name / name).read_bytes() == content
            for name, content in master.playlists(row, target).items()
        )
    except OSError:
        return False


def is_intact(
    generation: Path, row: PublishedRow, depth: Depth = Depth.HEADERS, stop: Callable[[], bool] = _never
) -> bool:
    """Whether the media of a rendition is as published, and may be linked into another generation."""
    folder = generation / row.name
    try:
        require_files(folder, row)
        return (depth < Depth.HEADERS or _has_boxes(folder, row)) and (
            depth < Depth.DIGESTS or _has_bytes(folder, row, stop)
        )
    except (OSError, ValueError, TqError):
        return False


def require_files(folder: Path, row: PublishedRow) -> None:
    """Check name, type and size of the media files of a rendition.

    Raises:
        TqError: OUTPUT_INVALID, with the first file that is not as in its row.
        OSError: of the file system.
    """
    sizes = {INIT_NAME: row.init_size} if row.init_size else {}
    for name, size in (sizes | {file.name: file.size for file in row.files}).items():
        try:
            found = (folder / name).lstat()
        except FileNotFoundError:
            raise TqError(ErrorCode.OUTPUT_INVALID, f"{row.name}/{name} is missing") from None
        # Links are not published.
        if not stat.S_ISREG(found.st_mode):
            raise TqError(ErrorCode.OUTPUT_INVALID, f"{row.name}/{name} is not a regular file")
        if found.st_size != size:
            raise TqError(
                ErrorCode.OUTPUT_INVALID, f"{row.name}/{name} has {found.st_size} bytes instead of {size}"
            )


def _has_boxes(folder: Path, row: PublishedRow) -> bool:
    if row.kind == "subtitles":
        return all(webvtt.is_segment(folder / file.name) for file in row.files)
    init = inspect_init(folder / INIT_NAME)
    if isinstance(init, Torn):
        return False
    if (init.codec, init.width, init.height) != (row.codecs, row.width or 0, row.height or 0):
        return False
    at: int | None = None
    for file in row.files:
        begins = outline_segment(folder / file.name)
        if isinstance(begins, Torn) or (at is not None and begins[0] != at):
            return False
        at = begins[0] + round(file.duration_s * init.timescale)
        # Its fragments follow each other, and none begins after its end.
        if any(not early < late for early, late in zip(begins, (*begins[1:], at), strict=True)):
            return False
    return True


def _has_bytes(folder: Path, row: PublishedRow, stop: Callable[[], bool]) -> bool:
    """Compare digests; a file that an earlier tqstudio published may have none."""
    try:
        listed = digests.read(folder.parent / digests.SUMS_NAME)
    except FileNotFoundError:
        listed = {}
    stored = {file.name: file.blake3 for file in row.files}
    for name in (INIT_NAME, *stored) if row.init_size else stored:
        if stop():
            raise HashingStopped
        published = stored.get(name) or listed.get(f"{row.name}/{name}")
        if published is not None and digests.of_file(folder / name) != published:
            return False
    return True

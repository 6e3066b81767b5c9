"""Says which files of a whole video a generation has, of which renditions, and if they are intact."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tqstudio.engine.media.check import digests
from tqstudio.engine.media.plan.file_names import whole_name
from tqstudio.engine.media.plan.track_names import LOW, is_of_track, quality_of
from tqstudio.engine.media.plan.video_codecs import PLAYERS
from tqstudio.engine.media.source.fingerprint import HashingStopped
from tqstudio.engine.store.library.generations import PublishedRow, WholeFileRow
from tqstudio.ladder_files import BUCKET_NAME, is_whole_file


def parts(key: str, rows: Sequence[PublishedRow]) -> list[PublishedRow]:
    """The renditions of which a file is made: pictures, then sound, the default first, then subtitles.

    Empty if it cannot be made of these.
    """
    kind, _, quality = key.partition(":")
    sounds = [row for row in rows if row.kind == "audio" and not row.name.endswith(LOW)]
    sounds.sort(key=lambda row: (not row.is_default, row.name))
    qualities = [row for row in sounds if not is_of_track(row.name)]
    if qualities:
        best = max(qualities, key=lambda row: row.peak_bps)
        others = [row for row in sounds if is_of_track(row.name) and quality_of(row.name) == best.name]
        sounds = [best, *others]
    if kind == "m4a":
        return [row for row in sounds if row.codecs.startswith("mp4a")]
    pictures = [row for row in rows if row.kind == "video" and quality in ("", row.name)]
    texts = sorted((row for row in rows if row.kind == "subtitles"), key=lambda row: row.name)
    return [max(pictures, key=_worth), *sounds, *texts] if pictures else []


def _worth(row: PublishedRow) -> tuple[bool, int, int, int]:
    pixels, players = (row.width or 0) * (row.height or 0), PLAYERS.get(row.codecs[:4], 0)
    return row.video_range == "SDR", pixels, players, row.peak_bps


def expected(slug: str, keys: Iterable[str], rows: Sequence[PublishedRow]) -> set[str]:
    """The names of the files that a generation of these renditions has."""
    return {whole_name(slug, key) for key in keys if parts(key, rows)}


def listed(generation: Path) -> tuple[WholeFileRow, ...]:
    """The files of a generation that was just built; none if they cannot be read, and they are made again."""
    try:
        sums = digests.read(generation / digests.SUMS_NAME)
        names = [name for name in sums if is_whole_file(name)]
        return tuple(WholeFileRow(name, (generation / name).stat().st_size, sums[name]) for name in names)
    except (OSError, ValueError):
        return ()


def damaged(generation: Path, files: Iterable[WholeFileRow], stop: Callable[[], bool]) -> Iterator[str]:
    """The names of files of which not every byte is as published; what is in a bucket alone is.

    Args:
        stop: polled before each file; True aborts.

    Raises:
        HashingStopped: by `stop`.
    """
    for file in () if (generation / BUCKET_NAME).is_file() else files:
        if stop():
            raise HashingStopped
        try:
            same = digests.of_file(generation / file.name) == file.blake3
        except OSError:
            same = False
        if not same:
            yield file.name


def intact(generation: Path, files: Iterable[WholeFileRow]) -> bool:
    """Whether the files of a generation have their sizes.

    Raises:
        OSError: one is missing.
    """
    return all((generation / file.name).lstat().st_size == file.size for file in files)

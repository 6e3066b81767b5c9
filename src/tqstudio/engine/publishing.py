"""Puts a finished ladder in its place: a whole generation first, then one atomic change of the master.

    OUT/<slug>/master.m3u8                  names the generation that plays
    OUT/<slug>/v<N>/<rung>/index.m3u8 …     never changed once it is there

Segments are linked out of the segment store; playlists and `init.mp4` are written, because ffmpeg truncates
`init.mp4` in place and must never do so where a link lives. Media is not parsed here: a worker has verified
it, and its manifest says what there is.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from tqstudio.engine.media.layout import INIT_NAME, PLAYLIST_NAME, POSTER_NAME
from tqstudio.engine.media.playlists import AudioEntry, Variant, master_playlist, media_playlist
from tqstudio.engine.store.generations import PublishedRow
from tqstudio.errors import ErrorCode, TqError
from tqstudio.requests import Manifest, ManifestRendition
from tqstudio.sources import display

MASTER_NAME = "master.m3u8"
OWNER_NAME = ".owner"
"""Says whose folder it is: two homes, or a person, may want the same name below one output."""
_UNFINISHED = re.compile(r"\.(?:v\d+|master\.m3u8)-[0-9a-f]{32}")
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EINVAL)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a video's ladder goes."""

    output_root: Path
    slug: str

    @property
    def folder(self) -> Path:
        return self.output_root / self.slug

    @property
    def master(self) -> Path:
        return self.folder / MASTER_NAME

    def generation(self, number: int) -> Path:
        return self.folder / f"v{number}"


def own(place: Place, owner: str, current: int | None) -> Place:
    """The place itself when its folder is free or this owner's, else one with a number behind its slug.

    A folder that somebody else filled, a person or the supervisor of another home, is never written to.

    Args:
        owner: names the store and the video.
        current: the video's current generation, which proves the folder its own if the note was lost.

    Raises:
        OSError: the folder cannot be made.
    """
    slug, tries = place.slug, 1
    while True:
        candidate = Place(place.output_root, slug)
        note = candidate.folder / OWNER_NAME
        try:
            candidate.folder.mkdir(parents=True, exist_ok=True)
            if note.read_bytes() == owner.encode():
                return candidate
        except (FileExistsError, NotADirectoryError):
            if not place.output_root.is_dir():
                raise
        except FileNotFoundError:
            ours = slug == place.slug and current is not None and place.generation(current).is_dir()
            if ours or not any(candidate.folder.iterdir()):
                _write(note, owner.encode())
                return candidate
        tries += 1
        slug = f"{place.slug}-{tries}"


@dataclass(frozen=True, slots=True)
class PublishedFiles:
    """What `publish` made."""

    number: int
    renditions: tuple[PublishedRow, ...]
    poster: str | None
    """File name in the generation's folder."""


def publish(
    sink: Path,
    place: Place,
    number: int,
    manifest: Manifest,
    kept: Sequence[PublishedRow],
    kept_from: Path | None,
) -> PublishedFiles:
    """Make generation `number` (or the next free one) and let the master playlist name it.

    Args:
        sink: `OUT/.tqstudio/<uuid>`, to which the manifest's folders are relative.
        kept: renditions of the current generation that go on unchanged, in `kept_from`.

    Raises:
        TqError: OUTPUT_INVALID when a file of the manifest is missing or has another size, PUBLISH_FAILED or
            DISK_LOW when the output cannot be written. What plays goes on playing.
    """
    try:
        place.folder.mkdir(parents=True, exist_ok=True)
        # A folder without a record is what a crash left behind; it is not written over.
        while place.generation(number).exists():
            number += 1
        _remove_unfinished(place)
        building = place.folder / f".v{number}-{uuid.uuid4().hex}"
        building.mkdir()
        try:
            rows = [_place(sink, building, rendition) for rendition in manifest.renditions]
            made = {row.name for row in rows}
            for row in kept:
                if row.name not in made and kept_from is not None:
                    _link_folder(kept_from / row.name, building / row.name, row)
                    rows.append(row)
            poster = _poster(sink, building, manifest.poster, kept_from)
            _sync_tree(building)
            building.rename(place.generation(number))
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
        _sync(place.folder)
        point_master(place, number, rows)
    except OSError as error:
        raise unwritable(place, error) from error
    return PublishedFiles(number, tuple(rows), poster)


def unwritable(place: Place, error: OSError) -> TqError:
    """What a failed write below the output means."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    code = ErrorCode.DISK_LOW if full else ErrorCode.PUBLISH_FAILED
    shown = display(os.fsencode(place.folder))
    return TqError(code, f"cannot write to {shown}: {error.strerror or error}")


def point_master(place: Place, number: int, rows: Sequence[PublishedRow]) -> None:
    """Replace the master playlist by one that names this generation; players see the old or the new one."""
    text = master_playlist(
        [
            Variant(
                uri=f"v{number}/{row.name}/{PLAYLIST_NAME}",
                width=row.width or 0,
                height=row.height or 0,
                fps=Fraction(row.frame_rate or 0).limit_denominator(1001),
                codec=row.codecs,
                peak_bps=row.peak_bps,
                average_bps=row.average_bps,
            )
            for row in rows
            if row.kind == "video"
        ],
        [
            AudioEntry(
                uri=f"v{number}/{row.name}/{PLAYLIST_NAME}",
                language=row.language or "und",
                name=row.title or row.language or "audio",
                channels=row.channels or 2,
                codec=row.codecs,
                peak_bps=row.peak_bps,
                average_bps=row.average_bps,
                default=row.is_default,
            )
            for row in rows
            if row.kind == "audio"
        ],
    )
    temporary = place.folder / f".{MASTER_NAME}-{uuid.uuid4().hex}"
    _write(temporary, text.encode())
    temporary.replace(place.master)
    _sync(place.folder)


def intact(place: Place, number: int, rows: Sequence[PublishedRow]) -> bool:
    """Whether a generation plays: the master names it, and every file of it has its size."""
    folder = place.generation(number)
    try:
        if f"v{number}/" not in place.master.read_text():
            return False
    except OSError:
        return False
    return bool(rows) and all(is_whole(folder, row) for row in rows)


def is_whole(generation: Path, row: PublishedRow) -> bool:
    """Whether every file of a published rendition is there and has its size."""
    folder = generation / row.name
    try:
        return bool(
            (folder / PLAYLIST_NAME).stat().st_size
            and (folder / INIT_NAME).stat().st_size
            and all((folder / name).stat().st_size == size for name, size, _ in row.files)
        )
    except OSError:
        return False


def remove_generation(place: Place, number: int) -> None:
    """Delete a retired generation's folder."""
    shutil.rmtree(place.generation(number), ignore_errors=True)


def _place(sink: Path, building: Path, rendition: ManifestRendition) -> PublishedRow:
    source = (sink / rendition.folder).resolve()
    if not source.is_relative_to(sink.resolve()):
        raise TqError(ErrorCode.OUTPUT_INVALID, f"{rendition.name} does not lie in the segment store")
    init = source / INIT_NAME
    for name, size in [(INIT_NAME, rendition.init_size), *((s.name, s.size) for s in rendition.segments)]:
        try:
            facts = (source / name).lstat()
        except FileNotFoundError:
            raise TqError(ErrorCode.OUTPUT_INVALID, f"{rendition.name}/{name} is missing") from None
        found = facts.st_size
        if not stat.S_ISREG(facts.st_mode):
            raise TqError(ErrorCode.OUTPUT_INVALID, f"{rendition.name}/{name} is not a regular file")
        if found != size:
            raise TqError(
                ErrorCode.OUTPUT_INVALID, f"{rendition.name}/{name} has {found} bytes instead of {size}"
            )
    row = PublishedRow(
        name=rendition.name,
        kind=rendition.kind,
        width=rendition.width,
        height=rendition.height,
        frame_rate=rendition.frame_rate,
        codecs=rendition.codecs,
        duration_s=rendition.duration_s,
        average_bps=rendition.average_bps,
        peak_bps=rendition.peak_bps,
        size=rendition.init_size + sum(segment.size for segment in rendition.segments),
        settings_hash=rendition.settings_hash,
        stream_key=rendition.stream_key,
        language=rendition.language,
        title=rendition.title,
        channels=rendition.channels,
        is_default=rendition.default,
        files=tuple((segment.name, segment.size, segment.duration_s) for segment in rendition.segments),
    )
    _fill(source, building / rendition.name, row, init)
    return row


def _link_folder(source: Path, target: Path, row: PublishedRow) -> None:
    _fill(source, target, row, source / INIT_NAME)


def _fill(source: Path, target: Path, row: PublishedRow, init: Path) -> None:
    target.mkdir()
    for name, _size, _duration in row.files:
        _link(source / name, target / name)
    _write(target / INIT_NAME, init.read_bytes())
    playlist = media_playlist(
        [duration for _, _, duration in row.files], names=[name for name, _, _ in row.files]
    )
    _write(target / PLAYLIST_NAME, playlist.encode())


def _remove_unfinished(place: Place) -> None:
    """What a publish that was killed left half made: only one at a time runs for a video."""
    for entry in place.folder.iterdir():
        if _UNFINISHED.fullmatch(entry.name):
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


def _poster(sink: Path, building: Path, made: str | None, kept_from: Path | None) -> str | None:
    # Only what lies in the store itself: a name that leads elsewhere would publish somebody's file.
    candidates = [sink / made] if made and (sink / made).resolve().is_relative_to(sink.resolve()) else []
    if kept_from is not None:
        candidates.append(kept_from / POSTER_NAME)
    for candidate in candidates:
        if candidate.is_file():
            _write(building / POSTER_NAME, candidate.read_bytes())
            return POSTER_NAME
    return None


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copyfile(source, target)
        _sync(target)


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_tree(root: Path) -> None:
    """fsync the folders: the files in them were synced when they were written."""
    for folder in [root, *(entry for entry in root.iterdir() if entry.is_dir())]:
        _sync(folder)

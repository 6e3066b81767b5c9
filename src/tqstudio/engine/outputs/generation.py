"""Builds, verifies, names and removes the folder of a generation.

Segments are hard-linked from the segment store; playlists and `init.mp4` are written, because ffmpeg
truncates `init.mp4` in place, which would change a linked file. Media is not read here: the worker has just
verified it and lists it in its manifest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tqstudio.engine.files import durable
from tqstudio.engine.host import failpoints
from tqstudio.engine.media.check import digests
from tqstudio.engine.media.encode.poster import is_poster_complete
from tqstudio.engine.media.plan.file_names import IFRAMES_NAME, INIT_NAME, PLAYLIST_NAME, POSTER_NAME
from tqstudio.engine.media.segments import chapters, storyboard
from tqstudio.engine.media.segments.checked import IFrame
from tqstudio.engine.media.source.facts import Chapter
from tqstudio.engine.outputs import dash, integrity, master
from tqstudio.engine.outputs.place import Place
from tqstudio.engine.store.library.generations import PublishedFile, PublishedRow
from tqstudio.errors import ErrorCode, TqError
from tqstudio.ladder_files import FIRST_NAME, MASTER_NAME, MPD_NAME
from tqstudio.protocol.requests import Manifest, ManifestRendition

_UNNAMED = re.compile(rf"\.v\d+-building|\.({re.escape(MASTER_NAME)}|{re.escape(MPD_NAME)})-next")
_ABOUT_FIRST = b"""The first quality of a video, whose job has not ended. The next version has all qualities.
"""


def rows_of(manifest: Manifest, kept: Sequence[PublishedRow]) -> tuple[PublishedRow, ...]:
    """The renditions of a generation: new ones, and those kept from the previous one."""
    made = [_row(rendition) for rendition in manifest.renditions]
    names = {row.name for row in made}
    return (*made, *(row for row in kept if row.name not in names))


def first_free(place: Place, number: int) -> int:
    """Return this number, or the next without a folder, because existing folders are never overwritten."""
    while place.generation(number).exists():
        number += 1
    return number


def build(
    work_dir: Path,
    place: Place,
    number: int,
    manifest: Manifest,
    rows: Sequence[PublishedRow],
    kept_from: Path | None,
    add_files: Callable[[Path], None] = lambda _: None,
) -> None:
    """Build a generation under its temporary name, with all files and folders synced.

    Args:
        work_dir: `OUT/.tqstudio/<uuid>`, to which the manifest's folders are relative.
        rows: from `rows_of`; renditions that are not in the manifest are taken from `kept_from`.
        kept_from: folder of the current generation, if there is one.
        add_files: puts more files into the folder, made of its renditions.

    Raises:
        TqError: OUTPUT_INVALID when a listed file is missing or has another size.
        OSError: of the file system.
    """
    building = place.building(number)
    building.mkdir()
    made = {rendition.name: rendition for rendition in manifest.renditions}
    target = master.target_of(rows)
    for row in rows:
        rendition = made.get(row.name)
        source = _in_store(work_dir, rendition) if rendition else _in_generation(kept_from, row)
        integrity.require_files(source, row)
        _fill(source, building / row.name, row, master.playlists(row, target))
        failpoints.reach("publish.building")
    # New sound without a cover does not get the picture of what was published before.
    is_new_sound = not manifest.keep and all(each.kind != "video" for each in manifest.renditions)
    _poster(work_dir, building, manifest.poster, None if is_new_sound else kept_from)
    _storyboard(work_dir, building, manifest, kept_from)
    described = dash.files(building, rows) if manifest.dash else {}
    first = {FIRST_NAME: _ABOUT_FIRST} if manifest.first else {}
    for name, content in (_chapters(manifest) | described | first).items():
        durable.write(building / name, content)
    add_files(building)
    durable.write(building / digests.SUMS_NAME, digests.text_of(_sums(building, rows)).encode())
    durable.sync_tree(building)
    _verify(building, rows)


def rename_to_final(place: Place, number: int) -> None:
    """Rename a built generation to its final name, which must be free or an empty folder.

    Raises:
        OSError: of the file system.
    """
    place.building(number).rename(place.generation(number))
    durable.sync_folder(place.folder)


def remove(place: Place, number: int) -> None:
    """Remove a generation, renaming it first, so that no partial generation has a final name.

    A repeated call continues an interrupted removal.

    Raises:
        OSError: something could not be removed.
    """
    trash = place.trash(number)
    durable.discard(trash)
    if place.generation(number).exists():
        place.generation(number).rename(trash)
        durable.sync_folder(place.folder)
        failpoints.reach("remove.renamed")
        durable.discard(trash)


def sweep(place: Place) -> None:
    """Remove the remains of publishes that were interrupted before their generation was named.

    Raises:
        OSError: something could not be removed.
    """
    for entry in [*place.folder.iterdir()]:
        if _UNNAMED.fullmatch(entry.name):
            durable.discard(entry)


def _row(rendition: ManifestRendition) -> PublishedRow:
    return PublishedRow(
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
        role=rendition.role,
        surround_of=rendition.surround_of,
        video_range=rendition.video_range,
        files=tuple(
            PublishedFile(
                segment.name,
                segment.size,
                segment.duration_s,
                segment.blake3,
                tuple(map(IFrame._make, segment.iframes)),
            )
            for segment in rendition.segments
        ),
    )


def _in_store(work_dir: Path, rendition: ManifestRendition) -> Path:
    """The folder of a new rendition in the segment store."""
    source = (work_dir / rendition.folder).resolve()
    if not source.is_relative_to(work_dir.resolve()):
        raise TqError(ErrorCode.OUTPUT_INVALID, f"{rendition.name} is not in the segment store")
    return source


def _in_generation(kept_from: Path | None, row: PublishedRow) -> Path:
    """The folder of a kept rendition in the current generation."""
    if kept_from is None:
        raise TqError(ErrorCode.OUTPUT_INVALID, f"{row.name} cannot be kept: nothing is published yet")
    return kept_from / row.name


def _fill(source: Path, target: Path, row: PublishedRow, playlists: Mapping[str, bytes]) -> None:
    target.mkdir()
    for file in row.files:
        durable.link(source / file.name, target / file.name)
    if row.init_size:
        durable.write(target / INIT_NAME, durable.read(source / INIT_NAME))
    for name, content in playlists.items():
        durable.write(target / name, content)


def _poster(work_dir: Path, building: Path, made: str | None, kept_from: Path | None) -> None:
    # Only from the store itself: a path that leads elsewhere would publish another file.
    candidates = (
        [work_dir / made] if made and (work_dir / made).resolve().is_relative_to(work_dir.resolve()) else []
    )
    if kept_from is not None:
        candidates.append(kept_from / POSTER_NAME)
    for candidate in candidates:
        if is_poster_complete(candidate):
            durable.write(building / POSTER_NAME, durable.read(candidate))
            return


def _storyboard(work_dir: Path, building: Path, manifest: Manifest, kept_from: Path | None) -> None:
    source = kept_from if manifest.keep_storyboard else None
    if manifest.storyboard and (work_dir / manifest.storyboard).resolve().is_relative_to(work_dir.resolve()):
        source = work_dir / manifest.storyboard
    for path in storyboard.files(source) if source is not None else ():
        durable.write(building / path.name, durable.read(path))


def _chapters(manifest: Manifest) -> dict[str, bytes]:
    return chapters.files([Chapter(**chapter.model_dump()) for chapter in manifest.chapters])


def _sums(building: Path, rows: Sequence[PublishedRow]) -> dict[str, str]:
    """Digests of all files of a generation; those of its segments are reported by the worker."""
    sums: dict[str, str] = {}
    for row in rows:
        folder = building / row.name
        written = [name for name in (INIT_NAME, PLAYLIST_NAME, IFRAMES_NAME) if (folder / name).exists()]
        sums |= {f"{row.name}/{name}": digests.of_file(folder / name) for name in written}
        for file in row.files:
            sums[f"{row.name}/{file.name}"] = file.blake3 or digests.of_file(folder / file.name)
    beside = sorted(path for path in building.iterdir() if path.is_file())
    return sums | {path.name: digests.of_file(path) for path in beside}


def _verify(folder: Path, rows: Sequence[PublishedRow]) -> None:
    """Read a built generation back and compare it with its rows."""
    for name in integrity.torn(folder, rows):
        raise TqError(ErrorCode.PUBLISH_FAILED, f"{name} differs from what was written")

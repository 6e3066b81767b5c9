"""Where a video's ladder goes, and whose folder that is."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tqstudio.engine.files import dir_fd, durable
from tqstudio.engine.media.ffmpeg.errors import from_output_error
from tqstudio.engine.store.library.videos import VideoRow
from tqstudio.errors import ErrorClass, ErrorCode, TqError, class_of
from tqstudio.ladder_files import MASTER_NAME, OWNER_NAME
from tqstudio.paths import display


@dataclass(frozen=True, slots=True)
class Place:
    """A video's folder below its output."""

    output_root: Path
    slug: str
    _held: Path | None = field(default=None, compare=False, repr=False)

    @classmethod
    def below(cls, output_root: bytes, slug: str) -> Place:
        return cls(Path(os.fsdecode(output_root)), slug)

    @contextlib.contextmanager
    def hold(self) -> Iterator[Place]:
        """The same place with its folder held open: whoever writes to it gets it here, as of `held`.

        Raises:
            OSError: as of `held.hold`.
        """
        with dir_fd.hold(self.output_root, self.slug) as folder:
            yield replace(self, _held=folder)

    @property
    def folder(self) -> Path:
        return self._held or self.output_root / self.slug

    @property
    def master(self) -> Path:
        return self.folder / MASTER_NAME

    @property
    def next_master(self) -> Path:
        """The master playlist before it takes the place of the one that plays."""
        return self.folder / f".{MASTER_NAME}-next"

    def generation(self, number: int) -> Path:
        return self.folder / f"v{number}"

    def building(self, number: int) -> Path:
        """A generation before it gets its name; only one publish at a time runs for a video."""
        return self.folder / f".v{number}-building"

    def trash(self, number: int) -> Path:
        """A generation that has lost its name and is being removed."""
        return self.folder / f".v{number}-trash"


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
        try:
            with dir_fd.hold(place.output_root, slug, make=True) as folder:
                if _take(replace(candidate, _held=folder), owner, current, is_first=tries == 1):
                    return candidate
        except NotADirectoryError:
            if not place.output_root.is_dir():
                raise
        tries += 1
        slug = f"{place.slug}-{tries}"


def _take(place: Place, owner: str, current: int | None, *, is_first: bool) -> bool:
    """Whether a folder that is held is this owner's, or was free and is now."""
    note = place.folder / OWNER_NAME
    try:
        said = _said_by(note)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EINVAL, errno.ENXIO):
            return False  # somebody put a link or a pipe there
        raise
    # A ladder that plays and is not known was made in a time that a restored database forgot.
    forgotten = current is None and place.master.exists()
    if said == owner.encode() and not forgotten:
        return True
    ours = is_first and current is not None and place.generation(current).is_dir()
    if said or not (ours or _is_empty(place.folder)):
        return False
    durable.write(note, owner.encode())
    durable.sync_folder(place.folder)
    durable.sync_folder(place.output_root)
    return True


def _said_by(note: Path) -> bytes:
    """What the note says; nothing where there is none, or a power cut took what was in it."""
    try:
        return durable.read(note)
    except FileNotFoundError:
        return b""


def _is_empty(folder: Path) -> bool:
    return all(entry.name == OWNER_NAME for entry in folder.iterdir())


def unwritable(place: Place, error: OSError) -> TqError:
    """What a failed write below the output means."""
    found = from_output_error(error, f"cannot write to {display(os.fsencode(place.folder))}")
    # A single file that is not there says nothing of the disk.
    is_disk = class_of(found.code) is ErrorClass.RESOURCE and not isinstance(error, FileNotFoundError)
    return found if is_disk else TqError(ErrorCode.PUBLISH_FAILED, found.message)


def place_of(video: VideoRow) -> Place:
    return Place.below(video.output_root, video.slug)

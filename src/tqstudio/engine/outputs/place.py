"""Determines the folder of a video's ladder and makes sure that it belongs to this video."""

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
from tqstudio.home import Home
from tqstudio.ladder_files import MASTER_NAME, MPD_NAME, OWNER_NAME
from tqstudio.paths import display


@dataclass(frozen=True, slots=True)
class Place:
    """A video's folder below its output."""

    output_root: Path
    slug: str
    """The path of its folder below the output."""
    _held: Path | None = field(default=None, compare=False, repr=False)

    @classmethod
    def below(cls, output_root: bytes, slug: str) -> Place:
        return cls(Path(os.fsdecode(output_root)), slug)

    @contextlib.contextmanager
    def hold(self) -> Iterator[Place]:
        """The same place with its folder opened for writing, see `dir_fd.hold`.

        Raises:
            OSError: as `dir_fd.hold` does.
        """
        with dir_fd.hold(self.output_root, *self.slug.split("/")) as folder:
            yield replace(self, _held=folder)

    @property
    def folder(self) -> Path:
        return self._held or self.output_root / self.slug

    @property
    def master(self) -> Path:
        return self.folder / MASTER_NAME

    @property
    def next_master(self) -> Path:
        """The next master playlist before it replaces the current one."""
        return self.folder / f".{MASTER_NAME}-next"

    @property
    def mpd(self) -> Path:
        return self.folder / MPD_NAME

    @property
    def next_mpd(self) -> Path:
        """The next MPD before it replaces the current one."""
        return self.folder / f".{MPD_NAME}-next"

    def generation(self, number: int) -> Path:
        return self.folder / f"v{number}"

    def building(self, number: int) -> Path:
        """A generation that is being built; there is at most one publish of a video at a time."""
        return self.folder / f".v{number}-building"

    def trash(self, number: int) -> Path:
        """A generation that is being removed."""
        return self.folder / f".v{number}-trash"


def own(place: Place, owner: str, current: int | None) -> Place:
    """Return the place itself if its folder is free or belongs to this owner, else one with a numbered slug.

    A ladder is not put into the folder of another one, but beside it: `film/part` becomes `film-part`.
    Folders of a person or of the supervisor of another home are never written to.

    Args:
        owner: names the store and the video.
        current: the video's current generation, which proves the ownership if the owner file was lost.

    Raises:
        OSError: the folder cannot be created.
    """
    tries = 1
    while True:
        slug = place.slug if _may_contain(place) else place.slug.replace("/", "-")
        candidate = Place(place.output_root, slug if tries == 1 else f"{slug}-{tries}")
        try:
            with dir_fd.hold(place.output_root, *candidate.slug.split("/"), make=True) as folder:
                if _take(replace(candidate, _held=folder), owner, current, is_first=tries == 1):
                    return candidate
        except NotADirectoryError:
            if not place.output_root.is_dir():
                raise
        tries += 1


def belongs(place: Place, owner: str, current: int | None) -> bool:
    """Whether an open folder belongs to this owner; args as of `own`."""
    found = _read_owner(place.folder / OWNER_NAME)
    return found == owner.encode() or (
        not found and current is not None and place.generation(current).is_dir()
    )


def _may_contain(place: Place) -> bool:
    """Whether the folders between the output and a place are neither links, files nor ladders."""
    between = [place.output_root / parent for parent in Path(place.slug).parents][:-1]
    return all(
        not os.path.lexists(each)
        or (each.is_dir() and not each.is_symlink() and not (each / OWNER_NAME).exists())
        for each in between
    )


def _take(place: Place, owner: str, current: int | None, *, is_first: bool) -> bool:
    """Whether an open folder belongs to this owner, or was free and now does."""
    owner_file = place.folder / OWNER_NAME
    try:
        found = _read_owner(owner_file)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EINVAL, errno.ENXIO):
            return False  # it was replaced by a link or a pipe
        raise
    # A ladder that the database does not know was published after the backup that was restored.
    forgotten = current is None and place.master.exists()
    if found == owner.encode() and not forgotten:
        return True
    ours = is_first and current is not None and place.generation(current).is_dir()
    if found or not (ours or _is_empty(place.folder)):
        return False
    durable.write(owner_file, owner.encode())
    durable.sync_folder(place.folder)
    durable.sync_folder((place.output_root / place.slug).parent)
    return True


def _read_owner(owner_file: Path) -> bytes:
    """Read the owner file; empty if it does not exist, or lost its content in a power cut."""
    try:
        return durable.read(owner_file)
    except FileNotFoundError:
        return b""


def _is_empty(folder: Path) -> bool:
    return all(entry.name == OWNER_NAME for entry in folder.iterdir())


def unwritable(place: Place, error: OSError) -> TqError:
    """Convert a failed write below the output to an error."""
    found = from_output_error(error, f"cannot write to {display(os.fsencode(place.folder))}")
    # A single missing file does not mean that the disk fails.
    is_disk = class_of(found.code) is ErrorClass.RESOURCE and not isinstance(error, FileNotFoundError)
    return found if is_disk else TqError(ErrorCode.PUBLISH_FAILED, found.message)


def bucket_url(home: Home, output_root: bytes, slug: str) -> str | None:
    """The address of a ladder's folder in a bucket; None if its output is not the copy of one."""
    url = home.bucket_url(output_root)
    return None if url is None else f"{url}/{slug}"


def place_of(video: VideoRow) -> Place:
    return Place.below(video.output_root, video.slug)

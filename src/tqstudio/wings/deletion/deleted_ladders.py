"""Moves the ladder of a deleted video into the folder `deleted` of its output, back, and into `trash`.

    OUT/.tqstudio/<store uuid>/deleted/<video>/     what was OUT/<slug>/

Each move is one rename, and does nothing if it was done before.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from tqstudio.engine.files import dir_fd, durable
from tqstudio.engine.outputs.place import Place, belongs
from tqstudio.engine.outputs.workspace import FOLDER, Workspace
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display

_ARCHIVE = "deleted"


class DeletedLadders:
    """The ladders of deleted videos."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def has(self, output_root: bytes, video: int) -> bool:
        """Whether the ladder of a video is in `deleted`."""
        return (self._workspace.work_dir(output_root) / _ARCHIVE / str(video)).is_dir()

    def archive(self, output_root: bytes, slug: str, video: int, current: int | None) -> None:
        """Move a ladder into `deleted`, if the folder is its own.

        Args:
            current: the number of the current generation.

        Raises:
            OSError: of the file system; FileNotFoundError if the disk may be unmounted.
        """
        place = Place.below(output_root, slug)
        if not self._is_there(output_root, current) or not os.path.lexists(place.folder):
            return
        *above, name = slug.split("/")
        with place.hold() as held:
            if not belongs(held, f"{self._workspace.uuid} {video}", current):
                return
        with self._hold(output_root, _ARCHIVE, make=True) as archive, _above(place, above) as parent:
            if os.path.lexists(archive / str(video)):
                self._trash(output_root, archive / str(video))
            (parent / name).rename(archive / str(video))
            durable.sync_folder(archive)
            durable.sync_folder(parent)

    def restore(self, output_root: bytes, slug: str, video: int, current: int | None) -> None:
        """Move a ladder back into its place.

        Raises:
            TqError: REFUSED, something else is there.
            OSError: of the file system; FileNotFoundError if the disk may be unmounted.
        """
        if not self._is_there(output_root, current) or not self.has(output_root, video):
            return
        place = Place.below(output_root, slug)
        self.require_free(place)
        *above, name = slug.split("/")
        with self._hold(output_root, _ARCHIVE) as archive, _above(place, above, make=True) as parent:
            # An empty folder is replaced.
            (archive / str(video)).rename(parent / name)
            durable.sync_folder(parent)
            durable.sync_folder(archive)

    def require_free(self, place: Place) -> None:
        """Check that a ladder can be brought back.

        Raises:
            TqError: REFUSED, something else is there.
        """
        if os.path.lexists(place.folder) and (not place.folder.is_dir() or any(place.folder.iterdir())):
            shown = display(os.fsencode(place.folder))
            raise TqError(
                ErrorCode.REFUSED,
                f"the ladder cannot be brought back: {shown} exists",
                "move that away, and try again",
            )

    def remove(self, output_root: bytes, video: int, current: int | None) -> None:
        """Move a ladder into `trash`; `Workspace.sweep` frees the space.

        Raises:
            OSError: of the file system; FileNotFoundError if the disk may be unmounted.
        """
        if self._is_there(output_root, current) and self.has(output_root, video):
            with self._hold(output_root, _ARCHIVE) as archive:
                self._trash(output_root, archive / str(video))
                durable.sync_folder(archive)

    def _trash(self, output_root: bytes, ladder: Path) -> None:
        with self._hold(output_root, "trash", make=True) as trash:
            ladder.rename(trash / uuid.uuid4().hex)
            durable.sync_folder(trash)

    def _is_there(self, output_root: bytes, current: int | None) -> bool:
        """Whether the work folder exists; if not, there is no ladder, or its disk is unmounted."""
        if self._workspace.is_there(output_root):
            return True
        if current is None:
            return False
        raise FileNotFoundError(f"the output {display(output_root)} is not there")

    def _hold(
        self, output_root: bytes, name: str, *, make: bool = False
    ) -> contextlib.AbstractContextManager[Path]:
        return dir_fd.hold(Path(os.fsdecode(output_root)), FOLDER, self._workspace.uuid, name, make=make)


@contextlib.contextmanager
def _above(place: Place, names: list[str], *, make: bool = False) -> Iterator[Path]:
    """The folder that a ladder lies in."""
    with dir_fd.hold(place.output_root, *names, make=make) as folder:
        yield folder

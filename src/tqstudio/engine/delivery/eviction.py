"""Removes the segments of a local copy whose ladder is in its bucket."""

from __future__ import annotations

from collections.abc import Iterable

from tqstudio.engine.files import dir_fd, durable
from tqstudio.engine.outputs import Place
from tqstudio.ladder_files import BUCKET_NAME

_SEGMENT_SUFFIX = ".m4s"


def evict(place: Place, number: int, names: Iterable[str], url: str) -> None:
    """Remove the segments of a generation, which is marked first; repeatable.

    Playlists, pictures and texts stay.

    Args:
        names: of its files.
        url: where they are now.

    Raises:
        OSError: of the file system.
    """
    folders = (*place.slug.split("/"), place.generation(number).name)
    with dir_fd.hold(place.output_root, *folders) as generation:
        durable.write(generation / BUCKET_NAME, url.encode())
        durable.sync_folder(generation)
    for name in names:
        if name.endswith(_SEGMENT_SUFFIX):
            *inner, last = name.split("/")
            with dir_fd.hold(place.output_root, *folders, *inner) as folder:
                (folder / last).unlink(missing_ok=True)

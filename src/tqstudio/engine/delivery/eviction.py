"""Removes the segments of a local copy whose ladder is in its bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tqstudio.engine.files import dir_fd, durable
from tqstudio.engine.outputs import Place
from tqstudio.ladder_files import BUCKET_NAME

_SEGMENT_SUFFIX = ".m4s"


def segments(place: Place, number: int, names: Iterable[str]) -> dict[str, int]:
    """The segments of a generation that are here: name → size in bytes.

    Args:
        names: of its files.

    Raises:
        OSError: of the file system.
    """
    sizes = {}
    for name in names:
        with suppress(FileNotFoundError), _held(place, number, name) as path:
            if name.endswith(_SEGMENT_SUFFIX):
                sizes[name] = path.lstat().st_size
    return sizes


def evict(place: Place, number: int, names: Iterable[str], url: str) -> None:
    """Remove segments of a generation, which is marked first; repeatable.

    Args:
        url: where they are now.

    Raises:
        OSError: of the file system.
    """
    with _held(place, number, BUCKET_NAME) as mark:
        durable.write(mark, url.encode())
        durable.sync_folder(mark.parent)
    for name in names:
        with _held(place, number, name) as path:
            path.unlink(missing_ok=True)


@contextmanager
def _held(place: Place, number: int, name: str) -> Iterator[Path]:
    """A file of a generation, in a folder that was opened without following links."""
    *inner, last = name.split("/")
    names = (*place.slug.split("/"), place.generation(number).name, *inner)
    with dir_fd.hold(place.output_root, *names) as folder:
        yield folder / last

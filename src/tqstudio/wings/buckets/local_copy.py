"""Reads the local copy of a ladder that is in a bucket, or will be, and removes its segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from blake3 import blake3

from tqstudio.engine import outputs
from tqstudio.engine.files import dir_fd, durable
from tqstudio.engine.media.check import digests
from tqstudio.engine.outputs import Place
from tqstudio.errors import ErrorCode, TqError
from tqstudio.ladder_files import BUCKET_NAME


@dataclass(frozen=True, slots=True)
class Ladder:
    """What is to be uploaded of a generation."""

    sums: dict[str, str]
    """Digest of each file below its folder, in the order of their upload."""
    masters: dict[str, bytes]
    """Name and content of what names the generation; the last is the master playlist."""


def ladder(place: Place, number: int) -> Ladder:
    """What is to be uploaded of a generation that the local master playlist names.

    Raises:
        TqError: REFUSED if it names another one.
        OSError: of the file system.
    """
    with place.hold() as held:
        if outputs.named(held) != number:
            raise TqError(ErrorCode.REFUSED, "another ladder of this video is being published")
        paths = [held.mpd] if outputs.has_dash(held, number) else []
        masters = {path.name: durable.read(path) for path in (*paths, held.master)}
    with _held(place, number, digests.SUMS_NAME) as path:
        text = durable.read(path)
    own = {digests.SUMS_NAME: blake3(text).hexdigest()}
    return Ladder(own | digests.parse(text.decode()), masters)


def content(place: Place, number: int, name: str, digest: str) -> bytes:
    """Read a file of a generation, whole and as it was published.

    Raises:
        TqError: IO_ERROR if it differs.
        OSError: of the file system.
    """
    with _held(place, number, name) as path:
        found = durable.read(path)
    _require(blake3(found).hexdigest() == digest, place, name)
    return found


def whole_file(place: Place, number: int, name: str, digest: str) -> tuple[BinaryIO, int]:
    """Open a file of a whole video, as it was published; returns its size in bytes too.

    Raises:
        TqError: IO_ERROR if it differs.
        OSError: of the file system.
    """
    with _held(place, number, name) as path:
        file = path.open("rb")
    try:
        _require(digests.of_open(file) == digest, place, name)
        size = file.tell()
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file, size


def _require(same: bool, place: Place, name: str) -> None:
    if not same:
        raise TqError(
            ErrorCode.IO_ERROR,
            f"{name} of {place.slug} differs from what was published",
            "check it with: tqstudio verify; then retranscode it",
        )


def sizes(place: Place, number: int, names: Iterable[str]) -> dict[str, int]:
    """The files of a generation that are here: name → size in bytes.

    Raises:
        OSError: of the file system.
    """
    found = {}
    for name in names:
        with suppress(FileNotFoundError), _held(place, number, name) as path:
            found[name] = path.lstat().st_size
    return found


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

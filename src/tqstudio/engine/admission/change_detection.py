"""Detects whether a source changed: by its modification time, samples of its content, or every byte.

Its *content id* (`fingerprint.Content.id`) is part of the settings hash of every rendition.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tqstudio.engine import outputs
from tqstudio.engine.media.plan.keys import earlier_hashes, expected_hashes
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.source import sidecars, source_file
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.media.source.fingerprint import (
    SAMPLE_BYTES,
    SAMPLES,
    Digest,
    NotHashed,
    compare,
    full_hash,
    quick_hash,
)
from tqstudio.engine.outputs import whole_files
from tqstudio.engine.outputs.place import place_of
from tqstudio.engine.store.library.generations import GenerationRow
from tqstudio.engine.store.library.videos import VideoRow


class Certainty(Enum):
    """How much of a file is read before it counts as unchanged."""

    SETTLED = 1
    """Nothing if size and time are equal; every byte if the time differs but five samples of 1 MiB are
    equal."""
    WHOLE = 2
    """Always every byte, of the ladder too (`--verify-full`)."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """The present state of a source file."""

    size: int
    mtime_ns: int
    inode: int
    """As `inode_of`."""
    content_id: str | None
    """None if it is assumed to be unchanged."""
    full_hash: str | None = None
    """Set if every byte was read."""
    is_certain: bool = True
    """False if it may have changed between the samples."""

    def shows_change(self, known: VideoRow) -> bool:
        return self.content_id is not None and self.content_id != known.quick_hash


def look_at(
    path: bytes,
    known: VideoRow | None,
    certainty: Certainty,
    *,
    digest: Digest | None = None,
    may_read: bool = True,
    stop: Callable[[], bool] | None = None,
) -> SourceState:
    """Determine the state of a source, reading as much of it as `certainty` requires.

    Args:
        digest: used instead of a full hash if the file still has its size and time.
        may_read: compute a full hash if there is no such digest.
        stop: polled while every byte is read; True aborts.

    Raises:
        TqError: as `source_file.check` does.
        NotHashed: a full hash is needed, and `may_read` is False.
        HashingStopped: when `stop` returned True.
    """
    found = source_file.check(path)
    size, mtime_ns, inode = found.st_size, found.st_mtime_ns, inode_of(found)
    if known is None or known.quick_hash is None:
        return SourceState(size, mtime_ns, inode, quick_hash(path))
    same_time = (known.size, known.mtime_ns) == (size, mtime_ns)
    if same_time and certainty is not Certainty.WHOLE:
        # Hashing 5 MB of each of a million files takes too long.
        return SourceState(size, mtime_ns, inode, None)

    def read() -> str:
        if digest is not None and (digest.size, digest.mtime_ns) == (size, mtime_ns):
            return digest.full_hash
        if not may_read:
            raise NotHashed
        return full_hash(path, stop)

    content = compare(path, known.quick_hash, known.full_hash, read)
    return SourceState(size, mtime_ns, inode, content.id, content.full_hash, content.is_certain)


def inode_of(found: os.stat_result) -> int:
    """The inode of a file in 63 bits: some network file systems use 64, which SQLite cannot store."""
    return found.st_ino & (1 << 63) - 1


def is_same_place(path: bytes, other: bytes) -> bool:
    """Whether two paths lead to the same file, with all links resolved."""
    return os.path.realpath(path) == os.path.realpath(other)


def has_left(path: bytes, inode: int) -> bool:
    """Whether a file is no longer at this path: it was renamed, rather than linked to another name."""
    try:
        return inode_of(os.lstat(path)) != inode
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def is_gone(path: bytes) -> bool:
    """Whether nothing is at this path."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass
    return False


def is_copy(found: SourceState, other: VideoRow, digest: Digest | None) -> bool:
    """Whether a file has the content of the source of a video, byte by byte.

    Args:
        digest: of the file, if it was read.

    Raises:
        NotHashed: a digest of the file as it is now is needed.
    """
    if other.quick_hash != found.content_id or other.size != found.size:
        return False
    if found.size <= SAMPLES * SAMPLE_BYTES:
        return True
    if other.full_hash is None:
        return False
    if digest is None or (digest.size, digest.mtime_ns) != (found.size, found.mtime_ns):
        raise NotHashed
    return digest.full_hash == other.full_hash


def is_current(video: VideoRow, generation: GenerationRow, look: SourceState, profile: Profile) -> bool:
    """Whether the published ladder is intact and fits this content and profile."""
    if look.shows_change(video) or video.facts is None or video.quick_hash is None:
        return False
    try:
        facts = sidecars.renewed(SourceFacts.from_json(video.facts), video.source)
    except (KeyError, TypeError, ValueError):
        return False
    published = {row.name: row.settings_hash for row in generation.renditions}
    keys = expected_hashes(video.quick_hash, profile, facts)
    earlier = earlier_hashes(video.quick_hash, profile, facts)

    def fits(name: str, key: str | None) -> bool:
        return key is not None and (key == keys.get(name) or key in earlier.get(name, ()))

    # Renditions that were left out on purpose are only encoded on request or with other settings.
    return (
        all(fits(name, key) for name, key in published.items())
        and all(fits(name, published.get(name)) or fits(name, generation.omitted.get(name)) for name in keys)
        and outputs.has_dash(place_of(video), generation.number) == profile.dash
        and {file.name for file in generation.files}
        == whole_files.expected(video.slug, profile.files, generation.renditions)
        and outputs.intact_with_files(place_of(video), generation)
    )

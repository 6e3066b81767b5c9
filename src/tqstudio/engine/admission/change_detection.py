"""Whether a file is still what is known of it: by its time, by samples of it, by every byte.

Its *content id* (`fingerprint.Content.id`) stands in the settings hash of every rendition.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tqstudio.engine import outputs
from tqstudio.engine.media.plan.expected import expected_hashes
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.source import source_file as sources
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.media.source.fingerprint import Digest, NotHashed, compare, full_hash, quick_hash
from tqstudio.engine.outputs.place import place_of
from tqstudio.engine.store.library.generations import GenerationRow
from tqstudio.engine.store.library.videos import VideoRow


class Certainty(Enum):
    """How much of a file is read before it counts as unchanged."""

    SETTLED = 1
    """Nothing where size and time are the same; every byte where the time is another one but five samples of
    1 MiB are the same."""
    WHOLE = 2
    """Every byte in any case, of the ladder too (`--verify-full`)."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """What the file system says of a source now."""

    size: int
    mtime_ns: int
    inode: int
    """As `inode_of`."""
    content_id: str | None
    """None where it is trusted to be what it was."""
    full_hash: str | None = None
    """Where every byte was read."""
    is_certain: bool = True
    """False where it may have changed between the samples and nothing tells."""

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
    """Look at a source; reads it as far as `certainty` asks.

    Args:
        digest: counts in place of a full hash while the file is in the state that it is of.
        may_read: compute a full hash where there is no such digest.
        stop: asked while every byte is read; True gives up.

    Raises:
        TqError: as of `source.check`.
        NotHashed: a full hash is needed, and `may_read` is False.
        Stopped: when `stop` returned True.
    """
    found = sources.check(path)
    size, mtime_ns, inode = found.st_size, found.st_mtime_ns, inode_of(found)
    if known is None or known.quick_hash is None:
        return SourceState(size, mtime_ns, inode, quick_hash(path))
    same_time = (known.size, known.mtime_ns) == (size, mtime_ns)
    if same_time and certainty is not Certainty.WHOLE:
        # Hashing 5 MB of each of a million files is not free.
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
    """The inode of a file, in 63 bits: those of some network file systems have one more than SQLite takes."""
    return found.st_ino & (1 << 63) - 1


def is_same_place(path: bytes, other: bytes) -> bool:
    """Whether two paths lead to one place, one of them through a link to a folder."""
    return os.path.realpath(path) == os.path.realpath(other)


def has_left(path: bytes, inode: int) -> bool:
    """Whether this file is no longer at a path: it was renamed, not linked under another name too."""
    try:
        return inode_of(os.lstat(path)) != inode
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def is_current(video: VideoRow, generation: GenerationRow, look: SourceState, profile: Profile) -> bool:
    """Whether the published ladder is what this profile makes of this content, and as it was published."""
    if look.shows_change(video) or video.facts is None or video.quick_hash is None:
        return False
    try:
        facts = SourceFacts.from_json(video.facts)
    except (KeyError, TypeError, ValueError):
        return False
    published = {row.name: row.settings_hash for row in generation.renditions}
    keys = expected_hashes(video.quick_hash, profile, facts)
    # What was left out on purpose is not made by itself: only other settings, or a person, ask for it again.
    return (
        published.keys() <= keys.keys()
        and all(key in (published.get(name), generation.omitted.get(name)) for name, key in keys.items())
        and outputs.intact(place_of(video), generation.number, generation.renditions)
    )

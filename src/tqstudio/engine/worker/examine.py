"""The source of a job: what it is, and whether it is still the same file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tqstudio.engine.media import fingerprint, source
from tqstudio.engine.media.facts import SourceFacts
from tqstudio.engine.media.probe import probe

if TYPE_CHECKING:
    from tqstudio.schemas import ClaimedJob


class Identity(NamedTuple):
    """What tells a file from any other that may bear its name."""

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int


@dataclass(frozen=True, slots=True)
class Source:
    """A source as it was when work on it began."""

    path: bytes
    identity: Identity
    content_id: str
    facts: SourceFacts

    @property
    def size(self) -> int:
        return self.identity.size

    def changed(self) -> bool:
        """Whether the file is another one now.

        Raises:
            TqError: it is gone or may no longer be read.
        """
        return identity_of(source.check(self.path)) != self.identity


def identity_of(found: os.stat_result) -> Identity:
    return Identity(found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns)


def examine(job: ClaimedJob, path: bytes) -> Source:
    """Look at the source; what is known of it already is used as long as the file is the one that was queued.

    Raises:
        TqError: as of `probe` and `quick_hash`.
    """
    found = source.check(path)
    unchanged = (found.st_size, found.st_mtime_ns) == (job["source_size"], job["source_mtime_ns"])
    facts = _known_facts(job, found.st_size) if unchanged else None
    if facts is None:
        facts = probe(path)
    content_id = job["content_id"] if unchanged else None
    return Source(path, identity_of(found), content_id or fingerprint.quick_hash(path), facts)


def _known_facts(job: ClaimedJob, size: int) -> SourceFacts | None:
    if job["facts"] is None:
        return None
    try:
        facts = SourceFacts.from_json(job["facts"])
    except (KeyError, TypeError, ValueError):
        return None  # recorded by another version
    return facts if facts.size == size else None

"""The source of a job: what it is, and whether it is still the same file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tqstudio.engine.media.source import fingerprint, source_file
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.media.source.source_file import FileId

if TYPE_CHECKING:
    from tqstudio.protocol.answers import ClaimedJob


@dataclass(frozen=True, slots=True)
class ExaminedSource:
    """A source as it was when work on it began."""

    path: bytes
    identity: FileId
    content_id: str
    facts: SourceFacts

    def require_same(self) -> None:
        """
        Raises:
            TqError: SOURCE_CHANGED when the file is another one now, or why it cannot be looked at.
        """
        source_file.require_same(self.path, self.identity)


def examine(job: ClaimedJob, path: bytes, check: Callable[[], None] = lambda: None) -> ExaminedSource:
    """Look at the source; what is known of it already is used as long as the file is the one that was queued.

    Args:
        check: called often; whatever it raises ends the look.

    Raises:
        TqError: as of `probe` and `quick_hash`.
    """
    found = source_file.check(path)
    unchanged = (found.st_size, found.st_mtime_ns) == (job["source_size"], job["source_mtime_ns"])
    facts = _known_facts(job, found.st_size) if unchanged else None
    if facts is None:
        # Mostly the facts are known, and a worker that takes another's place starts sooner without PyAV.
        from tqstudio.engine.media.source.probe import probe

        facts = probe(path, check)
    return ExaminedSource(
        path, source_file.identity_of(found), _content_id(job, path, check, unchanged=unchanged), facts
    )


def _content_id(job: ClaimedJob, path: bytes, check: Callable[[], None], *, unchanged: bool) -> str:
    """Which content this is. With another time every byte counts: qualities may be kept that were made of
    what the file held before."""
    known = job["content_id"]
    if known is None:
        return fingerprint.quick_hash(path)
    if unchanged:
        return known

    def stop() -> bool:
        check()
        return False

    full_hash = job["full_hash"]
    return fingerprint.compare(path, known, full_hash, lambda: fingerprint.full_hash(path, stop)).id


def _known_facts(job: ClaimedJob, size: int) -> SourceFacts | None:
    if job["facts"] is None:
        return None
    try:
        facts = SourceFacts.from_json(job["facts"])
    except (KeyError, TypeError, ValueError):
        return None  # recorded by another version
    # What the background probe found is what the head of the file declares.
    return facts if facts.size == size and facts.measured else None

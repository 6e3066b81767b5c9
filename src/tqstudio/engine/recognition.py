"""Whether a file is still what is known of it: by its time, by samples of it, by every byte.

Its *content id* stands in the settings hash of every rendition: the quick hash, and where that could not tell
two versions apart, the full hash behind a `+`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tqstudio.engine import publishing
from tqstudio.engine.media import source as sources
from tqstudio.engine.media.facts import SourceFacts
from tqstudio.engine.media.fingerprint import full_hash, quick_hash
from tqstudio.engine.media.profiles import Profile
from tqstudio.engine.store.generations import GenerationRow
from tqstudio.engine.store.videos import VideoRow
from tqstudio.engine.views import place_of
from tqstudio.engine.wanted import wanted

_FULL_DIGITS = 32


class Certainty(Enum):
    """How much of a file is read before it counts as unchanged."""

    SAMPLES = 1
    """Nothing where size and time are the same, else five samples of 1 MiB."""
    SETTLED = 2
    """Every byte where the time is another one but the samples are the same."""
    WHOLE = 3
    """Every byte in any case, of the ladder too (`--verify-full`)."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the file system says of a source now."""

    size: int
    mtime_ns: int
    content_id: str | None
    """None where it is trusted to be what it was."""

    def shows_change(self, known: VideoRow) -> bool:
        return self.content_id is not None and self.content_id != known.quick_hash


def look_at(path: bytes, known: VideoRow | None, certainty: Certainty) -> Look:
    """Look at a source; reads it as far as `certainty` asks.

    Raises:
        TqError: as of `source.check`.
    """
    found = sources.check(path)
    size, mtime_ns = found.st_size, found.st_mtime_ns
    if known is None or known.quick_hash is None:
        return Look(size, mtime_ns, quick_hash(path))
    same_time = (known.size, known.mtime_ns) == (size, mtime_ns)
    if same_time and certainty is not Certainty.WHOLE:
        # Hashing 5 MB of each of a million files is not free.
        return Look(size, mtime_ns, None)
    samples = quick_hash(path)
    if samples != known.quick_hash.partition("+")[0]:
        return Look(size, mtime_ns, samples)
    if certainty is not Certainty.SAMPLES and known.full_hash is not None:
        whole = full_hash(path)
        if whole != known.full_hash:
            return Look(size, mtime_ns, f"{samples}+{whole[:_FULL_DIGITS]}")
    return Look(size, mtime_ns, known.quick_hash)


def is_current(video: VideoRow, generation: GenerationRow, look: Look, profile: Profile) -> bool:
    """Whether the published ladder is what this profile makes of this content, and as it was published."""
    if look.shows_change(video) or video.facts is None or video.quick_hash is None:
        return False
    try:
        facts = SourceFacts.from_json(video.facts)
    except (KeyError, TypeError, ValueError):
        return False
    published = {row.name: row.settings_hash for row in generation.renditions}
    keys = wanted(video.quick_hash, profile, facts)
    # What was left out on purpose is not made by itself: only other settings, or a person, ask for it again.
    return (
        published.keys() <= keys.keys()
        and all(key in (published.get(name), generation.omitted.get(name)) for name, key in keys.items())
        and publishing.intact(place_of(video), generation.number, generation.renditions)
    )

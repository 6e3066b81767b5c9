"""Probes the source of a job, and detects whether it changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tqstudio.engine.media.nal_units import IDR
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.warnings import clock_of, of_damage
from tqstudio.engine.media.source import fingerprint, sidecars
from tqstudio.engine.media.source.facts import Damage, SourceFacts
from tqstudio.engine.media.source.fingerprint import Original
from tqstudio.errors import ErrorCode, JobWarning, TqError, WarningCode
from tqstudio.paths import display

if TYPE_CHECKING:
    from tqstudio.protocol.worker_answers import ClaimedJob


@dataclass(frozen=True, slots=True)
class ExaminedSource:
    """A source in the state that it had at the start of an attempt."""

    original: Original
    content_id: str
    facts: SourceFacts
    """With the subtitle files beside it."""
    warnings: tuple[JobWarning, ...] = ()
    """About subtitle files that are left out."""

    @property
    def path(self) -> bytes:
        return self.original.path

    def require_accepted(self, profile: Profile, found: Sequence[Damage] = ()) -> None:
        """Refuse damage of the facts or found by decoding that the profile does not accept.

        Raises UNSUPPORTED, SOURCE_TRUNCATED, else SOURCE_DAMAGED, with the time of the first damage.
        """
        # The packet at which a source breaks off cannot be read either.
        order = {"codec": 0, "cut": 1}
        for damage in sorted(
            (*self.facts.damage, *found), key=lambda each: (order.get(each.kind, 2), each.at_s)
        ):
            if damage.kind == "codec":
                raise TqError(
                    ErrorCode.UNSUPPORTED,
                    f"{display(self.path)}: {of_damage(damage).text}",
                    "split the file there, and add its parts",
                )
            if damage.kind == "cut" and damage.length_s and profile.on_damage != "accept":
                declared = clock_of(damage.at_s + damage.length_s)
                raise TqError(
                    ErrorCode.SOURCE_TRUNCATED,
                    f"{display(self.path)} breaks off at {clock_of(damage.at_s)} of {declared}",
                )
            if profile.on_damage == "refuse":
                raise TqError(ErrorCode.SOURCE_DAMAGED, f"{display(self.path)}: {of_damage(damage).text}")


def examine(job: ClaimedJob, path: bytes, check: Callable[[], None] = lambda: None) -> ExaminedSource:
    """Probe the source; recorded facts are reused if the file has not changed since it was queued.

    `check` is called often; its exceptions abort the probe. Raises as `probe` and `quick_hash`; NO_MEDIA for
    sound that its drop folder leaves out.
    """
    original = Original.of(path)
    found = original.identity
    unchanged = (found.size, found.mtime_ns) == (job["source_size"], job["source_mtime_ns"])
    facts = _known_facts(job, found.size) if unchanged else None
    if facts is None:
        # Imported late: the facts are usually known, and the import of PyAV is slow.
        from tqstudio.engine.media.source.probe import probe

        facts = probe(path, check)
    if job["refuses_sound"] and facts.video.still:
        raise TqError(
            ErrorCode.NO_MEDIA,
            f"{display(path)} is sound without video, which its drop folder leaves out",
            "take it: tqstudio folder edit FOLDER --audio encode, then retry",
        )
    try:
        beside = sidecars.find(path)
    except OSError as error:
        text = f"the folder of the source cannot be searched for subtitle files: {error.strerror}"
        beside = sidecars.Found((), (JobWarning(WarningCode.SUBTITLES_LEFT_OUT, text),))
    return ExaminedSource(
        original,
        _content_id(job, path, check, unchanged=unchanged),
        sidecars.with_tracks(facts, beside.tracks),
        (
            *beside.warnings,
            *(JobWarning(WarningCode(each["code"]), each["text"]) for each in job["source_warnings"]),
        ),
    )


def _content_id(job: ClaimedJob, path: bytes, check: Callable[[], None], *, unchanged: bool) -> str:
    """The content id. If the modification time changed, all bytes are compared, because qualities encoded
    from the earlier content may be kept."""
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
    # Earlier versions did not look whether pictures can be copied.
    complete = facts.chapters is not None and (facts.video.level or facts.video.codec not in IDR)
    # The background probe reads only the header; a job needs measured facts.
    return facts if facts.size == size and facts.measured and complete else None

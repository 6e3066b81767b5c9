"""Decides which profile and qualities a job gets by a request, for operations and for forecasts of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tqstudio.engine.admission.existing_job import is_same, with_profile
from tqstudio.engine.media.plan.keys import expected_hashes
from tqstudio.engine.media.plan.profiles import Profile, names, override
from tqstudio.engine.media.plan.rungs import build_ladder
from tqstudio.engine.media.plan.track_names import STORYBOARD, SUBTITLES, is_of_track
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs import jobs, progress
from tqstudio.engine.store.jobs.jobs import JobSpec
from tqstudio.engine.store.jobs.progress import RenditionRow
from tqstudio.engine.store.jobs.transitions import JobFacts, job_facts
from tqstudio.engine.store.library import generations, videos
from tqstudio.engine.store.library.generations import GenerationRow
from tqstudio.errors import TqError
from tqstudio.lifecycle import JobKind, JobStatus, Operation, decide
from tqstudio.paths import display

if TYPE_CHECKING:
    from tqstudio.engine.store.jobs.assignments import Assignment
    from tqstudio.protocol.requests import ActionRequest, BulkRequest, ForecastRequest

_SIZE = re.compile(r"(\d+)[pk]\b")


@dataclass(frozen=True, slots=True)
class Subject:
    """What is known of a job whose settings are to change."""

    facts: JobFacts
    spec: JobSpec
    video: videos.VideoRow
    generation: GenerationRow | None
    """The ladder that is published."""
    renditions: list[RenditionRow]
    other: int | None
    """Another job of the same video that has not ended."""

    @property
    def source(self) -> SourceFacts | None:
        """What is stored of the source; None while it is not examined, or by another version."""
        try:
            return SourceFacts.from_json(self.video.facts) if self.video.facts else None
        except (KeyError, TypeError, ValueError):
            return None


def subject_of(db: Connection, job: int) -> Subject | None:
    """Reads a job; None if it does not exist."""
    facts = job_facts(db, job)
    video = None if facts is None else videos.get(db, facts.video)
    if facts is None or video is None:
        return None
    other = jobs.open_job_of(db, facts.video)
    return Subject(
        facts,
        jobs.spec_of(db, job),
        video,
        generations.current(db, facts.video),
        progress.renditions(db, job),
        None if other == job else other,
    )


def obstacle(subject: Subject, operation: Operation) -> str | None:
    """Returns why a job cannot be changed or encoded again; None if it can."""
    facts, video = subject.facts, subject.video
    if facts.deleted:
        return "is deleted; undelete it first"
    decision = decide(facts.status, operation, facts.control)
    if not decision.allowed:
        return decision.reason
    if facts.status is not JobStatus.DONE:
        return None
    if subject.other is not None:
        same = f"job {subject.other} has the same video"
        return f"cannot be encoded again now: {same}; cancel or restart that job"
    if subject.generation is None:
        return "has no published ladder; add its source again"
    if video.source_deleted_at is not None:
        reason = "cannot be encoded again: its drop folder deleted the source when it was done"
        return f"{reason}; put it back at {display(video.source)} first"
    return None


def settle(
    subject: Subject, request: ActionRequest | BulkRequest | ForecastRequest, profile: Profile | None
) -> JobSpec | str:
    """Returns what the job, or the new one of a done job, is requested to do; or why that is impossible.

    A change of several jobs gives each what it can have of the requested qualities.

    Args:
        profile: that the request names, with its overrides; None to change the job's own.
    """
    spec, done = subject.spec, subject.facts.status is JobStatus.DONE
    changes = request.operation is Operation.CHANGE
    try:
        before = Profile.from_json(json.loads(spec.profile_json))
        after = profile or (override(before, request.overrides) if request.overrides else before)
    except TqError as error:
        return f"cannot have these settings: {error.message}; {error.hint}"
    except (KeyError, TypeError):
        return "has a profile of another version; name the profile too"
    there = {row.name for row in subject.generation.renditions} if subject.generation else set()
    encoded = _qualities_of(subject, after)
    # Renditions without a rung, audio and the source's own size, exist in every profile.
    possible = (there - set(names(before).values())) | set(names(after).values())
    if encoded:
        # The facts of the source decide: requesting anything else would fail the job for good.
        possible = encoded | _tracks_of(subject.generation)
    requested = tuple(request.renditions or ()) or None
    unknown = set(requested or ()) - possible
    one = not changes or len(getattr(request, "ids", ())) == 1
    if unknown and (one or unknown == set(requested or ())):
        reason = f"has no quality {by_size(unknown)[0]} with the profile {after.name}"
        return f"{reason}; it can have {', '.join(by_size(possible))}"
    requested = tuple(name for name in requested or () if name not in unknown) or None
    if done and (wrong := _wrong_drop(request, subject.generation, encoded)):
        return wrong
    if changes and request.renditions is None:
        requested = _as_before(subject, before, possible)
    wanted = replace(
        spec if is_same(after, spec.profile_json) else with_profile(spec, after),
        requested=requested,
        dropped=tuple(request.drop) if done else tuple(n for n in spec.dropped if n not in (requested or ())),
        priority=(spec.priority if changes else 0) if request.priority is None else request.priority,
    )
    if not done:
        return wanted
    # With other settings, what they leave as it is need not be made again.
    differs = changes and wanted.profile_json != spec.profile_json
    return replace(wanted, kind=JobKind.CHANGED if differs else JobKind.RETRANSCODE)


def _as_before(subject: Subject, before: Profile, possible: set[str]) -> tuple[str, ...] | None:
    """Returns the qualities of a job or a ladder that are possible now; None for all."""
    if subject.generation is None or subject.facts.status is not JobStatus.DONE:
        return tuple(name for name in subject.spec.requested or () if name in possible) or None
    left_out = _qualities_of(subject, before) - {row.name for row in subject.generation.renditions}
    if not left_out & possible:
        return None
    return tuple(by_size(name for name in possible - left_out if not is_of_track(name))) or None


def kept_renditions(subject: Subject, wanted: JobSpec) -> set[str]:
    """Returns the renditions of a waiting job whose finished segments are used with other settings too."""
    started = {row["name"]: row["settings_hash"] for row in subject.renditions if row["segments_done"]}
    if wanted.requested is not None:
        started = {name: key for name, key in started.items() if name in wanted.requested}
    if not started or wanted.profile_json == subject.spec.profile_json:
        return set(started)
    if subject.source is None:
        return set()
    content, profile = subject.video.quick_hash or "", Profile.from_json(json.loads(wanted.profile_json))
    expected = expected_hashes(content, profile, subject.source)
    return {name for name, key in started.items() if key is not None and expected.get(name) == key}


def kept_of(spec: JobSpec | Assignment, generation: GenerationRow | None) -> dict[str, str]:
    """Returns the renditions of the published ladder that a job may keep: name → settings_hash."""
    kept = {row.name: row.settings_hash for row in generation.renditions} if generation else {}
    if spec.kind is JobKind.RETRANSCODE:
        if spec.requested is None and not spec.dropped:
            kept = {}
        for name in spec.requested or ():
            kept.pop(name, None)
    for name in spec.dropped:
        kept.pop(name, None)
    return kept


def _qualities_of(subject: Subject, profile: Profile) -> set[str]:
    """Returns the qualities that the profile gives the source; none while it is not examined."""
    source = subject.source
    return {rung.name for rung in build_ladder(source, profile) if not rung.skipped} if source else set()


def _tracks_of(current: GenerationRow | None) -> set[str]:
    """Returns the audio and subtitles that the ladder has, or had before they were dropped."""
    names = (*(row.name for row in current.renditions), *current.omitted) if current else ()
    return {name for name in names if is_of_track(name)}


def _wrong_drop(
    request: ActionRequest | BulkRequest | ForecastRequest, current: GenerationRow | None, encoded: set[str]
) -> str:
    """Returns why renditions cannot be dropped from the ladder; empty if they can.

    Args:
        encoded: the qualities that a full retranscode creates.
    """
    drop = set(request.drop)
    there = {row.name for row in current.renditions} if current else set()
    qualities = {name for name in there if not is_of_track(name)}
    if unknown := sorted(drop - there - {STORYBOARD, SUBTITLES}):
        return f"has no quality {unknown[0]} to drop; it has {', '.join(by_size(there))}"
    if both := by_size(drop & set(request.renditions or ())):
        return f"cannot both encode and drop {both[0]}; name it once"
    left = qualities | set(request.renditions) if request.renditions else encoded or qualities
    if drop and not (left - drop - (there - qualities)):
        return f"has no quality left without {', '.join(by_size(drop))}; drop fewer"
    return ""


def by_size(names: Iterable[str]) -> list[str]:
    """Sorts qualities from best to worst, then the others."""
    sizes = {name: _SIZE.match(name) for name in names}
    return sorted(sizes, key=lambda name: (-int(found[1]) if (found := sizes[name]) else 0, name))

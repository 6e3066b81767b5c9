"""Stores publishes in the database: the intent before one, and the record after it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tqstudio.engine.host.clock import now_us
from tqstudio.engine.media.plan.keys import expected_hashes
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.track_names import is_of_track
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.outputs.generation import rows_of
from tqstudio.engine.outputs.place import Place
from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs import claims, jobs, outcomes, progress
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.engine.store.jobs.transitions import job_facts
from tqstudio.engine.store.library import deliveries, generations, publications, removals, videos
from tqstudio.engine.store.library.generations import GenerationRow, PublishedRow, WholeFileRow
from tqstudio.engine.store.library.publications import PublicationRow
from tqstudio.engine.store.library.videos import VideoRow
from tqstudio.errors import ErrorCode, JobWarning, TqError
from tqstudio.events import EventKind
from tqstudio.lifecycle import RenditionStatus, Step
from tqstudio.protocol.answers import WarningView
from tqstudio.protocol.requests import Manifest


@dataclass(frozen=True, slots=True)
class Publication:
    """A generation of a video that is being published."""

    row: PublicationRow
    video: VideoRow
    current: GenerationRow | None
    """The published generation that this one replaces."""
    manifest: Manifest
    begun: float = field(default_factory=time.monotonic)
    """When this process began to handle it, on the monotonic clock."""

    @property
    def token(self) -> LeaseToken:
        return LeaseToken(self.row.job, self.row.epoch, self.row.instance or "")

    @property
    def place(self) -> Place:
        return Place.below(self.video.output_root, self.row.slug)

    @property
    def before(self) -> GenerationRow | None:
        """The generation that this master named before; None if the ladder moves to another folder."""
        return self.current if self.row.slug == self.video.slug else None

    @property
    def rows(self) -> tuple[PublishedRow, ...]:
        """The renditions of the new generation."""
        kept = self.current.renditions if self.current else ()
        return rows_of(self.manifest, [row for row in kept if row.name in self.manifest.keep])

    def kept_from(self, place: Place) -> Path | None:
        """The folder of the current generation, from which files are taken over; None without one.

        Args:
            place: where this publication goes, with its folder open.
        """
        if self.current is None:
            return None
        if self.row.slug != self.video.slug:
            place = Place.below(self.video.output_root, self.video.slug)
        return place.generation(self.current.number)


def video_of(db: Connection, job: int) -> tuple[VideoRow, GenerationRow | None, int]:
    """A job's video, its current generation, and the number of the next one.

    Raises:
        TqError: NOT_FOUND.
    """
    facts = job_facts(db, job)
    video = videos.get(db, facts.video) if facts else None
    if video is None:
        raise TqError(ErrorCode.NOT_FOUND, f"there is no job {job}")
    return video, generations.current(db, video.id), generations.next_number(db, video.id)


def load(db: Connection, row: PublicationRow) -> Publication:
    """Load a recorded publication."""
    video, current, _ = video_of(db, row.job)
    return Publication(row, video, current, Manifest.model_validate_json(row.manifest))


def intend(db: Connection, publication: Publication) -> bool:
    """Record the intent to publish; False when the lease is lost."""
    if claims.held(db, publication.token) is None:
        return False
    publications.begin(db, publication.row, now=now_us())
    return True


def record(
    db: Connection,
    publication: Publication,
    *,
    poster: str | None,
    files: Sequence[WholeFileRow] = (),
    url: str | None,
    warnings: Sequence[JobWarning] = (),
    settled: bool = False,
) -> bool:
    """Record the published generation in one transaction; False when the lease is lost.

    Args:
        url: where it is to be copied to, in a bucket.
        warnings: those of its publish.
        settled: it is recovered, and an earlier supervisor may have begun it, an unknown time ago.
    """
    now, row, manifest = now_us(), publication.row, publication.manifest
    ended = _is_viewable if manifest.first else _is_done
    if not ended(db, publication, now=now, warnings=warnings, settled=settled):
        return False
    generations.record(
        db,
        row.video,
        row.number,
        settings_hash=manifest.settings_hash,
        poster=poster,
        renditions=publication.rows,
        omitted={} if manifest.first else _omitted(db, publication),
        files=files,
        job=row.job,
        now=now,
    )
    videos.set_slug(db, row.video, row.slug)
    video = videos.get(db, row.video)
    if url is not None and video is not None and video.deleted_at is None:
        deliveries.begin(db, row.video, row.number, url, job=row.job)
    publications.end(db, row.job)
    return True


def _is_viewable(db: Connection, publication: Publication, *, now: int, **_: object) -> bool:
    """Record that one quality of a running job can be played; False when the lease is lost."""
    row = publication.row
    if claims.held(db, publication.token) is None:
        return False
    name = next(each.name for each in publication.rows if not is_of_track(each.name))
    videos.set_viewable(db, row.video, name)
    events.append(
        db, EventKind.VIEWABLE, now=now, actor=row.worker, job=row.job, video=row.video, detail=name
    )
    return True


def _is_done(
    db: Connection, publication: Publication, *, now: int, warnings: Sequence[JobWarning], settled: bool
) -> bool:
    """Record that a job has ended with a whole ladder; False when the lease is lost."""
    row, manifest = publication.row, publication.manifest
    listed: list[WarningView] = [{"code": each.code, "text": each.text} for each in manifest.warnings]
    listed += [{"code": each.code.value, "text": each.text} for each in warnings]
    if not outcomes.complete(
        db,
        publication.token,
        now=now,
        worker=row.worker,
        detail=f"generation {row.number}{_linked(manifest)}",
        warnings=listed,
        until_last_progress=settled,
        bytes_out=_encoded_bytes(publication),
    ):
        return False
    progress.lengthen(db, publication.token, Step.FINALIZE, time.monotonic() - publication.begun)
    videos.set_viewable(db, row.video, None)
    if row.full_hash:
        videos.set_full_hash(db, row.video, row.full_hash)
    progress.settle_renditions(db, row.job, running_becomes=RenditionStatus.COMPLETED, now=now)
    if manifest.source is not None:
        removals.plan(db, row.job, manifest.source)
    return True


def _encoded_bytes(publication: Publication) -> int:
    """The size of what the job encoded, without what was kept or linked."""
    new = {each.name for each in publication.manifest.renditions if each.linked_from is None}
    return sum(row.size for row in publication.rows if row.name in new)


def _linked(manifest: Manifest) -> str:
    """Which renditions have the segments of another video, for the history."""
    linked: dict[int, list[str]] = {}
    for rendition in manifest.renditions:
        if rendition.linked_from is not None:
            linked.setdefault(rendition.linked_from, []).append(rendition.name)
    return "".join(f"; {', '.join(names)} linked from video {video}" for video, names in linked.items())


def forget(db: Connection, publication: Publication, why: str | None) -> None:
    """Delete an undone publication; `why` is recorded as an event unless the job's failure states it."""
    row = publication.row
    publications.end(db, row.job)
    if why is not None:
        events.append(
            db,
            EventKind.PUBLISH_UNDONE,
            now=now_us(),
            actor="supervisor",
            job=row.job,
            video=row.video,
            detail=why,
        )


def _omitted(db: Connection, publication: Publication) -> Mapping[str, str]:
    """Renditions missing from the ladder: dropped, not requested, or optional and failed.

    Required renditions are never missing, because workers complete no job without them.
    """
    row = publication.row
    video = videos.get(db, row.video)
    if video is None or video.facts is None or video.quick_hash is None:
        return {}
    try:
        facts = SourceFacts.from_json(video.facts)
        profile = Profile.from_json(json.loads(jobs.spec_of(db, row.job).profile_json))
    except (KeyError, TypeError, ValueError):
        return {}
    there = {published.name for published in publication.rows}
    return {
        name: key
        for name, key in expected_hashes(video.quick_hash, profile, facts).items()
        if name not in there
    }

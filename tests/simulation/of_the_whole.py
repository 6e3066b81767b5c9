"""What must be so of the whole database and the published folders."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

from tqstudio.engine.media.plan.file_names import IFRAMES_NAME, PLAYLIST_NAME
from tqstudio.engine.outputs import torn
from tqstudio.engine.outputs.place import place_of
from tqstudio.engine.store.db.connection import connect
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.engine.store.library import generations, videos
from tqstudio.events import EventKind

from .audit import Audit, Violation
from .of_a_job import replay

_US = 1_000_000
_SOON_S = 40.0
"""Two scans, and a disk that is slow."""
_SHORT_STALLS_US = 14 * _US
"""Stalls during one lease that are too short for the clock of the leases to leave them out."""


def counts_are_true(audit: Audit) -> None:
    """The counts that triggers keep are the numbers of jobs."""
    kept = dict(audit.raw.execute("SELECT status, n FROM job_count WHERE n <> 0"))
    real = dict(
        audit.raw.execute("SELECT status, count(*) FROM job WHERE deleted_at IS NULL GROUP BY status")
    )
    if kept != real:
        raise Violation(f"the counts say {kept}, the jobs {real}")


def every_job_is_known(audit: Audit) -> None:
    """No job changed outside of what was seen."""
    for job, row in audit.known.items():
        if audit.job(job) != row:
            raise Violation(f"job {job} changed unseen: {row}")


def an_expired_lease_is_taken_back_soon(audit: Audit) -> None:
    """While a supervisor runs undisturbed, no job stays with a worker that has lost it."""
    world = audit.world
    if world.life is None or not world.life.running or world.loop.time() - world.sound_since < _SOON_S:
        return
    for job in audit.open:
        row = audit.known[job]
        token = LeaseToken(job, row["epoch"], row["instance"])
        if row["status"] != "in_progress" or world.life.services.completion.is_publishing(token):
            continue
        overdue = audit.running_us - audit.lease_until[token.job, token.epoch, token.instance]
        if overdue > _SOON_S * _US:
            raise Violation(f"the lease of job {job} ran out {overdue / _US} s ago")


def only_the_holder_renews_a_lease(audit: Audit) -> None:
    """A lease is made longer by a request of its own holder, and by no other."""
    world = audit.world
    if world.life is None or not world.life.running:
        return
    leases = world.life.services.running_jobs.leases
    for job, held in leases._held.items():
        # Without a look at its clock, which would seem to it as if the process ran.
        until, instance = held.until + leases.clock.stopped_us - world.stopped_us, held.token.instance
        heard = max(audit.lease_until[job, held.token.epoch, instance], audit.claimed_until.get(instance, 0))
        longer = until - heard
        if longer > _SHORT_STALLS_US and not audit.claiming[instance]:
            raise Violation(f"the lease of job {job} lasts {longer / _US} s longer than its holder was heard")


def what_plays_is_whole(audit: Audit) -> None:
    """Every master playlist names a generation of which every file is there, and the recorded one is."""
    with closing(connect(audit.world.home.database, read_only=True)) as db:
        known = videos.page(db, after=0, limit=10_000)
    for video in known:
        the_ladder_is_whole(audit, video.id)


def the_ladder_is_whole(audit: Audit, number: int) -> None:
    """Of one video."""
    with closing(connect(audit.world.home.database, read_only=True)) as db:
        video, generation = videos.get(db, number), generations.current(db, number)
    assert video is not None
    place = place_of(video)
    if place.master.exists():
        named = re.findall(r"^(v\d+/\S+)$|URI=\"(v\d+/[^\"]+)\"", place.master.read_text(), re.MULTILINE)
        for uri in (one or other for one, other in named):
            _playlist_is_whole(place.folder / uri)
    if generation is not None:
        folder = place.generation(generation.number)
        broken = list(torn(folder, generation.renditions))
        if broken or not place.master.exists():
            raise Violation(f"{folder} is recorded and not whole: {broken}")


def _playlist_is_whole(playlist: Path) -> None:
    if playlist.name not in (PLAYLIST_NAME, IFRAMES_NAME) or not playlist.exists():
        raise Violation(f"a master names {playlist}, which is not there")
    for name in re.findall(r"^([^#\s]\S*)$|URI=\"([^\"]+)\"", playlist.read_text(), re.MULTILINE):
        if not (playlist.parent / (name[0] or name[1])).exists():
            raise Violation(f"{playlist} names {name}, which is not there")


def history_explains_every_job(audit: Audit) -> None:
    """The whole history of a job, read from its first event, leads to what it is."""
    for job, row in audit.known.items():
        events = audit.events_of(job)
        if replay(events) != (row["status"], row["deleted_at"] is not None):
            raise Violation(f"job {job} is {row['status']}, its history says {replay(events)}")
        if sum(1 for event in events if event.trigger == EventKind.CLAIM) != row["epoch"]:
            raise Violation(f"job {job} has epoch {row['epoch']}, its history other claims")

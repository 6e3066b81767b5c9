"""Applies a repeated `add` to the file's existing job: another profile, priority, hold and so on.

Only explicitly given options (`Offer.named`) count; the defaults of a command do not change a job.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tqstudio.engine.admission.metadata import require_small
from tqstudio.engine.admission.offer import Offer
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs import autorestart, jobs, operations
from tqstudio.engine.store.jobs.jobs import JobSpec
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import Effect, Operation


def apply(db: Connection, job: int, offer: Offer, *, now: int) -> dict[str, Any]:
    """Change a waiting job; return the values that were different before, by name."""
    applied: dict[str, Any] = {}
    spec = jobs.spec_of(db, job)
    if "profile" in offer.named and not is_same(offer.profile, spec.profile_json):
        jobs.set_settings(db, job, with_profile(spec, offer.profile), now=now, actor=offer.actor)
        applied["profile"] = offer.profile.name
    if "priority" in offer.named and offer.priority != spec.priority:
        operations.set_priority(db, job, value=offer.priority, delta=None, now=now, actor=offer.actor)
        applied["priority"] = offer.priority
    if offer.force and jobs.encode_all(db, job, now=now, actor=offer.actor):
        applied["force"] = True
    if "autorestart" in offer.named and autorestart.set_rule(db, job, offer.autorestart):
        applied["autorestart"] = offer.autorestart.limit
    limits = {"max_attempts": offer.max_attempts, "max_crashes": offer.max_crashes}
    named = {name: value for name, value in limits.items() if value is not None and name in offer.named}
    if named:
        applied |= jobs.set_limits(db, job, named)
    applied |= merge_metadata(db, job, offer)
    if "hold" in offer.named:
        held = operations.operate(db, job, Operation.PAUSE, now=now, actor=offer.actor)
        if held is not None and held.decision.effect is Effect.NOW:
            applied["hold"] = True
    return applied


def merge_metadata(db: Connection, job: int, offer: Offer) -> dict[str, Any]:
    """Merge metadata into that of a job, which may be running.

    Raises:
        TqError: BAD_REQUEST when the merged metadata is too large.
    """
    if not offer.metadata:
        return {}
    before = jobs.metadata_of(db, job)
    if before | dict(offer.metadata) == before:
        return {}
    require_small("metadata", before | dict(offer.metadata))
    jobs.set_metadata(db, job, before | dict(offer.metadata))
    return {"metadata": dict(offer.metadata)}


class RunningJob(TqError):
    """The running job of an offered file cannot be changed as requested."""

    def __init__(self, job: int, message: str, hint: str) -> None:
        super().__init__(ErrorCode.REFUSED, message, hint)
        self.job = job


def require_unchanged(db: Connection, job: int, name: str, offer: Offer) -> None:
    """Check that a running job need not change; a new priority is ignored, because it has no effect on it.

    Args:
        name: the name of the file.

    Raises:
        RunningJob: it would have to.
    """
    spec = jobs.spec_of(db, job)
    if "profile" in offer.named and not is_same(offer.profile, spec.profile_json):
        if offer.profile.name == spec.profile:
            running, again = f"other settings of {spec.profile}", f"add it again when job {job} is done"
        else:
            running = f"the profile {spec.profile}"
            again = (
                f"when it is done: tqstudio job retranscode {job} --profile {offer.profile.name};"
                f" or end it now with: tqstudio job cancel {job}, and add it again"
            )
        raise RunningJob(job, f"job {job} is encoding {name} with {running}", again)
    if offer.force and not spec.encodes_all:
        raise RunningJob(
            job,
            f"job {job} is encoding only a part of {name}",
            f"when it is done: tqstudio job retranscode {job}",
        )
    if "hold" in offer.named:
        raise RunningJob(
            job,
            f"job {job} is encoding {name}; only a waiting job can be held",
            f"pause it with: tqstudio job pause {job}",
        )


def with_profile(spec: JobSpec, profile: Profile) -> JobSpec:
    """Return a job's request with another profile."""
    recorded = json.dumps(profile.to_json())
    return replace(spec, profile=profile.name, profile_json=recorded, prefer_gpu=profile.prefer_gpu)


def is_same(profile: Profile, profile_json: str) -> bool:
    """Whether a job's recorded profile equals this one, apart from the description."""
    try:
        recorded = Profile.from_json(json.loads(profile_json))
    except (KeyError, TypeError):
        return False  # another version wrote it
    return replace(recorded, description="") == replace(profile, description="")

"""Answers what a change of jobs would cost, from what is stored, outside the event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from fastapi import APIRouter

from tqstudio.engine.api.bodies import BoundedRoute
from tqstudio.engine.api.dependencies import TheServices
from tqstudio.engine.api.jobs import profile_of
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.live.speed_model import SpeedModel
from tqstudio.engine.live.workload import Workload, work_of
from tqstudio.engine.media.plan.profiles import Profile, names
from tqstudio.engine.media.plan.rungs import DROPPED, NOT_REQUESTED, max_bytes
from tqstudio.engine.media.plan.video_codecs import CPU_ENCODER
from tqstudio.engine.queue.job_settings import (
    Subject,
    by_size,
    kept_of,
    kept_renditions,
    obstacle,
    settle,
    subject_of,
)
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs.jobs import JobSpec
from tqstudio.engine.store.lists import pages
from tqstudio.engine.store.lists.matching import matching, with_folders
from tqstudio.engine.store.lists.orders import PageQuery
from tqstudio.engine.worker.job.rendition_choice import RenditionChoice, choose, on_kept_grid
from tqstudio.errors import TqError
from tqstudio.lifecycle import JobStatus
from tqstudio.protocol import answers, filters
from tqstudio.protocol.requests import ForecastRequest

router = APIRouter(route_class=BoundedRoute)

SAMPLE = 50
_SEEKS = 10


@router.post("/jobs/forecast")
async def forecast(services: TheServices, request: ForecastRequest) -> answers.ForecastView:
    """What a change of jobs, or of all that match a filter, would cost; of more than 50 by a sample."""
    profile = profile_of(services, request)
    jobs, subjects = await services.db.search(_read, request)
    cost = await asyncio.to_thread(_cost_of_all, subjects, request, profile)
    share = jobs / len(subjects) if jobs is not None and len(subjects) == SAMPLE else 1.0
    return cost.view(jobs, len(subjects), share, services.forecasts.speed_model)


def _read(db: Connection, request: ForecastRequest) -> tuple[int | None, list[Subject]]:
    ids, jobs = (_of_ids if request.ids else _of_filter)(db, request)
    return jobs, [subject for job in ids if (subject := subject_of(db, job)) is not None]


def _of_ids(_: Connection, request: ForecastRequest) -> tuple[list[int], int]:
    ids, count = request.ids, len(request.ids)
    return (ids if count <= SAMPLE else [ids[at * count // SAMPLE] for at in range(SAMPLE)]), count


def _of_filter(db: Connection, request: ForecastRequest) -> tuple[list[int], int | None]:
    """Finds jobs from all over the list, as those that were added together are alike."""
    query = PageQuery(with_folders(db, filters.parse(request.filter)), "number", now=now_us())
    first = pages.page(db, query, limit=SAMPLE)
    if first.after is None:
        return first.ids, len(first.ids)
    found = matching(db, query)
    starts = (request.newest * part // _SEEKS for part in range(_SEEKS))
    keys = [key for at in starts for key in found.read((at,), backwards=False, limit=SAMPLE // _SEEKS)]
    ids = {key[-1] for key in keys if key[-1] <= request.newest}
    filled = dict.fromkeys([*sorted(ids), *first.ids])
    return [*filled][:SAMPLE], first.total


@dataclass
class _Cost:
    """The sums of what was looked at."""

    again: int = 0
    changed: int = 0
    refusals: list[str] = field(default_factory=list)
    unknown: int = 0
    max_bytes: int = 0
    works: list[Workload | None] = field(default_factory=list)
    kept: int = 0
    lost: int = 0
    qualities: dict[tuple[str, str], answers.ForecastQuality] = field(default_factory=dict)
    values: list[answers.JobValues] = field(default_factory=list)

    def view(
        self, jobs: int | None, looked_at: int, share: float, speeds: SpeedModel
    ) -> answers.ForecastView:
        seconds = [None if work is None else speeds.predict(work) for work in self.works]
        known = [each for each in seconds if each is not None]
        order = by_size({name for name, _ in self.qualities})
        return {
            "jobs": jobs,
            "sampled": looked_at,
            "reencoded": self.again,
            "changed": self.changed,
            "refused": len(self.refusals),
            "reason": next(iter(self.refusals), ""),
            "unknown": self.unknown,
            "max_bytes": round(self.max_bytes * share),
            "eta": speeds.eta(sum(known) * share) if known and len(known) == len(seconds) else None,
            "segments_kept": round(self.kept * share),
            "segments_reencoded": round(self.lost * share),
            "qualities": sorted(self.qualities.values(), key=lambda each: order.index(each["name"])),
            "values": _in_common(self.values),
        }


def _in_common(values: list[answers.JobValues]) -> answers.JobValues:
    found: dict[str, set[Any]] = {name: set() for name in answers.JobValues.__annotations__}
    for value in values:
        for name, each in value.items():
            found[name].add(each)
    common = {name: next(iter(each)) if len(each) == 1 else None for name, each in found.items()}
    return cast(answers.JobValues, common)


def _cost_of_all(subjects: list[Subject], request: ForecastRequest, profile: Profile | None) -> _Cost:
    cost = _Cost()
    for subject in subjects:
        number = subject.facts.id
        if (reason := obstacle(subject, request.operation)) is not None:
            cost.refusals.append(f"job {number} {reason}")
            continue
        wanted = settle(subject, request, profile)
        if isinstance(wanted, str):
            cost.refusals.append(f"job {number} {wanted}")
            continue
        try:
            _add(cost, subject, wanted, request)
        except TqError as error:
            cost.refusals.append(f"job {number}: {error.message}; {error.hint}")
    return cost


def _add(cost: _Cost, subject: Subject, wanted: JobSpec, request: ForecastRequest) -> None:
    """Adds the cost of one job.

    Raises:
        TqError: nothing can be encoded.
    """
    source, done = subject.source, subject.facts.status is JobStatus.DONE
    profile = Profile.from_json(json.loads(wanted.profile_json))
    if source is not None:
        # As its worker chooses.
        kept, content = kept_of(wanted, subject.generation), subject.video.quick_hash or ""
        cut = on_kept_grid(source, profile, content, wanted.requested, kept)
        choice = choose(source, cut, content, wanted.requested, kept, dropped=wanted.dropped)
        cost.max_bytes += sum(max_bytes(source, kbps) for kbps in _rates(choice))
        if not choice.nothing_to_make:
            cost.works.append(_work(subject, wanted, choice))
        _count_segments(cost, subject, wanted, choice)
    for name, becomes, reason in _become(choice) if source is not None else _unknown(wanted, profile):
        possible = reason in ("", NOT_REQUESTED, DROPPED)
        new: answers.ForecastQuality = {
            "name": name,
            "becomes": becomes,
            "reason": reason,
            "possible": possible,
            "jobs": 0,
        }
        cost.qualities.setdefault((name, becomes), new)["jobs"] += 1
    cost.unknown += source is None
    cost.again += done
    cost.changed += not done
    hold = (subject.facts.status is JobStatus.PAUSED) if request.hold is None else request.hold
    cost.values.append(
        {
            "profile": wanted.profile,
            "crf": profile.crf,
            "quality": profile.quality,
            "copy": profile.copy,
            "priority": wanted.priority,
            "hold": hold,
        }
    )


def _rates(choice: RenditionChoice) -> Iterator[int]:
    yield from (rung.maxrate_kbps for rung in choice.make)
    yield from (sound.bitrate_kbps for sound in choice.audio)
    yield from (file.max_kbps for file in choice.files)


def _become(choice: RenditionChoice) -> Iterator[tuple[str, answers.Becomes, str]]:
    for rung in choice.ladder:
        if rung.skipped_reason is not None:
            yield rung.name, "left_out", rung.skipped_reason
        elif rung.name in choice.keep:
            yield rung.name, "kept", ""
        else:
            yield rung.name, "copied" if rung.copied else "encoded", ""


def _unknown(wanted: JobSpec, profile: Profile) -> Iterator[tuple[str, answers.Becomes, str]]:
    for name in names(profile).values():
        if wanted.requested is None or name in wanted.requested:
            yield name, "unknown", ""
        else:
            yield name, "left_out", NOT_REQUESTED


def _work(subject: Subject, wanted: JobSpec, choice: RenditionChoice) -> Workload | None:
    """Returns the work of a job, without what is finished and is used again."""
    made = {rung.name: rung.weight for rung in choice.make}
    is_whole = wanted.requested is None and not wanted.dropped and not choice.keep
    left = 1.0
    if subject.facts.status is not JobStatus.DONE and made:
        kept = kept_renditions(subject, wanted)
        rows = [row for row in subject.renditions if row["name"] in kept]
        there = sum(made.get(row["name"], 0.0) * row["progress"] / 100 for row in rows)
        left = 1 - there / sum(made.values())
    qualities = None if is_whole else [*made]
    return work_of(subject.video.facts, wanted.profile_json, CPU_ENCODER, wanted=qualities, left=left)


def _count_segments(cost: _Cost, subject: Subject, wanted: JobSpec, choice: RenditionChoice) -> None:
    if subject.facts.status is JobStatus.DONE and subject.generation is not None:
        finished = {row.name: len(row.files) for row in subject.generation.renditions}
        kept = set(choice.keep)
    else:
        finished = {row["name"]: row["segments_done"] for row in subject.renditions}
        kept = kept_renditions(subject, wanted) | set(choice.keep)
    stays = sum(count for name, count in finished.items() if name in kept)
    cost.kept += stays
    cost.lost += sum(finished.values()) - stays

"""Applies user operations to jobs, each with its own result."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from tqstudio.engine.host.clock import now_us
from tqstudio.engine.live.running_jobs import RunningJobs
from tqstudio.engine.media.plan.profiles import Profile, names
from tqstudio.engine.media.plan.rungs import build_ladder
from tqstudio.engine.media.plan.track_names import STORYBOARD, SUBTITLES, is_of_track
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.outputs.retention import Retention
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import jobs, operations, undo
from tqstudio.engine.store.jobs.operations import Applied
from tqstudio.engine.store.jobs.transitions import job_facts
from tqstudio.engine.store.jobs.undo import SLICE
from tqstudio.engine.store.library import generations, videos
from tqstudio.engine.store.lists.matching import matching
from tqstudio.engine.store.lists.orders import PageQuery
from tqstudio.engine.store.machine import supervisors
from tqstudio.errors import ErrorCode
from tqstudio.lifecycle import (
    UNDOABLE,
    Control,
    Decision,
    JobKind,
    JobStatus,
    Operation,
    Undoable,
    decide,
    job_word,
)
from tqstudio.paths import display
from tqstudio.protocol.answers import ActionResult, BulkAnswer, ErrorView
from tqstudio.protocol.requests import ActionRequest, BulkRequest

_SIZE = re.compile(r"(\d+)[pk]\b")


Request = ActionRequest | BulkRequest


class Operations:
    """Applies operations as `lifecycle` allows, and passes control requests to running jobs."""

    def __init__(self, db: Database, running_jobs: RunningJobs, retention: Retention) -> None:
        self._db, self._running_jobs, self._retention = db, running_jobs, retention
        self._under_way: dict[str, asyncio.Task[list[ActionResult]]] = {}
        """Running requests by idempotency key: a repeated request gets the same answer."""

    async def apply(
        self, request: ActionRequest, *, actor: str = "user", profile: Profile | None = None
    ) -> list[ActionResult]:
        """Applies the operation to every named job; a refusal does not affect the others.

        Args:
            actor: who asked, for events.
            profile: the profile of a retranscode; None for each job's own.
        """
        key = request.idempotency_key
        if key is None:
            return await self._apply(request, actor, profile)
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(self._apply(request, actor, profile))
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        return await asyncio.shield(task)

    async def _apply(self, request: ActionRequest, actor: str, profile: Profile | None) -> list[ActionResult]:
        results, repeated = await self._db.write(self._apply_all, request, actor, profile)
        if repeated:
            return results
        self._pass_on(results)
        if request.operation is Operation.DELETE:
            lost = await self._retention.jobs_deleted([result["job"] for result in results if result["ok"]])
            for result in results:
                result["removed_segments"] = lost.get(result["job"], 0)
            if request.idempotency_key is not None:
                await self._db.write(
                    supervisors.complete_answer, _key(request.idempotency_key), json.dumps(results)
                )
        return results

    async def apply_to_matching(self, request: BulkRequest, query: PageQuery, *, actor: str) -> BulkAnswer:
        """Applies the operation to the next jobs of a query that is sorted by number, in one transaction."""
        key = _key(f"{request.idempotency_key}:{request.after}")

        def find(db: Connection) -> list[int]:
            found = matching(db, query).read((request.after,), backwards=False, limit=SLICE)
            return [key[-1] for key in found if key[-1] <= request.newest]

        def apply(db: Connection) -> tuple[BulkAnswer, list[ActionResult]]:
            if (stored := supervisors.stored_answer(db, key)) is not None:
                return json.loads(stored), []
            results = self._change(db, ids, request, actor, None, bulk=request.idempotency_key)
            answer = _summary(results)
            supervisors.store_answer(db, key, json.dumps(answer), now=now_us())
            return answer, results

        ids = await self._db.search(find)
        answer, results = await self._db.write(apply)
        self._pass_on(results)
        if results and request.operation is Operation.DELETE:
            lost = await self._retention.jobs_deleted([result["job"] for result in results if result["ok"]])
            answer["removed_segments"] = sum(lost.values())
            await self._db.write(supervisors.complete_answer, key, json.dumps(answer))
        return answer

    def _pass_on(self, results: list[ActionResult]) -> None:
        """Passes control requests to running jobs."""
        for result in results:
            if result["ok"] and result["status"] == JobStatus.IN_PROGRESS:
                self._running_jobs.control(result["job"], Control(result["control"]))

    def _apply_all(
        self, db: Connection, request: ActionRequest, actor: str, profile: Profile | None
    ) -> tuple[list[ActionResult], bool]:
        """Returns the results, and whether they are remembered ones of the same request."""
        key = None if request.idempotency_key is None else _key(request.idempotency_key)
        if key is not None and (answer := supervisors.stored_answer(db, key)) is not None:
            return json.loads(answer), True
        results = self._change(db, request.ids, request, actor, profile)
        if key is not None:
            supervisors.store_answer(db, key, json.dumps(results), now=now_us())
        return results, False

    def _change(
        self,
        db: Connection,
        ids: list[int],
        request: Request,
        actor: str,
        profile: Profile | None,
        *,
        bulk: str = "",
    ) -> list[ActionResult]:
        """Applies the operation, and records it so that it can be undone."""
        undoable = request.operation in UNDOABLE
        before = undo.states(db, ids) if undoable else {}
        results = [self._one(db, job, request, actor, profile) for job in ids]
        if undoable:
            steps = undo.changed(db, before)
            undo.record(db, Undoable(request.operation), steps, actor=actor, now=now_us(), bulk=bulk)
        return results

    def _one(
        self,
        db: Connection,
        job: int,
        request: Request,
        actor: str,
        profile: Profile | None,
    ) -> ActionResult:
        now = now_us()
        if request.operation is Operation.RETRANSCODE:
            return self._retranscode(db, job, request, actor, profile, now)
        if request.operation is Operation.PRIORITY:
            value, delta = request.priority, request.delta
            applied = operations.set_priority(db, job, value=value, delta=delta, now=now, actor=actor)
        else:
            applied = operations.operate(db, job, request.operation, now=now, actor=actor)
        return result_of(job, applied)

    def _retranscode(
        self,
        db: Connection,
        job: int,
        request: Request,
        actor: str,
        profile: Profile | None,
        now: int,
    ) -> ActionResult:
        facts = job_facts(db, job)
        if facts is None:
            return result_of(job, None)
        if facts.deleted:
            return _refused(job, facts.status, "is deleted; undelete it first")
        decision = decide(facts.status, Operation.RETRANSCODE)
        if not decision.allowed:
            return result_of(job, Applied(decision, facts.status, facts.control))
        generation = generations.current(db, facts.video)
        other = jobs.open_job_of(db, facts.video)
        if other is not None:
            reason = (
                f"cannot be encoded again now: job {other} has the same video; cancel or restart that job"
            )
            return _refused(job, facts.status, reason, see=other)
        if generation is None:
            return _refused(job, facts.status, "has no published ladder; add its source again")
        video = videos.get(db, facts.video)
        if video is not None and video.source_deleted_at is not None:
            reason = "cannot be encoded again: its drop folder deleted the source when it was done"
            return _refused(job, facts.status, f"{reason}; put it back at {display(video.source)} first")
        spec = jobs.spec_of(db, job)
        there = {row.name for row in generation.renditions}
        possible = there | _rungs(spec.profile_json)
        if profile is not None:
            # Renditions without a rung, audio and the source's own size, exist in every profile.
            possible = (there - _rungs(spec.profile_json)) | _rungs(json.dumps(profile.to_json()))
            spec = replace(
                spec,
                profile=profile.name,
                profile_json=json.dumps(profile.to_json()),
                prefer_gpu=profile.prefer_gpu,
            )
        available = _qualities_of(video, spec)
        if available:
            # The facts of the source decide: requesting anything else would fail the job for good.
            possible = available | _tracks_of(generation)
        if unknown := _by_size(set(request.renditions or ()) - possible):
            reason = f"has no quality {unknown[0]} with the profile {spec.profile}"
            return _refused(job, facts.status, f"{reason}; it can have {', '.join(_by_size(possible))}")
        if wrong := _wrong_drop(request, generation, available):
            return _refused(job, facts.status, wrong)
        new = jobs.create(
            db,
            jobs.NewJob(
                video=facts.video,
                profile=spec.profile,
                profile_json=spec.profile_json,
                prefer_gpu=spec.prefer_gpu,
                kind=JobKind.RETRANSCODE,
                requested=tuple(request.renditions) if request.renditions else None,
                dropped=tuple(request.drop),
                priority=request.priority or 0,
                max_attempts=spec.max_attempts,
                max_crashes=spec.max_crashes,
                autorestart=spec.autorestart,
                idempotency_key=request.idempotency_key,
            ),
            now=now,
            actor=actor,
        )
        answer = result_of(job, Applied(decision, facts.status, facts.control))
        answer["new_job"] = new
        return answer


def _summary(results: list[ActionResult]) -> BulkAnswer:
    refused = [result for result in results if not result["ok"]]
    return {
        "after": results[-1]["job"] if len(results) == SLICE else None,
        "done": len(results) - len(refused),
        "skipped": Counter(result["word"] or "gone" for result in refused),
        "reason": next((result["error"]["message"] for result in refused if result["error"]), ""),
        "removed_segments": 0,
    }


def _qualities_of(video: videos.VideoRow | None, spec: jobs.JobSpec) -> set[str]:
    """Returns the qualities that the profile gives the source; none while it is not probed."""
    if video is None or not video.facts:
        return set()
    try:
        facts = SourceFacts.from_json(video.facts)
    except (KeyError, TypeError, ValueError):
        return set()  # recorded by another version
    ladder = build_ladder(facts, Profile.from_json(json.loads(spec.profile_json)))
    return {rung.name for rung in ladder if not rung.skipped}


def _tracks_of(current: generations.GenerationRow) -> set[str]:
    """Returns the audio and subtitles that the ladder has, or had before they were dropped."""
    return {
        name for name in (*(row.name for row in current.renditions), *current.omitted) if is_of_track(name)
    }


def _wrong_drop(request: Request, current: generations.GenerationRow, encoded: set[str]) -> str:
    """Returns why renditions cannot be dropped from the ladder; empty if they can.

    Args:
        encoded: the qualities that a full retranscode creates.
    """
    drop = set(request.drop)
    there = {row.name for row in current.renditions}
    qualities = {name for name in there if not is_of_track(name)}
    if unknown := sorted(drop - there - {STORYBOARD, SUBTITLES}):
        return f"has no quality {unknown[0]} to drop; it has {', '.join(_by_size(there))}"
    if both := _by_size(drop & set(request.renditions or ())):
        return f"cannot both encode and drop {both[0]}; name it once"
    left = qualities | set(request.renditions) if request.renditions else encoded or qualities
    if drop and not (left - drop - (there - qualities)):
        return f"has no quality left without {', '.join(_by_size(drop))}; drop fewer"
    return ""


def _rungs(profile_json: str) -> set[str]:
    return set(names(Profile.from_json(json.loads(profile_json))).values())


def _by_size(names: Iterable[str]) -> list[str]:
    """Sorts qualities from best to worst, then the others."""
    sizes = {name: _SIZE.match(name) for name in names}
    return sorted(sizes, key=lambda name: (-int(found[1]) if (found := sizes[name]) else 0, name))


def _refused(job: int, status: JobStatus, reason: str, *, see: int | None = None) -> ActionResult:
    return result_of(job, Applied(Decision(None, reason), status, Control.NONE), see=see)


def _key(idempotency_key: str) -> str:
    return f"act:{idempotency_key}"


def result_of(job: int, applied: Applied | None, *, see: int | None = None) -> ActionResult:
    """Builds the answer to an operation; `applied` is None if the job does not exist.

    Args:
        see: the job that prevents it, if it is another one.
    """
    if applied is None:
        code = ErrorCode.NOT_FOUND
        return {
            "job": job,
            "ok": False,
            "status": None,
            "control": Control.NONE.value,
            "word": None,
            "new_job": None,
            "removed_segments": 0,
            "error": {
                "code": code.value,
                "message": f"there is no job {job}",
                "hint": "list them with: tqstudio job list",
            },
        }
    error: ErrorView | None = None
    if not applied.decision.allowed:
        error = {
            "code": ErrorCode.REFUSED.value,
            "message": f"job {job} {applied.decision.reason}",
            "hint": f"see its state with: tqstudio job show {see or job}",
        }
    return {
        "job": job,
        "ok": applied.decision.allowed,
        "status": applied.status.value,
        "control": applied.control.value,
        "word": job_word(applied.status, applied.control),
        "new_job": None,
        "removed_segments": 0,
        "error": error,
    }

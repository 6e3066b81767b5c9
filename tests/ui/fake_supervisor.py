"""A supervisor in memory that answers the calls of the UI, so that the UI is tested without processes.

`test_conformance.py` runs the same calls against it and against a real supervisor. It knows no files: every
path exists, and a name decides what becomes of it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from tqstudio import paths
from tqstudio.errors import ErrorCode, TqError
from tqstudio.events import EventKind
from tqstudio.lifecycle import (
    PAUSED_WITHOUT_REASON,
    QUEUE_ORDER,
    TERMINAL,
    UNDOABLE,
    Control,
    Decision,
    Effect,
    JobStatus,
    Operation,
    Trigger,
    Undoable,
    claim_word,
    decide,
    job_word,
    sources_of,
    target_of,
    worker_status,
)
from tqstudio.protocol import requests
from tqstudio.protocol.calls import Call, StreamEvent
from tqstudio.protocol.filters import Filter, Term, parse, seconds, size, sort_of
from tqstudio.words.sentences import has_poster

from .answer_schema import check_answer, check_message
from .samples import (
    ago,
    event,
    job_detail,
    job_row,
    profile,
    sample_bits,
    sample_events,
    sample_folders,
    sample_forecast,
    sample_jobs,
    sample_load,
    sample_picture,
    sample_preview,
    sample_settings,
    sample_statistics,
    sample_wall,
    sample_workers,
    worker,
)

M = TypeVar("M", bound=requests.Message)

QUERIES: dict[str, set[str]] = {
    "jobs": {"filter", "sort", "limit", "after", "before", "around", "video"},
    "events": {"after", "before", "job", "limit", "since"},
    "log": {"attempt", "lines"},
    "wall": {"job"},
    "stats": {"by", "since"},
    "picture": {"kind", "width", "height"},
}
"""The query parameters of each list."""
FIRST_NEW = 400
"""The id of the first job that is created here."""

TRIGGERS = {
    Operation.PAUSE: EventKind.PAUSE,
    Operation.RESUME: EventKind.RESUME,
    Operation.CANCEL: EventKind.CANCEL,
    Operation.RETRY: EventKind.RETRY,
    Operation.RESTART: EventKind.RESTART,
}
CONTROLS = {
    Operation.PAUSE: Control.PAUSE,
    Operation.CANCEL: Control.CANCEL,
    Operation.RESTART: Control.RESTART,
    Operation.RESUME: Control.NONE,
}


def fail(code: ErrorCode, message: str, hint: str = "") -> TqError:
    return TqError(code, message, hint)


class FakeSupervisor:
    """Keeps jobs in queue order; `push` sends a message down the stream, `drop` ends all streams."""

    def __init__(self, jobs: list[Any] | None = None) -> None:
        self.jobs: list[Any] = sample_jobs() if jobs is None else jobs
        self.deleted: list[Any] = []
        self.events: list[Any] = sample_events() if jobs is None else []
        self.workers: list[Any] = sample_workers()
        self.folders: list[Any] = sample_folders()
        self.preview: Any = sample_preview()
        """What every folder holds."""
        self.wall: Any = sample_wall()
        self.log_line = "frame="
        self.profiles: list[Any] = [profile(name) for name in ("fast", "web")]
        self.gates: list[Any] = []
        self.decisions: dict[str, Any] = {}
        """What becomes of files with these names."""
        self.cleanup_partial = True
        self.sent: list[Call[Any]] = []
        self.asked_after: list[int | None] = []
        self.down = False
        self.pages: asyncio.Semaphore | None = None
        """How many more pages of jobs are answered, where a test counts them out."""
        self.slices: asyncio.Semaphore | None = None
        """How many more slices of an action are answered, where a test counts them out."""
        self.lost = 0
        """How many more requests are carried out without an answer."""
        self._answers: dict[Any, Any] = {}
        """Answers by idempotency key and slice."""
        self.slice = 500
        """Jobs that one request about a filter changes."""
        self.undoable: list[tuple[Undoable, dict[int, Any]]] = []
        """What was done, newest last, with the former states by job, video or drop folder."""
        self._streams: list[asyncio.Queue[StreamEvent | None]] = []
        self._counts: dict[str, int] | None = None
        self._changes = 0
        self._ended: dict[int, int] = {}
        """Which change ended a job; the clock of these tests stands still."""
        self._new = FIRST_NEW

    # What tests do to it.

    def push(self, name: str, data: dict[str, Any], seq: int | None = None) -> None:
        check_message(StreamEvent(name, data, seq))
        self.push_anything(name, data, seq)

    def push_anything(self, name: str, data: dict[str, Any], seq: int | None = None) -> None:
        """Send a message that no supervisor of this version sends."""
        for stream in self._streams:
            stream.put_nowait(StreamEvent(name, data, seq))

    def happened(self, trigger: str, job: int | None, **more: Any) -> None:
        """Store an event and send it."""
        names = {row["id"]: row["name"] for row in self.jobs}
        seq = self.events[-1]["seq"] + 1 if self.events else 1
        new = event(seq, trigger, job, 0, video_name=names.get(job), **more)
        self.events.append(new)
        self._counts = None
        self.push("event", new, new["seq"])

    def drop(self) -> None:
        for stream in self._streams:
            stream.put_nowait(None)

    def job(self, number: int) -> Any:
        return next(row for row in self.jobs if row["id"] == number)

    def operations(self) -> list[dict[str, Any]]:
        """The actions on jobs, without their idempotency keys."""
        bodies = [dict(call.body or {}) for call in self.sent if call.path == "/v1/jobs/actions"]
        return [{key: value for key, value in body.items() if key != "idempotency_key"} for body in bodies]

    # What a worker does.

    def claim(self, number: int, worker: str = "cpu-0") -> None:
        """A worker starts the job."""
        row = self.job(number)
        row |= {"worker": worker, "step": "transcode"}
        for each in self.workers:
            if each["name"] == worker:
                each |= {"job": number, "step": "transcode", "status": "busy"}
        self._move(row, EventKind.CLAIM, actor=worker, worker=worker)

    def obey(self, number: int) -> None:
        """The worker carries out the control request of its job: its ffmpeg has exited."""
        row = self.job(number)
        worker, control = row["worker"], Control(row["control"])
        if control is Control.NONE:
            self._move(row, EventKind.RELEASE, EventKind.ABORTED_SHUTDOWN, actor=worker, worker=worker)
        else:
            self._move(row, TRIGGERS[Operation(control.value)], actor=worker, worker=worker)

    def finish(self, number: int, error: Any = None) -> None:
        """The worker ends its job: done, or failed for good with this error."""
        row = self.job(number)
        worker = row["worker"]
        if error is None:
            self._move(row, EventKind.COMPLETE, actor=worker, worker=worker)
            return
        row["error"] = error
        reported = {"code": error["code"], "detail": error["message"]}
        self._move(row, EventKind.FAIL_FINAL, actor=worker, worker=worker, **reported)

    # The protocol.

    async def send(self, call: Call[Any]) -> Any:
        if self.down:
            raise fail(ErrorCode.NO_SUPERVISOR, "no supervisor answers in this home")
        self.sent.append(call)
        await asyncio.sleep(0)
        if self.pages is not None and call.path == "/v1/jobs":
            await self.pages.acquire()
        if self.slices is not None and call.path == "/v1/jobs/bulk":
            await self.slices.acquire()
        body = dict(call.body or {})
        key = (body.get("idempotency_key"), body.get("after"))
        answer = (key[0] and self._answers.get(key)) or self._answer(call)
        check_answer(call, answer)
        self._answers[key] = answer
        if call.method == "POST" and self.lost:
            self.lost -= 1
            raise fail(ErrorCode.SUPERVISOR_NOT_RESPONDING, "the supervisor did not answer")
        # A copy, as over the wire.
        return from_json(to_json(answer))

    async def stream(self, after: int | None = None) -> AsyncIterator[StreamEvent]:
        if self.down:
            raise fail(ErrorCode.NO_SUPERVISOR, "no supervisor answers in this home")
        self.asked_after.append(after)
        stream: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        oldest, last = (self.events[0]["seq"], self.events[-1]["seq"]) if self.events else (0, 0)
        if after is not None and after > last:
            stream.put_nowait(StreamEvent("reset", {"oldest": oldest, "last": last}))
        for stored in self.events:
            if after is not None and stored["seq"] > after:
                stream.put_nowait(StreamEvent("event", stored, stored["seq"]))
        self._streams.append(stream)
        try:
            while (message := await stream.get()) is not None:
                yield message
        finally:
            self._streams.remove(stream)

    async def close(self) -> None:
        return None

    def _answer(self, call: Call[Any]) -> Any:
        path, body = call.path.removeprefix("/v1/").split("/"), dict(call.body or {})
        if call.params:
            _require_known(path[-1], call.params)
        match call.method, path:
            case "GET", ["status"]:
                return self._status()
            case "GET", ["jobs"]:
                return self._page(call.params)
            case "GET", ["jobs", number]:
                return self._detail(int(number))
            case "GET", ["jobs", number, "log"]:
                return self._log(int(number), call.params.get("attempt"), call.params.get("lines"))
            case "GET", ["jobs", number, ("picture" | "bits") as what]:
                return self._of_ladder(int(number), what, dict(call.params))
            case "POST", ["jobs", "actions"]:
                request = _parsed(requests.ActionRequest, body)
                before = {number: self._former(number) for number in request.ids}
                results = [self._act(number, request) for number in request.ids]
                if request.operation in UNDOABLE:
                    self._record(request.operation, before)
                return {"results": results}
            case "POST", ["jobs", "forecast"]:
                return self._forecast(_parsed(requests.ForecastRequest, body))
            case "POST", ["jobs", "bulk"]:
                return self._act_on_matching(_parsed(requests.BulkRequest, body))
            case "POST", ["undo"]:
                _parsed(requests.UndoRequest, body)
                return self._undo_newest()
            case "GET", ["events"]:
                return self._events(**call.params)
            case "GET", ["wall"]:
                wanted = call.params.get("job")
                jobs = [job for job in self.wall["jobs"] if wanted in (None, job["id"])]
                return self.wall | {"jobs": jobs}
            case "GET", ["load"]:
                return sample_load()
            case "GET", ["stats"]:
                return sample_statistics(call.params["by"])
            case "GET", ["workers"]:
                return {"workers": self.workers}
            case "POST", ["workers"]:
                _parsed(requests.AddWorkerRequest, body)
                names = {each["name"] for each in self.workers}
                name = next(name for at in range(len(names) + 1) if (name := f"cpu-{at}") not in names)
                self.workers.append(worker(name, "starting", job=None, step=None, speed=None))
                return self.workers[-1]
            case "DELETE", ["workers", name]:
                return self._remove_worker(name)
            case "POST", ["workers", name, verb]:
                return self._intent(name, verb)
            case "GET", ["folders"]:
                return {"folders": self.folders}
            case "POST", ["folders", "preview"]:
                _parsed(requests.FolderRequest, body)
                return self.preview
            case "POST", ["folders"]:
                return self._add_folder(_parsed(requests.FolderRequest, body))
            case "PATCH", ["folders", number]:
                return self._change_folder(int(number), _parsed(requests.FolderChange, body))
            case "DELETE", ["folders", number]:
                folder = self._folder(int(number))
                self.folders.remove(folder)
                self.undoable.append((Undoable.FOLDER_REMOVED, {folder["id"]: dict(folder)}))
                self.happened("folder_removed", None, actor="user", detail=folder["path"])
                return {"removed": folder["id"]}
            case "GET", ["settings"]:
                return {"file": "/home/x/config.toml", "settings": sample_settings()}
            case "GET", ["profiles"]:
                return {"profiles": self.profiles}
            case "GET", ["videos", number]:
                row = next((row for row in (*self.jobs, *self.deleted) if row["video"] == int(number)), None)
                if row is None:
                    raise fail(ErrorCode.NOT_FOUND, f"there is no video {number}")
                return job_detail(row)["video_view"]
            case "DELETE", ["videos", number]:
                return self._delete_video(int(number), True)
            case "POST", ["videos", number, "undelete"]:
                return self._delete_video(int(number), False)
            case "POST", ["videos"]:
                added = _parsed(requests.AddRequest, body)
                self._require_profile(added.profile)
                batch = added.batch or "b"
                return {"batch": batch, "results": [self._add(path, added) for path in body["paths_b64"]]}
            case "POST", ["queue", "pause"]:
                return self._pause(_parsed(requests.QueuePause, body))
            case "POST", ["queue", "resume"]:
                return {"resumed": self._resume()}
        raise fail(ErrorCode.NOT_FOUND, f"there is no endpoint {call.path}")

    # Jobs

    def _forecast(self, request: requests.ForecastRequest) -> Any:
        self._require_profile(request.profile)
        rows = [row for row in self.jobs if row["id"] in request.ids]
        if not request.ids:
            rows = [r for r in self._listed(parse(request.filter), "number") if r["id"] <= request.newest]
        return sample_forecast(rows[:50], request, len(rows))

    def _act_on_matching(self, request: requests.BulkRequest) -> Any:
        rows = self._listed(parse(request.filter), "number")
        ids = [row["id"] for row in rows if request.after < row["id"] <= request.newest][: self.slice]
        before = {number: self._former(number) for number in ids}
        results = [self._act(number, request) for number in ids]
        if request.operation in UNDOABLE:
            self._record(request.operation, before)
        refused = [result for result in results if not result["ok"]]
        return {
            "after": ids[-1] if len(ids) == self.slice else None,
            "done": len(ids) - len(refused),
            "skipped": {result["word"]: 1 for result in refused},
            "reason": refused[0]["error"]["message"] if refused else "",
            "removed_segments": 0,
        }

    def _find(self, number: int) -> Any:
        return next((row for row in (*self.jobs, *self.deleted) if row["id"] == number), None)

    def _events_of(self, number: int) -> list[Any]:
        return [each for each in self.events if each["job"] == number]

    def _detail(self, number: int) -> Any:
        row = self._find(number)
        if row is None:
            raise _no_job(number)
        return job_detail(row) | {"events": self._events_of(number)[::-1]}

    def _of_ladder(self, number: int, what: str, params: dict[str, Any]) -> Any:
        row = self._find(number)
        if row is None:
            raise _no_job(number)
        stored = what == "picture" and params["kind"] == "poster" and has_poster(row)
        if row["status"] != "done" and not stored:
            raise fail(ErrorCode.NOT_FOUND, f"the ladder of job {number} is not published yet")
        return sample_picture(**params) if what == "picture" else sample_bits()

    def _log(self, number: int, attempt: int | None, lines: int | None) -> Any:
        attempts = self._detail(number)["attempts_log"]
        chosen = [each["number"] for each in attempts if attempt in (None, each["number"])]
        if not chosen:
            raise fail(ErrorCode.NOT_FOUND, f"job {number} has not started yet")
        text = "\n".join(f"{self.log_line}{line}" for line in range(200)[-(lines or 200) :])
        return {"path": f"/logs/attempt-{chosen[-1]}.log", "attempt": chosen[-1], "text": text}

    def _events(
        self,
        limit: int = 200,
        after: int | None = None,
        before: int | None = None,
        job: int | None = None,
    ) -> Any:
        if before is not None and after is not None:
            raise fail(ErrorCode.BAD_REQUEST, "before excludes after and since")
        if job is not None and self._find(job) is None:
            raise _no_job(job)
        last = self.events[-1]["seq"] if self.events else 0
        found = self.events if job is None else self._events_of(job)
        if after is not None:
            return {"events": [each for each in found if each["seq"] > after][:limit], "last_seq": last}
        return {
            "events": [each for each in found if before is None or each["seq"] < before][-limit:],
            "last_seq": last,
        }

    def _act(self, number: int, request: requests.JobsRequest) -> Any:
        row, operation = self._find(number), request.operation
        if row is None:
            return _result(number, error=_no_job(number))
        if operation in (Operation.DELETE, Operation.UNDELETE):
            return self._set_deleted(row, operation)
        status, control = JobStatus(row["status"]), Control(row["control"])
        decision = decide(status, operation, control)
        if row["deleted_at"] is not None:
            decision = Decision(None, "is deleted; undelete it first")
        elif decision.effect is Effect.NEW_JOB:
            return self._retranscode(row, request)
        elif operation is Operation.CHANGE and decision.allowed:
            if request.profile or request.overrides or request.renditions:
                row["profile"] = request.profile or row["profile"]
                detail = ", ".join((f"profile {row['profile']}", *(request.renditions or ())))
                self.happened("profile_changed", number, actor="user", detail=detail)
            if request.priority not in (None, row["priority"]):
                row["priority"] = request.priority
                self.happened("priority_changed", number, actor="user", detail=f"priority {row['priority']}")
            if request.hold is not None and request.hold != (status is JobStatus.PAUSED):
                self._move(row, EventKind.PAUSE if request.hold else EventKind.RESUME, actor="user")
            self._sort()
        elif operation is Operation.PRIORITY and decision.allowed:
            wanted = row["priority"] + (request.delta or 0) if request.priority is None else request.priority
            row["priority"] = max(-1000, min(1000, wanted))
            self.happened("priority_changed", number, actor="user", detail=f"priority {row['priority']}")
            self._sort()
        elif decision.effect is Effect.CONTROL:
            row["control"] = CONTROLS[operation].value
            row["word"] = job_word(status, CONTROLS[operation])
            self.happened(f"{operation.value}_requested", number, actor="user", source=status.value)
        elif decision.effect is Effect.NOW:
            self._move(row, TRIGGERS[operation], actor="user")
        return _result(number, row, decision)

    def _move(
        self, row: Any, trigger: Trigger, kind: EventKind | None = None, *, actor: str, **more: Any
    ) -> None:
        """Apply a transition: the fields of the row that change with it, and its event."""
        source, target = JobStatus(row["status"]), target_of(trigger)
        assert source in sources_of(trigger), (source, trigger)
        running = target is JobStatus.IN_PROGRESS
        if trigger in (EventKind.RETRY, EventKind.RESTART):
            row |= {"attempts": 0, "crashes": 0, "error": None, "retry_in_s": None, "completed_at": None}
        if trigger is EventKind.RESTART:
            row |= {"progress": 0.0, "renditions": []}
        if trigger in (EventKind.PAUSE, EventKind.CANCEL):
            row["retry_in_s"] = None
        if trigger is EventKind.COMPLETE:
            row["progress"] = 100.0
        if running:
            row |= {"started_at": row["started_at"] or ago(0)}
        if target in TERMINAL:
            row["completed_at"] = ago(0)
            self._changes += 1
            self._ended[row["id"]] = self._changes
        if not running:
            row |= {"worker": None, "step": None, "speed": None}
            for each in self.workers:
                if each["job"] == row["id"]:
                    off = each["draining"] or not each["enabled"]
                    each |= {
                        "job": None,
                        "step": None,
                        "speed": None,
                        "status": "disabled" if off else "idle",
                    }
        row |= {
            "status": target.value,
            "control": Control.NONE.value,
            "word": job_word(target, Control.NONE),
            "claim": claim_word(target, attempts=row["attempts"]),
        }
        self._sort()
        changed = {"source": source.value, "target": target.value, "actor": actor}
        self.happened((kind or trigger).value, row["id"], **changed, **more)

    def _sort(self) -> None:
        self.jobs.sort(key=self._key)
        self.deleted.sort(key=self._key)

    def _key(self, row: Any) -> tuple[Any, ...]:
        """The place in queue order; see `engine/store/lists/orders.py`."""
        status = JobStatus(row["status"])
        if status in TERMINAL:
            return (QUEUE_ORDER.index(status), -self._ended.get(row["id"], 0))
        return (QUEUE_ORDER.index(status), -row["priority"], row["created_at"], row["id"])

    def _delete_video(self, number: int, deletes: bool) -> Any:
        """All jobs of a video leave the list, or come back."""
        before, after = (self.jobs, self.deleted) if deletes else (self.deleted, self.jobs)
        rows = [row for row in before if row["video"] == number]
        if deletes:
            self.undoable.append((Undoable.VIDEO_DELETED, {number: dict(rows[0])}))
        for row in rows:
            before.remove(row)
            after.append(row)
            row["deleted_at"] = ago(0) if deletes else None
        self._sort()
        self.happened("video_deleted" if deletes else "video_undeleted", None, actor="user")
        return job_detail(rows[0])["video_view"]

    def _set_deleted(self, row: Any, operation: Operation) -> Any:
        decision, deletes = decide(JobStatus(row["status"]), operation), operation is Operation.DELETE
        if not decision.allowed or deletes == (row["deleted_at"] is not None):
            return _result(row["id"], row, decision)
        open_again = row["status"] in ("pending", "paused") and self._open_job(row["video"])
        if not deletes and open_again:
            reason = f"cannot be undeleted: job {open_again} has the same video; cancel that first"
            return _result(row["id"], row, Decision(None, reason))
        before, after = (self.jobs, self.deleted) if deletes else (self.deleted, self.jobs)
        before.remove(row)
        after.append(row)
        row["deleted_at"] = ago(0) if deletes else None
        self._sort()
        now = {"source": row["status"], "target": row["status"], "actor": "user"}
        self.happened("deleted" if deletes else "undeleted", row["id"], **now)
        result = _result(row["id"], row, decision)
        if deletes and row["status"] in ("failed", "cancelled") and self.cleanup_partial:
            result["removed_segments"] = sum(each["segments_done"] for each in row["renditions"])
        return result

    # Undo

    def _version(self, number: int) -> int:
        """The last event by which a person changed a job."""
        kinds = {*(kind.value for kind in TRIGGERS.values()), "deleted", "undeleted"}
        kinds |= {f"{each.value}_requested" for each in CONTROLS} | {
            "uncancel",
            "uncancel_paused",
            "priority_changed",
        }
        kinds |= {"uncancel_failed", "profile_changed"}
        of_persons = (
            each for each in self._events_of(number) if each["worker"] is None and each["trigger"] in kinds
        )
        return max((each["seq"] for each in of_persons), default=0)

    def _former(self, number: int) -> Any:
        row = self._find(number)
        return None if row is None else dict(row) | {"version": self._version(number)}

    def _record(self, operation: Operation, before: dict[int, Any]) -> None:
        changed = {
            number: row | {"before": row["version"], "version": self._version(number)}
            for number, row in before.items()
            if row is not None and self._version(number) > row["version"]
        }
        if changed:
            self.undoable.append((Undoable(operation), changed))

    def _undo_newest(self) -> Any:
        answer: dict[str, Any] = {
            "undo": None,
            "operation": None,
            "subject": "",
            "restored": 0,
            "not_restored": 0,
        }
        answer |= {"reason": "", "remaining": 0}
        if not self.undoable:
            return answer
        operation, former = self.undoable.pop()
        answer["operation"] = operation.value
        for number, row in former.items():
            if operation is Undoable.VIDEO_DELETED:
                self._delete_video(number, False)
                answer |= {"subject": row["name"], "restored": 1}
            elif operation.value in UNDOABLE:
                answer["restored" if self._put_back(operation, number, row) else "not_restored"] += 1
                answer["subject"] = f"job {number}, {row['name']}" if len(former) == 1 else ""
            else:
                self.folders = [row if each["id"] == number else each for each in self.folders]
                self.folders += [] if row in self.folders else [row]
                self.happened("folder_changed", None, actor="user", detail=row["path"])
                answer |= {"subject": row["path"], "restored": 1}
        return answer

    def _put_back(self, operation: Undoable, number: int, former: Any) -> bool:
        if self._version(number) != former["version"]:
            return False
        row = self._find(number)
        if operation is Undoable.CANCEL and row["control"] == "cancel":
            row["control"] = former["control"]
            row["word"] = job_word(JobStatus(row["status"]), Control(row["control"]))
            asked = "resume" if row["control"] == "none" else row["control"]
            self.happened(f"{asked}_requested", number, actor="user", source=row["status"])
        elif operation is Undoable.CANCEL:
            uncancel = {"paused": EventKind.UNCANCEL_PAUSED, "failed": EventKind.UNCANCEL_FAILED}
            row["completed_at"] = former["completed_at"]
            self._move(row, uncancel.get(former["status"], EventKind.UNCANCEL), actor="user")
        else:
            opposite = {"pause": "resume", "resume": "pause", "delete": "undelete"}.get(operation, operation)
            again = {"operation": opposite, "ids": [number]}
            if operation is Undoable.PRIORITY:
                again["priority"] = former["priority"]
            if not self._act(number, _parsed(requests.ActionRequest, again))["ok"]:
                return False
        for _, states in self.undoable:
            if states.get(number, {}).get("version") == former["before"]:
                states[number]["version"] = self._version(number)
        return True

    def _open_job(self, video: int) -> int | None:
        is_open = ("pending", "in_progress", "paused")
        return next(
            (row["id"] for row in self.jobs if row["video"] == video and row["status"] in is_open), None
        )

    def _retranscode(self, row: Any, request: requests.JobsRequest) -> Any:
        other = self._open_job(row["video"])
        if other is not None:
            reason = f"cannot be encoded again now: job {other} has the same video"
            return _result(row["id"], row, Decision(None, reason))
        known = {each["name"] for each in row["renditions"]}
        if unknown := set(request.renditions or ()) - known:
            return _result(row["id"], row, Decision(None, f"has no quality {min(unknown)}"))
        changes = request.operation is Operation.CHANGE
        usual = row["priority"] if changes else 0
        differs = changes and (request.overrides or request.profile not in (None, row["profile"]))
        new = self._create(
            row["name"],
            video=row["video"],
            path=row["path"],
            path_b64=row["path_b64"],
            kind="changed" if differs else "retranscode",
            priority=usual if request.priority is None else request.priority,
            profile=request.profile or row["profile"],
            hold=bool(request.hold),
        )
        return _result(row["id"], row, Decision(Effect.NEW_JOB)) | {"new_job": new}

    def _create(self, name: str, *, hold: bool = False, **more: Any) -> int:
        number, self._new = self._new, self._new + 1
        status = JobStatus.PAUSED if hold else JobStatus.PENDING
        row = job_row(number, name, status.value, **{"created_at": ago(0)} | more)
        row["word"] = job_word(status, Control.NONE, held=hold)
        self.jobs.append(row)
        self._sort()
        kind = EventKind.CREATE_HELD if hold else EventKind.CREATE
        self.happened(kind.value, number, actor="user", target=status.value, detail=row["kind"])
        return number

    def _add(self, path_b64: str, request: requests.AddRequest) -> Any:
        path = paths.data(paths.decode(path_b64))
        name = os.path.basename(path)
        answer = {"path": path, "path_b64": path_b64, "video": None, "job": None, "slug": None}
        answer |= {"master": None, "master_b64": None, "status": None, "applied": {}, "reason": None}
        answer |= {"other_job": None, "error": None}
        if special := self.decisions.get(name):
            return answer | {"video": 1, "job": 401, "slug": "x"} | special
        if path.startswith("/nowhere/"):
            problem = {"code": "SOURCE_MISSING", "message": f"there is no file {path}", "hint": "check it"}
            return answer | {"decision": "rejected", "error": problem}
        given = {"batch": request.batch, "priority": request.priority or 0, "path": path}
        given |= {"profile": request.profile or "web", "path_b64": path_b64}
        number = self._create(name, hold=request.hold, **given)
        return answer | {"decision": "queued", "video": number, "job": number, "slug": name}

    # Workers, folders and the queue

    def _intent(self, name: str, verb: str) -> Any:
        changes = {
            "enable": {"enabled": True, "draining": False, "quarantine": None, "note": None},
            "disable": {"enabled": False},
            "drain": {"draining": True},
        }
        found = next((each for each in self.workers if each["name"] == name), None)
        if verb not in changes or found is None:
            raise fail(ErrorCode.NOT_FOUND, f"there is no worker {name}, or it cannot {verb}")
        found |= changes[verb]
        busy = found["job"] is not None
        status = worker_status(
            enabled=found["enabled"],
            draining=found["draining"],
            beat_age_s=0.0,
            offline_s=1.0,
            registered=True,
            busy=busy,
        )
        # A worker without a job is drained at once.
        found |= {
            "status": status.value,
            "enabled": found["enabled"] and (busy or not found["draining"]),
            "draining": found["draining"] and busy,
        }
        kinds = {"enable": "worker_enabled", "disable": "worker_disabled", "drain": "worker_drained"}
        self.happened(kinds[verb], None, actor="user", worker=name)
        return found

    def _remove_worker(self, name: str) -> Any:
        found = next((each for each in self.workers if each["name"] == name), None)
        if found is None:
            raise fail(ErrorCode.NOT_FOUND, f"there is no worker {name}")
        if found["kind"] == "gpu":
            raise fail(ErrorCode.REFUSED, f"{name} belongs to a GPU of this machine", "disable it")
        self.workers.remove(found)
        self.happened("worker_ended", None, actor="supervisor", worker=name)
        return {"removed": name, "job": found["job"]}

    def _folder(self, number: int) -> Any:
        found = next((each for each in self.folders if each["id"] == number), None)
        if found is None:
            raise fail(ErrorCode.NOT_FOUND, f"there is no drop folder {number}")
        return found

    def _add_folder(self, request: requests.FolderRequest) -> Any:
        path = paths.data(paths.decode(request.path_b64))
        if not path.startswith("/"):
            raise fail(ErrorCode.BAD_REQUEST, f"{path} is not an absolute path")
        if any(each["path"] == path for each in self.folders):
            raise fail(ErrorCode.REFUSED, f"{path} is already a drop folder")
        self._require_profile(request.profile)
        new = sample_folders()[0] | {
            "id": max((each["id"] for each in self.folders), default=0) + 1,
            "path": path,
            "path_b64": request.path_b64,
            "profile": request.profile or "web",
            "settling": 0,
            "skipped": [],
            "done_today": 0,
            "failed_today": 0,
        }
        self.folders.append(new)
        self.happened("folder_added", None, actor="user", detail=path)
        return new

    def _change_folder(self, number: int, request: requests.FolderChange) -> Any:
        folder = self._folder(number)
        before = dict(folder)
        changes = {key: value for key, value in request.model_dump().items() if value is not None}
        self._require_profile(changes.get("profile"))
        folder |= {key: value for key, value in changes.items() if key in folder}
        operation = Undoable.FOLDER_ON if changes.get("enabled") else Undoable.FOLDER_OFF
        self.undoable.append(
            (operation if "enabled" in changes else Undoable.FOLDER_CHANGED, {number: before})
        )
        detail = f"{folder['path']}: {', '.join(changes)}"
        self.happened("folder_changed", None, actor="user", detail=detail)
        return folder

    def _require_profile(self, name: str | None) -> None:
        if name is not None and name not in {each["name"] for each in self.profiles}:
            raise fail(ErrorCode.BAD_CONFIG, f"there is no profile {name}")

    def _pause(self, asked: requests.QueuePause) -> Any:
        changes = {"reason": asked.reason or PAUSED_WITHOUT_REASON, "until": asked.until}
        gate = next((each for each in self.gates if each["kind"] == "user"), None)
        if gate is None:
            gate = {"kind": "user", "code": None, "since": ago(0), "hint": "resume the queue"}
            self.gates.append(gate)
        if gate | changes != gate:
            self.happened("gate_closed", None, actor="user", code="user", detail=changes["reason"])
        gate |= changes
        return dict(gate)

    def _resume(self) -> bool:
        closed = any(each["kind"] == "user" for each in self.gates)
        self.gates = [each for each in self.gates if each["kind"] != "user"]
        if closed:
            self.happened("gate_opened", None, actor="user", code="user")
        return closed

    def _status(self) -> Any:
        if self._counts is None:
            self._counts = {status.value: 0 for status in JobStatus}
            for row in self.jobs:
                self._counts[row["status"]] += 1
        running = self._counts["in_progress"]
        return {
            "supervisor": {
                "pid": 4242,
                "version": "0.1.0",
                "started_at": ago(86_400 * 3),
                "home": "/home/ada",
                "draining": False,
                "cleanup_partial": self.cleanup_partial,
                "ffmpeg": "/usr/bin/ffmpeg",
                "ffmpeg_version": "9.0.2",
                "listen": None,
                "name": "nas",
                "standbys": [],
            },
            "ready": {"ready": True, "reasons": []},
            "jobs": dict(self._counts),
            "workers": self.workers,
            "gates": self.gates,
            "disk": [
                {
                    "path": "/srv",
                    "path_b64": paths.encode("/srv"),
                    "free": 812 << 30,
                    "total": 2 << 40,
                    "reserve": 10 << 30,
                }
            ],
            "folders": [],
            "deliveries": {"count": 0, "problem": None},
            "speed": 2.7 if running else None,
            "eta_s": 2460.0 if running else None,
            "eta": {"eta_s": 2460.0, "low_s": 2230.0, "high_s": 2710.0} if running else None,
            "eta_error": {"median": 0.1, "jobs": 50},
        }

    # Pages

    def _page(self, params: Mapping[str, Any]) -> Any:
        asked, sort = parse(params.get("filter", "")), sort_of(params.get("sort", "order"))
        rows, limit = self._listed(asked, sort), params.get("limit", 50)
        rows = [row for row in rows if row["video"] == params.get("video", row["video"])]
        around = next((at for at, row in enumerate(rows) if row["id"] == params.get("around")), None)
        if around is not None:
            start, end = max(0, around - limit // 2), len(rows)
        elif "before" in params:
            end = _cursor(params["before"], rows)
            start = max(0, end - limit)
        else:
            start, end = _cursor(params.get("after", "start"), rows), len(rows)
        end = min(end, start + limit)
        counted = len(rows) <= 1_000 or not asked.others
        return {
            "jobs": rows[start:end],
            "total": len(rows) if counted else None,
            "before": str(start) if start else None,
            "after": str(end) if end < len(rows) else None,
        }

    def _listed(self, asked: Filter, sort: str) -> list[Any]:
        """The jobs that a filter selects, in an order."""
        rows = self.deleted if asked.deleted else self.jobs
        folders = {term: self._roots(term) for term in asked.of("folder")}
        rows = [
            row
            for row in rows
            if row["status"] in asked.statuses
            and all(_has(term, row, folders.get(term, ())) != term.negated for term in asked.others)
        ]
        places = {row["id"]: at for at, row in enumerate(rows)}
        keys: dict[str, Any] = {
            "order": lambda row: places[row["id"]],
            "state": lambda row: (QUEUE_ORDER.index(row["status"]), row["id"]),
            "name": lambda row: (row["name"].lower(), row["id"]),
            "size": lambda row: (row["source"]["size"], row["id"]),
            "length": lambda row: (row["source"]["duration_s"] or 0, row["id"]),
            "priority": lambda row: (row["priority"], -row["id"]),
            "ended": lambda row: (row["completed_at"] or "", row["id"]),
        }
        down = sort.startswith("-")
        rows = sorted(rows, key=keys.get(sort.removeprefix("-"), lambda row: row["id"]), reverse=down)
        return sorted(rows, key=lambda row: not row["completed_at"]) if sort.endswith("ended") else rows

    def _roots(self, term: Term) -> list[str]:
        paths = {str(each["id"]): each["path"] for each in self.folders}
        roots = [
            path
            for number, path in paths.items()
            if number in term.values or any(path.lower().endswith(f"/{v.lower()}") for v in term.values)
        ]
        if not roots:
            raise fail(ErrorCode.BAD_REQUEST, f"there is no drop folder “{term.values[0]}”")
        return roots


def _has(term: Term, row: Any, roots: Sequence[str]) -> bool:
    """Whether a job has one of the values of a term."""
    match term.word:
        case "text":
            return any(value.lower() in row["name"].lower() for value in term.values)
        case "folder":
            return any(row["path"].startswith(f"{root}/") for root in roots)
        case "code":
            return bool(row["error"]) and bool({row["error"]["code"], "any"} & {*term.values})
        case "warning":
            return bool({each["code"] for each in row["warnings"]} & {*term.values})
        case "larger":
            return any(row["source"]["size"] > size(value) for value in term.values)
        case "longer":
            return any((row["source"]["duration_s"] or 0) > seconds(value) for value in term.values)
    return row.get(term.word) in term.values


def _no_job(number: int) -> TqError:
    return fail(ErrorCode.NOT_FOUND, f"there is no job {number}", "list jobs with: tqstudio job list")


def _result(
    number: int, row: Any = None, decision: Decision | None = None, error: TqError | None = None
) -> Any:
    """An `ActionResult`."""
    if decision is not None and not decision.allowed:
        error = fail(ErrorCode.REFUSED, f"job {number} {decision.reason}", "see the reason")
    status = None if row is None else JobStatus(row["status"])
    control = Control.NONE if row is None else Control(row["control"])
    return {
        "job": number,
        "ok": error is None,
        "status": None if status is None else status.value,
        "control": control.value,
        "word": None if status is None else job_word(status, control),
        "new_job": None,
        "removed_segments": 0,
        "error": None if error is None else {"code": error.code.value, **_message_and_hint(error)},
    }


def _message_and_hint(error: TqError) -> dict[str, str]:
    return {"message": error.message, "hint": error.hint}


def _parsed(model: type[M], body: Mapping[str, Any]) -> M:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise fail(ErrorCode.BAD_REQUEST, str(error), "correct the request") from None


def _require_known(name: str, params: Mapping[str, Any]) -> None:
    if unknown := set(params) - QUERIES.get(name, set()):
        raise fail(ErrorCode.BAD_REQUEST, f"{name} has no parameter {min(unknown)!r}")
    most = 10_000 if name == "events" else 500
    if not 1 <= params.get("limit", 1) <= most or len(params.get("text", "")) > 200:
        raise fail(ErrorCode.BAD_REQUEST, "a parameter is out of its range")


def _cursor(cursor: str, rows: Sequence[Any]) -> int:
    ends = {"start": 0, "end": len(rows)}
    try:
        return ends[cursor] if cursor in ends else int(cursor)
    except ValueError:
        raise fail(ErrorCode.BAD_REQUEST, "the cursor does not belong to this list") from None

"""Builds the requests of the supervisor's API: one function per call.

Each returns a `Call[T]`; `client.Client` (blocking) and `client.AsyncClient` send it and return a `T`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from urllib.parse import quote

if TYPE_CHECKING:
    from tqstudio.protocol import answers

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request; the type parameter is the type of its decoded answer."""

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One message of the event stream.

    `name` is `event` (stored, `seq` set), `progress` ({"jobs": [JobLive]}), `worker`
    ({"workers": [WorkerView]}), `sources` ({"jobs": [JobSource]}) or `reset` (events before
    `data["oldest"]` are pruned: reload everything, or continue with the remaining events, which follow).
    """

    name: str
    data: dict[str, Any]
    seq: int | None = None


class ApiClient(Protocol):
    """The client interface that the terminal UI uses; tests inject their own."""

    async def send(self, call: Call[T]) -> T: ...

    def stream(self, after: int | None = None) -> AsyncIterator[StreamEvent]: ...

    async def close(self) -> None: ...


def health() -> Call[dict[str, Any]]:
    """Whether the supervisor and its database answer; needs no token."""
    return Call("GET", "/health")


def status() -> Call[answers.StatusView]:
    return Call("GET", "/v1/status")


def wall(job: int | None = None) -> Call[answers.WallView]:
    """The running jobs, or one of them, and which worker made which of their segments."""
    return Call("GET", "/v1/wall", {} if job is None else {"job": job})


def load() -> Call[answers.LoadView]:
    """The load of the last twenty minutes."""
    return Call("GET", "/v1/load")


def statistics(by: str = "day", since: str | None = None) -> Call[answers.StatisticsView]:
    """Sums by hour, day, batch or worker since an ISO 8601 time, by default of 30 days, of hours 48."""
    return Call("GET", "/v1/stats", {"by": by} if since is None else {"by": by, "since": since})


def jobs(
    line: str = "",
    *,
    sort: str = "order",
    limit: int = 50,
    after: str | None = None,
    before: str | None = None,
    around: int | None = None,
    video: int | None = None,
) -> Call[answers.JobPage]:
    """A page of jobs that match a filter line, see `filters`; `sort` is one of `filters.SORTS`.

    `after` and `before` take the cursors of another page; `before="end"` is the last page.
    """
    params = {
        "filter": line or None,
        "sort": sort,
        "limit": limit,
        "after": after,
        "before": before,
        "around": around,
        "video": video,
    }
    return Call("GET", "/v1/jobs", {key: value for key, value in params.items() if value is not None})


def job(job_id: int) -> Call[answers.JobDetail]:
    return Call("GET", f"/v1/jobs/{job_id}")


def job_log(job_id: int, attempt: int | None = None, lines: int | None = None) -> Call[dict[str, Any]]:
    """The log of an attempt, the newest by default: {"path", "text"} (its last lines, or 256 kB)."""
    params = {key: value for key, value in (("attempt", attempt), ("lines", lines)) if value is not None}
    return Call("GET", f"/v1/jobs/{job_id}/log", params)


def job_picture(job_id: int, kind: str, width: int, height: int) -> Call[answers.PictureView]:
    """The `poster` or `storyboard` of a job's video, at most so large."""
    return Call("GET", f"/v1/jobs/{job_id}/picture", {"kind": kind, "width": width, "height": height})


def job_bits(job_id: int) -> Call[answers.BitsView]:
    """The bit rates of the qualities of a job's ladder along the video."""
    return Call("GET", f"/v1/jobs/{job_id}/bits")


def act(operation: str, ids: Sequence[int], **more: Any) -> Call[dict[str, list[answers.ActionResult]]]:
    """Apply `operation` to jobs, answering {"results": […]}; `more`: other fields of `ActionRequest`."""
    body = {"operation": operation, "ids": list(ids)} | {k: v for k, v in more.items() if v is not None}
    return Call("POST", "/v1/jobs/actions", body=body)


def act_on_matching(
    operation: str, line: str, *, newest: int, key: str, after: int = 0, **more: Any
) -> Call[answers.BulkAnswer]:
    """Apply `operation` to the next jobs that match a filter line; `more`: other fields of `BulkRequest`."""
    body = {"operation": operation, "filter": line, "newest": newest, "after": after, "idempotency_key": key}
    return Call("POST", "/v1/jobs/bulk", body=body | {k: v for k, v in more.items() if v is not None})


def forecast(**asked: Any) -> Call[answers.ForecastView]:
    """What a change would cost; `asked` are the fields of `ForecastRequest`."""
    return Call("POST", "/v1/jobs/forecast", body={k: v for k, v in asked.items() if v is not None})


def undo(key: str, action: int | None = None) -> Call[answers.UndoAnswer]:
    """Undo the caller's newest action, or the next part of one; repeated with its key, nothing more is."""
    return Call("POST", "/v1/undo", body={"undo": action, "idempotency_key": key})


def add(paths_b64: Sequence[str], **more: Any) -> Call[answers.AddAnswer]:
    """Enqueue files; `more` are the other fields of `AddRequest`."""
    body = {"paths_b64": list(paths_b64)} | {k: v for k, v in more.items() if v is not None}
    return Call("POST", "/v1/videos", body=body)


def fetch(url: str, **more: Any) -> Call[answers.FetchAnswer]:
    """Fetch a file from object storage and enqueue it; `more` are the other fields of `FetchRequest`."""
    return Call("POST", "/v1/fetches", body={"url": url} | {k: v for k, v in more.items() if v is not None})


def upload(number: str) -> Call[answers.UploadView]:
    return Call("GET", f"/v1/uploads/{number}")


def videos(
    *, after: int | None = None, before: int | None = None, limit: int = 50
) -> Call[answers.VideoPage]:
    params = {"limit": limit, "after": after, "before": before}
    return Call("GET", "/v1/videos", {key: value for key, value in params.items() if value is not None})


def video(video_id: int) -> Call[answers.VideoView]:
    return Call("GET", f"/v1/videos/{video_id}")


def videos_of(path_b64: str) -> Call[answers.VideoPage]:
    """The videos of a source, one per output."""
    return Call("GET", "/v1/videos", {"path_b64": path_b64})


def delete_video(video_id: int) -> Call[answers.VideoView]:
    return Call("DELETE", f"/v1/videos/{video_id}")


def undelete_video(video_id: int) -> Call[answers.VideoView]:
    return Call("POST", f"/v1/videos/{video_id}/undelete")


def upload_video(video_id: int) -> Call[answers.VideoView]:
    """Upload the ladder of a video to its bucket again."""
    return Call("POST", f"/v1/videos/{video_id}/upload")


def relocate_videos(from_b64: str, to_b64: str) -> Call[answers.RelocateAnswer]:
    """Let videos follow an output folder that was moved."""
    return Call("POST", "/v1/videos/relocate", body={"from_b64": from_b64, "to_b64": to_b64})


def _part(name: str) -> str:
    """Quote a name as one segment of a URL path."""
    return quote(name, safe="", errors="surrogateescape")


def workers() -> Call[dict[str, list[answers.WorkerView]]]:
    return Call("GET", "/v1/workers")


def worker_action(name: str, verb: str) -> Call[answers.WorkerView]:
    """`verb` is enable, disable or drain."""
    return Call("POST", f"/v1/workers/{_part(name)}/{verb}")


def add_worker() -> Call[answers.WorkerView]:
    """Start one more CPU worker on the supervisor's machine, until that ends."""
    return Call("POST", "/v1/workers", body={})


def remove_worker(name: str) -> Call[dict[str, Any]]:
    """End a worker and take it off the list: {"removed", "job"}."""
    return Call("DELETE", f"/v1/workers/{_part(name)}")


def worker_token(name: str, kind: str = "cpu") -> Call[dict[str, Any]]:
    """A token for a worker that the pool does not spawn: {"worker", "name", "token"}."""
    return Call("POST", "/v1/workers/tokens", body={"name": name, "kind": kind})


def tokens() -> Call[dict[str, list[answers.TokenView]]]:
    return Call("GET", "/v1/tokens")


def create_token(
    name: str, role: str, *, expires_at: str | None = None, kind: str = "cpu", workers: int | None = None
) -> Call[answers.NewTokenView]:
    """Create a token; `expires_at` is ISO 8601, `kind` that of the worker of a worker's token.

    By one with the role join, `workers` may join; None for the default number.
    """
    body: dict[str, Any] = {"name": name, "role": role, "kind": kind, "expires_at": expires_at}
    if workers is not None:
        body["max_workers"] = workers
    return Call("POST", "/v1/tokens", body=body)


def join_worker(name: str, kind: str) -> Call[answers.NewTokenView]:
    """Join as the worker of that name; needs a token of the role join, and answers one of the role worker."""
    return Call("POST", "/v1/worker/join", body={"name": name, "kind": kind})


def revoke_token(name: str, *, with_joined: bool = False) -> Call[answers.RevokedTokens]:
    return Call("DELETE", f"/v1/tokens/{_part(name)}", {"with_joined": "true"} if with_joined else {})


def folders() -> Call[dict[str, list[answers.FolderView]]]:
    return Call("GET", "/v1/folders")


def add_folder(path_b64: str, **more: Any) -> Call[answers.FolderView]:
    body = {"path_b64": path_b64} | {k: v for k, v in more.items() if v is not None}
    return Call("POST", "/v1/folders", body=body)


def preview_folder(path_b64: str, **rules: Any) -> Call[answers.FolderPreview]:
    """What a folder holds by these rules, watched or not; nothing is changed."""
    return Call("POST", "/v1/folders/preview", body={"path_b64": path_b64} | rules)


def edit_folder(folder_id: int, **changes: Any) -> Call[answers.FolderView]:
    return Call("PATCH", f"/v1/folders/{folder_id}", body=changes)


def remove_folder(folder_id: int) -> Call[dict[str, Any]]:
    return Call("DELETE", f"/v1/folders/{folder_id}")


def pause_queue(reason: str = "", until: str | None = None) -> Call[answers.GateView]:
    """Let no more jobs start, until a time (ISO 8601) or until the queue is resumed."""
    return Call("POST", "/v1/queue/pause", body={"reason": reason, "until": until})


def resume_queue() -> Call[dict[str, Any]]:
    return Call("POST", "/v1/queue/resume", body={})


def retry_failed(batch: str | None = None) -> Call[answers.RetryAnswer]:
    """Retry every failed job, of one batch or of all."""
    return Call("POST", "/v1/queue/retry", body={} if batch is None else {"batch": batch})


def clear_queue(*, history: bool = False, manifest: bool = False) -> Call[answers.ClearAnswer]:
    """Delete every ended job, with `history` also all events, with `manifest` what is known of files too."""
    return Call("POST", "/v1/queue/clear", body={"history": history, "manifest": manifest})


def events(
    *,
    after: int | None = None,
    before: int | None = None,
    job_id: int | None = None,
    limit: int = 200,
    since: str | None = None,
) -> Call[answers.EventPage]:
    """Stored events after a seq, oldest first.

    Without `after` and `since`, the newest `limit` events, or the newest of those `before` a seq.
    """
    given = {"after": after, "before": before, "job": job_id, "since": since}
    return Call("GET", "/v1/events", {"limit": limit} | {k: v for k, v in given.items() if v is not None})


def settings() -> Call[answers.SettingsView]:
    return Call("GET", "/v1/settings")


def profiles() -> Call[dict[str, list[answers.ProfileView]]]:
    return Call("GET", "/v1/profiles")


def doctor() -> Call[dict[str, list[answers.CheckView]]]:
    return Call("GET", "/v1/doctor")


def alerts() -> Call[dict[str, list[answers.AlertView]]]:
    """The newest alerts, newest first."""
    return Call("GET", "/v1/alerts")


def alert_test() -> Call[dict[str, list[answers.AlertTest]]]:
    """Send a test alert to every channel but commands."""
    return Call("POST", "/v1/alerts/test", body={})


def backup(path_b64: str) -> Call[answers.BackupView]:
    """Copy the database to a new file; answers when the copy is complete."""
    return Call("POST", "/v1/backup", body={"path_b64": path_b64})


def join(pid: int, *, stay: bool = False) -> Call[answers.JoinAnswer]:
    return Call("POST", "/v1/commands", body={"pid": pid, "stay": stay})


def leave(pid: int, *, ignores_jobs: bool) -> Call[answers.LeaveAnswer]:
    return Call("POST", "/v1/commands/leave", body={"pid": pid, "ignores_jobs": ignores_jobs})


def log_level(level: str) -> Call[answers.LogLevelAnswer]:
    return Call("PUT", "/v1/log-level", body={"level": level})


def shutdown(*, drain: bool = False) -> Call[dict[str, Any]]:
    return Call("POST", "/v1/shutdown", body={"drain": drain})

"""Sentences for events, job states, gates and automatic restarts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from tqstudio import units
from tqstudio.errors import in_one_line
from tqstudio.events import EventKind
from tqstudio.lifecycle import PAUSED_WITHOUT_REASON, Step
from tqstudio.paths import readable
from tqstudio.protocol.roles import TOKEN_ACTOR
from tqstudio.words.format import clock_duration, counted, end, moment, short_duration, until

if TYPE_CHECKING:
    from tqstudio.protocol import answers

EVENTS: dict[str, tuple[str, str]] = {
    EventKind.CREATE: ("pending", "queued"),
    EventKind.CREATE_HELD: ("held", "queued on hold"),
    EventKind.CLAIM: ("running", "claimed by {worker}"),
    EventKind.PAUSE_REQUESTED: ("changing", "pause requested"),
    EventKind.CANCEL_REQUESTED: ("changing", "cancel requested"),
    EventKind.RESTART_REQUESTED: ("changing", "restart requested"),
    EventKind.RESUME_REQUESTED: ("changing", "request withdrawn"),
    EventKind.PAUSE: ("paused", "paused"),
    EventKind.RESUME: ("pending", "resumed"),
    EventKind.CANCEL: ("cancelled", "cancelled"),
    EventKind.RETRY: ("retry", "requeued"),
    EventKind.RESTART: ("retry", "restarted"),
    EventKind.UNCANCEL: ("pending", "cancellation undone"),
    EventKind.UNCANCEL_PAUSED: ("paused", "cancellation undone: paused"),
    EventKind.UNCANCEL_FAILED: ("failed", "cancellation undone: failed"),
    EventKind.AUTORESTART: ("retry", "restarted automatically"),
    EventKind.COMPLETE: ("done", "done"),
    EventKind.VIEWABLE: ("done", "first quality published"),
    EventKind.PUBLISHED: ("done", "published"),
    EventKind.WARNING: ("warning", "warning"),
    EventKind.PUBLISH_UNDONE: ("retry", "publishing rolled back"),
    EventKind.GENERATION_REMOVED: ("skipped", "old version removed"),
    EventKind.DELIVERED: ("done", "copied to its bucket"),
    EventKind.DELIVERY_FAILED: ("failed", "not copied to its bucket yet"),
    EventKind.DELIVERY_REMOVED: ("skipped", "removed from its bucket"),
    EventKind.VIDEO_DELETED: ("cancelled", "video deleted"),
    EventKind.VIDEO_UNDELETED: ("pending", "video brought back"),
    EventKind.SOURCE_MOVED: ("done", "source file moved"),
    EventKind.SOURCE_DELETED: ("done", "source file deleted"),
    EventKind.WORK_REMOVED: ("skipped", "unfinished work removed"),
    EventKind.FAIL_RETRYABLE: ("retry", "failed, will be retried"),
    EventKind.FAIL_FINAL: ("failed", "failed"),
    EventKind.WORKER_LOST: ("retry", "{worker} died; requeued"),
    EventKind.REQUEUED_STALE: ("retry", "{worker} timed out; requeued"),
    EventKind.REQUEUED_ABANDONED: ("retry", "{worker} dropped it; requeued"),
    EventKind.REQUEUED_SUPERVISOR: ("retry", "requeued at startup"),
    EventKind.RELEASE: ("pending", "returned to the queue"),
    EventKind.POSTPONED: ("pending", "waiting for its disk"),
    EventKind.ABORTED_SHUTDOWN: ("pending", "stopped by shutdown"),
    EventKind.ABORTED_HOURS: ("pending", "stopped, its hours have ended"),
    EventKind.PRIORITY_CHANGED: ("pending", "priority changed"),
    EventKind.PROFILE_CHANGED: ("pending", "profile changed"),
    EventKind.FORCED: ("pending", "requested again"),
    EventKind.RENAMED: ("pending", "source file renamed"),
    EventKind.DELETED: ("cancelled", "removed from the list"),
    EventKind.UNDELETED: ("pending", "restored to the list"),
    EventKind.GATE_CLOSED: ("paused", "queue blocked"),
    EventKind.GATE_OPENED: ("pending", "queue running again"),
    EventKind.LEADER_CHANGED: ("warning", "{worker} leads the queue now"),
    EventKind.WORKER_REGISTERED: ("done", "{worker} is ready"),
    EventKind.WORKER_ENDED: ("skipped", "{worker} exited"),
    EventKind.WORKER_ENABLED: ("done", "{worker} enabled"),
    EventKind.WORKER_DISABLED: ("cancelled", "{worker} disabled"),
    EventKind.WORKER_DRAINED: ("changing", "{worker} is draining"),
    EventKind.WORKER_OFFLINE: ("failed", "no heartbeat from {worker}"),
    EventKind.WORKER_ONLINE: ("done", "{worker} is online again"),
    EventKind.WORKER_TESTED: ("done", "{worker} passed a test encode"),
    EventKind.WORKER_QUARANTINED: ("failed", "{worker} quarantined"),
    EventKind.FOLDER_ADDED: ("done", "drop folder added"),
    EventKind.FOLDER_CHANGED: ("pending", "drop folder changed"),
    EventKind.FOLDER_REMOVED: ("cancelled", "drop folder removed"),
    EventKind.WORKER_JOINED: ("done", "{worker} joined"),
    EventKind.TOKEN_CREATED: ("done", "token created"),
    EventKind.TOKEN_REVOKED: ("cancelled", "token revoked"),
    EventKind.PRUNED: ("skipped", "old events removed"),
}
"""The state that an event of each kind is shown as, and its sentence."""

_DETAILS = {
    "new": "",
    "retranscode": "encoded again",
    "changed": "the source or the settings changed",
    "user": "by the user",
    PAUSED_WITHOUT_REASON: "",
}
"""Event codes and details with a text of their own; empty where the sentence already contains them."""

_ACTORS = {"user": "the user", "intake": "a drop folder", "retention": "the supervisor (cleanup)"}


def event_state(event: answers.EventView) -> str:
    return EVENTS.get(event["trigger"], ("pending", ""))[0]


def event_sentence(event: answers.EventView) -> str:
    """Describes an event in a few words; an unknown trigger is shown unchanged."""
    known = EVENTS.get(event["trigger"])
    if known is None:
        return re.sub(r"[_:]+", " ", event["trigger"])
    return known[1].format(worker=event["worker"] or "a worker")


def event_remark(event: answers.EventView) -> str:
    """Code and detail of an event, and which person caused it."""
    code, detail = event["code"] or "", event["detail"] or ""
    by = f"by {actor_words(event)}" if event["actor"].startswith(("user", TOKEN_ACTOR)) else ""
    remark = ": ".join(filter(None, (_DETAILS.get(code, code), _DETAILS.get(detail, detail))))
    return ", ".join(filter(None, (remark, by))) if by not in remark else remark


def actor_words(event: answers.EventView) -> str:
    actor = event["actor"]
    if actor.startswith(TOKEN_ACTOR):
        return f"the token {actor.removeprefix(TOKEN_ACTOR)}"
    return _ACTORS.get(actor, actor)


def status_word(status: str) -> str:
    """The displayed word for an API status."""
    return {"in_progress": "running", "completed": "done"}.get(status, status.replace("_", " "))


def attempt_words(row: answers.JobRow) -> str:
    """Which attempt this is, or how many failed; worker crashes are counted separately."""
    limit = row["max_attempts"]
    if row["crashes"] and row["status"] in ("in_progress", "pending", "paused"):
        return failure_words(row)
    if row["status"] in ("failed", "cancelled", "done"):
        words = [f"{row['attempts']} of {limit} attempts failed"] if row["attempts"] else []
    else:
        words = [f"attempt {min(row['attempts'] + 1, limit)} of {limit}"]
    if row["crashes"]:
        words.append(f"{row['crashes']} of {row['max_crashes']} crashed")
    return ", ".join(words)


def failure_words(row: answers.JobRow) -> str:
    """How many attempts failed and how many workers crashed; some failures count no attempt."""
    if not row["attempts"] and not row["crashes"]:
        return "failed, not retried" if row["status"] == "failed" else "no failure counted"
    crashed = f", {row['crashes']} of {row['max_crashes']} crashed" if row["crashes"] else ""
    return f"{row['attempts']} of {row['max_attempts']} failed{crashed}"


def worker_words(row: answers.JobRow) -> str:
    """The worker of a running job, and those that help it: `cpu-1 with box-2 and cpu-0`."""
    ranges = row["division"]["ranges"] if row["division"] else []
    *others, last = sorted(each["worker"] for each in ranges) or [""]
    helpers = " and ".join(filter(None, (", ".join(others), last)))
    return " with ".join(filter(None, (row["worker"], helpers)))


def makers_words(row: answers.JobRow) -> str:
    """Which segments each worker of a divided job makes; empty for any other.

    `segments: cpu-1 from 4, box-2 13–15, cpu-0 16–18`.
    """
    division = row["division"]
    if division is None or row["status"] != "in_progress":
        return ""
    parts = [f"{row['worker']} from {division['missing'][0][0]}"] if division["missing"] else []
    for each in division["ranges"]:
        last = each["end"] - 1
        parts.append(f"{each['worker']} {each['first']}" + (f"–{last}" if last > each["first"] else ""))
    return f"segments: {', '.join(parts)}" if parts else ""


_KINDS = {"new": "new", "retranscode": "encoded again", "changed": "encoded again after a change"}


def kind_words(row: answers.JobRow) -> str:
    return _KINDS.get(row["kind"], row["kind"])


def owner_words(owner: str) -> str:
    """Who added a job."""
    return {"user": "the user", "folder": "a drop folder", "upload": "an upload"}.get(owner) or (
        f"the token {owner.removeprefix(TOKEN_ACTOR)}" if owner.startswith(TOKEN_ACTOR) else owner
    )


def viewable_words(row: answers.JobRow) -> str:
    """Which quality can be played before the job is done: `480p plays`; empty for none."""
    return f"{row['viewable']} plays" if row["viewable"] and row["status"] != "done" else ""


def is_playable(row: answers.JobRow) -> bool:
    """Whether the ladder of a job, or its first quality, is published."""
    return row["status"] == "done" or row["viewable"] is not None


def has_poster(row: answers.JobRow) -> bool:
    """Whether the poster of a running job is made by now or at any moment, which is stored from then on."""
    has_begun = row["step"] in (Step.TRANSCODE, Step.MASTER_PLAYLIST, Step.FINALIZE)
    return has_begun and row["progress"] > 0 and row["source"]["width"] is not None


def added_words(row: answers.JobRow, now: datetime) -> str:
    """When a job was added, and by whom if not by the user."""
    by = "" if row["owner"] == "user" else f" by {owner_words(row['owner'])}"
    return f"{moment(row['created_at'], now)}{by}"


def changed_names(row: answers.JobRow) -> str:
    """What changed since the ladder was encoded, without the values."""
    return ", ".join(change["what"] for change in row["changes"])


def changes(row: answers.JobRow) -> list[str]:
    """What changed since the ladder was encoded, each with its values: `size 1.2 GB to 1.3 GB`."""
    return [_change(each) for each in row["changes"]]


def _change(change: answers.ChangeView) -> str:
    before, after = change["before"], change["after"]
    if before is None and after is None:
        return change["what"]
    old, new = (_changed_value(change["what"], value) for value in (before, after))
    return f"{change['what']} {old} to {new}"


def _changed_value(what: str, value: str | None) -> str:
    if value is None:
        return "none"
    if what == "size":
        return units.size(int(value))
    if what == "modified":
        return value[:19].replace("T", " ")
    return value[:8] if what == "content" else readable(value)


def skipped_words(renditions: Iterable[answers.RenditionView]) -> list[str]:
    """The skipped qualities by their reason: `above source: 1080p, 720p`."""
    return by_reason((each["name"], each["reason"]) for each in renditions if each["status"] == "skipped")


def by_reason(skipped: Iterable[tuple[str, str | None]]) -> list[str]:
    """Names and their reasons, as in `skipped_words`."""
    found: dict[str, list[str]] = {}
    for name, reason in skipped:
        found.setdefault(reason or "skipped", []).append(name)
    return [f"{reason}: {', '.join(names)}" for reason, names in found.items()]


def status_text(row: answers.JobRow, gates: Sequence[answers.GateView], sign: Callable[[str], str]) -> str:
    """What a job waits for, and the key that helps; for a done job, how long it took.

    Empty where its error or its progress shows it. `gates` are what blocks the queue; `sign` returns the
    key of an action.
    """
    if row["deleted_at"]:
        return f"deleted – {sign('retry')} restores it"
    match row["word"]:
        case "held":
            return f"on hold since it was added – {sign('pause')} starts it"
        case "paused":
            return f"paused{_kept(row)} – {sign('pause')} resumes it"
        case "retry" if row["retry_in_s"] is None:
            return "waiting for the hours of its drop folder"
        case "retry":
            return f"will be retried automatically – press {sign('pause')} twice to retry now"
        case "pending" | "changed" if gates:
            # The notice under the header says what to do about it.
            first = gates[0]
            return f"waiting: {gate_reason(first) if first['kind'] != 'user' else gate_words(first, sign)}"
        case "changed":
            return f"waiting to be encoded again, because this changed: {', '.join(changes(row))}"
        case "pending":
            read = row["source"]["width"] or row["source"]["problem"]
            return "waiting for a worker" if read else "waiting for a worker; source not analysed yet"
        case "running" if row.get("idle_s") is not None:
            idle = short_duration(row["idle_s"] or 0.0)
            twice = f"press {sign('pause')} twice to requeue it"
            return f"no progress for {idle} – {twice}{_kept(row)}; {sign('log')} shows its log"
        case "done" if row["actual_s"] is not None:
            return f"took {took_words(row)}"
        case "cancelled":
            return f"cancelled – {sign('retry')} retries it"
    return ""


def took_words(row: answers.JobRow) -> str:
    """How long a done job took, and the estimate; empty for other jobs."""
    if row["actual_s"] is None:
        return ""
    estimate = row["predicted_s"]
    guess = f"; estimated {clock_duration(estimate)}" if estimate is not None else ""
    return f"{clock_duration(row['actual_s'])}{guess}"


def error_now(row: answers.JobRow) -> answers.JobError | None:
    """The error of a failed job, also once it is cancelled or waits for its retry; None for any other."""
    return row["error"] if row["status"] in ("failed", "cancelled") or row["word"] == "retry" else None


def _kept(row: answers.JobRow) -> str:
    kept = sum(each["segments_done"] for each in row["renditions"])
    return f"; {counted(kept, 'finished segment')} kept" if kept else ""


def gate_words(gate: answers.GateView, sign: Callable[[str], str] | None = None) -> str:
    """What blocks the queue, and what to do about it; without keys where nothing may be done."""
    if gate["kind"] == "user":
        why = "" if gate["reason"] == PAUSED_WITHOUT_REASON else f" ({gate['reason']})"
        resumes = f" – {sign('pause_all')} resumes it" if sign else ""
        return f"the queue is paused{end(gate['until'])}{why}{resumes}"
    if gate["kind"] == "workers":
        enables = (
            sign and f"{sign('view_workers')} lists the workers, {sign('worker_switch')} there enables one"
        )
        return f"{gate['reason']} – {enables}" if enables else gate["reason"]
    return in_one_line(gate["code"], gate_reason(gate), gate["hint"])


def gate_reason(gate: answers.GateView) -> str:
    """Why the queue is blocked, and until when if that is known."""
    return f"{gate['reason']}{end(gate['until'])}"


def autorestart_words(rule: answers.AutorestartView, now: datetime) -> str:
    """Whether and when a failed job restarts automatically; empty where that is off."""
    limit, used = rule["limit"], rule["restarts"]
    last = f", last {moment(rule['last_at'], now)}" if rule["last_at"] else ""
    next_at = until(rule["next_at"], now)
    if next_at is not None:
        return f"restarts automatically in {short_duration(next_at)}, restart {used + 1} of {limit}{last}"
    match rule["state"]:
        case "enabled":
            after = short_duration(rule["delay_s"])
            return f"restarts automatically {after} after a failure, {counted(limit, 'time')} at most"
        case "in_progress":
            return f"automatic restart {used} of {limit}{last}"
        case "failed":
            return f"restarted automatically {used} of {limit} times{last}: no restart left"
        case "denied":
            return "not restarted automatically: retrying cannot fix this error"
    return ""


def source_path(video: answers.VideoView) -> str:
    """The path of a source, and whether it was deleted on purpose."""
    deleted = " (deleted by the rule of its drop folder)" if video["source_deleted_at"] else ""
    return f"{readable(video['path'])}{deleted}"


def folder_rules(folder: answers.FolderView) -> list[str]:
    """The rules of a drop folder that are off by default, one phrase each, and how often a job is tried."""
    rules = []
    if folder["exclude"]:
        rules.append(f"without {', '.join(map(readable, folder['exclude']))}")
    if folder["after_done"] == "move":
        rules.append(f"sources are moved to {readable(folder['done_dir'] or '')} when they are done")
    if folder["after_done"] == "delete":
        rules.append("sources are deleted when they are done")
    if folder["duplicates"] == "skip":
        rules.append("duplicates are skipped")
    if folder["duplicates"] == "link":
        rules.append("duplicates share the segments of the first")
    if folder["template"] != "{slug}":
        rules.append(f"ladders lie at {folder['template']}")
    if folder["audio"] == "encode":
        rules.append("sound without video is encoded")
    if folder["hours"]:
        rules.append(f"jobs run in these hours: {folder['hours']}")
    rules.append(f"attempts allowed: {folder['max_attempts']}, crashes: {folder['max_crashes']}")
    return rules


def delivery_words(delivery: answers.DeliveryView | None) -> list[tuple[str, str]]:
    """Returns what is known of the copy of a ladder in a bucket: name and value of each fact."""
    if delivery is None:
        return []
    left = f", {delivery['files_done']} of {delivery['files']} files" if delivery["files"] else ""
    states = {"delivered": "", "waiting": f" (being uploaded{left})"}
    facts = [("bucket", f"{readable(delivery['url'])}{states.get(delivery['state'], ' (being removed)')}")]
    problem = delivery["problem"]
    return facts if problem is None else [*facts, ("upload", in_one_line(**problem))]

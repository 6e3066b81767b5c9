"""What happened and how things stand, in words that need no manual."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from tqstudio.errors import in_one_line
from tqstudio.lifecycle import PAUSED_WITHOUT_REASON
from tqstudio.ui.text.format import clock_duration, counted, moment, short_duration, until

if TYPE_CHECKING:
    from tqstudio.protocol.answers import AutorestartView, EventView, GateView, JobError, JobRow

# Trigger of an event → the state it is shown as, and its sentence.
_EVENTS: dict[str, tuple[str, str]] = {
    "create": ("pending", "put into the queue"),
    "create_held": ("held", "put into the queue on hold"),
    "claim": ("running", "{worker} took it"),
    "pause_asked": ("changing", "pause was asked for"),
    "cancel_asked": ("changing", "cancel was asked for"),
    "restart_asked": ("changing", "restart was asked for"),
    "resume_asked": ("changing", "pause was taken back"),
    "pause": ("paused", "paused"),
    "resume": ("pending", "goes on"),
    "cancel": ("cancelled", "cancelled"),
    "retry": ("retry", "sent back to the queue"),
    "restart": ("retry", "starts over"),
    "autorestart": ("retry", "tried again by itself"),
    "complete": ("done", "done"),
    "published": ("done", "can be played"),
    "warning": ("warning", "warning"),
    "publish_undone": ("retry", "publishing was undone"),
    "generation_removed": ("skipped", "old version removed"),
    "work_removed": ("skipped", "unfinished work removed"),
    "fail_retryable": ("retry", "failed, is tried again"),
    "fail_final": ("failed", "failed for good"),
    "worker_lost": ("retry", "{worker} died, retried"),
    "requeued:stale": ("retry", "{worker} fell silent, retried"),
    "requeued:abandoned": ("retry", "{worker} let go of it, retried"),
    "requeued:supervisor": ("retry", "taken back at the start"),
    "release": ("pending", "handed back to the queue"),
    "put_off": ("pending", "waits for a disk"),
    "aborted:shutdown": ("pending", "stopped by a shutdown"),
    "priority": ("pending", "priority changed"),
    "profile": ("pending", "takes another profile"),
    "forced": ("pending", "asked for again"),
    "renamed": ("pending", "its file was renamed"),
    "deleted": ("cancelled", "taken off the list"),
    "undeleted": ("pending", "back on the list"),
    "gate_shut": ("paused", "the queue is held up"),
    "gate_opened": ("pending", "the queue goes on"),
    "worker_registered": ("running", "{worker} is ready"),
    "worker_ended": ("skipped", "{worker} ended"),
    "worker_enabled": ("running", "{worker} is switched on"),
    "worker_disabled": ("cancelled", "{worker} is switched off"),
    "worker_drained": ("changing", "{worker} takes no more jobs"),
    "worker_offline": ("failed", "{worker} says nothing"),
    "worker_online": ("running", "{worker} is heard again"),
    "worker_tested": ("running", "{worker} passed a test encode"),
    "worker_quarantined": ("failed", "{worker} is in quarantine"),
    "leases_extended": ("pending", "time was lost; no job is"),
    "folder_added": ("running", "a folder is watched"),
    "folder_changed": ("pending", "a folder has new rules"),
    "folder_removed": ("cancelled", "a folder is watched no more"),
    "pruned": ("skipped", "old events were removed"),
}

_DETAILS = {
    "new": "",
    "retranscode": "made again",
    "changed": "the source or the settings changed",
    "user": "by a person",
    PAUSED_WITHOUT_REASON: "",
}
"""Values of the API that stand for a word or, next to their sentence, for nothing new."""

_ACTORS = {"user": "a person", "intake": "a drop folder", "retention": "the supervisor, tidying up"}


def event_state(event: EventView) -> str:
    return _EVENTS.get(event["trigger"], ("pending", ""))[0]


def event_sentence(event: EventView) -> str:
    """A few words; what this version does not know is shown as it came."""
    known = _EVENTS.get(event["trigger"])
    if known is None:
        return re.sub(r"[_:]+", " ", event["trigger"])
    return known[1].format(worker=event["worker"] or "a worker")


def event_remark(event: EventView) -> str:
    """What the sentence leaves out: code, detail, and who did it where that is a person."""
    code, detail = event["code"] or "", event["detail"] or ""
    by = "by a person" if event["actor"] == "user" else ""
    remark = ": ".join(filter(None, (_DETAILS.get(code, code), _DETAILS.get(detail, detail))))
    return ", ".join(filter(None, (remark, by))) if by not in remark else remark


def actor_words(event: EventView) -> str:
    return _ACTORS.get(event["actor"], event["actor"])


def status_word(status: str) -> str:
    """A status of the API as people say it."""
    return {"in_progress": "running", "completed": "done"}.get(status, status.replace("_", " "))


def attempt_words(row: JobRow) -> str:
    """Which attempt this is, or how many failed; crashes of workers are counted apart."""
    most = row["max_attempts"]
    if row["crashes"] and row["status"] in ("in_progress", "pending", "paused"):
        return failure_words(row)
    if row["status"] in ("failed", "cancelled", "done"):
        words = [f"{row['attempts']} of {most} attempts failed"] if row["attempts"] else []
    else:
        words = [f"attempt {min(row['attempts'] + 1, most)} of {most}"]
    if row["crashes"]:
        words.append(f"{row['crashes']} of {row['max_crashes']} crashed")
    return ", ".join(words)


def failure_words(row: JobRow) -> str:
    """How many attempts and workers this job has used up; what no retry can help uses up none."""
    if row["status"] == "failed" and not row["attempts"] and not row["crashes"]:
        return "failed for good"
    crashed = f", {row['crashes']} of {row['max_crashes']} crashed" if row["crashes"] else ""
    return f"{row['attempts']} of {row['max_attempts']} failed{crashed}"


_KINDS = {"new": "new", "retranscode": "made again", "changed": "made again, as it changed"}


def kind_words(row: JobRow) -> str:
    return _KINDS.get(row["kind"], row["kind"])


def standing(row: JobRow, gates: Sequence[GateView] = ()) -> str:
    """What a job waits for, and the key that helps; how long a done one took.

    Empty where its error or its progress says it.

    Args:
        gates: what holds the queue up.
    """
    if row["deleted_at"]:
        return f"deleted; put it back on the list with: tqstudio job undelete {row['id']}"
    match row["word"]:
        case "held":
            return "on hold since it was added – p lets it start"
        case "paused":
            return f"paused{_kept(row)} – p lets it go on"
        case "retry":
            return "tried again by itself – p, and p again, tries it now"
        case "pending" if gates:
            # What to do about it stands under the header.
            return f"waits: {gates[0]['reason'] if gates[0]['kind'] != 'user' else gate_words(gates[0])}"
        case "pending":
            read = row["source"]["width"] or row["source"]["problem"]
            return "waits for a worker" if read else "waits for a worker; its source is not read yet"
        case "running" if row.get("idle_s") is not None:
            idle = short_duration(row["idle_s"] or 0.0)
            return f"no progress for {idle} – p, and p again, frees it{_kept(row)}; l shows what it does"
        case "done" if row["actual_s"] is not None:
            return f"took {took_words(row)}"
        case "cancelled":
            return "cancelled – r tries it again"
    return ""


def took_words(row: JobRow) -> str:
    """How long workers had a job that is done, and how long that was estimated to be; empty before."""
    if row["actual_s"] is None:
        return ""
    estimate = row["predicted_s"]
    guess = f"; estimated {clock_duration(estimate)}" if estimate is not None else ""
    return f"{clock_duration(row['actual_s'])}{guess}"


def error_now(row: JobRow) -> JobError | None:
    """Why it failed, or why it is tried again; what a job has got over is history."""
    return row["error"] if row["status"] == "failed" or row["word"] == "retry" else None


def _kept(row: JobRow) -> str:
    kept = sum(each["segments_done"] for each in row["renditions"])
    return f"; {counted(kept, 'finished segment')} {'stays' if kept == 1 else 'stay'}" if kept else ""


def gate_words(gate: GateView) -> str:
    """What holds the queue up, and what to do."""
    if gate["kind"] == "user":
        why = "" if gate["reason"] == PAUSED_WITHOUT_REASON else f" ({gate['reason']})"
        return f"the queue is paused{why} – P lets it go on"
    if gate["kind"] == "workers":
        return f"{gate['reason']} – 2 shows them, and e there lets one work"
    return in_one_line(gate["code"], gate["reason"], gate["hint"])


def autorestart_words(rule: AutorestartView, now: datetime) -> str:
    """Whether and when a job that has failed starts again by itself; empty where nobody asked for it."""
    most, used = rule["limit"], rule["restarts"]
    last = f", last {moment(rule['last_at'], now)}" if rule["last_at"] else ""
    next_at = until(rule["next_at"], now)
    if next_at is not None:
        return f"starts again by itself in {short_duration(next_at)}, restart {used + 1} of {most}{last}"
    match rule["state"]:
        case "enabled":
            after = short_duration(rule["delay_s"])
            return f"would start again by itself {after} after it failed, {counted(most, 'time')} at most"
        case "in_progress":
            return f"restart {used} of {most} by itself{last}"
        case "failed":
            return f"started again by itself {used} of {most} times{last}: no restart is left"
        case "denied":
            return "does not start again by itself: no restart mends this"
    return ""

"""Defines the kinds of alerts: what causes each, whether it is on by default, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from tqstudio.engine.host.clock import iso_time
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.machine.gates import GateRow
from tqstudio.errors import MEANINGS, ErrorCode, TqError, code_of
from tqstudio.events import EventKind
from tqstudio.lifecycle import GateKind
from tqstudio.units import size
from tqstudio.wings.alerts.store import Subject

Redact = Callable[[str], str]


class AlertKind(StrEnum):
    """What an alert is about."""

    FAILED = "failed"
    REPEATED = "repeated"
    RECOVERED = "recovered"
    QUARANTINED = "quarantined"
    GATE = "gate"
    DISK = "disk"
    WORKER_DOWN = "worker_down"
    WORKER_UP = "worker_up"
    LEADER = "leader"
    DELIVERY = "delivery"
    VIEWABLE = "viewable"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Kind:
    """When an alert of a kind is made, and what it says."""

    when: str
    text: str
    """With fields of `_fields`, or of the condition."""
    causes: tuple[EventKind, ...] = ()
    """None for conditions that are checked by the clock."""
    default: bool = True


KINDS: Mapping[AlertKind, Kind] = MappingProxyType(
    {
        AlertKind.FAILED: Kind(
            "a job failed: retries exhausted, an error that no retry can fix, or `REPEATED_CRASHES`",
            "{name} failed: {reason}",
            (EventKind.FAIL_FINAL,),
        ),
        AlertKind.REPEATED: Kind(
            "a video failed again; without this kind, `failed`",
            "{name} failed {times} times: {reason}",
            (EventKind.FAIL_FINAL,),
        ),
        AlertKind.RECOVERED: Kind(
            "a job was requeued because its worker or supervisor died or stopped answering",
            "{name} was requeued: {reason}",
            (
                EventKind.WORKER_LOST,
                EventKind.REQUEUED_STALE,
                EventKind.REQUEUED_ABANDONED,
                EventKind.REQUEUED_SUPERVISOR,
            ),
        ),
        AlertKind.QUARANTINED: Kind(
            "a worker failed several jobs and a test encode",
            "worker {worker} is in quarantine: {reason}",
            (EventKind.WORKER_QUARANTINED,),
        ),
        AlertKind.GATE: Kind(
            "a disk or the load has blocked the queue for `gate_alert_s`",
            "no job has started since {since}: {reason}",
        ),
        AlertKind.DISK: Kind(
            "a disk in use has less than twice the space that jobs need; once a day",
            "the disk of {path} has {free} free; no job starts below {needed}",
        ),
        AlertKind.WORKER_DOWN: Kind(
            "a worker exited or sends no heartbeats",
            "worker {worker} is down: {reason}",
            (EventKind.WORKER_OFFLINE, EventKind.WORKER_ENDED),
            default=False,
        ),
        AlertKind.WORKER_UP: Kind(
            "a worker is ready, or online again",
            "worker {worker} is up",
            (EventKind.WORKER_REGISTERED, EventKind.WORKER_ONLINE),
            default=False,
        ),
        AlertKind.LEADER: Kind(
            "another supervisor leads the queue: the last one was stopped, has died, or was cut off",
            "{worker} leads the queue now: {reason}",
            (EventKind.LEADER_CHANGED,),
        ),
        AlertKind.DELIVERY: Kind(
            "a ladder could not be copied to its bucket, or removed there, three times in a row",
            "{name}: {reason}",
            (EventKind.DELIVERY_FAILED,),
        ),
        AlertKind.VIEWABLE: Kind(
            "the first quality of a video is published, before the others",
            "{name} can be played: {reason}",
            (EventKind.VIEWABLE,),
            default=False,
        ),
        AlertKind.DONE: Kind("a ladder is published", "{name} is done", (EventKind.COMPLETE,), default=False),
    }
)


@dataclass(frozen=True, slots=True)
class AlertMessage:
    """An alert before it is stored."""

    key: str
    kind: AlertKind
    subject: str
    payload: dict[str, Any]


def chosen(setting: str) -> frozenset[AlertKind]:
    """Read `alert_kinds`; empty for the defaults.

    Raises:
        TqError: BAD_CONFIG for an unknown kind.
    """
    names = [name for part in setting.split(",") if (name := part.strip())]
    if unknown := sorted(set(names) - set(AlertKind)):
        listed = ", ".join(AlertKind)
        raise TqError(
            ErrorCode.BAD_CONFIG,
            f"the setting alert_kinds has the unknown kind {unknown[0]}",
            f"the kinds are: {listed}",
        )
    return frozenset(map(AlertKind, names)) or frozenset(kind for kind, of in KINDS.items() if of.default)


def causes(kinds: Collection[AlertKind]) -> frozenset[EventKind]:
    """The kinds of events that alerts of these kinds are made of."""
    return frozenset(cause for kind in kinds for cause in KINDS[kind].causes)


def kind_of(event: EventRow, kinds: Collection[AlertKind], *, times: int) -> AlertKind | None:
    """The kind of alert that an event causes; None for none.

    Args:
        times: how often its video has failed for good.
    """
    if event.trigger == EventKind.FAIL_FINAL and times > 1 and AlertKind.REPEATED in kinds:
        return AlertKind.REPEATED
    found = (kind for kind in kinds if kind is not AlertKind.REPEATED)
    return next((kind for kind in found if event.trigger in KINDS[kind].causes), None)


def of_event(
    event: EventRow, kind: AlertKind, subject: Subject | None, *, times: int, redact: Redact
) -> AlertMessage:
    """Build the alert that an event causes."""
    name = subject.name if subject is not None else f"job {event.job}"
    failed = kind in (AlertKind.FAILED, AlertKind.REPEATED)
    code = code_of(event.code) if failed and event.code else None
    hint = "" if code is None else (subject and subject.hint) or MEANINGS[code].hint
    remarks = (code, event.detail) if code is not None else (event.detail,)
    reason = ": ".join(filter(None, remarks)) or "no heartbeat"
    text = KINDS[kind].text.format(name=name, worker=event.worker, reason=reason, times=times)
    about = f"worker:{event.worker}" if event.job is None else f"video:{event.video}"
    facts = {"job": event.job, "video": event.video, "name": subject and subject.name, "code": event.code}
    return _message(f"event-{event.seq}", kind, about, event.at, text, hint, redact, facts)


def of_gate(gate: GateRow, redact: Redact) -> AlertMessage:
    """Build the alert of a gate that has been shut for long."""
    text = KINDS[AlertKind.GATE].text.format(since=iso_time(gate.since), reason=gate.reason)
    code = ErrorCode.DISK_LOW.value if gate.kind is GateKind.DISK else None
    hint = "tqstudio status says what to do"
    about, key = f"gate:{gate.kind.value}", f"gate-{gate.kind.value}-{gate.since}"
    return _message(key, AlertKind.GATE, about, gate.since, text, hint, redact, {"code": code})


def of_disk(path: str, free: int, needed: int, *, now: int, redact: Redact) -> AlertMessage:
    """Build the alert of a disk that is low soon; its key allows one a day."""
    text = KINDS[AlertKind.DISK].text.format(path=path, free=size(free), needed=size(needed))
    key = f"disk-{iso_time(now)[:10]}-{path}"
    facts = {"code": ErrorCode.DISK_LOW.value}
    return _message(key, AlertKind.DISK, f"disk:{path}", now, text, "free some space there", redact, facts)


def _message(
    key: str,
    kind: AlertKind,
    about: str,
    at: int,
    text: str,
    hint: str,
    redact: Redact,
    facts: dict[str, Any],
) -> AlertMessage:
    payload = {
        "kind": kind.value,
        "at": iso_time(at),
        "text": redact(text),
        "hint": redact(hint),
        **dict.fromkeys(("job", "video", "name", "code")),
        **facts,
    }
    return AlertMessage(key, kind, about, payload)

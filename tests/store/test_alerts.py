"""Alerts in the outbox: made once, held back and counted, due in order, tried, sent or given up."""

from __future__ import annotations

from typing import Any

import pytest

from tqstudio.engine.store import events
from tqstudio.errors import ErrorCode
from tqstudio.events import EventKind
from tqstudio.lifecycle import JobStatus, Operation
from tqstudio.wings.alerts import store as outbox
from tqstudio.wings.alerts.store import AlertRow, NewAlert

from .conftest import NOW, SECOND, Queue

COOLDOWN_S = 300


def add(
    queue: Queue, key: str, *, channel: str = "webhook", kind: str = "failed", subject: str = "v"
) -> None:
    new = NewAlert(key, kind, subject, f"content {key}")
    outbox.add(queue.db, new, channel=channel, now=queue.now, cooldown_us=COOLDOWN_S * SECOND)


def due(queue: Queue, channel: str = "webhook") -> AlertRow | None:
    return outbox.next_due(queue.db, channel, now=queue.now, longest_us=COOLDOWN_S * SECOND)


def stored(queue: Queue) -> dict[str, AlertRow]:
    return {row.key: row for row in outbox.listing(queue.db, limit=100)}


def taken(queue: Queue, channel: str = "webhook") -> AlertRow:
    """The next one, of which a try begins."""
    row = due(queue, channel)
    assert row is not None
    begun = outbox.begin(queue.db, row.id, retry_at=queue.now + 5 * SECOND)
    assert (begun.id, begun.payload, begun.tries) == (row.id, row.payload, row.tries + 1)
    return row


def test_an_alert_is_stored_once_per_key_and_channel(queue: Queue) -> None:
    for _ in range(2):
        add(queue, "a")
        add(queue, "a", channel="mail")
    rows = outbox.listing(queue.db, limit=10)
    assert [(row.channel, row.key, row.suppressed, row.tries) for row in rows] == [
        ("mail", "a", 0, 0),
        ("webhook", "a", 0, 0),
    ]
    add(queue, "b", subject="b")
    assert outbox.known(queue.db, ["a", "c"]) == {"a"}
    assert outbox.known(queue.db, ["c", "b"]) == {"b"}


def test_within_the_cooldown_alerts_are_held_back_and_counted(queue: Queue) -> None:
    add(queue, "a")
    outbox.sent(queue.db, taken(queue).id, now=queue.now)
    for key in "bcd":
        queue.wait(10)
        add(queue, key)
    assert due(queue) is None
    queue.wait(COOLDOWN_S - 30)
    row = taken(queue)
    assert (row.key, row.payload, row.suppressed, row.due_at) == (
        *("d", "content d", 2),
        NOW + COOLDOWN_S * SECOND,
    )
    queue.wait(COOLDOWN_S)
    outbox.sent(queue.db, row.id, now=queue.now)
    add(queue, "e")
    row = taken(queue)
    assert (row.key, row.suppressed) == ("e", 0), "after the cool-down it is due at once"


def test_what_was_replaced_just_before_a_try_is_sent_as_it_is_then(queue: Queue) -> None:
    add(queue, "a")
    row = due(queue)
    assert row is not None
    add(queue, "b")
    begun = outbox.begin(queue.db, row.id, retry_at=queue.now)
    assert (begun.key, begun.payload, begun.suppressed) == ("b", "content b", 1)


def test_one_that_was_tried_is_not_changed(queue: Queue) -> None:
    add(queue, "a")
    taken(queue)
    add(queue, "b")
    assert {key: row.payload for key, row in stored(queue).items()} == {"a": "content a", "b": "content b"}


@pytest.mark.parametrize("other", [{"channel": "mail"}, {"kind": "done"}, {"subject": "w"}])
def test_the_cooldown_is_of_a_kind_and_subject_in_a_channel(queue: Queue, other: dict[str, Any]) -> None:
    add(queue, "a")
    outbox.sent(queue.db, taken(queue).id, now=queue.now)
    add(queue, "b", **other)
    row = due(queue, other.get("channel", "webhook"))
    assert row is not None
    assert row.key == "b"


def test_a_retry_of_before_the_clock_was_set_back_is_due(queue: Queue) -> None:
    add(queue, "a")
    taken(queue)
    queue.wait(5 - COOLDOWN_S)
    assert due(queue) is None, "it may be a wait"
    queue.wait(-1e-6)
    assert due(queue) is not None
    assert due(queue, "mail") is None
    outbox.sent(queue.db, taken(queue).id, now=queue.now)
    assert due(queue) is None


def test_a_clock_that_was_set_back_holds_nothing_back_for_longer(queue: Queue) -> None:
    queue.wait(86_400)
    add(queue, "a")
    taken(queue)
    queue.wait(-86_400)
    add(queue, "b")
    assert stored(queue)["b"].next_at == queue.now + COOLDOWN_S * SECOND


def test_the_one_that_is_due_first_comes_first(queue: Queue) -> None:
    add(queue, "a", subject="1")
    queue.wait(1)
    add(queue, "b", subject="2")
    add(queue, "c", subject="3")
    add(queue, "other", channel="mail")
    assert [taken(queue).key for _ in range(3)] == ["a", "b", "c"]
    assert due(queue) is None
    queue.wait(5)
    row = due(queue)
    assert row is not None
    assert (row.key, row.tries) == ("a", 1)


def test_ends_of_tries(queue: Queue) -> None:
    for key in "abcd":
        add(queue, key, subject=key)
    sent, again, given_up = taken(queue), taken(queue), taken(queue)
    outbox.not_sent(queue.db, sent.id, "500", next_at=queue.now)
    outbox.sent(queue.db, sent.id, now=queue.now + 1)
    outbox.not_sent(queue.db, again.id, "500", next_at=queue.now + 7)
    outbox.not_sent(queue.db, given_up.id, "404", next_at=None)
    rows = stored(queue)
    assert {key: (row.sent_at, row.next_at, row.error, row.tries) for key, row in rows.items()} == {
        "a": (queue.now + 1, None, None, 1),
        "b": (None, queue.now + 7, "500", 1),
        "c": (None, None, "404", 1),
        "d": (None, queue.now, None, 0),
    }


def test_what_waits_for_a_channel_that_is_gone_is_given_up(queue: Queue) -> None:
    add(queue, "a")
    add(queue, "b", channel="mail")
    add(queue, "c", channel="mail", subject="sent")
    outbox.sent(queue.db, stored(queue)["c"].id, now=queue.now)
    outbox.give_up_others(queue.db, ["webhook"])
    rows = stored(queue)
    assert (rows["a"].next_at, rows["a"].error) == (queue.now, None)
    assert rows["b"].next_at is None
    assert "not configured" in (rows["b"].error or "")
    assert rows["c"].error is None


def test_a_channel_that_fails_for_long_is_named_with_its_first_alert(queue: Queue) -> None:
    for key in ("untried", "first", "second", "sent", "fresh"):
        add(queue, key, subject=key)
        queue.wait(10)
    add(queue, "mail", channel="mail")
    rows = stored(queue)
    for key in ("first", "second"):
        outbox.not_sent(queue.db, rows[key].id, "refused", next_at=queue.now)
    outbox.sent(queue.db, rows["sent"].id, now=queue.now)
    overdue = outbox.overdue(queue.db, before=queue.now)
    assert [(row.channel, row.key) for row in overdue] == [("webhook", "first")]
    assert outbox.overdue(queue.db, before=rows["first"].due_at) == []
    outbox.not_sent(queue.db, rows["first"].id, "refused", next_at=None)
    assert [row.key for row in outbox.overdue(queue.db, before=queue.now)] == ["second"]


def test_old_ones_are_pruned_unless_they_wait(queue: Queue) -> None:
    for key in ("waits", "sent"):
        add(queue, key, subject=key)
    queue.wait(10)
    add(queue, "young", subject="young")
    rows = stored(queue)
    for key in ("sent", "young"):
        outbox.sent(queue.db, rows[key].id, now=queue.now)
    outbox.prune(queue.db, before=queue.now)
    assert set(stored(queue)) == {"waits", "young"}


# Events


def test_events_are_read_from_the_position(queue: Queue) -> None:
    kinds = (EventKind.FAIL_FINAL, EventKind.COMPLETE)
    assert outbox.position(queue.db) is None
    assert outbox.unread(queue.db, kinds, limit=10).events == []
    outbox.move_position(queue.db, events.bounds(queue.db)[1])
    failed = [_failed(queue), queue.in_status(JobStatus.DONE), _failed(queue)]
    unread = outbox.unread(queue.db, kinds, limit=2)
    assert [event.job for event in unread.events] == failed[:2]
    assert unread.through == unread.events[-1].seq
    outbox.move_position(queue.db, unread.through)
    queue.job()
    further = outbox.unread(queue.db, kinds, limit=2)
    assert [event.job for event in further.events] == failed[2:]
    assert further.through == events.bounds(queue.db)[1] == unread.through + further.lag
    outbox.move_position(queue.db, further.through)
    assert outbox.position(queue.db) == further.through
    assert outbox.unread(queue.db, kinds, limit=2).lag == 0
    outbox.move_position(queue.db, None)
    assert outbox.position(queue.db) is None


def _failed(queue: Queue, job: int | None = None) -> int:
    """A job that failed for good, a new one or one that was retried."""
    if job is None:
        lease = queue.claimed()
    else:
        queue.do(job, Operation.RETRY)
        claimed = queue.claim()
        assert claimed is not None
        lease = claimed
    assert queue.fail(lease, ErrorCode.NO_MEDIA) is not None
    return lease.job


def test_failures_of_a_video_are_counted_since_it_was_done(queue: Queue) -> None:
    def times(job: int, through: int | None = None) -> int:
        last = events.bounds(queue.db)[1] if through is None else through
        return outbox.times_failed(queue.db, queue.row(job)["video_id"], through=last)

    job = _failed(queue)
    first = events.bounds(queue.db)[1]
    other = _failed(queue)
    assert _failed(queue, job) == job
    assert (times(job), times(job, first), times(other)) == (2, 1, 1)
    queue.do(job, Operation.RETRY)
    before = events.bounds(queue.db)[1]
    lease = queue.claim()
    assert lease is not None
    assert queue.complete(lease)
    assert (times(job), times(job, before), times(other)) == (0, 2, 1)


def test_the_subject_of_an_alert(queue: Queue) -> None:
    job = _failed(queue)
    other = outbox.subject_of(queue.db, _failed(queue))
    found = outbox.subject_of(queue.db, job)
    assert found is not None
    assert other is not None
    assert (found.job, found.name, found.hint) == (job, "clip 1.mp4", "mend it")
    assert (found.source, found.output_root, found.slug) == (b"/in/1/clip 1.mp4", b"/out", "clip-1")
    assert (other.job, other.name) == (job + 1, "clip 2.mp4")
    assert outbox.subject_of(queue.db, 4711) is None

"""The event stream over its real socket, and what distributes it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness import LiveSupervisor, MakeSupervisor, UnixHTTP
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.live.event_stream import BACKLOG, PAGE, RECENT, EventStream, message, page, stream
from tqstudio.engine.store import events
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol import calls
from tqstudio.protocol.client import Client
from waiting import until

from .conftest import Desk
from .test_api import report


class Listener:
    """Reads an event stream block by block."""

    def __init__(self, response: Any) -> None:
        self._response = response

    def block(self) -> dict[str, str]:
        """The next block: its fields by name, a comment under ""."""
        found: dict[str, str] = {}
        while (line := self._response.readline().decode().rstrip("\n")) or not found:
            name, _, value = line.partition(":")
            found[name] = value.removeprefix(" ")
        return found

    def event(self, name: str = "event") -> Any:
        """The next message of that name."""
        while (block := self.block()).get("event") != name:
            continue
        return json.loads(block["data"]) | ({"id": int(block["id"])} if "id" in block else {})

    def is_over(self) -> bool:
        return self._response.read() is not None


@contextmanager
def listening(live: LiveSupervisor, after: str | None = None) -> Iterator[Listener]:
    connection = UnixHTTP(live.home.socket)
    headers = {} if after is None else {"Last-Event-ID": after}
    connection.request("GET", "/v1/events/stream", headers=headers)
    response = connection.getresponse()
    assert response.status == 200
    assert response.headers["Content-Type"].startswith("text/event-stream")
    listener = Listener(response)
    assert listener.block() == {"retry": "3000"}
    try:
        yield listener
    finally:
        connection.close()


def last_seq(live: LiveSupervisor) -> int:
    return live.send(calls.events(limit=1))["last_seq"]


def events_of(listener: Listener, job: int, count: int) -> list[Any]:
    """The next events of one job: those of workers and of earlier tests come between them."""
    everything = (listener.event() for _ in itertools.count())
    return list(itertools.islice((event for event in everything if event["job"] == job), count))


def test_what_happens_is_sent_in_order(desk: Desk) -> None:
    with listening(desk.live) as listener:
        job = desk.job()
        desk.act("pause", job)
        desk.act("cancel", job)
        sent = events_of(listener, job, 3)
    assert [(e["trigger"], e["source"], e["target"]) for e in sent] == [
        ("create", None, "pending"),
        ("pause", "pending", "paused"),
        ("cancel", "paused", "cancelled"),
    ]
    assert [e["id"] for e in sent] == [e["seq"] for e in sent]
    assert {e["video_name"] for e in sent} == {desk.show(job)["name"]}


def test_missed_events_are_sent_first(desk: Desk) -> None:
    seen = last_seq(desk.live)
    job = desk.job()
    desk.act("pause", job)
    with listening(desk.live, str(seen)) as listener:
        desk.act("resume", job)
        assert [event["trigger"] for event in events_of(listener, job, 3)] == ["create", "pause", "resume"]


@pytest.mark.slow
def test_who_cannot_be_sent_everything_gets_a_reset(make_supervisor: MakeSupervisor) -> None:
    live = make_supervisor().start()
    live.send(calls.worker_action("cpu-0", "disable"))
    # Pruning comes once a minute; here it has been, as after a month.
    live.stop()
    db = Database(live.home.database)
    db.open()
    db.write_now(events.prune, before=now_us(), now=now_us())
    oldest, last = db.read_now(events.bounds)
    db.close()
    assert oldest > 1
    live.start()
    for after in ("0", str(oldest - 2), "99999999", "9" * 30):
        with listening(live, after) as listener:
            reset = listener.event("reset")
            assert reset["oldest"] == oldest
            assert reset["last"] >= last
    with listening(live, str(oldest - 1)) as listener:
        assert listener.event()["trigger"] == "pruned"


def numbers(listener: Listener, last: int) -> list[int]:
    """The numbers of the events that are sent, up to the last; a `reset` among them fails the test."""
    found: list[int] = []
    while not found or found[-1] < last:
        block = listener.block()
        assert block.get("event") != "reset"
        if block.get("event") == "event":
            found.append(int(block["id"]))
    return found


@pytest.mark.more
def test_one_action_on_thousands_is_sent_whole(desk: Desk) -> None:
    """Also to a watcher that reads nothing meanwhile, and to one that comes later; no one waits for them."""
    seen, job = last_seq(desk.live), desk.job()
    with listening(desk.live, str(seen)) as reader, listening(desk.live, str(seen)) as stalled:
        for _ in range(3):
            desk.act("priority", *[job] * 2_500, delta=1)
            last = last_seq(desk.live)
        every = list(range(seen + 1, last + 1))
        assert len(every) > 7_500
        assert numbers(reader, last) == every
        assert numbers(stalled, last) == every
        with listening(desk.live, str(seen)) as late:
            assert numbers(late, last) == every


@pytest.mark.parametrize("after", ["x", "", "-1", "²"])
def test_an_id_that_is_none_is_no_id(desk: Desk, after: str) -> None:
    connection = UnixHTTP(desk.live.home.socket)
    connection.request("GET", "/v1/events/stream", headers={"Last-Event-ID": after.encode("utf-8")})
    response = connection.getresponse()
    assert response.status == 200
    assert Listener(response).block() == {"retry": "3000"}
    connection.close()


def test_silence_is_filled(desk: Desk) -> None:
    with listening(desk.live) as listener:
        until(lambda: listener.block() == {"": "still here"}, "a comment comes")


def test_progress_is_sent_and_not_stored(desk: Desk) -> None:
    worker, job = desk.running()
    with listening(desk.live) as listener:
        before = last_seq(desk.live)
        report(worker, job, 42.0, speed=2.0)
        live = until(
            lambda: next(
                (j for j in listener.event("progress")["jobs"] if j["id"] == job["job"] and j["progress"]),
                None,
            ),
            "the report is sent",
        )
        assert (live["progress"], live["speed"], live["worker"]) == (42, 2, worker.name)
        desk.act("cancel", job["job"])
        found = until(
            lambda: [
                j
                for j in listener.event("progress")["jobs"]
                if j["id"] == job["job"] and j["control"] != "none"
            ],
            "the control request is sent",
        )
        assert found[0]["word"] == "cancelling…"
        assert last_seq(desk.live) == before + 1
        names = {w["name"]: w["status"] for w in listener.event("worker")["workers"]}
        assert names[worker.name] == "busy"


@pytest.mark.more
def test_a_resumed_job_is_reported_from_where_it_was(desk: Desk) -> None:
    worker, job = desk.running()
    made = {
        "name": "360p",
        "status": "in_progress",
        "progress": 43.0,
        "segments_done": 4,
        "segments_total": 10,
    }
    report(worker, job, 42.0, renditions=[made])
    desk.act("pause", job["job"])
    worker.send(f"jobs/{job['job']}/release", epoch=job["epoch"], reason="pause")
    with listening(desk.live) as listener:

        def sent() -> Any:
            return next((j for j in listener.event("progress")["jobs"] if j["id"] == job["job"]), None)

        desk.act("resume", job["job"])
        again = until(lambda: worker.claim(), "it is claimed again")
        assert again["job"] == job["job"]
        first = until(sent, "the claim is sent")
        assert first["progress"] == 42
        assert "renditions" not in first, "what is known of its qualities stays true"
        report(worker, again, 40.0, renditions=[made])
        at_work = until(
            lambda: (live := sent()) and live.get("renditions") and live, "its qualities are sent"
        )
        assert at_work["progress"] == desk.show(job["job"])["progress"] == 42
        report(worker, again, 40.5, renditions=[made | {"segments_done": 1}])
        until(lambda: (live := sent()) and live["progress"] == 40.5, "finished segments are gone")
        assert desk.show(job["job"])["progress"] == 40.5


@pytest.mark.slow
def test_the_end_ends_the_streams(make_supervisor: MakeSupervisor) -> None:
    live = make_supervisor().start()
    with listening(live) as one, listening(live) as other:
        live.send(calls.shutdown())
        assert live.process.wait(30) == 0
        assert one.is_over()
        assert other.is_over()
    live.stop()


def test_the_clients_stream(desk: Desk) -> None:
    seen = last_seq(desk.live)
    job = desk.job()
    following = Client(desk.live.home.socket).stream(after=seen)
    event = next(following)
    assert (event.name, event.seq, event.data["job"]) == ("event", seen + 1, job)
    following.close()


def test_no_supervisor_there() -> None:
    with pytest.raises(TqError) as caught:
        next(Client(Path("/nowhere/supervisor.sock")).stream())
    assert caught.value.code is ErrorCode.NO_SUPERVISOR


# What distributes it


def test_one_message() -> None:
    assert message("event", {"a": "é\n"}, 7) == b'event: event\nid: 7\ndata: {"a":"\\u00e9\\n"}\n\n'
    assert message("progress", {}) == b"event: progress\ndata: {}\n\n"


def store(db: Database, count: int) -> list[EventRow]:
    """Events that happen at once."""

    def noted(connection: Any) -> list[EventRow]:
        before = events.bounds(connection)[1]
        for _ in range(count):
            events.append(connection, "noted", now=1, actor="test")
        return events.after(connection, before, limit=count)

    return db.write_now(noted)


def messages_of(event_stream: EventStream, db: Database, seen: int) -> AsyncIterator[bytes]:
    async def read(seq: int) -> Any:
        return await db.read(page, seq)

    return stream(event_stream, read, seen, greeting=b"", keepalive_s=60)


async def some(messages: AsyncIterator[bytes], last: int) -> list[tuple[str, int]]:
    """The messages up to the event of that number: their names and numbers."""
    found: list[tuple[str, int]] = []
    while not found or found[-1][1] < last:
        for block in (await anext(messages)).decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines())
            if fields:
                found.append((fields["event"], int(fields.get("id", "0"))))
    return found


def heard(first: int, last: int) -> list[tuple[str, int]]:
    return [("event", seq) for seq in range(first, last + 1)]


def test_a_watcher_that_lags_reads_from_the_store(opened: Database) -> None:
    """However much happens, as many events are held as ever, for one watcher or for many."""

    async def main() -> None:
        event_stream = EventStream(lambda event: {"seq": event.seq})
        lagging, following = (messages_of(event_stream, opened, 0) for _ in range(2))
        assert await anext(lagging) == await anext(following) == b""
        step = RECENT + PAGE
        for end in (step, 2 * step, 3 * step):
            event_stream.on_events(store(opened, step))
            assert await some(following, end) == heard(end - step + 1, end)
        held = event_stream.since(event_stream.last - RECENT)
        assert held is not None
        assert len(held) == RECENT
        assert event_stream.since(event_stream.last - RECENT - 1) is None
        assert await some(lagging, event_stream.last) == heard(1, 3 * step)
        event_stream.on_events(store(opened, 1))
        assert await some(lagging, event_stream.last) == heard(event_stream.last, event_stream.last)

    asyncio.run(main())


def test_what_is_pruned_meanwhile_is_reported_as_such(opened: Database) -> None:
    async def main() -> None:
        event_stream = EventStream(lambda event: {"seq": event.seq})
        event_stream.on_events(store(opened, 3 * PAGE))
        messages = messages_of(event_stream, opened, 0)
        assert await anext(messages) == b""
        assert await some(messages, PAGE) == heard(1, PAGE)
        opened.write_now(events.forget, through=2 * PAGE + 10, limit=10_000)
        assert await some(messages, 3 * PAGE) == [("reset", 0), *heard(2 * PAGE + 11, 3 * PAGE)]
        # All that is left is forgotten too; what comes then is sent.
        event_stream.on_events(store(opened, 2 * RECENT))
        opened.write_now(events.forget, through=event_stream.last, limit=10_000)
        event_stream.on_events(store(opened, 1))
        assert (await some(messages, event_stream.last))[-1] == ("event", event_stream.last)

    asyncio.run(main())


def test_a_watcher_that_does_not_read_is_cut_off(opened: Database) -> None:
    """It costs no more than so many snapshots, and is sent every event before it ends."""

    async def main() -> None:
        event_stream = EventStream(lambda event: {"seq": event.seq})
        slow = messages_of(event_stream, opened, 0)
        assert await anext(slow) == b""
        event_stream.on_events(store(opened, 10))
        for _ in range(BACKLOG):
            event_stream.snapshot("progress", {})
        assert event_stream.watched
        event_stream.snapshot("progress", {})
        assert not event_stream.watched
        assert await some(slow, 10) == heard(1, 10)
        with pytest.raises(StopAsyncIteration):
            await anext(slow)
        quick = messages_of(event_stream, opened, 10)
        assert await anext(quick) == b""
        event_stream.snapshot("progress", {})
        assert await anext(quick) == message("progress", {})

    asyncio.run(main())


def test_after_the_end_a_stream_is_over_once_all_is_sent(opened: Database) -> None:
    async def main() -> None:
        event_stream = EventStream(lambda event: {"seq": event.seq})
        early = messages_of(event_stream, opened, 0)
        assert await anext(early) == b""
        event_stream.on_events(store(opened, 2))
        await event_stream.stop()
        late = messages_of(event_stream, opened, 1)
        assert not event_stream.watched
        assert [text async for text in early] == [b"".join(message("event", {"seq": n}, n) for n in (1, 2))]
        assert [text async for text in late] == [b"", message("event", {"seq": 2}, 2)]

    asyncio.run(main())

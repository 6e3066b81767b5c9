"""The event stream over its real socket, and the broadcast behind it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import LiveSupervisor, MakeSupervisor, UnixHTTP, until
from tqstudio import client
from tqstudio.connection import Client
from tqstudio.engine.broadcast import BACKLOG, Broadcast, message, stream
from tqstudio.engine.scheduling import now_us
from tqstudio.engine.store import events
from tqstudio.engine.store.database import Database
from tqstudio.engine.store.events import EventRow
from tqstudio.errors import ErrorCode, TqError

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
    return live.send(client.events(limit=1))["last_seq"]


def test_what_happens_is_told_in_order(desk: Desk) -> None:
    with listening(desk.live) as listener:
        job = desk.job()
        desk.act("pause", job)
        desk.act("cancel", job)
        # What another test did last may be told still.
        everything = (listener.event() for _ in itertools.count())
        told = list(itertools.islice((event for event in everything if event["job"] == job), 3))
    assert [(e["trigger"], e["source"], e["target"]) for e in told] == [
        ("create", None, "pending"),
        ("pause", "pending", "paused"),
        ("cancel", "paused", "cancelled"),
    ]
    assert [e["id"] for e in told] == [e["seq"] for e in told]


def test_what_was_missed_is_told_first(desk: Desk) -> None:
    seen = last_seq(desk.live)
    job = desk.job()
    desk.act("pause", job)
    with listening(desk.live, str(seen)) as listener:
        desk.act("resume", job)
        assert [listener.event()["trigger"] for _ in range(3)] == ["create", "pause", "resume"]


def test_who_cannot_be_told_everything_is_told_so(make_supervisor: MakeSupervisor) -> None:
    live = make_supervisor().start()
    live.send(client.worker_action("cpu-0", "disable"))
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


def test_progress_is_told_and_not_stored(desk: Desk) -> None:
    worker, job = desk.running()
    with listening(desk.live) as listener:
        before = last_seq(desk.live)
        report(worker, job, 42.0, speed=2.0)
        live = until(
            lambda: next(
                (j for j in listener.event("progress")["jobs"] if j["id"] == job["job"] and j["progress"]),
                None,
            ),
            "the report is told",
        )
        assert (live["progress"], live["speed"], live["worker"]) == (42, 2, worker.name)
        desk.act("cancel", job["job"])
        found = until(
            lambda: [
                j
                for j in listener.event("progress")["jobs"]
                if j["id"] == job["job"] and j["control"] != "none"
            ],
            "the wish is told",
        )
        assert found[0]["word"] == "cancelling…"
        assert last_seq(desk.live) == before + 1
        names = {w["name"]: w["status"] for w in listener.event("worker")["workers"]}
        assert names[worker.name] == "busy"


def test_the_end_ends_the_streams(make_supervisor: MakeSupervisor) -> None:
    live = make_supervisor().start()
    with listening(live) as one, listening(live) as other:
        live.send(client.shutdown())
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


def test_nobody_there() -> None:
    with pytest.raises(TqError) as caught:
        next(Client(Path("/nowhere/supervisor.sock")).stream())
    assert caught.value.code is ErrorCode.NO_SUPERVISOR


# The broadcast


def row(seq: int) -> EventRow:
    return EventRow(seq, 0, "noted", None, None, None, None, None, "test", None, None)


def test_one_message() -> None:
    assert message("event", {"a": "é\n"}, 7) == b'event: event\nid: 7\ndata: {"a":"\\u00e9\\n"}\n\n'
    assert message("progress", {}) == b"event: progress\ndata: {}\n\n"


def test_a_watcher_that_does_not_read_is_cut_off() -> None:
    broadcast = Broadcast(lambda event: {"seq": event.seq})
    slow = broadcast.watch()
    broadcast.events([row(seq) for seq in range(BACKLOG + 1)])
    assert not broadcast.watched
    quick = broadcast.watch()
    broadcast.events([row(1)])
    assert quick.qsize() == 1
    drained = [slow.get_nowait() for _ in range(slow.qsize())]
    assert drained[-1] is None
    assert drained.count(None) == 1


def test_after_the_end_a_stream_is_over_at_once() -> None:
    async def main() -> list[bytes]:
        broadcast = Broadcast(lambda event: {"seq": event.seq})
        early = broadcast.watch()
        broadcast.stop()
        late = broadcast.watch()
        found = []
        for queue in (early, late):
            found += [text async for text in stream(broadcast, queue, [b"missed"], keepalive_s=60)]
        assert not broadcast.watched
        return found

    assert asyncio.run(main()) == [b"missed", b"missed"]

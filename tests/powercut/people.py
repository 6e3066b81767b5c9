"""Those who use the studio while its power may go: each on a thread and a connection of their own."""

from __future__ import annotations

import contextlib
import random
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from powercut.ledger import Closed, Ledger
from tqstudio.drill.sandbox import Sandbox
from tqstudio.errors import UNANSWERED, TqError
from tqstudio.paths import encode
from tqstudio.protocol import calls
from tqstudio.protocol.client import Client

_LONGEST_THOUGHT_S = 0.12
_BACKUPS = 0.01
"""The share of what people do."""

# By the status that a user sees: what they do next, and how likely; "" is nothing.
_BUSY: dict[str, dict[str, int]] = {
    "pending": {"pause": 1, "cancel": 1, "priority": 2, "": 40},
    "in_progress": {"pause": 2, "cancel": 1, "": 120},
    "paused": {"resume": 6, "priority": 1, "cancel": 1},
    "cancelled": {"retry": 1},
    "failed": {"retry": 1},
    "done": {"retranscode": 1, "": 2},
}

_PATIENT: dict[str, dict[str, int]] = {
    "pending": {"priority": 1, "": 40},
    "in_progress": {"": 1},
    "paused": {"resume": 1},
    "cancelled": {"retry": 1},
    "failed": {"retry": 1},
    "done": {"retranscode": 1},
}


class People:
    """Several clients and one who watches the event stream, until the power goes.

    Args:
        patient: they let jobs come to their end.
    """

    def __init__(
        self,
        box: Sandbox,
        ledger: Ledger,
        sources: Sequence[Path],
        *,
        seed: int,
        count: int,
        patient: bool,
    ) -> None:
        self._box, self._ledger = box, ledger
        self._next = _PATIENT if patient else _BUSY
        self._ended = threading.Event()
        shares = [list(sources[number::count]) for number in range(count)]
        work = [(self._live, (share, random.Random(seed + number))) for number, share in enumerate(shares)]
        self._threads = [
            threading.Thread(target=target, args=args, daemon=True)
            for target, args in [*work, (self._watch, ())]
        ]
        for thread in self._threads:
            thread.start()

    def leave(self) -> None:
        """Stop asking; with the supervisor dead no client waits for an answer."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _live(self, sources: list[Path], rng: random.Random) -> None:
        client = Client(self._box.home.socket)
        while not self._ended.wait(rng.uniform(0, _LONGEST_THOUGHT_S)):
            try:
                self._do_something(client, rng.choice(sources), rng)
            except Closed:
                return
            except TqError as error:
                if error.code not in UNANSWERED:
                    self._ledger.surprised(f"{error.code}: {error.message}")

    def _do_something(self, client: Client, source: Path, rng: random.Random) -> None:
        if rng.random() < _BACKUPS:
            copy = self._box.home.backups / f"{uuid.uuid4().hex}.db"
            client.send(calls.backup(encode(copy)))
            self._ledger.backed_up(copy)
        job = self._ledger.newest(source.name)
        if job is None:
            self._add(client, source, held=rng.random() < 0.2)
            return
        view = client.send(calls.job(job))
        # Sound that was interrupted begins again.
        made = {row["name"]: row["segments_done"] for row in view["renditions"] if row["height"]}
        self._ledger.seen(job, view["status"], made)
        choices = self._next[view["status"]]
        operation = rng.choices(list(choices), list(choices.values()))[0]
        if operation == "retranscode":
            self._retranscode(client, job, source)
        elif operation:
            self._act(client, job, operation, rng.randrange(1, 100))

    def _add(self, client: Client, source: Path, *, held: bool) -> None:
        [result] = client.send(calls.add([encode(source)], hold=held))["results"]
        self._ledger.added(result["job"], source.name, held=held and result["decision"] == "queued")

    def _retranscode(self, client: Client, job: int, source: Path) -> None:
        [result] = client.send(calls.act("retranscode", [job]))["results"]
        self._ledger.added(result["new_job"], source.name)

    def _act(self, client: Client, job: int, operation: str, priority: int) -> None:
        more: dict[str, Any] = {"priority": priority} if operation == "priority" else {}
        self._ledger.asking(job, operation)
        [result] = client.send(calls.act(operation, [job], **more))["results"]
        self._ledger.answered(job, operation, ok=result["ok"], priority=priority)

    def _watch(self) -> None:
        client = Client(self._box.home.socket)
        while not self._ended.wait(0.02):
            with contextlib.suppress(TqError, Closed):
                # What happened before anyone listened is sent too.
                for event in client.stream(max(self._ledger.events, default=0)):
                    if event.name == "event" and event.seq is not None:
                        self._ledger.event(event.seq, event.data)

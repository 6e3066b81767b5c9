"""Runs database calls on a thread that owns a connection."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.event_row import EventRow

MAX_SHARING = 64
"""Maximum number of calls in one batch; bounds how long the first waits for the others."""


@dataclass(slots=True)
class DatabaseCall:
    """A queued function call on a connection, and the future for its result."""

    fn: Callable[..., Any]
    args: Any
    kwargs: Any
    loop: asyncio.AbstractEventLoop | None
    """The loop that `answer` belongs to; None if a thread waits for it."""
    answer: Any
    result: Any = None
    error: BaseException | None = None
    appended: list[EventRow] = field(default_factory=list)

    def deliver(self) -> None:
        if self.answer.done():
            return
        if self.error is not None:
            self.answer.set_exception(self.error)
        else:
            self.answer.set_result(self.result)


class ConnectionThread:
    """A thread with a connection of its own; `serve` runs the queued calls and delivers their results."""

    def __init__(self, name: str, serve: Callable[[Connection, Sequence[DatabaseCall]], None]) -> None:
        self._name, self._serve = name, serve
        self._calls: SimpleQueue[list[DatabaseCall] | None] = SimpleQueue()
        self._gathered: list[DatabaseCall] = []
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def open(self, make: Callable[[], Connection]) -> None:
        opened: Future[None] = Future()
        # A daemon, so that a program can exit without closing its database.
        self._thread = threading.Thread(target=self._run, args=(make, opened), name=self._name, daemon=True)
        self._thread.start()
        opened.result()

    def _run(self, make: Callable[[], Connection], opened: Future[None]) -> None:
        try:
            db = make()
        except BaseException as error:
            opened.set_exception(error)
            return
        opened.set_result(None)
        try:
            while calls := self._waiting():
                for first in range(0, len(calls), MAX_SHARING):
                    self._serve(db, calls[first : first + MAX_SHARING])
        finally:
            db.close()

    def _waiting(self) -> list[DatabaseCall]:
        """Waits for calls and returns all queued ones; empty after `close`."""
        calls: list[DatabaseCall] = []
        more = self._calls.get()
        while more is not None:
            calls += more
            try:
                more = self._calls.get_nowait()
            except Empty:
                return calls
        if calls:
            self._calls.put(None)
        return calls

    def submit(self, *calls: DatabaseCall) -> None:
        if self._thread is None or self._closed.is_set():
            raise RuntimeError("the database is not open")
        self._calls.put(list(calls))

    def submit_with_others(self, call: DatabaseCall, loop: asyncio.AbstractEventLoop) -> None:
        """Queues the calls of one loop iteration together, so that they share a commit and a wake-up."""
        if self._closed.is_set():
            raise RuntimeError("the database is not open")
        if not self._gathered:
            loop.call_soon(self._submit_gathered)
        self._gathered.append(call)

    def _submit_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        try:
            self.submit(*gathered)
        except RuntimeError as error:
            for call in gathered:
                call.error = error
                call.deliver()

    def close(self) -> None:
        if self._thread is None or self._closed.is_set():
            return
        self._closed.set()
        self._calls.put(None)
        self._thread.join()

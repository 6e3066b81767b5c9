"""Keeps the model true: attaches to the supervisor, follows its stream, and comes back when it went away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tqstudio.errors import UNANSWERED, ErrorCode, TqError, in_one_line
from tqstudio.protocol import calls
from tqstudio.ui.data.job_pages import Pager
from tqstudio.ui.data.model import Connection, Link, Model

if TYPE_CHECKING:
    from tqstudio.protocol.answers import EventView, JobLive, WorkerView
    from tqstudio.protocol.calls import ApiClient, Call, StreamEvent

T = TypeVar("T")

STATUS_BUSY_S = 2.0
STATUS_IDLE_S = 10.0
STATUS_MIN_S = 1.0
"""The status is read this often while jobs run, while none does, and at most."""
JOBS_MIN_S = 0.5
"""The window of the job list is read again at most this often,"""
JOBS_SHARE = 0.2
"""and for at most this share of the time: what took a long search is not searched for without a pause."""
FOLDERS_S = 10.0
"""The drop folders are read this often: one that has gone missing is told in every view."""
ANSWER_S = 10.0
"""A supervisor that takes longer for its status counts as gone."""
BACKOFF_S = (1.0, 2.0, 3.0)
"""Between attempts to reach it; the last one again and again."""
MISSED_MOST = 1_000
"""Whoever missed more events than this sees the newest, not one after the other go by."""
PATIENCE_S = 10.0
"""A supervisor that is being started may be silent for so long before that is told."""
EAGER_S = 0.2
"""Between attempts meanwhile."""


class _StartOver(Exception):
    """The stream cannot go on from where it was; everything is read anew."""


class Feed:
    """The one user of the door.

    Args:
        changed: called after every change of the model.
        anchor: the job that must stay in the window, and whether the reader is typing just now.
        listening: whether a supervisor accepts connections, answered at once.
        patience_s: how long the first silence is taken for a start; see `PATIENCE_S`.
    """

    def __init__(
        self,
        model: Model,
        door_factory: Callable[[], ApiClient],
        *,
        changed: Callable[[], None],
        anchor: Callable[[], tuple[int | None, bool]],
        listening: Callable[[], bool],
        backoff_s: tuple[float, ...] = BACKOFF_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.model = model
        self.pager = Pager(model.jobs, self.send, model.now)
        self._door_factory = door_factory
        self._door: ApiClient | None = None
        self._changed = changed
        self._anchor = anchor
        self._listening = listening
        self._backoff_s = backoff_s
        self._patience_s = patience_s
        self._patient_until = monotonic() + patience_s
        self._status_due = asyncio.Event()
        self._jobs_due = asyncio.Event()
        self._folders_due = asyncio.Event()
        self._try_now = asyncio.Event()
        self.listeners: list[Callable[[EventView], None]] = []

    async def send(self, call: Call[T]) -> T:
        """Send a call.

        Raises:
            TqError: what the supervisor says, NO_SUPERVISOR or SUPERVISOR_SILENT.
        """
        if self._door is None:
            self._door = self._door_factory()
        return await self._door.send(call)

    async def run(self) -> None:
        """Attach, follow, and try again when that ends; runs until it is cancelled."""
        failures = 0
        try:
            while True:
                try:
                    await self._load()
                    failures = 0
                    began = monotonic()
                    await self._follow()
                    reason = ""
                    if monotonic() - began > self._backoff_s[0]:
                        # A stream that went well and ended: it was read too slowly, or the supervisor ends.
                        continue
                except _StartOver:
                    continue
                except TqError as error:
                    reason = "" if error.code in UNANSWERED else in_one_line(error.code, error.message)
                except OSError:
                    reason = ""
                except Exception as error:
                    # A message of another version of the supervisor must not end the UI.
                    reason = f"the supervisor's answer is not understood ({type(error).__name__}: {error})"
                await self._wait(reason, self._backoff_s[min(failures, len(self._backoff_s) - 1)])
                failures += 1
        finally:
            await self._close()

    def refresh_soon(self) -> None:
        """Read status and jobs again, as soon as the limits allow."""
        self._status_due.set()
        self._jobs_due.set()

    def read_folders_soon(self) -> None:
        self._folders_due.set()

    def try_now(self) -> None:
        self._try_now.set()

    def expect(self) -> None:
        """A supervisor is being started: try often, and call its silence a start for a while."""
        self._patient_until = monotonic() + self._patience_s
        self.model.connection = Connection(Link.CONNECTING)
        self._changed()
        self.try_now()

    def expect_nothing(self) -> None:
        """The supervisor that was being started has ended."""
        self._patient_until = 0.0
        self.try_now()

    async def _wait(self, reason: str, delay_s: float) -> None:
        """Say that nobody answers, until the next attempt is due or asked for."""
        self._try_now.clear()
        await self._close()
        if monotonic() < self._patient_until and not reason:
            delay_s = EAGER_S
        else:
            silent = not reason and await asyncio.to_thread(self._listening)
            self.model.connection = Connection(Link.LOST, reason, silent)
            self._changed()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._try_now.wait(), delay_s)

    async def _close(self) -> None:
        door, self._door = self._door, None
        if door is not None:
            with suppress(Exception):
                await door.close()

    async def _load(self) -> None:
        """Read what a fresh view needs; the stream then goes on from the last event read here."""
        model = self.model
        page = await self._in_time(calls.events(limit=200))
        if not model.events or not 0 <= page["last_seq"] - (model.last_seq or 0) <= MISSED_MOST:
            model.take_events(page["events"], page["last_seq"])
        model.take_status(await self._in_time(calls.status()))
        model.connection = Connection(Link.UP)
        self._patient_until = 0.0
        self._changed()
        anchor, _ = self._anchor()
        await self.pager.reload(anchor)
        model.changed()
        self._changed()

    async def _in_time(self, call: Call[T]) -> T:
        try:
            return await asyncio.wait_for(self.send(call), ANSWER_S)
        except TimeoutError:
            raise TqError(ErrorCode.SUPERVISOR_SILENT, "the supervisor does not answer in time") from None

    async def _follow(self) -> None:
        """Take the stream and the polls together; the first that ends or fails ends all."""
        duties: list[Coroutine[Any, Any, None]] = [
            *(self._stream(), self._poll_status()),
            *(self._poll_jobs(), self._poll_folders()),
        ]
        tasks = [asyncio.create_task(duty) for duty in duties]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _stream(self) -> None:
        if self._door is None:
            return
        stream = self._door.stream(self.model.last_seq)
        try:
            async for message in stream:
                self._take(message)
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    def _take(self, message: StreamEvent) -> None:
        model = self.model
        model.heard()
        match message.name:
            case "progress":
                model.take_progress(cast("list[JobLive]", message.data["jobs"]))
            case "worker":
                model.take_workers(cast("list[WorkerView]", message.data["workers"]))
            case "sources":
                for known in message.data["jobs"]:
                    model.patch_job(known["id"], {"source": known["source"]})
                # With the source known, so is about how long the job will take.
                self._jobs_due.set()
            case "event":
                event = cast("EventView", message.data)
                model.take_event(event)
                self.refresh_soon()
                if event["trigger"].startswith("folder_"):
                    self.read_folders_soon()
                for listener in list(self.listeners):
                    listener(event)
            case "reset":
                # Events were pruned before they could be told: nothing held may be trusted.
                model.events.clear()
                model.last_seq = None
                raise _StartOver
        self._changed()

    async def _poll_status(self) -> None:
        while True:
            busy = bool(self.model.status and self.model.status["jobs"].get("in_progress"))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._status_due.wait(), STATUS_BUSY_S if busy else STATUS_IDLE_S)
            self._status_due.clear()
            self.model.take_status(await self._in_time(calls.status()))
            self._changed()
            await asyncio.sleep(STATUS_MIN_S)

    async def _poll_folders(self) -> None:
        while True:
            self._folders_due.clear()
            self.model.folders = (await self.send(calls.folders()))["folders"]
            self.model.changed()
            self._changed()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._folders_due.wait(), FOLDERS_S)

    async def _poll_jobs(self) -> None:
        while True:
            await self._jobs_due.wait()
            anchor, typing = self._anchor()
            if typing:
                # Rows that move under the fingers are worse than rows half a second old.
                await asyncio.sleep(JOBS_MIN_S / 2)
                continue
            self._jobs_due.clear()
            began = monotonic()
            await self.pager.reload(anchor)
            self.model.changed()
            self._changed()
            took = monotonic() - began
            await asyncio.sleep(max(JOBS_MIN_S, took / JOBS_SHARE - took))

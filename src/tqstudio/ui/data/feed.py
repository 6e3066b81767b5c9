"""Synchronises the UI model with the supervisor: loads, follows the event stream, and reconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, TypeVar, cast

from tqstudio.errors import UNANSWERED, ErrorCode, TqError, in_one_line
from tqstudio.protocol import calls
from tqstudio.ui.data.job_pages import JobPages
from tqstudio.ui.data.ladder_answers import LadderAnswers
from tqstudio.ui.data.marks import CONTROL_REQUESTED
from tqstudio.ui.data.model import ConnectionState, Link, Model

if TYPE_CHECKING:
    from tqstudio.protocol.answers import EventView, JobLive, WorkerView
    from tqstudio.protocol.calls import ApiClient, Call, StreamEvent

T = TypeVar("T")

STATUS_BUSY_S = 2.0
STATUS_IDLE_S = 10.0
STATUS_MIN_S = 1.0
"""Intervals of reading the status: while jobs run, while none runs, and the minimum."""
JOBS_MIN_S = 0.5
"""Minimal interval of reading the job list window."""
JOBS_SHARE = 0.2
"""Maximal share of the time spent on reading it, so that long searches are not repeated without a pause."""
FOLDERS_S = 10.0
"""Interval of reading the drop folders, whose problems are shown in every view."""
ANSWER_S = 10.0
"""Timeout of a status request; a slower supervisor counts as lost."""
BACKOFF_S = (1.0, 2.0, 3.0)
"""Delays between connection attempts; the last one repeats."""
AGAIN_S = (0.5, 1.0, 2.0, *[3.0] * 18)
"""Delays until an answer that was lost is asked for again."""
LIST_S = 0.1
"""How long the list may take to be shown together with the status."""
KEYS_AGAIN = 5
"""How many of them keys wait for."""
MAX_MISSED_EVENTS = 1_000
"""After missing more events than this, only the newest are loaded."""
START_TIMEOUT_S = 10.0
"""Silence of a starting supervisor is not reported for this long."""
START_RETRY_S = 0.2
"""Delay between connection attempts during a start."""


class _StartOver(Exception):
    """The stream cannot continue from its last position; everything is loaded again."""


class Feed:
    """Owns the connection to the supervisor.

    Args:
        changed: called after every change of the model.
        anchor: returns the job that must stay in the window, and whether the user is typing.
        listening: whether a supervisor accepts connections; returns immediately.
        start_timeout_s: how long initial silence counts as a start; see `START_TIMEOUT_S`.
    """

    def __init__(
        self,
        model: Model,
        client_factory: Callable[[], ApiClient],
        *,
        changed: Callable[[], None],
        anchor: Callable[[], tuple[int | None, bool]],
        listening: Callable[[], bool],
        backoff_s: tuple[float, ...] = BACKOFF_S,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self.model = model
        self.job_pages = JobPages(model.jobs, self.send, model.now)
        self.ladder_answers = LadderAnswers(self.send, changed)
        self._client_factory = client_factory
        self._client: ApiClient | None = None
        self._changed = changed
        self._anchor = anchor
        self._listening = listening
        self._backoff_s = backoff_s
        self._start_timeout_s = start_timeout_s
        self._starting_until = monotonic() + start_timeout_s
        self._status_due = asyncio.Event()
        self._jobs_due = asyncio.Event()
        self._folders_due = asyncio.Event()
        self._try_now = asyncio.Event()
        self.listeners: list[Callable[[EventView], None]] = []

    async def send(self, call: Call[T]) -> T:
        """Send a request and return its answer; raise the error in it, or that none came."""
        if self._client is None:
            self._client = self._client_factory()
        return await self._client.send(call)

    async def send_again(self, call: Call[T], lost: Callable[[str], None] | None = None) -> T:
        """Send a request that has an idempotency key, again and again for a minute until it is answered.

        Args:
            lost: keys wait for the answer: not as long, and not for a supervisor that was not there at first.
                Called with what is waited for.
        """
        for number, wait_s in enumerate(AGAIN_S if lost is None else AGAIN_S[:KEYS_AGAIN]):
            try:
                return await self.send(call)
            except TqError as error:
                never_sent = number == 0 and error.code is ErrorCode.NO_SUPERVISOR
                if error.code not in UNANSWERED or (lost is not None and never_sent):
                    raise
            if lost is not None:
                lost("the answer was lost; asking for it again…")
            await asyncio.sleep(wait_s)
        return await self.send(call)

    async def run(self) -> None:
        """Load, follow, and reconnect after a loss; runs until it is cancelled."""
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
                        # A working stream ended: it was read too slowly, or the supervisor shuts down.
                        continue
                except _StartOver:
                    continue
                except TqError as error:
                    reason = "" if error.code in UNANSWERED else in_one_line(error.code, error.message)
                except OSError:
                    reason = ""
                except Exception as error:
                    # A message of another supervisor version must not end the UI.
                    reason = f"cannot understand the supervisor's answer ({type(error).__name__}: {error})"
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

    def start_expected(self) -> None:
        """Expect a supervisor that is starting: retry often and do not report its silence for a while."""
        self._starting_until = monotonic() + self._start_timeout_s
        self.model.connection = ConnectionState(Link.CONNECTING)
        self._changed()
        self.try_now()

    def start_failed(self) -> None:
        """Report silence again: the starting supervisor has exited."""
        self._starting_until = 0.0
        self.try_now()

    async def _wait(self, reason: str, delay_s: float) -> None:
        """Mark the connection as lost, and wait until the next attempt is due or requested."""
        self._try_now.clear()
        await self._close()
        if monotonic() < self._starting_until and not reason:
            delay_s = START_RETRY_S
        else:
            unresponsive = not reason and await asyncio.to_thread(self._listening)
            self.model.connection = ConnectionState(Link.LOST, reason, unresponsive)
            self._changed()
        await _wait(self._try_now, delay_s)

    async def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                await client.close()

    async def _load(self) -> None:
        """Load what a new view needs; the stream then continues from the last event read here."""
        model = self.model
        page = await self._in_time(calls.events(limit=200))
        if not model.events or not 0 <= page["last_seq"] - (model.last_seq or 0) <= MAX_MISSED_EVENTS:
            model.take_events(page["events"], page["last_seq"])
        with suppress(TqError):  # a supervisor of an earlier version does not know it
            model.take_load(await self._in_time(calls.load()))
        model.take_status(await self._in_time(calls.status()))
        model.connection = ConnectionState(Link.UP)
        self._starting_until = 0.0
        anchor, _ = self._anchor()
        # A picture without the list would delay the one with it.
        without = asyncio.get_running_loop().call_later(LIST_S, self._changed)
        try:
            await self.job_pages.reload(anchor)
        finally:
            without.cancel()
        self._changed()

    async def _in_time(self, call: Call[T]) -> T:
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self.send(call)
        except TimeoutError:
            raise TqError(
                ErrorCode.SUPERVISOR_NOT_RESPONDING, "the supervisor did not answer in time"
            ) from None

    async def _follow(self) -> None:
        """Run the stream and the polls concurrently; the first that ends or fails ends all."""
        duties = self._stream(), self._poll_status(), self._poll_jobs(), self._poll_folders()
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
        assert self._client is not None
        stream = self._client.stream(self.model.last_seq)
        try:
            async for message in stream:
                self._take(message)
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    def _take(self, message: StreamEvent) -> None:
        model = self.model
        model.record_contact()
        match message.name:
            case "progress":
                model.take_progress(cast("list[JobLive]", message.data["jobs"]))
            case "worker":
                model.take_workers(cast("list[WorkerView]", message.data["workers"]))
            case "sources":
                for known in message.data["jobs"]:
                    model.patch_job(known["id"], {"source": known["source"]})
                # The source is known now, so the list can contain an estimate.
                self._jobs_due.set()
            case "event":
                event = cast("EventView", message.data)
                model.take_event(event)
                if event["trigger"] not in CONTROL_REQUESTED:
                    # The place of a changed row in the list is only known to the supervisor.
                    self.refresh_soon()
                if event["trigger"].startswith("folder_"):
                    self.read_folders_soon()
                for listener in list(self.listeners):
                    listener(event)
            case "reset":
                # Events were pruned before they were sent, so nothing loaded is reliable.
                model.events.clear()
                model.last_seq = None
                raise _StartOver
        self._changed()

    async def _poll_status(self) -> None:
        while True:
            busy = bool(self.model.status and self.model.status["jobs"].get("in_progress"))
            await _wait(self._status_due, STATUS_BUSY_S if busy else STATUS_IDLE_S)
            self._status_due.clear()
            self.model.take_status(await self._in_time(calls.status()))
            self._changed()
            await asyncio.sleep(STATUS_MIN_S)

    async def _poll_folders(self) -> None:
        while True:
            self._folders_due.clear()
            self.model.folders = (await self.send(calls.folders()))["folders"]
            self._changed()
            await _wait(self._folders_due, FOLDERS_S)

    async def _poll_jobs(self) -> None:
        while True:
            await self._jobs_due.wait()
            anchor, typing = self._anchor()
            if typing:
                # Rows that move while the user types are worse than rows half a second old.
                await asyncio.sleep(JOBS_MIN_S / 2)
                continue
            self._jobs_due.clear()
            began = monotonic()
            await self.job_pages.reload(anchor)
            self._changed()
            took = monotonic() - began
            await asyncio.sleep(max(JOBS_MIN_S, took / JOBS_SHARE - took))


async def _wait(event: asyncio.Event, at_most_s: float) -> None:
    # Not `asyncio.wait_for`: in Python 3.11 it loses a cancellation that comes with the result.
    with suppress(TimeoutError):
        async with asyncio.timeout(at_most_s):
            await event.wait()

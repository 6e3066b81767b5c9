"""Makes alerts of committed events and lasting conditions, and delivers them.

| step | state after a kill | the next run |
|---|---|---|
| events are committed | they lie after the position | makes their alerts |
| their alerts are stored, with the position after them | they wait | sends them |
| a try is counted | it waits out its backoff | sends it again, unchanged, with the same key |
| it is sent, and recorded | | |

Each channel has a task of its own, so none waits for another; jobs wait for none.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import uuid
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import structlog

from tqstudio.config import Settings
from tqstudio.engine.gates.decide import Waits
from tqstudio.engine.host import failpoints, logging_setup
from tqstudio.engine.host.ages import Ages
from tqstudio.engine.host.clock import MICROSECOND, iso_time, now_us
from tqstudio.engine.parts.part import Part, Periodic
from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.machine import gates
from tqstudio.errors import UNWRITTEN, ErrorCode, TqError
from tqstudio.events import EventKind
from tqstudio.home import Home
from tqstudio.ladder_files import MASTER_NAME
from tqstudio.lifecycle import GateKind
from tqstudio.paths import display
from tqstudio.protocol.answers import CheckView, check_view
from tqstudio.wings.alerts import channels, kinds
from tqstudio.wings.alerts import store as outbox
from tqstudio.wings.alerts.channels import COMMAND, Channel
from tqstudio.wings.alerts.kinds import AlertKind, AlertMessage
from tqstudio.wings.alerts.sender import Sender
from tqstudio.wings.alerts.store import AlertRow, NewAlert, Subject, Unread

_PAGE = 200
_MAX_LAG = 500
_FIRST_WAIT_S = 5.0
_MAX_WAIT_S = 3600.0
_STOP_S = 15.0
"""How long a shutdown waits at most."""
_GIVEN_UP_S = 86_400.0
"""How long an alert is retried."""
OVERDUE_US = 3600 * MICROSECOND
"""How long a channel fails until `doctor` reports it."""
_TICK_S = 5.0
_PRUNE_S = 60.0
_KEPT_US = 7 * 86_400 * MICROSECOND
"""How long alerts are listed."""
_LISTED = 100
_RESULTS = {
    EventKind.COMPLETE: "done",
    EventKind.FAIL_FINAL: "failed",
    EventKind.VIEWABLE: "viewable",
}
"""The events that run a command, and its TQSTUDIO_STATUS."""
_LASTING = (GateKind.DISK, GateKind.LOAD)
"""Gates that no person closes."""


class Alerts(Part):
    """Alerts of a studio; without a configured channel it does nothing.

    Args:
        studio_uuid: UUID of the database.
        low_soon: returns the disks that may be too full soon.
        patient: whether commands may end when it is stopped.
        now: µs since 1970 in UTC.

    Raises:
        TqError: BAD_CONFIG for a wrong setting.
    """

    def __init__(
        self,
        home: Home,
        settings: Settings,
        db: Database,
        studio_uuid: str,
        low_soon: Callable[[], list[Waits]],
        ages: Ages,
        *,
        patient: bool = False,
        now: Callable[[], int] = now_us,
    ) -> None:
        self._home, self._settings, self._db, self._now = home, settings, db, now
        self._studio_uuid, self._low_soon, self._ages = uuid.UUID(studio_uuid), low_soon, ages
        self._longest_us = int(max(_MAX_WAIT_S, settings.alert_cooldown_s) * MICROSECOND)
        self._channels = channels.of(settings)
        self._kinds = kinds.chosen(settings.alert_kinds)
        self._remote = [channel for channel in self._channels if channel.name != COMMAND]
        causes = kinds.causes(self._kinds) if self._remote else frozenset()
        commands = {
            "done": settings.on_done,
            "failed": settings.on_failed,
            "viewable": settings.on_viewable,
        }
        self._runs: dict[str, str] = {event: status for event, status in _RESULTS.items() if commands[status]}
        self._causes = causes | {event for event in _RESULTS if event in self._runs}
        self.triggers = self._causes
        self.every: Sequence[Periodic] = (Periodic(_PRUNE_S, self.prune, at_once=True),)
        self._patient = patient
        if self.active:
            self.every += (Periodic(_TICK_S, self.tick),)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """The running task that makes alerts, and that of each channel."""
        self._again: set[str] = set()
        """Tasks that were woken while they ran."""
        self._running = False
        self._log = structlog.get_logger()

    @property
    def active(self) -> bool:
        """Whether any channel is configured."""
        return bool(self._channels)

    async def start(self) -> None:
        """Continue after the last event that alerts were made of; the first time, after the newest."""
        self._running = self.active
        if self.active or await self._db.read(outbox.position) is not None:
            await self._db.write(_begin, [channel.name for channel in self._channels])
        self._wake("make", self._make)

    def on_events(self, _events: Sequence[EventRow]) -> None:
        """Make alerts of events that were committed."""
        self._wake("make", self._make)

    async def tick(self) -> None:
        """Make the alerts of conditions that last, and send what is due."""
        found = await self._conditions() if self._remote else []
        if found:
            await self._db.write(self._store_all, found, self._now())
        self._wake("make", self._make)

    async def prune(self) -> None:
        """Delete alerts that were sent or given up long ago."""
        old = self._ages.before(0) - _KEPT_US
        await self._db.write(lambda db: outbox.prune(db, before=old))

    async def checks(self) -> list[CheckView]:
        """Report channels that have failed for long."""
        late = self._now() - OVERDUE_US
        return [
            check_view(
                f"alerts {alert.channel}",
                "warn",
                f"none was accepted since {iso_time(alert.due_at)}: {alert.error}",
                "try: tqstudio alert test",
            )
            for alert in await self._db.read(outbox.overdue, before=late)
        ]

    async def newest(self) -> list[AlertRow]:
        """Return the newest alerts, newest first."""
        return await self._db.read(outbox.listing, limit=_LISTED)

    async def stop(self) -> None:
        """Send what is due, for a moment; the rest stays stored."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(_STOP_S, self._settings.alert_timeout_s)):
                while self._tasks:
                    await asyncio.wait(list(self._tasks.values()))
        if self._patient and (commands := self._tasks.get(COMMAND)) is not None:
            await asyncio.wait([commands], timeout=self._settings.command_timeout_s)
        self._running = False
        left = list(self._tasks.values())
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        # A kind that is switched on before the next start is for later events alone.
        with contextlib.suppress(TqError):
            unread = await self._db.search(outbox.unread, self._causes, limit=_PAGE)
            if unread.lag and not unread.events:
                await self._db.write(outbox.move_position, unread.through)

    def _wake(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._again.add(name)
        if name not in self._tasks and self._running:
            self._tasks[name] = asyncio.create_task(self._run(name, work), name=f"alerts {name}")

    async def _run(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            while name in self._again:
                self._again.discard(name)
                await work()
        except TqError as error:
            if error.code not in UNWRITTEN:
                self._log.exception("alerts failed")
        except Exception:
            self._log.exception("alerts failed")
        finally:
            del self._tasks[name]

    # Making

    async def _make(self) -> None:
        full = True
        while full:
            unread = await self._db.search(outbox.unread, self._causes, limit=_PAGE)
            # Other events are skipped now and then, so that they are not read again and again.
            if unread.events or unread.lag > _MAX_LAG:
                failpoints.reach("alert.making")
                await self._db.write(self._store_events, unread)
                failpoints.reach("alert.stored")
            full = len(unread.events) == _PAGE
        for channel in self._channels:
            self._wake(channel.name, partial(self._deliver, channel))

    def _store_events(self, db: Connection, unread: Unread) -> None:
        now = self._now()
        for event in unread.events:
            subject = None if event.job is None else outbox.subject_of(db, event.job)
            times = 0
            if event.video is not None and event.trigger == EventKind.FAIL_FINAL:
                times = outbox.times_failed(db, event.video, through=event.seq)
            kind = kinds.kind_of(event, self._kinds, times=times) if self._remote else None
            if kind is not None:
                redact = logging_setup.roots().names
                self._store(db, kinds.of_event(event, kind, subject, times=times, redact=redact), now)
            status = self._runs.get(event.trigger)
            if status is not None and subject is not None:
                facts = json.dumps(_environment(event, subject, status))
                new = NewAlert(f"event-{event.seq}", status, f"event:{event.seq}", facts)
                outbox.add(db, new, channel=COMMAND, now=now, cooldown_us=0)
        outbox.move_position(db, unread.through)

    async def _conditions(self) -> list[AlertMessage]:
        now, redact = self._now(), logging_setup.roots().names
        found: list[AlertMessage] = []
        if AlertKind.GATE in self._kinds:
            lasting = now - int(self._settings.gate_alert_s * MICROSECOND)
            found += (
                kinds.of_gate(gate, redact)
                for gate in await self._db.read(gates.listing)
                if gate.kind in _LASTING and gate.since <= lasting
            )
        if AlertKind.DISK in self._kinds:
            for disk in self._low_soon():
                path, free, needed = display(disk.path), disk.free, disk.needed
                found.append(kinds.of_disk(path, free, needed, now=now, redact=redact))
        known = await self._db.read(outbox.known, [message.key for message in found]) if found else set()
        return [message for message in found if message.key not in known]

    def _store_all(self, db: Connection, found: Sequence[AlertMessage], now: int) -> None:
        for message in found:
            self._store(db, message, now)

    def _store(self, db: Connection, message: AlertMessage, now: int) -> None:
        payload = json.dumps(message.payload | {"studio": os.uname().nodename})
        new = NewAlert(message.key, message.kind.value, message.subject, payload)
        cooldown_us = int(self._settings.alert_cooldown_s * MICROSECOND)
        for channel in self._remote:
            outbox.add(db, new, channel=channel.name, now=now, cooldown_us=cooldown_us)

    # Delivering

    async def _deliver(self, channel: Channel) -> None:
        """Send all that is due, one after the other."""
        sender: Sender | None = None
        try:
            while due := await self._next_due(channel):
                # A later alert may have replaced it meanwhile.
                row = await self._db.write(outbox.begin, due.id, retry_at=self._after(due.tries))
                failpoints.reach("alert.begun")
                try:
                    if sender is None or not sender.alive:
                        sender = await Sender.start(self._home, channel)
                    error = await sender.send(self._key(row.key), _body(row))
                except OSError as failure:
                    error = str(failure)
                failpoints.reach("alert.sent")
                await self._record(channel, row, error)
        finally:
            if sender is not None:
                await sender.kill()

    async def _next_due(self, channel: Channel) -> AlertRow | None:
        now, longest_us = self._now(), self._longest_us
        return await self._db.read(outbox.next_due, channel.name, now=now, longest_us=longest_us)

    async def _record(self, channel: Channel, row: AlertRow, error: str | None) -> None:
        now = self._now()
        if error is None:
            await self._db.write(outbox.sent, row.id, now=now)
            return
        error = logging_setup.roots().relative(error)
        next_at: int | None = self._after(row.tries - 1)
        old = self._ages.before(int(_GIVEN_UP_S * MICROSECOND))
        if channel.name == COMMAND or row.due_at <= old:
            next_at = None
        await self._db.write(outbox.not_sent, row.id, error, next_at=next_at)
        facts = {"channel": channel.name, "kind": row.kind, "tries": row.tries}
        self._log.warning("alert not sent", **facts, error=error)

    def _after(self, tries: int) -> int:
        """When to try again after a number of earlier tries."""
        return self._now() + int(_wait_s(tries) * MICROSECOND)

    def _key(self, key: str) -> str:
        return str(uuid.uuid5(self._studio_uuid, key))

    async def test(self) -> list[tuple[str, str | None]]:
        """Send a test alert to every channel but commands; returns the name and the error of each."""
        at, key = iso_time(self._now()), str(uuid.uuid4())
        body: dict[str, Any] = {"kind": "test", "at": at, "text": "this is a test alert", "hint": ""}
        body |= dict.fromkeys(("job", "video", "name", "code"))
        body |= {"studio": os.uname().nodename, "suppressed": 0}

        async def send(channel: Channel) -> tuple[str, str | None]:
            try:
                sender = await Sender.start(self._home, channel)
            except OSError as error:
                return channel.name, str(error)
            try:
                return channel.name, await sender.send(key, body)
            finally:
                await sender.kill()

        if not self._remote:
            raise TqError(
                ErrorCode.REFUSED,
                "there is no channel for alerts",
                "set alert_webhook or alert_apprise, and restart the supervisor",
            )
        return await asyncio.gather(*map(send, self._remote))


def _begin(db: Connection, names: Sequence[str]) -> None:
    outbox.give_up_others(db, names)
    if not names:
        outbox.move_position(db, None)
    elif outbox.position(db) is None:
        outbox.move_position(db, events.bounds(db)[1])


def _wait_s(tries: int) -> float:
    return min(_MAX_WAIT_S, _FIRST_WAIT_S * 2.0 ** min(tries, 20))


def _body(row: AlertRow) -> dict[str, Any]:
    """What is sent: the same in every try."""
    body: dict[str, Any] = json.loads(row.payload)
    if row.channel == COMMAND:
        return body
    if row.suppressed:
        body["text"] += f" (and {row.suppressed} more)"
    return body | {"suppressed": row.suppressed}


def _environment(event: EventRow, subject: Subject, status: str) -> dict[str, str]:
    """The facts that a command gets, with whole paths."""
    master = os.path.join(os.fsdecode(subject.output_root), subject.slug, MASTER_NAME)
    facts = {
        "JOB": str(event.job),
        "VIDEO": str(event.video),
        "NAME": subject.name,
        "SOURCE": os.fsdecode(subject.source),
        "MASTER": master if status in ("done", "viewable") else "",
        "STATUS": status,
        "ERROR_CODE": event.code or "",
        "ERROR": (event.detail or "") if status == "failed" else "",
    }
    return {f"TQSTUDIO_{name}": value for name, value in facts.items()}

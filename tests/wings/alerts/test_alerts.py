"""Alerts on their way to real servers: retried, signed, held back, refused; the clock is the test's."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import os
import shlex
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from certificates import certificate
from harness import until_ended
from store.conftest import SECOND, Queue
from tqstudio.config import Settings
from tqstudio.engine.files.volumes import Volume
from tqstudio.engine.gates.decide import MeasuredPath, Use, Volumes, VolumeState, low_soon
from tqstudio.engine.host import logging_setup
from tqstudio.engine.host.ages import Ages
from tqstudio.engine.host.clock import RunningClock
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import outcomes
from tqstudio.engine.store.machine import gates
from tqstudio.errors import ErrorCode, TqError
from tqstudio.events import EventKind
from tqstudio.home import Home
from tqstudio.lifecycle import GateKind, Operation
from tqstudio.wings.alerts import channels, deliver, kinds
from tqstudio.wings.alerts import store as outbox
from tqstudio.wings.alerts.kinds import KINDS, AlertKind
from tqstudio.wings.alerts.part import OVERDUE_US, Alerts
from tqstudio.wings.alerts.store import AlertRow
from waiting import until_true

from .receiver import Receiver, serving

T = TypeVar("T")
STUDIO = "6f4f3b0e-3c1c-4a52-8d57-0d3d4b0f0f01"
DAY_S = 86_400


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with serving() as receiver:
        yield receiver


class Office:
    """Alerts on a database of their own, with a clock in the test's hands."""

    def __init__(self, home: Home, db: Database) -> None:
        self.home, self.db = home, db
        self.now = 1_800_000_000 * SECOND
        self.ahead = 0
        """How far the wall clock was set ahead since."""
        self.disks: list[Any] = []
        self._made = 0

    def alerts(self, **settings: Any) -> Alerts:
        chosen = Settings(**{"alert_private": True, "alert_timeout_s": 30} | settings)
        running = RunningClock(SECOND)
        ages = Ages(self.home.clock, running, wall=lambda: self.now + self.ahead, boot=lambda: self.now)
        disks, now = (lambda: self.disks), (lambda: self.now + self.ahead)
        return Alerts(self.home, chosen, self.db, STUDIO, disks, ages, now=now)

    def wait(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)

    def do(self, what: Callable[[Queue], T]) -> T:
        def run(db: Connection) -> T:
            queue = Queue(db)
            queue.now, queue._made = self.now, self._made
            result = what(queue)
            self._made = queue._made
            return result

        return self.db.write_now(run)

    def fails(self, job: int | None = None) -> int:
        """A job that fails for good; an earlier one is retried."""
        return self.do(lambda queue: _fails(queue, job))

    def rows(self) -> list[AlertRow]:
        """All alerts, oldest first."""
        return self.db.read_now(outbox.listing, limit=1000)[::-1]


def _fails(queue: Queue, job: int | None) -> int:
    if job is not None:
        queue.do(job, Operation.RETRY)
    lease = queue.claimed() if job is None else queue.claim()
    assert lease is not None
    queue.fail(lease, ErrorCode.NO_MEDIA, "it has no video")
    return lease.job


@pytest.fixture
def office(home: Home, opened: Database) -> Office:
    return Office(home, opened)


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run a test's coroutine in a loop of its own."""

    async def main() -> T:
        return await work()

    return asyncio.run(main())


async def settled(alerts: Alerts) -> None:
    """Make and send all that is due, as the supervisor does every few seconds."""
    await alerts.tick()
    await until_true(lambda: not alerts._tasks)


def fail_and_send(office: Office, alerts: Alerts) -> None:
    """Let a job fail, and send what is due."""

    async def work() -> None:
        await alerts.start()
        office.fails()
        await settled(alerts)

    run(work)


# Delivery


@pytest.mark.fault(
    "The receiver of alerts fails for hours",
    "Retried for a day, unchanged and with the same key",
    area="alerts",
)
def test_a_failing_server_gets_the_same_request_again(office: Office, receiver: Receiver) -> None:
    receiver.status = lambda number: 500 if number < 3 else 200
    alerts = office.alerts(alert_webhook=receiver.url, alert_secret="s3cret")

    async def work() -> None:
        await alerts.start()
        office.fails()
        await settled(alerts)
        assert [(row.tries, row.error) for row in office.rows()] == [(1, "it answered 500")]
        await settled(alerts)
        assert len(receiver.received) == 1, "the backoff is waited out"
        for wait_s in (5, 10, 20):
            office.wait(wait_s)
            await settled(alerts)

    run(work)
    [row] = office.rows()
    assert (row.tries, row.error, row.sent_at) == (4, None, office.now)
    assert len(receiver.received) == 4
    assert len({request.key for request in receiver.received}) == 1
    assert len({request.raw for request in receiver.received}) == 1
    for request in receiver.received:
        at = request.headers["x-tqstudio-timestamp"].encode()
        digest = hmac.new(b"s3cret", at + b"." + request.raw, hashlib.sha256).hexdigest()
        assert request.headers["x-tqstudio-signature"] == f"sha256={digest}"
        assert request.headers["content-type"] == "application/json"
    body = receiver.received[0].body
    assert body == {
        "kind": "failed",
        "at": "2027-01-15T08:00:00.000+00:00",
        "text": "clip 1.mp4 failed: NO_MEDIA: it has no video",
        "hint": "mend it",
        "job": 1,
        "video": 1,
        "name": "clip 1.mp4",
        "code": "NO_MEDIA",
        "studio": os.uname().nodename,
        "suppressed": 0,
    }


@pytest.mark.slow
def test_after_a_day_it_is_given_up(office: Office) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    alerts = office.alerts(alert_webhook=f"http://127.0.0.1:{port}/")
    tries = 0

    async def work() -> None:
        nonlocal tries
        await alerts.start()
        office.fails()
        began = office.now
        await settled(alerts)
        while (next_at := office.rows()[0].next_at) is not None:
            tries += 1
            # A day has some thirty tries; most of them are skipped.
            office.now = max(next_at, min(office.now + 8 * 3600 * SECOND, began + DAY_S * SECOND))
            await settled(alerts)
        assert office.now - began == DAY_S * SECOND

    run(work)
    [row] = office.rows()
    assert row.sent_at is None
    assert "Connection refused" in (row.error or "")
    assert tries == 3


def test_the_waits_between_tries_of_a_day() -> None:
    from tqstudio.wings.alerts.part import _wait_s

    assert [_wait_s(tries) for tries in (0, 1, 2, 8, 9, 10, 10_000)] == [5, 10, 20, 1280, 2560, 3600, 3600]


@pytest.mark.slow
@pytest.mark.fault(
    "The receiver of alerts accepts connections and answers nothing",
    "The sending process is killed after `alert_timeout_s`; no job waits",
    area="alerts",
)
def test_a_hanging_server_is_given_up(office: Office, receiver: Receiver) -> None:
    receiver.free.clear()
    alerts = office.alerts(alert_webhook=receiver.url, alert_timeout_s=1)

    async def work() -> None:
        await alerts.start()
        office.fails()
        await alerts.tick()
        await until_true(lambda: not alerts._tasks)

    run(work)
    [row] = office.rows()
    assert row.error
    assert not [child for child in psutil.Process().children() if "deliver" in " ".join(child.cmdline())]


@pytest.mark.slow
def test_a_hanging_server_holds_up_no_other_channel(office: Office, receiver: Receiver) -> None:
    with serving() as other:
        receiver.free.clear()
        urls = {"alert_webhook": receiver.url, "alert_apprise": f"json://127.0.0.1:{other.port}/"}
        alerts = office.alerts(**urls, alert_timeout_s=60)

        async def work() -> None:
            await alerts.start()
            office.fails()
            await alerts.tick()
            await until_true(lambda: other.received and receiver.received)
            assert len(alerts._tasks) > 0, "the first is still tried"
            receiver.free.set()
            await until_true(lambda: not alerts._tasks)

        run(work)
        assert {row.channel.partition("-")[0]: row.error for row in office.rows()} == {
            "webhook": None,
            "json": None,
        }


def test_an_endless_answer_is_not_read(office: Office) -> None:
    """The head alone says that it was accepted."""
    alerts_seen = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        alerts = office.alerts(alert_webhook=f"http://127.0.0.1:{server.getsockname()[1]}/")

        async def work() -> None:
            await alerts.start()
            office.fails()
            await alerts.tick()
            loop = asyncio.get_running_loop()
            server.setblocking(False)
            connection, _ = await loop.sock_accept(server)
            await loop.sock_sendall(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\nxx")
            await until_true(lambda: not alerts._tasks)
            alerts_seen.extend(office.rows())
            connection.close()

        run(work)
    assert [row.error for row in alerts_seen] == [None]


@pytest.mark.fault(
    "A receiver of alerts shows a certificate of no known authority, or of another host",
    "Nothing is sent there; the alert is retried",
    area="security",
)
@pytest.mark.parametrize(
    ("name", "is_known", "error"),
    [
        ("localhost", True, None),
        ("localhost", False, "self-signed certificate"),
        ("elsewhere.test", True, "certificate is not valid for 'localhost'"),
    ],
)
def test_a_certificate_is_verified(
    office: Office,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    is_known: bool,
    error: str | None,
) -> None:
    cert, key = certificate(tmp_path, name)
    if is_known:
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    with serving((cert, key)) as receiver:
        alerts = office.alerts(alert_webhook=f"https://localhost:{receiver.port}/hook")
        fail_and_send(office, alerts)
    [row] = office.rows()
    if error is None:
        assert (row.error, len(receiver.received)) == (None, 1)
    else:
        assert error in (row.error or "")
        assert (row.sent_at, receiver.received) == (None, [])


def test_apprise_delivers(office: Office, receiver: Receiver) -> None:
    secret = f"json://user:pa55word@127.0.0.1:{receiver.port}/notify"
    alerts = office.alerts(alert_apprise=f"{secret} nothing://known")
    fail_and_send(office, alerts)
    [request] = receiver.received
    assert request.body["message"] == "clip 1.mp4 failed: NO_MEDIA: it has no video\nmend it"
    assert request.body["title"].endswith(": failed")
    sent, unknown = sorted(office.rows(), key=lambda row: row.error or "")
    assert sent.error is None
    assert unknown.error == "apprise knows no such service, or its URL is incomplete"
    assert "pa55word" not in str(office.rows())


def test_apprise_is_needed_where_it_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "find_spec", lambda _: None)
    with pytest.raises(TqError, match="not installed") as raised:
        channels.of(Settings(alert_apprise="json://example.org"))
    assert "tqstudio[alerts]" in raised.value.hint
    assert channels.of(Settings(alert_webhook="https://example.org")) != []


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"alert_webhook": "example.org/s3cret"}, "alert_webhook"),
        ({"alert_webhook": "ftp://example.org/s3cret"}, "alert_webhook"),
        ({"alert_webhook": "http://[s3cret"}, "alert_webhook"),
        ({"alert_webhook": "http://example.org:s3cret/"}, "alert_webhook"),
        ({"alert_kinds": "failed, everything"}, "everything"),
        ({"on_done": "mail 's3cret"}, "on_done"),
    ],
)
def test_wrong_settings(office: Office, settings: dict[str, Any], what: str) -> None:
    with pytest.raises(TqError, match=what) as raised:
        office.alerts(**settings)
    assert raised.value.code is ErrorCode.BAD_CONFIG
    assert "s3cret" not in f"{raised.value} {raised.value.hint}"


# Where alerts must not go


@pytest.mark.parametrize("channel", ["alert_webhook", "alert_apprise"])
def test_no_redirect_is_followed(office: Office, receiver: Receiver, channel: str) -> None:
    with serving() as inner:
        receiver.status, receiver.headers = lambda _: 307, {"Location": inner.url}
        scheme = "http" if channel == "alert_webhook" else "json"
        alerts = office.alerts(**{channel: f"{scheme}://127.0.0.1:{receiver.port}/"})
        fail_and_send(office, alerts)
        assert len(receiver.received) == 1
        assert inner.received == []
    [row] = office.rows()
    assert row.sent_at is None
    if channel == "alert_webhook":
        assert row.error == "it answered 307; redirects are not followed"


@pytest.mark.fault(
    "A receiver of alerts resolves to a private address, or redirects to one",
    "Nothing is sent there, unless `alert_private` is set",
    area="security",
)
@pytest.mark.parametrize("channel", ["alert_webhook", "alert_apprise"])
@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f000001", "0177.1", "127.1"],
)
def test_private_addresses_are_refused(office: Office, receiver: Receiver, channel: str, host: str) -> None:
    """`localhost` is a name that resolves to a private address."""
    scheme = "http" if channel == "alert_webhook" else "json"
    alerts = office.alerts(**{channel: f"{scheme}://{host}:{receiver.port}/"}, alert_private=False)
    fail_and_send(office, alerts)
    assert receiver.received == []
    [row] = office.rows()
    assert row.sent_at is None
    if channel == "alert_webhook":
        assert "no public address; alert_private = true allows it" in (row.error or "")


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("9.9.9.9", True),
        ("2620:fe::9", True),
        ("::ffff:9.9.9.9", True),
        ("127.8.9.1", False),
        ("0.0.0.0", False),
        ("10.1.2.3", False),
        ("172.31.0.1", False),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("ff02::1", False),
        ("::7f00:1", False),
        ("::ffff:0:10.0.0.1", False),
        ("fec0::1", False),
        ("64:ff9b::a00:1", False),
        ("64:ff9b:1::a00:1", False),
        ("2002:a00:1::", False),
        ("/run/docker.sock", False),
        ("example.org", False),
        (b"/run/docker.sock", False),
    ],
)
def test_public_addresses(address: Any, public: bool) -> None:
    assert deliver._is_public(address) is public


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",  # AWS, Azure, DigitalOcean, Google, Hetzner, OpenStack, Oracle
        "169.254.170.2",  # containers of AWS
        "169.254.0.23",  # Tencent
        "100.100.100.200",  # Alibaba
        "168.63.129.16",  # Azure
        "192.0.0.192",  # Oracle
    ],
)
@pytest.mark.parametrize(
    "form",
    ["{}", "::ffff:{}", "::{}", "::ffff:0:{}", "64:ff9b::{}", "64:ff9b:1::{}", "2002:{:x}:{:x}::", "{:d}"],
)
def test_metadata_of_clouds_are_private_in_every_form(address: str, form: str) -> None:
    number = int(ipaddress.IPv4Address(address))
    arguments = {"{:d}": (number,), "2002:{:x}:{:x}::": (number >> 16, number & 0xFFFF)}.get(form, (address,))
    assert not deliver._is_public(form.format(*arguments))


@pytest.mark.parametrize("address", ["fd00:ec2::254", "fd20:ce::254", "fd00:ec2::23", "fe80::a9fe:a9fe%eth0"])
def test_metadata_of_clouds_on_ipv6_are_private(address: str) -> None:
    assert not deliver._is_public(address)


def test_the_sending_process_has_no_secret_in_argv_or_environment(
    office: Office, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    receiver.free.clear()
    secrets = {"alert_webhook": f"{receiver.url}/t0ken", "alert_secret": "s3cret"}
    alerts = office.alerts(**secrets)
    seen: list[str] = []

    async def work() -> None:
        await alerts.start()
        office.fails()
        await alerts.tick()
        await until_true(lambda: receiver.received)
        for child in psutil.Process().children():
            if "deliver" in " ".join(child.cmdline()):
                seen.append(" ".join([*child.cmdline(), *child.environ().values()]))
        receiver.free.set()
        await until_true(lambda: not alerts._tasks)

    run(work)
    assert len(seen) == 1
    logged = office.home.alerts_log.read_text() + str(office.rows())
    assert not any(secret in seen[0] + logged for secret in ("t0ken", "s3cret"))


# What becomes an alert


@pytest.mark.slow
def test_what_is_suppressed_is_counted_in_the_next_one(office: Office, receiver: Receiver) -> None:
    alerts = office.alerts(alert_webhook=receiver.url, alert_kinds="failed")

    async def work() -> None:
        await alerts.start()
        job = office.fails()
        await settled(alerts)
        for _ in range(13):
            office.wait(10)
            office.fails(job)
            await settled(alerts)
        office.fails()
        await settled(alerts)
        office.wait(300)
        await settled(alerts)

    run(work)
    assert [(each.body["text"][:10], each.body["suppressed"]) for each in receiver.received] == [
        ("clip 1.mp4", 0),
        ("clip 2.mp4", 0),
        ("clip 1.mp4", 12),
    ]
    assert receiver.received[-1].body["text"].endswith(" (and 12 more)")


@pytest.mark.slow
def test_a_video_that_fails_again(office: Office, receiver: Receiver) -> None:
    alerts = office.alerts(alert_webhook=receiver.url)

    async def work() -> None:
        await alerts.start()
        job = office.fails()
        await settled(alerts)
        office.fails(job)
        await settled(alerts)

    run(work)
    assert [each.body["kind"] for each in receiver.received] == ["failed", "repeated"]
    assert "failed 2 times: NO_MEDIA" in receiver.received[1].body["text"]


def test_a_stale_job_that_was_recovered(office: Office, receiver: Receiver) -> None:
    alerts = office.alerts(alert_webhook=receiver.url)

    async def work() -> None:
        await alerts.start()
        lease = office.do(lambda queue: queue.claimed())
        how = {"now": office.now, "worker": "cpu-0", "why": "the lease expired"}
        office.db.write_now(outcomes.lose, lease, **how, event=EventKind.REQUEUED_STALE)
        await settled(alerts)

    run(work)
    [request] = receiver.received
    assert request.body["text"] == "clip 1.mp4 was requeued: the lease expired"
    assert (request.body["kind"], request.body["code"]) == ("recovered", "WORKER_LOST")


def test_kinds_that_are_off_by_default(office: Office, receiver: Receiver) -> None:
    def happens(queue: Queue) -> None:
        lease = queue.claimed(queue.worker("cpu-7"))
        assert queue.complete(lease)

    for setting, expected in (("", []), ("done,worker_up", ["worker_up", "done"])):
        alerts = office.alerts(alert_webhook=receiver.url, alert_kinds=setting)

        async def work(alerts: Alerts = alerts) -> None:
            await alerts.start()
            office.do(happens)
            await settled(alerts)
            await alerts.stop()

        run(work)
        assert [each.body["kind"] for each in receiver.received] == expected
    texts = [each.body["text"] for each in receiver.received]
    assert texts == ["worker cpu-7 is up", "clip 2.mp4 is done"]


def test_a_clock_that_jumps_ahead_gives_no_alert_up(office: Office, receiver: Receiver) -> None:
    alerts = office.alerts(alert_webhook=receiver.url)
    receiver.status = lambda _: 503

    async def work() -> None:
        await alerts.start()
        office.fails()
        await settled(alerts)
        office.ahead = 50 * 365 * DAY_S * SECOND
        await settled(alerts)
        receiver.status = lambda _: 204
        office.wait(3600)
        await settled(alerts)

    run(work)
    assert len(receiver.received) == 3, "refused, refused after the jump, accepted"


def test_a_gate_that_is_shut_for_long(office: Office, receiver: Receiver) -> None:
    alerts = office.alerts(alert_webhook=receiver.url, gate_alert_s=600)
    why = "the disk of /srv/films has 1 MB free"

    async def work() -> None:
        await alerts.start()
        for kind in GateKind:
            shut = {"now": office.now, "actor": "supervisor"}
            office.db.write_now(gates.shut, kind, f"{why} ({kind})", **shut)
        office.wait(599)
        await settled(alerts)
        assert receiver.received == []
        office.wait(1)
        for _ in range(3):
            await settled(alerts)
            office.wait(3600)
        assert len(receiver.received) == 2, "once while it is shut, and never for a person's pause"

    logging_setup.know("/srv")
    run(work)
    disk, load = sorted(receiver.received, key=lambda each: each.body["code"] or "~")
    assert disk.body["text"] == (
        "no job has started since 2027-01-15T08:00:00.000+00:00: the disk of films has 1 MB free (disk)"
    )
    assert (disk.body["code"], load.body["code"]) == ("DISK_LOW", None)


def test_of_a_path_below_no_known_folder_only_the_name_is_sent(office: Office, receiver: Receiver) -> None:
    """A video that was added from anywhere, a mount above an output."""
    alerts = office.alerts(alert_webhook=receiver.url)

    async def work() -> None:
        await alerts.start()
        office.do(
            lambda queue: queue.fail(
                queue.claimed(),
                ErrorCode.SOURCE_MISSING,
                "/mnt/new films/of ada/a b.mp4 is gone from /mnt/new",
            )
        )
        await settled(alerts)

    run(work)
    assert [each.body["text"] for each in receiver.received] == [
        "clip 1.mp4 failed: SOURCE_MISSING: a b.mp4 is gone from new"
    ]


def test_a_disk_that_is_low_soon(office: Office, receiver: Receiver) -> None:
    alerts = office.alerts(alert_webhook=receiver.url)
    settings = Settings(disk_reserve_bytes=1_000_000_000)

    def disk(free: int, use: Use = Use.OUTPUT) -> Any:
        space = Volume(device=1, free=free, total=9_000_000_000, files=None)
        place = MeasuredPath(use, b"/srv/films")
        return low_soon(Volumes(MeasuredPath(Use.HOME, b"/h"), 0, {place: VolumeState(space)}), settings)

    assert not disk(2_000_000_000)
    assert not disk(1, Use.SOURCE)
    assert not disk(320_000_000, Use.HOME)
    assert disk(319_999_999, Use.HOME)
    office.disks = disk(1_999_999_999)

    async def work() -> None:
        await alerts.start()
        for _ in range(5):
            await settled(alerts)
            office.wait(8 * 3600)

    logging_setup.know("/srv/films")
    run(work)
    assert len(receiver.received) == 2, "once a day"
    assert (
        receiver.received[0].body["text"] == "the disk of films has 2.0 GB free; no job starts below 1.0 GB"
    )


def test_what_happened_before_alerts_were_on_is_no_alert(office: Office, receiver: Receiver) -> None:
    first, on = office.alerts(), {"alert_webhook": receiver.url}

    async def work() -> None:
        await first.start()
        job = office.fails()
        second = office.alerts(**on)
        await second.start()
        await settled(second)
        assert receiver.received == []
        await second.stop()
        office.fails(job)
        third = office.alerts(**on)
        await third.start()
        await until_true(lambda: receiver.received)
        await until_true(lambda: not third._tasks)
        # While they are off nothing is collected.
        await office.alerts().start()
        office.fails(job)
        fourth = office.alerts(**on)
        await fourth.start()
        await settled(fourth)

    run(work)
    assert [each.body["kind"] for each in receiver.received] == ["repeated"]


def test_what_waits_for_a_service_that_was_removed_is_given_up(office: Office, receiver: Receiver) -> None:
    receiver.status = lambda _: 500
    alerts = office.alerts(alert_webhook=receiver.url)

    async def work() -> None:
        await alerts.start()
        office.fails()
        await settled(alerts)
        await office.alerts(on_failed="true").start()

    run(work)
    [row] = office.rows()
    assert (row.next_at, row.error) == (None, "its channel is not configured any more")


def test_a_channel_that_fails_for_long_is_found(office: Office, receiver: Receiver) -> None:
    receiver.status = lambda _: 503
    alerts = office.alerts(alert_webhook=receiver.url)
    fail_and_send(office, alerts)
    late = office.now + OVERDUE_US + 1
    [row] = office.db.read_now(outbox.overdue, before=late - OVERDUE_US)
    assert row.error == "it answered 503"


def test_every_kind_has_its_words() -> None:
    assert set(KINDS) == set(AlertKind)
    assert kinds.chosen("") == {kind for kind in AlertKind if KINDS[kind].default}
    assert kinds.chosen(" done , failed,") == {AlertKind.DONE, AlertKind.FAILED}


# Commands


def _script(folder: Path, text: str) -> str:
    """The command line of a Python program."""
    script = folder / "a script.py"
    script.write_text(text)
    return shlex.join([sys.executable, str(script)])


FACTS = """
import json, os, sys
print("output of the command", flush=True)
out = sys.argv[0] + ".out"
assert not os.path.exists(out + ".lock"), "two at a time"
open(out + ".lock", "w").close()
with open(out, "a") as f:
    print(json.dumps({k: v for k, v in os.environ.items() if k.startswith("TQSTUDIO_")}), file=f)
os.remove(out + ".lock")
"""


def test_a_command_gets_the_facts(office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TQSTUDIO_ALERT_SECRET", "s3cret")
    command = _script(tmp_path, FACTS)
    alerts = office.alerts(on_failed=command, on_done="")

    async def work() -> None:
        await alerts.start()
        jobs = [office.fails() for _ in range(3)]
        office.fails(jobs[0])
        office.do(lambda queue: queue.complete(queue.claimed()))
        await settled(alerts)

    run(work)
    got = [json.loads(line) for line in (tmp_path / "a script.py.out").read_text().splitlines()]
    assert [each["TQSTUDIO_JOB"] for each in got] == ["1", "2", "3", "1"], "no cool-down"
    assert got[0] == {
        "TQSTUDIO_HOME": str(office.home.root),
        "TQSTUDIO_JOB": "1",
        "TQSTUDIO_VIDEO": "1",
        "TQSTUDIO_NAME": "clip 1.mp4",
        "TQSTUDIO_SOURCE": "/in/1/clip 1.mp4",
        "TQSTUDIO_MASTER": "",
        "TQSTUDIO_STATUS": "failed",
        "TQSTUDIO_ERROR_CODE": "NO_MEDIA",
        "TQSTUDIO_ERROR": "it has no video",
    }
    assert "output of the command" in office.home.alerts_log.read_text()


@pytest.mark.parametrize(
    ("text", "timeout_s", "error"),
    [
        ("raise SystemExit(7)", 60, "it ended with status 7"),
        (
            "import subprocess, sys, time\n"
            "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
            "open(sys.argv[0] + '.pid', 'w').write(str(child.pid))\n"
            "time.sleep(600)",
            3,
            "it did not end within 3 s",
        ),
    ],
)
def test_a_command_that_fails_is_not_repeated(
    office: Office, tmp_path: Path, text: str, timeout_s: int, error: str
) -> None:
    alerts = office.alerts(on_failed=_script(tmp_path, text), command_timeout_s=timeout_s)

    async def work() -> None:
        await alerts.start()
        office.fails()
        await settled(alerts)
        office.wait(DAY_S)
        await settled(alerts)

    run(work)
    [row] = office.rows()
    assert (row.tries, row.error, row.next_at) == (1, error, None)
    child = tmp_path / "a script.py.pid"
    if child.exists():
        until_ended([int(child.read_text())])


def test_a_command_that_does_not_exist(office: Office) -> None:
    alerts = office.alerts(on_failed="/no/such/program")
    fail_and_send(office, alerts)
    assert "No such file" in (office.rows()[0].error or "")

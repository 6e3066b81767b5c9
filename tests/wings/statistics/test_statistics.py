"""Statistics through the API: days of local time, groups, and what is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from engine.conftest import Desk
from engine.test_api import report
from engine.test_completion import bench_of, complete, ladder
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol import calls
from tqstudio.protocol.calls import Call
from tqstudio.wings.statistics.api import local_days, local_hours

HOUR = 3_600 * 1_000_000


@pytest.fixture(params=["Europe/Berlin", "America/Santiago", "Asia/Kathmandu", "UTC"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ZoneInfo]:
    """The local time zone. In Santiago a midnight of spring does not exist."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield ZoneInfo(request.param)
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("month", [3, 4, 9, 10])
def test_days_are_those_of_the_local_time_zone(zone: ZoneInfo, month: int) -> None:
    start = int(datetime(2026, month, 1, 7, 30, tzinfo=UTC).timestamp()) * 1_000_000
    end = start + 31 * 24 * HOUR
    days = list(local_days(start, end))
    assert (days[0][1], days[-1][2]) == (start, end)
    assert all(earlier[2] == later[1] for earlier, later in pairwise(days))
    for day, begin, after in days:
        for at in (begin, after - 1):
            assert datetime.fromtimestamp(at / 1_000_000, zone).date().isoformat() == day
    lengths = {(after - begin) // HOUR for _, begin, after in days[1:-1]}
    changes = zone.key == "Europe/Berlin" and month in (3, 10)
    assert lengths == ({23, 24} if month == 3 else {24, 25}) if changes else 24 in lengths


@pytest.mark.parametrize("month", [3, 4, 9, 10])
def test_hours_are_those_of_the_local_clock(zone: ZoneInfo, month: int) -> None:
    start = int(datetime(2026, month, 20, 7, 10, tzinfo=UTC).timestamp()) * 1_000_000
    end = start + 14 * 24 * HOUR
    hours = list(local_hours(start, end))
    assert (hours[0][1], hours[-1][2]) == (start, end)
    assert all(earlier[2] == later[1] for earlier, later in pairwise(hours))
    assert {after - begin for _, begin, after in hours[1:-1]} == {HOUR}
    for name, begin, after in hours:
        for at in (begin, after - 1):
            assert f"{datetime.fromtimestamp(at // 1_000_000, zone):%Y-%m-%d %H:00}" == name


def test_hours_have_the_length_of_the_queue(desk: Desk) -> None:
    before = desk.live.send(calls.statistics("hour"))
    desk.job()
    running, _ = desk.running()
    view = desk.live.send(calls.statistics("hour"))
    assert view["by"] == "hour"
    assert len(view["rows"]) == 48
    assert view["rows"][-1]["key"] in (f"{datetime.now():%Y-%m-%d %H:00}", before["rows"][-1]["key"])
    counts = desk.live.send(calls.status())["jobs"]
    length = sum(counts[status] for status in ("pending", "paused", "in_progress"))
    assert view["rows"][-1]["queue"] == length >= 2
    assert view["rows"][0]["queue"] == 0, "this supervisor is younger than two days"
    days = desk.live.send(calls.statistics("day"))
    assert (days["rows"][-1]["queue"], days["rows"][0]["queue"]) == (length, 0)
    assert all(row["queue"] is None for row in desk.live.send(calls.statistics("worker"))["rows"])
    assert running.name


def test_too_many_hours_are_refused(desk: Desk) -> None:
    with pytest.raises(TqError) as caught:
        desk.live.send(calls.statistics("hour", (datetime.now(UTC) - timedelta(days=15)).isoformat()))
    assert caught.value.code is ErrorCode.BAD_REQUEST
    assert "14 days" in caught.value.hint


def test_what_ended_is_added_up(desk: Desk) -> None:
    before = datetime.now(UTC).isoformat()
    worker, job, video = ladder(desk, batch="the batch of statistics")
    failing, failed = desk.running(batch="the batch of statistics")
    report(failing, failed, 5.0, cpu_s=3.5, peak_memory_bytes=123_000_000)
    report(failing, failed, 6.0)
    failing.send(f"jobs/{failed['job']}/fail", epoch=failed["epoch"], code="NO_MEDIA", text="no video in it")
    [attempt] = desk.show(failed["job"])["attempts_log"]
    assert (attempt["cpu_s"], attempt["peak_memory_bytes"]) == (3.5, 123_000_000)

    # Jobs of earlier tests may end meanwhile, whose workers stopped sending heartbeats.
    [row] = [
        each
        for each in desk.live.send(calls.statistics("batch", before))["rows"]
        if each["key"] == "the batch of statistics"
    ]
    assert (row["done"], row["failed"], row["attempts"], row["cpu_s"]) == (1, 1, 2, 3.5)
    detail = desk.show(job["job"])
    assert row["batch"] == {"jobs": 2, "first": detail["name"], "created_at": detail["created_at"]}
    assert row["media_s"] == detail["source"]["duration_s"]
    assert row["bytes_in"] == video["size"]
    assert row["bytes_out"] == sum(each["size"] for each in video["generation"]["renditions"])
    assert row["speed"] == pytest.approx(row["media_s"] / row["wall_s"])
    by_worker = {each["key"]: each for each in desk.live.send(calls.statistics("worker", before))["rows"]}
    assert (by_worker[worker.name]["done"], by_worker[failing.name]["failed"]) == (1, 1)

    month = desk.live.send(calls.statistics())
    today = datetime.now().date()
    assert [each["key"] for each in month["rows"]][-1] == today.isoformat()
    assert len(month["rows"]) == 30
    assert month["rows"][-1]["done"] >= 1


def test_what_is_kept_from_the_ladder_before_is_not_counted_again(desk: Desk) -> None:
    _, job, _ = ladder(desk)
    desk.act("retranscode", job["job"], renditions=["360p"], priority=1000)
    worker, before = desk.worker(), datetime.now(UTC).isoformat()
    again = worker.claim()
    bench = bench_of(again)
    bench.rendition("360p", "another 360p")
    assert complete(worker, again, bench, keep=["720p", "audio-en"])[1]["status"] == "done"
    published = desk.live.send(calls.video(again["video"]))["generation"]["renditions"]
    [made] = [each["size"] for each in published if each["name"] == "360p"]
    assert desk.live.send(calls.statistics("day", before))["total"]["bytes_out"] == made


@pytest.mark.parametrize(
    "since",
    ["soon", "", "1999-01-01", "0001-01-01", "9999-12-31T23:59:59", "2026-13-01", "tomorrow"],
)
def test_a_time_that_is_none_is_refused(desk: Desk, since: str) -> None:
    wrong = since if since != "tomorrow" else (datetime.now(UTC) + timedelta(days=1)).isoformat()
    with pytest.raises(TqError) as caught:
        desk.live.send(calls.statistics("day", wrong))
    assert caught.value.code is ErrorCode.BAD_REQUEST
    assert "400 days" in caught.value.hint


def test_other_groups_are_refused(desk: Desk) -> None:
    with pytest.raises(TqError) as caught:
        desk.live.send(Call("GET", "/v1/stats", {"by": "moon"}))
    assert caught.value.code is ErrorCode.BAD_REQUEST

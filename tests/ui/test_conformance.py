"""The fake supervisor of these tests answers every call as a real one does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness import LiveSupervisor
from tqstudio.lifecycle import Operation
from tqstudio.protocol import calls
from tqstudio.protocol.calls import Call
from tqstudio.protocol.filters import SORTS
from waiting import until

from .sides import FIRST, PLAYER, Fake, Real, Side, differences

Compare = Callable[[Callable[[Side], Awaitable[Any]]], Awaitable[Any]]


def _triggers(live: LiveSupervisor) -> set[str]:
    return {event["trigger"] for event in live.send(calls.events(after=0))["events"]}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSupervisor]:
    live = LiveSupervisor(tmp_path_factory.mktemp("conformance"), TQSTUDIO_LEASE_S="300")
    try:
        live.start()
        live.send(calls.worker_action("cpu-0", "disable"))
        # Later its registration would be among the events that tests compare.
        until(lambda: "worker_registered" in _triggers(live), "its worker is registered")
        yield live
    finally:
        live.clear_away()


@pytest.fixture
def same(live: LiveSupervisor, tmp_path: Path) -> Compare:
    """Runs a scenario on both; the result of the fake must be that of the real supervisor."""

    async def compare(scenario: Callable[[Side], Awaitable[Any]]) -> Any:
        real, fake = Real(live, tmp_path), Fake()
        try:
            expected = await scenario(real)
        finally:
            await real.clear()
        assert not differences(await scenario(fake), expected)
        return expected

    return compare


STATES = (
    *("pending", "paused", "running", "pausing", "cancelling"),
    *("failed", "cancelled", "done", "deleted"),
)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("operation", Operation)
async def test_an_operation(same: Compare, state: str, operation: Operation) -> None:
    more = {"delta": 5} if operation is Operation.PRIORITY else {}

    async def scenario(side: Side) -> Any:
        job = await side.make(state)
        before = await side.last_seq()
        [result] = await side.act(operation.value, job, **more)
        new = result.pop("new_job")
        if new is not None:
            side.jobs[new] = "the new job"
        problem = result.pop("error")
        found = [
            {**result, "job": side.jobs[result["job"]], "error": problem and problem["code"]},
            await side.state_of(job),
            new and await side.state_of(new),
            await side.events(before),
            side.named((await side.send(calls.jobs()))["jobs"]),
            side.named((await side.send(calls.jobs("state:deleted", limit=500)))["jobs"]),
        ]
        if (await side.state_of(job))["status"] == "in_progress":
            side.obey(job)
            found += [await side.state_of(job), await side.events(before)]
        return found

    await same(scenario)


async def test_a_running_job_pauses_when_its_worker_obeys(same: Compare) -> None:
    async def scenario(side: Side) -> Any:
        job = await side.make("running")
        before = await side.last_seq()
        [result] = await side.act("pause", job)
        asked = (result["status"], result["control"], result["word"])
        row = await side.state_of(job)
        counts = (await side.send(calls.status()))["jobs"]
        side.obey(job)
        after = await side.state_of(job)
        return asked, (row["status"], row["word"]), counts, (after["status"], await side.events(before))

    asked, shown, counts, (after, events) = await same(scenario)
    assert asked == ("in_progress", "pause", "pausing…")
    assert shown == ("in_progress", "pausing…")
    assert (counts["in_progress"], after) == (1, "paused")
    assert [each[1] for each in events] == ["pause_requested", "pause"]


async def several(side: Side) -> list[int]:
    """Jobs in most states, of two priorities."""
    made = [await side.make(state, f"{state}-{at}.mp4") for at in range(2) for state in STATES]
    await side.act("priority", *made, delta=7)
    return made


async def page_of(side: Side, line: str = "", **query: Any) -> Any:
    return await side.send(calls.jobs(line, **query))


PAGES: dict[str, dict[str, Any]] = {
    "all": {},
    # Sources of this test are of other sizes on either side.
    **{f"by {sign}{sort}": {"sort": sign + sort} for sort in SORTS if sort != "size" for sign in ("", "-")},
    "a status": {"line": "state:paused"},
    "a word of a screen": {"line": "state:running,done"},
    "all but a status": {"line": "!state:done"},
    "a text": {"line": "ED 1"},
    "not a text": {"line": "!ed"},
    "a text that is nowhere": {"line": "nowhere"},
    "a text and a status": {"line": "ed state:failed,cancelled", "sort": "-number"},
    "a batch": {"line": "batch:nowhere"},
    "errors": {"line": "code:any"},
    "no errors": {"line": "!code:any"},
    "a size": {"line": "larger:1T"},
    "the end": {"before": "end", "limit": 3},
}


async def test_lists(same: Compare) -> None:
    async def scenario(side: Side) -> Any:
        await several(side)
        found = {}
        for what, query in PAGES.items():
            page = await page_of(side, **query)
            ends = page["before"] is None, page["after"] is None
            found[what] = side.named(page["jobs"]), page["total"], ends
        return found

    await same(scenario)


@pytest.mark.parametrize("sort", ["order", "-number", "name"])
@pytest.mark.parametrize("more", [{}, {"line": "paus"}], ids=["all", "a text"])
async def test_pages_forwards_and_backwards(same: Compare, sort: str, more: dict[str, Any]) -> None:
    async def scenario(side: Side) -> Any:
        await several(side)
        found: list[Any] = []
        page = await page_of(side, sort=sort, limit=4, **more)
        for direction in ("after", "before"):
            while (cursor := page[direction]) is not None:
                found.append((side.named(page["jobs"]), page["total"]))
                page = await page_of(side, sort=sort, limit=4, **{direction: cursor}, **more)
        return [*found, side.named(page["jobs"])]

    await same(scenario)


async def test_a_page_around_a_job(same: Compare) -> None:
    async def scenario(side: Side) -> Any:
        made = await several(side)
        found: list[Any] = []
        for job in (made[0], made[9], made[-1], 9_999_999):
            page = await page_of(side, limit=5, around=job)
            found.append((side.named(page["jobs"]), page["before"] is None, page["after"] is None))
        return found

    await same(scenario)


async def test_jobs_of_a_batch_and_of_a_video(same: Compare) -> None:
    async def scenario(side: Side) -> Any:
        job = await side.add("one.mp4", batch="tonight")
        await side.add("two.mp4")
        detail = await side.send(calls.job(job))
        return [
            side.named((await side.send(calls.jobs(**chosen)))["jobs"])
            for chosen in ({"line": "batch:tonight"}, {"video": detail["video"]})
        ]

    assert await same(scenario) == [["one.mp4"], ["one.mp4"]]


WRONG = {
    "an order": calls.jobs(sort="colour"),
    "a status": calls.jobs("state:sleeping"),
    "a large page": calls.jobs(limit=501),
    "an empty page": calls.jobs(limit=0),
    "a long filter": calls.jobs("x" * 501),
    "an unknown word": calls.jobs("colour:red"),
    "no folder": calls.jobs("folder:nowhere"),
    "a cursor": calls.jobs(after="nowhere"),
    "a parameter": Call("GET", "/v1/jobs", {"colour": "red"}),
    "a job": calls.job(9_999_999),
    "the log of a job": calls.job_log(9_999_999),
    "the events of a job": calls.events(job_id=9_999_999),
    "two ends of the history": calls.events(before=3, after=1),
    "a large part of the history": calls.events(limit=10_001),
    "a video": calls.video(9_999_999),
    "an operation": calls.act("sing", [1]),
    "no jobs": calls.act("pause", []),
    "a priority": calls.act("priority", [1], priority=1001),
    "a field": calls.act("pause", [1], loudly=True),
    "no files": calls.add([]),
    "a profile": calls.add(["L3NydgoK"], profile="nowhere"),
    "a worker": calls.worker_action("nowhere", "enable"),
    "a worker to remove": calls.remove_worker("nowhere"),
    "what a worker does": calls.worker_action(PLAYER, "sing"),
    "a folder": calls.edit_folder(9_999_999, enabled=False),
    "a removed folder": calls.remove_folder(9_999_999),
    "a relative folder": calls.add_folder("eA=="),
    "an endpoint": Call("GET", "/v1/nowhere"),
}


async def test_wrong_calls_are_refused_with_the_same_codes(same: Compare) -> None:
    async def scenario(side: Side) -> dict[str, str]:
        return {what: await side.refusal(call) for what, call in WRONG.items()}

    codes = await same(scenario)
    assert set(codes.values()) == {"BAD_REQUEST", "NOT_FOUND", "BAD_CONFIG"}


async def test_an_operation_on_many_jobs_reports_each(same: Compare) -> None:
    async def scenario(side: Side) -> Any:
        made = [await side.make(state, f"{state}.mp4") for state in ("pending", "running", "failed", "done")]
        results = await side.act("pause", *made, 9_999_999)
        return [
            (side.jobs.get(each["job"]), each["ok"], each["status"], each["word"], each["error"] is None)
            for each in results
        ]

    results = await same(scenario)
    assert [ok for _, ok, *_ in results] == [True, True, False, False, False]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("operation", ["pause", "resume", "cancel", "priority", "delete"])
async def test_an_operation_is_undone(same: Compare, state: str, operation: str) -> None:
    more = {"delta": 5} if operation == "priority" else {}

    async def scenario(side: Side) -> Any:
        job, other = await side.make(state), await side.make("pending", "other.mp4")
        await side.act("priority", other, delta=3)
        first = await side.state_of(job)
        [result] = await side.act(operation, job, **more)
        before = await side.last_seq()
        answer = await side.send(calls.undo(f"undo {operation} {state} {type(side)} {job}"))
        named = answer["subject"].partition(", ")[2]
        again = await side.state_of(job)
        undone = answer["operation"] == operation and named != "other.mp4"
        return (
            result["ok"],
            named,
            answer["restored"],
            again == first,
            undone,
            again,
            await side.events(before),
        )

    _, _, back, is_as_before, *_ = await same(scenario)
    assert (back, is_as_before) == (1, True)


@pytest.mark.parametrize("state", ["pending", "paused", "running", "done"])
async def test_jobs_get_other_settings(same: Compare, state: str) -> None:
    given = {"profile": "fast", "priority": 7, "hold": True}

    async def scenario(side: Side) -> Any:
        job = await side.make(state)
        before = await side.last_seq()
        [result] = await side.act("change", job, **given)
        if result["new_job"] is not None:
            side.jobs[result["new_job"]] = "again"
        again = await side.state_of(result["new_job"] or job)
        return result["ok"], result["status"], again, await side.events(before)

    await same(scenario)


async def test_what_matches_a_filter_is_changed(same: Compare) -> None:
    async def scenario(side: Side) -> Any:
        made = [await side.make(state, f"bulk-{state}.mp4") for state in STATES]
        given = {"newest": made[-2], "key": f"bulk {type(side)}", "priority": 7}
        call = calls.act_on_matching("priority", "bulk state:pending,failed,running", **given)
        answer = await side.send(call)
        priorities = [(await side.state_of(job))["priority"] for job in made]
        return answer | {"reason": bool(answer["reason"])}, priorities

    await same(scenario)


async def test_a_job_that_runs_again_competes_with_no_other_of_its_video(same: Compare) -> None:
    async def scenario(side: Side) -> Any:
        job = await side.make("done")
        [first] = await side.act("retranscode", job, priority=3)
        side.jobs[first["new_job"]] = "again"
        [second] = await side.act("retranscode", job)
        await side.act("delete", first["new_job"])
        [third] = await side.act("retranscode", job)
        side.jobs[third["new_job"]] = "once more"
        [back] = await side.act("undelete", first["new_job"])
        return [
            (each["ok"], each["error"] and each["error"]["code"]) for each in (first, second, third, back)
        ]

    assert [ok for ok, _ in await same(scenario)] == [True, False, True, False]


async def test_files_are_added(same: Compare) -> None:
    async def scenario(side: Side) -> Any:
        before = await side.last_seq()
        given: dict[str, dict[str, Any]] = {
            "one.mp4": {},
            "held.mp4": {"hold": True},
            "first.mp4": {"priority": FIRST, "profile": "fast"},
        }
        states = [await side.state_of(await side.add(name, **more)) for name, more in given.items()]
        answer = await side.send(calls.add([side.nowhere("clip.mp4")], batch="tonight"))
        [refused] = answer["results"]
        events = await side.events(before)
        order = side.named((await side.send(calls.jobs()))["jobs"])
        return states, answer["batch"], refused["decision"], refused["error"]["code"], events, order

    await same(scenario)


async def test_the_history(same: Compare) -> None:
    async def scenario(side: Side) -> Any:
        start = await side.last_seq()
        job = await side.make("paused")
        other = await side.make("cancelled", "other.mp4")
        await side.act("resume", job)
        whole = await side.send(calls.events(after=start))
        first, *_, last = [each["seq"] for each in whole["events"]]
        found = [
            await side.send(calls.events(limit=2)),
            await side.send(calls.events(before=last, limit=2)),
            await side.send(calls.events(after=first, limit=2)),
            await side.send(calls.events(job_id=other)),
            await side.send(calls.events(after=last)),
        ]
        detail = await side.send(calls.job(job))
        assert [each["seq"] for each in detail["events"]] == sorted(
            (each["seq"] for each in detail["events"]), reverse=True
        )
        return (
            [[side.comparable(each) for each in page["events"]] for page in found],
            {page["last_seq"] == last for page in found},
            [side.comparable(each) for each in detail["events"]],
        )

    await same(scenario)


async def test_the_stream_sends_what_was_missed_and_what_follows(same: Compare) -> None:
    async def scenario(side: Side) -> Any:
        job = await side.add("clip.mp4", priority=FIRST)
        before = await side.last_seq()
        side.claim(job)
        await side.act("cancel", job)
        reading = asyncio.create_task(side.stored(before, "cancel"))
        await asyncio.sleep(0)
        side.obey(job)
        seen = await asyncio.wait_for(reading, 30)
        return seen, (await side.first(9_999_999)).name

    seen, first = await same(scenario)
    assert [each[1] for each in seen] == ["claim", "cancel_requested", "cancel"]
    assert first == "reset"


async def test_logs_of_attempts(same: Compare) -> None:
    async def scenario(side: Side) -> Any:
        waiting, running = await side.make("pending"), await side.make("running", "other.mp4")
        return [
            await side.refusal(calls.job_log(waiting)),
            await side.refusal(calls.job_log(running, 77)),
        ]

    assert await same(scenario) == ["NOT_FOUND", "NOT_FOUND"]


@pytest.mark.parametrize("busy", [False, True])
async def test_workers(same: Compare, busy: bool) -> None:
    async def scenario(side: Side) -> Any:
        if busy:
            await side.make("running")
        before = await side.last_seq()
        found = []
        for verb in ("drain", "enable", "disable", "enable"):
            answer = await side.send(calls.worker_action(PLAYER, verb))
            listed = (await side.send(calls.workers()))["workers"]
            shown = next(each for each in listed if each["name"] == PLAYER)
            keys = ("name", "kind", "status", "enabled", "draining", "note", "quarantine")
            found += [
                {key: each[key] for key in keys} | {"job": each["job"] is not None}
                for each in (answer, shown)
            ]
        return found, await side.events(before)

    await same(scenario)


async def test_folders(same: Compare) -> None:
    async def scenario(side: Side) -> Any:
        before = await side.last_seq()
        folder = side.folder("drop")
        added = await side.send(calls.add_folder(folder, profile="fast"))
        again = await side.refusal(calls.add_folder(folder))
        unknown = await side.refusal(calls.add_folder(side.folder("other"), profile="nowhere"))
        preview = set(await side.send(calls.preview_folder(folder)))
        changed = await side.send(calls.edit_folder(added["id"], enabled=False, priority=3))
        listed = (await side.send(calls.folders()))["folders"]
        removed = set(await side.send(calls.remove_folder(added["id"])))
        gone = await side.refusal(calls.remove_folder(added["id"]))
        keys = ("profile", "enabled", "recursive", "patterns", "priority", "skipped", "problem", "settling")
        views = [{key: each[key] for key in keys} for each in (added, changed, *listed)]
        return views, again, unknown, removed, gone, preview, await side.events(before)

    await same(scenario)


async def test_the_queue_is_paused_and_resumed(same: Compare) -> None:
    in_an_hour = (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="milliseconds")

    async def scenario(side: Side) -> Any:
        before = await side.last_seq()
        gates = [await side.send(calls.pause_queue(reason)) for reason in ("", "tea")]
        gates.append(await side.send(calls.pause_queue("", in_an_hour)))
        status = (await side.send(calls.status()))["gates"]
        resumed = [await side.send(calls.resume_queue()) for _ in range(2)]
        shown = [(each["kind"], each["code"], each["reason"], each["until"]) for each in (*gates, *status)]
        return shown, resumed, (await side.send(calls.status()))["gates"], await side.events(before)

    await same(scenario)


async def test_the_status_counts_jobs(same: Compare) -> None:
    async def scenario(side: Side) -> Any:
        await several(side)
        return (await side.send(calls.status()))["jobs"]

    await same(scenario)


async def test_settings(same: Compare) -> None:
    async def scenario(side: Side) -> Any:
        found = await side.send(calls.settings())
        [one] = [each for each in found["settings"] if each["name"] == "disk_reserve_bytes"]
        return found["file"].endswith("/config.toml"), one | {"value": ""}

    await same(scenario)


async def test_profiles(same: Compare) -> None:
    async def scenario(side: Side) -> Any:
        found = (await side.send(calls.profiles()))["profiles"]
        return {each["name"] for each in found} >= {"fast", "web"}, [
            each["name"] for each in found if each["default"]
        ]

    await same(scenario)

"""Pages of jobs: complete, in order, without repetition, and never by a sort of the whole table."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import insert

from tqstudio.engine.store.db import tables
from tqstudio.engine.store.db.connection import Address, Connection
from tqstudio.engine.store.lists import matching, orders
from tqstudio.engine.store.lists import pages as listing
from tqstudio.engine.store.lists import records as jobviews
from tqstudio.engine.store.lists.orders import PageQuery as Query
from tqstudio.engine.store.lists.pages import Page
from tqstudio.lifecycle import QUEUE_ORDER, TERMINAL, JobStatus
from tqstudio.paths import readable

from .conftest import Queue, migrated, rolled_back

JOBS = 3_000
_WORDS = (
    "alpha",
    "beta",
    "100%",
    "under_score",
    'quo"te',
    "back\\slash",
    "été",
    "ALPHA",
    "it's",
    "[red]",
    "*",
    "ÉTÉ",
    "Фильм",
    "ФИЛЬМ",
    "می\u200cخواهم",
    "東京\u3000",
    "3.05\u202fPM",
    "\\u200e\\x1b",
)

_WARNINGS = (
    *("[]", "[]", "[]"),
    json.dumps([{"code": "HDR_TONE_MAPPED", "text": "HDR is published as SDR"}]),
    json.dumps([{"code": "AUDIO_LEFT_OUT", "text": 'the "HDR" track'}, {"code": "SOURCE_KEPT", "text": "x"}]),
    json.dumps([{"code": "AUDIO_UNREADABLE", "text": "SOURCE_KEPT"}]),
)


@pytest.fixture(scope="module")
def stored(program: str, tmp_path_factory: pytest.TempPathFactory) -> Address:
    """Thousands of jobs in every status, with equal priorities and equal times among them."""
    own = migrated(program, tmp_path_factory.mktemp("many"))
    with rolled_back(own) as queue:
        rng = random.Random(7)
        worker = queue.worker()
        videos, rows = [], []
        for number in range(1, JOBS + 1):
            name = f"{_WORDS[number % len(_WORDS)]} {number}.mp4"
            videos.append(
                {
                    "id": number,
                    "source": f"/in/{number}".encode(),
                    "output_root": b"/o",
                    "name": name,
                    "name_lower": name.lower(),
                    "title": "",
                    "slug": f"v{number}",
                    "size": 1,
                    "mtime_ns": 1,
                    "created_at": 1,
                }
            )
            status = rng.choice(list(JobStatus))
            running = status is JobStatus.IN_PROGRESS
            rows.append(
                {
                    "id": number,
                    "video_id": number,
                    "profile": "web",
                    "profile_json": "{}",
                    "status": status.value,
                    "priority": rng.choice([-5, 0, 0, 0, 7]),
                    "created_at": queue.now + rng.randrange(50),
                    "completed_at": queue.now + rng.randrange(50) if status in TERMINAL else None,
                    "worker_id": worker.id if running else None,
                    "instance": f"i{number}" if running else None,
                    "supervisor_id": queue.supervisor if running else None,
                    "deleted_at": None if running or rng.random() > 0.1 else 5,
                    "batch": rng.choice([None, "first", "second"]),
                    "kind": "changed" if number % 50 == 0 else rng.choice(["new", "retranscode"]),
                    "owner": rng.choice(["user", "folder", "token:ana", "token:user"]),
                    "warnings": rng.choice(_WARNINGS),
                }
            )
        queue.db.execute(insert(tables.video), videos)
        queue.db.execute(insert(tables.job), rows)
        queue.db.commit()
    return own


@pytest.fixture
def many(stored: Address) -> Iterator[Queue]:
    with rolled_back(stored) as queue:
        yield queue


def _warned(stored: str, asked: str | None) -> bool:
    """Whether a job with these warnings is among those asked for."""
    codes = [warning["code"] for warning in json.loads(stored)]
    if asked in (None, "any"):
        return bool(codes) or asked is None
    return any(code.startswith(str(asked).upper()) for code in codes)


def expected(queue: Queue, query: Query) -> list[int]:
    """The same list, made in the simplest way."""
    found = queue.db.execute("SELECT j.*, v.name FROM job j JOIN video v ON v.id = j.video_id").mappings()
    rows = [
        row
        for row in found
        if (row["deleted_at"] is not None) == query.deleted
        and (not query.statuses or JobStatus(row["status"]) in query.statuses)
        and all(readable(word) in row["name"].lower() for word in query.text.lower().split())
        and query.batch in (None, row["batch"])
        and query.video in (None, row["video_id"])
        and query.kind in (None, row["kind"])
        and query.owner in (None, row["owner"], row["owner"].removeprefix("token:"))
        and _warned(row["warnings"], query.warning)
    ]

    def place(row: Any) -> tuple[int, ...]:
        status = JobStatus(row["status"])
        if query.sort == "newest":
            return (-row["id"],)
        if query.sort == "oldest":
            return (row["id"],)
        if status in TERMINAL:
            return (QUEUE_ORDER.index(status), -row["completed_at"], -row["id"])
        return (QUEUE_ORDER.index(status), -row["priority"], row["created_at"], row["id"])

    return [row["id"] for row in sorted(rows, key=place)]


def downwards(db: Connection, query: Query, limit: int) -> list[int]:
    found: list[int] = []
    page = listing.page(db, query, limit=limit, after="start")
    assert page.before is None
    while True:
        assert len(page.ids) <= limit
        assert len(page.ids) == limit or page.after is None
        found += page.ids
        if page.after is None:
            assert page.total in (None, len(found))
            return found
        page = listing.page(db, query, limit=limit, after=page.after)
        assert page.before is not None


def upwards(db: Connection, query: Query, limit: int, before: str = "end") -> list[int]:
    found: list[int] = []
    page = listing.page(db, query, limit=limit, before=before)
    assert before != "end" or page.after is None
    while True:
        assert len(page.ids) <= limit
        assert len(page.ids) == limit or page.before is None
        found = page.ids + found
        if page.before is None:
            return found
        page = listing.page(db, query, limit=limit, before=page.before)
        assert page.after is not None


QUERIES = [
    Query(),
    Query(sort="newest"),
    Query(sort="oldest"),
    Query(statuses=(JobStatus.PENDING,)),
    Query(statuses=(JobStatus.DONE, JobStatus.IN_PROGRESS)),
    Query(statuses=(JobStatus.FAILED, JobStatus.PAUSED), sort="newest"),
    Query(statuses=(JobStatus.CANCELLED,), sort="oldest"),
    Query(text="a"),
    Query(text="%"),
    Query(text="_"),
    Query(text="\\"),
    Query(text='"'),
    Query(text="12"),
    Query(text="alpha"),
    Query(text="ALPHA 1"),
    Query(text="100%"),
    Query(text="under_"),
    Query(text='quo"te'),
    Query(text="back\\s"),
    Query(text="été"),
    Query(text="it's"),
    Query(text="[red]"),
    Query(text="mp4"),
    Query(text="mp4", sort="newest", statuses=(JobStatus.PENDING, JobStatus.DONE)),
    Query(text="no such name"),
    Query(text="4 be MP4"),
    Query(text=" \t "),
    Query(text="می\u200cخواهم"),
    Query(text="東京\u30001"),
    Query(text="3.05\u202fPM 2"),
    Query(text="\u200e\x1b"),
    Query(text="ét"),
    Query(text="Été 1"),
    Query(text="фильм"),
    Query(text="ФИЛЬМ 2", sort="oldest"),
    Query(batch="first"),
    Query(batch="second", text="beta", sort="oldest"),
    Query(batch="second", sort="newest"),
    Query(batch="first", statuses=(JobStatus.FAILED, JobStatus.DONE), sort="newest"),
    Query(batch="none such"),
    Query(video=17),
    Query(video=17, text="no such name"),
    Query(deleted=True),
    Query(deleted=True, statuses=(JobStatus.DONE,), sort="newest"),
    Query(deleted=True, text="a", sort="oldest"),
    Query(deleted=True, batch="first"),
    Query(kind="changed"),
    Query(kind="new", owner="ana"),
    Query(kind="retranscode", statuses=(JobStatus.DONE,), sort="newest"),
    Query(owner="user", sort="oldest"),
    Query(owner="token:user"),
    Query(owner="folder", deleted=True, text="a"),
    Query(owner="nobody"),
    Query(warning="any"),
    Query(warning="any", statuses=(JobStatus.DONE,), sort="newest", owner="user"),
    Query(warning="hdr"),
    Query(warning="AUDIO_LEFT_OUT", text="a", sort="oldest"),
    Query(warning="AUDIO", batch="first"),
    Query(warning="A%"),
    Query(warning="deleted"),
]


@pytest.mark.parametrize("query", QUERIES, ids=str)
@pytest.mark.parametrize("limit", [97, 500])
def test_paging_is_complete_and_ordered(many: Queue, query: Query, limit: int) -> None:
    wanted = expected(many, query)
    assert downwards(many.db, query, limit) == wanted
    assert upwards(many.db, query, limit) == wanted


def test_few_matches_are_listed_like_many(many: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    for few in (0, 5, 300, 5_000):
        monkeypatch.setattr(matching, "FEW", few)
        for wanted in ("alpha", "100%", 'quo"te', "back\\s", "under_score", "été", "ФИЛЬМ", "alpha 12"):
            query = Query(text=wanted)
            assert downwards(many.db, query, 500) == expected(many, query)


@pytest.mark.parametrize("query", [QUERIES[0], QUERIES[1], QUERIES[4], QUERIES[13], QUERIES[25]], ids=str)
@pytest.mark.parametrize("limit", [1, 2, 9, 40])
def test_pages_around_a_job(many: Queue, query: Query, limit: int) -> None:
    wanted = expected(many, query)
    for index in (0, 1, limit // 2, len(wanted) // 2, len(wanted) - 2, len(wanted) - 1):
        page = listing.page(many.db, query, limit=limit, around=wanted[index])
        assert wanted[index] in page.ids
        assert len(page.ids) <= limit
        start = wanted.index(page.ids[0])
        assert page.ids == wanted[start : start + len(page.ids)]
        assert (page.before is None) == (start == 0)
        assert (page.after is None) == (start + len(page.ids) == len(wanted))
        assert len(page.ids) == limit or page.after is None
        if page.before is not None:
            above = listing.page(many.db, query, limit=limit, before=page.before)
            assert above.ids == wanted[max(0, start - limit) : start]
        if page.after is not None:
            below = listing.page(many.db, query, limit=limit, after=page.after)
            assert below.ids[0] == wanted[start + len(page.ids)]


@pytest.mark.parametrize("around", [0, -1, 4711 * 4711])
def test_around_a_job_that_is_not_listed_is_the_first_page(many: Queue, around: int) -> None:
    query = Query(statuses=(JobStatus.PENDING,))
    assert listing.page(many.db, query, limit=5, around=around) == listing.page(many.db, query, limit=5)
    done = expected(many, Query(statuses=(JobStatus.DONE,)))[0]
    assert listing.page(many.db, query, limit=5, around=done) == listing.page(many.db, query, limit=5)


def test_a_page_follows_its_cursor_when_its_row_is_gone(many: Queue) -> None:
    query = Query(statuses=(JobStatus.PENDING,))
    wanted = expected(many, query)
    page = listing.page(many.db, query, limit=10)
    many.db.execute("UPDATE job SET deleted_at = 1 WHERE id = :id", {"id": page.ids[-1]})
    after = listing.page(many.db, query, limit=10, after=page.after)
    assert after.ids == wanted[10:20]


@pytest.mark.parametrize("sort", orders.SORTS)
@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "",
        "bm90IGpzb24=",
        "e30=",
        "W10=",
        "WzFd",
        "WzEsMl0=",
        "WzEsMiwzLDQsNV0=",
        "W3RydWVd",
        "WzEuNV0=",
        "Wzk5LDEsMSwxXQ==",
        "Wy0xLDEsMSwxXQ==",
        "WzEsOTk5OTk5OTk5OTk5OTk5OTk5OTk5LDEsMV0=",
        "é",
        "\udcff",
    ],
)
@pytest.mark.parametrize("way", ["after", "before"])
def test_a_cursor_of_another_list_is_refused(many: Queue, sort: str, cursor: str, way: str) -> None:
    if sort != "order" and cursor == "WzFd":
        return
    with pytest.raises(ValueError):  # noqa: PT011 - which of them says so does not matter
        listing.page(many.db, Query(sort=sort), limit=5, **{way: cursor})


def test_cursors_do_not_fit_another_order(many: Queue) -> None:
    order = listing.page(many.db, Query(), limit=5).after
    newest = listing.page(many.db, Query(sort="newest"), limit=5).after
    for sort, cursor in (("newest", order), ("order", newest)):
        with pytest.raises(ValueError, match="cursor"):
            listing.page(many.db, Query(sort=sort), limit=5, after=cursor)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=st.text(st.sampled_from(list("aAbl%_\\\"'*[]() -^0123éÉйЙ:{}\0")), min_size=1, max_size=6))
def test_any_text_finds_what_holds_it(many: Queue, wanted: str) -> None:
    query = Query(text=wanted)
    assert sorted(downwards(many.db, query, 500)) == sorted(expected(many, query))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    query=st.builds(
        Query,
        statuses=st.sets(st.sampled_from(list(JobStatus))).map(tuple),
        text=st.sampled_from(["a", "1", "12", "99", "alpha", "ét", "zq", "mp4", "no such name", "9.mp"]),
        sort=st.sampled_from(orders.SORTS),
        batch=st.sampled_from([None, None, "first"]),
        deleted=st.booleans(),
    ),
    limit=st.integers(1, 200),
    few=st.sampled_from([0, 50, 5_000]),
    at=st.floats(0, 1),
)
def test_every_way_shows_the_same_list(many: Queue, query: Query, limit: int, few: int, at: float) -> None:
    wanted = expected(many, query)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "FEW", few)
        limit = max(limit, len(wanted) // 20)
        assert downwards(many.db, query, limit) == wanted
        assert upwards(many.db, query, limit) == wanted
        if wanted:
            middle = wanted[int(at * (len(wanted) - 1))]
            assert around(many.db, query, limit, middle) == wanted


def around(db: Connection, query: Query, limit: int, middle: int) -> list[int]:
    """The whole list, from the page around a job to both ends."""
    page = listing.page(db, query, limit=limit, around=middle)
    assert middle in page.ids
    found, before, after = list(page.ids), page.before, page.after
    while before is not None:
        page = listing.page(db, query, limit=limit, before=before)
        found, before = page.ids + found, page.before
    while after is not None:
        page = listing.page(db, query, limit=limit, after=after)
        found, after = found + page.ids, page.after
    return found


# By index


@pytest.fixture
def statements(many: Queue) -> Iterator[list[str]]:
    """Every statement that runs, its values written into it."""
    seen: list[str] = []
    many.db.raw.set_trace_callback(seen.append)
    yield seen
    many.db.raw.set_trace_callback(None)


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize(
    "query",
    [
        Query(),
        Query(sort="newest"),
        Query(sort="oldest"),
        Query(text="a"),
        Query(text="a", sort="newest"),
        Query(deleted=True),
        Query(deleted=True, text="1", sort="oldest"),
        Query(kind="new", owner="user"),
        Query(owner="folder", sort="newest"),
        Query(warning="any"),
        Query(warning="any", batch="first", sort="newest"),
        *(Query(statuses=(status,), sort=sort) for status in JobStatus for sort in orders.SORTS),
    ],
    ids=str,
)
def test_every_section_is_read_from_an_index(
    many: Queue, statements: list[str], monkeypatch: pytest.MonkeyPatch, query: Query
) -> None:
    monkeypatch.setattr(matching, "FEW", 0)
    first = listing.page(many.db, query, limit=7)
    listing.page(many.db, query, limit=7, after=first.after)
    listing.page(many.db, query, limit=7, before="end")
    middle = expected(many, query)[7]
    page = listing.page(many.db, query, limit=7, around=middle)
    listing.page(many.db, query, limit=7, before=page.before)
    read = [statement for statement in list(statements) if "job.status =" in statement]
    assert len(read) >= 5
    for statement in read:
        plan = [row[3] for row in many.db.execute(f"EXPLAIN QUERY PLAN {statement}")]
        jobs = [line for line in plan if " job " in line]
        assert jobs
        assert all(line.startswith("SEARCH job") and "INDEX ix_job_" in line for line in jobs), plan
        if query.sort == "order":
            assert not [line for line in plan if "B-TREE" in line], plan
        others = [line for line in plan if " other " in line]
        # The partial index has only the jobs that have warnings: rows of others are not read.
        named = {
            "COVERING INDEX ix_job_origin": query.owner,
            "COVERING INDEX ix_job_batch": query.batch,
            "INDEX ix_job_warned": query.warning,
        }
        indexes = [index for index, asked in named.items() if asked is not None]
        assert len(others) == len(indexes) * len(jobs), plan
        assert all(any(index in line for index in indexes) for line in others), plan
        assert all("COVERING INDEX ix_video_search" in line for line in plan if " video " in line), plan


@pytest.mark.parametrize("query", QUERIES, ids=str)
@pytest.mark.parametrize("few", [0, 5_000])
def test_a_total_is_exact_or_unknown(
    many: Queue, monkeypatch: pytest.MonkeyPatch, query: Query, few: int
) -> None:
    monkeypatch.setattr(matching, "FEW", few)
    page = listing.page(many.db, query, limit=1)
    assert page.total in (len(expected(many, query)), None)
    scanned = query.filtered and query.video is None and not few
    assert page.total is not None or scanned
    monkeypatch.setattr(listing, "COUNTED", 10)
    assert listing.page(many.db, Query(deleted=True), limit=1).total is None


def test_counts_need_no_scan(many: Queue) -> None:
    real = {status.value: len(expected(many, Query(statuses=(status,)))) for status in JobStatus}
    assert listing.counts_by_status(many.db) == real
    assert listing.count(many.db, ()) == sum(real.values())
    assert listing.count(many.db, (JobStatus.DONE,)) == real["done"]


def test_an_empty_queue(queue: Queue) -> None:
    for query in (Query(), Query(sort="newest"), Query(text="abc"), Query(deleted=True)):
        assert listing.page(queue.db, query, limit=5) == Page([], None, None, total=0)
        assert listing.page(queue.db, query, limit=5, before="end") == Page([], None, None, total=0)
        assert listing.page(queue.db, query, limit=5, around=1) == Page([], None, None, total=0)


def test_records_come_in_the_order_asked_for(many: Queue) -> None:
    records = jobviews.by_ids(many.db, [30, 10, 4_000_000, 20])
    assert [record["id"] for record in records] == [30, 10, 20]
    assert jobviews.one(many.db, 4_000_000) is None
    counts = jobviews.batch_counts(many.db, "first") or {}
    assert sum(counts.values()) == len(expected(many, Query(batch="first")))


@pytest.mark.parametrize("sort", ["order", "newest"])
def test_the_jobs_of_a_drop_folder(queue: Queue, sort: str) -> None:
    jobs = [queue.job() for _ in range(6)]
    for folder in (1, 2):
        queue.db.execute(
            "INSERT INTO folder (id, path, output_root, profile, watch, created_at)"
            " VALUES (:id, :path, :output, 'web', 'inotify', :now)",
            {"id": folder, "path": b"/%d" % folder, "output": b"/o", "now": queue.now},
        )
    for job, folder in zip(jobs, (1, 2, 1, 2, 1), strict=False):
        queue.db.execute(
            "UPDATE video SET folder_id = :folder WHERE id = (SELECT video_id FROM job WHERE id = :job)",
            {"folder": folder, "job": job},
        )
    first = listing.page(queue.db, Query(sort=sort, folder=1), limit=2)
    assert first.total == 3
    assert first.after is not None
    rest = listing.page(queue.db, Query(sort=sort, folder=1), limit=2, after=first.after)
    assert sorted([*first.ids, *rest.ids]) == [jobs[0], jobs[2], jobs[4]]
    assert listing.page(queue.db, Query(sort=sort, folder=2), limit=9).ids != []
    assert listing.page(queue.db, Query(sort=sort, folder=3), limit=9).ids == []
    near = listing.page(queue.db, Query(sort=sort, folder=1), limit=9, around=jobs[2])
    assert jobs[2] in near.ids
    assert len(near.ids) == 3

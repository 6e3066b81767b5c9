"""Pages of jobs: complete, in order, without repetition, and never by a sort of the whole table."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import insert

from tqstudio.engine.store.db import tables
from tqstudio.engine.store.db.connection import Address, Connection
from tqstudio.engine.store.lists import matching
from tqstudio.engine.store.lists import pages as listing
from tqstudio.engine.store.lists import records as jobviews
from tqstudio.engine.store.lists.orders import PageQuery
from tqstudio.engine.store.lists.pages import Page
from tqstudio.lifecycle import QUEUE_ORDER, TERMINAL, JobStatus
from tqstudio.paths import readable
from tqstudio.protocol.filters import SORTS, Filter, FilterError, Term, parse, seconds, size

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
                    "size": rng.choice([1, 2, 3]) * 700_000_000,
                    "length_ms": rng.choice([0, 61_000, 3_700_000]),
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
                    "profile": rng.choice(["web", "tv", "fast"]),
                    "profile_json": "{}",
                    "error_code": rng.choice([None, None, "ENCODER_EXIT", "STALLED"]),
                    "status": status.value,
                    "priority": rng.choice([-5, 0, 0, 0, 7]),
                    "created_at": NOW - 1_000_000 * rng.randrange(50),
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
        qualities = [
            {"job_id": number, "name": name}
            for number in range(1, JOBS + 1, 3)
            for name in rng.sample(["1080p", "720p", "4k"], 2)
        ]
        queue.db.execute(insert(tables.rendition), qualities)
        queue.db.commit()
    return own


@pytest.fixture
def many(stored: Address) -> Iterator[Queue]:
    with rolled_back(stored) as queue:
        yield queue


NOW = 1_000_000_000_000_000


def Query(line: str = "", sort: str = "order", video: int | None = None) -> PageQuery:
    return PageQuery(parse(line), sort, video, NOW)


def _matches(term: Term, row: Any) -> bool:
    """Whether a job has one of the values of a term."""
    codes = [warning["code"] for warning in json.loads(row["warnings"])]
    match term.word:
        case "owner":
            return row["owner"] in term.values or row["owner"].removeprefix("token:") in term.values
        case "code":
            return row["error_code"] is not None if "any" in term.values else row["error_code"] in term.values
        case "warning":
            return bool(codes) if "any" in term.values else not set(codes).isdisjoint(term.values)
        case "quality":
            return not set(term.values).isdisjoint(row["qualities"])
        case "older":
            return any(row["created_at"] < NOW - seconds(value) * 1e6 for value in term.values)
        case "larger":
            return any(row["size"] > size(value) for value in term.values)
        case "longer":
            return any(row["length_ms"] > seconds(value) * 1000 for value in term.values)
        case "text":
            return any(readable(value).lower() in row["name"].lower() for value in term.values)
        case "folder":
            return str(row["folder_id"]) in term.values
    return row[term.word] in term.values


def expected(queue: Queue, query: PageQuery) -> list[int]:
    """The same list, made in the simplest way."""
    qualities: dict[int, list[str]] = defaultdict(list)
    for job, name in queue.db.execute("SELECT job_id, name FROM rendition"):
        qualities[job].append(name)
    found = queue.db.execute(
        "SELECT v.name, v.name_lower, v.size, v.length_ms, v.folder_id, j.*"
        " FROM job j JOIN video v ON v.id = j.video_id"
    ).mappings()
    rows = [
        row
        for each in found
        if ((row := {**each, "qualities": qualities[each["id"]]})["deleted_at"] is not None)
        == query.filter.deleted
        and JobStatus(row["status"]) in query.filter.statuses
        and all(_matches(term, row) != term.negated for term in query.filter.others)
        and query.video in (None, row["video_id"])
    ]
    descending = query.sort.startswith("-")

    def place(row: Any) -> tuple[Any, ...]:
        status, number = JobStatus(row["status"]), row["id"]
        at = QUEUE_ORDER.index(status)
        match query.sort.removeprefix("-"):
            case "number" | "added":
                return (number,)
            case "state":
                return at, number
            case "priority":
                return row["priority"], -row["created_at"], -number
            case "name":
                return row["name_lower"].encode(), row["video_id"], number
            case "size":
                return row["size"], row["video_id"], number
            case "length":
                return row["length_ms"], row["video_id"], number
            case "ended" if status in TERMINAL:
                return 0, row["completed_at"], number
            case "ended":
                return -1 if descending else 1, number
        if status in TERMINAL:
            return at, -row["completed_at"], -number
        return at, -row["priority"], row["created_at"], number

    return [row["id"] for row in sorted(rows, key=place, reverse=descending)]


def downwards(db: Connection, query: PageQuery, limit: int) -> list[int]:
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


def upwards(db: Connection, query: PageQuery, limit: int, before: str = "end") -> list[int]:
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
    *(Query(sort=f"{sign}{sort}") for sort in SORTS for sign in ("", "-")),
    Query("state:pending"),
    Query("state:done,running"),
    Query("state:failed,paused", "-number"),
    Query("state:cancelled", "number"),
    Query("!state:done,failed", "state"),
    Query("state:done state:failed"),
    Query("state:failed", "name"),
    Query("state:pending,done", "-ended"),
    Query("state:running,paused", "ended"),
    Query("state:deleted", "-size"),
    Query("state:deleted state:done", "length"),
    Query("a", "-name"),
    Query("kind:new longer:1m", "priority"),
    *map(Query, ["a", "%", "_", "\\", '""""', "12", "alpha", "ALPHA 1", "100%", "under_", 'quo"te']),
    *map(Query, ["back\\s", "été", "it's", "[red]", "mp4", '"no such name"', "4 be MP4", " \t "]),
    Query("mp4 state:pending,done", "-number"),
    *map(Query, ["می\u200cخواهم", "東京\u30001", "3.05\u202fPM 2", "\u200e\x1b", "ét", "Été 1", "фильм"]),
    *map(Query, ["!a", "!alpha !beta", "text:alpha,beta", "!text:alpha,1", '"alpha 1"', '!"alpha 1"']),
    Query("ФИЛЬМ 2", "number"),
    Query("batch:first"),
    Query("batch:second beta", "number"),
    Query("batch:first,second", "-number"),
    Query("!batch:first"),
    Query("batch:first state:failed,done", "-number"),
    Query('batch:"none such"'),
    Query(video=17),
    Query("x", video=17),
    Query("state:deleted"),
    Query("state:deleted state:done", "-number"),
    Query("state:deleted a", "number"),
    Query("state:deleted batch:first"),
    Query("kind:changed"),
    Query("!kind:changed", "-length"),
    Query("kind:new owner:ana"),
    Query("kind:retranscode state:done", "-number"),
    Query("owner:user", "number"),
    Query("owner:token:user"),
    Query("!owner:user,ana"),
    Query("owner:folder state:deleted a"),
    Query("owner:someone"),
    Query("profile:web", "size"),
    Query("profile:web,tv code:any"),
    Query("!profile:web code:encoder_exit"),
    Query("!code:any", "-name"),
    Query("!code:stalled,encoder_exit"),
    Query("quality:1080p", "name"),
    Query("quality:1080p,4k !quality:720p"),
    Query("older:20s"),
    Query("!older:20s older:10s", "-priority"),
    Query("larger:500M !larger:2G", "size"),
    Query("longer:1h", "-length"),
    Query("!longer:10m larger:1.5G state:failed"),
    Query("warning:any"),
    Query("!warning:any"),
    Query("warning:any state:done owner:user", "-number"),
    Query("warning:hdr_tone"),
    Query("!warning:hdr_tone warning:any"),
    Query("warning:AUDIO_LEFT_OUT a", "number"),
    Query("warning:audio_left,audio_unr batch:first"),
]


@pytest.mark.parametrize("query", QUERIES, ids=str)
@pytest.mark.parametrize("limit", [97, 500])
def test_paging_is_complete_and_ordered(many: Queue, query: PageQuery, limit: int) -> None:
    wanted = expected(many, query)
    assert downwards(many.db, query, limit) == wanted
    assert upwards(many.db, query, limit) == wanted


def test_few_matches_are_listed_like_many(many: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    for few in (0, 5, 300, 5_000):
        monkeypatch.setattr(matching, "FEW", few)
        for wanted in ("alpha", "100%", 'quo"te', "back\\s", "under_score", "été", "ФИЛЬМ", "alpha 12"):
            query = Query(wanted)
            assert downwards(many.db, query, 500) == expected(many, query)


@pytest.mark.parametrize(
    "query",
    [Query(), Query(sort="-number"), Query("state:done,running"), Query("a", "-name"), Query("[red]")],
    ids=str,
)
@pytest.mark.parametrize("limit", [1, 2, 9, 40])
def test_pages_around_a_job(many: Queue, query: PageQuery, limit: int) -> None:
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
    query = Query("state:pending")
    assert listing.page(many.db, query, limit=5, around=around) == listing.page(many.db, query, limit=5)
    done = expected(many, Query("state:done"))[0]
    assert listing.page(many.db, query, limit=5, around=done) == listing.page(many.db, query, limit=5)


def test_a_page_follows_its_cursor_when_its_row_is_gone(many: Queue) -> None:
    query = Query("state:pending")
    wanted = expected(many, query)
    page = listing.page(many.db, query, limit=10)
    many.db.execute("UPDATE job SET deleted_at = 1 WHERE id = :id", {"id": page.ids[-1]})
    after = listing.page(many.db, query, limit=10, after=page.after)
    assert after.ids == wanted[10:20]


@pytest.mark.parametrize("sort", SORTS)
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
    with pytest.raises(ValueError):  # noqa: PT011 - which of them says so does not matter
        listing.page(many.db, Query(sort=sort), limit=5, **{way: cursor})


def test_cursors_do_not_fit_another_order(many: Queue) -> None:
    cursors = {sort: listing.page(many.db, Query(sort=sort), limit=5).after for sort in SORTS}
    for sort in SORTS:
        for other, cursor in cursors.items():
            if sort != other:
                with pytest.raises(ValueError, match="cursor"):
                    listing.page(many.db, Query(sort=sort), limit=5, after=cursor)
        with pytest.raises(ValueError, match="cursor"):
            listing.page(many.db, Query(sort=f"-{sort}"), limit=5, after=cursors[sort])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=st.text(st.sampled_from(list("aAbl%_\\\"'*[]() -^0123éÉйЙ:{}\0")), min_size=1, max_size=6))
def test_any_text_finds_what_holds_it(many: Queue, wanted: str) -> None:
    query = PageQuery(Filter((Term("text", (wanted,)),)))
    assert sorted(downwards(many.db, query, 500)) == sorted(expected(many, query))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    query=st.builds(
        lambda words, sort: Query(" ".join(words), sort),
        st.lists(
            st.sampled_from(
                [
                    *("a", "1", "!12", "99", "alpha", "!ét", "zq", "mp4", '"no such name"', "9.mp"),
                    *("state:pending", "!state:done", "state:failed,done,paused", "state:deleted"),
                    *("batch:first", "!batch:first", "!code:any", "profile:web", "kind:new", "quality:4k"),
                    *("larger:1G", "!longer:1m", "older:25s", "warning:any", "!owner:user"),
                ]
            ),
            max_size=3,
        ),
        st.sampled_from([f"{sign}{sort}" for sort in SORTS for sign in ("", "-")]),
    ),
    limit=st.integers(1, 200),
    few=st.sampled_from([0, 50, 5_000]),
    at=st.floats(0, 1),
)
def test_every_way_shows_the_same_list(
    many: Queue, query: PageQuery, limit: int, few: int, at: float
) -> None:
    wanted = expected(many, query)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "FEW", few)
        limit = max(limit, len(wanted) // 20)
        assert downwards(many.db, query, limit) == wanted
        assert upwards(many.db, query, limit) == wanted
        if wanted:
            middle = wanted[int(at * (len(wanted) - 1))]
            assert around(many.db, query, limit, middle) == wanted


def around(db: Connection, query: PageQuery, limit: int, middle: int) -> list[int]:
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
        Query("a"),
        Query("a", "-number"),
        Query("state:deleted"),
        Query("state:deleted 1", "number"),
        Query("kind:new owner:user"),
        Query("owner:folder", "-number"),
        Query("warning:any"),
        Query("warning:any batch:first", "-number"),
        Query("warning:any !batch:first quality:4k longer:1m a", "-size"),
        Query("state:deleted !code:any older:20s", "name"),
        *(Query(f"state:{state}", sort) for state in ("failed", "pending") for sort in SORTS),
        *(Query(sort=f"{sign}{sort}") for sort in SORTS for sign in ("", "-")),
    ],
    ids=str,
)
def test_every_section_is_read_from_an_index(
    many: Queue, statements: list[str], monkeypatch: pytest.MonkeyPatch, query: PageQuery
) -> None:
    monkeypatch.setattr(matching, "FEW", 0)
    first = listing.page(many.db, query, limit=7)
    listing.page(many.db, query, limit=7, after=first.after)
    listing.page(many.db, query, limit=7, before="end")
    middle = expected(many, query)[7]
    page = listing.page(many.db, query, limit=7, around=middle)
    listing.page(many.db, query, limit=7, before=page.before)
    by_video = query.sort.removeprefix("-") in ("name", "size", "length")
    own = "job.status IN" if by_video else "job.status ="
    read = [statement for statement in list(statements) if own in statement and "ORDER BY" in statement]
    assert len(read) >= 5
    for statement in read:
        plan = [row[3] for row in many.db.execute(f"EXPLAIN QUERY PLAN {statement}")]
        jobs = [line for line in plan if " job " in line]
        assert jobs
        assert all(line.startswith("SEARCH job") and "INDEX ix_job_" in line for line in jobs), plan
        if by_video or query.sort == "order":
            assert not [line for line in plan if "B-TREE" in line], plan
        videos = [line for line in plan if " video " in line]
        assert all(f"INDEX ix_video_by_{query.sort.removeprefix('-')}" in line for line in videos), plan
        assert len(videos) == by_video
        # The partial index has only the jobs that have warnings: rows of others are not read.
        words = {term.word for term in query.filter.terms}
        named = {
            "COVERING INDEX ix_job_origin": words & {"owner", "kind", "profile", "code", "older"},
            "COVERING INDEX ix_job_batch": words & {"batch"},
            "INDEX ix_job_warned": words & {"warning"},
            "COVERING INDEX sqlite_autoindex_rendition_1": words & {"quality"},
            "COVERING INDEX ix_video_search": words & {"text", "larger", "longer"},
        }
        indexes = [index for index, asked in named.items() if asked]
        searched = (" other ", " quality ", " searched ")
        others = [line for line in plan if any(table in line for table in searched)]
        assert len(others) == len(indexes) * len(jobs), plan
        assert all(any(index in line for index in indexes) for line in others), plan


@pytest.mark.parametrize("query", QUERIES, ids=str)
@pytest.mark.parametrize("few", [0, 5_000])
def test_a_total_is_exact_or_unknown(
    many: Queue, monkeypatch: pytest.MonkeyPatch, query: PageQuery, few: int
) -> None:
    monkeypatch.setattr(matching, "FEW", few)
    page = listing.page(many.db, query, limit=1)
    assert page.total in (len(expected(many, query)), None)
    scanned = query.filtered and query.video is None and not few
    assert page.total is not None or scanned
    monkeypatch.setattr(listing, "COUNTED", 10)
    assert listing.page(many.db, Query("state:deleted"), limit=1).total is None


def test_counts_need_no_scan(many: Queue) -> None:
    real = {status.value: len(expected(many, Query(f"state:{status.value}"))) for status in JobStatus}
    assert listing.counts_by_status(many.db) == real
    assert listing.count(many.db, ()) == sum(real.values())
    assert listing.count(many.db, (JobStatus.DONE,)) == real["done"]


def test_an_empty_queue(queue: Queue) -> None:
    for query in (Query(), Query(sort="-name"), Query("abc"), Query("state:deleted")):
        assert listing.page(queue.db, query, limit=5) == Page([], None, None, total=0)
        assert listing.page(queue.db, query, limit=5, before="end") == Page([], None, None, total=0)
        assert listing.page(queue.db, query, limit=5, around=1) == Page([], None, None, total=0)


def test_records_come_in_the_order_asked_for(many: Queue) -> None:
    records = jobviews.by_ids(many.db, [30, 10, 4_000_000, 20])
    assert [record["id"] for record in records] == [30, 10, 20]
    assert jobviews.one(many.db, 4_000_000) is None
    counts = jobviews.batch_counts(many.db, "first") or {}
    assert sum(counts.values()) == len(expected(many, Query("batch:first")))


@pytest.mark.parametrize("sort", ["order", "-number", "name"])
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
    first = listing.page(queue.db, Query("folder:1", sort), limit=2)
    assert first.total == 3
    assert first.after is not None
    rest = listing.page(queue.db, Query("folder:1", sort), limit=2, after=first.after)
    assert sorted([*first.ids, *rest.ids]) == [jobs[0], jobs[2], jobs[4]]
    assert listing.page(queue.db, Query("folder:2", sort), limit=9).ids != []
    assert listing.page(queue.db, Query("folder:3", sort), limit=9).ids == []
    near = listing.page(queue.db, Query("folder:1", sort), limit=9, around=jobs[2])
    assert jobs[2] in near.ids
    assert len(near.ids) == 3


def test_drop_folders_are_found_by_number_and_by_the_end_of_their_path(queue: Queue) -> None:
    paths = [b"/srv/nas/Films", b"/srv/usb/films", b"/srv/nas/2", b"/srv/nas/My, films", b"/srv/\xff"]
    for folder, path in enumerate(paths, 1):
        queue.db.execute(
            "INSERT INTO folder (id, path, output_root, profile, watch, created_at)"
            " VALUES (:id, :path, :output, 'web', 'inotify', 1)",
            {"id": folder, "path": path, "output": b"/o"},
        )

    def found(line: str) -> str:
        return matching.with_folders(queue.db, parse(line)).line()

    for written, numbers in (
        ("films", "1,2"),
        ("FILMS/", "1,2"),
        ("usb/films", "2"),
        ("/srv/nas/films", "1"),
        ("2", "2"),
        ('"my, films",5', "4,5"),
        ("\\xff", "5"),
    ):
        assert found(f"x folder:{written}") == f"folder:{numbers} x"
    assert found("!folder:films folder:nas/2") == "!folder:1,2 folder:3"
    assert found("films") == "films"
    for unknown in ("nas", "ilms", "/films", "6", "0", "-1", "%", "\0", "99999999999999999999"):
        with pytest.raises(FilterError, match="there is no drop folder"):
            found(f"folder:{unknown}")

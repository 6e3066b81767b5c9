"""`job list` of a long history: its order, its filter, its total."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import Program
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.home import Home

JOBS = 3_000
FOUND = (2_990, 1_500, 11)
"""Jobs with a word in their names; the latest comes first."""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A supervisor with a long history and nothing to do."""
    home = Home(tmp_path_factory.mktemp("long") / "home")
    home.create()
    database = Database(home.database)
    database.open()
    database.write_now(_fill)
    database.close()
    shell = Program(home.root, TQSTUDIO_GPU="false", TQSTUDIO_WORKERS="1", TQSTUDIO_DISK_RESERVE_BYTES="0")
    started = shell("up", "--detach")
    assert started.code == 0, started.err
    yield shell
    assert shell("down").code == 0


def _fill(db: Connection) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :jobs)"
    listed = ", ".join(map(str, FOUND))
    db.execute(
        f"{numbers} INSERT INTO video (id, source, output_root, name, name_lower, title, slug, size,"
        " mtime_ns, created_at) SELECT i, CAST(i AS BLOB), x'2f6f', name, lower(name), '', i, 1, 1, 1"
        f" FROM (SELECT i, iif(i IN ({listed}), 'Zq', 'clip') || '.mp4' AS name FROM n)",
        {"jobs": JOBS},
    )
    db.execute(
        f"{numbers} INSERT INTO job (id, video_id, profile, profile_json, status, created_at,"
        " completed_at) SELECT i, i, 'web', '{}', 'done', i, i FROM n",
        {"jobs": JOBS},
    )


@pytest.mark.parametrize(("sort", "ids"), [("order", FOUND), ("newest", FOUND), ("oldest", FOUND[::-1])])
def test_a_search_finds_all_in_order(up: Program, sort: str, ids: tuple[int, ...]) -> None:
    answer = up("job", "list", "--text", "zq", "--sort", sort, "--json").json()
    assert [row["id"] for row in answer["jobs"]] == list(ids)
    assert answer["total"] == len(ids)


def test_a_search_stops_at_the_limit(up: Program) -> None:
    answer = up("job", "list", "--text", "zq", "--limit", "2")
    assert answer.out.count("Zq.mp4") == 2
    assert answer.err.strip() == "2 of 3 jobs shown; use --limit for more"


def test_a_search_in_vain_is_reported(up: Program) -> None:
    assert up("job", "list", "--text", "zq no").out.strip() == "no matching jobs"


def test_a_list_says_how_many_there_are(up: Program) -> None:
    answer = up("job", "list", "--limit", "1")
    assert answer.err.strip() == f"1 of {JOBS} jobs shown; use --limit for more"

"""What counts as a clause, and that nothing else of a statement is touched."""

from __future__ import annotations

import pytest

from .clauses import mutants


def cuts(sql: str) -> list[tuple[str, str]]:
    return [(change.clause, change.put) for change in mutants(sql)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("DELETE FROM job WHERE id = :id", [("id = :id", "TRUE")]),
        (
            "UPDATE job SET a = 1 WHERE id = :id AND b IS NOT NULL RETURNING id",
            [("id = :id", "TRUE"), ("b IS NOT NULL", "TRUE")],
        ),
        (
            "SELECT 1 FROM job WHERE a BETWEEN 1 AND 2 AND b = ' AND ' ORDER BY a",
            [("a BETWEEN 1 AND 2", "TRUE"), ("b = ' AND '", "TRUE")],
        ),
        (
            "SELECT 1 FROM job WHERE a = 1 AND (b = 2 OR c = 3 AND d = 4)",
            [
                ("a = 1", "TRUE"),
                ("(b = 2 OR c = 3 AND d = 4)", "TRUE"),
                ("b = 2", "FALSE"),
                ("c = 3 AND d = 4", "FALSE"),
                ("c = 3", "TRUE"),
                ("d = 4", "TRUE"),
            ],
        ),
        (
            "SELECT 1 FROM job WHERE NOT EXISTS (SELECT 1 FROM gate WHERE kind = :kind)",
            [("NOT EXISTS (SELECT 1 FROM gate WHERE kind = :kind)", "TRUE"), ("kind = :kind", "TRUE")],
        ),
        (
            "SELECT 1 FROM job WHERE status IN ('a', 'b')",
            [("status IN ('a', 'b')", "TRUE"), ("'a',", ""), (", 'b'", "")],
        ),
        ("SELECT enabled = 1 AND drain = 0 FROM worker", [("enabled = 1", "TRUE"), ("drain = 0", "TRUE")]),
        (
            "UPDATE job SET a = CASE WHEN b > :c THEN 1 ELSE 2 END",
            [("b > :c", "TRUE"), ("b > :c", "FALSE"), ("b > :c", "b >= :c")],
        ),
        ("SELECT CASE a WHEN 1 THEN 'x' END FROM job", []),
        (
            "UPDATE video SET a = iif(size = :size, a, NULL)",
            [("size = :size", "TRUE"), ("size = :size", "FALSE")],
        ),
        (
            "DELETE FROM job WHERE max(a, b) <= 1",
            [("max(a, b) <= 1", "TRUE"), ("max(a, b) <= 1", "max(a, b) < 1")],
        ),
        ("SELECT 1 FROM job JOIN video ON video.id = job.video", [("video.id = job.video", "TRUE")]),
        (
            "INSERT INTO a (b) VALUES (1) ON CONFLICT (b) DO UPDATE SET b = 2 WHERE c = 3",
            [("c = 3", "TRUE")],
        ),
        ("SELECT count(*), max(a, b) FROM job GROUP BY a", []),
    ],
)
def test_what_is_a_clause(sql: str, expected: list[tuple[str, str]]) -> None:
    assert sorted(cuts(sql)) == sorted(expected)


def test_the_rest_stays_as_it_is() -> None:
    sql = "UPDATE job  SET a = ':x AND y'\n WHERE id = :id AND (b = 1 OR c IS NULL)  RETURNING id"
    for change, mutant in mutants(sql).items():
        head, tail = sql.split(change.clause)
        assert mutant == head + change.put + tail


def test_a_mutant_asks_for_no_index() -> None:
    [mutant] = mutants("SELECT 1 FROM job INDEXED BY ix_job_ready WHERE status = 'pending'").values()
    assert mutant == "SELECT 1 FROM job WHERE TRUE"


def test_clauses_that_read_alike_are_taken_out_one_by_one() -> None:
    sql = "SELECT 1 WHERE a = 1 UNION SELECT 2 WHERE a = 1"
    assert list(mutants(sql).values()) == [
        "SELECT 1 WHERE TRUE UNION SELECT 2 WHERE a = 1",
        "SELECT 1 WHERE a = 1 UNION SELECT 2 WHERE TRUE",
    ]


def test_what_does_not_end_is_reported() -> None:
    with pytest.raises(ValueError, match="closes"):
        mutants("SELECT 1 FROM job WHERE (a = 1")

"""Numbers, times and tables for people."""

from __future__ import annotations

import pytest

from tqstudio.cli.terminal import printing
from tqstudio.cli.terminal.options import parse_since
from tqstudio.errors import ErrorCode, TqError


def test_counts_are_in_the_order_of_the_queue() -> None:
    assert printing.counts_line({"done": 4, "in_progress": 1, "failed": 0}) == "▸ 1 running   ✓ 4 done"


def test_tables_align_wide_letters(capsys: pytest.CaptureFixture[str]) -> None:
    printing.table(("NAME", "N"), [("映画.mp4", "7"), ("[red]x.mp4", "12")], right=(1,))
    assert capsys.readouterr().out.splitlines() == [
        "NAME         N",
        "映画.mp4     7",
        "[red]x.mp4  12",
    ]


def test_a_narrow_terminal_gets_a_table_that_fits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lines() -> list[str]:
        rows = [("7", "", "/srv/upload/cam1", "/srv/ladders/cam1"), ("8", "", "/srv/b", "/srv/ladders/b")]
        printing.table(("ID", "SETTLING", "FOLDER", "OUTPUT"), rows, elastic=(3, 2))
        return capsys.readouterr().out.splitlines()

    whole = lines()
    assert "SETTLING" in whole[0], "nothing is left out where no terminal is"
    monkeypatch.setattr(printing, "terminal", lambda _=None: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    assert lines() == whole
    monkeypatch.setenv("COLUMNS", "30")
    assert lines() == [
        "ID  FOLDER        OUTPUT",
        "7   /srv/upload/  /srv/",
        "    cam1          ladders/cam1",
        "8   /srv/b        /srv/",
        "                  ladders/b",
    ]
    monkeypatch.setenv("COLUMNS", "22")
    narrow = lines()
    assert max(map(len, narrow)) <= 22
    assert "".join(line[4:12].strip() for line in narrow[1:4]) == "/srv/upload/cam1", "nothing is cut"


def test_columns_are_chosen_by_name_and_stand_in_that_order(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [("7", "", "a long name with words"), ("12", "", "b")]
    heads = ("ID", "NOTE", "NAME")
    printing.table(heads, rows, right=(0,), elastic=(2,), columns="name, id")
    assert capsys.readouterr().out.splitlines() == [
        "NAME                    ID",
        "a long name with words   7",
        "b                       12",
    ]
    monkeypatch.setattr(printing, "terminal", lambda _=None: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "20")
    printing.table(heads, rows, right=(0,), elastic=(2,), columns="name,note,id")
    assert capsys.readouterr().out.splitlines() == [
        "NAME        NOTE  ID",
        "a long             7",
        "name with",
        "words",
        "b                 12",
    ]


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        (ErrorCode.NO_SUPERVISOR, 3),
        (ErrorCode.SUPERVISOR_NOT_RESPONDING, 3),
        (ErrorCode.REFUSED, 4),
        (ErrorCode.ALREADY_RUNNING, 4),
        (ErrorCode.NOT_FOUND, 4),
        (ErrorCode.BAD_REQUEST, 2),
        (ErrorCode.BAD_CONFIG, 2),
        (ErrorCode.SOURCE_MISSING, 2),
        (ErrorCode.ENCODER_EXIT, 1),
        ("A_CODE_OF_TOMORROW", 1),
    ],
)
def test_exit_codes(code: ErrorCode | str, exit_code: int) -> None:
    assert printing.exit_code(code) == exit_code


def test_since_is_a_span_or_a_time() -> None:
    assert parse_since("2h") < parse_since("10m") < parse_since("0s")
    assert parse_since("2026-11-20T14:00:00+01:00") == "2026-11-20T13:00:00+00:00"
    with pytest.raises(TqError):
        parse_since("soon")


@pytest.mark.parametrize(
    ("text", "cells"), [("a.mp4", 5), ("東京\u3000旅行", 10), ("می\u200cخواهم", 7), ("e\u0301", 1)]
)
def test_a_text_takes_the_cells_that_a_terminal_gives_it(text: str, cells: int) -> None:
    assert printing.width(text) == cells

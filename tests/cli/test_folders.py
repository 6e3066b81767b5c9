"""What is reported of drop folders."""

from __future__ import annotations

from typing import Any

import pytest

from tqstudio.cli.commands.studio import folders
from tqstudio.ui.screens.folders import _waiting


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, ""),
        (1, "folder 3: comparing a file with a new modification time byte by byte\n"),
        (2, "folder 3: comparing 2 files with a new modification time byte by byte\n"),
    ],
)
def test_files_that_are_read_whole_are_reported(
    count: int, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder: Any = {"id": 3, "problem": None, "skipped": [], "checking": count}
    folders._print_problems(folder)
    assert capsys.readouterr().err == expected


def test_the_folders_screen_counts_what_is_not_queued_yet() -> None:
    def shown(**counts: int) -> str:
        folder: Any = counts
        return _waiting(folder)

    assert shown(settling=2, checking=1) == "2 settling"
    assert shown(settling=0, checking=12) == "12 checking"
    assert shown(settling=0, checking=0) == ""

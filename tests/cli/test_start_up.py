"""What a command that only talks to the supervisor may load."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "pydantic",
    "fastapi",
    "textual",
    "sqlmodel",
    "sqlalchemy",
    "httpx",
    "rich",
    "av",
    "psutil",
    "alembic",
)

PROGRAM = """
import sys
from tqstudio.cli import main
code = main(sys.argv[1:])
print(code, *sorted({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("status", "--json"),
        ("job", "list"),
        ("job", "show", "1"),
        ("queue", "status"),
        ("worker", "list"),
        ("folder", "list"),
        ("events",),
        ("down",),
    ],
    ids=" ".join,
)
def test_verbs_that_only_talk_load_nothing_heavy(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"TQSTUDIO_HOME": str(tmp_path)},
        timeout=60,
        check=True,
    )
    code, *loaded = done.stdout.splitlines()[-1].split()
    assert code == ("0" if arguments == ("down",) else "3")
    assert "typer" in loaded
    assert not set(loaded) & set(HEAVY)

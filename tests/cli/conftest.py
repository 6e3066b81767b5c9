"""Commands run as people run them: a process of their own, in a home of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness import Program


@pytest.fixture
def tqstudio(tmp_path: Path) -> Program:
    """The command in an empty home where no supervisor runs."""
    return Program(tmp_path / "home")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command within this process, in an empty home: for commands that end before anything is started."""
    monkeypatch.setenv("TQSTUDIO_HOME", str(tmp_path / "home"))
    from tqstudio.cli import main

    return lambda *arguments: main([str(argument) for argument in arguments])

"""Commands run as people run them: a process of their own, in a home of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TIMEOUT_S = 400
"""Generous: ffmpeg runs niced, and waits for everybody else on a busy machine."""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    def last_line(self) -> Any:
        return json.loads(self.out.splitlines()[-1])


class Shell:
    """Runs `tqstudio` in one home.

    Args:
        before: words before the command, such as a `setpriv`.
    """

    def __init__(self, home: Path, *, before: Sequence[str] = (), **environment: str) -> None:
        self.home = home
        self._before = before
        self.environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("TQSTUDIO_", "XDG_"))
        } | {"TQSTUDIO_HOME": str(home), **environment}

    def command(self, *arguments: str | bytes) -> list[str | bytes]:
        return [*self._before, sys.executable, "-P", "-m", "tqstudio", *arguments]

    def __call__(self, *arguments: str | bytes, **environment: str) -> Answer:
        done = subprocess.run(
            self.command(*arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            env=self.environment | environment,
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *arguments: str | bytes, **environment: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment | environment,
        )


@pytest.fixture
def tqstudio(tmp_path: Path) -> Shell:
    """The command in an empty home where no supervisor runs."""
    return Shell(tmp_path / "home")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command within this process, in an empty home: for what ends before anything is started."""
    monkeypatch.setenv("TQSTUDIO_HOME", str(tmp_path / "home"))
    from tqstudio.cli import main

    return lambda *arguments: main([str(argument) for argument in arguments])

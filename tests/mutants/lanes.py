"""Runs tests of the collected session in processes of their own: to record them, and against a mutant."""

from __future__ import annotations

import json
import os
import select
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from shutil import rmtree
from typing import Any, NoReturn

import pytest

from .recording import Place, Statement, watched

_GRACE_S = 10.0
_TIMES = 20
"""A test does not end if it takes so many times as long as before, and the grace."""


@dataclass(slots=True)
class Recording:
    """What tests ran, and how long each of them took in seconds."""

    tests: dict[Statement, set[str]] = field(default_factory=dict)
    places: dict[Statement, set[Place]] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def add(self, other: Recording) -> None:
        for statement, tests in other.tests.items():
            self.tests.setdefault(statement, set()).update(tests)
        for statement, places in other.places.items():
            self.places.setdefault(statement, set()).update(places)
        self.took |= other.took
        self.failed += other.failed


@dataclass(frozen=True, slots=True)
class Trial:
    """What runs in the place of some statements, and the tests that have to notice, the quickest first."""

    instead: Mapping[Statement, str]
    tests: Sequence[str]
    allowed: Sequence[float]
    """Seconds that each test may take."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a trial came out. `test` is the one that noticed; None when none did."""

    test: str | None
    why: str = ""


class _Reports:
    """Collects what failed while items run."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.failed.append(str(crash.message if crash else report.longrepr).strip().split("\n")[0])


class Lanes:
    """Processes that were forked with every test imported; each of them does one thing at a time."""

    def __init__(self, session: pytest.Session, count: int) -> None:
        self._session, self._count = session, count
        self._items = {item.nodeid: item for item in session.items}

    def record(self) -> Recording:
        """Run every test once."""
        files: dict[str, list[str]] = {}
        for name in self._items:
            files.setdefault(name.partition("::")[0], []).append(name)
        recording = Recording()
        with self._pool(_quiet) as pool:
            for part in pool.map(_record, sorted(files.values(), key=len, reverse=True)):
                recording.add(part)
        return recording

    def trials(self, trials: Sequence[Trial]) -> Iterator[Ending]:
        """How each of them came out, in their order."""
        with self._pool(_prepare) as pool:
            yield from pool.map(_try, trials)

    @contextmanager
    def _pool(self, begin: Callable[[], None]) -> Iterator[ProcessPoolExecutor]:
        global _lanes
        _lanes = self
        with tempfile.TemporaryDirectory(prefix="tqm") as root:
            before = os.environ.get("PYTEST_DEBUG_TEMPROOT")
            # Each lane makes a folder of its own below it when a test asks for a temporary path first.
            os.environ["PYTEST_DEBUG_TEMPROOT"] = root
            try:
                with ProcessPoolExecutor(self._count, get_context("fork"), initializer=begin) as pool:
                    yield pool
            finally:
                os.environ.pop("PYTEST_DEBUG_TEMPROOT")
                if before is not None:
                    os.environ["PYTEST_DEBUG_TEMPROOT"] = before

    def run(self, name: str, following: str | None = None) -> list[str]:
        """Run a test, and tear down what the following one does not need; answers what failed.

        Without one, what the whole session shares stays.
        """
        reports = _Reports()
        item = self._items[name]
        after = self._session if following is None else self._items[following]
        item.config.pluginmanager.register(reports)
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        finally:
            item.config.pluginmanager.unregister(reports)
        return reports.failed

    def prepare(self) -> Path:
        """Make what all tests share, for those who are forked from here; answers where temporary files go."""
        for name, item in self._items.items():
            if "address" in getattr(item, "fixturenames", ()):
                self.run(name)
                break
        return Path(self._session.config._tmp_path_factory.getbasetemp())  # type: ignore[attr-defined]


_lanes: Lanes
"""Of this process: set before it is forked, for a session cannot be sent."""
_folder: Path


def _quiet() -> None:
    root = tempfile.mkdtemp(dir=os.environ["PYTEST_DEBUG_TEMPROOT"])
    os.environ["PYTEST_DEBUG_TEMPROOT"] = root
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


def _prepare() -> None:
    global _folder
    _quiet()
    _folder = _lanes.prepare()


def _record(names: Sequence[str]) -> Recording:
    recording = Recording()
    current = ""

    def seen(statement: Statement, place: Place) -> str:
        recording.tests.setdefault(statement, set()).add(current)
        recording.places.setdefault(statement, set()).add(place)
        return statement.sql

    with watched(seen):
        for current, following in zip(names, [*names[1:], None], strict=True):
            began = time.perf_counter()
            failed = _lanes.run(current, following)
            recording.took[current] = time.perf_counter() - began
            recording.failed += [f"{current}: {why}" for why in failed]
    return recording


def _try(trial: Trial) -> Ending:
    """Fork, let the child run the tests, and see that it ends."""
    before = set(_folder.iterdir())
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _run_child(trial, writing)
    os.close(writing)
    try:
        return _ending(trial, reading)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for left in set(_folder.iterdir()) - before:
            rmtree(left, ignore_errors=True)


def _ending(trial: Trial, reading: int) -> Ending:
    for test, allowed_s in zip(trial.tests, trial.allowed, strict=True):
        if not select.select([reading], [], [], allowed_s)[0]:
            return Ending(test, "does not end")
        line = _line(reading)
        if not line:
            return Ending(test, "its process died")
        reported: Mapping[str, Any] = json.loads(line)
        if reported["failed"]:
            return Ending(test, reported["failed"][0])
    return Ending(None)


def _line(reading: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(reading, 1)
        if not more:
            return b""
        line += more
    return line


def _run_child(trial: Trial, writing: int) -> NoReturn:
    try:
        os.setsid()
        with watched(lambda statement, _: trial.instead.get(statement, statement.sql)):
            for name, following in zip(trial.tests, [*trial.tests[1:], None], strict=True):
                failed = _lanes.run(name, following)
                os.write(writing, json.dumps({"failed": [why[:500] for why in failed]}).encode() + b"\n")
                if failed:
                    break
    finally:
        os._exit(0)


def allowed_s(took_s: float) -> float:
    """How long a test may take against a mutant that takes so long without one."""
    return _GRACE_S + _TIMES * took_s

"""The gate: records what the tests run, makes the mutants, tries them, and says which no test noticed."""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tqstudio.engine.store.db.connection import connect
from tqstudio.engine.store.db.schema import migrate

from .clauses import Change, mutants
from .lanes import Ending, Lanes, Recording, Trial, allowed_s
from .recording import Place, Statement, places

EQUIVALENTS = Path(__file__).with_name("equivalents.toml")
SHOWS = ("matching", "orders", "pages", "records")
"""Modules that only show lists, by statements put together from parts. Nothing is decided by them, and
`store/test_pages` holds them against a plain sort of all rows."""

UNRECORDED = ("copying", "postgresql")
"""Modules whose tests need PostgreSQL, and are not part of the gate."""


@dataclass(frozen=True, slots=True, order=True)
class Mutant:
    """A function of the store whose statements lack a clause, wherever they had it."""

    function: str
    change: Change


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A clause that no test can miss, for what it says is so without it."""

    function: str
    clause: str
    reason: str
    put: str = "TRUE"

    def names(self, mutant: Mutant) -> bool:
        return (self.function, self.clause, self.put) == (
            mutant.function,
            mutant.change.clause,
            mutant.change.put,
        )


@dataclass(frozen=True, slots=True)
class Tried:
    mutant: Mutant
    trial: Trial
    ending: Ending
    equivalent: Equivalent | None


def equivalents(path: Path = EQUIVALENTS) -> list[Equivalent]:
    return [Equivalent(**entry) for entry in tomllib.loads(path.read_text()).get("equivalent", [])]


class Gate:
    """A plugin that takes the place of pytest's own loop.

    Args:
        only: functions to look at, by the beginning of their name; all when empty.
        verbose: also say which test noticed which mutant.
    """

    def __init__(self, count: int, only: str, *, verbose: bool = False) -> None:
        self._count, self._only, self._verbose = count, only, verbose
        self.tried: list[Tried] = []
        self.problems: list[str] = []

    def pytest_configure(self) -> None:
        # Here, because pytest warns of plugins that are imported before it.
        from hypothesis import Phase, settings

        # The same examples each time, and no search for the smallest one that fails.
        settings.register_profile(
            "mutants", derandomize=True, database=None, deadline=None, phases=[Phase.explicit, Phase.generate]
        )
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        lanes = Lanes(session, self._count)
        _say(f"recording {len(session.items)} tests")
        recording = lanes.record()
        self.problems += [f"fails without any mutant: {failed}" for failed in recording.failed]
        if self.problems:
            return True
        trials = {
            mutant: trial
            for mutant, trial in trials_of(recording).items()
            if mutant.function.startswith(self._only) and mutant.function.partition(".")[0] not in SHOWS
        }
        self.problems += _unsound(trials)
        if not self._only:
            self.problems += never_run(recording)
        known = [entry for entry in equivalents() if entry.function.startswith(self._only)]
        _say(f"trying {len(trials)} mutants")
        self.tried = _tried(lanes, trials, known)
        self.problems += wrong_equivalents(known, self.tried) + _false_alarms(lanes, recording, self.tried)
        if self._verbose:
            for each in self.tried:
                print(f"{each.mutant.function}: {each.mutant.change}: {each.ending.test}: {each.ending.why}")
        report(self.tried, recording)
        return True

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        survived = any(_fate(each) == "survived" for each in self.tried)
        for problem in self.problems:
            print(problem)
        session.exitstatus = 1 if survived or self.problems or not self.tried else 0


def trials_of(recording: Recording) -> dict[Mutant, Trial]:
    """A trial for each mutant, in order."""
    instead: dict[Mutant, dict[Statement, str]] = {}
    for statement in sorted(recording.tests):
        for change, sql in mutants(statement.sql).items():
            instead.setdefault(Mutant(statement.function, change), {})[statement] = sql
    return {mutant: _trial(recording, instead[mutant]) for mutant in sorted(instead)}


def _trial(recording: Recording, instead: Mapping[Statement, str]) -> Trial:
    running = {test for statement in instead for test in recording.tests[statement]}
    tests = sorted(running, key=lambda test: (recording.took[test], test))
    return Trial(instead, tests, [allowed_s(recording.took[test]) for test in tests])


def _tried(lanes: Lanes, trials: Mapping[Mutant, Trial], known: Sequence[Equivalent]) -> list[Tried]:
    tried = []
    for (mutant, trial), ending in zip(trials.items(), lanes.trials(list(trials.values())), strict=True):
        entry = next((entry for entry in known if entry.names(mutant)), None)
        tried.append(Tried(mutant, trial, ending, entry))
        if len(tried) % 50 == 0:
            _say(f"{len(tried)} of {len(trials)}")
    return tried


def _false_alarms(lanes: Lanes, recording: Recording, tried: Sequence[Tried]) -> list[str]:
    """Tests that noticed a mutant, and fail in a process of their own without one too."""
    tests = sorted({each.ending.test for each in tried if each.ending.test is not None})
    controls = [Trial({}, [test], [allowed_s(recording.took[test])]) for test in tests]
    return [
        f"{test} fails without any mutant: {ending.why}"
        for test, ending in zip(tests, lanes.trials(controls), strict=True)
        if ending.test is not None
    ]


def never_run(recording: Recording) -> list[str]:
    """Calls in the store that no test made."""
    ran = {place for places in recording.places.values() for place in places}
    return [
        f"{_short(place)}: no test runs this statement"
        for place, lines in places().items()
        if Path(place.file).stem not in UNRECORDED
        and not any(Place(place.file, line) in ran for line in lines)
    ]


def wrong_equivalents(known: Iterable[Equivalent], tried: Sequence[Tried]) -> list[str]:
    """Entries that name no mutant, or one that a test notices."""
    problems = []
    for entry in known:
        named = [each for each in tried if each.equivalent == entry]
        if not named:
            problems.append(f"equivalents.toml: {entry.function} has no clause `{entry.clause}` any more")
        problems += [
            f"equivalents.toml: {entry.function} without `{entry.clause}` is noticed by {each.ending.test}"
            for each in named
            if each.ending.test is not None
        ]
    return problems


class _Anything(dict[str, Any]):
    def __missing__(self, _key: str) -> None:
        return None


def _unsound(trials: Mapping[Mutant, Trial]) -> list[str]:
    """Mutants that SQLite does not understand: a test would notice every one of them."""
    problems = []
    with tempfile.TemporaryDirectory(prefix="tqm") as folder:
        path = Path(folder) / "tqstudio.db"
        migrate(path)
        db = connect(path)
        for mutant, trial in trials.items():
            for sql in trial.instead.values():
                try:
                    db.raw.execute(f"EXPLAIN {sql}", _Anything())
                except sqlite3.OperationalError as error:
                    problems.append(f"{mutant.function}: {error}: {sql}")
        db.close()
    return problems


def report(tried: Sequence[Tried], recording: Recording) -> None:
    """Print the counts by module, and every survivor."""
    counts: dict[str, Counter[str]] = {}
    for each in tried:
        counts.setdefault(each.mutant.function.partition(".")[0], Counter())[_fate(each)] += 1
    counts["all"] = sum(counts.values(), Counter())
    fates = ("killed", "equivalent", "survived")
    print(f"{'module':<16}{'mutants':>9}" + "".join(f"{fate:>12}" for fate in fates))
    for module, of_module in counts.items():
        print(f"{module:<16}{of_module.total():>9}" + "".join(f"{of_module[fate]:>12}" for fate in fates))
    for each in tried:
        if _fate(each) == "survived":
            statement = next(iter(each.trial.instead))
            [place, *_] = sorted(recording.places[statement])
            change = each.mutant.change
            print(f"\n{_short(place)} {each.mutant.function}: `{change.clause}` → {change.put or 'nothing'}")
            print(f"    of: {statement.sql}")
            print(f"    run by {len(each.trial.tests)} tests, noticed by none")


def _fate(tried: Tried) -> str:
    if tried.equivalent is not None:
        return "equivalent"
    return "survived" if tried.ending.test is None else "killed"


def _short(place: Place) -> str:
    return f"{Path(place.file).name}:{place.line}"


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)

"""The gate itself: it kills a mutant that a test notices, and shows one that none does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest

import tqstudio

from .clauses import Change
from .gate import SHOWS, UNRECORDED, Equivalent, Mutant, Tried, equivalents, wrong_equivalents
from .lanes import Ending, Trial
from .recording import _NO_STATEMENTS, files, module_of

_ROOT = Path(__file__).parents[2]
_WORKERS = "tests/store/test_workers.py"


@pytest.mark.gate
@pytest.mark.parametrize(
    ("test", "killed", "survives"),
    [
        (
            "test_a_worker_whose_process_ended_is_not_silent",
            "worker.registered_at IS NOT NULL",
            "worker.offline_at IS NULL",
        ),
        (
            "test_silence_is_reported_once_and_a_later_beat_takes_it_back",
            "worker.offline_at IS NULL",
            "worker.registered_at IS NOT NULL",
        ),
    ],
)
def test_a_clause_is_noticed_by_the_test_that_is_for_it(test: str, killed: str, survives: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "mutants", "--only", "workers.mark_offline", f"{_WORKERS}::{test}"],
        cwd=_ROOT,
        env={"PYTHONPATH": "tests", "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert "module" in ran.stdout, ran.stdout + ran.stderr
    assert f"workers.mark_offline: `{survives}`" in ran.stdout
    assert f"workers.mark_offline: `{killed}`" not in ran.stdout
    assert ran.returncode == 1


def tried(test: str | None, *known: Equivalent) -> list[Tried]:
    mutant = Mutant("claims.claim", Change("a = 1", "TRUE", 0))
    entry = next((entry for entry in known if entry.names(mutant)), None)
    return [Tried(mutant, Trial({}, [], []), Ending(test), entry)]


def test_an_equivalent_has_to_be_one() -> None:
    entry = Equivalent("claims.claim", "a = 1", "it says so")
    assert wrong_equivalents([entry], tried(None, entry)) == []
    assert "is noticed by test_a" in wrong_equivalents([entry], tried("test_a", entry))[0]
    other = Equivalent("claims.claim", "b = 1", "it says so")
    assert "no clause `b = 1`" in wrong_equivalents([other], tried(None, other))[0]


def test_every_equivalent_says_why() -> None:
    assert all(len(entry.reason) > 20 for entry in equivalents())


def test_the_lists_name_modules_and_functions_of_the_store() -> None:
    root = Path(tqstudio.__file__).parents[1]
    modules = {module_of(path): ".".join(path.relative_to(root).with_suffix("").parts) for path in files()}
    listed = {*SHOWS, *UNRECORDED, *(Path(name).stem for name in _NO_STATEMENTS)}
    assert listed - modules.keys() == set()
    for entry in equivalents():
        module, _, function = entry.function.partition(".")
        assert resolve_name(f"{modules[module]}:{function}")

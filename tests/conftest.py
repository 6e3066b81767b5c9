"""Fixtures of all tests: supervisors in homes of their own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import settings

from harness import LiveSupervisor, MakeSupervisor

# What a shell starts in the background ignores Ctrl-C, and so would everything the tests start: to some of it
# they send that signal.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no failure of a property.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name the simulated worlds of this run: whoever reads its log can run one of them again."""
    properties = [each for report in terminalreporter.getreports("passed") for each in report.user_properties]
    if worlds := [value for name, value in properties if name == "simulated"]:
        steps = sum(steps for _, _, steps in worlds)
        listed = ", ".join(sorted(f"{fault_profile} {seed}" for fault_profile, seed, _ in worlds))
        terminalreporter.write_line(f"simulated {steps} steps in the worlds {listed}")


@pytest.fixture
def make_supervisor(tmp_path: Path) -> Iterator[MakeSupervisor]:
    """Makes supervisors, not started yet: `make_supervisor(TQSTUDIO_LEASE_S="2").start()`.

    With one `root` given twice they share a home. All are ended after the test, by force if need be.
    """
    made: list[LiveSupervisor] = []

    def make(root: Path | None = None, **environment: str) -> LiveSupervisor:
        made.append(LiveSupervisor(root or tmp_path / "home", **environment))
        return made[-1]

    yield make
    for supervisor in made[::-1]:
        supervisor.clear_away()


@pytest.fixture(scope="session")
def vulkan() -> None:
    """Skips where Vulkan has no driver for the CPU, `make vulkan` installs it."""
    if not any(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json")):
        pytest.skip("Vulkan has no driver for the CPU: make vulkan installs it")


@pytest.fixture
def supervisor(make_supervisor: MakeSupervisor) -> LiveSupervisor:
    """A running supervisor in an empty home."""
    return make_supervisor().start()


@pytest.fixture(autouse=True)
def logs_go_nowhere_else() -> Iterator[None]:
    """A test that sets up logging writes into what pytest captures; the next test has another capture."""
    yield
    structlog.reset_defaults()

"""Turns on a processor, asked of the real kernel."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from tqstudio import cpu_slice
from tqstudio.engine.media.ffmpeg.binary import locate
from tqstudio.engine.media.ffmpeg.process import start

T = TypeVar("T")
SHORT_NS, LONG_NS = 100_000, 5_000_000


def in_a_thread(look: Callable[[], T]) -> T:
    """What a thread of its own sees: what it asks for stays with it."""
    seen: list[T] = []
    thread = threading.Thread(target=lambda: seen.append(look()))
    thread.start()
    thread.join()
    return seen[0]


def _asked() -> int | None:
    cpu_slice.take_long()
    return cpu_slice.turn_ns()


honoured = pytest.mark.skipif(in_a_thread(_asked) != LONG_NS, reason="this kernel gives all the same turns")


@honoured
def test_threads_and_processes_inherit_short_turns() -> None:
    def look() -> tuple[int | None, int]:
        cpu_slice.take_short()
        child = [sys.executable, "-c", "from tqstudio import cpu_slice; print(cpu_slice.turn_ns())"]
        return in_a_thread(cpu_slice.turn_ns), int(subprocess.check_output(child))

    assert in_a_thread(look) == (SHORT_NS, SHORT_NS)


@honoured
def test_every_thread_of_ffmpeg_takes_long_turns_and_who_started_it_does_not(tmp_path: Path) -> None:
    def look() -> int | None:
        cpu_slice.take_short()
        run = start(
            [*(locate().path, "-f", "lavfi", "-i", "testsrc2", "-c:v", "libx264"), "-f", "null", "-"],
            tmp_path,
            tmp_path / "log",
        )
        try:
            threads = psutil.Process(run.pid).threads()
            while len(threads) < 4:
                assert run.poll() is None
                threads = psutil.Process(run.pid).threads()
            asked = {cpu_slice.turn_ns(thread.id) for thread in threads}
            assert asked == {LONG_NS}
            assert psutil.Process(run.pid).nice() == min(19, psutil.Process().nice() + 10)
        finally:
            run.kill()
        return cpu_slice.turn_ns()

    assert in_a_thread(look) == SHORT_NS


def test_asking_never_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older kernel, another system, another processor: nothing changes."""
    before = cpu_slice.turn_ns()
    monkeypatch.setattr(cpu_slice, "_CALLS", {})
    cpu_slice.take_short()
    with cpu_slice.long_for_children():
        assert cpu_slice.turn_ns() is None
    monkeypatch.undo()
    assert cpu_slice.turn_ns() == before

"""One probe process: what it answers, what bounds it, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tqstudio.engine.media.ffmpeg.binary import locate
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.probing.probe_client import Answer, Died, Probed, ProbeProcess, TooSlow, Unusable
from tqstudio.home import Home
from waiting import until

from .conftest import Hostile

GB = 1_000_000_000
PLENTY_S = 60.0

Copy = Callable[[str], Path]


def ask(
    home: Home,
    *paths: Path,
    memory: int = GB,
    program: str = "tqstudio.engine.probing",
    limit_s: float = PLENTY_S,
) -> list[Answer]:
    """What one process answers; it must be gone afterwards."""

    async def run() -> list[Answer]:
        process = await ProbeProcess.start(home, memory, program)
        answers = [await process.ask(os.fsencode(path), limit_s) for path in paths]
        await process.end()
        assert not process.alive
        assert not psutil.pid_exists(process.pid)
        return answers

    return asyncio.run(run())


def code(answer: Answer) -> str:
    assert isinstance(answer, Unusable), answer
    return answer.error["code"]


def test_it_knows_what_a_worker_would_find(home: Home, clip: Path) -> None:
    [answer] = ask(home, clip)
    assert isinstance(answer, Probed)
    assert (answer.size, answer.mtime_ns) == (clip.stat().st_size, clip.stat().st_mtime_ns)
    facts = SourceFacts.from_json(answer.facts)
    assert (facts.video.width, facts.video.height, facts.video.fps) == (320, 180, 25)
    assert facts.duration_s == pytest.approx(2, abs=0.2)
    assert facts.size == answer.size


def test_bad_files_are_answers_and_the_next_one_is_read(home: Home, tmp_path: Path, copy: Copy) -> None:
    text, empty, fifo = tmp_path / "text.mp4", tmp_path / "empty.mp4", tmp_path / "fifo.mp4"
    text.write_text("no video at all")
    empty.touch()
    os.mkfifo(fifo)
    odd = copy("a\nb\udcff{[bold].mp4")
    answers = ask(home, text, empty, fifo, tmp_path / "none.mp4", tmp_path, odd)
    assert [code(answer) for answer in answers[:5]] == [
        "NO_MEDIA",
        "SOURCE_EMPTY",
        "UNSUPPORTED",
        "SOURCE_MISSING",
        "UNSUPPORTED",
    ]
    assert isinstance(answers[5], Probed)


def test_a_picture_beyond_its_memory_is_refused_and_the_next_file_is_read(
    home: Home, tmp_path: Path, clip: Path
) -> None:
    bomb = memory_bomb(tmp_path)
    answers = ask(home, bomb, clip, memory=400_000_000)
    assert code(answers[0]) == "OUT_OF_MEMORY"
    assert isinstance(answers[1], Probed)


def memory_bomb(folder: Path) -> Path:
    """A file of 1 kB whose one picture says that it has 16000×16000 pixels of 4 bytes."""
    path = folder / "bomb.mkv"
    subprocess.run(
        [
            *(locate(os.environ.get("TQSTUDIO_FFMPEG")).path, "-v", "error", "-nostdin"),
            *("-f", "lavfi", "-i", "color=s=64x64:r=25:d=0.04,format=rgba", "-c:v", "png", str(path)),
        ],
        check=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    data = bytearray(path.read_bytes())
    at = data.index(b"IHDR")
    data[at + 4 : at + 12] = (16000).to_bytes(4, "big") * 2
    data[at + 17 : at + 21] = zlib.crc32(data[at : at + 17]).to_bytes(4, "big")
    path.write_bytes(data)
    return path


def test_what_a_parser_prints_is_no_answer(home: Home, hostile: Hostile, copy: Copy) -> None:
    [answer] = ask(home, copy("loud.mp4"), program=hostile.program)
    assert isinstance(answer, Probed)
    assert "noise between the answers" in home.probe_log.read_text()


def test_a_crash_is_reported_with_its_signal_and_its_trace(home: Home, hostile: Hostile, copy: Copy) -> None:
    [answer] = ask(home, copy("crash.mp4"), program=hostile.program)
    assert answer == Died("it was killed by SIGABRT")
    assert "in hostile" in home.probe_log.read_text()


def test_a_file_has_only_so_much_time(home: Home, hostile: Hostile, copy: Copy) -> None:
    [answer] = ask(home, copy("hang.mp4"), program=hostile.program, limit_s=0.5)
    assert answer == TooSlow()


@pytest.mark.parametrize(
    ("says", "how"),
    [
        ("print('{}')", "its answer is invalid"),
        ("print('[1]')", "its answer is invalid"),
        ("print('[' * 100_000)", "its answer is invalid"),
        ("""print('{"size": 1, "mtime_ns": 1, "facts": {"video": 5}}')""", "its answer is invalid"),
        ("print('x' * 3_000_000)", "its answer is too long"),
        ("sys.exit(3)", "it ended with status 3"),
        ("print('{\"size\": 1', end='', flush=True); sys.exit()", "it ended"),
    ],
)
def test_nonsense_is_not_believed(
    home: Home, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, how: str
) -> None:
    (tmp_path / "nonsense.py").write_text(
        f"import sys\nprint('{{}}', flush=True)\nsys.stdin.readline()\n{says}\nsys.stdin.read()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert ask(home, clip, program="nonsense") == [Died(how)]


def test_one_that_cannot_start_says_where_to_read_why(home: Home) -> None:
    with pytest.raises(OSError, match=r"status 1 before it was ready, see .*probe\.log"):
        ask(home, program="no_such_program")
    assert "No module named no_such_program" in home.probe_log.read_text()


def test_it_is_small_and_nice_and_leaves_no_core(home: Home, clip: Path) -> None:
    async def run() -> None:
        process = await ProbeProcess.start(home, GB)
        await process.ask(os.fsencode(clip), PLENTY_S)
        seen = psutil.Process(process.pid)
        assert seen.nice() == min(19, os.nice(0) + 10)
        assert seen.memory_info().rss < 100_000_000
        assert seen.rlimit(psutil.RLIMIT_AS) == (GB, GB)
        assert seen.rlimit(psutil.RLIMIT_CORE) == (0, 0)
        await process.end()

    asyncio.run(run())


_PARENT = """
import asyncio, os, sys
from pathlib import Path
from tqstudio.engine.probing.probe_client import ProbeProcess
from tqstudio.home import Home

async def main():
    process = await ProbeProcess.start(Home(Path(sys.argv[1])), 10**9, sys.argv[2])
    await process.ask(os.fsencode(sys.argv[3]), 3600)

asyncio.run(main())
"""


def test_it_dies_with_its_parent_in_the_middle_of_a_file(home: Home, hostile: Hostile, copy: Copy) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", _PARENT, str(home.root), hostile.program, str(copy("hang.mp4"))]
    )
    try:
        [(pid, _)] = until(lambda: hostile.asked, "it looks at the file")
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    until(lambda: not _runs(pid), "no process is left")


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

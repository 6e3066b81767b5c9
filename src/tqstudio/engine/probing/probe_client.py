"""The probe process in the supervisor's hands: one question at a time, each with a time limit."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import subprocess
from dataclasses import dataclass
from typing import Any

from tqstudio.engine.host import children
from tqstudio.engine.host.children import Child
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.home import Home
from tqstudio.protocol.answers import ErrorView

PROGRAM = "tqstudio.engine.probing"
READY_S = 60.0
"""Loading the media libraries takes a tenth of a second; a machine at its limit may take much longer."""
MAX_ANSWER = 1_000_000
"""Bytes; a file with a thousand tracks needs a fifth of it."""
END_S = 2.0
"""A process that was told that there are no more questions has so long to end."""


@dataclass(frozen=True, slots=True)
class Probed:
    """What a file is, and which state of it that is true of."""

    size: int
    mtime_ns: int
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Unusable:
    """The file cannot be transcoded, or not be looked at."""

    error: ErrorView


@dataclass(frozen=True, slots=True)
class Died:
    """The process ended, or talked nonsense and was ended, while it looked at the file."""

    how: str


@dataclass(frozen=True, slots=True)
class TooSlow:
    """No answer came in time; the process was killed."""


Answer = Probed | Unusable | Died | TooSlow


class ProbeProcess:
    """A running probe process; `start` makes one."""

    def __init__(self, child: Child, answers: asyncio.StreamReader, pipe: asyncio.ReadTransport) -> None:
        self._child, self._answers, self._pipe = child, answers, pipe

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def alive(self) -> bool:
        return not self._child.exited.is_set()

    @classmethod
    async def start(cls, home: Home, memory_bytes: int, program: str = PROGRAM) -> ProbeProcess:
        """Start one and wait until it is ready; call from the event loop's thread.

        Raises:
            OSError: it cannot be started, or ended before it was ready.
        """
        with home.probe_log.open("ab") as stderr:
            child = children.spawn(
                program,
                str(memory_bytes),
                # Each arena of malloc reserves 64 MB of the address space that it may have.
                environment={"TQSTUDIO_HOME": str(home.root), "MALLOC_ARENA_MAX": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        answers = asyncio.StreamReader(limit=MAX_ANSWER)
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(answers), child.stdout
        )
        process = cls(child, answers, pipe)
        try:
            async with asyncio.timeout(READY_S):
                ready = await answers.readline()
        except TimeoutError:
            await process.kill()
            raise OSError(f"it was not ready within {READY_S:g} s") from None
        except BaseException:
            await process.kill()
            raise
        if not ready.endswith(b"\n"):
            await process.kill()
            raise OSError(f"it {child.how} before it was ready, see {home.probe_log}")
        return process

    async def ask(self, path: bytes, limit_s: float) -> Answer:
        """Ask about a file. After `Died` and `TooSlow` the process is gone."""
        self._tell({"path": base64.b64encode(path).decode()})
        try:
            async with asyncio.timeout(limit_s):
                line = await self._answers.readline()
        except TimeoutError:
            self._child.signal(signal.SIGKILL)
            # The supervisor itself may have stood still: an answer that came in time lies in the pipe.
            line = await self._rest()
            await self.kill()
            if not line.endswith(b"\n"):
                return TooSlow()
        except ValueError:
            await self.kill()
            return Died("its answer has no end")
        if not line.endswith(b"\n"):
            await self.kill()
            return Died(f"it {self._child.how}")
        try:
            return _read(line)
        except (ValueError, TypeError, KeyError, RecursionError):
            await self.kill()
            return Died("its answer makes no sense")

    def _tell(self, question: dict[str, str]) -> None:
        assert self._child.stdin is not None
        try:
            # A path fits into an empty pipe, and it is empty: the answer before this question was read.
            self._child.stdin.write(json.dumps(question).encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            return  # it is dead, which the pipe it answers through will tell

    async def _rest(self) -> bytes:
        try:
            return await self._answers.readline()
        except ValueError:
            return b""

    async def end(self) -> None:
        """Let it go: there are no more questions."""
        self._close_stdin()
        try:
            async with asyncio.timeout(END_S):
                await self._child.exited.wait()
        except TimeoutError:
            pass
        await self.kill()

    async def kill(self) -> None:
        """Kill it and wait until it is gone, however long the kernel keeps one that reads a dead share."""
        self._child.signal(signal.SIGKILL)
        self._close_stdin()
        await self._child.exited.wait()
        self._pipe.close()

    def _close_stdin(self) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.close()
        except BrokenPipeError:
            return  # a question it did not live to read


def _read(line: bytes) -> Probed | Unusable:
    """An answer, believed only as far as it makes sense: a hostile file may speak through it."""
    said = json.loads(line)
    if "error" in said:
        error = said["error"]
        return Unusable(
            {"code": str(error["code"]), "message": str(error["message"]), "hint": str(error["hint"])}
        )
    facts = SourceFacts.from_json(said["facts"]).to_json()
    return Probed(int(said["size"]), int(said["mtime_ns"]), facts)

"""Starts a probe process and sends it one request at a time, each with a timeout."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tqstudio.engine.host import children
from tqstudio.engine.host.children import Child
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.probing.ladder_views import LadderRequest, StreamView
from tqstudio.home import Home
from tqstudio.protocol.answers import ErrorView

_T = TypeVar("_T")
PROGRAM = "tqstudio.engine.probing"
READY_S = 60.0
"""Timeout of the start; loading the media libraries takes 0.1 s, on an overloaded machine much longer."""
MAX_ANSWER = 1_000_000
"""Bytes; the answer for a file with a thousand tracks is a fifth of it."""
END_S = 2.0
"""Timeout of a regular exit after stdin was closed."""


@dataclass(frozen=True, slots=True)
class Probed:
    """The facts of a file, and the size and mtime for which they are valid."""

    size: int
    mtime_ns: int
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Unusable:
    """The file cannot be transcoded or probed."""

    error: ErrorView


@dataclass(frozen=True, slots=True)
class Died:
    """The process exited, or was killed because of an invalid answer."""

    how: str


@dataclass(frozen=True, slots=True)
class TooSlow:
    """The request timed out; the process was killed."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The streams of a ladder as they were found."""

    streams: dict[str, StreamView]


Answer = Probed | Unusable | Died | TooSlow


class ProbeProcess:
    """A running probe process; create it with `start`."""

    def __init__(self, child: Child, answers: asyncio.StreamReader, pipe: asyncio.ReadTransport) -> None:
        self._child, self._answers, self._pipe = child, answers, pipe

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Whether it has not exited yet."""
        return not self._child.exited.is_set()

    @classmethod
    async def start(cls, home: Home, memory_bytes: int, program: str = PROGRAM) -> ProbeProcess:
        """Start a process and wait until it is ready; call from the event loop's thread.

        Raises:
            OSError: it cannot be started, or exited before it was ready.
        """
        with home.probe_log.open("ab") as stderr:
            child = children.spawn(
                program,
                str(memory_bytes),
                # Each malloc arena reserves 64 MB of the limited address space.
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
        """Probe a file. After `Died` and `TooSlow` the process has exited."""
        return await self._exchange({"path": base64.b64encode(path).decode()}, limit_s, _probed)

    async def check(self, ladder: LadderRequest, limit_s: float) -> Checked | Unusable | Died | TooSlow:
        """Check a ladder. After `Died` and `TooSlow` the process has exited."""
        return await self._exchange({"ladder": ladder}, limit_s, _checked)

    async def _exchange(
        self, request: Mapping[str, Any], limit_s: float, read: Callable[[Any], _T]
    ) -> _T | Unusable | Died | TooSlow:
        self._send(request)
        try:
            async with asyncio.timeout(limit_s):
                line = await self._answers.readline()
        except TimeoutError:
            self._child.signal(signal.SIGKILL)
            # If the supervisor itself was suspended, a timely answer may be in the pipe.
            line = await self._remaining_answer()
            await self.kill()
            if not line.endswith(b"\n"):
                return TooSlow()
        except ValueError:
            await self.kill()
            return Died("its answer is too long")
        if not line.endswith(b"\n"):
            await self.kill()
            return Died(f"it {self._child.how}")
        try:
            answer = json.loads(line)
            return _refusal(answer["error"]) if "error" in answer else read(answer)
        except (ValueError, TypeError, KeyError, RecursionError):
            await self.kill()
            return Died("its answer is invalid")

    def _send(self, request: Mapping[str, Any]) -> None:
        assert self._child.stdin is not None
        try:
            # This does not block: the pipe is empty after the previous answer, and paths fit into it.
            self._child.stdin.write(json.dumps(request).encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            return  # it has exited: reading the answer will show that

    async def _remaining_answer(self) -> bytes:
        try:
            return await self._answers.readline()
        except ValueError:
            return b""

    async def end(self) -> None:
        """Let it exit by closing its stdin; kill it after a timeout."""
        self._close_stdin()
        try:
            async with asyncio.timeout(END_S):
                await self._child.exited.wait()
        except TimeoutError:
            pass
        await self.kill()

    async def kill(self) -> None:
        """Kill it and wait until it has exited, which uninterruptible I/O may delay."""
        self._child.signal(signal.SIGKILL)
        self._close_stdin()
        await self._child.exited.wait()
        self._pipe.close()

    def _close_stdin(self) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.close()
        except BrokenPipeError:
            return  # it exited before it read the last request


# A hostile file may control the process: its answers are validated.


def _refusal(error: Any) -> Unusable:
    code, message, hint = (str(error[key]) for key in ("code", "message", "hint"))
    return Unusable({"code": code, "message": message, "hint": hint})


def _probed(answer: Any) -> Probed:
    facts = SourceFacts.from_json(answer["facts"]).to_json()
    return Probed(int(answer["size"]), int(answer["mtime_ns"]), facts)


def _checked(answer: Any) -> Checked:
    return Checked(
        {
            str(name): {
                "listing": str(found["listing"]),
                "width": int(found["width"]),
                "height": int(found["height"]),
                "codecs": str(found["codecs"]),
            }
            for name, found in answer["streams"].items()
        }
    )

"""Starts a process that sends alerts to one channel, and gives it one at a time, each with a timeout."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from typing import Any

from tqstudio.engine.host import children
from tqstudio.engine.host.children import Child
from tqstudio.home import Home
from tqstudio.wings.alerts.channels import Channel

PROGRAM = "tqstudio.wings.alerts.deliver"
_READY_S = 60.0
"""Timeout of the start; loading apprise takes 0.5 s, on an overloaded machine much longer."""
_MARGIN_S = 1.0
"""The process itself ends a try after its timeout, unless a resolver or a slow answer keeps it."""


class Sender:
    """A running process; create it with `start`."""

    def __init__(self, channel: Channel, child: Child) -> None:
        self._channel, self._child = channel, child
        self._answers = asyncio.StreamReader()
        self._pipe: asyncio.ReadTransport | None = None

    @property
    def alive(self) -> bool:
        """Whether it has not exited yet."""
        return not self._child.exited.is_set()

    @classmethod
    async def start(cls, home: Home, channel: Channel) -> Sender:
        """Start a process and wait until it is ready; call from the event loop's thread.

        Raises:
            OSError: it cannot be started.
        """
        with home.alerts_log.open("ab") as stderr:
            child = children.spawn(
                PROGRAM,
                environment={"TQSTUDIO_HOME": str(home.root)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        sender = cls(channel, child)
        try:
            await sender._begin()
        except BaseException:
            await sender.kill()
            raise
        return sender

    async def _begin(self) -> None:
        self._pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._answers), self._child.stdout
        )
        try:
            await self._asked(self._channel.config, _READY_S)
        except (TimeoutError, ValueError):
            raise OSError("the process that sends alerts was not ready; see logs/alerts.log") from None

    async def send(self, key: str, body: dict[str, Any]) -> str | None:
        """Send an alert; returns why it was not accepted. After a timeout the process has exited."""
        limit_s = self._channel.timeout_s
        try:
            answer = await self._asked({"key": key, "body": body}, limit_s + _MARGIN_S)
        except TimeoutError:
            await self.kill()
            return f"no answer within {limit_s:g} s"
        except (OSError, ValueError):
            await self.kill()
            return f"its process {self._child.how}"
        return None if answer is None else str(answer)

    async def _asked(self, request: dict[str, Any], limit_s: float) -> object:
        """Send a request to the process as a line of JSON, and return its answer.

        Raises:
            TimeoutError: there was no answer within `limit_s`.
            OSError: the process had exited before.
            ValueError: the process exited without an answer.
        """
        assert self._child.stdin is not None
        # This does not block: the pipe is empty, and an alert fits into it.
        self._child.stdin.write(json.dumps(request).encode() + b"\n")
        self._child.stdin.flush()
        async with asyncio.timeout(limit_s):
            return json.loads(await self._answers.readline())

    async def kill(self) -> None:
        """Kill it with its descendants, and wait until it has exited."""
        self._child.kill()
        await self._child.exited.wait()
        assert self._child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.close()
        if self._pipe is not None:
            self._pipe.close()

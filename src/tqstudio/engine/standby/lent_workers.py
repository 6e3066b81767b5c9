"""Runs the workers of a supervisor that stands by for the one that leads, as those of another machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import structlog

from tqstudio.config import Settings
from tqstudio.engine.host import children, memory
from tqstudio.engine.host.children import Child
from tqstudio.engine.host.restart_delay import RestartDelay
from tqstudio.engine.queue.worker_pool import default_cpu_workers
from tqstudio.home import Home
from tqstudio.protocol import remote

_STOP_S = 5.0
"""How long the workers may take to send what they have finished."""
_log = structlog.get_logger()


class LentWorkers:
    """One process of `tqstudio worker run`, with as many workers as this supervisor would have."""

    def __init__(self, home: Home, settings: Settings) -> None:
        self._home, self._settings = home, settings
        self._keeping: asyncio.Task[None] | None = None
        self._child: Child | None = None

    def start(self, token: str, shared: Sequence[Path]) -> None:
        """Starts them, unless they run: they follow the one that leads.

        Args:
            token: with which they join.
            shared: folders of sources, which are read where they are mounted here with the same content.
        """
        if self._keeping is not None:
            return
        path = self._home.root / "join.token"
        with open(path, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(f"{token}\n")
        count = self._settings.workers or default_cpu_workers(os.cpu_count() or 1, memory.total())
        command = ["worker", "run", f"--name={self._settings.host_name}", f"--slots={min(count, 16)}"]
        command += [f"--shared={folder}" for folder in shared]
        environment = {
            "TQSTUDIO_HOME": str(self._home.root),
            remote.CONNECT: remote.LEADER,
            remote.TOKEN_FILE: str(path),
        }
        self._keeping = asyncio.create_task(self._keep(command, environment))

    async def _keep(self, command: Sequence[str], environment: dict[str, str]) -> None:
        delay = RestartDelay()
        while True:
            began = time.monotonic()
            with (self._home.logs / "lent-workers.log").open("ab") as log:
                child = self._child = children.spawn(
                    "tqstudio", *command, environment=environment, stderr=log
                )
            await child.exited.wait()
            wait_s = delay.after(time.monotonic() - began)
            _log.warning("lent workers ended", how=child.how, restarts_in_s=round(wait_s, 1))
            await asyncio.sleep(wait_s)

    async def stop(self, *, at_once: bool = False) -> None:
        """Ends them; what they have finished is sent before, if there is time, unless `at_once`."""
        if self._keeping is None:
            return
        self._keeping.cancel()
        self._keeping = None
        if (child := self._child) is not None:
            child.signal(signal.SIGKILL if at_once else signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_S):
                    await child.exited.wait()
            child.kill()
            await child.exited.wait()

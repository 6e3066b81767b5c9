"""Keeps several workers of one machine running, each in a child process."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Mapping, Sequence

import structlog

from tqstudio.engine.host import children
from tqstudio.engine.host.children import Child
from tqstudio.engine.host.restart_delay import RestartDelay
from tqstudio.engine.host.waiting import wait_until_set

REFUSED = 4
"""Exit status of a worker whose token is refused."""
_FINAL = (2, REFUSED)
"""Statuses with which a restart would end again: wrong usage or settings, and refused."""
_REAP_S = 5.0
"""Interval of looks for what a dead worker has left."""

_log = structlog.get_logger()


def run(commands: Mapping[str, Sequence[str]]) -> int:
    """Run these workers, by name, until a signal ends them or all are refused; returns the exit status."""
    return asyncio.run(_Slots().run(commands))


class _Slots:
    def __init__(self) -> None:
        self._running: set[Child] = set()
        self._stopping = asyncio.Event()

    async def run(self, commands: Mapping[str, Sequence[str]]) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stop)
        children.become_subreaper()
        reaping = asyncio.create_task(self._reap())
        statuses = await asyncio.gather(*(self._keep(*each) for each in commands.items()))
        reaping.cancel()
        return 0 if self._stopping.is_set() else max(statuses)

    def _stop(self) -> None:
        """Have each worker send what it has finished, requeue its job and exit."""
        self._stopping.set()
        for child in self._running:
            child.signal(signal.SIGTERM)

    async def _reap(self) -> None:
        """Leave no zombies of a killed worker's ffmpeg, also as a container's first process."""
        while not await wait_until_set(self._stopping, _REAP_S):
            children.reap_orphans()

    async def _keep(self, name: str, command: Sequence[str]) -> int:
        """Restart a worker whenever it ends; returns its status when it is stopped or was refused."""
        delay = RestartDelay()
        while True:
            began = time.monotonic()
            try:
                child = children.spawn("tqstudio", *command, environment={}, stderr=sys.stderr.buffer)
            except OSError as error:
                how = f"cannot start: {error.strerror}"
            else:
                self._running.add(child)
                await child.exited.wait()
                self._running.remove(child)
                if self._stopping.is_set() or child.status in _FINAL:
                    return child.status
                how = child.how
            wait_s = delay.after(time.monotonic() - began)
            _log.warning("worker ended", slot=name, how=how, restarts_in_s=round(wait_s, 1))
            if await wait_until_set(self._stopping, wait_s):
                return 0

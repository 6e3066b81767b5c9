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
from tqstudio.engine.files.bounded_io import on_a_thread
from tqstudio.engine.host import children, memory
from tqstudio.engine.host.children import Child
from tqstudio.engine.host.restart_delay import RestartDelay
from tqstudio.engine.media.ffmpeg import binary, hardware
from tqstudio.engine.media.ffmpeg.hardware import TrialResults
from tqstudio.engine.queue.worker_pool import GIVE_UP_AFTER_S, default_cpu_workers
from tqstudio.errors import TqError
from tqstudio.home import Home
from tqstudio.protocol import remote

_STOP_S = 5.0
"""How long the workers may take to send what they have finished."""
_log = structlog.get_logger()


class LentWorkers:
    """Processes of `tqstudio worker run`: the CPU workers of this supervisor, and its GPUs."""

    def __init__(self, home: Home, settings: Settings) -> None:
        self._home, self._settings = home, settings
        self._tasks: list[asyncio.Task[None]] = []
        self._children: dict[str, Child] = {}
        self._is_stopping = False

    def start(self, token: str, shared: Sequence[Path]) -> None:
        """Starts them, unless they run: they follow the one that leads.

        Args:
            token: with which they join.
            shared: folders of sources, which are read where they are mounted here with the same content.
        """
        if self._tasks:
            return
        path = self._home.root / "join.token"
        remote.write_private(path, f"{token}\n")
        environment = {
            "TQSTUDIO_HOME": str(self._home.root),
            "TQSTUDIO_FFMPEG": self._settings.ffmpeg,
            remote.CONNECT: remote.LEADER,
            remote.TOKEN_FILE: str(path),
        }
        folders = [f"--shared={folder}" for folder in shared]
        self._is_stopping = False
        lent = (self._lend_cpu(folders, environment), self._lend_gpu(folders, environment))
        self._tasks = [asyncio.create_task(each) for each in lent]

    async def _lend_cpu(self, options: Sequence[str], environment: dict[str, str]) -> None:
        count = self._settings.workers or default_cpu_workers(os.cpu_count() or 1, memory.total())
        await self._keep(
            [f"--name={self._settings.host_name}", f"--slots={min(count, 16)}", *options], environment
        )

    async def _lend_gpu(self, options: Sequence[str], environment: dict[str, str]) -> None:
        # A GPU that hangs must not hold up a takeover.
        if count := await on_a_thread(self._gpus):
            name, work = f"{self._settings.host_name}_gpu", self._home.root / "work-gpu"
            own = [f"--name={name}", "--gpu", f"--slots={min(count, 16)}", f"--work={work}"]
            await self._keep([*own, *options], environment)

    def _gpus(self) -> int:
        """Counts the GPUs of this machine that encode, and may be used."""
        if not self._settings.uses_gpus:
            return 0
        try:
            ffmpeg = binary.locate(self._settings.ffmpeg)
        except TqError:
            return 0  # the log of the CPU workers says why
        found = hardware.discover(
            ffmpeg,
            decode=self._settings.gpu_decode,
            known=TrialResults(self._home.gpu_trials),
            stopped=lambda: self._is_stopping,
        )
        return sum(bool(device.encoders) for device in found)

    async def _keep(self, options: Sequence[str], environment: dict[str, str]) -> None:
        """Runs workers with these options, the first of which is their name, until it is cancelled."""
        delay = RestartDelay()
        while True:
            began = time.monotonic()
            try:
                with self._home.lent_workers_log.open("ab") as log:
                    child = self._children[options[0]] = children.spawn(
                        "tqstudio", "worker", "run", *options, environment=environment, stderr=log
                    )
                await child.exited.wait()
                how = child.how
            except OSError as error:
                how = f"cannot start: {error.strerror}"
            wait_s = delay.after(time.monotonic() - began)
            _log.warning("lent workers ended", how=how, restarts_in_s=round(wait_s, 1))
            await asyncio.sleep(wait_s)

    async def stop(self, *, at_once: bool = False) -> None:
        """Ends them; what they have finished is sent before, if there is time, unless `at_once`."""
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        for child in self._children.values():
            child.signal(signal.SIGKILL if at_once else signal.SIGTERM)
        await self._ended(_STOP_S)
        for child in self._children.values():
            child.kill()
        # One in uninterruptible I/O does not end, and must not hold up a takeover.
        await self._ended(GIVE_UP_AFTER_S)
        self._children.clear()

    async def _ended(self, timeout_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for child in self._children.values():
                    await child.exited.wait()

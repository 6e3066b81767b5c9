"""Reports the supervisor's state to systemd, if that started it, by datagrams (sd_notify(3))."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable

_MICROSECOND = 1_000_000
_STATUS_S = 30.0
"""Interval of the status line without a watchdog."""


class ServiceManager:
    """Sends states to the service manager that started this process; without one it sends nothing."""

    def __init__(self) -> None:
        # Taken out of the environment: a worker or ffmpeg must not report in the name of the supervisor.
        address = os.environ.pop("NOTIFY_SOCKET", "")
        timeout_us = os.environ.pop("WATCHDOG_USEC", "")
        watched = os.environ.pop("WATCHDOG_PID", str(os.getpid()))
        # An address that begins with @ is in the abstract namespace.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._interval_s = _STATUS_S
        if timeout_us.isdecimal() and watched == str(os.getpid()):
            self._interval_s = int(timeout_us) / _MICROSECOND / 2

    def send(self, *states: str) -> None:
        """Send `KEY=VALUE` lines. One that cannot be sent is dropped: the supervisor works without it."""
        if self._address:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
                to.setblocking(False)
                to.sendto("\n".join(states).encode(), self._address)

    async def watch(self, status: Callable[[], str]) -> None:
        """Report that the supervisor is ready, then at half of the watchdog's interval that its loop runs."""
        self.send("READY=1", f"STATUS={status()}")
        while self._address:
            self.send("WATCHDOG=1", f"STATUS={status()}")
            await asyncio.sleep(self._interval_s)

    def draining(self, at_most_s: float, status: str) -> None:
        """Report that running jobs may end first; systemd waits at least that long before it kills."""
        self.send(f"EXTEND_TIMEOUT_USEC={int(at_most_s * _MICROSECOND)}", f"STATUS={status}")

    def stopping(self) -> None:
        """Report the shutdown. Not before it is due: from now on systemd's timeout for a stop runs."""
        self.send("STOPPING=1", "STATUS=shutting down")

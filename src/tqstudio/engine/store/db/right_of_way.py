"""Who of two threads runs Python now: the writer goes first, the event loop gives way to it.

The driver lets go of the interpreter several times in every statement, for some microseconds. A thread that
waits for the interpreter is woken each time, mostly in vain. So the loop waits at its doors while the writer
runs its statements, and has the interpreter to itself while the disk makes the commit durable. With eight
clients that claim and fail as fast as they can this makes 1.2 times as many jobs (`python -m benchmarks
--only claims`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_S = 0.002
"""How long the loop gives way to one transaction: a dozen claims, and nothing that a person or a heartbeat
notices. A transaction that takes longer, for its size or for its disk, runs beside the loop from then on."""


class RightOfWay:
    """One thread takes it, another gives way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since = 0.0
        """When it was taken, 0 while it is free; read without the lock, to give way to nobody at no cost."""

    @contextmanager
    def taken(self) -> Iterator[None]:
        self._since = time.monotonic()
        try:
            with self._lock:
                yield
        finally:
            self._since = 0.0

    def give_way(self) -> None:
        """Wait while it is taken, but not beyond `LONGEST_S` from when that began."""
        if not (since := self._since):
            return
        left = since + LONGEST_S - time.monotonic()
        if left > 0 and self._lock.acquire(timeout=left):
            self._lock.release()

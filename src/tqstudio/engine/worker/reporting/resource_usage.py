"""Measures CPU and memory usage of the worker and its ffmpeg processes."""

from __future__ import annotations

import time

import psutil


class Usage:
    """CPU and memory usage between two calls of `measure`."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._seen = time.monotonic(), self._sums()[0]

    def measure(self) -> tuple[float, int]:
        """Return (percent of one processor since the last call, bytes of memory now)."""
        now, (cpu_s, memory) = time.monotonic(), self._sums()
        then, cpu_then = self._seen
        self._seen = now, cpu_s
        # The CPU time of an exited child moves to its parent, so the sum may decrease a little.
        share = max(0.0, cpu_s - cpu_then) / max(0.001, now - then)
        return round(share * 100, 1), memory

    def _sums(self) -> tuple[float, int]:
        own = self._process.cpu_times()
        cpu_s = own.user + own.system + own.children_user + own.children_system
        memory = self._process.memory_info().rss
        for child in self._process.children(recursive=True):
            try:
                times = child.cpu_times()
                cpu_s += times.user + times.system
                memory += child.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        return cpu_s, memory

"""What the figures were measured on."""

from __future__ import annotations

import datetime
import os
import platform
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from benchmarks.report import percentile
from tqstudio.engine.media.ffmpeg import binary

_FSYNCS = 300


def lines(directory: Path) -> list[str]:
    """The machine in a few lines; no path, no host name."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    memory = psutil.virtual_memory().total / 1e9
    build = binary.locate(os.environ.get("TQSTUDIO_FFMPEG")).version
    load = os.getloadavg()[0]
    busy = "; THE MACHINE IS BUSY, times are too long" if load > 0.5 * (os.cpu_count() or 1) else ""
    fsync_ms = percentile(fsyncs(directory), 50) * 1000
    return [
        f"{now} · {os.cpu_count()} cores of {_processor()} · {memory:.0f} GB · {_system()}",
        f"Python {platform.python_version()} · SQLite {sqlite3.sqlite_version} · ffmpeg {build}",
        f"files on {_file_system(directory)}, fsync of 4 kB p50 {fsync_ms:.2f} ms"
        f" · load at the start {load:.1f}{busy}",
    ]


def fsyncs(directory: Path) -> list[float]:
    """Seconds that this disk takes to make 4 kB durable, each time: the least that a commit can cost."""
    taken = []
    path = directory / "fsync"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        for _ in range(_FSYNCS):
            os.write(descriptor, b"x" * 4096)
            began = time.perf_counter()
            os.fsync(descriptor)
            taken.append(time.perf_counter() - began)
    finally:
        os.close(descriptor)
        path.unlink()
    return taken


def handed_fsyncs(directory: Path) -> list[float]:
    """Seconds to have another thread make 4 kB durable: the least that a durable claim can cost."""
    path = directory / "handed-fsync"
    taken = []
    with path.open("wb", buffering=0) as file, ThreadPoolExecutor(1) as writer:

        def write() -> None:
            file.write(b"x" * 4096)
            os.fsync(file.fileno())

        for _ in range(_FSYNCS):
            began = time.perf_counter()
            writer.submit(write).result()
            taken.append(time.perf_counter() - began)
    path.unlink()
    return taken


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _system() -> str:
    return f"{platform.system()} {platform.release().partition('-')[0]}"


def _file_system(directory: Path) -> str:
    """Type of the file system that holds a directory, such as `ext4`."""
    place = str(directory.resolve())
    best, kind = "", "an unknown file system"
    for partition in psutil.disk_partitions(all=True):
        mount = partition.mountpoint.rstrip("/") + "/"
        if f"{place}/".startswith(mount) and len(mount) > len(best):
            best, kind = mount, partition.fstype
    return kind

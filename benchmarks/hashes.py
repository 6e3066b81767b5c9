"""How fast a source's bytes are hashed: what shows that a file changed, and what settles doubt."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.options import Options
from benchmarks.report import Section, at_least, at_most
from tqstudio.engine.media.source import fingerprint

_MEGABYTE = 1_000_000
_CHUNK_BYTES = 4 * 1024 * 1024


def measure(options: Options, root: Path) -> Section:
    section = Section(
        "Hashes", f"a file of {options.hashed_mb} MB in the page cache; {options.rounds} rounds, taking turns"
    )
    path = root / "source"
    with path.open("wb") as file:
        for _ in range(options.hashed_mb):
            file.write(os.urandom(_MEGABYTE))
    source = os.fsencode(path)
    quick, full, read = list[float](), list[float](), list[float]()
    for _ in range(options.rounds):
        read.append(_gigabytes_per_s(path, lambda: _read(path)))
        quick.append(_seconds(lambda: fingerprint.quick_hash(source)) * 1000)
        full.append(_gigabytes_per_s(path, lambda: fingerprint.full_hash(source)))
    section.add("quick hash", quick, "ms", at_most(10))
    section.add("full hash", full, "GB/s", at_least(1))
    section.add("the file read and not hashed", read, "GB/s")
    return section


def _seconds(what: Callable[[], object]) -> float:
    began = time.perf_counter()
    what()
    return time.perf_counter() - began


def _gigabytes_per_s(path: Path, what: Callable[[], object]) -> float:
    return path.stat().st_size / 1e9 / _seconds(what)


def _read(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        while file.read(_CHUNK_BYTES):
            pass

"""Measures the file systems of the outputs in use."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tqstudio.engine.assembly.services import Services
from tqstudio.engine.store.library import folders
from tqstudio.engine.store.machine import gates


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system, named by the first output on it."""

    path: Path
    device: int
    total: int
    free: int


async def of_outputs(services: Services) -> list[Disk]:
    """Measures the file systems of the outputs in use, each once, without those that do not answer."""
    rows = await services.db.read(folders.listing)
    at_work = await services.db.read(gates.outputs_in_use)
    roots = {services.admission.output_root(None), *(row.output_root for row in rows)} | at_work
    found: dict[int, Disk] = {}
    for root in sorted(roots):
        with contextlib.suppress(OSError):
            disk = await services.bounded_io.run(root, partial(_measure, Path(os.fsdecode(root))))
            if disk is not None:
                found.setdefault(disk.device, disk)
    return list(found.values())


def _measure(path: Path) -> Disk | None:
    """Measures the file system where a path is or will be."""
    existing = next((p for p in (path, *path.parents) if p.exists()), None)
    if existing is None:
        return None
    usage = shutil.disk_usage(existing)
    return Disk(path, existing.stat().st_dev, usage.total, usage.free)

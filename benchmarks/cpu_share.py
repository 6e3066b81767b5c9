"""Limits processes to a share of a core, as machines of another speed would have, by a control group."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PERIOD_US = 20_000


class Unlimited(Exception):
    """This system lets no group be made; most need root."""


@contextlib.contextmanager
def group(name: str, cores: float) -> Iterator[Path]:
    """A group of at most so many cores; write a pid to `cgroup.procs` in the folder to add a process.

    Raises:
        Unlimited: no group can be made.
    """
    quota = round(cores * _PERIOD_US)
    is_unified = (_ROOT / "cgroup.controllers").exists()
    folder = (_ROOT if is_unified else _ROOT / "cpu") / f"tqstudio-bench-{os.getpid()}-{name}"
    try:
        if is_unified:
            (_ROOT / "cgroup.subtree_control").write_text("+cpu")
            folder.mkdir()
            (folder / "cpu.max").write_text(f"{quota} {_PERIOD_US}")
        else:
            folder.mkdir()
            (folder / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(quota))
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise Unlimited(f"{folder}: {error.strerror}") from None
    try:
        yield folder
    finally:
        # A process leaves it when it is reaped.
        for _ in range(100):
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.05)

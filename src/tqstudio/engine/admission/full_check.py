"""Checks every byte of a published ladder, for `--verify-full`.

Runs `tqstudio verify --full` in a separate process: the supervisor parses no media, because damaged files may
crash the parser.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path

from tqstudio.engine.host import children
from tqstudio.engine.host.children import Child
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display


async def broken(master: Path) -> frozenset[str]:
    """Return the names of the damaged renditions of a ladder, or all if they do not fit each other.

    Call it in the event loop's thread.

    Raises:
        TqError: OUTPUT_INVALID when the check did not finish.
    """
    child = _verify(master)
    answer = asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(answer), child.stdout
    )
    try:
        output = await answer.read()
        await child.exited.wait()
    finally:
        child.signal(signal.SIGKILL)
        await child.exited.wait()
        pipe.close()
    try:
        (ladder,) = json.loads(output)["ladders"]
        found = {rendition["name"]: bool(rendition["ok"]) for rendition in ladder["renditions"]}
        mismatch = ladder["error"] is not None
    except (ValueError, KeyError, TypeError):
        raise TqError(
            ErrorCode.OUTPUT_INVALID,
            f"{display(os.fsencode(master))} could not be checked: the check {child.how}",
            "see: tqstudio verify --full; encode it again with --force",
        ) from None
    return frozenset(name for name, whole in found.items() if mismatch or not whole)


def _verify(master: Path) -> Child:
    with open(os.devnull, "wb") as silence:
        return children.spawn(
            "tqstudio",
            *("verify", "--full", "--json", str(master)),
            environment={},
            stderr=silence,
            stdout=subprocess.PIPE,
        )

"""Reads a published ladder to its last byte, as `--verify-full` wants it.

That is `tqstudio verify --full`, in a process of its own: the supervisor parses no media, and what is damaged
may crash whoever does.
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
    """Names of the renditions of a ladder that are not whole; call from the event loop's thread.

    Where they do not fit each other, all of them.

    Raises:
        TqError: OUTPUT_INVALID when the check came to no end.
    """
    child = _verify(master)
    answer = asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(answer), child.stdout
    )
    try:
        said = await answer.read()
        await child.exited.wait()
    finally:
        child.signal(signal.SIGKILL)
        await child.exited.wait()
        pipe.close()
    try:
        (ladder,) = json.loads(said)["ladders"]
        found = {rendition["name"]: bool(rendition["ok"]) for rendition in ladder["renditions"]}
        apart = ladder["error"] is not None
    except (ValueError, KeyError, TypeError):
        raise TqError(
            ErrorCode.OUTPUT_INVALID,
            f"{display(os.fsencode(master))} could not be checked: the check {child.how}",
            "see: tqstudio verify --full; make it again with --force",
        ) from None
    return frozenset(name for name, whole in found.items() if apart or not whole)


def _verify(master: Path) -> Child:
    with open(os.devnull, "wb") as silence:
        return children.spawn(
            "tqstudio",
            *("verify", "--full", "--json", str(master)),
            environment={},
            stderr=silence,
            stdout=subprocess.PIPE,
        )

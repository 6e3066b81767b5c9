"""How the process of a command ends."""

from __future__ import annotations

import subprocess
import sys

_USES_A_BUCKET = """
import asyncio
import obstore
from obstore.store import MemoryStore
from tqstudio import cli

async def requests():
    store = MemoryStore()
    await obstore.put_async(store, "a", b"content", use_multipart=False)
    asked = [asyncio.ensure_future(obstore.head_async(store, "a")) for _ in range(500)]
    await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)

def command():
    asyncio.run(requests())
    print("the answer")
    return 1

cli.main = command
cli.run_and_exit()
"""


def test_a_command_that_used_a_bucket_ends_with_its_own_code() -> None:
    """Without `os._exit` about every second such process is aborted."""
    for _ in range(12):
        ended = subprocess.run(
            [sys.executable, "-c", _USES_A_BUCKET], check=False, capture_output=True, text=True
        )
        assert (ended.returncode, ended.stdout) == (1, "the answer\n")

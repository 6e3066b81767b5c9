"""Opens the result of a job, and runs the user's own commands on a job."""

from __future__ import annotations

import asyncio
import json
import os
import posixpath
import subprocess
import sys
from collections.abc import Mapping, Sequence
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from tqstudio import paths
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol import calls
from tqstudio.ui.data.keys import PLACEHOLDER, OwnCommand
from tqstudio.words.sentences import is_playable

if TYPE_CHECKING:
    from tqstudio.protocol.answers import JobRow
    from tqstudio.ui.data.context import Context, Shell

ENDED_S = 0.1
"""Interval of checks whether a command has ended."""


def no_result(row: JobRow | None) -> str:
    """Why a job has nothing to open; empty if it has."""
    if row is None:
        return "no job is selected"
    yet = "" if row["status"] in ("failed", "cancelled") else " yet"
    return "" if is_playable(row) else f"job {row['id']} is {row['word']}, so there is no result to open{yet}"


async def master_of(context: Context, row: JobRow | None) -> str:
    """The base64 of the playlist of a job.

    Raises:
        TqError: REFUSED if it has none.
    """
    if row is None or no_result(row):
        raise TqError(ErrorCode.REFUSED, no_result(row), f"{context.sign('open')} shows its state")
    generation = (await context.feed.send(calls.video(row["video"])))["generation"]
    if generation is None:
        what = f"the ladder of job {row['id']} was deleted"
        raise TqError(ErrorCode.REFUSED, what, f"{context.sign('add')} in the queue adds its source again")
    return generation["master_b64"]


async def show_page(job: int) -> str:
    """Show the result of a job in the browser, by a process that outlives the UI; without one its address.

    Raises:
        TqError: it cannot be shown.
    """
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    argv = (sys.executable, "-P", "-m", "tqstudio", "open", str(job), "--json")
    process = await asyncio.create_subprocess_exec(*argv, stdin=null, stdout=pipe, stderr=null)
    printed, _ = await process.communicate()
    try:
        answer = json.loads(printed)
    except ValueError:
        what = f"the page was not opened ({process.returncode})"
        raise TqError(ErrorCode.INTERNAL, what, f"see: tqstudio open {job}") from None
    if error := answer.get("error"):
        raise TqError(error["code"], error["message"], error["hint"])
    return str(answer["url"])


async def run_command(command: OwnCommand, context: Context, shell: Shell, row: JobRow | None) -> None:
    """Run an own command on a job, beside the UI or on its terminal.

    The facts reach the shell as variables, whose contents it never takes for code.
    """
    facts = await _facts({found[1] for found in PLACEHOLDER.finditer(command.run)}, context, row)
    line = PLACEHOLDER.sub(lambda found: f'"$tq_{found[1]}"', command.run)
    argv, more = ["/bin/sh", "-c", line], {f"tq_{name}": value for name, value in facts.items()}
    if command.terminal:
        shell.lend_terminal(lambda: subprocess.run(argv, env=os.environ | more, check=False))
    else:
        shell.start(_run_apart(argv, more, command.run, shell))


async def _facts(names: set[str], context: Context, row: JobRow | None) -> dict[str, str]:
    """What the placeholders of a command stand for."""
    if row is None:
        if names:
            raise TqError(ErrorCode.BAD_REQUEST, no_result(row), "move the cursor to one")
        return {}
    source = os.fsdecode(paths.decode(row["path_b64"]))
    facts = {"id": str(row["id"]), "name": row["name"], "source": source}
    if names & {"master", "folder"}:
        master = os.fsdecode(paths.decode(await master_of(context, row)))
        facts |= {"master": master, "folder": posixpath.dirname(master)}
    return facts


async def _run_apart(argv: Sequence[str], more: Mapping[str, str], name: str, shell: Shell) -> None:
    """Run a program that outlives the UI; if it fails meanwhile, a toast has its last words."""
    # Not a pipe: without a reader it would end the program.
    with TemporaryFile() as said:
        null, environment = subprocess.DEVNULL, os.environ | more
        # asyncio's own would be killed with the UI.
        process = subprocess.Popen(  # noqa: ASYNC220
            argv, stdin=null, stdout=null, stderr=said, env=environment, start_new_session=True
        )
        shell.toast(f"started: {paths.readable(name)}")
        while (code := process.poll()) is None:  # noqa: ASYNC110
            await asyncio.sleep(ENDED_S)
        if code:
            said.seek(0)
            last = said.read().strip().rpartition(b"\n")[2]
            shell.toast(f"{paths.readable(name)} failed ({code}): {paths.display(last)}", problem=True)

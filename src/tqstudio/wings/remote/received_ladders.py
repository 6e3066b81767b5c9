"""Checks ladders of which other machines made parts, before they are published."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from pathlib import Path

from tqstudio.config import GB
from tqstudio.engine.files import bounded_io
from tqstudio.engine.outputs.workspace import FOLDER, Workspace
from tqstudio.engine.probing.ladder_views import LadderRequest, StreamView, listing_digest
from tqstudio.engine.probing.probe_client import Checked, Died, ProbeProcess, TooSlow, Unusable
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs.assignments import assignment_of
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.engine.store.jobs.transitions import job_facts
from tqstudio.errors import ErrorCode, TqError, code_of
from tqstudio.home import Home
from tqstudio.paths import encode
from tqstudio.protocol.requests import Manifest, ManifestRendition

_AT_ONCE = 2
_LIMIT_S = 3600.0
"""A source of 100 GB on a share of 30 MB/s."""
_MEMORY_BYTES = 4 * GB
"""Address space: a decoder of 2160p has 16 pictures of 25 MB."""


@dataclass(frozen=True, slots=True)
class _Job:
    source: bytes
    profile_json: str
    work_dir: Path
    store: Path


class ReceivedLadders:
    """Lets a confined process compare such ladders with their sources, and decode a sample."""

    def __init__(self, home: Home, db: Database, workspace: Workspace) -> None:
        self._home, self._db, self._workspace = home, db, workspace
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def require_valid(self, token: LeaseToken, manifest: Manifest) -> None:
        """Check a result before it is published.

        Raises:
            TqError: OUTPUT_INVALID, with the stream; of the source; TIMEOUT; SYSTEM_LIMIT.
        """
        job = await self._db.read(self._job, token.job)
        request = await bounded_io.on_a_thread(lambda: _request(job, manifest))
        async with self._slots:
            try:
                process = await ProbeProcess.start(self._home, _MEMORY_BYTES)
            except OSError as error:
                text = f"the process that checks received ladders cannot be started: {error}"
                raise TqError(ErrorCode.SYSTEM_LIMIT, text) from error
            try:
                answer = await process.check(request, _LIMIT_S)
            finally:
                await process.kill()
        match answer:
            case Checked(streams):
                for rendition in manifest.renditions:
                    if rendition.name in streams:
                        _require_as_listed(rendition, streams[rendition.name])
            case Unusable(problem):
                raise TqError(code_of(problem["code"]), problem["message"], problem["hint"])
            case Died(how):
                # The kernel ends a process with SIGKILL when memory is short; damage ends it otherwise.
                code = ErrorCode.SYSTEM_LIMIT if "SIGKILL" in how else ErrorCode.OUTPUT_INVALID
                raise TqError(code, f"what was received cannot be checked: {how}")
            case TooSlow():
                raise TqError(ErrorCode.TIMEOUT, f"the ladder could not be checked within {_LIMIT_S:g} s")

    def _job(self, db: Connection, number: int) -> _Job:
        assignment, facts = assignment_of(db, number), job_facts(db, number)
        assert facts is not None, "a lease is of a job"
        work_dir = Path(os.fsdecode(assignment.output_root)) / FOLDER / self._workspace.uuid
        store = work_dir / "segments" / str(facts.video)
        return _Job(assignment.source, assignment.profile_json, work_dir, store)


def _request(job: _Job, manifest: Manifest) -> LadderRequest:
    return {
        "source_b64": encode(job.source) if os.path.exists(job.source) else None,
        "profile": json.loads(job.profile_json),
        "work_dir_b64": encode(job.work_dir),
        "unseekable": any(job.store.glob("unseekable-*")),
        "streams": [
            {"name": each.name, "kind": each.kind, "folder": each.folder} for each in manifest.renditions
        ],
    }


def _require_as_listed(rendition: ManifestRendition, found: StreamView) -> None:
    """Check that a worker lists a stream as it is: what it lists is what is published."""
    listed = listing_digest((each.name, each.size, each.duration_s) for each in rendition.segments)
    if listed != found["listing"]:
        text = f"{rendition.name} has other segments than its worker lists"
        raise TqError(ErrorCode.OUTPUT_INVALID, text)
    shape = (rendition.width or 0, rendition.height or 0, rendition.codecs)
    if shape != (found["width"], found["height"], found["codecs"]):
        text = f"{rendition.name} is not of the size and codec that its worker lists"
        raise TqError(ErrorCode.OUTPUT_INVALID, text)

"""Gives workers of other machines the source of their job, and receives their segments and logs.

Every call needs a live lease, so a worker that has lost its job can read and change nothing of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from blake3 import blake3

from tqstudio.engine.files import dir_fd
from tqstudio.engine.files.bounded_io import BoundedIO, NoAnswer
from tqstudio.engine.files.mounts import is_within
from tqstudio.engine.live import leases
from tqstudio.engine.live.ranges import Ranges
from tqstudio.engine.live.running_jobs import RunningJobs
from tqstudio.engine.media.ffmpeg.errors import from_output_error
from tqstudio.engine.media.plan.file_names import FRAGMENTS_NAME, INIT_NAME
from tqstudio.engine.media.source import fingerprint, sidecars, source_file
from tqstudio.engine.media.source.source_file import FileId
from tqstudio.engine.outputs.workspace import FOLDER, Workspace
from tqstudio.engine.parts.part import Part
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs.assignments import assignment_of
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.engine.store.jobs.transitions import job_facts
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.paths import decode, display, encode
from tqstudio.protocol.answers import WarningView
from tqstudio.protocol.requests import Manifest
from tqstudio.protocol.worker_answers import JobInputs, SourceFile, StoredNames
from tqstudio.wings.remote import segment_files
from tqstudio.wings.remote.segment_files import FilePart

MAX_LOG_BYTES = 64 * 1024 * 1024
_MAX_SAMPLED = 100
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _JobFiles:
    """Where the files of a job are."""

    video: int
    source: bytes
    folder: bytes | None
    """The drop folder that contains it, below which no links are followed."""
    output_root: bytes


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The names under which a worker knows its files, which may be renamed since."""

    folder: bytes
    source: bytes
    beside: frozenset[bytes]
    """Subtitle files."""


class Transfers(Part):
    """The files of running jobs."""

    def __init__(
        self,
        home: Home,
        db: Database,
        running_jobs: RunningJobs,
        ranges: Ranges,
        workspace: Workspace,
        bounded_io: BoundedIO,
    ) -> None:
        self._home, self._db, self._running_jobs, self._ranges = home, db, running_jobs, ranges
        self._workspace, self._bounded_io = workspace, bounded_io
        self._inputs: dict[LeaseToken, _Inputs] = {}
        self._samples: dict[FileId, str] = {}
        """The quick hashes of files that are being copied."""

    async def inputs(self, token: LeaseToken) -> JobInputs:
        """What a worker copies before it begins: the source, and what is stored of its ladder.

        For a range that is the headers of its streams.
        """
        job = await self._job(token)
        files, warnings = await self._read(job.source, partial(_source_files, job))
        source, *beside = (decode(file["name_b64"]) for file in files)
        self._inputs = {each: of for each, of in self._inputs.items() if self._is_live(each)}
        self._inputs[token] = _Inputs(os.path.dirname(job.source), source, frozenset(beside))
        store, paths = await self._write(job, lambda: self._look_up(job, make=True))
        if self._ranges.is_live(token):
            paths = [path for path in paths if os.path.basename(path) == INIT_NAME]
            paths = [path for path in paths if self._ranges.includes(token, path.split("/"))]
        else:
            self._ranges.begin_to_receive(token, paths)
        stored = {}
        for path in paths:
            try:
                stored[path] = await self._write(job, partial(self._digest, job, path))
            except FileNotFoundError:
                continue
        return {"files": files, "warnings": warnings, "store": store, "stored": stored}

    async def source(self, token: LeaseToken, name: bytes, version: str, offset: int, length: int) -> bytes:
        """Some bytes of the source, or of a subtitle file beside it.

        Args:
            name: as in `inputs`; the source may have been renamed since.

        Raises:
            TqError: SOURCE_CHANGED if it has other content; as `source_file.unreadable`; NOT_FOUND.
        """
        job, given = await self._job(token), self._inputs.get(token)

        def read() -> bytes:
            inputs = given or _found(job)
            if name != inputs.source and name not in inputs.beside:
                raise TqError(ErrorCode.NOT_FOUND, "that file does not belong to the source of this job")
            path = job.source if name == inputs.source else os.path.join(inputs.folder, name)
            with _opened(job, path) as descriptor:
                if not _is_same(self._version(descriptor), version):
                    raise TqError(ErrorCode.SOURCE_CHANGED, f"{display(path)} changed while it was copied")
                try:
                    return segment_files.read_all(descriptor, offset, length)
                except OSError as error:
                    raise source_file.unreadable(path, error) from error

        return await self._read(job.source, read)

    def _version(self, descriptor: int) -> str:
        """As of `_version_of`, reading samples of the same state once."""
        found = os.fstat(descriptor)
        state = source_file.identity_of(found)
        if state not in self._samples:
            if len(self._samples) >= _MAX_SAMPLED:
                self._samples.clear()
            self._samples[state] = fingerprint.quick_hash_of(descriptor, found.st_size)
        return _version_of(state, self._samples[state])

    async def stored_names(self, token: LeaseToken) -> StoredNames:
        """The stored segments of the job, which other workers may have made."""
        job = await self._job(token)
        _, paths = await self._write(job, lambda: self._look_up(job))
        return {"names": [path for path in paths if os.path.basename(path).startswith("seg_")]}

    async def stored(self, token: LeaseToken, path: str, offset: int, length: int) -> bytes:
        """Some bytes of a file in the store."""
        job, names = await self._job(token), segment_files.names_of(path)

        def read() -> bytes:
            with self._hold(job, *names[:-1]) as folder:
                return segment_files.read(folder / names[-1], offset, length)

        return await self._write(job, read)

    async def store(self, token: LeaseToken, path: str, part: FilePart, body: bytes) -> None:
        """Store a part of a file, as `segment_files.receive`."""
        job, names = await self._job(token), segment_files.names_of(path)
        if part.size > segment_files.MAX_FILE_BYTES or part.offset + len(body) > part.size:
            raise TqError(ErrorCode.BAD_REQUEST, f"{path} is larger than declared, or than any segment")

        of_range = self._ranges.is_live(token)
        if of_range and not self._ranges.includes(token, names):
            raise TqError(ErrorCode.BAD_REQUEST, f"{path} is no part of the range")
        writer = blake3(f"{token.epoch} {token.instance}".encode()).hexdigest()[:16]

        def write() -> None:
            if part.offset == 0:
                with self._hold(job) as store:
                    segment_files.mark_received(store)
            with self._hold(job, *names[:-1]) as folder:
                if of_range and names[-1] == INIT_NAME:
                    segment_files.require_equal(folder / INIT_NAME, part)
                    return
                # The worker that has the job may have stored it meanwhile, and hashed it.
                segment_files.receive(folder, names[-1], part, body, writer=writer, keep=of_range)

        await self._write(job, write)
        if not of_range and part.offset + len(body) == part.size:
            self._ranges.note_received(token, [path])

    async def remove(self, token: LeaseToken, paths: list[str]) -> None:
        """Remove files from the store; missing ones are no error."""
        job = await self._job(token)
        named = [segment_files.names_of(path) for path in paths]
        if self._ranges.is_live(token):
            # All else belongs to the worker that has the job.
            named = [names for names in named if FRAGMENTS_NAME in names]

        def remove() -> None:
            for names in named:
                with self._hold(job, *names[:-1]) as folder:
                    (folder / names[-1]).unlink(missing_ok=True)

        await self._write(job, remove)

    async def log(self, token: LeaseToken, offset: int, body: bytes) -> None:
        """Write a part of the log of the attempt; it can be repeated. Ranges have none here."""
        if not self._running_jobs.leases.is_live(token):
            raise leases.lost(token.job)
        if offset + len(body) > MAX_LOG_BYTES:
            raise TqError(ErrorCode.BAD_REQUEST, f"the log has more than {MAX_LOG_BYTES} bytes")
        folder = self._home.job_logs(token.job)

        def write() -> None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(folder / f"{token.epoch}.log", "ab") as file:
                file.truncate(min(offset, file.tell()))
                file.write(body)

        try:
            await self._bounded_io.run(os.fsencode(folder), write)
        except OSError as error:
            raise TqError(ErrorCode.IO_ERROR, f"the log cannot be written: {error.strerror}") from error

    async def require_received(self, token: LeaseToken, manifest: Manifest) -> None:
        """Check that every segment of a result has arrived as its worker lists it.

        Raises:
            TqError: OUTPUT_INVALID; OUTPUT_UNAVAILABLE.
        """
        job = await self._job(token)
        store = f"segments/{job.video}/"
        for rendition in manifest.renditions:
            folder = rendition.folder.removeprefix(store)
            for segment in rendition.segments:
                path = f"{folder}/{segment.name}"
                try:
                    found = await self._write(job, partial(self._digest, job, path))
                except FileNotFoundError:
                    found = None
                if folder == rendition.folder or found != (segment.size, segment.blake3):
                    raise TqError(ErrorCode.OUTPUT_INVALID, f"{path} is not what the worker has reported")

    def _look_up(self, job: _JobFiles, *, make: bool = False) -> tuple[str, list[str]]:
        with self._hold(job, new_output=make) as store:
            return segment_files.origin(store), sorted(segment_files.listing(store))

    def _digest(self, job: _JobFiles, path: str) -> tuple[int, str]:
        names = segment_files.names_of(path)
        with self._hold(job, *names[:-1], make=False) as folder:
            return segment_files.digest(folder / names[-1])

    def _hold(
        self, job: _JobFiles, *names: str, make: bool = True, new_output: bool = False
    ) -> AbstractContextManager[Path]:
        """Open a folder of the video's store.

        Args:
            make: create it if it is missing.
            new_output: the output may have no work folder yet; otherwise its disk is not mounted.

        Raises:
            TqError: OUTPUT_UNAVAILABLE.
        """
        root = Path(os.fsdecode(job.output_root))
        if not new_output and not self._workspace.is_there(job.output_root):
            text = f"the work folder of the output {display(job.output_root)} is not there"
            raise TqError(ErrorCode.OUTPUT_UNAVAILABLE, text)
        return dir_fd.hold(root, FOLDER, self._workspace.uuid, "segments", str(job.video), *names, make=make)

    async def _job(self, token: LeaseToken) -> _JobFiles:
        if not self._is_live(token):
            raise leases.lost(token.job)
        return await self._db.read(_job_of, token.job)

    def _is_live(self, token: LeaseToken) -> bool:
        return self._running_jobs.leases.is_live(token) or self._ranges.is_live(token)

    async def _read(self, source: bytes, function: Callable[[], T]) -> T:
        try:
            return await self._bounded_io.run(source, function)
        except NoAnswer as error:
            raise TqError(ErrorCode.DISK_NOT_RESPONDING, str(error.strerror)) from error

    async def _write(self, job: _JobFiles, function: Callable[[], T]) -> T:
        """Run a step in the store of a video, one at a time; FileNotFoundError is for the caller."""
        place = b"%s/%d" % (job.output_root, job.video)
        try:
            return await self._bounded_io.run(place, function)
        except NoAnswer as error:
            raise TqError(ErrorCode.DISK_NOT_RESPONDING, str(error.strerror)) from error
        except FileNotFoundError:
            raise
        except OSError as error:
            shown = display(job.output_root)
            raise from_output_error(error, f"the output folder {shown} cannot be used") from error


def _job_of(db: Connection, number: int) -> _JobFiles:
    assignment, facts = assignment_of(db, number), job_facts(db, number)
    assert facts is not None, "a lease is of a job"
    folder = (
        assignment.folder if assignment.folder and is_within(assignment.source, assignment.folder) else None
    )
    return _JobFiles(facts.video, assignment.source, folder, assignment.output_root)


def _version_of(state: FileId, samples: str) -> str:
    """Name a state of a file, its times last."""
    return f"{state.size}.{state.inode}.{samples}.{state.mtime_ns}.{state.ctime_ns}"


def _is_same(version: str, other: str) -> bool:
    """Whether two states differ in their times at most: a file that is only touched is copied on."""
    return version.split(".")[:3] == other.split(".")[:3]


def _opened(job: _JobFiles, path: bytes) -> AbstractContextManager[int]:
    """Open the source or a file beside it; of the latter, links are never followed."""
    return source_file.opened(path, job.folder if path == job.source else job.folder or os.path.dirname(path))


def _found(job: _JobFiles) -> _Inputs:
    folder, name = os.path.split(job.source)
    return _Inputs(folder, name, frozenset(track.file for track in sidecars.find(job.source).tracks))


def _source_files(job: _JobFiles) -> tuple[list[SourceFile], list[WarningView]]:
    """The source and the subtitle files beside it, with warnings about those that are left out."""
    files: list[SourceFile] = []
    beside = sidecars.find(job.source)
    folder, source = os.path.split(job.source)
    for name in (source, *(track.file for track in beside.tracks)):
        with _opened(job, os.path.join(folder, name)) as descriptor:
            found = os.fstat(descriptor)
            digest = fingerprint.quick_hash_of(descriptor, found.st_size)
        state = source_file.identity_of(found)
        files.append(
            {
                "name_b64": encode(name),
                "version": _version_of(state, digest),
                "identity": state._asdict(),
                "quick_hash": digest,
            }
        )
    return files, [{"code": each.code.value, "text": each.text} for each in beside.warnings]

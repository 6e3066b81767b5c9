"""Runs the jobs of a worker on another machine than its studio: source in, segments out.

    WORK/source/<video>-<version>/  the source of the last job, and the subtitles beside it
    WORK/.tqstudio/remote/segments/ its segment store, which `Mirror` keeps equal to the studio's
    WORK/logs/                      the log of the last attempt

Source and store stay until the job is done, so that a lost connection loses nothing that is finished.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from tqstudio import paths
from tqstudio.engine.files import durable
from tqstudio.engine.media.check import digests
from tqstudio.engine.media.source.fingerprint import quick_hash_of
from tqstudio.engine.worker.job import pipeline
from tqstudio.engine.worker.job.attempt import WorkerConfig
from tqstudio.engine.worker.job.failure import describe
from tqstudio.engine.worker.reporting import calls
from tqstudio.engine.worker.reporting.lease import Lease, StopWork
from tqstudio.engine.worker.reporting.outcome import Done, Failed, Outcome, RangeMade, Stopped
from tqstudio.engine.worker.reporting.progress_report import Report
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import Step
from tqstudio.paths import encode
from tqstudio.protocol.client import Client
from tqstudio.protocol.remote import Remote
from tqstudio.units import size as shown_size
from tqstudio.wings.remote.worker import shared
from tqstudio.wings.remote.worker.link import Link
from tqstudio.wings.remote.worker.mirror import Mirror, fetch, require_held, state_of

if TYPE_CHECKING:
    from tqstudio.protocol.worker_answers import ClaimedJob, JobInputs, SourceFile

_ORIGIN = ".origin"
_INPUTS_TIMEOUT_S = 3600.0
"""The studio may have to hash a whole stored ladder."""
_LAST_FILES_S = 20.0
"""How long a job that was stopped or has failed may send what it has finished."""
_ASKED = 1000
_DISK_REST_S = 300.0
_OF_DISK = (ErrorCode.DISK_LOW, ErrorCode.OUTPUT_UNAVAILABLE, ErrorCode.OUTPUT_SHARED)
_OF_MOUNT = (
    ErrorCode.SOURCE_UNAVAILABLE,
    ErrorCode.SOURCE_CHANGED,
    ErrorCode.SOURCE_MISSING,
    ErrorCode.PERMISSION,
    ErrorCode.IO_ERROR,
)

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RemoteJobs:
    """Runs jobs of the studio at `at` in the folder `work`."""

    at: Remote
    instance: str
    work: Path
    bytes_per_s: float = 0
    """Limit of the transfers in each direction; 0 for none."""
    shared: tuple[Path, ...] = ()
    """Folders of the studio that are mounted here, in which sources need no copy."""
    _to_copy: set[str] = field(default_factory=set)
    """Versions of sources that could not be read there, and are copied the next time."""
    _lacked_space: set[int] = field(default_factory=set)
    """Jobs that failed for this machine's disk since the last rest."""

    def run(self, job: ClaimedJob, config: WorkerConfig, lease: Lease, report: Report) -> Outcome:
        """Work on a job as `pipeline.run`, with copies of its files."""
        try:
            report.begin(Step.PROBE)
            shutil.rmtree(self.work / "logs", ignore_errors=True)
            inputs, root, source = self._copy_inputs(job, lease, report)
            local = self._localise(job, root, source, inputs)
            with self._mirror(local, inputs, lease, report) as mirror:
                outcome = pipeline.run(local, config, lease, report)
                if mirror.error is None:
                    outcome = self._as_of_worker(outcome, inputs, root, job["job"])
                if isinstance(outcome, Done | RangeMade):
                    mirror.finish(lease.check)
                elif _is_continued(outcome):
                    # The reason why it ends counts more than an error here.
                    with contextlib.suppress(TqError):
                        mirror.finish(lambda: require_held(lease), _LAST_FILES_S)
            if job.get("range"):
                shutil.rmtree(self._store(job), ignore_errors=True)
            if isinstance(outcome, Done):
                identity = inputs["files"][0]["identity"]
                outcome = replace(outcome, manifest={**outcome.manifest, "source": identity})
                shutil.rmtree(self._store(job), ignore_errors=True)
                shutil.rmtree(self.work / "source", ignore_errors=True)
        except StopWork as stop:
            return stop.outcome
        except Exception as error:
            if isinstance(error, OSError):
                error = TqError(ErrorCode.WORKER_DISK, f"{error.filename or self.work}: {error.strerror}")
            elif not isinstance(error, TqError):
                _log.exception("job failed", job=job["job"])
            if isinstance(error, TqError) and error.code is ErrorCode.WORKER_DISK:
                self._lacked_space.add(job["job"])
            return describe(error, paths.decode(job["source"]["path_b64"]))
        return outcome

    def between_jobs(self) -> float:
        """Remove what ended jobs have left; return for how many seconds no job is wanted.

        That is after one that lacked space here: the next one would most likely meet the same full disk.
        """
        self._forget_ended()
        rest_s = _DISK_REST_S if self._lacked_space else 0.0
        self._lacked_space.clear()
        return rest_s

    def _forget_ended(self) -> None:
        """Remove the files of videos without an open job; none while the studio does not answer."""
        kept: dict[int, list[Path]] = {}
        for folder in (*self.work.glob("source/*"), *self._work_dir.glob("segments/*")):
            number = folder.name.partition("-")[0]
            if number.isdecimal():
                kept.setdefault(int(number), []).append(folder)
        if not kept:
            return
        try:
            with contextlib.closing(Client(self.at)) as client:
                needed = client.send(calls.kept(self.instance, sorted(kept)[:_ASKED]))["needed"]
        except TqError as error:
            _log.warning("what may be removed is not known", code=error.code.value, error=error.message)
            return
        for video in set(sorted(kept)[:_ASKED]) - set(needed):
            for folder in kept[video]:
                shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def _mirror(self, job: ClaimedJob, inputs: JobInputs, lease: Lease, report: Report) -> Iterator[Mirror]:
        store = self._store(job)
        known = {path: state_of(store / path) for path in inputs["stored"]}
        link = Link(self.at, lease, self.instance, lease.check, self.bytes_per_s)
        source = paths.decode(job["source"]["path_b64"])
        if job.get("range"):
            mirror = Mirror(link, lease, store, known, source, None)
        else:
            identity = inputs["files"][0]["identity"]
            mirror = Mirror(link, lease, store, known, source, Path(job["log"]), report, identity)
        try:
            yield mirror
        finally:
            mirror.abandon()

    def _copy_inputs(self, job: ClaimedJob, lease: Lease, report: Report) -> tuple[JobInputs, Path, Path]:
        """Copy the source, unless it is at hand, and what the studio has stored of the ladder.

        Returns:
            What the studio has; a folder; the source, which is below it.
        """
        link = Link(self.at, lease, self.instance, lease.check, self.bytes_per_s)
        try:
            inputs: JobInputs = link.get("inputs", _INPUTS_TIMEOUT_S)
            folder = self._source_folder(job, inputs)
            # A store may have segments of another job that were not sent yet.
            self._forget_others(folder, *(() if job.get("range") else (self._store(job),)))
            root, path = self._shared_source(job, inputs) or (
                folder,
                self._copy_files(link, folder, inputs, report),
            )
            if job.get("range"):
                shutil.rmtree(self._store(job), ignore_errors=True)
            self._copy_store(link, self._store(job), inputs)
        finally:
            link.close()
        return inputs, root, path

    def _shared_source(self, job: ClaimedJob, inputs: JobInputs) -> tuple[Path, Path] | None:
        found = None
        if inputs["files"][0]["version"] not in self._to_copy:
            found = shared.find(self.shared, paths.decode(job["source"]["path_b64"]), inputs["files"])
        if self.shared:
            how = (
                "the source is copied: no shared folder has it whole"
                if found is None
                else "the source is shared"
            )
            _log.info(how, job=job["job"])
        return found

    def _copy_files(self, link: Link, folder: Path, inputs: JobInputs, report: Report) -> Path:
        """Copy the source and the subtitles beside it; returns the path of the copy."""
        source, *beside = inputs["files"]
        self._copy_source(link, folder, source, report.copied)
        for path in folder.iterdir():
            if path.name != _name(source):
                path.unlink()  # subtitles of an earlier attempt
        for file in beside:
            self._copy_source(link, folder, file)
        return folder / _name(source)

    def _forget_others(self, *folders: Path) -> None:
        """Remove the files of the job before, or of another version of the source."""
        for kept in folders:
            kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in kept.parent.iterdir():
                if folder != kept:
                    shutil.rmtree(folder, ignore_errors=True)

    def _copy_source(
        self, link: Link, folder: Path, file: SourceFile, copied: Callable[[float], None] = lambda _: None
    ) -> None:
        """Copy a file of the source, from where an earlier attempt was interrupted.

        Args:
            copied: called with the percent that is copied.
        """
        name, identity = _name(file), file["identity"]
        folder.mkdir(exist_ok=True)
        path, begun = folder / name, folder / ".part"
        if path.exists() and path.stat().st_size == identity["size"]:
            return
        with begun.open("ab") as part:
            offset = part.tell()
            free = shutil.disk_usage(folder).free
            if free < identity["size"] - offset:
                raise TqError(
                    ErrorCode.WORKER_DISK,
                    f"{self.work} has {shown_size(free)} free, the source has {shown_size(identity['size'])}",
                )
            while offset < identity["size"]:
                copied(offset / identity["size"] * 100)
                content = link.read(
                    "source",
                    name_b64=file["name_b64"],
                    version=file["version"],
                    offset=offset,
                )
                if not content:
                    raise TqError(ErrorCode.SOURCE_CHANGED, f"{name} became shorter while it was copied")
                part.write(content)
                offset += len(content)
        # After a power cut an earlier part may be empty.
        with begun.open("rb") as part:
            is_same = quick_hash_of(part.fileno(), identity["size"]) == file["quick_hash"]
            os.fsync(part.fileno())
        if not is_same:
            begun.unlink()
            raise TqError(ErrorCode.SOURCE_CHANGED, f"the copy of {name} differs from it")
        os.utime(begun, ns=(identity["mtime_ns"], identity["mtime_ns"]))
        begun.replace(path)
        durable.sync_folder(folder)

    def _copy_store(self, link: Link, store: Path, inputs: JobInputs) -> None:
        """Copy stored files that are missing here. Files that are only here stay; they are sent later."""
        origin = store / _ORIGIN
        try:
            is_same = origin.read_text() == inputs["store"]
        except FileNotFoundError:
            is_same = False
        if not is_same:
            # The studio has discarded that work since.
            shutil.rmtree(store, ignore_errors=True)
            store.mkdir(parents=True)
            origin.write_text(inputs["store"])
        for path, (size, digest) in inputs["stored"].items():
            target = store / path
            if not target.resolve().is_relative_to(store.resolve()):
                raise TqError(ErrorCode.BAD_REQUEST, f"the studio names {path[:200]!r} in its store")
            if target.is_file() and (target.stat().st_size, digests.of_file(target)) == (size, digest):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if not fetch(link, path, target, size) or target.stat().st_size != size:
                raise TqError(ErrorCode.OUTPUT_INVALID, f"{path} changed while it was copied")

    def _as_of_worker(self, outcome: Outcome, inputs: JobInputs, root: Path, job: int) -> Outcome:
        """Convert errors of the work folder and of a mounted source: no gate of the studio must close."""
        if not isinstance(outcome, Failed):
            return outcome
        of_mount = root in self.shared and outcome.code in _OF_MOUNT
        if of_mount:
            self._to_copy.add(inputs["files"][0]["version"])
        is_here = of_mount or outcome.code in _OF_DISK
        if is_here and not of_mount:
            self._lacked_space.add(job)
        return replace(outcome, code=ErrorCode.WORKER_DISK) if is_here else outcome

    def _localise(self, job: ClaimedJob, root: Path, source: Path, inputs: JobInputs) -> ClaimedJob:
        """The job with the paths of this machine. Ladders of other videos are not at hand to link from."""
        return {
            **job,
            "source": {"kind": "file", "path_b64": encode(os.fsencode(source))},
            "source_root_b64": encode(os.fsencode(root)),
            "drop_folder_b64": None,
            "work_dir": {"kind": "file", "path_b64": encode(os.fsencode(self._work_dir))},
            "duplicates": [],
            "source_warnings": inputs["warnings"],
            "log": str(self.work / "logs" / f"{job['job']}-{os.path.basename(job['log'])}"),
        }

    @property
    def _work_dir(self) -> Path:
        return self.work / ".tqstudio" / "remote"

    def _store(self, job: ClaimedJob) -> Path:
        return self._work_dir / "segments" / str(int(job["video"]))

    def _source_folder(self, job: ClaimedJob, inputs: JobInputs) -> Path:
        return self.work / "source" / f"{int(job['video'])}-{os.path.basename(inputs['files'][0]['version'])}"


def _is_continued(outcome: Outcome) -> bool:
    """Whether a later attempt may use what this one has finished."""
    if isinstance(outcome, Stopped):
        return outcome.reason in ("pause", "shutdown", "hours")
    return isinstance(outcome, Failed)


def _name(file: SourceFile) -> str:
    """The name of a copy: never a path, whatever the studio answers."""
    return os.path.basename(os.fsdecode(paths.decode(file["name_b64"]))).lstrip(".") or "source"

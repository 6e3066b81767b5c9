"""Holds what one attempt works with: its source, its output, its scratch directory and its log."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from tqstudio import paths
from tqstudio.engine.files.dir_fd import hold
from tqstudio.engine.host import memory
from tqstudio.engine.media.encode.values import EncodeSpec
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.errors import from_output_error
from tqstudio.engine.media.ffmpeg.trial_runs import require_vulkan
from tqstudio.engine.media.plan.grid import make_grid
from tqstudio.engine.media.plan.keys import decided_for
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import Rung, first_quality
from tqstudio.engine.media.plan.video_codecs import CPU_ENCODER, uses_gpu
from tqstudio.engine.media.source.colour import needs_vulkan
from tqstudio.engine.media.source.source_file import keep_open
from tqstudio.engine.worker.job.attempt_log import AttemptLog
from tqstudio.engine.worker.job.failure import describe
from tqstudio.engine.worker.job.limits import MAX_DURATION_S, TimeLimit, memory_limit, require_length
from tqstudio.engine.worker.job.rendition_choice import RenditionChoice, choose, on_kept_grid
from tqstudio.engine.worker.job.source import ExaminedSource, examine
from tqstudio.engine.worker.reporting.lease import Lease, StopWork
from tqstudio.engine.worker.reporting.outcome import Failed, Lost, Outcome
from tqstudio.engine.worker.reporting.progress_report import Report
from tqstudio.errors import ErrorClass, ErrorCode, TqError, class_of
from tqstudio.lifecycle import JobKind, Step

if TYPE_CHECKING:
    from tqstudio.protocol.worker_answers import ClaimedJob, DecidedCrf

_log = structlog.get_logger()
_SOURCE_CODES = (
    ErrorCode.SOURCE_CHANGED,
    ErrorCode.SOURCE_MISSING,
    ErrorCode.SOURCE_UNAVAILABLE,
    ErrorCode.IO_ERROR,
)
"""Errors of the source that replace the error of a step, because they are its cause."""


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The resources and settings of a worker."""

    ffmpeg: FFmpeg
    encoder: str = CPU_ENCODER
    """Used unless the profile or the source requires the CPU."""
    device: str | None = None
    decodes: str = ""
    nice: int = 10
    stall_s: float = 120
    time_limit: TimeLimit = field(default_factory=TimeLimit)
    max_duration_s: float = MAX_DURATION_S
    disk_reserve_bytes: int = 0
    disk_factor: float = 1.5


@dataclass
class Attempt:
    """An attempt at a job, or at a part of it."""

    job: ClaimedJob
    config: WorkerConfig
    lease: Lease
    report: Report
    log: AttemptLog
    path: bytes
    named_work_dir: Path
    work_dir: Path
    """The same folder, or its path below a descriptor once it is kept open."""
    open_files: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """Keeps the source and the work folder open."""
    source: ExaminedSource | None = None
    crfs: list[DecidedCrf] = field(default_factory=list)
    """Decided for the quality of the profile, in this attempt or before."""
    profile: Profile = field(init=False)
    choice: RenditionChoice = field(init=False)

    def run(self) -> Outcome:
        """Run all steps. Raises StopWork if the lease ended; any other exception is passed to `failed`."""
        raise NotImplementedError

    def log_outcome(self, outcome: Outcome) -> None:
        """Log the outcome, and how far it came."""
        raise NotImplementedError

    @property
    def output(self) -> Path:
        """The output folder."""
        return output_of(self.named_work_dir)

    def examine(self) -> None:
        """Open the source and the output, and choose what to encode.

        Raises:
            TqError: the source cannot be used, or not with this profile.
        """
        dropped_in = self.job["drop_folder_b64"]
        self.open_files.enter_context(keep_open(self.path, paths.decode(dropped_in) if dropped_in else None))
        source = self.source = examine(self.job, self.path, self.lease.check)
        self.profile = on_kept_grid(
            source.facts,
            _profile(self.job),
            source.content_id,
            self.job["requested"],
            self.job["kept"],
        )
        require_length(source.facts, self.path, self.config.max_duration_s)
        source.require_accepted(self.profile)
        require_vulkan(self.config.ffmpeg, source.facts.video, paths.display(self.path))
        self.choice = choose(
            source.facts,
            self.profile,
            source.content_id,
            self.job["requested"],
            self.job["kept"],
            dropped=self.job["dropped"],
        )
        # A failed search is repeated when all is made again.
        again = self.job["kind"] == JobKind.RETRANSCODE
        self.crfs = [each for each in self.job.get("crfs", ()) if not again or each["vmaf"] is not None]
        self._open_work_dir()

    def failed(self, error: Exception) -> Failed:
        """Describe an error for the supervisor; the log gets the traceback."""
        if not isinstance(error, TqError):
            self.log.exception(error)
        if isinstance(error, OSError) and self._is_in_output(error):
            error = from_output_error(error, f"{self._shown_output()} cannot be used")
        failed = describe(error, self.path)
        cause = None if class_of(failed.code) is ErrorClass.RESOURCE else self._source_error()
        if cause is not None and cause.code is not failed.code:
            # The change of the source is the likely cause of the error.
            self.log.line(f"{failed.code}: {failed.text}")
            failed = describe(cause, self.path)
        return failed

    def _source_error(self) -> TqError | None:
        """The error of a source that was changed or removed since the start of the attempt, or None."""
        try:
            if self.source is not None:
                self.source.original.require_same()
        except TqError as error:
            return error if error.code in _SOURCE_CODES else None
        return None

    def _is_in_output(self, error: OSError) -> bool:
        if error.filename is None:
            return False
        path = Path(os.fsdecode(error.filename))
        return path.is_relative_to(self.output) or path.is_relative_to(self.work_dir)

    def _shown_output(self) -> str:
        return f"the output folder {paths.display(os.fsencode(self.output))}"

    def _open_work_dir(self) -> None:
        """Create the work folder and keep it open, so that no other user can replace it."""
        try:
            self.work_dir = self.open_files.enter_context(
                hold(
                    self.output,
                    *self.named_work_dir.relative_to(self.output).parts,
                    make=True,
                )
            )
        except OSError as error:
            raise _unwritable(error, self._shown_output()) from error

    def _require_work_dir(self) -> None:
        """Check that the output was not moved or unmounted; files could still be written to the open folder.

        Raises:
            TqError: as `from_output_error`.
        """
        try:
            if not os.path.samestat(os.stat(self.named_work_dir), os.stat(self.work_dir)):
                raise FileNotFoundError(errno.ENOENT, "it was replaced by another folder")
        except OSError as error:
            raise from_output_error(error, f"{self._shown_output()} cannot be used") from error

    @property
    def decided(self) -> dict[str, DecidedCrf]:
        """The decision of each encoder for this content and these settings."""
        return {encoder: each for encoder, (_, each) in self._decided.items()}

    @property
    def _decided(self) -> dict[str, tuple[Rung, DecidedCrf]]:
        assert self.source is not None
        return decided_for(self.crfs, self.source.content_id, self.source.facts, self.profile)

    @property
    def video_store(self) -> Path:
        return self.work_dir / "segments" / str(self.job["video"])

    @property
    def _scratch_dir(self) -> Path:
        return self.work_dir / "scratch" / f"{self.job['job']}-{self.job['epoch']}"

    @contextlib.contextmanager
    def step(self, step: Step) -> Iterator[None]:
        """Run a step: check the lease, report its start and its duration."""
        self.lease.check()
        self.report.begin(step)
        self.log.line(f"{step}: started")
        began = time.monotonic()
        how = "failed"
        try:
            yield
            how = "done"
        except StopWork:
            how = "stopped"
            raise
        finally:
            seconds = time.monotonic() - began
            self.report.end(step, seconds)
            self.log.line(f"{step}: {how} after {seconds:.2f} s")
            _log.info("step", job=self.job["job"], step=step.value, ended=how, seconds=round(seconds, 3))

    @contextlib.contextmanager
    def scratch_folder(self) -> Iterator[None]:
        """Create an empty directory on the file system of the segment store, and remove it at the end."""
        root, scratch = self._scratch_dir.parent, self._scratch_dir
        try:
            # OUT/.tqstudio: no other user may plant links among unfinished files, whatever the umask.
            self.video_store.parents[2].mkdir(mode=0o700, parents=True, exist_ok=True)
            self.video_store.mkdir(parents=True, exist_ok=True)
            root.mkdir(exist_ok=True)
            self._remove_old(root)
            scratch.mkdir()
        except OSError as error:
            raise _unwritable(error, self._shown_output()) from error
        try:
            yield
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
            self._remove_old(root)

    def _remove_old(self, root: Path) -> None:
        """Remove what killed workers have left of this job, whose leases have ended, and of ranges of it."""
        for old in root.glob(f"{self.job['job']}-*"):
            epoch = old.name.split("-")[1]
            if epoch.isdigit() and int(epoch) <= self.job["epoch"]:
                shutil.rmtree(old, ignore_errors=True)

    def spec(self, *, poster: bool) -> EncodeSpec:
        """What to encode of the source."""
        config, source, profile, choice = self.config, self.source, self.profile, self.choice
        assert source is not None
        # ffmpeg gives its filters one device, which would be that of the GPU encoder.
        is_on_cpu = profile.encoder == "cpu" or needs_vulkan(source.facts.video)
        encoder = CPU_ENCODER if is_on_cpu else config.encoder
        first = None
        if self.job.get("first"):
            first = first_quality(choice.make, source.facts, profile, on_gpu=uses_gpu(encoder))
        return EncodeSpec(
            ffmpeg=config.ffmpeg,
            source=self.path,
            original=source.original,
            facts=source.facts,
            grid=make_grid(source.facts, profile),
            profile=profile,
            rungs=choice.make,
            audio=choice.audio,
            subtitles=choice.subtitles,
            content_id=source.content_id,
            store_root=self.video_store,
            scratch=self._scratch_dir,
            log_dir=self.log.run_dir,
            encoder=encoder,
            device=config.device,
            decodes="" if profile.encoder == "cpu" else config.decodes,
            memory_limit=memory_limit(memory.total()),
            nice=config.nice,
            crf_shifts={encoder: each["crf"] - rung.crf for encoder, (rung, each) in self._decided.items()},
            poster=poster,
            storyboard=choice.storyboard,
            first=first,
            require_output=self._require_work_dir,
            is_owner=lambda: not isinstance(self.lease.ended, Lost),
        )


def output_of(work_dir: Path) -> Path:
    """The output folder that contains this work folder."""
    return work_dir.parent.parent


def _unwritable(error: OSError, out: str) -> TqError:
    """The error of an output folder that cannot be written: retryable only if the disk failed."""
    found = from_output_error(error, f"{out} cannot be written to")
    # ENOTDIR: a file has the name of a folder, which a retry does not change.
    if error.errno != errno.ENOTDIR and found.code not in (ErrorCode.INTERNAL, ErrorCode.PERMISSION):
        return found
    return TqError(
        ErrorCode.PERMISSION, found.message, "choose another output folder, or make this one writable"
    )


def _profile(job: ClaimedJob) -> Profile:
    try:
        return Profile.from_json(job["profile"])
    except (KeyError, TypeError) as error:
        raise TqError(
            ErrorCode.BAD_CONFIG,
            f"the profile recorded with the job cannot be read ({error})",
            "add the file again: its job then gets the current profile",
        ) from error

"""Runs the steps of one attempt at a job, and returns its outcome.

It writes only to its scratch directory and to the segment store, where equal keys mean equal content, so a
worker that lost its lease has nothing to clean up.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from blake3 import blake3

from tqstudio import paths
from tqstudio.engine.files.dir_fd import hold
from tqstudio.engine.host import memory
from tqstudio.engine.media.encode import poster as pictures
from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.values import EncodeSpec, OwnershipLostError, Twin
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.errors import from_output_error
from tqstudio.engine.media.ffmpeg.trial_runs import require_vulkan
from tqstudio.engine.media.plan import warnings
from tqstudio.engine.media.plan.grid import make_grid
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.video_codecs import CPU_ENCODER, uses_gpu
from tqstudio.engine.media.source.colour import needs_vulkan
from tqstudio.engine.media.source.source_file import keep_open
from tqstudio.engine.worker import logging_setup
from tqstudio.engine.worker.job import manifest
from tqstudio.engine.worker.job.attempt_log import AttemptLog
from tqstudio.engine.worker.job.failure import describe
from tqstudio.engine.worker.job.limits import Deadline, TimeLimit, memory_limit
from tqstudio.engine.worker.job.rendition_choice import Choice, choose, rows
from tqstudio.engine.worker.job.source import ExaminedSource, examine
from tqstudio.engine.worker.job.source_hash import SourceHash
from tqstudio.engine.worker.job.transcode import TRANSCODE_ENDS_AT, Watch, inventory, require_space, transcode
from tqstudio.engine.worker.lease import Lease, StopWork
from tqstudio.engine.worker.outcome import Done, Failed, Lost, Outcome, Stopped
from tqstudio.engine.worker.progress_report import Report
from tqstudio.errors import ErrorClass, ErrorCode, TqError, class_of
from tqstudio.lifecycle import Step

if TYPE_CHECKING:
    from tqstudio.protocol.worker_answers import ClaimedJob

_log = structlog.get_logger()
_SOURCE_CODES = (
    ErrorCode.SOURCE_CHANGED,
    ErrorCode.SOURCE_MISSING,
    ErrorCode.SOURCE_AWAY,
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
    disk_reserve_bytes: int = 0
    disk_factor: float = 1.5


def run(job: ClaimedJob, config: WorkerConfig, lease: Lease, report: Report) -> Outcome:
    """Work on a job until it is done, fails, or its lease ends. ffmpeg is dead when this returns.

    Call it from the main thread: ffmpeg is killed when the thread that started it ends.
    """
    path = paths.decode(job["source"]["path_b64"])
    sink = Path(os.fsdecode(paths.decode(job["sink"]["path_b64"])))
    roots = logging_setup.set_roots(
        paths.decode(job["source_root_b64"]), _output(sink), os.path.dirname(config.ffmpeg.path)
    )
    with AttemptLog(Path(job["log"]), roots) as log:
        log.line(f"job {job['job']}, attempt {job['attempt']} (epoch {job['epoch']}): {paths.display(path)}")
        log.line(
            "paths are relative to the folders of the source, the output, the home and the programs;"
            f" tqstudio job command {job['job']} prints the complete commands"
        )
        work = _Work(job, config, lease, report, log, path, sink, sink)
        with work.open_files:
            try:
                outcome: Outcome = work.run()
            except StopWork as stop:
                outcome = stop.outcome
            except Exception as error:  # every error must be reported as the outcome
                outcome = work.failed(error)
            work.log_outcome(outcome)
        return outcome


@dataclass
class _Work:
    """The steps of an attempt and their shared state."""

    job: ClaimedJob
    config: WorkerConfig
    lease: Lease
    report: Report
    log: AttemptLog
    path: bytes
    named_sink: Path
    sink: Path
    """The same folder, or its path below a descriptor once it is kept open."""
    open_files: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """Keeps the source and the sink open."""
    source: ExaminedSource | None = None
    encode: LadderEncode | None = None

    def run(self) -> Done:
        """Run all steps. Raises StopWork if the lease ended; any other exception is passed to `failed`."""
        with self._step(Step.PROBE):
            dropped_in = self.job["drop_folder_b64"]
            self.open_files.enter_context(
                keep_open(self.path, paths.decode(dropped_in) if dropped_in else None)
            )
            source = self.source = examine(self.job, self.path, self.lease.check)
            profile = _profile(self.job)
            source.require_accepted(profile)
            require_vulkan(self.config.ffmpeg, source.facts.video, paths.display(self.path))
            choice = choose(
                source.facts,
                profile,
                source.content_id,
                self.job["requested"],
                self.job["kept"],
                dropped=self.job["dropped"],
            )
            self._open_sink()
            poster = self._poster_path(source, profile)
            spec = self._spec(source, profile, choice, poster)
            encode = self.encode = LadderEncode(spec)
            encode.look_up()
            encode.warnings.extend([*warnings.of_source(source.facts, profile), *source.warnings])
            self.log.line(f"found: {inventory(encode.renditions)}")
            self.report.add(
                facts=source.facts.to_json(),
                content_id=source.content_id,
                warnings=manifest.warning_views(encode.warnings),
            )
            self.report.show(rows(choice, {state.name: state for state in encode.renditions}))
        with self._scratch():
            with self._step(Step.THUMBNAIL):
                # It is extracted in parallel to the encode, so that the job does not wait for it.
                self.log.line(
                    "the poster exists already"
                    if pictures.is_complete(poster)
                    else "the poster will be extracted"
                )
            deadline = Deadline(self.config.time_limit.of(source.facts, choice.make, spec.encoder))
            full_hash = SourceHash(self.path)
            try:
                with self._step(Step.TRANSCODE):
                    self._take_over(encode, lambda: full_hash.wait(self.lease, deadline, self.config.stall_s))
                    config = self.config
                    reserve, factor = config.disk_reserve_bytes, config.disk_factor
                    require_space(
                        _output(self.named_sink), self._video_store, source, encode, reserve, factor
                    )
                    gpu = spec.encoder if uses_gpu(spec.encoder) else None
                    watch = Watch(encode, source, choice, self.report, self.log, gpu)
                    transcode(encode, poster, self.lease, watch, config.stall_s, deadline)
                    self.report.advance(TRANSCODE_ENDS_AT)
                with self._step(Step.MASTER_PLAYLIST):
                    made = poster if pictures.is_complete(poster) else None
                    listed = manifest.build(self.sink, choice, encode, made, self.lease.check)
                    self.report.advance(98)
                with self._step(Step.FINALIZE):
                    digest = full_hash.wait(self.lease, deadline, self.config.stall_s)
                    source.require_same()
                    self.report.advance(99)
            finally:
                full_hash.stop()
        return Done(listed, digest)

    def _take_over(self, encode: LadderEncode, full_hash: Callable[[], str]) -> None:
        """Link what twins have published of the same bytes, as far as it is missing."""
        for twin in self.job["twins"]:
            if all(state.status == "completed" for state in encode.renditions):
                break
            if full_hash() != twin["full_hash"]:
                self.log.line(f"video {twin['video']} has the same samples and other bytes")
                continue
            folder = Path(os.fsdecode(paths.decode(twin["folder_b64"])))
            try:
                encode.take_over(Twin(twin["video"], folder, twin["keys"]), self.lease.check)
            except OwnershipLostError as gone:
                raise StopWork(Lost(str(gone))) from None

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

    def log_outcome(self, outcome: Outcome) -> None:
        """Log the outcome and the progress of the ladder."""
        self.log.line(_outcome_line(outcome))
        encoded = inventory(self.encode.renditions) if self.encode is not None else "nothing"
        if not isinstance(outcome, Done):
            self.log.line(f"encoded so far: {encoded}")
        if isinstance(outcome, Stopped):
            _log.info("job stopped", job=self.job["job"], reason=outcome.reason, encoded=encoded)

    def _source_error(self) -> TqError | None:
        """The error of a source that was changed or removed since the start of the attempt, or None."""
        try:
            if self.source is not None:
                self.source.require_same()
        except TqError as error:
            return error if error.code in _SOURCE_CODES else None
        return None

    def _is_in_output(self, error: OSError) -> bool:
        if error.filename is None:
            return False
        path = Path(os.fsdecode(error.filename))
        return path.is_relative_to(_output(self.named_sink)) or path.is_relative_to(self.sink)

    def _shown_output(self) -> str:
        return f"the output folder {paths.display(os.fsencode(_output(self.named_sink)))}"

    def _open_sink(self) -> None:
        """Create the work folder and keep it open, so that no other user can replace it."""
        try:
            self.sink = self.open_files.enter_context(
                hold(
                    _output(self.named_sink),
                    *self.named_sink.relative_to(_output(self.named_sink)).parts,
                    make=True,
                )
            )
        except OSError as error:
            raise _unwritable(error, self._shown_output()) from error

    def _require_sink(self) -> None:
        """Check that the output was not moved or unmounted; files could still be written to the open folder.

        Raises:
            TqError: as `from_output_error`.
        """
        try:
            if not os.path.samestat(os.stat(self.named_sink), os.stat(self.sink)):
                raise FileNotFoundError(errno.ENOENT, "it was replaced by another folder")
        except OSError as error:
            raise from_output_error(error, f"{self._shown_output()} cannot be used") from error

    @property
    def _video_store(self) -> Path:
        return self.sink / "segments" / str(self.job["video"])

    @property
    def _scratch_dir(self) -> Path:
        return self.sink / "scratch" / f"{self.job['job']}-{self.job['epoch']}"

    @contextlib.contextmanager
    def _step(self, step: Step) -> Iterator[None]:
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
    def _scratch(self) -> Iterator[None]:
        """Create an empty directory on the file system of the segment store, and remove it at the end."""
        root, scratch = self._scratch_dir.parent, self._scratch_dir
        job, epoch = self.job["job"], self.job["epoch"]
        try:
            self._video_store.mkdir(parents=True, exist_ok=True)
            root.mkdir(exist_ok=True)
            for old in root.glob(f"{job}-*"):
                # Left by a killed worker, whose lease has ended.
                if old.name.rpartition("-")[2].isdigit() and int(old.name.rpartition("-")[2]) <= epoch:
                    shutil.rmtree(old, ignore_errors=True)
            scratch.mkdir()
        except OSError as error:
            raise _unwritable(error, self._shown_output()) from error
        try:
            yield
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _poster_path(self, source: ExaminedSource, profile: Profile) -> Path:
        """The path at which the poster is stored for later attempts."""
        settings = f"{source.content_id}:{profile.poster_position}:{profile.poster_height}"
        return self._video_store / f"poster-{blake3(settings.encode()).hexdigest()[:12]}.jpg"

    def _spec(self, source: ExaminedSource, profile: Profile, choice: Choice, poster: Path) -> EncodeSpec:
        config = self.config
        return EncodeSpec(
            ffmpeg=config.ffmpeg,
            source=self.path,
            identity=source.identity,
            facts=source.facts,
            grid=make_grid(source.facts, profile),
            profile=profile,
            rungs=choice.make,
            audio=choice.audio,
            subtitles=choice.subtitles,
            content_id=source.content_id,
            store_root=self._video_store,
            scratch=self._scratch_dir,
            log_dir=self.log.run_dir,
            # ffmpeg gives its filters one device, which would be that of the GPU encoder.
            encoder=(
                CPU_ENCODER
                if profile.encoder == "cpu" or needs_vulkan(source.facts.video)
                else config.encoder
            ),
            device=config.device,
            decodes="" if profile.encoder == "cpu" else config.decodes,
            memory_limit=memory_limit(memory.total()),
            nice=config.nice,
            poster=not choice.nothing_to_make and not pictures.is_complete(poster),
            storyboard=choice.storyboard,
            require_output=self._require_sink,
            is_owner=lambda: not isinstance(self.lease.ended, Lost),
        )


def _output(sink: Path) -> Path:
    """The output folder that contains this sink."""
    return sink.parent.parent


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


def _outcome_line(outcome: Outcome) -> str:
    if isinstance(outcome, Done):
        made, kept = outcome.manifest["renditions"], outcome.manifest["keep"]
        encoded = [each["name"] for each in made if each["linked_from"] is None]
        linked = [f"{each['name']} from video {each['linked_from']}" for each in made if each["linked_from"]]
        line = f"finished: encoded {', '.join(encoded) or 'nothing'}; kept {', '.join(kept) or 'nothing'}"
        return f"{line}; linked {', '.join(linked)}" if linked else line
    if isinstance(outcome, Failed):
        return f"failed: {outcome.code}: {outcome.text} ({outcome.hint})"
    return f"stopped: {outcome.reason if isinstance(outcome, Stopped) else outcome.why}"

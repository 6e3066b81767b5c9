"""One job, step by step. Reads the claim, returns an outcome; tells nobody but the report.

Writes into its own scratch directory and into the segment store, where equal keys mean equal content. So a
worker whose lease has ended may leave everything as it is.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from blake3 import blake3

from tqstudio import paths
from tqstudio.engine.files.dir_fd import hold
from tqstudio.engine.host import memory
from tqstudio.engine.media.encode import poster as pictures
from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.values import EncodeSpec
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.errors import from_output_error
from tqstudio.engine.media.plan import warnings
from tqstudio.engine.media.plan.file_names import CPU_ENCODER, GPU_ENCODERS
from tqstudio.engine.media.plan.grid import make_grid
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.source.source_file import hold as hold_source
from tqstudio.engine.worker import logging_setup
from tqstudio.engine.worker.job import manifest
from tqstudio.engine.worker.job.attempt_log import AttemptLog
from tqstudio.engine.worker.job.failure import describe
from tqstudio.engine.worker.job.limits import Deadline, TimeLimit, memory_limit
from tqstudio.engine.worker.job.rendition_choice import Choice, choose, rows, without_sound
from tqstudio.engine.worker.job.source import ExaminedSource, examine
from tqstudio.engine.worker.job.source_hash import SourceHash
from tqstudio.engine.worker.job.transcode import TRANSCODE_ENDS_AT, Watch, inventory, require_space, transcode
from tqstudio.engine.worker.lease import Lease, StopWork
from tqstudio.engine.worker.outcome import Done, Failed, Lost, Outcome, Stopped
from tqstudio.engine.worker.progress_report import Report
from tqstudio.errors import ErrorClass, ErrorCode, TqError, class_of
from tqstudio.lifecycle import Step

if TYPE_CHECKING:
    from tqstudio.protocol.answers import ClaimedJob

_log = structlog.get_logger()
_OF_THE_SOURCE = (
    ErrorCode.SOURCE_CHANGED,
    ErrorCode.SOURCE_MISSING,
    ErrorCode.SOURCE_AWAY,
    ErrorCode.IO_ERROR,
)
"""Codes of a look at the source that explain whatever else went wrong."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What the worker works with."""

    ffmpeg: FFmpeg
    encoder: str = CPU_ENCODER
    """Used unless the profile wants the CPU."""
    device: str | None = None
    nice: int = 10
    stall_s: float = 120
    time_limit: TimeLimit = field(default_factory=TimeLimit)
    disk_reserve_bytes: int = 0
    disk_factor: float = 1.5


def run(job: ClaimedJob, bench: Bench, lease: Lease, report: Report) -> Outcome:
    """Work on a job until it is done, cannot be, or the lease ends. ffmpeg is dead when this returns.

    Call it from the main thread: ffmpeg dies with the thread that starts it.
    """
    path = paths.decode(job["source"]["path_b64"])
    sink = Path(os.fsdecode(paths.decode(job["sink"]["path_b64"])))
    roots = logging_setup.set_roots(
        paths.decode(job["source_root_b64"]), _output(sink), os.path.dirname(bench.ffmpeg.path)
    )
    with AttemptLog(Path(job["log"]), roots) as log:
        log.line(f"job {job['job']}, attempt {job['attempt']} (epoch {job['epoch']}): {paths.display(path)}")
        log.line(
            "paths are relative to the folders of the source, the output, the home and the programs;"
            f" tqstudio job command {job['job']} prints the whole commands"
        )
        work = _Work(job, bench, lease, report, log, path, sink)
        with work.held:
            try:
                outcome: Outcome = work.run()
            except StopWork as stop:
                outcome = stop.outcome
            except Exception as error:  # whatever it is, the job must not die without a word
                outcome = work.failed(error)
            work.say_last_words(outcome)
        return outcome


class _Work:
    """The steps and what they hand on to one another."""

    def __init__(
        self,
        job: ClaimedJob,
        bench: Bench,
        lease: Lease,
        report: Report,
        log: AttemptLog,
        path: bytes,
        sink: Path,
    ) -> None:
        self._job = job
        self._bench = bench
        self._lease = lease
        self._report = report
        self._log = log
        self._path = path
        self._output = _output(sink)
        self._sink = self._named_sink = sink
        self.held = contextlib.ExitStack()
        """Keeps the source and the sink open."""
        self._source: ExaminedSource | None = None
        self._encode: LadderEncode | None = None

    def run(self) -> Done:
        with self._step(Step.PROBE):
            dropped_in = self._job["drop_folder_b64"]
            self.held.enter_context(hold_source(self._path, paths.decode(dropped_in) if dropped_in else None))
            source = self._source = examine(self._job, self._path, self._lease.check)
            profile = _profile(self._job)
            choice = choose(
                source.facts,
                profile,
                source.content_id,
                self._job["requested"],
                self._job["kept"],
                dropped=self._job["dropped"],
            )
            self._hold_sink()
            poster = self._poster_path(source, profile)
            spec = self._spec(source, profile, choice, poster)
            encode = self._encode = LadderEncode(spec)
            encode.look_up()
            encode.warnings += warnings.of_source(source.facts, profile)
            self._log.line(f"found: {inventory(encode.renditions)}")
            self._report.tell(
                facts=source.facts.to_json(),
                content_id=source.content_id,
                warnings=manifest.warning_views(encode.warnings),
            )
            self._report.show(rows(choice, {state.name: state for state in encode.renditions}))
        with self._scratch():
            with self._step(Step.THUMBNAIL):
                # It is made beside the video: in front of it, the job would wait for one picture.
                self._log.line(
                    "the poster is there already" if pictures.is_whole(poster) else "a poster will be made"
                )
            deadline = Deadline(self._bench.time_limit.of(source.facts, choice.make, spec.encoder))
            full_hash = SourceHash(self._path)
            try:
                with self._step(Step.TRANSCODE):
                    self._transcode(source, choice, spec, encode, poster, deadline)
                with self._step(Step.MASTER_PLAYLIST):
                    listed = self._list(source, spec, choice, encode, poster)
                    self._report.advance(98)
                with self._step(Step.FINALIZE):
                    digest = full_hash.wait(self._lease, deadline, self._bench.stall_s)
                    source.require_same()
                    self._report.advance(99)
            finally:
                full_hash.stop()
        return Done(listed, digest)

    def failed(self, error: Exception) -> Failed:
        """What the supervisor is told of an error; the log has all of it."""
        if not isinstance(error, TqError):
            self._log.exception(error)
        if isinstance(error, OSError) and self._is_in_output(error):
            error = from_output_error(error, f"{self._shown_output()} cannot be used")
        failed = describe(error, self._path)
        cause = None if class_of(failed.code) is ErrorClass.RESOURCE else self._trouble_with_source()
        if cause is not None and cause.code is not failed.code:
            # Whatever went wrong, it went wrong with bytes that are no longer there.
            self._log.line(f"{failed.code}: {failed.text}")
            failed = describe(cause, self._path)
        return failed

    def say_last_words(self, outcome: Outcome) -> None:
        """How it ended, and what is made of the ladder."""
        self._log.line(_last_words(outcome))
        made = inventory(self._encode.renditions) if self._encode is not None else "nothing"
        if not isinstance(outcome, Done):
            self._log.line(f"made so far: {made}")
        if isinstance(outcome, Stopped):
            _log.info("stopped at the fragment", job=self._job["job"], reason=outcome.reason, made=made)

    def _trouble_with_source(self) -> TqError | None:
        """Whether the file was changed or taken away since work on it began."""
        try:
            if self._source is not None:
                self._source.require_same()
        except TqError as error:
            return error if error.code in _OF_THE_SOURCE else None
        return None

    def _is_in_output(self, error: OSError) -> bool:
        if error.filename is None:
            return False
        path = Path(os.fsdecode(error.filename))
        return path.is_relative_to(self._output) or path.is_relative_to(self._sink)

    def _shown_output(self) -> str:
        return f"the output folder {paths.display(os.fsencode(self._output))}"

    def _hold_sink(self) -> None:
        """Make the work folder and hold it open, so that no other user can replace it meanwhile."""
        try:
            self._sink = self.held.enter_context(
                hold(self._output, *self._named_sink.relative_to(self._output).parts, make=True)
            )
        except OSError as error:
            raise _unwritable(error, self._shown_output()) from error

    def _require_sink(self) -> None:
        """Notice an output that was moved or unmounted: its folder is held and would still take files.

        Raises:
            TqError: as of `from_output_error`.
        """
        try:
            if not os.path.samestat(os.stat(self._named_sink), os.stat(self._sink)):
                raise FileNotFoundError(errno.ENOENT, "another folder is in its place")
        except OSError as error:
            raise from_output_error(error, f"{self._shown_output()} cannot be used") from error

    @property
    def _video_store(self) -> Path:
        return self._sink / "segments" / str(self._job["video"])

    @property
    def _scratch_dir(self) -> Path:
        return self._sink / "scratch" / f"{self._job['job']}-{self._job['epoch']}"

    def _transcode(
        self,
        source: ExaminedSource,
        choice: Choice,
        spec: EncodeSpec,
        encode: LadderEncode,
        poster: Path,
        deadline: Deadline,
    ) -> None:
        bench = self._bench
        require_space(
            self._output, self._video_store, source, encode, bench.disk_reserve_bytes, bench.disk_factor
        )
        gpu = spec.encoder if spec.encoder in GPU_ENCODERS else None
        watch = Watch(encode, source, choice, self._report, self._log, gpu)
        transcode(encode, poster, self._lease, watch, bench.stall_s, deadline)
        self._report.advance(TRANSCODE_ENDS_AT)

    @contextlib.contextmanager
    def _step(self, step: Step) -> Iterator[None]:
        """Every step runs in here: it is announced, timed, and not begun when the lease has ended."""
        self._lease.check()
        self._report.begin(step)
        self._log.line(f"{step}: begins")
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
            self._report.end(step, seconds)
            self._log.line(f"{step}: {how} after {seconds:.2f} s")
            _log.info("step", job=self._job["job"], step=step.value, ended=how, seconds=round(seconds, 3))

    @contextlib.contextmanager
    def _scratch(self) -> Iterator[None]:
        """A new empty directory beside the segment store, removed in the end. Nobody else uses it."""
        root, scratch = self._scratch_dir.parent, self._scratch_dir
        job, epoch = self._job["job"], self._job["epoch"]
        try:
            self._video_store.mkdir(parents=True, exist_ok=True)
            root.mkdir(exist_ok=True)
            for old in root.glob(f"{job}-*"):
                # What a killed worker left. Its lease is over, so nothing of it is needed.
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
        """Where the poster of this content is kept: what an earlier attempt made is used again."""
        settings = f"{source.content_id}:{profile.poster_position}:{profile.poster_height}"
        return self._video_store / f"poster-{blake3(settings.encode()).hexdigest()[:12]}.jpg"

    def _spec(self, source: ExaminedSource, profile: Profile, choice: Choice, poster: Path) -> EncodeSpec:
        bench = self._bench
        return EncodeSpec(
            ffmpeg=bench.ffmpeg,
            source=self._path,
            identity=source.identity,
            facts=source.facts if choice.audio else without_sound(source.facts),
            grid=make_grid(source.facts, profile),
            profile=profile,
            rungs=choice.make,
            content_id=source.content_id,
            store_root=self._video_store,
            scratch=self._scratch_dir,
            log_dir=self._log.run_dir,
            encoder=CPU_ENCODER if profile.encoder == "cpu" else bench.encoder,
            device=bench.device,
            memory_limit=memory_limit(memory.total()),
            nice=bench.nice,
            poster=not choice.nothing_to_make and not pictures.is_whole(poster),
            require_output=self._require_sink,
            is_ours=lambda: not isinstance(self._lease.ended, Lost),
        )

    def _list(
        self, source: ExaminedSource, spec: EncodeSpec, choice: Choice, encode: LadderEncode, poster: Path
    ) -> dict[str, Any]:
        listed = manifest.build(
            self._sink,
            choice,
            encode.renditions,
            spec.grid,
            poster if pictures.is_whole(poster) else None,
            encode.warnings,
            self._lease.check,
        )
        # The supervisor looks at the file once more before players see what was made of it.
        return listed | {"source": source.identity._asdict()}


def _output(sink: Path) -> Path:
    """The output folder of a job that writes to this sink."""
    return sink.parent.parent


def _unwritable(error: OSError, out: str) -> TqError:
    """Why there is no scratch directory: trying again helps only if it is the disk's doing."""
    found = from_output_error(error, f"{out} cannot be written to")
    # What is no folder stands in the way of one; nothing was there that may come back.
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
            "add the file again: the job then gets the profile as it is now",
        ) from error


def _last_words(outcome: Outcome) -> str:
    if isinstance(outcome, Done):
        made = [rendition["name"] for rendition in outcome.manifest["renditions"]]
        kept = outcome.manifest["keep"]
        return f"finished: made {', '.join(made) or 'nothing'}; kept {', '.join(kept) or 'nothing'}"
    if isinstance(outcome, Failed):
        return f"failed: {outcome.code}: {outcome.text} ({outcome.hint})"
    return f"ended: {outcome}"

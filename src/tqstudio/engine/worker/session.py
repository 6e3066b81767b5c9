"""Runs the main loop of a worker: register, then claim a job, work on it, report its outcome, and repeat."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import structlog

from tqstudio import __version__
from tqstudio.engine.host.clock import since_boot
from tqstudio.engine.media.ffmpeg.binary import FFmpeg, locate
from tqstudio.engine.media.ffmpeg.hardware import cpu_capabilities
from tqstudio.engine.media.ffmpeg.process import require_confinement
from tqstudio.engine.media.ffmpeg.trial_runs import encoding_error
from tqstudio.engine.media.plan.video_codecs import CODECS, CPU_ENCODER, GPU_ENCODERS
from tqstudio.engine.worker.heartbeat import HeartbeatThread, WorkerClient
from tqstudio.engine.worker.job import pipeline
from tqstudio.engine.worker.job.attempt import WorkerConfig
from tqstudio.engine.worker.job.attempt_log import AttemptLog
from tqstudio.engine.worker.job.failure import describe, printable
from tqstudio.engine.worker.job.limits import MAX_DURATION_S, TimeLimit
from tqstudio.engine.worker.outcome_report import OutcomeReport
from tqstudio.engine.worker.reporting import calls, logging_setup, retry_delay
from tqstudio.engine.worker.reporting.lease import Lease
from tqstudio.engine.worker.reporting.outcome import Failed, Lost, Outcome
from tqstudio.engine.worker.reporting.progress_report import Report
from tqstudio.engine.worker.reporting.resource_usage import Usage
from tqstudio.errors import MAX_ERROR_TEXT, ErrorCode, TqError
from tqstudio.lifecycle import WorkerKind
from tqstudio.protocol.client import Client
from tqstudio.protocol.remote import Remote

if TYPE_CHECKING:
    from tqstudio.protocol.worker_answers import ClaimedJob, RegisterAnswer

_CLAIM_SLACK_S = 10.0
_LEAVE_TIMEOUT_S = 3.0
# If the supervisor answers a long poll immediately, pause instead of repeating it thousands of times per
# second.
_QUICK_ANSWER_S = 0.2
_QUICK_PAUSE_S = 0.5

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """The identity of this worker, assigned by the supervisor's pool."""

    name: str
    kind: WorkerKind
    at: Path | Remote
    """The supervisor's socket, or a studio on another machine."""
    token: str
    ffmpeg: str
    """Path of the ffmpeg that the supervisor found."""
    encoder: str | None = None
    """Encoders of a GPU worker, see `hardware.Device`."""
    device: str | None = None
    """GPU that encodes, decodes, or both."""
    decodes: str = ""
    """Codecs that this GPU decodes and scales."""


def _connect(identity: WorkerIdentity) -> WorkerClient:
    return Client(identity.at, token=identity.token, keep_alive=True)


RunJob = Callable[["ClaimedJob", WorkerConfig, Lease, Report], Outcome]


class _Interrupted(Exception):
    """A signal arrived while the worker was waiting."""


class WorkerSession:
    """A worker process from registration to exit; each of its threads connects to the API for itself."""

    def __init__(
        self,
        identity: WorkerIdentity,
        connect: Callable[[WorkerIdentity], WorkerClient] = _connect,
        *,
        instance: str | None = None,
        run_job: RunJob | None = None,
        between_jobs: Callable[[], float] = lambda: 0,
    ) -> None:
        self._identity = identity
        self._instance = instance or uuid.uuid4().hex
        self._run_job, self._between_jobs = run_job, between_jobs
        self._client = connect(identity)
        self._heartbeat_client = connect(identity)
        self._outcome_report = OutcomeReport(
            self._client, self._instance, lambda: self._stopping, self._on_refused
        )
        self._stopping = False
        self._refused = False
        self._waiting = False
        self._lease: Lease | None = None
        self._ffmpeg: tuple[tuple[int, ...], FFmpeg] | None = None

    def stop(self, *_: object) -> None:
        """Stop: immediately if idle, otherwise once ffmpeg is killed. Also a signal handler."""
        self._stopping = True
        if self._lease is not None:
            self._lease.shut_down()
        if self._waiting:
            raise _Interrupted

    def run(self) -> int:
        """Work until a signal or the supervisor stops it. Returns the exit status: 1 if it was refused."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.stop)
        terms = self._register()
        if terms is None:
            # A signal may have interrupted a registration that the supervisor has recorded.
            self._sign_off()
            return int(self._refused)
        if terms.get("confined") and not self._is_confined():
            self._sign_off()
            return 1
        logging_setup.set_roots(os.path.dirname(self._identity.ffmpeg))
        heartbeats = HeartbeatThread(
            self._heartbeat_client, self._instance, terms["heartbeat_s"], Usage().measure, self._on_refused
        )
        heartbeats.start()
        # The first claim does not wait: the replacement of a killed worker usually finds its job.
        wait_s = 0.0
        try:
            while not self._stopping and not self._refused:
                if rest_s := self._between_jobs():
                    self._pause(rest_s)
                ranges = self._range_ability() if terms.get("divides") else None
                if (claimed := self._claim(wait_s, ranges)) is not None:
                    self._work(*claimed, terms, heartbeats)
                elif not (wait_s or self._stopping or self._refused):
                    self._warm_up()
                wait_s = terms["long_poll_s"]
        finally:
            heartbeats.stop()
        self._sign_off()
        _log.info("worker exits", refused=self._refused)
        return int(self._refused)

    def _on_refused(self) -> None:
        """Stop because the supervisor rejects the token: it accepts no more requests of this process."""
        self._refused = True
        if self._lease is not None:
            self._lease.lose("the supervisor no longer knows this worker")

    def _sign_off(self) -> None:
        """Report the end of this process: only that of its own the supervisor sees by itself."""
        if self._refused or not isinstance(self._identity.at, Remote):
            return
        try:
            self._client.send(calls.leave(self._instance), timeout_s=_LEAVE_TIMEOUT_S)
        except TqError as error:
            _log.warning("the end was not reported", code=error.code.value, error=error.message)

    # Waiting for work

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Within this context a signal aborts the block, which must be safe to abort at any point.

        Call `_raise_if_stopping` first: a signal that arrived before does not raise here.
        """
        try:
            self._waiting = True
            yield
        except _Interrupted:
            pass
        finally:
            self._waiting = False

    def _raise_if_stopping(self) -> None:
        if self._stopping:
            raise _Interrupted

    def _tries(self) -> Iterator[None]:
        """Pause longer and longer between tries, until the worker stops."""
        retry_s = retry_delay.FIRST_S
        while not self._stopping and not self._refused:
            yield
            self._pause(retry_s)
            retry_s = retry_delay.after(retry_s)

    def _pause(self, seconds: float) -> None:
        with self._interruptible():
            self._raise_if_stopping()
            time.sleep(seconds)

    def _register(self) -> RegisterAnswer | None:
        who = self._identity
        gpu = who.kind is WorkerKind.GPU
        body = {
            "instance": self._instance,
            "pid": os.getpid(),
            "pid_started": psutil.Process().create_time(),
            "encoder": who.encoder if gpu else CPU_ENCODER,
            "capabilities": {
                **({"encoder": who.encoder, "device": who.device} if gpu else cpu_capabilities()),
                **({"decodes": who.decodes} if who.decodes else {}),
            },
            "metadata": {
                "version": __version__,
                **({"host": socket.gethostname()} if isinstance(who.at, Remote) else {}),
            },
        }
        for _ in self._tries():
            with self._interruptible():
                self._raise_if_stopping()
                try:
                    terms = self._client.send(calls.register(body))
                    _log.info("worker registered", encoder=body["encoder"])
                    return terms
                except TqError as error:
                    _log.warning("registration failed", code=error.code.value, error=error.message)
                    if error.code not in calls.ASKED_AGAIN | {ErrorCode.INTERNAL}:
                        self._refused = True
                        return None
        return None

    def _is_confined(self) -> bool:
        """Whether every ffmpeg that it runs on a source is confined; log why if not."""
        try:
            if self._identity.kind is WorkerKind.GPU:
                why = "the studio requires confinement, and encodes on GPUs are not confined"
                raise TqError(ErrorCode.BAD_CONFIG, why)
            require_confinement(self._locate().path)
        except TqError as error:
            _log.error("worker exits", code=error.code.value, error=error.message, hint=error.hint)
            return False
        return True

    def _warm_up(self) -> None:
        """Prepare for the first job while idle; takes about 0.1 s."""
        try:
            # PyAV, which the probe of a new source and the end of a job need.
            import tqstudio.engine.media.encode.finish  # noqa: F401 - loads PyAV

            self._locate()
        except Exception as error:  # the job fails with the same error, and reports it
            _log.warning("preparing for the first job failed", error=str(error))

    def _range_ability(self) -> dict[str, Any] | None:
        """The ranges that it can make, for its claims; None without ffmpeg."""
        mine = self._identity.encoder or CPU_ENCODER
        gpu = [encoder for encoder in GPU_ENCODERS if encoder in mine.split()]
        try:
            build = self._locate().build
        except TqError:  # its next job fails with the same error, and reports it
            return None
        return {"build": build, "encoders": gpu or [codec.encoder for codec in CODECS.values()]}

    def _claim(self, wait_s: float, ranges: dict[str, Any] | None = None) -> tuple[ClaimedJob, float] | None:
        """Wait for a job; return it with the clock time of the request, or None without one or if aborted."""
        for _ in self._tries():
            asked_at = since_boot()
            with self._interruptible():
                self._raise_if_stopping()
                try:
                    answer = self._client.send(
                        calls.claim(self._instance, wait_s, ranges), timeout_s=wait_s + _CLAIM_SLACK_S
                    )
                    job = answer["job"]
                    self._waiting = False
                    if answer["test"]:
                        self._test()
                        return None
                    if job is not None:
                        return job, asked_at
                    if since_boot() - asked_at < min(_QUICK_ANSWER_S, wait_s / 2):
                        self._pause(_QUICK_PAUSE_S)
                    return None
                except TqError as error:
                    if error.code in (ErrorCode.UNAUTHORIZED, ErrorCode.LOST_LEASE):
                        # LOST_LEASE: the supervisor has recorded that this instance exited.
                        self._refused = True
                        return None
                    _log.warning("claim failed", code=error.code.value, error=error.message)
        return None

    def _test(self) -> None:
        """Run a test encode and report the result, or raise that this failed."""
        try:
            encoder = (self._identity.encoder or CPU_ENCODER).split()[0]
            device = self._identity.device if self._identity.encoder else None
            found = encoding_error(self._locate(), encoder, device)
            problem = found.message if found else ""
        except TqError as error:
            problem = error.message
        _log.info("test encode", problem=problem)
        self._client.send(calls.tested(self._instance, printable(problem)[:MAX_ERROR_TEXT]))

    # Working

    def _work(
        self, job: ClaimedJob, asked_at: float, terms: RegisterAnswer, heartbeats: HeartbeatThread
    ) -> None:
        lease = Lease(job["job"], job["epoch"], job["lease_s"], asked_at)
        report = Report(on_step=heartbeats.wake, divides=bool(terms.get("divides")))
        began = time.monotonic()
        _log.info("job started", job=lease.job, epoch=lease.epoch, attempt=job["attempt"])
        self._lease = lease
        if self._stopping:
            lease.shut_down()
        heartbeats.attach(lease, report)
        try:
            outcome = self._outcome(job, terms, lease, report)
            if not isinstance(outcome, Lost):
                heartbeats.flush()
            status = self._outcome_report.send(job, lease, report.steps, outcome)
        finally:
            heartbeats.detach()
            self._lease = None
        _log.info(
            "job ended",
            job=lease.job,
            epoch=lease.epoch,
            outcome=type(outcome).__name__.lower(),
            status=status,
            seconds=round(time.monotonic() - began, 3),
            **({"code": outcome.code.value, "error": outcome.text} if isinstance(outcome, Failed) else {}),
        )
        if status is None and not isinstance(outcome, Lost):
            # The next claim would return the same lease immediately.
            self._pause(retry_delay.LAST_S)

    def _outcome(self, job: ClaimedJob, terms: RegisterAnswer, lease: Lease, report: Report) -> Outcome:
        try:
            config = WorkerConfig(
                ffmpeg=self._locate(),
                encoder=self._identity.encoder or CPU_ENCODER,
                device=self._identity.device,
                decodes="" if terms.get("confined") else self._identity.decodes,
                nice=terms["ffmpeg_nice"],
                stall_s=terms["stall_s"],
                time_limit=TimeLimit(
                    terms["time_limit_factor"], terms["time_limit_min_s"], terms["time_limit_max_s"]
                ),
                disk_reserve_bytes=terms["disk_reserve_bytes"],
                disk_factor=terms["disk_factor"],
                max_duration_s=terms.get("max_duration_s", MAX_DURATION_S),
            )
            return (self._run_job or pipeline.run)(job, config, lease, report)
        except Exception as error:
            if not isinstance(error, TqError):  # the claim is malformed; else ffmpeg is missing
                _log.exception("job could not be started", job=lease.job)
            return self._not_started(job, error)

    def _locate(self) -> FFmpeg:
        """Locate ffmpeg. Its version is read again only if the file changed, because that takes 50 ms."""
        path = self._identity.ffmpeg
        try:
            found = os.stat(path)
            key = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        except OSError:
            return locate(path)
        if self._ffmpeg is None or self._ffmpeg[0] != key:
            self._ffmpeg = key, locate(path)
        return self._ffmpeg[1]

    def _not_started(self, job: ClaimedJob, error: Exception) -> Failed:
        """Describe the failure of a job before its first step, and write it to the log of the attempt."""
        failed = describe(error, f"job {job['job']}".encode())
        # Over TCP it has no absolute path.
        if (path := job.get("log")) and os.path.isabs(path):
            roots = logging_setup.set_roots(os.path.dirname(self._identity.ffmpeg))
            with AttemptLog(Path(path), roots) as log:
                log.line(f"could not be started: {failed.code}: {failed.text} ({failed.hint})")
        return failed

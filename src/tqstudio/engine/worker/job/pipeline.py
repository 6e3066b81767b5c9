"""Runs the steps of one attempt at a job, or at a range of its segments, and returns its outcome.

It writes only to its scratch directory and to the segment store, where equal keys mean equal content, so a
worker that lost its lease has nothing to clean up.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from blake3 import blake3

from tqstudio import paths
from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.poster import is_poster_complete
from tqstudio.engine.media.encode.values import Duplicate, OwnershipLostError
from tqstudio.engine.media.plan import warnings
from tqstudio.engine.media.plan.file_names import STORED_POSTERS
from tqstudio.engine.media.plan.video_codecs import encoder_for, uses_gpu
from tqstudio.engine.worker.job import manifest, wings
from tqstudio.engine.worker.job.attempt import Attempt, WorkerConfig, output_of
from tqstudio.engine.worker.job.attempt_log import AttemptLog
from tqstudio.engine.worker.job.first_quality import FirstQuality
from tqstudio.engine.worker.job.limits import Deadline
from tqstudio.engine.worker.job.range_work import RangeWork
from tqstudio.engine.worker.job.rendition_choice import rows
from tqstudio.engine.worker.job.source_hash import SourceHash
from tqstudio.engine.worker.job.transcode import TRANSCODE_ENDS_AT, Watch, inventory, require_space, transcode
from tqstudio.engine.worker.reporting import logging_setup
from tqstudio.engine.worker.reporting.lease import Lease, StopWork
from tqstudio.engine.worker.reporting.outcome import Done, Failed, Lost, Outcome, Stopped, problem_of
from tqstudio.engine.worker.reporting.progress_report import Report
from tqstudio.errors import JobWarning
from tqstudio.lifecycle import Step

if TYPE_CHECKING:
    from tqstudio.protocol.worker_answers import ClaimedJob

_log = structlog.get_logger()


def run(job: ClaimedJob, config: WorkerConfig, lease: Lease, report: Report) -> Outcome:
    """Work on a job until it is done, fails, or its lease ends. ffmpeg is dead when this returns.

    Call it from the main thread: ffmpeg is killed when the thread that started it ends.
    """
    path = paths.decode(job["source"]["path_b64"])
    work_dir = Path(os.fsdecode(paths.decode(job["work_dir"]["path_b64"])))
    roots = logging_setup.set_roots(
        paths.decode(job["source_root_b64"]), output_of(work_dir), os.path.dirname(config.ffmpeg.path)
    )
    with AttemptLog(Path(job["log"]), roots) as log:
        log.line(f"job {job['job']}, attempt {job['attempt']} (epoch {job['epoch']}): {paths.display(path)}")
        log.line(
            "paths are relative to the folders of the source, the output, the home and the programs;"
            f" tqstudio job command {job['job']} prints the complete commands"
        )
        kind = RangeWork if job.get("range") else LadderWork
        work = kind(job, config, lease, report, log, path, work_dir, work_dir)
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
class LadderWork(Attempt):
    """The steps of an attempt at a whole job."""

    encode: LadderEncode | None = None

    def run(self) -> Done:
        with self.step(Step.PROBE):
            self.examine()
            source, profile, choice = self.source, self.profile, self.choice
            assert source is not None
            self.report.add(facts=source.facts.to_json(), content_id=source.content_id)
            found = self._find_crfs()
            poster = self._poster_path(source.content_id)
            spec = self.spec(poster=not choice.nothing_to_make and not is_poster_complete(poster))
            encode = self.encode = LadderEncode(spec)
            encode.look_up()
            encode.warnings.extend([*warnings.of_source(source.facts, profile), *source.warnings, *found])
            self.log.line(f"found: {inventory(encode.renditions)}")
            self.report.add(warnings=manifest.warning_views(encode.warnings))
            self.report.show(rows(self.choice, {state.name: state for state in encode.renditions}))
        with self.scratch_folder():
            with self.step(Step.EXTRAS):
                # It is extracted in parallel to the encode, so that the job does not wait for it.
                self.log.line(
                    "the poster exists already"
                    if is_poster_complete(poster)
                    else "the poster will be extracted"
                )
            deadline = Deadline(self.config.time_limit.of(source.facts, choice.make, spec.encoder))
            full_hash = SourceHash(source.original)
            try:
                with self.step(Step.TRANSCODE):
                    self._take_over(encode, lambda: full_hash.wait(self.lease, deadline, self.config.stall_s))
                    config = self.config
                    reserve, factor = config.disk_reserve_bytes, config.disk_factor
                    require_space(self.output, self.video_store, source, encode, reserve, factor)
                    gpu = spec.encoder if uses_gpu(spec.encoder) else None
                    watch = Watch(encode, source, self.choice, self.report, self.log, gpu)
                    first = FirstQuality(self, encode, poster)
                    transcode(encode, poster, self.lease, watch, config.stall_s, deadline, first)
                    self.report.advance(TRANSCODE_ENDS_AT)
                self._measure(encode)
                with self.step(Step.MASTER_PLAYLIST):
                    made = poster if is_poster_complete(poster) else None
                    listed = manifest.build(self.work_dir, choice, encode, made, self.lease.check)
                    self.report.advance(98)
                with self.step(Step.FINALIZE):
                    digest = full_hash.wait(self.lease, deadline, self.config.stall_s)
                    source.original.require_same()
                    self.report.advance(99)
            finally:
                full_hash.stop()
        return Done(listed, digest)

    def _find_crfs(self) -> Sequence[JobWarning]:
        """Decide the CRFs for the quality of the profile, unless they are; returns warnings about them."""
        sought = [rung for rung in self.choice.make if rung.quality]
        if not sought:
            return ()
        began = time.monotonic()
        with self.scratch_folder():
            found = wings.quality().find(self)
        self.report.spend(time.monotonic() - began)
        spec = self.spec(poster=False)
        for rung in sought:
            encoder = encoder_for(rung.codec, spec.encoder, hdr=rung.hdr)
            if encoder in self.decided:
                self._remark(rung.name, f"CRF {spec.found_crf(rung, encoder) or rung.crf}")
        return found

    def _measure(self, encode: LadderEncode) -> None:
        """Measure the quality of what was made to reach one, and show it with the rungs."""
        if not any(rung.quality for rung in self.choice.make):
            return
        began = time.monotonic()
        for name, remark in wings.quality().measure(self, encode).items():
            self._remark(name, remark)
        self.report.spend(time.monotonic() - began)
        self.report.show(rows(self.choice, {state.name: state for state in encode.renditions}))

    def _remark(self, name: str, remark: str) -> None:
        """Add a remark about the quality of a rung."""
        said = ", ".join(filter(None, (remark, self.choice.remarks.get(name))))
        self.choice = replace(self.choice, remarks={**self.choice.remarks, name: said})

    def _take_over(self, encode: LadderEncode, full_hash: Callable[[], str]) -> None:
        """Link what duplicates have published of the same bytes, as far as it is missing."""
        for duplicate in self.job["duplicates"]:
            if all(state.status == "completed" for state in encode.renditions):
                break
            if full_hash() != duplicate["full_hash"]:
                self.log.line(f"video {duplicate['video']} has the same samples and other bytes")
                continue
            folder = Path(os.fsdecode(paths.decode(duplicate["folder_b64"])))
            try:
                encode.take_over(Duplicate(duplicate["video"], folder, duplicate["keys"]), self.lease.check)
            except OwnershipLostError as gone:
                raise StopWork(Lost(str(gone))) from None

    def log_outcome(self, outcome: Outcome) -> None:
        """Log the outcome and the progress of the ladder."""
        self.log.line(_outcome_line(outcome))
        encoded = inventory(self.encode.renditions) if self.encode is not None else "nothing"
        if not isinstance(outcome, Done):
            self.log.line(f"encoded so far: {encoded}")
        if isinstance(outcome, Stopped):
            _log.info("job stopped", job=self.job["job"], reason=outcome.reason, encoded=encoded)

    def _poster_path(self, content_id: str) -> Path:
        """The path at which the poster is stored for later attempts."""
        of = self.profile
        settings = f"{content_id}:{of.poster_position}:{of.poster_height}:{of.background}"
        return self.video_store / STORED_POSTERS.replace("*", blake3(settings.encode()).hexdigest()[:12])


def _outcome_line(outcome: Outcome) -> str:
    if isinstance(outcome, Done):
        made, kept = outcome.manifest["renditions"], outcome.manifest["keep"]
        encoded = [each["name"] for each in made if each["linked_from"] is None]
        linked = [f"{each['name']} from video {each['linked_from']}" for each in made if each["linked_from"]]
        line = f"finished: {', '.join(encoded) or 'nothing new'}"
        line += f"; kept of the published ladder: {', '.join(kept)}" if kept else ""
        return f"{line}; linked {', '.join(linked)}" if linked else line
    if isinstance(outcome, Failed):
        return f"failed: {outcome.code}: {outcome.text} ({outcome.hint})"
    return f"stopped: {problem_of(outcome)}"

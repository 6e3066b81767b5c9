"""Finds the CRFs of a job in its worker, and measures what they reached."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence

from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.values import EncodeSpec, RunRecord
from tqstudio.engine.media.ffmpeg.trial_runs import has_vmaf
from tqstudio.engine.media.plan.file_names import INIT_NAME, segment_name
from tqstudio.engine.media.plan.keys import largest_rungs, settings_hash
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.plan.video_codecs import encoder_for, has_crf
from tqstudio.engine.worker.job.attempt import Attempt
from tqstudio.errors import ErrorClass, ErrorCode, JobWarning, TqError, WarningCode, class_of
from tqstudio.protocol.worker_answers import DecidedCrf
from tqstudio.wings.quality.search import Found, find, samples
from tqstudio.wings.quality.vmaf import Bench, Scores, mean, model_of


class Work:
    """What a worker calls of this wing, see `engine.worker.job.wings.Quality`."""

    def find(self, attempt: Attempt) -> Sequence[JobWarning]:
        spec = attempt.spec(poster=False)
        warnings: list[JobWarning] = []
        new: list[DecidedCrf] = []
        missing = {rung.codec for rung in attempt.choice.make if rung.quality}
        for codec, rung in largest_rungs(spec.facts, spec.profile).items():
            encoder = encoder_for(codec, spec.encoder, hdr=False)
            if codec not in missing:
                continue
            if why := _cannot_seek(spec, encoder):
                warnings.append(_not_sought(rung, why))
                continue
            decided = attempt.decided.get(encoder)
            if decided is None:
                decided = _decide(attempt, spec, rung, encoder)
                attempt.crfs.append(decided)
                new.append(decided)
                # Now, so that another attempt finds it, whatever happens to this one.
                attempt.report.add(crfs=[*new])
            attempt.log.line(f"{encoder}: CRF {decided['crf']} for VMAF {rung.quality:g}")
            warnings += _warnings(rung, decided)
        return warnings

    def measure(self, attempt: Attempt, encode: LadderEncode) -> Mapping[str, str]:
        made = {state.name: state for state in encode.renditions if state.status == "completed"}
        rungs = [
            rung
            for rung in largest_rungs(encode.spec.facts, encode.spec.profile).values()
            if rung.name in made and made[rung.name].duplicate is None
        ]
        found: dict[str, Scores] = {rung.name: [] for rung in rungs}
        if not rungs or not has_vmaf(encode.spec.ffmpeg):
            return {}
        try:
            with _bench(attempt, encode.spec) as bench:
                for start, _ in _shown(attempt, encode.spec, "measuring quality"):
                    segment = encode.spec.grid.segment_of(start)
                    for rung in rungs:
                        folder = made[rung.name].directory
                        bench.take(rung, [folder / INIT_NAME, folder / segment_name(segment)])
                    part = encode.spec.grid.fragments_of(segment)
                    for name, scores in bench.compare(rungs, part.start, part.stop).items():
                        found[name] += scores
        except TqError as error:
            _raise_if_shared(error)
            attempt.log.line(f"the quality could not be measured: {error.message}")
            return {}
        return {rung.name: f"VMAF {mean(found[rung.name]):.1f} ({model_of(rung)})" for rung in rungs}


WORK = Work()


def _decide(attempt: Attempt, spec: EncodeSpec, rung: Rung, encoder: str) -> DecidedCrf:
    """Find the CRF of a codec; that of the profile if this fails."""
    key = settings_hash(spec.content_id, spec.profile, rung, spec.facts)
    try:
        with _bench(attempt, spec) as bench:
            found = _search(attempt, bench, rung, encoder)
    except (TqError, OSError) as error:
        if isinstance(error, TqError):
            _raise_if_shared(error)
        why = error.message if isinstance(error, TqError) else str(error)
        attempt.log.line(f"no CRF could be found for {rung.name}: {why}")
        return {"settings_hash": key, "encoder": encoder, "crf": rung.crf, "vmaf": None, "remark": why[:300]}
    remark = "" if found.reached else "not reached"
    vmaf = round(found.vmaf, 2)
    return {"settings_hash": key, "encoder": encoder, "crf": found.crf, "vmaf": vmaf, "remark": remark}


def _search(attempt: Attempt, bench: Bench, rung: Rung, encoder: str) -> Found:
    def probe(crfs: Sequence[int]) -> dict[int, float]:
        found = bench.probe(rung, encoder, crfs, _shown(attempt, bench.spec, "finding the CRF"))
        scores = ", ".join(f"CRF {crf} has VMAF {vmaf:.1f}" for crf, vmaf in found.items())
        attempt.log.line(f"{rung.name}: {scores} ({model_of(rung)})")
        return found

    return find(rung.codec, rung.quality, probe)


def _shown(attempt: Attempt, spec: EncodeSpec, what: str) -> Iterator[tuple[int, int]]:
    """The samples, saying how far they are."""
    ranges = samples(spec.grid, seeks=not spec.facts.unseekable)
    for number, each in enumerate(ranges):
        attempt.report.doing(f"{what} {round(100 * number / len(ranges))} %")
        yield each
    attempt.report.doing(None)


@contextlib.contextmanager
def _bench(attempt: Attempt, spec: EncodeSpec) -> Iterator[Bench]:
    folder = spec.scratch / "quality"
    runs: list[RunRecord] = []

    def check() -> None:
        attempt.lease.check()
        spec.require_output()

    def ended(run: RunRecord) -> None:
        runs.append(run)
        attempt.log.follow(runs)

    try:
        yield Bench(spec, folder, check, attempt.config.stall_s, ended)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _cannot_seek(spec: EncodeSpec, encoder: str) -> str:
    if not has_crf(encoder):
        return f"{encoder} has no CRF"
    return "" if has_vmaf(spec.ffmpeg) else f"ffmpeg {spec.ffmpeg.version} has no libvmaf"


def _raise_if_shared(error: TqError) -> None:
    """Raise an error that would end other runs of the job too."""
    if class_of(error.code) is ErrorClass.RESOURCE or error.code is ErrorCode.SOURCE_CHANGED:
        raise error


def _warnings(rung: Rung, decided: DecidedCrf) -> list[JobWarning]:
    if decided["vmaf"] is None:
        return [_not_sought(rung, decided["remark"])]
    if not decided["remark"]:
        return []
    limit = f"the {rung.maxrate_kbps} kb/s that its source allows" if rung.limited else "its bit rate"
    text = (
        f"{rung.name} does not reach VMAF {rung.quality:g}: with CRF {decided['crf']} and {limit},"
        f" samples have {decided['vmaf']:.1f}"
    )
    return [JobWarning(WarningCode.QUALITY_NOT_REACHED, text)]


def _not_sought(rung: Rung, why: str) -> JobWarning:
    text = f"VMAF {rung.quality:g} was not sought for {rung.codec}, which has CRF {rung.crf}: {why}"
    return JobWarning(WarningCode.QUALITY_NOT_REACHED, text)

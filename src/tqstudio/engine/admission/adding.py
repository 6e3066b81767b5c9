"""Converts the options of a request that adds files to an offer, and the answers of admission to results."""

from __future__ import annotations

from tqstudio.engine.admission.admission import Admission, new_batch
from tqstudio.engine.admission.decision import result
from tqstudio.engine.admission.existing_job import RunningJob
from tqstudio.engine.admission.metadata import require_small
from tqstudio.engine.admission.offer import Offer
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import AutorestartRule, JobStatus
from tqstudio.protocol.answers import AddResult, error_view
from tqstudio.protocol.requests import AddOptions


def offer(admission: Admission, options: AddOptions, output_root: bytes, *, actor: str = "user") -> Offer:
    """The offer that a request describes.

    Raises:
        TqError: BAD_REQUEST or BAD_CONFIG: the options contradict each other, or name what does not exist.
    """
    require_small("metadata", options.metadata)
    return Offer(
        profile=admission.profile(options.profile, options.overrides),
        output_root=output_root,
        priority=options.priority or 0,
        hold=options.hold,
        force=options.force,
        named=_named(options),
        batch=options.batch or new_batch(),
        autorestart=_autorestart(options),
        max_attempts=options.max_attempts,
        max_crashes=options.max_crashes,
        metadata=options.metadata,
        actor=actor,
    )


def result_of(path: bytes, answer: AddResult | Exception) -> AddResult:
    """The result for one file; a refusal is one too, a bug is raised."""
    if not isinstance(answer, Exception):
        return answer
    if not isinstance(answer, TqError):
        raise answer
    running = isinstance(answer, RunningJob)
    return {
        **result(path, "rejected", job=answer.job if isinstance(answer, RunningJob) else None),
        "status": JobStatus.IN_PROGRESS.value if running else None,
        "error": error_view(answer),
    }


def _named(options: AddOptions) -> frozenset[str]:
    given = {
        "profile": bool(options.profile or options.overrides),
        "priority": options.priority is not None,
        "hold": options.hold,
        "autorestart": options.autorestart is not None,
        "max_attempts": options.max_attempts is not None,
        "max_crashes": options.max_crashes is not None,
    }
    return frozenset(name for name, is_given in given.items() if is_given)


def _autorestart(options: AddOptions) -> AutorestartRule:
    if options.autorestart is None and options.autorestart_delay_s is not None:
        raise TqError(ErrorCode.BAD_REQUEST, "autorestart_delay_s is given without autorestart")
    rule = AutorestartRule(options.autorestart or 0)
    delay_s = options.autorestart_delay_s
    return rule if delay_s is None else AutorestartRule(rule.limit, delay_s)

"""Describes the result of adding a file in a sentence, for commands and the terminal UI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tqstudio.errors import in_one_line
from tqstudio.paths import readable

if TYPE_CHECKING:
    from tqstudio.protocol.answers import AddResult


@dataclass(frozen=True, slots=True)
class Ways:
    """How a job is retried and resumed; `{job}` is replaced by its number."""

    retry: str
    resume: str


COMMANDS = Ways(
    retry="retry it with: tqstudio job retry {job}", resume="resume it with: tqstudio job resume {job}"
)

_WORDS = {
    "queued": ("queued as job {job}", "queued"),
    "cached": ("its ladder is complete: {master}", "already complete"),
    "retried": ("job {job} requeued", "requeued"),
    "failed": ("job {job} failed; {retry}", "failed before"),
    "rejected": ("rejected", "refused"),
}
"""Decision → the sentence about one file, and the word in a count."""
_CHANGED = {
    "source": ("the file changed; queued as job {job}{stays}", "queued for what changed"),
    "settings": (
        "settings or subtitle files changed; queued as job {job}{stays}",
        "queued for what changed",
    ),
    "ladder": (
        "its ladder is incomplete; queued as job {job} to encode what is missing",
        "queued for what is missing",
    ),
    "forced": ("queued as job {job} to be encoded again{stays}", "queued to be encoded again"),
}
"""The same of a file that has a ladder, by the reason of the new job."""
_OPEN = {
    "pending": ("waits in the queue as job {job}", "already in the queue"),
    "in_progress": ("job {job} is already encoding it", "already encoding"),
    "paused": ("is paused as job {job}; {resume}", "paused"),
}
"""The same of a file that has an open job, by its status."""

_LIMITS = {"max_attempts": "attempts", "max_crashes": "crashes"}


def sentence(result: AddResult, ways: Ways) -> str:
    """Describe the result for a file that was not rejected."""
    job = result["job"]
    text = _words(result)[0].format(
        job=job,
        stays=", its present ladder stays playable",
        master=readable(result["master"] or ""),
        retry=ways.retry.format(job=job),
        resume=ways.resume.format(job=job),
    )
    text += "".join(f"; {change}" for change in _applied_changes(result))
    if result["other_job"] is not None:
        text += f" (job {result['other_job']} encodes the same file for another output)"
    return text


def summary(results: Sequence[AddResult]) -> str:
    """Count the results by kind, and quote the first error."""
    counts = Counter(_words(result)[1] for result in results)
    text = ", ".join(f"{count} {what}" for what, count in counts.items())
    applied = Counter(change for result in results for change in _applied_changes(result))
    text += "".join(f"; {count} {change}" for change, count in applied.items())
    if others := sum(result["other_job"] is not None for result in results):
        text += f"; {others} also encoded for another output"
    if error := next((result["error"] for result in results if result["error"]), None):
        text += f"; first error: {in_one_line(error['code'], error['message'], error['hint'])}"
    return text


def _words(result: AddResult) -> tuple[str, str]:
    decision = result["decision"]
    if decision == "waiting":
        return _OPEN[result["status"] or "pending"]
    if decision == "changed":
        return _CHANGED[result["reason"] or "source"]
    return _WORDS.get(decision, (decision, decision))


def _applied_changes(result: AddResult) -> list[str]:
    """The changes applied to a job that existed already."""
    applied = result["applied"]
    changes = [f"{name} {applied[name]}" for name in ("profile", "priority") if name in applied]
    if "autorestart" in applied:
        changes.append(f"autorestart {applied['autorestart'] or 'off'}")
    changes += [f"{applied[name]} {what} allowed" for name, what in _LIMITS.items() if name in applied]
    if "metadata" in applied:
        changes.append(f"metadata {', '.join(readable(name) for name in applied['metadata'])}")
    if applied.get("force"):
        changes.append("everything encoded again")
    held = ["held"] if applied.get("hold") else []
    return [*held, *([f"now with {' and '.join(changes)}"] if changes else [])]

"""What became of a file that was offered to the queue, in a sentence: in commands and in the terminal UI."""

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
    """How a person lets a job go again, and lets one go on; `{job}` stands for its number."""

    retry: str
    resume: str


COMMANDS = Ways(
    "let it go again with: tqstudio job retry {job}", "let it go on with: tqstudio job resume {job}"
)
KEYS = Ways("r on job {job} tries it again", "p on job {job} lets it go on")

_SENTENCES = {
    "queued": "queued as job {job}",
    "cached": "its ladder is complete: {master}",
    "retried": "job {job} goes again",
    "failed": "has failed as job {job}; {retry}",
}
_CHANGED = {
    "source": "has changed; queued as job {job} to make what differs, its ladder plays on meanwhile",
    "settings": "has other settings; queued as job {job} to make what differs, its ladder plays on meanwhile",
    "ladder": "its ladder is not whole any more; queued as job {job} to make what is missing",
    "asked": "queued as job {job} to be made again, its ladder plays on meanwhile",
}
"""A file that has a ladder, by what the new job is for."""
_OPEN = {
    "pending": "waits in the queue as job {job}",
    "in_progress": "is being made by job {job} already",
    "paused": "is paused as job {job}; {resume}",
}
"""A file that has an open job, by how that stands."""

_COUNTED = {
    "queued": "queued",
    "retried": "tried again",
    "cached": "complete already",
    "failed": "failed before",
    "rejected": "refused",
}
_COUNTED_CHANGED = {
    "source": "queued for what changed",
    "settings": "queued for what changed",
    "ladder": "queued for what is missing",
    "asked": "queued to be made again",
}
_COUNTED_OPEN = {"pending": "in the queue already", "in_progress": "being made already", "paused": "paused"}


def sentence(result: AddResult, ways: Ways) -> str:
    """What became of a file that was not rejected."""
    said = _said(result)
    job = result["job"]
    said = said.format(
        job=job,
        master=readable(result["master"] or ""),
        retry=ways.retry.format(job=job),
        resume=ways.resume.format(job=job),
    )
    said += "".join(f"; {how}" for how in _taken_over(result))
    if result["other_job"] is not None:
        said += f" (job {result['other_job']} makes the same file for another output)"
    return said


def summary(results: Sequence[AddResult]) -> str:
    """How many of several files became what, and the first reason of those that were refused."""
    counts = Counter(_counted(result) for result in results)
    said = ", ".join(f"{count} {what}" for what, count in counts.items())
    taken_over = Counter(how for result in results for how in _taken_over(result))
    said += "".join(f"; {count} {how}" for how, count in taken_over.items())
    if others := sum(result["other_job"] is not None for result in results):
        said += f"; {others} made for another output too"
    if error := next((result["error"] for result in results if result["error"]), None):
        said += f"; first: {in_one_line(error['code'], error['message'], error['hint'])}"
    return said


def _said(result: AddResult) -> str:
    decision = result["decision"]
    if decision == "waiting":
        return _OPEN[_status(result)]
    if decision == "changed":
        return _CHANGED[result["reason"] or "source"]
    return _SENTENCES.get(decision, decision)


def _status(result: AddResult) -> str:
    return result["status"] or "pending"


def _counted(result: AddResult) -> str:
    decision = result["decision"]
    if decision == "changed":
        return _COUNTED_CHANGED[result["reason"] or "source"]
    return _COUNTED_OPEN[_status(result)] if decision == "waiting" else _COUNTED.get(decision, decision)


def _taken_over(result: AddResult) -> list[str]:
    """What a job that was there already took over."""
    applied = result["applied"]
    changes = [f"{name} {applied[name]}" for name in ("profile", "priority") if name in applied]
    if "autorestart" in applied:
        changes.append(f"autorestart {applied['autorestart'] or 'off'}")
    if "metadata" in applied:
        changes.append(f"metadata {', '.join(readable(name) for name in applied['metadata'])}")
    if applied.get("force"):
        changes.append("everything made again")
    held = ["held now"] if applied.get("hold") else []
    return [*held, *([f"now with {' and '.join(changes)}"] if changes else [])]

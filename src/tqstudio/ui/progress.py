"""How far a job and each of its qualities are: one rule for lists, bars and strips."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tqstudio.schemas import JobRow, RenditionView

_NOT_YET = 99.9
"""The most that is shown before it is true: the last segment is not the end of a job."""


def quality_percent(rendition: RenditionView) -> float:
    """0–100. The segment in the making counts only while something works on it."""
    if rendition["status"] == "completed":
        return 100.0
    total = rendition["segments_total"]
    kept = rendition["segments_done"] / total * 100 if total else 0.0
    if rendition["status"] == "in_progress":
        return min(_NOT_YET, max(kept, rendition["progress"]))
    return min(_NOT_YET, kept)


def job_percent(row: JobRow) -> float:
    """0–100: the mean of the qualities that are made; what the supervisor says before they are known."""
    if row["status"] == "done":
        return 100.0
    made = [quality_percent(each) for each in row["renditions"] if each["status"] != "skipped"]
    return min(_NOT_YET, sum(made) / len(made)) if made else row["progress"]

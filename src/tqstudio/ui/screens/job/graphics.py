"""The drawn sections of the job screen: pictures of the video, its speed, its bits, its VMAF."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from textual.strip import Strip

from tqstudio.ui.data.speeds import MOST_VALUES
from tqstudio.ui.widgets.bars import add_bar
from tqstudio.ui.widgets.plots import axis, curve, pictures
from tqstudio.words import format as fmt

if TYPE_CHECKING:
    from tqstudio.protocol.answers import BitsView, JobDetail, PictureView
    from tqstudio.ui.widgets.document import Document

_VMAF = re.compile(r"\bVMAF ([\d.]+) \(")
"""In the remark of a quality whose VMAF was measured."""


def film(doc: Document, _: JobDetail, width: int, *, found: list[PictureView | None]) -> list[Strip]:
    """The poster and the film strip."""
    drawn = [pictures(doc, each, width) for each in found if each is not None]
    return [line for lines in drawn for line in (*lines, doc.blank(width))]


def speed(doc: Document, job: JobDetail, width: int) -> list[Strip]:
    """The course of the speed since this UI has followed the job."""
    course = doc.context.model.speeds.of.get(job["id"])
    if course is None or len(course.values) < 3:
        return []
    now = course.values[-1] if job["status"] == "in_progress" else None
    began = datetime.fromtimestamp(course.began, doc.context.model.now().tzinfo)
    ends = (began, began + timedelta(seconds=MOST_VALUES * course.step_s))
    values = course.values + [None] * (MOST_VALUES - len(course.values))
    lines = curve(doc, values, ("now" if now else "", fmt.speed(now)), width, 3, fmt.speed)
    times = axis(doc, width, *(f"{at:%H:%M:%S}" for at in ends))
    return [doc.heading("Speed", width, "multiple of real time"), *lines, times, doc.blank(width)]


def bits(doc: Document, job: JobDetail, width: int, *, found: BitsView | None) -> list[Strip]:
    """The bit rate of each quality along the video, and its VMAF where it was measured."""
    lines: list[Strip] = []
    if found is not None:
        lines = [doc.heading("Bits along the video", width, "Mb/s")]
        for each in found["renditions"]:
            rates = [bps / 1e6 for bps in each["bps"]]
            labels = (
                each["name"],
                f"mean {each['average_bps'] / 1e6:.2g}",
                f"most {max(rates, default=0):.2g}",
            )
            lines += curve(doc, rates, labels, width, 3)
        length = found["duration_s"]
        times = map(fmt.clock_duration, (0, length / 2, length))
        lines += [axis(doc, width, *times), doc.blank(width)]
    measured = [
        (each["name"], float(vmaf[1]))
        for each in job["renditions"]
        if (vmaf := _VMAF.search(each["reason"] or ""))
    ]
    if measured:
        lines.append(doc.heading("VMAF", width, "of 100"))
        for name, value in measured:
            line = doc.start(width).gap().cell(name, 10, doc.context.palette.strong)
            line.gap().cell(f"{value:.1f}", 6, right=True).gap()
            add_bar(line, value, line.room - 1, "done", doc.context.glyphs, doc.context.palette)
            lines.append(line.strip())
        lines.append(doc.blank(width))
    return lines

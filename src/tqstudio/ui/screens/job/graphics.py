"""The drawn sections of the job screen: pictures of the video, its speed, its bits, its VMAF."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from textual.strip import Strip

from tqstudio.ui.drawings.bars import add_bar
from tqstudio.ui.drawings.plots import axis, curve, pictures
from tqstudio.ui.look.line import fit
from tqstudio.words import format as fmt

if TYPE_CHECKING:
    from tqstudio.protocol.answers import BitsView, JobDetail, PictureView, WallView
    from tqstudio.ui.widgets.document import Document

_VMAF = re.compile(r"\bVMAF ([\d.]+) \(")
"""In the remark of a quality whose VMAF was measured."""

_FEWEST_SPEEDS = 3


def film(doc: Document, _: JobDetail, width: int, *, found: list[PictureView | None]) -> list[Strip]:
    """The poster and the film strip."""
    drawn = [pictures(doc, each, width) for each in found if each is not None]
    return [line for lines in drawn for line in (*lines, doc.blank(width))]


def speed(doc: Document, job: JobDetail, width: int, *, found: WallView | None) -> list[Strip]:
    """The course of the speed of a running job, since its first attempt."""
    course = next((each["speeds"] for each in found["jobs"] if each["id"] == job["id"]), []) if found else []
    if len(course) < _FEWEST_SPEEDS:
        return []
    lines = curve(doc, course, ("now", fmt.speed(job["speed"])), width, 3, fmt.speed)
    return [doc.heading("Speed", width, "multiple of real time"), *lines, doc.blank(width)]


def log(doc: Document, _: JobDetail, width: int, *, lines: list[str]) -> list[Strip]:
    """The end of the log, where there is room beside the other sections."""
    if not lines:
        return []
    drawn = [doc.heading("Log", width, f"{doc.context.sign('log')} shows all")]
    for each in lines:
        line = doc.start(width).gap(2)
        text = fit(fmt.plain(each), line.room - 2, doc.context.glyphs.ellipsis)
        drawn.append(line.add(text, doc.context.palette.dim).strip())
    return [*drawn, doc.blank(width)]


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

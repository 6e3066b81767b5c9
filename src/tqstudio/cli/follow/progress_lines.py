"""Prints the progress of a run as plain lines: for pipes, logs and dumb terminals."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TextIO

from tqstudio.cli.follow.follower import Display, Video
from tqstudio.cli.terminal import printing
from tqstudio.paths import readable
from tqstudio.words import format as fmt
from tqstudio.words.sentences import worker_words

if TYPE_CHECKING:
    from tqstudio.protocol.answers import JobRow, RenditionView

EVERY_S = 10.0
"""Maximal interval between the lines of a running job."""
EVERY_PERCENT = 25.0
"""Progress after which it gets a line earlier."""


class ProgressLines(Display):
    """Prints a line for every start, end and some progress."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last: dict[int, tuple[float, float]] = {}

    def began(self, video: Video, row: JobRow) -> None:
        self._last[row["id"]] = (time.monotonic(), row["progress"])
        worker = f" on {worker_words(row)}" if row["worker"] else ""
        self._line(f"{video.name}: job {row['id']} runs{worker}")

    def moving(self, videos: list[Video], running: list[JobRow]) -> None:
        del videos
        now = time.monotonic()
        for row in running:
            at, progress = self._last.get(row["id"], (now, 0.0))
            if now - at >= EVERY_S or row["progress"] - progress >= EVERY_PERCENT:
                self._last[row["id"]] = (now, row["progress"])
                self._line(f"{row['name']}: {moving_text(row)}")

    def ended(self, video: Video) -> None:
        self._line(ending_text(video))

    def note(self, text: str) -> None:
        self._line(text)

    def _line(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


def moving_text(row: JobRow) -> str:
    """`62 %  720p 3/8  480p 3/8  2.1×  3:40 left`."""
    parts = [
        fmt.percent(row["progress"]),
        *(quality_text(r) for r in row["renditions"] if is_encoded(r)),
    ]
    if row["speed"]:
        parts.append(fmt.speed(row["speed"]))
    if row["eta_s"] is not None:
        parts.append(f"{fmt.clock_duration(row['eta_s'])} left")
    return "  ".join(parts)


def is_encoded(rendition: RenditionView) -> bool:
    """Whether a quality is encoded."""
    return rendition["status"] != "skipped"


def quality_text(rendition: RenditionView) -> str:
    total = rendition["segments_total"]
    done = f"{rendition['segments_done']}/{total}" if total else fmt.percent(rendition["progress"])
    return f"{rendition['name']} {done}"


def ending_text(video: Video) -> str:
    """The result of a video in one line; below it warnings, or the error with hint and log."""
    if video.error is not None and video.status != "done":
        error = printing.error_lines(video.error["code"], video.error["message"], video.error["hint"])
        log = f"\n  log: {video.log}" if video.log else ""
        return f"{video.name}: {video.status}\n{error}{log}"
    playlist = f" {printing.ARROW} {readable(video.master)}" if video.master else ""
    warnings = [printing.warning_lines(each["code"], readable(each["text"])) for each in video.warnings]
    return "\n  ".join([f"{video.name}: {video.status}{playlist}", *warnings])

"""Shows a run as progress bars on a terminal: one per running job, a small one per quality."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tqstudio.cli.follow.follower import Display, Video
from tqstudio.cli.follow.progress_lines import ending_text, is_encoded
from tqstudio.words import format as fmt
from tqstudio.words.sentences import status_word

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tqstudio.protocol.answers import JobRow, RenditionView

CELLS = 8
"""Width of a quality's bar."""
MAX_JOBS = 8
_STYLES = {"done": "green", "failed": "red", "cancelled": "yellow", "cached": "dim", "rejected": "red"}


class ProgressBars(Display):
    """Redraws the bars below the lines of ended jobs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        # Streams are not redirected: rich's replacements do not have their encoding.
        self._live = Live(
            Text(""),
            console=console,
            transient=True,
            refresh_per_second=8,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def moving(self, videos: list[Video], running: list[JobRow]) -> None:
        self._live.update(Group(*self._rows(running), _totals(videos)))

    def ended(self, video: Video) -> None:
        # As `Text`, since rich would parse markup in a plain string.
        self._print(Text(ending_text(video), style=_STYLES.get(video.status, "")))

    def note(self, text: str) -> None:
        self._print(Text(text, style="yellow"))

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)

    def close(self) -> None:
        self._live.stop()

    def _rows(self, running: list[JobRow]) -> Iterable[Table | Text]:
        for row in running[:MAX_JOBS]:
            grid = Table.grid(padding=(0, 1), expand=True)
            grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
            grid.add_column(width=24)
            for width in (5, 6, 10):
                grid.add_column(justify="right", width=width)
            eta_s = row["eta_s"]
            left = row["step"] or "" if eta_s is None else f"{fmt.clock_duration(eta_s)} left"
            grid.add_row(
                Text(f"{row['id']} {row['name']}"),
                ProgressBar(total=100, completed=row["progress"], width=24),
                Text(fmt.percent(row["progress"])),
                Text(fmt.speed(row["speed"])),
                Text(left[:10]),
            )
            yield grid
            qualities = Text("   ", no_wrap=True, overflow="ellipsis")
            for rendition in row["renditions"]:
                if is_encoded(rendition):
                    qualities.append_text(_quality(rendition))
            yield qualities
        if len(running) > MAX_JOBS:
            yield Text(f"   and {len(running) - MAX_JOBS} more")


def _quality(rendition: RenditionView) -> Text:
    full = round(CELLS * rendition["progress"] / 100)
    total = rendition["segments_total"]
    text = Text(f"{rendition['name']} ")
    text.append("━" * full, style="cyan" if rendition["status"] != "failed" else "red")
    text.append("─" * (CELLS - full), style="dim")
    text.append(f" {rendition['segments_done']}/{total}   " if total else "   ", style="dim")
    return text


def _totals(videos: list[Video]) -> Text:
    counts = Counter(video.status for video in videos)
    order = ("done", "cached", "in_progress", "pending", "paused", "failed", "rejected", "cancelled")
    parts = [f"{counts[status]} {status_word(status)}" for status in order if counts[status]]
    return Text(f"{fmt.counted(len(videos), 'video')}: {', '.join(parts)}", style="bold")

"""Takes pictures of a UI that runs, for an SVG that moves and for a recording that a terminal plays."""

from __future__ import annotations

import io
import json

from rich.console import Console

from moving_svg import joined
from tqstudio.ui.app import StudioApp


class Reel:
    """The pictures so far, each with its title and the seconds that it is shown."""

    def __init__(self, app: StudioApp) -> None:
        self._app = app
        self._pictures: list[str] = []
        self._lines: list[list[str]] = []
        self._titles: list[str] = []
        self._seconds: list[float] = []

    def take(self, title: str, seconds: float) -> None:
        size = self._app.size
        console = Console(
            width=size.width,
            height=size.height,
            file=io.StringIO(),
            force_terminal=True,
            color_system="truecolor",
            record=True,
            legacy_windows=False,
        )
        console.print(self._app.screen._compositor.render_update(full=True, simplify=True), end="")
        self._lines.append(console.export_text(styles=True, clear=False).splitlines())
        self._pictures.append(console.export_svg(title=title))
        self._titles.append(title)
        self._seconds.append(seconds)

    def svg(self) -> str:
        return joined(self._pictures, self._seconds)

    def cast(self) -> str:
        """The recording in asciinema's format, version 2: of each picture the lines that changed."""
        size = self._app.size
        events: list[object] = [{"version": 2, "width": size.width, "height": size.height}]
        before: list[str] = [""] * size.height
        at = 0.0
        for title, lines, seconds in zip(self._titles, self._lines, self._seconds, strict=True):
            changed = [new for old, new in zip(before, lines, strict=True) if old != new]
            events.append([round(at, 2), "o", f"\x1b]2;{title}\x07{''.join(changed)}"])
            before = lines
            at += seconds
        # The last picture stays as long as it is shown.
        events.append([round(at, 2), "o", ""])
        return "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events)

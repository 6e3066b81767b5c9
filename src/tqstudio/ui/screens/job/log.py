"""The log of a job's attempt: search, errors, neighbours, saving."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partialmethod
from itertools import count
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult

from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import TERMINAL
from tqstudio.protocol import calls
from tqstudio.ui.actions.registry import View, bindings_of
from tqstudio.ui.data.context import Context
from tqstudio.ui.screens.frame.text import TextScreen
from tqstudio.ui.screens.job.log_lines import LogLines, is_error
from tqstudio.ui.widgets.filter_line import FilterLine


class LogScreen(TextScreen):
    """Shows the log of an attempt at a job, by default the newest, and follows it while it grows."""

    VIEW: ClassVar[View] = "log"
    BINDINGS = bindings_of("log")

    def __init__(self, context: Context, job: int, attempt: int | None) -> None:
        self._job, self._attempt = job, attempt
        self._lines = LogLines(context)
        super().__init__(context, "", self._read_log, follow=True, lines=self._lines)
        self.filter_line = FilterLine()
        self.filter_line.placeholder = "text to search for"

    def body(self) -> ComposeResult:
        yield self.filter_line
        yield self._lines

    def typing(self) -> bool:
        return self.filter_line.has_focus

    def tab_text(self) -> tuple[str, str]:
        which = "" if self._attempt is None else f", attempt {self._attempt}"
        follows = " – following" if self._lines.follow and not self._has_ended else ""
        return self._lines.wanted, f"log of job {self._job}{which}{follows}"

    @property
    def _has_ended(self) -> bool:
        row = self.context.model.job(self._job)
        return row is not None and row["status"] in TERMINAL

    async def _read_log(self) -> tuple[str, str]:
        try:
            answer = await self.context.feed.send(calls.job_log(self._job, self._attempt))
        except TqError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                raise
            return error.message, ""  # it has not started yet
        return answer["text"], answer["path"] or ""

    # Searching.

    async def do_search(self, _: str) -> None:
        self.filter_line.open(self._lines.wanted)

    @on(FilterLine.Typed)
    def _typed(self, message: FilterLine.Typed) -> None:
        self._lines.wanted, self._lines.at = message.value.strip(), None
        if message.final:
            self._close_search()
        if self._lines.wanted and not self._lines.jump(self._lines.matches, 1) and message.final:
            self.toast(f"nothing in this log matches {self._lines.wanted}")
        self.paint()

    @on(FilterLine.Left)
    def _close_search(self) -> None:
        self.filter_line.close()
        self._lines.focus()

    async def _go(self, step: int, _: str) -> None:
        if not self._lines.wanted:
            self.toast(f"{self.context.sign('search')} searches for a text first")
        elif not self._lines.jump(self._lines.matches, step):
            self.toast(f"nothing in this log matches {self._lines.wanted}")
        self.paint()

    do_next_match = partialmethod(_go, 1)
    do_previous_match = partialmethod(_go, -1)

    async def do_next_error(self, _: str) -> None:
        if not self._lines.jump(is_error, 1):
            self.toast("no line of this log is about an error")
        self.paint()

    # Looks.

    async def do_fold(self, _: str) -> None:
        self._lines.folded = not self._lines.folded
        self._changed()

    async def do_wrap(self, _: str) -> None:
        self._lines.wrapped = not self._lines.wrapped
        self._changed()

    def _changed(self) -> None:
        self._lines.at = None
        self._lines.sync()
        self.paint()

    # Other logs, and a copy.

    async def _step(self, step: int, _: str) -> None:
        rows = self.context.model.jobs.rows
        at = self.context.model.jobs.index_of(self._job)
        if at is None or not 0 <= at + step < len(rows):
            self.toast("there is no job beside it in the list")
            return
        self._job, self._attempt = rows[at + step]["id"], None
        self._lines.text, self._lines.at, self._lines.follow = "reading…", None, True
        await self.reread()

    do_next_job = partialmethod(_step, 1)
    do_previous_job = partialmethod(_step, -1)

    async def do_save(self, _: str) -> None:
        """Write the log into the working directory: all of it, or what is shown of one on another machine."""
        whole = Path(self._copied) if self._copied and not self.context.model.remote else None
        try:
            path = await asyncio.to_thread(_save, self._job, whole, self._lines.text)
        except OSError as error:
            self.toast(f"the log cannot be saved in {Path.cwd()}: {error.strerror}", problem=True)
        else:
            self.toast(f"saved as {path}")


def _save(job: int, whole: Path | None, shown: str) -> Path:
    """Write a log under a name that is free; returns its path."""
    content = f"{shown}\n".encode()
    if whole is not None:
        with suppress(OSError):
            content = whole.read_bytes()
    for number in count(1):
        path = Path.cwd() / f"tqstudio-job-{job}{'' if number == 1 else f'-{number}'}.log"
        with suppress(FileExistsError), path.open("xb") as file:
            file.write(content)
            return path
    raise AssertionError("some name is free")

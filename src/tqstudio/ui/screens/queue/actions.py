"""Actions on the queue as a whole: marking and adding files."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tqstudio import source_files
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display, encode, readable
from tqstudio.protocol import calls
from tqstudio.protocol.filters import Term
from tqstudio.ui.data.marks import Matching
from tqstudio.ui.data.query import Query
from tqstudio.ui.data.target import Target
from tqstudio.ui.screens.frame.list_screen import RowsScreen
from tqstudio.ui.screens.queue.bulk import BulkActions
from tqstudio.words.added import Ways, sentence, summary
from tqstudio.words.format import copied, counted
from tqstudio.words.sentences import is_playable

if TYPE_CHECKING:
    from tqstudio.protocol.answers import AddResult
    from tqstudio.ui.screens.dialogs.ask_path import PathAnswer
    from tqstudio.ui.widgets.job_list import JobList

MAX_ADDED = 10_000
"""Maximal number of files per dialog."""
AT_ONCE = 200
"""Files per request, each of which is checked while the request waits."""


class QueueActions(BulkActions, RowsScreen):
    list: JobList
    _range_from: int | None = None
    """The job where a range begins."""

    async def do_mark(self, _: str) -> None:
        row = self.current()
        if row is None:
            self.toast("no job is selected")
            return
        if self.list.marks.matching is not None:
            self.list.marks.clear()
        self.list.marks.toggle(Target.of(row))
        self.list.move_by(1)
        self.paint()

    async def do_mark_all(self, _: str) -> None:
        """Mark all that the filter shows: each if they are loaded, else by the filter."""
        window, marks = self.context.model.jobs, self.list.marks
        marks.clear()
        if window.whole:
            marks.update({row["id"]: Target.of(row) for row in window.rows})
            self.toast(f"{counted(len(marks), 'job')} marked; {self.context.sign('unmark')} unmarks")
        else:
            # Deleted jobs are only found by a filter for them; one for words would take longer.
            line = "state:deleted" if window.query.filter.deleted else ""
            page = await self.context.feed.send(calls.jobs(line, sort="-number", limit=1))
            newest = max((row["id"] for row in page["jobs"]), default=0)
            marks.matching = Matching(window.query.line(), newest, window.total)
            self.toast(f"{marks.matching} marked; {self.context.sign('unmark')} unmarks")
        self.paint()

    async def do_range(self, _: str) -> None:
        """Mark from the job where `v` was pressed first to the one under the cursor."""
        row = self.current()
        start = self.list.find(self._range_from) if self._range_from is not None else None
        if row is not None and start is None:
            self._range_from = row["id"]
            key = self.context.sign("range")
            self.toast(f"range from job {row['id']}: {key} marks up to the job under the cursor")
        elif row is not None and start is not None:
            first, last = sorted((start, self.list.cursor))
            self._range_from, self.list.marks.matching = None, None
            rows = self.context.model.jobs.rows[first : last + 1]
            self.list.marks.update({each["id"]: Target.of(each) for each in rows})
            self.paint()

    async def do_alike(self, _: str) -> None:
        """Show and mark what shares the error code of this job, else its drop folder, else its profile."""
        row, query = self.current(), self.context.model.jobs.query
        if row is None:
            self.toast("no job is selected")
            return
        term = Term("profile", (row["profile"],))
        for folder in self.context.model.folders or ():
            if row["path"].startswith(f"{folder['path']}/"):
                term = Term("folder", (str(folder["id"]),))
        if row["error"] is not None:
            term = Term("code", (row["error"]["code"],))
        terms = (*query.filter.of(term.word), term)
        await self.ask(replace(query, filter=query.filter.with_terms(term.word, *terms)))
        await self.do_mark_all("")

    async def ask(self, query: Query, *, keep: int | None = None) -> None:
        """Show another query."""
        raise NotImplementedError

    async def do_unmark(self, _: str) -> None:
        self.list.marks.clear()
        self.paint()

    async def do_copy(self, _: str) -> None:
        row = self.current()
        if row is None:
            self.toast("no job is selected")
            return
        generation = self.context.model.generations.get(row["video"]) if is_playable(row) else None
        self.app.copy_to_clipboard(copied(generation["master_b64"] if generation else row["path_b64"]))
        self.toast(f"path of the {'playlist' if generation else 'source'} of job {row['id']} copied")

    async def do_add(self, _: str) -> None:
        if self.context.model.remote:
            from tqstudio.protocol import remote

            connect = f" --connect {named}" if (named := remote.named()) else ""
            self.toast(f"to upload files, run: tqstudio{connect} add FILE")
            return
        from tqstudio.ui.screens.dialogs.ask_path import AskPath

        sentence = "A video, or a folder: all videos in it and in its subfolders."
        self.app.push_screen(AskPath(self.context, "Add files", sentence, self._add, can_hold=True))

    async def _add(self, answer: PathAnswer) -> None:
        """Queue the chosen files; raise TqError if none of them could be queued."""
        results = [
            result
            for paths in await asyncio.to_thread(_files, answer)
            for result in await self._offer(paths, answer)
        ]
        refused = [result for result in results if result["decision"] in ("rejected", "failed")]
        if len(refused) == len(results):
            raise _refusal(results, self._summary(results[:1]))
        self.toast(self._summary(results), problem=bool(refused))

    async def _offer(self, paths: Sequence[bytes], answer: PathAnswer) -> Sequence[AddResult]:
        output = encode(answer.output) if answer.output else None
        encoded = [encode(path) for path in paths]
        request = calls.add(encoded, profile=answer.profile, output_b64=output, hold=answer.hold or None)
        return (await self.context.feed.send(request))["results"]

    def _summary(self, results: Sequence[AddResult]) -> str:
        """The decision about the files, as a toast."""
        first, sign = results[0], self.context.sign
        if len(results) > 1:
            return f"{counted(len(results), 'file')}: {summary(results)}"
        ways = Ways(
            f"{sign('retry')} on job {{job}} retries it", f"{sign('pause')} on job {{job}} resumes it"
        )
        return f"{readable(os.path.basename(first['path']))}: {sentence(first, ways)}"


def _files(answer: PathAnswer) -> list[list[bytes]]:
    """The chosen videos, in lists of one request each; raise TqError if there are none, or too many."""
    path = os.fsencode(answer.path)
    if not os.path.exists(path):
        what = f"there is no file or folder {display(path)}"
        raise TqError(ErrorCode.SOURCE_MISSING, what, "check the path")
    found = list(source_files.walk(path, recursive=True)) if answer.is_folder else [path]
    if not found:
        raise TqError(ErrorCode.NO_MEDIA, f"{display(path)} contains no videos", "choose another folder")
    if len(found) > MAX_ADDED:
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"{display(path)} contains {counted(len(found), 'video')}, more than {MAX_ADDED}",
            "add smaller folders, or use: tqstudio add",
        )
    return [found[at : at + AT_ONCE] for at in range(0, len(found), AT_ONCE)]


def _refusal(results: Sequence[AddResult], of_first: str) -> TqError:
    """The error when nothing was queued: the first reason, and for how many files."""
    first = results[0]
    error = first["error"] or {"code": ErrorCode.REFUSED, "message": of_first, "hint": ""}
    none = f"none of {counted(len(results), 'file')} was queued; first: " if len(results) > 1 else ""
    return TqError(error["code"], none + error["message"], error["hint"])

"""What concerns the queue as a whole: marks, adding files, pausing all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tqstudio import client as calls
from tqstudio import sources
from tqstudio.errors import TqError
from tqstudio.ui.screens.base import StudioScreen
from tqstudio.ui.target import Target

if TYPE_CHECKING:
    from tqstudio.schemas import AddResult, JobRow
    from tqstudio.ui.screens.dialogs import PathAnswer
    from tqstudio.ui.widgets.job_list import JobList

MAX_ADDED = 10_000
"""Files that one request may name."""

DECISIONS = {
    "queued": "queued",
    "changed": "queued for what changed",
    "retried": "tried again",
    "waiting": "in the queue already",
    "cached": "complete already",
    "failed": "failed before",
    "rejected": "refused",
}


class QueueActions(StudioScreen):
    list: JobList

    def current(self) -> JobRow | None:
        raise NotImplementedError

    async def do_mark(self, _: str) -> None:
        row = self.current()
        if row is None:
            return
        if self.list.marks.pop(row["id"], None) is None:
            self.list.marks[row["id"]] = Target.of(row)
        self.list.move_by(1)
        self.paint()

    async def do_mark_all(self, _: str) -> None:
        try:
            found = await self.studio.feed.pager.targets()
        except TqError as error:
            self.toast(f"{error.message} – {error.hint}", problem=True)
            return
        self.list.marks |= {target.id: target for target in found}
        self.toast(f"{len(found)} jobs marked; u unmarks")
        self.paint()

    async def do_unmark(self, _: str) -> None:
        self.list.marks.clear()
        self.paint()

    async def do_copy(self, _: str) -> None:
        row = self.current()
        if row is None:
            self.toast("no job is selected")
            return
        self.app.copy_to_clipboard(row["path"])
        self.toast(f"path of job {row['id']} copied")

    async def do_pause_all(self, _: str) -> None:
        status = self.studio.model.status
        paused = status is not None and any(gate["kind"] == "user" for gate in status["gates"])
        try:
            if paused:
                await self.studio.feed.send(calls.resume_queue())
                self.toast("the queue goes on")
            else:
                await self.studio.feed.send(calls.pause_queue())
                self.toast("the queue is paused: running jobs end, no other starts")
        except TqError as error:
            self.toast(f"{error.message} – {error.hint}", problem=True)
        self.studio.feed.refresh_soon()

    async def do_add(self, _: str) -> None:
        from tqstudio.ui.screens.dialogs import AskPath

        def answered(answer: PathAnswer | None) -> None:
            if answer is not None:
                self.studio_app.start(self._add(answer))

        title, sentence = "Add files", "A video, or a folder: all videos in it and below it."
        self.app.push_screen(AskPath(title, sentence, self.studio.glyphs, can_hold=True), answered)

    async def _add(self, answer: PathAnswer) -> None:
        path = os.fsencode(answer.path)
        paths = list(sources.walk(path, recursive=True)) if answer.is_folder else [path]
        if not paths:
            self.toast(f"{sources.display(path)} holds no videos", problem=True)
            return
        if len(paths) > MAX_ADDED:
            self.toast(f"{len(paths)} files are more than {MAX_ADDED}; add smaller folders", problem=True)
            return
        encoded = [sources.encode(each) for each in paths]
        try:
            added = await self.studio.feed.send(
                calls.add(encoded, profile=answer.profile, hold=answer.hold or None)
            )
        except TqError as error:
            self.toast(f"{error.message} – {error.hint}", problem=True)
            return
        problem = any(result["decision"] in ("rejected", "failed") for result in added["results"])
        self.toast(summary(added["results"]), problem=problem)
        self.studio.feed.refresh_soon()


def summary(results: list[AddResult]) -> str:
    """What became of the files; of one file, why."""
    if len(results) == 1:
        result = results[0]
        name = os.path.basename(result["path"])
        error = result["error"]
        why = f": {error['message']} – {error['hint']}" if error else ""
        job = f" as job {result['job']}" if result["decision"] == "queued" else ""
        return f"{name} is {DECISIONS.get(result['decision'], result['decision'])}{job}{why}"
    counts: dict[str, int] = {}
    for result in results:
        counts[result["decision"]] = counts.get(result["decision"], 0) + 1
    text = ", ".join(f"{count} {DECISIONS.get(decision, decision)}" for decision, count in counts.items())
    error = next((result["error"] for result in results if result["error"]), None)
    return f"{text}; first: {error['message']}" if error else text

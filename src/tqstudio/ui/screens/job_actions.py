"""What a person does to jobs: to those marked in the queue, or to the one on a job's screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tqstudio import client as calls
from tqstudio import shell
from tqstudio.errors import TqError, in_one_line
from tqstudio.lifecycle import Control, JobStatus, Operation
from tqstudio.ui.actions import BY_NAME, operation_for
from tqstudio.ui.format import copied, counted
from tqstudio.ui.screens.base import StudioScreen
from tqstudio.ui.target import CONTROL_OF_WORD, Target, refusal

if TYPE_CHECKING:
    from tqstudio.schemas import ActionResult, JobRow
    from tqstudio.ui.screens.dialogs import Confirm

LOSES_WORK = (Operation.CANCEL, Operation.RESTART)


class JobActions(StudioScreen):
    """The `do_…` methods of all job actions; a screen says which jobs are meant.

    Dialogs and texts are loaded when they are asked for: the first picture of the queue needs none.
    """

    _deleted: tuple[int, ...] = ()

    def targets(self) -> list[Target]:
        """The jobs an action is about."""
        raise NotImplementedError

    def current(self) -> JobRow | None:
        """The job under the cursor, or the one this screen shows."""
        raise NotImplementedError

    async def do_pause(self, _: str) -> None:
        await self._operate("pause")

    async def do_retry(self, _: str) -> None:
        await self._operate("retry")

    async def do_raise(self, _: str) -> None:
        await self._operate("raise", delta=1)

    async def do_lower(self, _: str) -> None:
        await self._operate("lower", delta=-1)

    async def do_delete(self, _: str) -> None:
        await self._operate("delete")

    async def do_undelete(self, _: str) -> None:
        if not self._deleted:
            self.toast("nothing was deleted from here")
            return
        await self.send_operation(Operation.UNDELETE, self._deleted)
        type(self)._deleted = ()

    async def do_cancel(self, _: str) -> None:
        await self._operate("cancel")

    async def do_restart(self, _: str) -> None:
        await self._operate("restart")

    async def do_priority(self, _: str) -> None:
        from tqstudio.ui.screens.dialogs import AskPriority

        allowed = self._allowed(Operation.PRIORITY, self.targets())
        row = self.current()
        if not allowed:
            return

        def answered(priority: int | None) -> None:
            if priority is not None:
                ids = [target.id for target in allowed]
                self.studio_app.start(self.send_operation(Operation.PRIORITY, ids, priority=priority))

        self.app.push_screen(
            AskPriority(f"Priority of {_named(allowed)}", row["priority"] if row else 0), answered
        )

    async def do_retranscode(self, _: str) -> None:
        from tqstudio.ui.screens.dialogs import ChooseQualities

        allowed = self._allowed(Operation.RETRANSCODE, self.targets())
        if not allowed:
            return
        qualities = self._qualities(allowed)

        def answered(chosen: list[str] | None) -> None:
            if chosen is not None:
                ids = [target.id for target in allowed]
                every = None if set(chosen) == set(qualities) else chosen
                self.studio_app.start(self.send_operation(Operation.RETRANSCODE, ids, renditions=every))

        if qualities:
            self.app.push_screen(
                ChooseQualities(f"Make {_named(allowed)} again", qualities, self.studio.glyphs), answered
            )
        else:
            answered([])

    async def do_log(self, attempt: str) -> None:
        """Open a log: of the attempt that was clicked, else of the one that this screen means."""
        from tqstudio.ui.screens.text import TextScreen

        row = self.current()
        if row is None:
            self.toast("no job is selected")
            return
        job, number = row["id"], int(attempt) if attempt else self.attempt_meant()

        async def read() -> tuple[str, str]:
            answer = await self.studio.feed.send(calls.job_log(job, number))
            return answer["text"], answer["path"] or ""

        which = f" of job {job}" if number is None else f" of job {job}, attempt {number}"
        self.app.push_screen(TextScreen(self.studio, f"log{which}", read, follow=True, wrapped=True))

    def attempt_meant(self) -> int | None:
        """The attempt whose log `l` opens; None for the newest."""
        return None

    async def do_command(self, _: str) -> None:
        from tqstudio.ui.screens.text import TextScreen

        row = self.current()
        if row is None:
            self.toast("no job is selected")
            return
        job = row["id"]

        async def read() -> tuple[str, str]:
            detail = await self.studio.feed.send(calls.job(job))
            newest = max(detail["attempts_log"], key=lambda attempt: attempt["number"], default=None)
            commands = shell.script(newest["argv"]) if newest is not None else []
            return "\n\n".join(commands) or "No command has run yet.", "\n".join(commands)

        self.app.push_screen(TextScreen(self.studio, f"commands of job {job}", read, wrapped=True))

    async def do_facts(self, _: str) -> None:
        from tqstudio.ui.screens.facts import NAME_CELLS, facts_text
        from tqstudio.ui.screens.text import TextScreen

        row = self.current()
        if row is None:
            self.toast("no job is selected")
            return
        job = row["id"]

        async def read() -> tuple[str, str]:
            detail = await self.studio.feed.send(calls.job(job))
            return facts_text(detail["video_view"]), copied(detail["video_view"]["path_b64"])

        self.app.push_screen(TextScreen(self.studio, f"source of job {job}", read, name_cells=NAME_CELLS))

    # The way of every operation: decide here, ask when work would be lost, send, say what was refused.

    async def _operate(self, name: str, **more: Any) -> None:
        """Do it to every job that allows it, after asking where it must be asked."""
        targets = self.targets()
        if not targets:
            if self.current() is None:
                self.toast("no job is selected")
            return
        operation = operation_for(BY_NAME[name], targets)
        assert operation is not None
        allowed = self._allowed(operation, targets)
        if not allowed:
            return
        ids = [target.id for target in allowed]
        question = self._question_about(operation, allowed)
        if question is not None:

            def answered(yes: bool | None) -> None:
                if yes:
                    self.studio_app.start(self.send_operation(operation, ids, **more))

            self.app.push_screen(question, answered)
            return
        await self.send_operation(operation, ids, **more)

    def _allowed(self, operation: Operation, targets: Sequence[Target]) -> list[Target]:
        """Those that allow it; says why not when none does, and how many do not when only some do."""
        reasons = {target.id: refusal(operation, target) for target in targets}
        allowed = [target for target in targets if not reasons[target.id]]
        first = next(filter(None, reasons.values()), "")
        if not targets and self.current() is None:
            self.toast("no job is selected")
        elif not allowed and first:
            self.toast(first if len(targets) == 1 else f"none of {len(targets)} jobs: {first}")
        elif first:
            self.toast(f"{len(targets) - len(allowed)} of {len(targets)} jobs left out: {first}")
        return allowed

    async def send_operation(self, operation: Operation, ids: Sequence[int], **more: Any) -> None:
        """Send it and show the answer at once; the stream confirms it later."""
        try:
            answer = await self.studio.feed.send(calls.act(operation.value, ids, **more))
        except TqError as error:
            self.complain(error)
            return
        results: list[ActionResult] = answer["results"]
        for result in results:
            if result["ok"] and result["status"] and result["new_job"] is None:
                word = result["word"] or result["status"]
                control = CONTROL_OF_WORD.get(word, Control.NONE).value
                fields = {"status": result["status"], "word": word, "control": control}
                self.studio.model.patch_job(result["job"], fields)
        refused = [result["error"] for result in results if not result["ok"] and result["error"]]
        if refused:
            error_view = refused[0]
            count = f"{len(refused)} of {len(results)} refused: " if len(results) > 1 else ""
            said = in_one_line(error_view["code"], error_view["message"], error_view["hint"])
            self.toast(count + said, problem=True)
        done = len(results) - len(refused)
        made = [result["new_job"] for result in results if result["new_job"] is not None]
        if made:
            self.toast(f"new job {', '.join(map(str, made[:5]))}{' …' if len(made) > 5 else ''}")
        elif operation is Operation.DELETE and done:
            type(self)._deleted = tuple(result["job"] for result in results if result["ok"])
            removed = sum(result["removed_segments"] for result in results)
            its = f" without {'its' if done == 1 else 'their'} segments" if removed else ""
            self.toast(f"delete: {counted(done, 'job')}; U brings {'it' if done == 1 else 'them'} back{its}")
        elif done and len(ids) > 1:
            self.toast(f"{operation.value}: {counted(done, 'job')}")
        self.studio.feed.refresh_soon()
        self.paint()

    def _question_about(self, operation: Operation, targets: Sequence[Target]) -> Confirm | None:
        """What is asked before work is lost; None where none is."""
        if operation is Operation.DELETE:
            lost = self._lost_with(targets)
            return _delete_question(targets, lost) if lost else None
        if operation in LOSES_WORK and any(_has_work(target) for target in targets):
            return _question(operation, targets)
        return None

    def _lost_with(self, targets: Sequence[Target]) -> int:
        """Finished segments that go with these jobs when they are deleted."""
        status = self.studio.model.status
        if status is not None and not status["supervisor"]["cleanup_partial"]:
            return 0
        # A waiting job's stay for a while, and what a done one made is published.
        ended = (JobStatus.FAILED, JobStatus.CANCELLED)
        return sum(target.segments_done for target in targets if target.status in ended)

    def _qualities(self, targets: Sequence[Target]) -> dict[str, str]:
        """The qualities that the sources of these jobs can have, and why none of the jobs made one; "" where
        one did."""
        found: dict[str, str] = {}
        for target in targets:
            row = self.studio.model.job(target.id)
            for rendition in row["renditions"] if row else ():
                name, skipped = rendition["name"], rendition["status"] == "skipped"
                if not skipped:
                    found[name] = ""
                elif rendition["width"] is not None:
                    found.setdefault(name, rendition["reason"] or "left out")
        return found

    def copy(self, text: str, what: str) -> None:
        self.app.copy_to_clipboard(text)
        self.toast(f"{what} copied")


def _has_work(target: Target) -> bool:
    return target.status is JobStatus.IN_PROGRESS or target.segments_done > 0


def _named(targets: Sequence[Target]) -> str:
    if len(targets) == 1:
        return f"job {targets[0].id}, {targets[0].name}"
    return counted(len(targets), "job")


def _delete_question(targets: Sequence[Target], segments: int) -> Confirm:
    from tqstudio.ui.screens.dialogs import Confirm

    it, its = ("it", "its") if len(targets) == 1 else ("them", "their")
    return Confirm(
        f"Delete {_named(targets)}?",
        [
            f"Lost: {counted(segments, 'finished segment')}. A later retry makes all again from the start.",
            f"U brings {it} back to the list, without {its} segments.",
        ],
        keep=f"Keep {it}",
        go="Delete the job" if len(targets) == 1 else f"Delete {_named(targets)}",
    )


def _question(operation: Operation, targets: Sequence[Target]) -> Confirm:
    """Says what would be lost, and what stays."""
    from tqstudio.ui.screens.dialogs import Confirm

    running = sum(target.status is JobStatus.IN_PROGRESS for target in targets)
    segments = sum(target.segments_done for target in targets)
    each = "of each quality " if len(targets) == 1 else "of each quality of every running job "
    lost = f"Lost: what is in flight {each}(a second or two of video)." if running else "Nothing is lost now."
    if operation is Operation.RESTART:
        made = f"Lost: {counted(segments, 'finished segment')}, and what is being made." if segments else lost
        return Confirm(
            f"Restart {_named(targets)}?",
            [made, "All is made again from the start. A job that is stuck is freed by p, and p again."],
            keep="Keep it as it is",
            go="Restart",
        )
    verb = "stays" if segments == 1 else "stay"
    stays = f"{counted(segments, 'finished segment')} {verb} for a later retry."
    if not segments:
        stays = "No segment is finished yet: a later retry begins at or near the start."
    return Confirm(
        f"Cancel {_named(targets)}?",
        [lost, stays],
        keep="Keep it running" if running else "Keep it",
        go="Cancel the job" if len(targets) == 1 else f"Cancel {_named(targets)}",
    )

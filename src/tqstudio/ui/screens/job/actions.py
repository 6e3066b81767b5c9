"""Job actions: on the marked jobs of the queue, or on the job of a job screen."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from functools import partial, partialmethod
from typing import TYPE_CHECKING, Any

from tqstudio import shell_quoting
from tqstudio.errors import TqError, in_one_line
from tqstudio.lifecycle import JobStatus, Operation
from tqstudio.paths import readable
from tqstudio.protocol import calls
from tqstudio.ui.actions.registry import BY_NAME, operation_for
from tqstudio.ui.data.job_pages import MAX_MARKED
from tqstudio.ui.data.target import Target, refusal
from tqstudio.ui.screens.frame.base import StudioScreen
from tqstudio.ui.screens.job.confirmations import (
    delete_question,
    has_work,
    loss_question,
    many_question,
    video_question,
)
from tqstudio.words.format import copied, counted, number

if TYPE_CHECKING:
    from tqstudio.protocol.answers import ActionResult, JobRow
    from tqstudio.ui.screens.dialogs.dialogs import Confirm

MANY = 20
"""Above this number of jobs an action asks for confirmation, even where no work is lost."""


class JobActions(StudioScreen):
    """The `do_…` methods of all job actions; a screen defines the target jobs.

    Dialogs and texts are imported when they are opened, to draw the first picture sooner.
    """

    def targets(self) -> list[Target]:
        """The jobs that an action applies to."""
        raise NotImplementedError

    def current(self) -> JobRow | None:
        """The job under the cursor, or the one this screen shows."""
        raise NotImplementedError

    @property
    def _undo(self) -> str:
        """The key that undoes."""
        return self.context.sign("undo")

    async def do_delete_video(self, _: str) -> None:
        row = self.current()
        if row is None:
            self.toast("no job is selected")
            return
        video, name = row["video"], row["name"]

        async def delete() -> None:
            await self.context.feed.send(calls.delete_video(video))
            self.context.feed.refresh_soon()
            self.toast(f"video {name} deleted; {self._undo} brings it back")

        self._ask_and_start(video_question(name, self._undo), delete)

    async def do_priority(self, _: str) -> None:
        from tqstudio.ui.screens.dialogs.dialogs import AskPriority

        allowed = self._allowed(Operation.PRIORITY, self.targets())
        row = self.current()
        if not allowed:
            return

        def answered(priority: int | None) -> None:
            if priority is not None:
                self._confirm_and_send(Operation.PRIORITY, allowed, priority=priority)

        title = f"Priority of {self._named(allowed)}"
        self.app.push_screen(AskPriority(title, row["priority"] if row else 0), answered)

    async def do_change(self, _: str) -> None:
        allowed = self._allowed(Operation.CHANGE, self.targets())
        if not allowed:
            return
        ids = _ids(allowed)

        async def apply(given: dict[str, Any]) -> str:
            results = await self._request(Operation.CHANGE, ids, given)
            if not any(result["ok"] for result in results):
                return _first_refusal(results)
            self._report(Operation.CHANGE, results)
            return ""

        again = sum(target.status is JobStatus.DONE for target in allowed)
        words = {"encoded again": again, "changed": len(allowed) - again}
        parts = [f"{number(count)} {word}" for word, count in words.items() if count]
        title = (
            f"Change {self._named(allowed)}"
            if again < len(allowed)
            else f"Encode {self._named(allowed)} again"
        )
        self._open_change(title if len(parts) < 2 else f"{title}: {', '.join(parts)}", {"ids": ids}, apply)

    def _open_change(
        self, title: str, which: dict[str, Any], apply: Callable[[dict[str, Any]], Awaitable[str]]
    ) -> None:
        from tqstudio.ui.screens.dialogs.change import ChangeJobs

        self.app.push_screen(ChangeJobs(self.context, title, which, apply))

    async def do_log(self, attempt: str) -> None:
        """Open a log: of the attempt that was clicked, else of the selected one."""
        from tqstudio.ui.screens.job.log import LogScreen

        row = self.current()
        if row is None:
            self.toast("no job is selected")
            return
        number = int(attempt) if attempt else self.selected_attempt()
        self.app.push_screen(LogScreen(self.context, row["id"], number))

    def selected_attempt(self) -> int | None:
        """The attempt whose log `l` opens; None for the newest."""
        return None

    async def do_command(self, _: str) -> None:
        async def read(job: int) -> tuple[str, str]:
            detail = await self.context.feed.send(calls.job(job))
            newest = max(detail["attempts_log"], key=lambda attempt: attempt["number"], default=None)
            commands = shell_quoting.script(newest["argv"]) if newest is not None else []
            return "\n\n".join(commands) or "No command has run.", "\n".join(commands)

        self._open_text("commands of job {job}", read, wrapped=True)

    async def do_facts(self, _: str) -> None:
        from tqstudio.ui.screens.job.source_facts import NAME_CELLS, facts_text

        async def read(job: int) -> tuple[str, str]:
            detail = await self.context.feed.send(calls.job(job))
            return facts_text(detail["video_view"]), copied(detail["video_view"]["path_b64"])

        self._open_text("source of job {job}", read, wrapped=True, name_cells=NAME_CELLS)

    async def do_open_result(self, _: str) -> None:
        from tqstudio.ui.screens.job.result import master_of

        row = self.current()
        master = await master_of(self.context, row)
        if row is None or self.context.model.remote:
            self._copy(copied(master), "its ladder is on another machine")
        else:
            self.toast(f"opening the result of job {row['id']}")
            self.shell.start(self._show_page(row["id"]))

    async def _show_page(self, job: int) -> None:
        from tqstudio.ui.screens.job.result import show_page

        if address := await show_page(job):
            self._copy(address, "no browser here")
        else:
            self.toast("opened in the browser")

    def _copy(self, text: str, why: str) -> None:
        self.app.copy_to_clipboard(text)
        self.toast(f"{why}; copied: {readable(text)}")

    async def do_own_command(self, key: str) -> None:
        from tqstudio.ui.screens.job.result import run_command

        await run_command(self.context.keys.commands[key], self.context, self.shell, self.current())

    def _open_text(self, title: str, read: Callable[[int], Awaitable[tuple[str, str]]], **look: Any) -> None:
        """Open a text about the current job; `read` and `look` as of `TextScreen`."""
        from tqstudio.ui.screens.frame.text import TextScreen

        row = self.current()
        if row is None:
            self.toast("no job is selected")
            return
        title = title.format(job=row["id"])
        self.app.push_screen(TextScreen(self.context, title, partial(read, row["id"]), **look))

    # Steps of every operation: check locally, confirm if work would be lost, send, report refusals.

    async def _operate(self, name: str, _: str, **more: Any) -> None:
        """Apply an action's operation to every job that allows it, after confirmation where needed."""
        targets = self.targets()
        operation = operation_for(BY_NAME[name], targets)
        assert operation is not None
        if allowed := self._allowed(operation, targets):
            self._confirm_and_send(operation, allowed, **more)

    do_pause = partialmethod(_operate, "pause")
    do_cancel = partialmethod(_operate, "cancel")
    do_retry = partialmethod(_operate, "retry")
    do_restart = partialmethod(_operate, "restart")
    do_raise = partialmethod(_operate, "raise", delta=1)
    do_lower = partialmethod(_operate, "lower", delta=-1)
    do_delete = partialmethod(_operate, "delete")

    def _confirm_and_send(self, operation: Operation, targets: Sequence[Target], **more: Any) -> None:
        """Send an operation, after a yes if there is a question."""
        question = self._question_about(operation, targets)
        self._ask_and_start(question, partial(self._send, operation, _ids(targets), more))

    def _ask_and_start(self, question: Confirm | None, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        def answered(yes: bool | None) -> None:
            if yes:
                self.shell.start(step(), keys_wait=True)

        if question is None:
            answered(True)
        else:
            self.app.push_screen(question, answered)

    def _allowed(self, operation: Operation, targets: Sequence[Target]) -> list[Target]:
        """The targets that allow the operation; a toast reports why others do not."""
        reasons = {target.id: refusal(operation, target) for target in targets}
        allowed = [target for target in targets if not reasons[target.id]]
        first = next(filter(None, reasons.values()), "")
        if not targets and self.current() is None:
            self.toast("no job is selected")
        elif not allowed and first:
            self.toast(first if len(targets) == 1 else f"none of {len(targets)} jobs: {first}")
        elif first:
            self.toast(f"{len(targets) - len(allowed)} of {len(targets)} jobs skipped: {first}")
        return allowed

    async def _send(self, operation: Operation, ids: Sequence[int], more: dict[str, Any]) -> None:
        try:
            results = await self._request(operation, ids, more)
        except TqError as error:
            self.show_error(error)
        else:
            self._report(operation, results)

    async def _request(
        self, operation: Operation, ids: Sequence[int], more: dict[str, Any]
    ) -> list[ActionResult]:
        """Apply an operation to jobs.

        Raises:
            TqError: none was reached; an error after the first part of them is shown.
        """
        results: list[ActionResult] = []
        try:
            for at in range(0, len(ids), MAX_MARKED):
                part, key = ids[at : at + MAX_MARKED], uuid.uuid4().hex
                call = calls.act(operation.value, part, idempotency_key=key, **more)
                results += (await self.context.feed.send_again(call, self.toast))["results"]
        except TqError as error:
            if not results:
                raise
            self.show_error(error)
        return results

    def _report(self, operation: Operation, results: Sequence[ActionResult]) -> None:
        """Show the results of an operation at once; the event stream confirms them later."""
        for result in results:
            self.context.model.take_result(result)
        self.context.model.jobs.act_on(result["job"] for result in results if result["ok"])
        self.context.model.acted_on_last = next(
            (result["job"] for result in results if result["ok"]), self.context.model.acted_on_last
        )
        refused = [result for result in results if not result["ok"] and result["error"]]
        if refused:
            count = f"{len(refused)} of {len(results)} refused: " if len(results) > 1 else ""
            self.toast(count + _first_refusal(refused), problem=True)
        done = len(results) - len(refused)
        new_jobs = [result["new_job"] for result in results if result["new_job"] is not None]
        changed = done - len(new_jobs)
        if operation is Operation.CHANGE and changed and len(results) > 1:
            again = f"; {counted(len(new_jobs), 'new job')}" if new_jobs else ""
            self.toast(f"{counted(changed, 'job')} changed{again}")
        elif operation is Operation.CHANGE and changed:
            self.toast(f"job {results[0]['job']} changed; {self._undo} undoes it")
        elif new_jobs:
            self.toast(f"new job {', '.join(map(str, new_jobs[:5]))}{' …' if len(new_jobs) > 5 else ''}")
        elif operation is Operation.DELETE and done:
            ids = [result["job"] for result in results if result["ok"]]
            self.context.model.just_deleted = frozenset(ids)
            self.context.model.marks.drop(ids)
            self.context.model.jobs.drop(ids)
            removed = sum(result["removed_segments"] for result in results)
            without = f" without {'its' if done == 1 else 'their'} segments" if removed else ""
            restores = f"{self._undo} restores {'it' if done == 1 else 'them'}"
            self.toast(f"delete: {counted(done, 'job')}; {restores}{without}")
        elif operation is Operation.UNDELETE and done:
            ids = [result["job"] for result in results if result["ok"]]
            self.context.model.marks.drop(ids)
            if self.context.model.jobs.query.filter.deleted:
                self.context.model.jobs.drop(ids)
            self.toast(f"{counted(done, 'job')} restored to the list")
        elif operation is Operation.CANCEL and done:
            self.toast(f"cancel: {counted(done, 'job')}; {self._undo} undoes it")
        elif done and len(results) > 1:
            self.toast(f"{operation.value}: {counted(done, 'job')}")
        self.paint()

    def _question_about(self, operation: Operation, targets: Sequence[Target]) -> Confirm | None:
        """The confirmation of an operation; None where no work is lost and few jobs are affected."""
        if operation is Operation.DELETE:
            lost = self._lost_with(targets)
            if lost:
                return delete_question(targets, self._named(targets), lost, self._undo)
        # What can be undone asks from many jobs on.
        elif any(has_work(target) for target in targets) and (
            operation is Operation.RESTART or (operation is Operation.CANCEL and len(targets) > MANY)
        ):
            return loss_question(operation, targets, self._named(targets), self.context.sign("pause"))
        if len(targets) <= MANY:
            return None
        return many_question(operation, self._named(targets), self._undo)

    def hidden(self) -> Collection[int]:
        """The target jobs that the filter hides."""
        return ()

    def _named(self, targets: Sequence[Target]) -> str:
        hidden = len(set(self.hidden()).intersection(target.id for target in targets))
        if len(targets) == 1:
            name = _job_title(targets[0].id, targets[0].name)
            return f"{name} (hidden by the filter)" if hidden else name
        jobs = counted(len(targets), "job")
        return f"{jobs} ({number(hidden)} hidden by the filter)" if hidden else jobs

    def _lost_with(self, targets: Sequence[Target]) -> int:
        """Number of finished segments that are removed with these jobs."""
        status = self.context.model.status
        if status is not None and not status["supervisor"]["cleanup_partial"]:
            return 0
        # A waiting job keeps its segments for a while, and those of a done one are published.
        ended = (JobStatus.FAILED, JobStatus.CANCELLED)
        return sum(target.segments_done for target in targets if target.status in ended)

    def copy(self, text: str, what: str) -> None:
        self.app.copy_to_clipboard(text)
        self.toast(f"{what} copied")


def _ids(targets: Sequence[Target]) -> list[int]:
    return [target.id for target in targets]


def _job_title(job: int, name: str) -> str:
    return f"job {job}, {name}" if name else f"job {job}"


def _first_refusal(results: Sequence[ActionResult]) -> str:
    errors = [result["error"] for result in results if result["error"]]
    return in_one_line(errors[0]["code"], errors[0]["message"], errors[0]["hint"]) if errors else ""

"""What a person does to jobs: to those marked in the queue, or to the one on a job's screen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tqstudio import shell_quoting
from tqstudio.errors import TqError, in_one_line
from tqstudio.lifecycle import Control, JobStatus, Operation
from tqstudio.protocol import calls
from tqstudio.ui.actions.registry import BY_NAME, operation_for
from tqstudio.ui.data.job_pages import MAX_MARKED
from tqstudio.ui.data.target import CONTROL_OF_WORD, Target, refusal
from tqstudio.ui.screens.base import StudioScreen
from tqstudio.ui.text.format import copied, counted, number

if TYPE_CHECKING:
    from tqstudio.protocol.answers import ActionResult, JobRow
    from tqstudio.ui.screens.dialogs.dialogs import Confirm

LOSES_WORK = (Operation.CANCEL, Operation.RESTART)
MANY = 20
"""A key that would act on more jobs than this asks first, also where no work is lost."""
Request = tuple[Sequence[int], dict[str, Any]]
"""Jobs, and the other fields of what is asked for them."""
_VERBS = {
    Operation.PRIORITY: "Change the priority of",
    Operation.RETRANSCODE: "Make again:",
    Operation.UNDELETE: "Bring back",
}
"""How a question begins, where that is not the name of the operation."""


class JobActions(StudioScreen):
    """The `do_…` methods of all job actions; a screen says which jobs are meant.

    Dialogs and texts are loaded when they are asked for: the first picture of the queue needs none.
    """

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
        deleted = self.studio.model.deleted
        if not deleted:
            self.toast("nothing that was deleted from here is left to be brought back")
            return
        ids = list(deleted[-1])

        def carry_out() -> None:
            self.shell.start(self.send_operation(Operation.UNDELETE, ids), keys_wait=True)

        many = counted(len(ids), "job")
        self._ask(_many_question(Operation.UNDELETE, many) if len(ids) > MANY else None, carry_out)

    async def do_cancel(self, _: str) -> None:
        await self._operate("cancel")

    async def do_restart(self, _: str) -> None:
        await self._operate("restart")

    async def do_priority(self, _: str) -> None:
        from tqstudio.ui.screens.dialogs.dialogs import AskPriority

        allowed = self._allowed(Operation.PRIORITY, self.targets())
        row = self.current()
        if not allowed:
            return

        def answered(priority: int | None) -> None:
            if priority is not None:
                self._ask_and_send(Operation.PRIORITY, allowed, priority=priority)

        self.app.push_screen(
            AskPriority(f"Priority of {self._named(allowed)}", row["priority"] if row else 0), answered
        )

    async def do_retranscode(self, _: str) -> None:
        from tqstudio.ui.screens.dialogs.dialogs import ChooseQualities

        allowed = self._allowed(Operation.RETRANSCODE, self.targets())
        if not allowed:
            return
        qualities = _qualities(allowed)
        unknown = sum(not target.qualities for target in allowed)

        def answered(chosen: list[str] | None) -> None:
            if chosen is not None:
                requests = list(_by_qualities(allowed, chosen))
                self._ask_and_send_all(Operation.RETRANSCODE, allowed, requests)

        def all_of_them() -> None:
            self.shell.start(self.send_operation(Operation.RETRANSCODE, [each.id for each in allowed]))

        if qualities:
            title = f"Make {self._named(allowed)} again"
            self.app.push_screen(ChooseQualities(title, qualities, self.studio.glyphs, unknown), answered)
        else:
            every = f"all qualities of {self._named(allowed)}"
            self._ask(_many_question(Operation.RETRANSCODE, every), all_of_them)

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
            commands = shell_quoting.script(newest["argv"]) if newest is not None else []
            return "\n\n".join(commands) or "No command has run yet.", "\n".join(commands)

        self.app.push_screen(TextScreen(self.studio, f"commands of job {job}", read, wrapped=True))

    async def do_facts(self, _: str) -> None:
        from tqstudio.ui.screens.job.source_facts import NAME_CELLS, facts_text
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
        self._ask_and_send(operation, allowed, **more)

    def _ask_and_send(self, operation: Operation, targets: Sequence[Target], **more: Any) -> None:
        self._ask_and_send_all(operation, targets, [([target.id for target in targets], more)])

    def _ask_and_send_all(
        self, operation: Operation, targets: Sequence[Target], requests: Sequence[Request]
    ) -> None:
        def carry_out() -> None:
            self.shell.start(self._send_all(operation, requests), keys_wait=True)

        self._ask(self._question_about(operation, targets), carry_out)

    def _ask(self, question: Confirm | None, carry_out: Callable[[], None]) -> None:
        """Carry it out, after a yes where there is a question."""
        if question is None:
            carry_out()
        else:
            self.app.push_screen(question, lambda yes: carry_out() if yes else None)

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
        await self._send_all(operation, [(ids, more)])

    async def _send_all(self, operation: Operation, requests: Sequence[Request]) -> None:
        results: list[ActionResult] = []
        try:
            for ids, more in requests:
                for at in range(0, len(ids), MAX_MARKED):
                    call = calls.act(operation.value, ids[at : at + MAX_MARKED], **more)
                    results += (await self.studio.feed.send(call))["results"]
        except TqError as error:
            self.complain(error)
            if not results:
                return
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
            ids = [result["job"] for result in results if result["ok"]]
            self.studio.model.deleted.append({job: self._video_name(job) for job in ids})
            self.studio.model.marks.drop(ids)
            self.studio.model.jobs.drop(ids)
            removed = sum(result["removed_segments"] for result in results)
            its = f" without {'its' if done == 1 else 'their'} segments" if removed else ""
            self.toast(f"delete: {counted(done, 'job')}; U brings {'it' if done == 1 else 'them'} back{its}")
        elif operation is Operation.UNDELETE:
            self._brought_back(results)
        elif done and len(results) > 1:
            self.toast(f"{operation.value}: {counted(done, 'job')}")
        self.studio.feed.refresh_soon()
        self.paint()

    def _video_name(self, job: int) -> str:
        marked, row = self.studio.model.marks.get(job), self.studio.model.job(job)
        return marked.name if marked else row["name"] if row else ""

    def _brought_back(self, results: Sequence[ActionResult]) -> None:
        """Say which jobs are back, and what the next U brings; what was answered is not tried again."""
        deleted = self.studio.model.deleted
        names = deleted.pop()
        back = [result["job"] for result in results if result["ok"]]
        left = {job: name for job, name in names.items() if job not in {each["job"] for each in results}}
        deleted += [left] if left else []
        if back:
            more = "" if len(back) == 1 else f" and {counted(len(back) - 1, 'other')}"
            following = f"; U brings back {self._deletion(deleted[-1])}" if deleted else ""
            verb = "is" if len(back) == 1 else "are"
            self.toast(f"{_called(back[0], names[back[0]])}{more} {verb} back{following}")

    @staticmethod
    def _deletion(names: Mapping[int, str]) -> str:
        return _called(*next(iter(names.items()))) if len(names) == 1 else counted(len(names), "job")

    def _question_about(self, operation: Operation, targets: Sequence[Target]) -> Confirm | None:
        """What is asked before work is lost; None where none is."""
        if operation is Operation.DELETE:
            lost = self._lost_with(targets)
            if lost:
                return _delete_question(targets, self._named(targets), lost)
        elif operation in LOSES_WORK and any(_has_work(target) for target in targets):
            return _question(operation, targets, self._named(targets))
        return _many_question(operation, self._named(targets)) if len(targets) > MANY else None

    def hidden(self) -> Collection[int]:
        """The jobs that an action is about and that the filter hides."""
        return ()

    def _named(self, targets: Sequence[Target]) -> str:
        hidden = len(set(self.hidden()).intersection(target.id for target in targets))
        if len(targets) == 1:
            name = _called(targets[0].id, targets[0].name)
            return f"{name} (hidden by the filter)" if hidden else name
        jobs = counted(len(targets), "job")
        return f"{jobs} ({number(hidden)} hidden by the filter)" if hidden else jobs

    def _lost_with(self, targets: Sequence[Target]) -> int:
        """Finished segments that go with these jobs when they are deleted."""
        status = self.studio.model.status
        if status is not None and not status["supervisor"]["cleanup_partial"]:
            return 0
        # A waiting job's stay for a while, and what a done one made is published.
        ended = (JobStatus.FAILED, JobStatus.CANCELLED)
        return sum(target.segments_done for target in targets if target.status in ended)

    def copy(self, text: str, what: str) -> None:
        self.app.copy_to_clipboard(text)
        self.toast(f"{what} copied")


def _called(job: int, name: str) -> str:
    return f"job {job}, {name}" if name else f"job {job}"


def _has_work(target: Target) -> bool:
    return target.status is JobStatus.IN_PROGRESS or target.segments_done > 0


def _qualities(targets: Sequence[Target]) -> dict[str, str]:
    """The qualities that the sources of these jobs can have, and why none of the jobs made one; "" where
    one did."""
    found: dict[str, str] = {}
    # The longest ladder first, so that the list is in its order.
    for target in sorted(targets, key=lambda target: -len(target.qualities)):
        for name, left_out in target.qualities:
            found[name] = found.get(name, left_out) and left_out
    return found


def _by_qualities(targets: Sequence[Target], chosen: Collection[str]) -> Iterator[Request]:
    """One request for all jobs of which the same qualities are made: a job that is asked for one that it
    cannot have is refused. That is what one gets that can have none of them."""
    jobs: dict[tuple[str, ...], list[int]] = {}
    for target in targets:
        own = [name for name, _ in target.qualities]
        wanted = tuple(name for name in own if name in chosen)
        # Without a list the whole ladder is made.
        request = () if len(wanted) == len(own) else wanted or tuple(chosen)
        jobs.setdefault(request, []).append(target.id)
    for request, ids in jobs.items():
        yield ids, {"renditions": list(request)} if request else {}


def _many_question(operation: Operation, named: str) -> Confirm:
    from tqstudio.ui.screens.dialogs.dialogs import Confirm

    what = f"{_VERBS.get(operation, operation.value.capitalize())} {named}"
    sentence = "No finished segment is lost."
    if operation is Operation.RETRANSCODE:
        sentence = "Each becomes a new job. The present version plays on until the new one is done."
    return Confirm(f"{what}?", [sentence], keep="Change nothing", go=what)


def _delete_question(targets: Sequence[Target], named: str, segments: int) -> Confirm:
    from tqstudio.ui.screens.dialogs.dialogs import Confirm

    it, its = ("it", "its") if len(targets) == 1 else ("them", "their")
    return Confirm(
        f"Delete {named}?",
        [
            f"Lost: {counted(segments, 'finished segment')}. A later retry makes all again from the start.",
            f"U brings {it} back to the list, without {its} segments.",
        ],
        keep=f"Keep {it}",
        go="Delete the job" if len(targets) == 1 else f"Delete {counted(len(targets), 'job')}",
    )


def _question(operation: Operation, targets: Sequence[Target], named: str) -> Confirm:
    """Says what would be lost, and what stays."""
    from tqstudio.ui.screens.dialogs.dialogs import Confirm

    running = sum(target.status is JobStatus.IN_PROGRESS for target in targets)
    segments = sum(target.segments_done for target in targets)
    each = "of each quality " if len(targets) == 1 else "of each quality of every running job "
    lost = f"Lost: what is in flight {each}(a second or two of video)." if running else "Nothing is lost now."
    if operation is Operation.RESTART:
        made = f"Lost: {counted(segments, 'finished segment')}, and what is being made." if segments else lost
        return Confirm(
            f"Restart {named}?",
            [made, "All is made again from the start. A job that is stuck is freed by p, and p again."],
            keep="Keep it as it is",
            go="Restart",
        )
    verb = "stays" if segments == 1 else "stay"
    stays = f"{counted(segments, 'finished segment')} {verb} for a later retry."
    if not segments:
        stays = "No segment is finished yet: a later retry begins at or near the start."
    return Confirm(
        f"Cancel {named}?",
        [lost, stays],
        keep="Keep it running" if running else "Keep it",
        go="Cancel the job" if len(targets) == 1 else f"Cancel {counted(len(targets), 'job')}",
    )

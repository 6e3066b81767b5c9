"""Actions on all jobs that match a filter: the supervisor applies them, a slice at a time."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from tqstudio.lifecycle import Operation
from tqstudio.protocol import calls
from tqstudio.ui.data.marks import Matching
from tqstudio.ui.data.target import Target
from tqstudio.ui.screens.job.actions import JobActions
from tqstudio.ui.screens.job.confirmations import many_question
from tqstudio.words import bulk


class BulkActions(JobActions):
    """Job actions where the marks may be a filter."""

    def _allowed(self, operation: Operation, targets: Sequence[Target]) -> list[Target]:
        return [*targets] if self.context.model.marks.matching else super()._allowed(operation, targets)

    def _named(self, targets: Sequence[Target]) -> str:
        return str(self.context.model.marks.matching or super()._named(targets))

    @property
    def _busy(self) -> str:
        return f"another action on many jobs is still running: {self.context.sign('back')} stops it"

    async def do_change(self, _: str) -> None:
        matching = self.context.model.marks.matching
        if matching is None:
            await super().do_change(_)
            return

        async def apply(given: dict[str, Any]) -> str:
            if self.context.model.bulk is not None:
                return self._busy
            await self._begin(Operation.CHANGE, matching, given)
            return ""

        which = {"filter": matching.line, "newest": matching.newest}
        self._open_change(f"Change {matching}", which, apply)

    def _confirm_and_send(self, operation: Operation, targets: Sequence[Target], **more: Any) -> None:
        matching = self.context.model.marks.matching
        if matching is None:
            super()._confirm_and_send(operation, targets, **more)
        elif self.context.model.bulk is not None:
            self.toast(self._busy)
        else:
            question = many_question(operation, str(matching), self._undo, known=False)
            self._ask_and_start(question, partial(self._begin, operation, matching, more))

    async def _begin(self, operation: Operation, matching: Matching, more: dict[str, Any]) -> None:
        # Keys do not wait for it: escape stops it.
        self.shell.start(self._run(operation, matching, more))

    async def _run(self, operation: Operation, matching: Matching, more: dict[str, Any]) -> None:
        """Apply an operation slice by slice, and report it in one sentence."""
        self.context.model.bulk = stop = asyncio.Event()
        key, done, skipped = uuid.uuid4().hex, 0, Counter[str]()
        after: int | None = 0
        stops = f"{self.context.sign('back')} stops after this slice"
        try:
            while after is not None and not stop.is_set():
                so_far = bulk.progress(operation, done + skipped.total(), matching.total)
                self.toast(f"{so_far} · {stops}")
                call = calls.act_on_matching(
                    operation.value, matching.line, newest=matching.newest, key=key, after=after, **more
                )
                answer = await self.context.feed.send_again(call)
                done, after = done + answer["done"], answer["after"]
                skipped.update(answer["skipped"])
        finally:
            self.context.model.bulk = None
            self.context.feed.refresh_soon()
        if operation in (Operation.DELETE, Operation.UNDELETE):
            self.context.model.marks.clear()
        self.toast(bulk.sentence(operation, done, skipped, stopped=after is not None))
        self.paint()

"""The workers view: state, job, speed and health of each worker."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, ClassVar

from textual.strip import Strip

from tqstudio import units
from tqstudio.protocol import calls
from tqstudio.ui.actions.registry import View, bindings_of
from tqstudio.ui.look.line import fit
from tqstudio.ui.screens.frame.list_screen import Facts, ItemList, ListScreen
from tqstudio.ui.screens.job.screen import JobScreen
from tqstudio.words import format as fmt
from tqstudio.words.symbols import state_of

if TYPE_CHECKING:
    from tqstudio.protocol.answers import WorkerView

# Title, width, minimal width of the terminal, right-aligned.
COLUMNS = (
    ("worker", 9, 0, False),
    ("kind", 15, 96, False),
    ("state", 12, 0, False),
    ("job", 6, 0, True),
    ("step", 13, 77, False),
    ("speed", 6, 0, True),
    ("cpu", 6, 0, True),
    ("mem", 6, 0, True),
    ("beat", 5, 62, True),
    ("since", 6, 80, True),
)


class WorkerList(ItemList["WorkerView"]):
    @property
    def shown(self) -> list[WorkerView]:
        workers = self.context.model.workers.values()
        return [w for w in workers if self._owner.matches(w["name"], w["kind"], w["status"], w["note"])]

    def empty(self) -> str:
        unknown = "no workers – tqstudio doctor shows what is missing"
        return self._owner.nothing("worker", unknown, read=self.context.model.status is not None)

    def key(self, at: int) -> Hashable:
        return self.shown[at]["name"]

    def head(self, width: int) -> Strip:
        line = self.start(width).gap(2)
        for title, cells, from_width, right in COLUMNS:
            if width >= from_width:
                line.cell(title, cells, self.context.palette.faint, right=right).gap()
        return line.strip()

    def row(self, at: int, width: int, *, selected: bool) -> Strip:
        palette, glyphs = self.context.palette, self.context.glyphs
        worker = self.shown[at]
        line = self.start_row(width, selected=selected)
        state, word = self._look(worker)
        values = self._values(worker, f"{glyphs.states[state]} {word}")
        for title, cells, from_width, right in COLUMNS:
            if width < from_width:
                continue
            style = palette.states[state] if title == "state" else None if title == "worker" else palette.dim
            line.cell(values[title], cells, style, right=right).gap()
        note = worker["quarantine"] or worker["note"]
        if note and line.room > 20:
            line.gap().add(fit(fmt.plain(note), line.room - 1, glyphs.ellipsis), palette.warning)
        return line.strip()

    def _look(self, worker: WorkerView) -> tuple[str, str]:
        """State and word; uncertain while the supervisor does not answer, as workers end with it."""
        if self.context.model.stale and worker["status"] in ("busy", "idle", "starting", "draining"):
            return "stale", f"{worker['status']}?"
        if worker["quarantine"] and worker["status"] == "disabled":
            return "failed", "quarantine"
        return state_of(worker["status"]), worker["status"]

    def _values(self, worker: WorkerView, state: str) -> dict[str, str]:
        now, glyphs = self.context.model.now(), self.context.glyphs
        beat = fmt.age(worker["last_heartbeat_at"], now)
        since = fmt.age(worker["registered_at"], now)
        return {
            "worker": worker["name"],
            "kind": " ".join(filter(None, (worker["kind"], worker["device"]))),
            "state": state,
            "job": str(worker["job"]) if worker["job"] is not None else glyphs.states["skipped"],
            "step": (worker["step"] or "").replace("_", " "),
            "speed": "" if self.context.model.stale else fmt.speed(worker["speed"]),
            "cpu": f"{worker['cpu_percent']:.0f}%" if worker["cpu_percent"] is not None else "",
            "mem": units.short_size(worker["memory_bytes"]),
            "beat": fmt.short_duration(beat) if beat is not None else "",
            "since": fmt.short_duration(since) if since is not None else "",
        }


class WorkersScreen(ListScreen["WorkerView"]):
    VIEW: ClassVar[View] = "workers"
    BINDINGS = bindings_of("workers")
    LIST = WorkerList

    def tab_text(self) -> tuple[str, str]:
        busy = sum(worker["job"] is not None for worker in self.list.shown)
        return self.filter_text, f"{fmt.counted(self.list.count(), 'worker')}, {busy} busy"

    def details(self) -> tuple[str, Facts]:
        worker = self.selected()
        if worker is None:
            return "", []
        about = [f"{key} {value}" for key, value in worker["capabilities"].items()]
        return worker["name"], [
            *_remarks(worker),
            ("encoder", worker["encoder"] or ""),
            ("device", worker["device"] or ""),
            ("process", f"{worker['pid']}, {worker['type']}" if worker["pid"] else worker["type"]),
            ("can", ", ".join(about)),
            *((key, str(value)) for key, value in worker["metadata"].items()),
        ]

    async def do_open(self, _: str) -> None:
        worker = self.selected()
        if worker is None or worker["job"] is None:
            self.toast("this worker has no job" if worker else "no worker is selected")
            return
        self.app.push_screen(JobScreen(self.context, worker["job"]))

    async def do_worker_switch(self, _: str) -> None:
        worker = self.selected()
        if worker is None:
            self.toast("no worker is selected")
            return
        takes_jobs = worker["enabled"] and not worker["draining"]
        await self._act(worker["name"], "disable" if takes_jobs else "enable")

    async def do_worker_drain(self, _: str) -> None:
        worker = self.selected()
        if worker is None:
            self.toast("no worker is selected")
            return
        if worker["draining"]:
            self.toast(f"{worker['name']} is already draining; e lets it take jobs again")
            return
        await self._act(worker["name"], "drain")

    async def _act(self, name: str, verb: str) -> None:
        worker = await self.context.feed.send(calls.worker_action(name, verb))
        self.context.model.take_workers([worker])
        self.toast(f"{name} is {worker['status']}")
        self.paint()


def _remarks(worker: WorkerView) -> Facts:
    """Why the worker takes no jobs, and the key that helps."""
    if worker["quarantine"]:
        return [
            ("quarantine", worker["quarantine"]),
            ("", f"4 and / {worker['name']} show what failed; e enables it again"),
        ]
    return [("remark", worker["note"] or "")]

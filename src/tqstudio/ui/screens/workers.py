"""The workers view: state, job, speed and health of each worker."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from textual.strip import Strip

from tqstudio import units
from tqstudio.errors import TqError
from tqstudio.protocol import calls
from tqstudio.ui.actions.registry import View, bindings_of
from tqstudio.ui.drawings.bars import add_bar
from tqstudio.ui.drawings.curves import add_course, curve
from tqstudio.ui.look.line import fit, fit_name, width_of
from tqstudio.ui.screens.frame.list_screen import Facts, ItemList, ListScreen
from tqstudio.ui.screens.job.screen import JobScreen
from tqstudio.words import format as fmt
from tqstudio.words.symbols import state_of

if TYPE_CHECKING:
    from tqstudio.protocol.answers import StatisticsRow, StatisticsView, WallJob, WallView, WorkerView

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


CARD_LINES = 3
_MOST_CURVE_LINES = 4
REREAD_S = 2.0
TODAY_S = 60.0


class WorkerList(ItemList["WorkerView"]):
    """Cards with the job of each worker where all fit, else one line each."""

    def __init__(self, screen: ListScreen[WorkerView]) -> None:
        super().__init__(screen)
        self.jobs: dict[int, WallJob] = {}
        self.today: dict[str, StatisticsRow] = {}

    def paint(self) -> None:
        room, count = self.size.height - self.HEAD, self.count()
        lines = room // count if count else 1
        self.row_lines = 1 if lines < CARD_LINES else min(lines, CARD_LINES + _MOST_CURVE_LINES)
        super().paint()

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
        if self.row_lines > 1:
            return line.strip()
        for title, cells, from_width, right in COLUMNS:
            if width >= from_width:
                line.cell(title, cells, self.context.palette.faint, right=right).gap()
        return line.strip()

    def row_line(self, at: int, part: int, width: int, *, selected: bool) -> Strip:
        if self.row_lines == 1:
            return self.row(at, width, selected=selected)
        worker = self.shown[at]
        if part == 0:
            return self._title(worker, width, selected=selected)
        if part == 1:
            return self._job(worker, width)
        if part < self.row_lines - 1:
            return self._course(worker, width, part - 2, self.row_lines - CARD_LINES)
        return self.start(width).strip()

    def _title(self, worker: WorkerView, width: int, *, selected: bool) -> Strip:
        """Name, kind, state; at the right what it uses and what it did today."""
        palette, glyphs = self.context.palette, self.context.glyphs
        line = self.start_row(width, selected=selected)
        state, word = self._look(worker)
        values = self._values(worker, f"{glyphs.states[state]} {word}")
        line.cell(worker["name"], 12, palette.strong).gap()
        line.cell(values["state"], 13, palette.states[state]).gap()
        line.add(" ".join(filter(None, (values["kind"], worker["encoder"]))), palette.dim).gap(2)
        today = self.today.get(worker["name"])
        facts = [
            f"cpu {values['cpu']}" if values["cpu"] else "",
            f"mem {values['mem']}" if values["mem"] else "",
            f"today {fmt.counted(today['done'], 'video')}" if today else "today 0 videos",
            f"{fmt.short_duration(today['media_s'])} of video" if today and today["media_s"] else "",
            f"since {values['since']}" if values["since"] else "",
        ]
        while facts and width_of("  ".join(filter(None, facts))) + 1 > line.room:
            facts.pop()
        text = "  ".join(filter(None, facts))
        return line.gap(line.room - width_of(text) - 1).add(text, palette.dim).strip()

    def _job(self, worker: WorkerView, width: int) -> Strip:
        """Its job with a bar and the time left; else why it has none, and which key helps."""
        palette, glyphs, model = self.context.palette, self.context.glyphs, self.context.model
        line = self.start(width).gap(4)
        job = self.jobs.get(worker["job"] or 0)
        if job is None:
            if worker["job"] is not None:
                return line.add(f"job {worker['job']}", palette.dim).strip()
            off = not worker["enabled"] or worker["draining"] or bool(worker["quarantine"])
            why = worker["quarantine"] or worker["note"] or ("takes no jobs" if off else "waits for a job")
            line.add(
                fit(fmt.plain(why), line.room - 20, glyphs.ellipsis), palette.warning if off else palette.dim
            )
            if off:
                line.gap(2).add("e", palette.key).add(" lets it take jobs", palette.dim)
            return line.strip()
        left = f"left {fmt.with_range(job['eta'])}" if job["eta"] and not model.stale else ""
        step = (worker["step"] or job["step"] or "starting").replace("_", " ")
        about = f"{fmt.percent(job['progress'])}  {left}"
        bar = max(8, min(40, width // 4))
        line.add(f"{job['id']} ", palette.dim)
        room = line.room - bar - width_of(about) - width_of(step) - 8
        name = fit_name(job["name"], max(8, room), glyphs.ellipsis)
        line.add(name).gap(2).add(step, palette.dim)
        line.gap(line.room - bar - width_of(about) - 2)
        add_bar(line, job["progress"], bar, "running", glyphs, palette)
        return line.gap().add(about, palette.dim).strip()

    def _course(self, worker: WorkerView, width: int, part: int, lines: int) -> Strip:
        """A line of the course of its job's speed."""
        palette, glyphs = self.context.palette, self.context.glyphs
        line = self.start(width).gap(4)
        job = self.jobs.get(worker["job"] or 0)
        if job is None or not job["speeds"]:
            return line.strip()
        figure = fmt.speed(job["speed"]) or "speed" if part == lines - 1 else ""
        line.cell(figure, 8, palette.dim, right=True).gap()
        course = curve(job["speeds"], line.room - 2, lines, glyphs)[part]
        add_course(line, course, glyphs.heights[-1], palette, is_top=not part)
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

    def on_mount(self) -> None:
        super().on_mount()
        self._today_until = 0.0
        self.set_interval(REREAD_S, self._reread_shown)

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        self.shell.start(self._reread_shown())

    async def _reread_shown(self) -> None:
        """Read what the workers do, and each minute what they did; the event stream has their list."""
        if not self.is_current or not self.context.model.up:
            return
        with suppress(TqError):  # the header says that the supervisor does not answer
            wall: WallView = await self.context.feed.send(calls.wall())
            self.cards.jobs = {job["id"]: job for job in wall["jobs"]}
            if monotonic() > self._today_until:
                midnight = self.context.model.now().replace(hour=0, minute=0, second=0, microsecond=0)
                call = calls.statistics("worker", midnight.isoformat())
                today: StatisticsView = await self.context.feed.send(call)
                self.cards.today = {row["key"]: row for row in today["rows"]}
                self._today_until = monotonic() + TODAY_S
        self.paint()

    @property
    def cards(self) -> WorkerList:
        assert isinstance(self.list, WorkerList)
        return self.list

    def tab_text(self) -> tuple[str, str]:
        busy = sum(worker["job"] is not None for worker in self.list.shown)
        return self.filter_text, f"{fmt.counted(self.list.count(), 'worker')}, {busy} busy"

    def details(self) -> tuple[str, Facts]:
        worker = self.selected()
        if worker is None:
            return "", []
        about = [f"{key} {value}" for key, value in worker["capabilities"].items()]
        return worker["name"], [
            *self._remarks(worker),
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
            lets = f"{self.context.sign('worker_switch')} lets it take jobs again"
            self.toast(f"{worker['name']} is already draining; {lets}")
            return
        await self._act(worker["name"], "drain")

    async def do_worker_add(self, _: str) -> None:
        from tqstudio.ui.screens.dialogs.add_worker import AddWorker

        workers = self.context.model.workers.values()
        count = 1 + sum(each["kind"] == "cpu" and each["type"] == "local" for each in workers)
        kept = f"workers = {count} in config.toml keeps it"

        def answered(answer: str | None) -> None:
            if answer == "here":
                self.shell.start(self._add(kept))
            elif answer:
                self.app.copy_to_clipboard(answer)
                self.toast("command copied")

        self.app.push_screen(AddWorker(self.context.home, kept), answered)

    async def _add(self, kept: str) -> None:
        worker = await self.context.feed.send(calls.add_worker())
        self.context.model.take_workers([worker])
        self.toast(f"{worker['name']} starts, and ends with the supervisor; {kept}")
        self.paint()

    async def do_worker_remove(self, _: str) -> None:
        worker = self.selected()
        if worker is None:
            self.toast("no worker is selected")
            return
        loses = []
        if worker["job"] is not None:
            loses.append(f"Job {worker['job']} is requeued; its finished segments are kept.")
        if worker["type"] == "remote":
            loses.append("Its token is revoked. One that joined joins again while its program runs.")
        if not loses:
            await self._remove(worker["name"])
            return
        from tqstudio.ui.screens.dialogs.dialogs import Confirm

        name = worker["name"]

        def answered(go: bool | None) -> None:
            if go:
                self.shell.start(self._remove(name))

        self.app.push_screen(Confirm(f"Remove {name}?", loses, keep="Keep it", go="Remove it"), answered)

    async def _remove(self, name: str) -> None:
        answer = await self.context.feed.send(calls.remove_worker(name))
        self.context.model.workers.pop(name, None)
        requeued = "" if answer["job"] is None else f"; job {answer['job']} is requeued"
        self.toast(f"{name} is removed{requeued}")
        self.paint()

    async def _act(self, name: str, verb: str) -> None:
        worker = await self.context.feed.send(calls.worker_action(name, verb))
        self.context.model.take_workers([worker])
        self.toast(f"{name} is {worker['status']}")
        self.paint()

    def _remarks(self, worker: WorkerView) -> Facts:
        """Why the worker takes no jobs, and the key that helps."""
        if not worker["quarantine"]:
            return [("remark", worker["note"] or "")]
        sign = self.context.sign
        shows = f"{sign('view_history')} and {sign('filter')} {worker['name']} show what failed"
        return [
            ("quarantine", worker["quarantine"]),
            ("", f"{shows}; {sign('worker_switch')} enables it again"),
        ]

"""The people: they drop files and ask for things, twice if no one answers, whenever it suits them least."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from tqstudio import paths
from tqstudio.engine.api import folders as folder_api
from tqstudio.engine.api import jobs as job_api
from tqstudio.engine.api import videos as video_api
from tqstudio.engine.api import workers as worker_api
from tqstudio.engine.store.library import folders
from tqstudio.errors import TqError
from tqstudio.lifecycle import Operation
from tqstudio.protocol.requests import (
    ActionRequest,
    AddRequest,
    FolderChange,
    FolderRequest,
    QueueClear,
    QueuePause,
    QueueRetry,
    UndoRequest,
    WorkerTokenRequest,
)

from .process import LADDER, Process

if TYPE_CHECKING:
    from .life import Life
    from .world import Nature, World

_OPEN_ENOUGH = 14
_FILES = 40

_ACTS = {
    "drop": 20,
    "operate": 20,
    "pause_queue": 1,
    "steer_worker": 3,
    "remote_worker": 4,
    "change_folder": 1,
    "tidy": 1,
    "undo": 4,
}
_OPERATIONS = {
    Operation.PAUSE: 4,
    Operation.RESUME: 5,
    Operation.CANCEL: 3,
    Operation.RETRY: 5,
    Operation.RESTART: 3,
    Operation.RETRANSCODE: 4,
    Operation.CHANGE: 3,
    Operation.PRIORITY: 2,
    Operation.DELETE: 1,
    Operation.UNDELETE: 2,
}


class People:
    """Users, operators, and whoever copies files into the drop folder."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._natures: dict[str, Nature] = {}
        self._answers: dict[str, Any] = {}
        self._keys = 0
        self._gate_shut = False

    def act(self) -> None:
        """A user does something."""
        rng, life = self.world.rng, self.world.life
        if life is None or not life.running:
            if rng.random() < 0.3:
                self.world.step("operator", "starts the supervisor")
                self.world.start_supervisor()
            return
        [act] = rng.choices(list(_ACTS), list(_ACTS.values()))
        getattr(self, f"_{act}")(life)

    def _ask(self, life: Life, what: Coroutine[Any, Any, object]) -> None:
        """Ask the supervisor for something; it may refuse."""
        life.run(self._asked(what))

    async def _asked(self, what: Coroutine[Any, Any, object]) -> None:
        try:
            await what
        except TqError as error:
            self.world.note("user", f"is refused: {error.code}")

    # Files

    def nature_of_source(self, path: str) -> Nature:
        return self._natures[path]

    def _drop(self, life: Life) -> None:
        """A file settles: a new one, one with other content, or one that is there already."""
        rng, world = self.world.rng, self.world
        if len(world.audit.open) >= _OPEN_ENOUGH:
            return
        known = sorted(self._natures)
        if (len(known) < _FILES and rng.random() < 0.7) or not known:
            path = self._new_file(len(known))
            what = "drops"
        else:
            path = rng.choice(known)
            what = "drops again" if rng.random() < 0.3 else "changes"
            if what == "changes":
                self._write(path)
        world.step("user", f"{what} {os.path.basename(path)}")
        self._ask(life, self._settled(life, path) if rng.random() < 0.8 else self._add(life, path))

    def _new_file(self, number: int) -> str:
        from .world import NATURES

        [nature] = self.world.rng.choices([n for _, n in NATURES], [w for w, _ in NATURES])
        folder = self.world.root / "in"
        folder.mkdir(exist_ok=True)
        path = str(folder / f"{nature.name} {number}.mp4")
        self._natures[path] = nature
        self._write(path)
        return path

    def _write(self, path: str) -> None:
        with open(path, "wb") as file:
            file.write(f"{path} {self.world.rng.random()}".encode())
        # The real clock of the disk is nothing that a seed decides.
        at = self.world.clock.wall
        os.utime(path, ns=(at, at))

    async def _settled(self, life: Life, path: str) -> None:
        """The watcher finds it."""
        rows = await life.db.read(folders.listing)
        if not rows:
            self.world.note("user", "makes the drop folder")
            await folder_api.add(life.services, FolderRequest(path_b64=self._folder, **self._rule()))
            rows = await life.db.read(folders.listing)
        assert life.intake is not None
        for row in rows:
            for error in await life.intake.offer(row, {os.fsencode(path): None}):
                if error is not None:
                    raise error

    async def _add(self, life: Life, path: str) -> None:
        """A user names it to the command line."""
        rng = self.world.rng
        await video_api.add(
            life.services,
            AddRequest(
                paths_b64=[paths.encode(os.fsencode(path))],
                hold=rng.random() < 0.5,
                force=rng.random() < 0.2,
                retry_failed=rng.random() < 0.8,
                priority=rng.choice((None, 0, 7)),
                **(self._rule() if rng.random() < 0.5 else {}),
            ),
        )

    def _rule(self) -> dict[str, Any]:
        """How often failed jobs start again by themselves."""
        return {"autorestart": self.world.rng.choice((0, 1, 2)), "autorestart_delay_s": 5.0}

    @property
    def _folder(self) -> str:
        return paths.encode(os.fsencode(self.world.root / "in"))

    def _change_folder(self, life: Life) -> None:
        """A user gives the drop folder another rule, or takes it out of the list; its jobs stay."""
        remove = self.world.rng.random() < 0.4
        self.world.step("user", "removes the drop folder" if remove else "changes the drop folder")
        self._ask(life, self._remove_folder(life) if remove else self._edit_folder(life))

    async def _remove_folder(self, life: Life) -> None:
        for row in await life.db.read(folders.listing):
            await folder_api.remove(life.services, "user", row.id)

    async def _edit_folder(self, life: Life) -> None:
        for row in await life.db.read(folders.listing):
            priority = self.world.rng.randint(-3, 3)
            change = FolderChange(priority=priority, **self._rule())
            await folder_api.change(life.services, "user", row.id, change)

    # Jobs

    def _operate(self, life: Life) -> None:
        rng, known = self.world.rng, self.world.audit.known
        if not known:
            return
        [operation] = rng.choices(list(_OPERATIONS), list(_OPERATIONS.values()))
        job = rng.choice(list(known)[-30:]) if rng.random() < 0.97 else 999_999
        self._order(life, operation, [job])
        if operation is Operation.PAUSE and rng.random() < 0.3:
            self.world.loop.call_later(rng.random() * 2, self._think_better, job)

    def _think_better(self, job: int) -> None:
        """Perhaps before its worker has heard of the pause."""
        if (life := self.world.life) is not None and life.running:
            self._order(life, Operation.RESUME, [job])

    def _order(self, life: Life, operation: Operation, jobs: list[int]) -> None:
        rng = self.world.rng
        self._keys += 1
        body: dict[str, Any] = {"operation": operation, "ids": jobs}
        if rng.random() < 0.5:
            body["idempotency_key"] = f"key {self._keys}"
        if operation is Operation.PRIORITY:
            body["priority"] = rng.randint(-5, 5)
        if operation in (Operation.RETRANSCODE, Operation.CHANGE) and rng.random() < 0.5:
            body["renditions"] = [rng.choice(LADDER)]
        if operation is Operation.CHANGE and rng.random() < 0.5:
            body |= {"hold": rng.random() < 0.5, "overrides": {"crf": str(rng.randint(20, 30))}}
        self.world.step("user", f"{operation.value} {jobs}")
        request = ActionRequest(**body)
        for _ in range(1 + (request.idempotency_key is not None and rng.random() < 0.3)):
            self._ask(life, self._apply(life, request, rng.random() * 0.02))

    async def _apply(self, life: Life, request: ActionRequest, after_s: float) -> None:
        await asyncio.sleep(after_s)
        if not life.running:
            return
        answer = await life.services.operations.apply(request)
        if request.idempotency_key is None:
            return
        first = self._answers.setdefault(request.idempotency_key, answer)
        if first != answer:
            difference = f"one request was answered with {first}, then with {answer}"
            self.world.mistake(difference, "a_repeated_request_is_answered_alike")

    def _undo(self, life: Life) -> None:
        self.world.step("user", "undoes the newest action")
        self._ask(life, job_api.undo(life.services, "user", UndoRequest()))

    # The whole

    def _pause_queue(self, life: Life) -> None:
        self._gate_shut = not self._gate_shut
        self.world.step("user", "pauses the queue" if self._gate_shut else "resumes the queue")
        self._ask(life, self._set_gate(life, shut=self._gate_shut))
        if self._gate_shut:
            self.world.loop.call_later(self.world.rng.uniform(1, 20), self._resume_queue)

    def _resume_queue(self) -> None:
        life = self.world.life
        if self._gate_shut and life is not None and life.running:
            self._pause_queue(life)

    async def _set_gate(self, life: Life, *, shut: bool) -> None:
        if shut:
            await job_api.pause(life.services, "user", QueuePause())
        else:
            await job_api.resume(life.services, "user")

    def _steer_worker(self, life: Life) -> None:
        rng = self.world.rng
        name = rng.choice(["cpu-0", "cpu-1", "cpu-2", "cpu-3", "far-0", "far-1", "far-2"])
        verb = rng.choice(["enable", "enable", "enable", "disable", "drain", "drain"])
        self.world.step("operator", f"{verb} {name}")
        self._ask(life, worker_api.intent(life.services, "user", name, verb))

    def _tidy(self, life: Life) -> None:
        """A user lets every failed job go again, or clears the list."""
        if self.world.rng.random() < 0.5:
            self.world.step("user", "retries all that failed")
            self._ask(life, job_api.retry(life.services, "user", QueueRetry()))
        else:
            self.world.step("user", "clears the list")
            self._ask(life, job_api.clear(life.services, "user", QueueClear()))

    def _remote_worker(self, life: Life) -> None:
        """Start a worker that the supervisor does not spawn; a GPU one among them."""
        number = self.world.rng.randrange(3)
        name = f"far-{number}"
        if any(p.name == name and p.alive for p in self.world.processes):
            return
        self.world.step("operator", f"starts {name}")
        self._ask(life, self._start_remote(life, name, "gpu" if number == 1 else "cpu"))

    async def _start_remote(self, life: Life, name: str, kind: str) -> None:
        issued: Any = await worker_api.new_token(life.services, WorkerTokenRequest(name=name, kind=kind))
        if life.dead or any(p.name == name and p.alive for p in self.world.processes):
            return
        self.world.add(Process(self.world, name, kind, issued["token"], local=False))

    # Calm

    def put_right(self) -> None:
        """Start, open, enable and resume whatever stands in the way."""
        life = self.world.life
        if life is None:
            self.world.start_supervisor()
            return
        if not life.running:
            return
        self._gate_shut = False
        self._ask(life, self._set_gate(life, shut=False))
        for number in range(self.world.settings.workers):
            self._ask(life, worker_api.intent(life.services, "user", f"cpu-{number}", "enable"))
        known = self.world.audit.known
        paused = [job for job in sorted(self.world.audit.open) if known[job]["status"] == "paused"]
        if paused:
            self._order(life, Operation.RESUME, paused)

    def begin_again(self, jobs: list[int]) -> None:
        """With what is there of them, or from nothing."""
        if (life := self.world.life) is not None and life.running:
            self._order(life, self.world.rng.choice((Operation.RETRY, Operation.RESTART)), jobs)

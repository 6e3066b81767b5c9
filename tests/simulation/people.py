"""The people: they drop files and ask for things, twice if nobody answers, whenever it suits them least."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from tqstudio.engine.api import queue
from tqstudio.engine.api import workers as worker_api
from tqstudio.engine.store import folders
from tqstudio.errors import TqError
from tqstudio.lifecycle import Operation
from tqstudio.requests import ActionRequest, NewWorker, QueuePause

from .process import LADDER, Process

if TYPE_CHECKING:
    from .life import Life
    from .world import Nature, World

_OPEN_ENOUGH = 14
_FILES = 40

_OPERATIONS = {
    Operation.PAUSE: 4,
    Operation.RESUME: 5,
    Operation.CANCEL: 2,
    Operation.RETRY: 5,
    Operation.RESTART: 3,
    Operation.RETRANSCODE: 4,
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
        """Somebody does something."""
        rng, life = self.world.rng, self.world.life
        if life is None or not life.running:
            if rng.random() < 0.3:
                self.world.step("operator", "starts the supervisor")
                self.world.start_supervisor()
            return
        acts = (self._drop, self._operate, self._pause_queue, self._steer_worker, self._remote_worker)
        [act] = rng.choices(acts, (20, 20, 1, 2, 4))
        act(life)

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
        life.run(self._settled(life, path))

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
        rows = await life.db.read(folders.listing)
        if not rows:
            values = {
                "path": os.fsencode(self.world.root / "in"),
                "output_root": os.fsencode(self.world.root / "out"),
                "profile": "web",
                "watch": "auto",
                "recursive": 1,
                "patterns": [],
                "autorestart_limit": 0,
                "autorestart_delay_s": 0.0,
                "settle_s": None,
                "priority": 0,
            }
            await life.db.write(lambda db: folders.add(db, values, now=self.world.clock.wall // 1000))
            rows = await life.db.read(folders.listing)
        assert life.intake is not None
        try:
            await life.intake.offer(rows[0], os.fsencode(path))
        except TqError as error:
            self.world.note("user", f"{os.path.basename(path)} was not taken: {error.code}")

    # Jobs

    def _operate(self, life: Life) -> None:
        rng, known = self.world.rng, self.world.audit.known
        if not known:
            return
        [operation] = rng.choices(list(_OPERATIONS), list(_OPERATIONS.values()))
        job = rng.choice(list(known)[-30:]) if rng.random() < 0.97 else 999_999
        self._ask(life, operation, [job])

    def _ask(self, life: Life, operation: Operation, jobs: list[int]) -> None:
        rng = self.world.rng
        self._keys += 1
        body: dict[str, Any] = {"operation": operation, "ids": jobs}
        if rng.random() < 0.5:
            body["idempotency_key"] = f"key {self._keys}"
        if operation is Operation.PRIORITY:
            body["priority"] = rng.randint(-5, 5)
        if operation is Operation.RETRANSCODE and rng.random() < 0.5:
            body["renditions"] = [rng.choice(LADDER)]
        self.world.step("user", f"{operation.value} {jobs}")
        request = ActionRequest(**body)
        for _ in range(1 + (request.idempotency_key is not None and rng.random() < 0.3)):
            life.run(self._apply(life, request, rng.random() * 0.02))

    async def _apply(self, life: Life, request: ActionRequest, after_s: float) -> None:
        await asyncio.sleep(after_s)
        if not life.running:
            return
        answer = await life.studio.actions.apply(request)
        if request.idempotency_key is None:
            return
        first = self._answers.setdefault(request.idempotency_key, answer)
        if first != answer:
            self.world.mistake(f"one request was answered with {first}, then with {answer}")

    # The whole

    def _pause_queue(self, life: Life) -> None:
        self._gate_shut = not self._gate_shut
        self.world.step("user", "pauses the queue" if self._gate_shut else "resumes the queue")
        life.run(self._set_gate(life, shut=self._gate_shut))
        if self._gate_shut:
            self.world.loop.call_later(self.world.rng.uniform(1, 20), self._resume_queue)

    def _resume_queue(self) -> None:
        life = self.world.life
        if self._gate_shut and life is not None and life.running:
            self._pause_queue(life)

    async def _set_gate(self, life: Life, *, shut: bool) -> None:
        if shut:
            await queue.pause(life.studio, QueuePause())
        else:
            await queue.resume(life.studio)

    def _steer_worker(self, life: Life) -> None:
        rng = self.world.rng
        name = rng.choice(["cpu-0", "cpu-1", "cpu-2", "cpu-3", "far-0", "far-1", "far-2"])
        verb = rng.choice(["enable", "enable", "enable", "disable", "drain"])
        self.world.step("operator", f"{verb} {name}")
        life.run(self._steer(life, name, verb))

    async def _steer(self, life: Life, name: str, verb: str) -> None:
        try:
            await worker_api.intent(life.studio, name, verb)
        except TqError as error:
            self.world.note("operator", f"{verb} {name}: {error.code}")

    def _remote_worker(self, life: Life) -> None:
        """Start a worker that the supervisor does not spawn; a GPU one among them."""
        number = self.world.rng.randrange(3)
        name = f"far-{number}"
        if any(p.name == name and p.alive for p in self.world.processes):
            return
        self.world.step("operator", f"starts {name}")
        life.run(self._start_remote(life, name, "gpu" if number == 1 else "cpu"))

    async def _start_remote(self, life: Life, name: str, kind: str) -> None:
        issued: Any = await worker_api.new_worker(life.studio, NewWorker(name=name, kind=kind))
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
        life.run(self._set_gate(life, shut=False))
        for name in ("cpu-0", "cpu-1", "cpu-2", "cpu-3"):
            life.run(self._steer(life, name, "enable"))
        known = self.world.audit.known
        paused = [job for job in sorted(self.world.audit.open) if known[job]["status"] == "paused"]
        if paused:
            self._ask(life, Operation.RESUME, paused)

    def retry(self, jobs: list[int]) -> None:
        if (life := self.world.life) is not None and life.running:
            self._ask(life, Operation.RETRY, jobs)

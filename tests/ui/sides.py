"""The fake and a real supervisor behind one interface, with what a worker does in them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engine.ladders import Bench
from harness import LiveSupervisor
from tqstudio import paths
from tqstudio.errors import TqError
from tqstudio.protocol import calls
from tqstudio.protocol.calls import ApiClient, Call, StreamEvent
from tqstudio.protocol.client import AsyncClient

from .answer_schema import check_answer, check_message
from .fake_supervisor import FakeSupervisor
from .samples import error, worker

PLAYER = "player"
"""The worker that the test plays."""
FIRST = 1000
"""The priority of jobs that are to be claimed next."""
BROKEN = error("SOURCE_TRUNCATED", "it ends too early", "copy the file again")
UNTIMED = {"work_removed", "warning"}
"""Events that a real supervisor adds when it comes to them."""


def differences(fake: Any, real: Any, where: str = "") -> list[str]:
    """What differs in two results, each with its place in them."""
    if isinstance(fake, dict) and isinstance(real, dict) and fake.keys() == real.keys():
        return [line for key in real for line in differences(fake[key], real[key], f"{where}.{key}")]
    if isinstance(fake, list | tuple) and isinstance(real, list | tuple) and len(fake) == len(real):
        pairs = enumerate(zip(fake, real, strict=True))
        return [line for at, (mine, its) in pairs for line in differences(mine, its, f"{where}[{at}]")]
    return [] if fake == real else [f"{where}: {fake!r} instead of {real!r}"]


class Side:
    """A supervisor whose own worker is off."""

    def __init__(self, api: ApiClient) -> None:
        self.api = api
        self.jobs: dict[int, str] = {}
        """The jobs of this test: their names."""
        self.running: dict[int, str] = {}
        """The workers of jobs that run."""

    def path(self, name: str) -> str:
        """The path of a file with this name, encoded."""
        raise NotImplementedError

    def nowhere(self, name: str) -> str:
        """The path of no file, encoded."""
        raise NotImplementedError

    def folder(self, name: str) -> str:
        """The path of an empty folder, encoded."""
        raise NotImplementedError

    def claim(self, job: int) -> None:
        """A worker starts the job: the player, or another while that has one."""
        names = (PLAYER, *(f"{PLAYER}-{number}" for number in range(99)))
        name = next(name for name in names if name not in self.running.values())
        self.running[job] = name
        self._claim(job, name)

    def obey(self, job: int) -> None:
        """The worker carries out the control request of its job."""
        self._obey(job)
        del self.running[job]

    def finish(self, job: int, failure: Any = None) -> None:
        """The worker ends its job: done, or failed for good."""
        self._finish(job, failure)
        del self.running[job]

    def _claim(self, job: int, worker: str) -> None:
        raise NotImplementedError

    def _obey(self, job: int) -> None:
        raise NotImplementedError

    def _finish(self, job: int, failure: Any) -> None:
        raise NotImplementedError

    async def send(self, call: Call[Any]) -> Any:
        answer = await self.api.send(call)
        check_answer(call, answer)
        return answer

    async def refusal(self, call: Call[Any]) -> str:
        """The code with which a call is refused."""
        try:
            return f"not refused: {await self.send(call)}"
        except TqError as refused:
            return str(refused.code.value)

    async def add(self, name: str, **more: Any) -> int:
        [result] = (await self.send(calls.add([self.path(name)], **more)))["results"]
        assert result["decision"] == "queued", result
        self.jobs[result["job"]] = name
        return int(result["job"])

    async def act(self, operation: str, *jobs: int, **more: Any) -> list[Any]:
        results: list[Any] = (await self.send(calls.act(operation, jobs, **more)))["results"]
        return results

    async def make(self, state: str, name: str = "clip.mp4") -> int:
        """A job in this state."""
        if state in ("pending", "paused", "held", "cancelled", "deleted"):
            job = await self.add(name, hold=state == "held")
            operation = {"paused": "pause", "cancelled": "cancel", "deleted": "delete"}.get(state)
        else:
            job = await self.add(name, priority=FIRST)
            self.claim(job)
            operation = {"pausing": "pause", "cancelling": "cancel", "restarting": "restart"}.get(state)
            if state in ("failed", "done"):
                self.finish(job, BROKEN if state == "failed" else None)
        if operation is not None:
            [result] = await self.act(operation, job)
            assert result["ok"], result
        return job

    def named(self, rows: Iterable[Any]) -> list[str]:
        """The names of the jobs that are of this test."""
        return [self.jobs[row["id"]] for row in rows if row["id"] in self.jobs]

    async def state_of(self, job: int) -> dict[str, Any]:
        """What screens show of a job, apart from times and qualities."""
        row = await self.send(calls.job(job))
        keys = ("name", "kind", "status", "word", "control", "claim", "priority", "attempts", "crashes")
        keys += ("max_attempts", "progress", "worker", "step", "profile", "retry_in_s", "speed")
        happened = ("deleted_at", "completed_at", "started_at", "claimed_at")
        return (
            {key: row[key] for key in keys}
            | {key: row[key] is not None for key in happened}
            | {"error": row["error"] and row["error"]["code"], "attempted": bool(row["attempts_log"])}
        )

    async def last_seq(self) -> int:
        return int((await self.send(calls.events(limit=1)))["last_seq"])

    async def events(self, after: int) -> list[tuple[Any, ...]]:
        page = await self.send(calls.events(after=after, limit=1000))
        return [
            self.comparable(each)
            for each in page["events"]
            if each["trigger"] not in UNTIMED and not each["trigger"].startswith("worker_reg")
        ]

    def comparable(self, each: Any) -> tuple[Any, ...]:
        """An event, with the name of its job."""
        keys = ("trigger", "source", "target", "actor", "worker", "code")
        return (each["job"] and self.jobs.get(each["job"], "another"), *(each[key] for key in keys))

    async def stored(self, after: int, until: str) -> list[tuple[Any, ...]]:
        """The stored events of the stream after one, up to a kind."""
        found: list[tuple[Any, ...]] = []
        stream = self.api.stream(after)
        async for message in stream:
            check_message(message)
            if message.name == "event":
                found.append(self.comparable(message.data))
                if message.data["trigger"] == until:
                    break
        await stream.aclose()  # type: ignore[attr-defined]
        return found

    async def first(self, after: int) -> StreamEvent:
        """The first message of the stream after an event."""
        stream = self.api.stream(after)
        message = await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        return message


class Fake(Side):
    def __init__(self) -> None:
        self.supervisor = FakeSupervisor([])
        self.supervisor.workers = [worker(PLAYER)]
        self.supervisor.folders = []
        super().__init__(self.supervisor)

    def path(self, name: str) -> str:
        return paths.encode(f"/srv/{name}")

    folder = path

    def nowhere(self, name: str) -> str:
        return paths.encode(f"/nowhere/{name}")

    def _claim(self, job: int, worker: str) -> None:
        self.supervisor.claim(job, worker)

    def _obey(self, job: int) -> None:
        self.supervisor.obey(job)

    def _finish(self, job: int, failure: Any) -> None:
        self.supervisor.finish(job, failure)


class Real(Side):
    def __init__(self, live: LiveSupervisor, folder: Path) -> None:
        super().__init__(AsyncClient(live.home.socket))
        self._live, self._folder = live, folder
        self._workers = {PLAYER: live.worker(PLAYER).register()}
        self._claimed: dict[int, Any] = {}

    def path(self, name: str) -> str:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"some video {path}".encode())
        return paths.encode(path)

    def nowhere(self, name: str) -> str:
        return paths.encode(self._folder / "nowhere" / name)

    def folder(self, name: str) -> str:
        path = self._folder / name
        path.mkdir(exist_ok=True)
        return paths.encode(path)

    def _claim(self, job: int, worker: str) -> None:
        if worker not in self._workers:
            self._workers[worker] = self._live.worker(worker).register()
        claimed = self._workers[worker].claim()
        assert claimed["job"] == job
        self._claimed[job] = claimed
        self._report(job)

    def _send(self, job: int, verb: str, **body: Any) -> Any:
        worker, epoch = self._workers[self.running[job]], self._claimed[job]["epoch"]
        return worker.send(f"jobs/{job}/{verb}", epoch=epoch, **body)

    def _report(self, job: int) -> Any:
        return self._send(job, "progress", step="transcode", progress=0.0)

    def _obey(self, job: int) -> None:
        control = self._report(job)["control"]
        self._send(job, "release", reason=control if control != "none" else "shutdown")

    def _finish(self, job: int, failure: Any) -> None:
        claimed = self._claimed[job]
        if failure is not None:
            self._send(job, "fail", code=failure["code"], text=failure["message"], hint=failure["hint"])
            return
        bench = Bench(Path(paths.decode(claimed["work_dir"]["path_b64"]).decode()), claimed["video"])
        bench.rendition("360p", f"of-{job}")
        self._send(job, "complete", manifest=bench.manifest().model_dump(), steps={})

    async def clear(self) -> None:
        """End and delete every job."""
        while rows := (await self.send(calls.jobs(limit=500)))["jobs"]:
            for row in rows:
                await self.act("cancel", row["id"])
                if row["status"] == "in_progress":
                    self.obey(row["id"])
            await self.act("delete", *(row["id"] for row in rows))
        for folder in (await self.send(calls.folders()))["folders"]:
            await self.send(calls.remove_folder(folder["id"]))
        await self.api.close()

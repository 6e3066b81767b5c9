"""A worker's process as the supervisor sees it: it registers, claims, sends heartbeats, reports and ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from blake3 import blake3

import tiny_media
from tqstudio import paths
from tqstudio.engine.media.plan.file_names import INIT_NAME, segment_name
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import Step

from .timekeeping import NS

if TYPE_CHECKING:
    from .world import Nature, World

_LOST = (ErrorCode.LOST_LEASE, ErrorCode.NOT_FOUND)
VIDEO = ("720p", "360p")
LADDER = (*VIDEO, "audio-en")
SEGMENTS = 4
"""Of each video quality."""
SEGMENT_S = 6.0


@dataclass
class Held:
    """A job in this process's hands, as it knows."""

    job: int
    epoch: int
    video: int
    description: Any
    until: float
    control: str = "none"
    lost: bool = False
    step: str = Step.PROBE.value
    steps: dict[str, float] = field(default_factory=dict)
    made: int = 0
    """Finished segments of each video quality."""
    resumed_at_s: float | None = None
    """Where in the media it resumes; None before it knows."""


class Process:
    """One process of one worker.

    Args:
        token: identifies it to the supervisor.
        local: whether it is a child of the supervisor and dies with it.
    """

    def __init__(self, world: World, name: str, kind: str, token: str, *, local: bool) -> None:
        self.world, self.name, self.kind, self.token, self.local = world, name, kind, token, local
        self.pid = world.next_pid()
        self.instance = f"{name}#{self.pid:06d}"
        self.held: Held | None = None
        self._temper = world.faults.temper
        self.watches_clock = world.rng.random() < self._temper.watches_clock
        self.believes = world.rng.random() < self._temper.believes
        self.stopping = False
        self.partitioned = False
        self.alive = True
        self.on_exit: Any = lambda _status: None
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._tasks = [world.loop.create_task(self._main())]

    @property
    def frozen(self) -> bool:
        return not self._thawed.is_set()

    def freeze(self) -> None:
        """It stops in the middle of whatever it does, as by SIGSTOP or a hung mount, and does not know it."""
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()

    def stop(self) -> None:
        """SIGTERM: it ends soon."""
        self.stopping = True

    def kill(self, status: int = -9) -> None:
        """It is gone, whatever it was doing; what it has sent is under way."""
        if not self.alive:
            return
        self.alive = False
        self.world.note(self.name, f"{self.instance} ends with {status}")
        for task in self._tasks:
            task.cancel()
        self.on_exit(status)

    # Life

    async def _main(self) -> None:
        status = 1
        if await self._register():
            self._tasks.append(self.world.loop.create_task(self._pulse()))
            while not self.stopping and (job := await self._claim()) is not False:
                if job is not None:
                    await self._work(job)
            status = 0 if self.stopping else 1
        self._tasks.pop(0)
        self.kill(status)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._thawed.wait()

    async def _send(self, verb: str, body: dict[str, Any], *, job: int = 0, timeout_s: float = 15.0) -> Any:
        await self._thawed.wait()
        body = {"instance": self.instance, **body}
        try:
            return await self.world.network.send(self, verb, body, job=job, timeout_s=timeout_s)
        finally:
            if self.alive:
                await self._thawed.wait()

    async def _register(self) -> bool:
        body = {"pid": self.pid, "pid_started": 1.0, "encoder": "libx264"}
        while not self.stopping:
            await self._sleep(self.world.rng.uniform(0.1, 2))
            try:
                await self._send("register", body)
                return True
            except TqError as error:
                if error.code is not ErrorCode.NO_SUPERVISOR:
                    return False
        return False

    async def _claim(self) -> Any:
        """A job; None for none; False when the supervisor does not know this process any more."""
        asked_at = self._now()
        wait_s = self.world.settings.long_poll_s
        try:
            answer = await self._send("claim", {"wait_s": wait_s}, timeout_s=wait_s + 10)
        except TqError as error:
            if error.code is not ErrorCode.NO_SUPERVISOR:
                return False
            await self._sleep(self.world.rng.uniform(0.2, 3))
            return None
        if answer["test"]:
            await self._test()
            return None
        if answer["job"] is None:
            await self._sleep(0.5)
            return None
        self.world.note(self.name, f"got job {answer['job']['job']} epoch {answer['job']['epoch']}")
        job = answer["job"]
        # A worker begins with its work folder: without it a disk that is not mounted is all that is left.
        os.makedirs(os.fsdecode(paths.decode(job["work_dir"]["path_b64"])), exist_ok=True)
        return Held(job["job"], job["epoch"], job["video"], job, asked_at + job["lease_s"])

    async def _test(self) -> None:
        """Report a test encode; a machine in trouble may fail it."""
        await self._sleep(self.world.rng.uniform(0.1, 1))
        problem = "libx264 made no frame" if self.world.rng.random() < 0.3 * self.world.trouble else ""
        with contextlib.suppress(TqError):
            await self._send("tested", {"problem": problem})

    def _now(self) -> float:
        return self.world.clock.boot / NS

    # Beside the work

    async def _pulse(self) -> None:
        while True:
            await self._sleep(self.world.settings.heartbeat_s * self.world.rng.uniform(0.8, 1.0))
            held, sent_at = self.held, self._now()
            jobs = [] if held is None else [{"job": held.job, "epoch": held.epoch}]
            try:
                answer = await self._send("heartbeat", {"jobs": jobs})
            except TqError as error:
                if error.code is ErrorCode.UNAUTHORIZED:
                    self.stopping = True
                    if self.held is not None:
                        self.held.lost = True
                continue
            if held is None:
                continue
            if held.job in answer["lost"]:
                held.lost = True
                continue
            held.until = max(held.until, sent_at + self.world.settings.lease_s)
            held.control = answer["controls"].get(str(held.job), held.control)

    async def _report(self, held: Held, progress: float) -> bool:
        """Whether it was heard."""
        mark = f"{self.instance}/{held.epoch}"
        done = {"segments_done": held.made, "segments_total": SEGMENTS}
        rendition = {"name": "720p", "status": "in_progress", "encoder": mark, "progress": progress, **done}
        body = {
            "epoch": held.epoch,
            "step": held.step,
            "progress": progress,
            "steps": dict(held.steps),
            "encoder": mark,
            "resumed_at_s": held.resumed_at_s,
            "renditions": [rendition, {"name": "360p", "status": "pending", "encoder": mark, **done}],
        }
        try:
            held.control = (await self._send("progress", body, job=held.job))["control"]
        except TqError as error:
            held.lost |= error.code in _LOST
            return False
        return True

    # The work

    async def _work(self, held: Held) -> None:
        self.held = held
        try:
            verb, body = await self._outcome(held)
            if verb is not None:
                await self._report_end(held, verb, {"epoch": held.epoch, "steps": held.steps, **body})
        finally:
            self.held = None

    def _ended(self, held: Held) -> str | None:
        """Why the work must stop now."""
        if (held.lost and self.believes) or (self._now() >= held.until and self.watches_clock):
            return "lost"
        if held.control != "none":
            return held.control
        return "shutdown" if self.stopping else None

    async def _outcome(self, held: Held) -> tuple[str | None, dict[str, Any]]:
        nature = self.world.nature_of(held.description)
        for number, step in enumerate(Step):
            held.step = step.value
            if step is Step.TRANSCODE:
                await self._transcode(held, nature)
            else:
                await self._sleep(self.world.rng.uniform(0.05, 4))
            match self._ended(held):
                case "lost":
                    self.world.note(self.name, f"drops job {held.job}")
                    return None, {}
                case None:
                    pass
                case reason:
                    return "release", {"reason": reason}
            held.steps[step.value] = float(number)
            if self.world.rng.random() < nature.crash / len(Step):
                self.kill()
                await asyncio.sleep(0)
            if self.world.rng.random() < nature.failure / len(Step):
                text = f"it does not work, for the reason {self.world.rng.randrange(4)}"
                return "fail", {"code": self.world.rng.choice(nature.codes), "text": text}
            if step is Step.TRANSCODE and self.world.disks.output_free == 0:
                return "fail", {"code": ErrorCode.DISK_LOW.value, "text": "the disk is full"}
            if self.world.rng.random() < 0.7:
                await self._report(held, 20.0 * (number + 1))
        return "complete", {"manifest": self._make(held)}

    async def _transcode(self, held: Held, nature: Nature) -> None:
        """Resume with the segments where an earlier attempt ended."""
        missing_of = self._missing(held)
        for number in range(SEGMENTS):
            missing = missing_of(number)
            if missing:
                if held.resumed_at_s is None:
                    held.resumed_at_s = SEGMENT_S * number
                await self._sleep(self.world.rng.uniform(0.02, 8 * self._temper.slowness / SEGMENTS))
                if self._ended(held) or self.world.disks.output_free == 0:
                    return
                for file in missing:
                    self._write(file)
            held.made = number + 1
            reports = nature.wears or self.world.rng.random() < 0.2
            if reports and await self._report(held, 20.0 + held.made) and nature.wears and missing:
                self.kill()
                await asyncio.sleep(0)

    def _missing(self, held: Held) -> Callable[[int], list[str]]:
        """Of a segment's number the files that are missing, of all video qualities that are to be made."""
        folders = [self._folder(held, name) for name in VIDEO if name not in held.description["kept"]]

        def missing(number: int) -> list[str]:
            files = [f"{folder}/{segment_name(number)}" for folder in folders]
            return [file for file in files if not os.path.exists(file)]

        return missing

    def _folder(self, held: Held, name: str) -> str:
        work_dir = os.fsdecode(paths.decode(held.description["work_dir"]["path_b64"]))
        return f"{work_dir}/segments/{held.video}/{name}/{self._key(held)}"

    def _write(self, file: str) -> None:
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "wb") as made:
            made.write(_content(*file.split("/")[-3::2]))

    def _make(self, held: Held) -> dict[str, Any]:
        """Write the segments that are missing, and say what there is."""
        kept = held.description["kept"]
        made = [self._rendition(held, name) for name in LADDER if name not in kept]
        return {"renditions": made, "keep": sorted(kept), "settings_hash": self._key(held)}

    def _key(self, held: Held) -> str:
        """Equal keys mean equal content."""
        return f"{held.description['content_id']}-{held.description['source_mtime_ns']}"

    def _rendition(self, held: Held, name: str) -> dict[str, Any]:
        folder, audio = self._folder(held, name), name not in VIDEO
        names = [segment_name(number) for number in range(1 if audio else SEGMENTS)]
        for file in (f"{folder}/{each}" for each in (INIT_NAME, *names)):
            if not os.path.exists(file):
                self._write(file)
        return {
            "name": name,
            "kind": "audio" if audio else "video",
            "folder": "/".join(folder.rsplit("/", 4)[1:]),
            "segments": [
                {
                    "name": each,
                    "size": len(_content(name, each)),
                    "duration_s": SEGMENT_S,
                    "blake3": _digest(name, each),
                }
                for each in names
            ],
            "init_size": len(_content(name, INIT_NAME)),
            "codecs": tiny_media.AUDIO_CODEC if audio else tiny_media.VIDEO_CODEC,
            "width": None if audio else 640,
            "height": None if audio else 360,
            "frame_rate": None if audio else 25.0,
            "duration_s": SEGMENT_S * len(names),
            "average_bps": 1000,
            "peak_bps": 1000,
            "settings_hash": self._key(held),
            "stream_key": self._key(held),
        }

    async def _report_end(self, held: Held, verb: str, body: dict[str, Any]) -> None:
        """Report the end until it is heard, or no supervisor is there to hear it."""
        while True:
            try:
                answer = await self._send(
                    verb, body, job=held.job, timeout_s=60 if verb == "complete" else 15
                )
                self.world.note(self.name, f"{verb} of job {held.job} epoch {held.epoch}: {answer['status']}")
                return
            except TqError as error:
                if error.code is ErrorCode.UNAUTHORIZED:
                    self.stopping = True
                    return
                if error.code in _LOST:
                    self.world.note(self.name, f"{verb} of job {held.job} epoch {held.epoch}: {error.code}")
                    return
                if error.code is not ErrorCode.NO_SUPERVISOR:
                    if verb != "complete":
                        return
                    verb = "fail"
                    body = {key: body[key] for key in ("epoch", "steps")}
                    body |= {"code": error.code.value, "text": error.message[:200]}
                    continue
            if self.stopping or self._ended(held) == "lost" or not self.world.trouble:
                return
            await self._sleep(self.world.rng.uniform(0.2, 3))


@cache
def _content(rendition: str, file: str) -> bytes:
    """What a worker writes to a file of a rendition."""
    if file == INIT_NAME:
        return tiny_media.init(audio=rendition not in VIDEO)
    number = next(number for number in range(SEGMENTS) if segment_name(number) == file)
    return tiny_media.segment(number, b"six seconds of something", seconds=SEGMENT_S)


@cache
def _digest(rendition: str, file: str) -> str:
    return blake3(_content(rendition, file)).hexdigest()

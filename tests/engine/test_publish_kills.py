"""The supervisor dies by SIGKILL between any two steps of a publish; a player watches all the while.

The test plays the worker, so that nothing is encoded; supervisors, their database and the files are real.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

import m3u8
import pytest

from harness import MakeSupervisor
from tqstudio import paths
from tqstudio.engine.host.failpoints import VARIABLE
from tqstudio.engine.media.plan.file_names import INIT_NAME, segment_name
from tqstudio.protocol import calls
from waiting import WAIT_S, until

from .test_api import report
from .test_completion import bench_of, complete

UNDONE = ("publish.intended", "publish.building", "publish.built")
"""A kill here leaves a publish that is undone; the job is requeued."""
FINISHED = (
    # First, because a supervisor that finishes a publish passes it too.
    "publish.mpd_replaced",
    "publish.renamed",
    "publish.master_written",
    "publish.pointed",
    "publish.set_aside",
    "publish.recording",
    "publish.recorded",
)
"""A kill here leaves one that is finished."""
NAMES = ("720p", "360p", "audio-en")
FIRST = ("360p", "audio-en")
"""What is published before the rest."""


class Player:
    """Plays the beginning and the end of every quality that the master names, again and again."""

    def __init__(self, master: Path, *, plays: bool, sizes: tuple[int, ...] = (len(NAMES),)) -> None:
        self.master = master
        self.rounds = 0
        self.seen: list[int] = []
        """Numbers of the generations, each when it was first seen."""
        self.described = 0
        """Number of the generation that the MPD named last."""
        self.trouble: str | None = None
        self.sizes = sizes
        """How many renditions there may be at a time."""
        self._plays = plays
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.01):
            try:
                self._play()
            except Exception as error:
                self.trouble = f"{type(error).__name__}: {error}"
                return
            self.rounds += 1

    def _play(self) -> None:
        if not self._plays and not self.master.exists():
            return
        self._plays = True
        master = m3u8.loads(self.master.read_text())
        uris = [entry.uri for entry in (*master.playlists, *master.media)]
        [number] = {int(uri.partition("/")[0][1:]) for uri in uris}
        assert len(uris) in self.sizes, uris
        for uri in uris:
            index = self.master.parent / uri
            playlist = m3u8.loads(index.read_text())
            ends = (playlist.segment_map[0], playlist.segments[0], playlist.segments[-1])
            assert all((index.parent / end.uri).stat().st_size for end in ends)
        if number not in self.seen:
            self.seen.append(number)
        mpd = self.master.with_name("manifest.mpd")
        if mpd.exists():
            text = mpd.read_text()
            [base] = re.findall("<BaseURL>(v[0-9]+)/</BaseURL>", text)
            self.described = int(base[1:])
            for name in re.findall('<Representation id="([^"]+)"', text):
                folder = self.master.parent / base / name
                assert (folder / INIT_NAME).stat().st_size
                assert (folder / segment_name(2)).stat().st_size

    def end(self) -> None:
        """Look twice more, and stop."""
        rounds = self.rounds
        until(lambda: self.rounds > rounds + 1 or self.trouble, "the player has looked")
        self._stop.set()
        self._thread.join()
        assert self.trouble is None, self.trouble
        assert self.seen == sorted(self.seen), "players never go back to what was replaced"


@dataclass
class Work:
    """A job whose publish is killed."""

    job: int
    video: int
    published: int = 0
    """Generations of the video that were published before."""


class House:
    """One home through many lives of its supervisor."""

    def __init__(self, root: Path, make: MakeSupervisor, *, dash: bool) -> None:
        self.root, self._make, self.dash = root, make, dash
        self._files = itertools.count(1)

    def start(self, point: str = "") -> None:
        """The next life, which ends at a fail point if one is named."""
        self.live = self._make(self.root, **{VARIABLE: point}).start()
        # Its own worker would take the jobs.
        self.live.send(calls.worker_action("cpu-0", "disable"))

    def dies(self) -> None:
        assert self.live.process.wait(WAIT_S) == -signal.SIGKILL

    def dies_at_start(self, point: str) -> None:
        self.live = self._make(self.root, **{VARIABLE: point})
        self.live.launch()
        self.dies()

    def first(self) -> Work:
        """A file that is new."""
        path = self.root / f"clip-{next(self._files)}.mp4"
        path.write_bytes(path.name.encode())
        [result] = self.live.send(calls.add([paths.encode(path)]))["results"]
        return Work(result["job"], result["video"])

    def again(self, before: Work) -> Work:
        """A retranscode of one quality of a ladder that plays."""
        call = calls.act("retranscode", [before.job], renditions=["360p"])
        [result] = self.live.send(call)["results"]
        assert result["error"] is None
        return Work(result["new_job"], before.video, before.published + 1)

    def hand_in(self, work: Work, *, iframes: bool = False) -> None:
        """Do the waiting job and report its end; no supervisor may live to answer that."""
        worker = self.live.worker("by-hand").register()
        job = worker.claim()
        assert job["job"] == work.job
        bench = bench_of(job)
        kept = sorted(set(NAMES) - {"360p"}) if work.published else []
        assert sorted(job["kept"]) == kept
        for name in set(NAMES) - set(kept):
            bench.rendition(name, f"{name}-of-{job['job']}", iframes=iframes)
        self.player = Player(self._folder(work.video) / "master.m3u8", plays=bool(work.published))
        with contextlib.suppress(OSError, HTTPException):
            complete(worker, job, bench, keep=kept, dash=self.dash)

    def report_first(self, work: Work) -> None:
        """Do a part of the waiting job, and report it; no supervisor may live to answer that."""
        worker = self.live.worker("by-hand").register()
        job = worker.claim()
        assert (job["job"], job["first"]) == (work.job, True)
        bench = bench_of(job)
        for name in FIRST:
            bench.rendition(name, f"{name}-of-{job['job']}")
        sizes = len(FIRST), len(NAMES)
        self.player = Player(self._folder(work.video) / "master.m3u8", plays=False, sizes=sizes)
        manifest = bench.manifest(dash=self.dash, first=True).model_dump()
        with contextlib.suppress(OSError, HTTPException):
            report(worker, job, 10.0, first=manifest)

    def check_first(self, work: Work, *, published: bool) -> bool:
        """What must be so when the next supervisor has started; returns whether the first quality plays."""
        row = self.live.send(calls.job(work.job))
        assert (row["word"], row["attempts"], row["crashes"]) == ("pending", 0, 0)
        self._check_files(work.video, int(published))
        assert row["viewable"] == ("360p" if published else None)
        triggers = [
            each["trigger"] for each in self.live.send(calls.events(job_id=work.job, after=0))["events"]
        ]
        assert triggers.count("viewable") == triggers.count("published") == published
        assert "complete" not in triggers
        assert not self.store_is_empty(work), "the segments are those of a job that has not ended"
        return published

    def hand_in_rest(self, work: Work, kept: Sequence[str]) -> None:
        """Do the job to its end."""
        worker = self.live.worker("by-hand").register()
        job = worker.claim()
        assert (job["job"], job["first"], sorted(job["kept"])) == (work.job, not kept, sorted(kept))
        bench = bench_of(job)
        for name in set(NAMES) - set(kept):
            bench.rendition(name, f"{name}-of-{job['job']}")
        assert complete(worker, job, bench, keep=sorted(kept), dash=self.dash)[1]["status"] == "done"
        row = self.live.send(calls.job(work.job))
        assert (row["status"], row["viewable"]) == ("done", None)
        self._check_files(work.video, 1 + bool(kept))
        self.player.end()
        assert self.store_is_empty(work)

    def _folder(self, video: int) -> Path:
        return self.live.home.output / str(self.live.send(calls.video(video))["slug"])

    def store_is_empty(self, work: Work) -> bool:
        return not list(self.live.home.output.glob(f".tqstudio/*/segments/{work.video}"))

    def check(self, work: Work, *, done: bool) -> None:
        """What must be so whenever a supervisor has started; the player has played through it all."""
        row = self.live.send(calls.job(work.job))
        events = self.live.send(calls.events(job_id=work.job, after=0, limit=500))["events"]
        assert row["word"] == ("done" if done else "pending")
        assert (row["attempts"], row["crashes"], row["error"]) == (0, 0, None), "it was no one's fault"
        assert [event["trigger"] for event in events].count("complete") == done
        self._check_files(work.video, work.published + done)
        assert self.store_is_empty(work) is done, "segments wait for the next attempt, and for nothing else"
        output = self.live.home.output
        until(lambda: not list(output.glob(".tqstudio/*/trash/*")), "the trash is emptied")
        self.player.end()
        assert self.player.seen == sorted({work.published, work.published + done} - {0})
        assert self.player.described == (work.published + done if self.dash else 0)

    def _check_files(self, video: int, current: int) -> None:
        generation = self.live.send(calls.video(video))["generation"]
        assert (generation["number"] if generation else 0) == current
        folder = self._folder(video)
        top = {"master.m3u8", "manifest.mpd"} if self.dash else {"master.m3u8"}
        named = {*top, *(f"v{number}" for number in range(1, current + 1))} if current else set()
        assert {entry.name for entry in folder.iterdir()} == {".owner"} | named
        if current:
            assert f"v{current}/" in (folder / "master.m3u8").read_text()


def house_of(*, dash: bool) -> pytest.MarkDecorator:
    """Which ladder a test publishes, and which one only before a release."""
    params = [
        pytest.param(each, id="dash" if each else "hls", marks=() if each is dash else pytest.mark.more)
        for each in (False, True)
    ]
    return pytest.mark.parametrize("house", params, indirect=True)


@pytest.fixture
def house(tmp_path: Path, make_supervisor: MakeSupervisor, request: pytest.FixtureRequest) -> House:
    return House(tmp_path / "home", make_supervisor, dash=request.param)


def kill_at_each(house: House, begin: Callable[[Work | None], Work], work: Work | None) -> None:
    """Publish and be killed at each point; every life finishes or undoes what the one before it left."""
    done = True
    for point in UNDONE + FINISHED:
        house.start(point)
        if point is not UNDONE[0]:
            house.check(work, done=done)
        if done:
            work = begin(work)
        house.hand_in(work)
        house.dies()
        done = point in FINISHED
        # A next job of the video fills the store: it must be empty before this one is done for it to see.
        assert house.store_is_empty(work) is (point in FINISHED[4:]), point
    house.start()
    house.check(work, done=True)


@pytest.mark.fault(
    "The supervisor is killed at any step of a first publish",
    "Before the generation has its name: rolled back, nothing is encoded again; after it: finished",
    area="publishing",
)
@pytest.mark.slow
@house_of(dash=False)
def test_a_first_ladder(house: House) -> None:
    kill_at_each(house, lambda _: house.first(), None)


@pytest.mark.slow
@pytest.mark.fault(
    "It fails while a ladder is published, finished or rolled back",
    "The old ladder plays, or the new one",
    area="power cuts",
)
@pytest.mark.fault(
    "The supervisor is killed at any step of replacing a ladder",
    "Players see the old ladder, then the new one; the next supervisor finishes or rolls back",
    area="publishing",
)
@house_of(dash=True)
def test_a_ladder_that_plays(house: House) -> None:
    house.start()
    work = house.first()
    house.hand_in(work)
    house.check(work, done=True)
    house.live.stop()
    kill_at_each(house, house.again, work)


@pytest.mark.slow
@house_of(dash=False)
def test_a_ladder_that_violates_a_rule_is_rolled_back(house: House) -> None:
    house.start("publish.renamed")
    work = house.first()
    # With I-frames it has to keep the rules, and its bit rates are made up.
    house.hand_in(work, iframes=True)
    house.dies()
    house.start()
    house.check(work, done=False)


@pytest.mark.slow
@house_of(dash=True)
def test_a_damaged_generation_is_rolled_back_with_its_mpd(house: House) -> None:
    house.start()
    work = house.first()
    house.hand_in(work)
    house.check(work, done=True)
    house.live.stop()
    house.start("publish.mpd_replaced")
    work = house.again(work)
    house.hand_in(work)
    house.dies()
    house.player.end()
    torn = house.player.master.parent / "v2/360p" / segment_name(2)
    torn.write_bytes(torn.read_bytes()[:-1])
    house.start()
    row = house.live.send(calls.job(work.job))
    assert (row["word"], row["error"]) == ("pending", None)
    player = Player(house.player.master, plays=True)
    player.end()
    assert (player.seen, player.described) == ([1], 1 if house.dash else 0)


@pytest.mark.fault(
    "The supervisor is killed at any step of publishing a first quality",
    "It plays, or nothing does; its job is requeued and publishes the whole",
    area="publishing",
)
@pytest.mark.slow
@house_of(dash=True)
def test_a_first_quality(house: House) -> None:
    for point in UNDONE + FINISHED:
        house.start(point)
        work = house.first()
        house.report_first(work)
        house.dies()
        house.start()
        plays = house.check_first(work, published=point in FINISHED)
        house.hand_in_rest(work, kept=FIRST if plays else ())
        house.live.stop()


@pytest.mark.fault(
    "It is killed again while it finishes or rolls back", "The next one continues", area="publishing"
)
@pytest.mark.slow
@house_of(dash=False)
def test_killed_again_while_it_recovers(house: House) -> None:
    house.start("publish.built")
    work = house.first()
    house.hand_in(work)
    house.dies()
    for point in ("settle.begun", "settle.undone"):
        house.dies_at_start(point)
    house.start("publish.renamed")
    house.check(work, done=False)
    house.hand_in(work)
    house.dies()
    for point in (
        "settle.begun",
        "settle.pointed",
        "settle.set_aside",
        "settle.recording",
        "settle.recorded",
    ):
        house.dies_at_start(point)
    house.start()
    house.check(work, done=True)


@pytest.mark.slow
@pytest.mark.fault(
    "A database saved during a publish is restored", "Later ladders keep playing", area="publishing"
)
@house_of(dash=False)
def test_what_was_published_later_is_left_alone(house: House) -> None:
    """A database was restored that was saved in the middle of a publish; its ladders continued without it."""
    house.start("publish.renamed")
    work = house.first()
    house.hand_in(work)
    house.dies()
    house.player.end()
    folder = house.player.master.parent
    shutil.copytree(folder / "v1", folder / "v7")
    house.player.master.write_text("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nv7/360p/index.m3u8\n")
    house.start()
    assert house.live.send(calls.job(work.job))["status"] == "pending"
    assert {entry.name for entry in folder.iterdir()} == {".owner", "master.m3u8", "v1", "v7"}
    assert "v7/" in house.player.master.read_text(), "it plays on until there is a newer one"

"""Homes of earlier releases open with this version: nothing is lost, and what was begun is finished."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from blake3 import blake3

from e2e.studio import Studio
from tqstudio.engine.media.ffmpeg.binary import locate
from tqstudio.engine.store.db import schema
from tqstudio.protocol import calls
from waiting import until
from wall_clock import YEAR_S, WallClock

from . import kept_home
from . import next_version as next_version_of

_OF_THE_MOMENT = {
    "eta",
    "eta_s",
    "retry_in_s",
    "idle_s",
    "settling",
    "checking",
    "done_today",
    "failed_today",
}
_OF_THE_PROCESS = {"pid", "status", "job", "step", "speed", "cpu_percent", "memory_bytes", "note", "metadata"}
_OF_THE_PROCESS |= {"registered_at", "last_heartbeat_at", "capabilities"}


class Kept:
    """The home of a release, and what that release has shown of it."""

    def __init__(self, archive: Path, root: Path, **environment: str) -> None:
        self.root = root
        self.shown: Any = kept_home.unpack(archive, root)
        self.studio = Studio(root, locate().path, **kept_home.SETTINGS)
        # Kept homes grow old: what is shown here must hold whenever it is run.
        clock = WallClock(root / "clock")
        clock.set(2 * YEAR_S)
        self.studio.environment |= clock.environment | environment
        self.running, self.published = str(self.shown["running"]), str(self.shown["published"])

    def job(self, source: str) -> int:
        """The newest job of a source."""
        return max(row["id"] for row in self.shown["jobs"].values() if row["name"] == f"{source}.mp4")

    def segments(self, job: int | str) -> dict[str, str]:
        """Digests of the stored segments of a job's video, by quality and name.

        Without sound, whose last segment is joined to the one before if it is short.
        """
        video = self.shown["jobs"][str(job)]["video"]
        found = ((path.parts[-3], path) for path in self.studio.stored_segments(video))
        return {f"{name}/{path.name}": _digest(path) for name, path in found if "audio" not in name}

    def generation(self, job: int) -> dict[str, str]:
        """The same of the ladder that its video plays."""
        generation = self.studio.video_of(job)["generation"]
        folder = Path(generation["master"]).parent / f"v{generation['number']}"
        return {f"{path.parent.name}/{path.name}": _digest(path) for path in folder.glob("*/*.m4s")}


def _digest(path: Path) -> str:
    return blake3(path.read_bytes()).hexdigest()


@pytest.fixture(scope="session")
def next_version(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return next_version_of.make(tmp_path_factory.mktemp("next"))


def _opened(archive: Path, by: str) -> ParameterSet:
    """Opened by this version, and by one that migrates it."""
    marks = [pytest.mark.slow] if by == "next" else []
    return pytest.param((archive, by), id=f"{archive.name.removesuffix('.tar.xz')}-{by}", marks=marks)


@pytest.fixture(params=[_opened(archive, by) for archive in kept_home.ARCHIVES for by in ("this", "next")])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    archive, by = request.param
    environment = request.getfixturevalue("next_version") if by == "next" else {}
    kept = Kept(archive, tmp_path / "kept", **environment)
    yield kept
    kept.studio.down()
    version = next_version_of.NEXT if by == "next" else schema.SCHEMA_VERSION
    assert schema.schema_version(kept.studio.home.database) == version


def _lost(before: Any, now: Any, at: str = "", passing: set[str] = _OF_THE_MOMENT) -> list[str]:
    """What was shown and is not any more; what is shown in addition is no loss."""
    if isinstance(before, dict):
        names = before.keys() - passing
        return [
            each
            for name in sorted(names)
            for each in _lost(before[name], now.get(name, "nothing"), f"{at}.{name}", passing)
        ]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = enumerate(zip(before, now, strict=True))
        return [each for n, (one, other) in pairs for each in _lost(one, other, f"{at}[{n}]", passing)]
    return [] if before == now else [f"{at}: {before!r} is {now!r}"]


@pytest.mark.fault(
    "A home of an earlier release is opened, of which a job ran and one was published when it was killed",
    "Every job, video, folder, token, event and undo is there; the publish is finished",
    area="database",
)
def test_nothing_is_lost(kept: Kept) -> None:
    before, studio = kept.shown, kept.studio
    stored = {job: kept.segments(job) for job in before["jobs"]}
    assert all(stored[job] for job in (kept.running, str(kept.job("paused")), str(kept.job("cancelled"))))
    studio.start()
    studio.done(before["published"])
    now = kept_home.shown(studio)
    was_running = {kept.running, kept.published}
    assert len(before["jobs"]) == len(now["jobs"])
    for job in before["jobs"].keys() - was_running:
        assert _lost(before["jobs"][job], now["jobs"][job]) == []
    assert now["jobs"][kept.running]["status"] == "pending", "the queue is still paused"
    ran = {before["jobs"][job]["video"] for job in was_running}
    videos = [[row for row in each["videos"] if row["id"] not in ran] for each in (before, now)]
    assert _lost(*videos) == []
    for what in ("folders", "tokens", "gates", "settings"):
        assert _lost(before[what], now[what]) == [], what
    workers = {row["name"]: row for row in now["workers"]}
    for row in before["workers"]:
        assert _lost(row, workers[row["name"]], passing=_OF_THE_PROCESS) == []
    assert now["events"][: len(before["events"])] == before["events"]
    for job in stored.keys() - {kept.published}:
        assert kept.segments(job) == stored[job]
    assert stored[kept.published].items() <= kept.generation(before["published"]).items()


def test_its_tokens_undo_and_deleted_ladders_are_good(kept: Kept) -> None:
    studio, secrets = kept.studio.start(), kept.shown["secrets"]
    for role in ("view", "operate", "admin"):
        bearer = {"Authorization": f"Bearer {secrets[role]}"}
        assert studio.raw("GET", "/v1/status", headers=bearer)[0] == 200
        may = studio.raw("POST", "/v1/queue/pause", {"reason": "kept"}, headers=bearer)[0] == 200
        assert may is (role != "view")
    bearer = {"Authorization": f"Bearer {secrets['worker']}"}
    register = {"instance": "instance-of-worker", "pid": 1, "pid_started": 1.0, "encoder": "libx264"}
    assert studio.raw("POST", "/v1/worker/register", register, headers=bearer)[0] == 200
    paused = kept.job("waiting-1")
    assert studio.job(paused)["status"] == "paused"
    studio.send(calls.undo("key"))
    assert studio.job(paused)["status"] == "pending"
    deleted = kept.job("deleted")
    studio.send(calls.undelete_video(kept.shown["jobs"][str(deleted)]["video"]))
    until(lambda: studio.job(deleted)["deleted_at"] is None, "it is back")
    master = Path(studio.video_of(deleted)["generation"]["master"])
    until(master.exists, "its ladder is back")
    assert studio("verify", "--full", master).code == 0


@pytest.mark.slow
@pytest.mark.fault(
    "Jobs that an earlier release left half-finished are resumed",
    "The segments that were stored are those that are published; ladders of both verify to the byte",
    area="database",
)
def test_what_was_begun_is_finished_with_its_segments(kept: Kept) -> None:
    studio = kept.studio.start()
    done = [job for job, row in kept.shown["jobs"].items() if row["status"] == "done"]
    begun = [kept.shown["running"], kept.job("paused"), kept.job("cancelled")]
    stored = {job: kept.segments(job) for job in begun}
    retained = kept.root / "out" / "again" / "v1"
    sums = (retained / "BLAKE3SUMS").read_text()
    studio.do("resume", begun[1])
    studio.do("retry", begun[2])
    studio.send(calls.resume_queue())
    for job in (*begun, kept.job("waiting-0"), kept.job("waiting-2")):
        studio.done(job)
    for job in begun:
        assert stored[job]
        if locate().build == kept.shown["ffmpeg"]:
            assert stored[job].items() <= kept.generation(job).items()
    assert (retained / "BLAKE3SUMS").read_text() == sums, "it stays for its players"
    for line in sums.splitlines():
        digest, name = line.split("  ", 1)
        assert _digest(retained / name) == digest
    answer = studio("verify", "--full", "--json", kept.root / "out")
    assert answer.code == 0, answer.out
    assert {row["status"] for job, row in kept_home.shown(studio)["jobs"].items() if job in done} == {"done"}

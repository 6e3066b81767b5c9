"""A worker on another machine: it shares no file with the studio, which only its TCP listener shows."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import MakeClip
from e2e.ladder import check_ladder, frames_of
from e2e.studio import Studio
from harness import Program, until_ended
from tqstudio.paths import encode
from tqstudio.protocol import calls
from waiting import until

RUNGS = ("180p", "120p", "90p")
_SUBTITLES = "1\n00:00:01,000 --> 00:00:02,000\nHello\n"


class Far:
    """The other machine: a home, a token and at most one worker program.

    Args:
        token: in place of a new one for a worker of that name.
    """

    def __init__(self, studio: Studio, root: Path, name: str = "attic", token: str = "") -> None:
        self.studio, self.name, self.root = studio, name, root
        self.url = str(studio.status()["supervisor"]["listen"])
        self.program = Program(root)
        root.mkdir(mode=0o700)
        secret = root / "token"
        secret.touch(mode=0o600)
        secret.write_text(token or studio.send(calls.create_token(name, "worker"))["token"])
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def work(self) -> Path:
        return self.root / "work"

    def start(self, url: str = "", *options: str) -> None:
        self.process = self.program.spawn(
            "worker",
            "run",
            *options,
            TQSTUDIO_CONNECT=url or self.url,
            TQSTUDIO_TOKEN_FILE=str(self.root / "token"),
            TQSTUDIO_FFMPEG=self.studio.environment["TQSTUDIO_FFMPEG"],
        )

    def end(self, number: int = signal.SIGTERM) -> str:
        """End the worker; returns its log."""
        assert self.process is not None
        self.process.send_signal(number)
        _, log = self.process.communicate(timeout=60)
        self.process = None
        return log.decode()


class Cutting:
    """Passes connections on to a studio; cuts each after a random number of bytes, in either direction."""

    def __init__(self, port: int, seed: int, least: int = 2_000, most: int = 300_000) -> None:
        self._port, self._random, self._range = port, random.Random(seed), (least, most)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                for one, other in ((near, far), (far, near)):
                    left = self._random.randrange(*self._range)
                    threading.Thread(target=self._pass, args=(one, other, left), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, left: int) -> None:
        with contextlib.suppress(OSError):
            while left > 0 and (data := one.recv(min(left, 4096))):
                other.sendall(data)
                left -= len(data)
            self.cuts += left <= 0
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Gateway(Cutting):
    """A proxy that answers by itself while it is `closed`: its studio is being restarted."""

    closed = True

    def _pass(self, one: socket.socket, other: socket.socket, left: int) -> None:
        del left
        with contextlib.suppress(OSError):
            while data := one.recv(4096):
                if self.closed:
                    text = b"<html>Bad Gateway</html>"
                    head = b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nConnection: close\r\n"
                    one.sendall(head + b"Content-Length: %d\r\n\r\n" % len(text) + text)
                    self.cuts += 1
                    break
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def studio(tmp_path: Path, ffmpeg: str) -> Iterator[Studio]:
    quick = {"heartbeat_s": 0.5, "lease_s": 5, "reconnect_s": 5, "lease_scan_s": 1}
    studio = Studio(tmp_path / "studio", ffmpeg, listen="127.0.0.1:0", max_crashes=100, **quick).up()
    studio.client.send(calls.worker_action("cpu-0", "disable"))
    yield studio
    studio.down()


@pytest.fixture
def far(studio: Studio, tmp_path: Path) -> Iterator[Far]:
    far = Far(studio, tmp_path / "far")
    yield far
    if far.process is not None:
        far.end(signal.SIGKILL)


def _copies(far: Far, name: str) -> list[bytes]:
    """Read the copies of a source that the worker has at this moment."""
    copies = []
    for path in far.work.glob(f"source/*/{name}"):
        with contextlib.suppress(FileNotFoundError):
            copies.append(path.read_bytes())
    return copies


def segments(studio: Studio, job: int) -> int:
    """How many segments each quality has at least."""
    return min(row["segments_done"] for row in studio.job(job)["renditions"] if row["name"] in RUNGS)


def check(job: Any, seconds: int) -> None:
    master = Path(job["video_view"]["generation"]["master"])
    check_ladder(master, frames=25 * seconds, fps=Fraction(25), names=RUNGS)


def test_it_makes_a_ladder_and_keeps_nothing(studio: Studio, far: Far, clip: MakeClip, copy: Any) -> None:
    far.start()
    job = studio.done(studio.add(copy(clip(seconds=4), "film.mp4"), overrides={"files": '["mp4"]'}))
    assert job["worker"] is None or job["worker"] == far.name
    assert [attempt["worker"] for attempt in job["attempts_log"]] == [far.name]
    check(job, 4)
    # It is made where the segments are: the line carries them once.
    [file] = job["video_view"]["generation"]["files"]
    assert frames_of(Path(file["path"])) == 100
    log = studio.home.job_logs(job["id"]) / f"{job['attempts_log'][0]['epoch']}.log"
    assert "finished: 180p" in log.read_text()
    assert str(far.root) not in log.read_text()
    [view] = [each for each in studio.status()["workers"] if each["name"] == far.name]
    assert (view["type"], view["note"]) == ("remote", f"on {socket.gethostname()}")
    until(lambda: studio.worker(far.name)["status"] == "idle")
    said = far.end()
    assert "Traceback" not in said
    assert not [path for path in far.work.rglob("*") if path.suffix in (".m4s", ".mp4")]
    assert not studio.stored_segments(job["video"])


@pytest.mark.slow
def test_its_first_quality_is_published_when_it_has_arrived(
    studio: Studio, far: Far, clip: MakeClip, copy: Any
) -> None:
    far.start()
    with studio.paced(4):
        job = studio.add(copy(clip(seconds=12), "film.mp4"), overrides={"first": "120p"})
        row = until(lambda: (row := studio.job(job))["viewable"] and row, "the first quality plays")
        assert (row["status"], row["worker"]) == ("in_progress", far.name)
        master = Path(row["video_view"]["generation"]["master"])
        check_ladder(master, frames=300, fps=Fraction(25), names=("120p",))
    done = studio.done(job)
    check(done, 12)
    assert done["video_view"]["generation"]["number"] == 2
    first, whole = ((master.parent / f"v{n}/120p/seg_00001.m4s").stat().st_ino for n in (1, 2))
    assert first == whole


@pytest.mark.more
def test_a_short_end_is_joined_to_the_segment_before(
    studio: Studio, far: Far, clip: MakeClip, copy: Any
) -> None:
    """The segment that was sent before is replaced at the studio, and the short one removed."""
    far.start()
    job = studio.done(studio.add(copy(clip(seconds=4.08), "film.mp4")))
    master = Path(job["video_view"]["generation"]["master"])
    for name in RUNGS:
        assert sorted(path.name for path in (master.parent / "v1" / name).glob("*.m4s")) == [
            "seg_00000.m4s",
            "seg_00001.m4s",
        ]
    check_ladder(master, frames=102, fps=Fraction(25), names=RUNGS)


@pytest.mark.more
def test_subtitles_beside_the_source_are_taken_along(
    studio: Studio, far: Far, clip: MakeClip, copy: Any
) -> None:
    source = copy(clip(seconds=4), "film.mp4")
    source.with_name("film.de.srt").write_text(_SUBTITLES)
    source.with_name("film.fr.srt").touch()
    far.start()
    job = studio.done(studio.add(source))
    master = Path(job["video_view"]["generation"]["master"])
    assert 'LANGUAGE="de"' in master.read_text()
    assert "Hello" in "".join(path.read_text() for path in master.parent.rglob("*.vtt"))


@pytest.mark.more
def test_a_source_that_is_renamed_meanwhile_costs_no_attempt_and_no_subtitles(
    studio: Studio, far: Far, clip: MakeClip, copy: Any
) -> None:
    source = copy(clip(seconds=12), "film.mp4")
    source.with_name("film.de.srt").write_text(_SUBTITLES)
    with studio.paced(2):
        far.start()
        job = studio.add(source)
        studio.running(job)
        renamed = source.with_name("renamed.mp4")
        source.rename(renamed)
        renamed.with_name("backup.mp4").hardlink_to(renamed)
        assert studio.offer(renamed)[0]["job"] == job
    done = studio.done(job)
    assert [attempt["error_code"] for attempt in done["attempts_log"]] == [None]
    assert 'LANGUAGE="de"' in Path(done["video_view"]["generation"]["master"]).read_text()


@pytest.mark.more
def test_a_replaced_source_of_the_same_size_and_time_is_copied_again(
    studio: Studio, far: Far, clip: MakeClip, copy: Any
) -> None:
    source = copy(clip(seconds=12), "film.mp4")
    before = source.stat()
    with studio.paced(2):
        far.start()
        job = studio.add(source)
        studio.running(job)
        studio.do("pause", job)
        studio.wait(job, "paused")
    # Another last byte, in the padding of the file's end.
    other = source.with_name("other")
    other.write_bytes(source.read_bytes()[:-1] + b"\x01")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(source)
    studio.do("resume", job)
    with studio.paced(2):
        # The copy of the attempt before is there until this one has asked for the source's version.
        until(lambda: _copies(far, "film.mp4") == [source.read_bytes()])
    check(studio.done(job), 12)


@pytest.mark.slow
def test_a_killed_one_loses_nothing_that_it_has_sent(
    studio: Studio, far: Far, clip: MakeClip, copy: Any
) -> None:
    with studio.paced(2):
        far.start()
        job = studio.add(copy(clip(seconds=12), "long.mp4"))
        studio.running(job, segments=2)
        far.end(signal.SIGKILL)
    video = studio.job(job)["video"]
    sent = {path.relative_to(studio.out): path.read_bytes() for path in studio.stored_segments(video)}
    assert sent
    shutil.rmtree(far.work)
    # Its lease runs out, then the worker beside the studio continues.
    studio.client.send(calls.worker_action("cpu-0", "enable"))
    done = studio.done(job)
    check(done, 12)
    assert [attempt["worker"] for attempt in done["attempts_log"]] == [far.name, "cpu-0"]
    assert done["attempts_log"][-1]["resumed_from"] > 0


@pytest.mark.slow
def test_one_that_is_removed_gives_its_job_back_at_once(
    studio: Studio, far: Far, clip: MakeClip, copy: Any
) -> None:
    with studio.paced(2):
        far.start()
        job = studio.add(copy(clip(seconds=12), "long.mp4"))
        studio.running(job, segments=2)
    assert studio.send(calls.remove_worker(far.name)) == {"removed": far.name, "job": job}
    assert studio.job(job)["status"] == "pending", "its lease is not waited for"
    assert far.name not in [each["name"] for each in studio.status()["workers"]]
    assert far.process is not None
    assert far.process.wait(timeout=60) == 4
    studio.client.send(calls.worker_action("cpu-0", "enable"))
    done = studio.done(job)
    check(done, 12)
    assert [attempt["worker"] for attempt in done["attempts_log"]] == [far.name, "cpu-0"]
    assert (done["crashes"], done["attempts_log"][-1]["resumed_from"] > 0) == (0, True)


@pytest.mark.slow
def test_it_outlives_the_supervisor_idle_and_at_work(
    studio: Studio, far: Far, clip: MakeClip, copy: Any
) -> None:
    studio.environment["TQSTUDIO_LISTEN"] = far.url.removeprefix("http://")
    far.start()
    until(lambda: studio.worker(far.name)["status"] == "idle")
    studio.stop()
    studio.start()
    with studio.paced(2):
        job = studio.add(copy(clip(seconds=12), "long.mp4"))
        studio.running(job, segments=1)
        studio.kill()
        studio.start()
    done = studio.done(job)
    check(done, 12)
    assert [(each["worker"], each["outcome"]) for each in done["attempts_log"]] == [(far.name, "done")]


@pytest.mark.more
def test_it_continues_what_another_worker_began(studio: Studio, far: Far, clip: MakeClip, copy: Any) -> None:
    studio.client.send(calls.worker_action("cpu-0", "enable"))
    with studio.paced(2):
        job = studio.add(copy(clip(seconds=12), "long.mp4"))
        studio.running(job, segments=2)
        studio.client.send(calls.worker_action("cpu-0", "disable"))
        studio.do("pause", job)
        studio.wait(job, "paused")
    far.start()
    studio.do("resume", job)
    done = studio.done(job)
    check(done, 12)
    assert done["attempts_log"][-1]["worker"] == far.name
    assert done["attempts_log"][-1]["resumed_from"] > 0


@pytest.mark.more
def test_a_pause_sends_what_is_finished(studio: Studio, far: Far, clip: MakeClip, copy: Any) -> None:
    with studio.paced(2):
        far.start()
        job = studio.add(copy(clip(seconds=12), "long.mp4"))
        pids = studio.running(job, segments=1)
        studio.do("pause", job)
        studio.wait(job, "paused")
        until_ended(pids)
    local = {path.name for path in far.work.rglob("*.m4s")}
    assert local
    assert {path.name for path in studio.out.rglob(".tqstudio/*/segments/**/*.m4s")} >= local
    studio.do("resume", job)
    check(studio.done(job), 12)


@pytest.mark.more
@pytest.mark.slow
def test_a_proxy_without_its_studio_ends_nothing(studio: Studio, far: Far, clip: MakeClip, copy: Any) -> None:
    gateway = Gateway(int(far.url.rpartition(":")[2]), seed=0)
    far.start(gateway.url)
    until(lambda: gateway.cuts > 1, "its registration has failed")
    gateway.closed = False
    with studio.paced(1):
        job = studio.add(copy(clip(seconds=12), "film.mp4"))
        studio.running(job)
        gateway.closed, before = True, gateway.cuts
        until(lambda: gateway.cuts > before + 3, "its files and heartbeats are refused")
        gateway.closed = False
    done = studio.done(job)
    check(done, 12)
    # On a slow machine the lease may run out meanwhile.
    assert "failed" not in {attempt["outcome"] for attempt in done["attempts_log"]}
    assert far.process is not None
    assert far.process.poll() is None
    assert "Traceback" not in far.end()


@pytest.mark.more
def test_an_output_that_is_away_is_waited_for(studio: Studio, far: Far, clip: MakeClip, copy: Any) -> None:
    far.start()
    with studio.paced(1):
        job = studio.add(copy(clip(seconds=12), "film.mp4"))
        studio.running(job)
        away = studio.out.with_name("away")
        studio.out.rename(away)
        until(lambda: segments(studio, job) >= 4, "it encodes what it cannot send")
        assert not studio.out.exists()
        away.rename(studio.out)
    done = studio.done(job)
    check(done, 12)
    assert "failed" not in {attempt["outcome"] for attempt in done["attempts_log"]}


@pytest.mark.more
def test_files_that_cannot_be_stored_end_the_attempt_at_once(
    studio: Studio, far: Far, clip: MakeClip, copy: Any
) -> None:
    """They would not arrive, and be encoded again by the next worker."""
    far.start()
    with studio.paced(0.5):
        job = studio.add(copy(clip(seconds=12), "film.mp4"))
        studio.running(job)
        [store] = studio.out.glob(".tqstudio/*/segments/*/180p/*")
        (store / "seg_00004.m4s" / "in the way").mkdir(parents=True)
        until(lambda: studio.job(job)["attempts_log"][0]["error_code"] == "INTERNAL", "the attempt ends")
        assert segments(studio, job) < 6, "it did not encode to the end"


@pytest.mark.more
def test_a_copy_that_a_power_cut_has_emptied_is_made_again(
    studio: Studio, far: Far, clip: MakeClip, copy: Any
) -> None:
    far.start()
    with studio.paced(1):
        job = studio.add(copy(clip(seconds=12), "film.mp4"))
        studio.running(job)
        far.end(signal.SIGKILL)
    [copied] = far.work.glob("source/*/film.mp4")
    copied.write_bytes(b"")
    far.start()
    check(studio.done(job), 12)


@pytest.mark.more
def test_a_broken_file_in_a_shared_folder_fails(studio: Studio, far: Far, clip: MakeClip, copy: Any) -> None:
    source = copy(clip(seconds=4), "film.mp4")
    source.write_bytes(source.read_bytes()[:3000] + bytes(100_000))
    far.start("", "--shared", str(source.parent))
    job = studio.add(source)
    until(lambda: studio.job(job)["status"] == "failed", "the job has failed")
    assert studio.job(job)["error"]["code"] != "WORKER_DISK"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.more)])
def test_a_line_that_is_cut_at_any_byte(
    studio: Studio, far: Far, clip: MakeClip, copy: Any, seed: int
) -> None:
    line = Cutting(int(far.url.rpartition(":")[2]), seed)
    try:
        far.start(line.url)
        job = studio.done(studio.add(copy(clip(seconds=12), "long.mp4")))
    finally:
        line.close()
    assert line.cuts
    check(job, 12)
    assert len(job["attempts_log"]) == 1


@pytest.mark.slow
def test_what_a_worker_lists_must_have_arrived(studio: Studio, far: Far, clip: MakeClip, copy: Any) -> None:
    with studio.paced(2):
        far.start()
        job = studio.add(copy(clip(seconds=12), "long.mp4"))
        studio.running(job, segments=2)
        segment = studio.stored_segments(studio.job(job)["video"])[0]
        content = bytearray(segment.read_bytes())
        content[-1] ^= 1
        segment.write_bytes(content)
    done = studio.done(job)
    errors = [(attempt["error_code"], attempt["error"]) for attempt in done["attempts_log"]]
    assert [code for code, _ in errors] == ["OUTPUT_INVALID", None], errors
    check(done, 12)


@pytest.mark.more
def test_a_source_in_a_shared_folder_is_not_copied(
    studio: Studio, far: Far, clip: MakeClip, tmp_path: Path
) -> None:
    mount = tmp_path / "mount"
    drop = tmp_path / "drop"
    source = drop / "season 1/film.mp4"
    source.parent.mkdir(parents=True)
    shutil.copyfile(clip(seconds=4), source)
    source.with_name("film.de.srt").write_text(_SUBTITLES)
    shutil.copytree(drop, mount)
    studio.client.send(calls.add_folder(encode(drop), settle_s=0))
    far.start("", "--shared", str(tmp_path), "--shared", str(mount))
    until(lambda: studio.client.send(calls.jobs())["jobs"], "the file is queued")
    job = studio.done(studio.client.send(calls.jobs())["jobs"][0]["id"])
    master = Path(job["video_view"]["generation"]["master"])
    assert 'LANGUAGE="de"' in master.read_text()
    assert "Hello" in "".join(path.read_text() for path in master.parent.rglob("*.vtt"))
    log = studio.home.job_logs(job["id"]) / f"{job['attempts_log'][0]['epoch']}.log"
    assert "season 1/film.mp4" in log.read_text()
    assert str(tmp_path) not in log.read_text()
    assert "the source is shared" in far.end()
    assert (mount / "season 1/film.mp4").read_bytes() == source.read_bytes()


@pytest.mark.more
def test_the_copy_of_a_source_is_shown(studio: Studio, far: Far, clip: MakeClip, copy: Any) -> None:
    far.start("", "--bandwidth", "0.5")
    job = studio.add(copy(clip(seconds=4), "film.mp4"))
    until(lambda: "copy" in (studio.worker(far.name)["step"] or ""), "the worker copies")
    until(lambda: "copy" in (studio.job(job)["step"] or ""), "the job shows it")
    check(studio.done(job), 4)


@pytest.mark.more
def test_another_file_in_a_shared_folder_is_not_used(
    studio: Studio, far: Far, clip: MakeClip, copy: Any, tmp_path: Path
) -> None:
    source = copy(clip(seconds=4), "film.mp4")
    mount = tmp_path / "mount"
    mount.mkdir()
    other = Path(shutil.copy2(source, mount))
    other.write_bytes(bytes(source.stat().st_size))
    shutil.copystat(source, other)
    far.start("", "--shared", str(mount))
    check(studio.done(studio.add(source)), 4)
    assert "no shared folder has it" in far.end()


@pytest.mark.more
def test_a_shared_source_that_breaks_off_is_copied(
    studio: Studio, far: Far, clip: MakeClip, copy: Any, tmp_path: Path
) -> None:
    source = copy(clip(seconds=12), "film.mp4")
    mount = tmp_path / "mount"
    mount.mkdir()
    shutil.copy2(source, mount)
    with studio.paced(2):
        far.start("", "--shared", str(mount))
        job = studio.add(source)
        studio.running(job, segments=1)
        os.truncate(mount / "film.mp4", source.stat().st_size // 2)
    done = studio.done(job)
    check(done, 12)
    assert [attempt["error_code"] for attempt in done["attempts_log"]] == ["WORKER_DISK", None]
    assert done["attempts_log"][1]["resumed_from"] > 0


@pytest.mark.slow
def test_it_is_offline_when_it_ends_and_for_good_when_its_token_is_revoked(studio: Studio, far: Far) -> None:
    far.start()
    until(lambda: studio.worker(far.name)["status"] == "idle")
    far.end()
    assert studio.worker(far.name)["status"] == "offline", "at once, not when it was silent for a minute"
    far.start()
    until(lambda: studio.worker(far.name)["status"] == "idle")
    studio.send(calls.revoke_token(far.name))
    assert far.process is not None
    assert far.process.wait(timeout=60) == 4


@pytest.mark.more
def test_two_cannot_share_a_work_folder(studio: Studio, far: Far) -> None:
    far.start()
    until(lambda: studio.worker(far.name)["status"] == "idle")
    refused = far.program(
        "worker", "run", TQSTUDIO_CONNECT=far.url, TQSTUDIO_TOKEN_FILE=str(far.root / "token")
    )
    assert refused.code == 2
    assert "another worker uses the work folder" in refused.err
    assert os.path.exists(far.work / "lock")


@pytest.mark.more
def test_a_storm(studio: Studio, tmp_path: Path, clip: MakeClip, copy: Any) -> None:
    """Three machines on bad lines are killed, with and without their copies, and so is the supervisor."""
    chance = random.Random(7)
    machines = [Far(studio, tmp_path / f"far-{number}", f"far-{number}") for number in range(3)]
    port = int(machines[0].url.rpartition(":")[2])
    studio.environment["TQSTUDIO_LISTEN"] = f"127.0.0.1:{port}"
    lines = [Cutting(port, seed, least=50_000, most=3_000_000) for seed in range(3)]
    try:
        with studio.paced(4):
            jobs = [studio.add(copy(clip(seconds=12), f"film-{number}.mp4")) for number in range(6)]
            for machine, line in zip(machines, lines, strict=True):
                machine.start(line.url)
            for kill in range(10):
                machine = chance.choice(machines)
                until(
                    lambda machine=machine: (
                        studio.worker(machine.name)["status"] == "busy"
                        or studio.status()["jobs"]["done"] == 6
                    ),
                    "it works",
                )
                machine.end(signal.SIGKILL)
                if kill == 4:
                    studio.process.kill()
                    studio.until_gone()
                    studio.start()
                if chance.random() < 0.5:
                    shutil.rmtree(machine.work, ignore_errors=True)
                machine.start(lines[machines.index(machine)].url)
        for job in jobs:
            check(studio.done(job), 12)
        assert not [path for path in studio.out.rglob(".tqstudio/*/segments/*/*") if path.is_file()]
    finally:
        for machine in machines:
            if machine.process is not None:
                machine.end(signal.SIGKILL)
        for line in lines:
            line.close()


@pytest.mark.slow
def test_it_removes_what_belongs_to_jobs_that_ended_elsewhere(
    studio: Studio, far: Far, clip: MakeClip, copy: Any
) -> None:
    """Of one job that is still open it keeps everything, of one that was cancelled nothing."""
    jobs = [studio.add(copy(clip(seconds=4), name), hold=True) for name in ("open.mp4", "cancelled.mp4")]
    videos = [studio.job(job)["video"] for job in jobs]
    kept, gone = (
        [far.work / "source" / f"{video}-1-2-3", far.work / ".tqstudio" / "remote" / "segments" / str(video)]
        for video in videos
    )
    unknown = far.work / "source" / "4711-1-2-3"
    for folder in (*kept, *gone, unknown):
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")
    dead = socket.create_server(("127.0.0.1", 0))
    far.start(f"http://127.0.0.1:{dead.getsockname()[1]}")
    until(lambda: dead.accept(), "it tries a studio that does not answer")
    far.end(signal.SIGKILL)
    dead.close()
    assert all(folder.exists() for folder in (*kept, *gone, unknown))

    studio.act("cancel", jobs[1])
    far.start()
    until(lambda: not any(folder.exists() for folder in (*gone, unknown)), "what is not needed is removed")
    assert all((folder / "file").exists() for folder in kept)
    studio.act("cancel", jobs[0])
    until(lambda: not any(folder.exists() for folder in kept), "its job has ended while it runs")
    far.end()

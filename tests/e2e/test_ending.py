"""How a supervisor ends, and that there is one of it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness import lives, until_ended
from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeClip, MakeStudio
from .studio import Studio, marks, published_marks

_TAKE_OVER = """
import sys
from tqstudio.config import load_settings
from tqstudio.engine import program
from tqstudio.errors import TqError
from tqstudio.home import current_home
try:
    program.run(current_home(), load_settings(current_home()))
except TqError as error:
    sys.exit(f"{error.code}: {error.message}; {error.hint}")
"""


@pytest.fixture
def long(clip: MakeClip, copy) -> Path:
    return copy(clip(seconds=12), "long.mp4")


@pytest.mark.slow
@pytest.mark.fault(
    "SIGTERM or Ctrl-C",
    "No job starts, running ones have `drain_s`, then stop at the fragment; nothing is counted",
    area="supervisor",
)
def test_sigterm_stops_at_the_segment_and_counts_nothing(make_studio: MakeStudio, long: Path) -> None:
    studio = make_studio(drain_s=0.2).up()
    with studio.paced(2):
        job = studio.add(long)
        studio.running(job)
        video = studio.job(job)["video"]
        assert studio.terminate() == 0
    studio.until_gone()
    assert studio.stored_status(job) == "pending"
    assert studio.last_words() == (
        "the supervisor has stopped; 1 job is left, started: finished parts are kept;"
        f" continue with: tqstudio --home {studio.home.root} up"
    )
    assert 'event="supervisor ended" left=1 begun=1 paused=0' in studio.home.supervisor_log.read_text()
    before = marks(studio.stored_segments(video))
    assert before
    log = (studio.home.logs / "worker-cpu-0.log").read_text()
    assert 'event="job stopped"' in log
    assert "of 6 segments" in log
    assert not studio.home.tmpdir("cpu-0").exists()
    studio.up()
    done = studio.done(job)
    assert (done["attempts"], done["crashes"]) == (0, 0)
    assert [attempt["outcome"] for attempt in done["attempts_log"]] == ["released", "done"]
    assert "aborted:shutdown" in [event["trigger"] for event in done["events"]]
    assert before <= published_marks(done)


@pytest.mark.more
def test_sigterm_lets_a_job_end_that_is_nearly_done(make_studio: MakeStudio, clip: MakeClip, copy) -> None:
    studio = make_studio(drain_s=50).up()
    with studio.paced(2):
        job = studio.add(copy(clip(seconds=6), "nearly.mp4"))
        studio.running(job)
        waiting = studio.add(copy(clip(), "waiting.mp4"))
        assert studio.terminate() == 0
    studio.until_gone()
    assert studio.stored_status(job) == "done"
    assert studio.stored_status(waiting) == "pending", "no job is begun any more"
    assert studio.last_words().startswith("the supervisor has stopped; 1 job is left; continue with: ")
    assert (studio.out / "nearly" / "master.m3u8").is_file()


@pytest.mark.more
@pytest.mark.fault("The same signal twice", "It ends at once, in order", area="supervisor")
def test_a_second_sigterm_ends_it_at_once(make_studio: MakeStudio, long: Path) -> None:
    studio = make_studio(drain_s=600).up()
    with studio.paced(1):
        job = studio.add(long)
        studio.running(job)
        studio.process.send_signal(signal.SIGTERM)
        until(lambda: studio.status()["supervisor"]["draining"], "it drains")
        assert studio.terminate() == 0
    studio.until_gone()
    assert studio.stored_status(job) == "pending"


@pytest.mark.more
def test_ctrl_c_bounds_a_drain_without_a_limit(
    make_studio: MakeStudio, long: Path, clip: MakeClip, copy
) -> None:
    studio = make_studio(drain_s=0.2).up()
    with studio.paced(1):
        job = studio.add(long)
        studio.running(job)
        studio.add(copy(clip(), "waiting.mp4"))
        studio.add(copy(clip(), "held.mp4"), hold=True)
        studio.client.send(calls.shutdown(drain=True))
        until(lambda: studio.status()["supervisor"]["draining"], "it drains")
        assert studio.terminate(signal.SIGINT) == 0
    assert studio.stored_status(job) == "pending"
    assert studio.last_words().startswith(
        "the supervisor has stopped; 2 jobs are left, 1 of them started: finished parts are kept;"
        " 1 is paused; continue with: "
    )


@pytest.mark.more
def test_heartbeats_continue_while_it_drains(make_studio: MakeStudio, clip: MakeClip, copy) -> None:
    """The job outlasts its lease several times, and is no one's but its worker's to the end."""
    studio = make_studio(drain_s=600, lease_s=2, heartbeat_s=0.4, lease_scan_s=0.3).up()
    with studio.paced(1):
        job = studio.add(copy(clip(seconds=6), "outlasts.mp4"))
        studio.running(job)
        assert studio.terminate() == 0
    assert studio.stored_status(job) == "done"
    assert studio.last_words() == "the supervisor has stopped; no job is left"
    studio.up()
    (attempt,) = studio.job(job)["attempts_log"]
    assert attempt["outcome"] == "done"


@pytest.mark.slow
def test_down_and_up_in_a_row_resume_everything(
    make_studio: MakeStudio, long: Path, clip: MakeClip, copy
) -> None:
    studio = make_studio().up()
    with studio.paced(2):
        job = studio.add(long)
        waiting = studio.add(copy(clip(fps="24"), "waiting.mp4"))
        held = studio.add(copy(clip(channels=0), "held.mp4"), hold=True)
        for _ in range(3):
            studio.running(job)
            assert studio("down").code == 0
            assert studio("up", "--detach").code == 0
    done = studio.done(job)
    assert (done["attempts"], done["crashes"]) == (0, 0)
    assert [attempt["outcome"] for attempt in done["attempts_log"]] == ["released"] * 3 + ["done"]
    studio.done(waiting)
    assert studio.job(held)["status"] == "paused"
    assert studio("down").code == 0


@pytest.mark.more
def test_down_with_a_screen_attached(make_studio: MakeStudio, long: Path) -> None:
    studio = make_studio().up()
    watch = studio.watch()
    with studio.paced(2):
        job = studio.add(long)
        watch.target(job, "in_progress")
        encoders = studio.running(job)
        pid = studio.status()["supervisor"]["pid"]
        answer = studio("down", timeout_s=15)
    assert answer.code == 0, answer.err
    assert str(pid) in answer.out
    assert not lives(pid)
    until_ended(encoders)
    until(lambda: watch.ended, "the stream has ended")
    assert watch.stored(job)[-1]["trigger"] == "aborted:shutdown", "the screen is sent it"
    studio.until_gone()
    assert studio("status").code == 3


@pytest.mark.slow
def test_down_with_drain_lets_running_jobs_end(make_studio: MakeStudio, clip: MakeClip, copy) -> None:
    studio = make_studio().up()
    with studio.paced(2):
        job = studio.add(copy(clip(seconds=6), "nearly.mp4"))
        studio.running(job)
        answer = studio("down", "--drain")
    assert answer.code == 0, answer.err
    assert studio.ended() == 0
    assert studio.stored_status(job) == "done"


@pytest.mark.slow
@pytest.mark.fault("A second supervisor is started", "`ALREADY_RUNNING`", area="supervisor")
def test_a_second_supervisor_is_refused(shared: Studio) -> None:
    studio = shared
    pid = studio.status()["supervisor"]["pid"]
    again = studio("up")
    assert again.code == 0
    assert str(pid) in again.out
    forced = subprocess.run(
        [sys.executable, "-P", "-c", _TAKE_OVER],
        env=studio.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert forced.returncode == 1
    assert forced.stderr.startswith("ALREADY_RUNNING: ")
    assert str(pid) in forced.stderr
    assert studio.status()["supervisor"]["pid"] == pid, "the first keeps running"


@pytest.mark.slow
def test_progress_is_pushed_while_a_job_runs(shared: Studio, long: Path) -> None:
    studio = shared
    watch = studio.watch()
    with studio.paced(2):
        job = studio.add(long)
        watch.target(job, "done")
    shown = [
        live
        for event in watch.seen
        if event.name == "progress"
        for live in event.data["jobs"]
        if live["id"] == job
    ]
    progress = [live["progress"] for live in shown]
    assert len(progress) >= 3
    assert progress == sorted(progress), "it never goes back"
    assert {live["step"] for live in shown} >= {"transcode"}
    made = [
        row["segments_done"] for live in shown for row in live.get("renditions", ()) if row["name"] == "180p"
    ]
    assert made == sorted(made)
    assert max(made) >= 2
    # A stream opened later is sent what it missed.
    replayed = studio.watch(after=0)
    replayed.target(job, "done")
    seqs = [event.seq for event in replayed.seen if event.seq is not None]
    assert seqs == sorted(seqs)
    assert len(studio.client.send(calls.events(job_id=job, after=0))["events"]) >= 3


@pytest.mark.more
@pytest.mark.fault(
    "A UI does not read its event stream",
    "It is disconnected and reads again; others are not delayed",
    area="supervisor",
)
def test_a_screen_that_does_not_read_delays_no_other_client(
    make_studio: MakeStudio, clip: MakeClip, copy
) -> None:
    """A terminal that was suspended, or whose line went dead."""
    studio = make_studio().up()
    with socket.socket(socket.AF_UNIX) as screen:
        screen.connect(str(studio.home.socket))
        screen.send(b"GET /v1/events/stream HTTP/1.1\r\nHost: tqstudio\r\n\r\n")
        assert screen.recv(15) == b"HTTP/1.1 200 OK"
        held = studio.add(copy(clip(), "held.mp4"), hold=True)
        for priority in range(30):
            studio.client.send(calls.act("priority", [held] * 100, priority=priority))
        job = studio.add(copy(clip(fps="24"), "goes-on.mp4"))
        studio.done(job)
        assert studio("down", timeout_s=15).code == 0
    studio.until_gone()

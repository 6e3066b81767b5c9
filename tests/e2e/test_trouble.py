"""Processes that hang, encoders that fail, sources that change under the work, homes in odd places."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness import until_ended
from tqstudio.errors import TqError
from tqstudio.paths import encode
from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeClip, MakeStudio
from .ladder import check_ladder
from .studio import PROFILE, WORDS, Studio, marks, published_marks, video_runs, write_script

RUNGS = ("180p", "120p", "90p")

# Fails for some files, as an encoder does that cannot cope with one.
_FAILS = """#!/bin/sh
{words}
fail() {{ echo "Error: something broke" >&2; exit 1; }}
case " $words " in
    *unlucky*" hls "*) [ -e "{mended}" ] || fail ;;
    *one-fails*" 90p/index.m3u8 "*) fail ;;
    *crowded*" hls "*) [ -e "{mended}" ] || ulimit -n 4 ;;
esac
exec "{ffmpeg}" "$@"
"""


@pytest.fixture(scope="module")
def brittle(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """Two workers with short leases and little patience, and an ffmpeg that fails for some files."""
    root = tmp_path_factory.mktemp("brittle")
    fails = write_script(root / "fails", _FAILS.format(words=WORDS, mended=root / "mended", ffmpeg=ffmpeg))
    settings = {"workers": 2, "lease_s": 3, "lease_scan_s": 0.5, "heartbeat_s": 0.5, "stall_s": 2.5}
    studio = Studio(root / "studio", str(fails), **settings)
    studio.write_profile("optional", PROFILE.replace("150 }", "150, required = false }"))
    yield studio.up()
    studio.down()


@pytest.fixture
def long(clip: MakeClip, copy) -> Path:
    return copy(clip(seconds=12), "long.mp4")


@pytest.mark.slow
@pytest.mark.fault(
    "A worker is stopped until its lease has expired, then continues",
    "Its job belongs to another; it ends its ffmpeg, is refused and changes nothing",
    area="workers",
)
def test_a_worker_that_hangs_loses_its_job_to_another(brittle: Studio, long: Path) -> None:
    """It is held still until its lease has run out, and touches nothing when it wakes."""
    studio = brittle
    watch = studio.watch(studio.last_seq())
    with studio.paced(2):
        job = studio.add(long)
        encoders = studio.running(job)
        name = studio.job(job)["worker"]
        hung = psutil.Process(studio.worker(name)["pid"])
        hung.suspend()
        try:
            watch.wait_for(
                "the lease running out",
                lambda e: (
                    e.name == "event" and e.data["job"] == job and e.data["trigger"] == "requeued:stale"
                ),
            )
            until(lambda: studio.job(job)["worker"] not in (None, name), "another worker has it")
        finally:
            hung.resume()
        until_ended(encoders)
        assert studio.job(job)["status"] == "in_progress"
    done = studio.done(job)
    assert (done["crashes"], done["attempts"]) == (1, 0)
    assert done["processed_by"] != name
    until(lambda: studio.worker(name)["status"] == "idle", "the one that hung works again")
    assert studio.worker(name)["pid"] == hung.pid
    check_ladder(Path(done["video_view"]["generation"]["master"]), frames=300, fps=Fraction(25), names=RUNGS)
    assert not list(studio.out.glob(".tqstudio/*/scratch/*"))


@pytest.mark.more
@pytest.mark.fault(
    "The supervisor does not answer for the length of a lease",
    "The worker ends its ffmpeg; nothing is counted",
    area="workers",
)
def test_a_supervisor_that_hangs_costs_its_workers_nothing(brittle: Studio, long: Path) -> None:
    """Longer than a lease no supervisor answers: the worker gives up by itself, and is not blamed for it."""
    studio = brittle
    supervisor = psutil.Process(studio.status()["supervisor"]["pid"])
    with studio.paced(2):
        job = studio.add(long)
        encoders = studio.running(job)
        before = marks(studio.stored_segments(studio.job(job)["video"]))
        supervisor.suspend()
        try:
            until_ended(encoders)
        finally:
            supervisor.resume()
    done = studio.done(job)
    assert (done["crashes"], done["attempts"]) == (0, 0)
    assert "requeued:stale" not in [event["trigger"] for event in done["events"]]
    assert before <= published_marks(done), "finished segments are not made again"


@pytest.mark.slow
@pytest.mark.fault("ffmpeg hangs", "Killed after `stall_s`: `STALLED`, retried", area="resume")
def test_an_ffmpeg_that_hangs_is_ended(brittle: Studio, long: Path) -> None:
    studio = brittle
    with studio.paced(2):
        job = studio.add(long)
        encoders = studio.running(job)
        for pid in encoders:
            os.kill(pid, signal.SIGSTOP)
        until(lambda: studio.job(job)["attempts"] == 1, "the stall was seen")
        until_ended(encoders)
    assert studio.job(job)["error"]["code"] == "STALLED"
    done = studio.done(job)
    assert [attempt["outcome"] for attempt in done["attempts_log"]] == ["failed", "done"]


@pytest.mark.more
@pytest.mark.fault(
    "The system has no more processes, threads or open files",
    "`SYSTEM_LIMIT`: requeued, nothing is counted",
    area="resume",
)
def test_a_limit_of_the_system_costs_no_attempt(brittle: Studio, clip: MakeClip, copy) -> None:
    studio = brittle
    mended = studio.root.parent / "mended"
    mended.unlink(missing_ok=True)
    watch = studio.watch(studio.last_seq())
    job = studio.add(copy(clip(), "crowded.mp4"))

    def refused(event: Any) -> bool:
        return event.name == "event" and event.data["job"] == job and event.data["code"] == "SYSTEM_LIMIT"

    watch.wait_for("the limit", refused)
    waits = studio.job(job)
    assert (waits["status"], waits["attempts"]) == ("pending", 0)
    assert "Too many open files" in waits["error"]["message"]
    assert "ulimit" in waits["error"]["hint"]
    mended.touch()
    try:
        done = studio.done(job)
    finally:
        mended.unlink()
    assert (done["attempts"], done["crashes"], done["error"]) == (0, 0, None)


@pytest.mark.more
def test_an_encoder_that_fails_twice_alike_is_not_tried_again(brittle: Studio, clip: MakeClip, copy) -> None:
    studio = brittle
    job = studio.add(copy(clip(), "unlucky.mp4"))
    failed = studio.wait(job, "failed")
    assert failed["error"]["code"] == "ENCODER_EXIT"
    assert "failed twice in the same way" in failed["error"]["hint"]
    assert "something broke" in failed["error"]["message"]
    assert "something broke" in Path(failed["error"]["log"]).read_text()
    assert (failed["attempts"], failed["max_attempts"]) == (2, 3)
    assert [attempt["outcome"] for attempt in failed["attempts_log"]] == ["failed"] * 2
    (studio.root.parent / "mended").touch()
    studio.do("retry", job)
    assert studio.done(job)["attempts"] == 0


@pytest.mark.slow
@pytest.mark.fault("A required quality fails", "The job fails", area="resume")
def test_one_quality_that_fails_fails_the_job(brittle: Studio, clip: MakeClip, copy) -> None:
    failed = brittle.wait(brittle.add(copy(clip(), "one-fails.mp4")), "failed")
    assert failed["error"]["code"] == "ENCODER_EXIT"
    assert "90p" in failed["error"]["message"]
    assert failed["video_view"]["generation"] is None
    _only_the_culprit(failed)
    runs = [len(video_runs(attempt)) for attempt in failed["attempts_log"]]
    assert runs == [4, 1], "together, then each alone; what came out well is not made again"


@pytest.mark.more
@pytest.mark.fault("A quality with `required = false` fails", "The job is done with a warning", area="resume")
def test_one_that_is_not_required_is_left_out(brittle: Studio, clip: MakeClip, copy) -> None:
    done = brittle.done(brittle.add(copy(clip(fps="24"), "one-fails.mp4"), profile="optional"))
    _only_the_culprit(done)
    assert [warning["text"] for warning in done["warnings"] if "90p" in warning["text"]], done["warnings"]
    master = Path(done["video_view"]["generation"]["master"])
    check_ladder(master, frames=96, fps=Fraction(24), names=RUNGS[:2])
    listed = brittle("job", "list", "--limit", "1", "--sort", "newest").out.splitlines()[1]
    assert listed.split()[0] == str(done["id"])
    assert re.search(r" 120p [✗!]90p ", listed), "the list says which quality is not there"


def _only_the_culprit(job: Any) -> None:
    rows = {row["name"]: row for row in job["renditions"]}
    assert rows["90p"]["status"] == "failed"
    assert "something broke" in rows["90p"]["error"]
    assert rows["180p"]["status"] == rows["120p"]["status"] == "completed"


@pytest.mark.slow
@pytest.mark.fault(
    "ffmpeg is missing for a moment, as during an upgrade",
    "`FFMPEG_MISSING`, retried after the backoff",
    area="resume",
)
def test_an_ffmpeg_that_goes_away_is_named_and_waited_for(
    make_studio: MakeStudio, clip: MakeClip, copy
) -> None:
    """As while it is upgraded."""
    studio = make_studio(backoff_s=3, backoff_max_s=3).up()
    program = studio.root / "ffmpeg"
    away = program.rename(studio.root / "away")
    job = studio.add(copy(clip(), "no-program.mp4"))
    error = until(lambda: studio.job(job)["error"], "the first attempt fails")
    away.rename(program)
    assert error["code"] == "FFMPEG_MISSING"
    assert str(program) in error["message"]
    assert f"'{program.name}' does not run" in Path(error["log"]).read_text()
    assert studio.done(job)["attempts"] > 0


@pytest.mark.slow
@pytest.mark.fault(
    "The output is moved, removed or unmounted during an encode",
    "`OUTPUT_UNAVAILABLE`; the queue waits, nothing is counted, and it resumes at the fragment",
    area="disks",
)
def test_an_output_that_goes_away_is_named_at_once(make_studio: MakeStudio, long: Path) -> None:
    studio = make_studio().up()
    with studio.paced(0.5):
        job = studio.add(long)
        encoders = studio.running(job)
        studio.out.rename(studio.out.with_name("moved"))
        until_ended(encoders)
        until(lambda: studio.job(job)["attempts_log"][0]["error_code"] == "OUTPUT_UNAVAILABLE", "it is named")
        assert not studio.out.exists(), "nothing is begun in its place"
        assert [gate["kind"] for gate in studio.status()["gates"]] == ["disk"]
    studio.out.with_name("moved").rename(studio.out)
    done = studio.done(job)
    assert done["attempts"] == 0
    assert done["attempts_log"][-1]["resumed_from"], "it resumes where it was"
    check_ladder(Path(done["video_view"]["generation"]["master"]), frames=300, fps=Fraction(25), names=RUNGS)


@pytest.mark.slow
def test_a_source_that_changes_while_it_is_encoded_is_encoded_again(
    shared: Studio, long: Path, clip: MakeClip
) -> None:
    with shared.paced(2):
        job = shared.add(long)
        shared.running(job)
        before = marks(shared.stored_segments(shared.job(job)["video"]))
        other = long.with_name("other.mp4")
        other.write_bytes(clip(seconds=6, fps="24").read_bytes())
        other.rename(long)
    done = shared.done(job)
    assert [attempt["error_code"] for attempt in done["attempts_log"]] == ["SOURCE_CHANGED", None]
    assert not before & published_marks(done)
    check_ladder(Path(done["video_view"]["generation"]["master"]), frames=144, fps=Fraction(24), names=RUNGS)
    assert shared.offer(long)[0]["decision"] == "cached"


@pytest.mark.more
def test_a_home_in_an_odd_place(ffmpeg: str, tmp_path: Path, clip: MakeClip, copy) -> None:
    """Too long for a socket, with spaces, quotes, markup and a percent sign."""
    root = tmp_path / f"my [red]%03d 'home' é {'x' * 120}"
    studio = Studio(root, ffmpeg).up()
    try:
        assert not (studio.home.root / "supervisor.sock").exists()
        assert studio.home.socket_note.read_text().strip() == str(studio.home.socket)
        done = studio.done(studio.add(copy(clip(), "film.mp4")))
        check_ladder(
            Path(done["video_view"]["generation"]["master"]), frames=100, fps=Fraction(25), names=RUNGS
        )
        assert studio("status").code == 0
        assert studio("doctor").code == 0
    finally:
        studio.down()
    assert not studio.home.socket.exists()


@pytest.mark.more
def test_two_homes_with_one_output_leave_each_other_alone(
    shared: Studio, brittle: Studio, clip: MakeClip, copy, tmp_path: Path
) -> None:
    out = tmp_path / "common"
    one, other = shared, brittle
    first = one.done(one.add(copy(clip(), "film.mp4"), output_b64=encode(out)))
    second = other.done(other.add(copy(clip(fps="24"), "film.mp4"), output_b64=encode(out)))
    masters = [Path(job["video_view"]["generation"]["master"]) for job in (first, second)]
    assert len(set(masters)) == 2
    check_ladder(masters[0], frames=100, fps=Fraction(25), names=RUNGS)
    check_ladder(masters[1], frames=96, fps=Fraction(24), names=RUNGS)


@pytest.mark.parametrize(
    "call",
    [
        calls.job(10**30),
        calls.job(-1),
        calls.jobs(after="not a cursor"),
        calls.jobs(around=10**25),
        calls.jobs("state:nonsense"),
        calls.jobs(sort="nonsense"),
        calls.jobs(limit=10**9),
        calls.act("explode", [1]),
        calls.act("pause", []),
        calls.act("pause", [10**30]),
        calls.act("priority", [1], priority=10**12),
        calls.events(after=-(10**30)),
        calls.events(since="yesterday-ish"),
        calls.worker_action("cpu-0", "explode"),
        calls.worker_action("../../etc", "drain"),
        calls.remove_folder(10**20),
        calls.edit_folder(1, settle_s="long"),
        calls.add_folder("L25vdGhpbmc=", patterns=["x" * 1000]),
        calls.add([encode(b"/tmp/\xff")], overrides={"no.such.key": "1"}),
        calls.Call("POST", "/v1/worker/claim", body={"instance": "forged-instance"}),
        calls.Call("POST", "/v1/worker/jobs/1/fail", body={}),
        calls.Call("GET", "/v1/no-such-thing"),
        calls.Call("DELETE", "/v1/jobs/1"),
    ],
    ids=lambda call: f"{call.method} {call.path[:30]}",
)
def test_a_senseless_request_is_answered_with_a_code(shared: Studio, call: calls.Call) -> None:
    with pytest.raises(TqError) as caught:
        shared.client.send(call)
    assert caught.value.code not in ("INTERNAL", "NO_SUPERVISOR"), caught.value
    assert caught.value.message
    assert caught.value.hint

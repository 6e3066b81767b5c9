"""Commands against a real supervisor with a real ffmpeg, as processes of their own."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from e2e.studio import WORDS, write_script
from harness import COMMAND_TIMEOUT_S, QUICK, Answer, Program, ProgramInside, lives
from tqstudio.engine.media.ffmpeg.binary import locate
from tqstudio.protocol import calls
from tqstudio.protocol.client import Client
from waiting import until

WAIT_S = 40
QUICKER = QUICK | {
    "TQSTUDIO_RESCAN_S": "2",
    "TQSTUDIO_PROFILE": "fast",
    "TQSTUDIO_DISK_RESERVE_BYTES": "0",
}


# Stands before ffmpeg and holds encodes of the long clip to twice real time: they only have to last, and
# would take processor time from all tests that run beside them.
_PACED = """#!/bin/sh
{words}
case " $words " in *long.mp4*" hls "*)
    for word in "$@"; do
        shift
        [ "$word" = "-i" ] && set -- "$@" -readrate 2
        set -- "$@" "$word"
    done ;;
esac
exec "{ffmpeg}" "$@"
"""


def _clip(path: Path, size: str, seconds: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            *(locate().path, "-hide_banner", "-loglevel", "error", "-y"),
            *("-f", "lavfi", "-i", f"testsrc2=size={size}:rate=25:duration={seconds}"),
            *("-c:v", "libx264", "-preset", "ultrafast", "-g", "250", "-pix_fmt", "yuv420p", f"file:{path}"),
        ],
        check=True,
    )
    return path


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short clip, quickly done, and a long one that keeps a worker busy."""
    folder = tmp_path_factory.mktemp("clips")
    _clip(folder / "short.mp4", "160x120", 2)
    _clip(folder / "long.mp4", "1280x720", 40)
    return folder


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    script = _PACED.format(words=WORDS, ffmpeg=locate().path)
    paced = write_script(tmp_path_factory.mktemp("paced") / "ffmpeg", script)
    return QUICKER | {"TQSTUDIO_FFMPEG": str(paced)}


@pytest.fixture(scope="module")
def up(settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A home with a supervisor that runs; every test leaves its queue without running jobs."""
    home = tmp_path_factory.mktemp("up") / "home"
    shell = Program(home, **settings)
    started = shell("up", "--detach")
    assert started.code == 0, started.err
    yield ProgramInside(home, **settings)
    stopped = shell("down")
    assert stopped.code == 0, stopped.err


@pytest.fixture
def fresh(settings: dict[str, str], tmp_path: Path) -> Iterator[Program]:
    """An empty home; a supervisor that a test leaves running is stopped."""
    shell = Program(tmp_path / "home", **settings)
    yield shell
    shell("down")


def _only(answer: Answer) -> Any:
    assert answer.code == 0, answer.err
    (result,) = answer.json()["results"]
    return result


def _status_of(shell: Program, job: int) -> str:
    return str(shell("job", "show", str(job), "--json").json()["status"])


# Up and down.


@pytest.mark.parametrize(
    "words",
    [
        ("add", "SOURCE", "--meta", b"client=M\xfcller"),
        ("add", "SOURCE", "--set", b"encoder=M\xfcller"),
        ("process", "-i", "SOURCE", "--meta", b"M\xfcller=1"),
        ("job", "list", "--text", b"M\xfcller"),
        ("queue", "pause", "--reason", b"M\xfcller"),
    ],
)
def test_an_argument_that_is_not_utf_8_is_refused(
    up: Program, clips: Path, words: tuple[str | bytes, ...]
) -> None:
    answer = up(*[str(clips / "short.mp4") if word == "SOURCE" else word for word in words])
    assert (answer.code, answer.out) == (2, "")
    output = answer.err.splitlines()[0]
    assert output.startswith("error: BAD_REQUEST: ")
    assert output.endswith("M\\xfcller is not UTF-8")
    assert up("job", "list", "--json").json()["jobs"] == []


@pytest.mark.parametrize("name", ["Müller", "a/b", "a b?c", b"M\xfcller"])
def test_any_name_of_a_worker_is_looked_up(up: Program, name: str | bytes) -> None:
    answer = up("worker", "enable", name)
    assert answer.code == 4
    assert answer.err.startswith("error: NOT_FOUND: there is no ")


def test_up_twice_and_down(fresh: Program) -> None:
    first = fresh("up", "--detach", "--json").json()
    assert first["started"] is True
    again = fresh("up")
    assert again.code == 0
    assert str(first["pid"]) in again.out
    assert str(fresh.home.root) in again.out
    assert fresh("up", "--detach").code == 0
    assert fresh("down", "--json").json() == {
        "stopped": True,
        "pid": first["pid"],
        "home": str(fresh.home.root),
    }
    assert not lives(first["pid"])
    assert fresh("status").code == 3


def test_options_for_a_start_are_reported_as_without_effect_when_one_runs(
    up: Program, tmp_path: Path
) -> None:
    one = up("up", "--workers", "3")
    assert one.code == 0, "a script may start it again and again"
    assert one.out.startswith("a supervisor is already running (pid ")
    assert one.err.startswith("--workers has no effect on it; to restart it: tqstudio ")
    options = ("--workers", "3", "--no-gpu", "--profile", "web", "--output", str(tmp_path))
    several = up("up", "--detach", *options, "--json")
    assert several.code == 0
    assert several.json()["started"] is False
    assert several.json()["without_effect"] == ["--workers", "--no-gpu", "--profile", "--output"]


@pytest.mark.more
def test_two_starts_at_once_with_options_say_whose_hold(fresh: Program) -> None:
    starts = [fresh.spawn("up", "--detach", "--workers", number, "--json") for number in "12"]
    answers = [json.loads(process.communicate(timeout=WAIT_S)[0]) for process in starts]
    (won,) = [number for number, answer in enumerate(answers) if answer["started"]]
    assert [answer["without_effect"] for answer in answers if not answer["started"]] == [["--workers"]]
    assert len(fresh("status", "--json").json()["workers"]) == won + 1


@pytest.mark.slow
def test_two_starts_at_once_make_one_supervisor(fresh: Program) -> None:
    with fresh.spawn("up", "--detach", "--json") as one, fresh.spawn("up", "--detach", "--json") as other:
        answers = [json.loads(process.communicate(timeout=WAIT_S)[0]) for process in (one, other)]
    assert answers[0]["pid"] == answers[1]["pid"]


@pytest.mark.more
def test_the_second_of_two_foreground_starts_is_refused(fresh: Program) -> None:
    starts = [fresh.spawn("up"), fresh.spawn("up")]
    loser = until(lambda: next((start for start in starts if start.poll() is not None), None))
    assert loser.returncode in (0, 4)
    output = b"".join(loser.communicate())
    assert (b"ALREADY_RUNNING" if loser.returncode == 4 else b"runs already") in output
    until(lambda: fresh("status").code == 0)
    assert fresh("down").code == 0
    (winner,) = [start for start in starts if start is not loser]
    winner.communicate(timeout=WAIT_S)
    assert winner.returncode == 0


@pytest.mark.slow
def test_a_supervisor_that_cannot_start_says_why(fresh: Program) -> None:
    answer = fresh("up", "--detach", TQSTUDIO_LEASE_S="never")
    assert answer.code == 2
    assert answer.err.startswith("error: BAD_CONFIG: ")
    assert "lease_s" in answer.err
    answer = fresh("up", "--detach", "--profile", "wbe")
    assert answer.code == 2
    assert "the setting profile names 'wbe'" in answer.err
    assert "web" in answer.err


def test_autorestart_is_asked_for_and_shown(up: Program, clips: Path, tmp_path: Path) -> None:
    file = tmp_path / "restarts.mp4"
    file.write_bytes((clips / "short.mp4").read_bytes())
    (added,) = up("add", str(file), "--hold", "--autorestart", "3", "--delay", "5", "--json").json()[
        "results"
    ]
    rule = up("job", "show", str(added["job"]), "--json").json()["autorestart"]
    assert (rule["state"], rule["limit"], rule["delay_s"], rule["restarts"]) == ("enabled", 3, 5, 0)
    assert "restarts automatically 5s after a failure, 3 times" in up("job", "show", str(added["job"])).out
    assert up("add", str(file), "--delay", "5").code == 2
    folder = up("folder", "add", str(tmp_path), "--no-recursive", "--autorestart", "2", "--json").json()
    assert (folder["autorestart"], folder["autorestart_delay_s"]) == (2, 60)
    edited = up("folder", "edit", str(folder["id"]), "--autorestart", "0", "--delay", "9", "--json").json()
    assert (edited["autorestart"], edited["autorestart_delay_s"]) == (0, 9)
    up("folder", "edit", str(folder["id"]), "--autorestart", "4")
    off = up("folder", "edit", str(folder["id"]), "--no-autorestart", "--json").json()
    assert off["autorestart"] == 0
    both = up("add", str(file), "--autorestart", "2", "--no-autorestart")
    assert both.code == 2
    assert "exclude each other" in both.err
    again = up("add", str(file), "--no-autorestart")
    assert "now with autorestart off" in again.out
    assert up("job", "show", str(added["job"]), "--json").json()["autorestart"]["state"] == "disabled"
    assert up("folder", "remove", str(folder["id"])).code == 0


def test_status(up: Program) -> None:
    view = up("status", "--json").json()
    assert {"supervisor", "jobs", "workers", "gates", "disk"} <= set(view)
    assert {"pid", "version", "started_at"} <= set(view["supervisor"])
    assert {"name", "kind", "status", "pid", "job"} <= set(view["workers"][0])
    assert f"supervisor.pid {view['supervisor']['pid']}" in up("status", "--plain").out.splitlines()
    assert "cpu-0" in up("status").out


# process


@pytest.mark.slow
def test_process_makes_a_ladder_once(fresh: Program, clips: Path, tmp_path: Path) -> None:
    arguments = ("process", "-i", f"{clips}/short.mp4", "-o", str(tmp_path / "out"), "--resume", "--json")
    done = fresh(*arguments)
    assert done.code == 0, done.err
    report = done.last_line()
    assert set(report["summary"]) == {"total", "done", "failed", "cached", "cancelled", "warnings", "seconds"}
    assert (report["summary"]["total"], report["summary"]["done"]) == (1, 1)
    (video,) = report["videos"]
    assert set(video) == {
        "source",
        "source_b64",
        "slug",
        "status",
        "master",
        "master_b64",
        "renditions",
        "error",
        "warnings",
    }
    assert video["source"] == str(clips / "short.mp4")
    assert video["status"] == "done"
    assert video["error"] is None
    assert Path(video["master"]).is_relative_to(tmp_path / "out")
    assert Path(video["master"]).read_text().startswith("#EXTM3U")
    made = [r for r in video["renditions"] if r["status"] == "completed"]
    assert made
    assert all(set(r) == {"name", "status", "segments_done", "segments_total"} for r in made)
    assert all(r["segments_done"] == r["segments_total"] >= 1 for r in made)
    assert fresh("status").code == 3, "it stops the supervisor that it started"

    cached = fresh(*arguments)
    assert cached.code == 0, cached.err
    assert cached.last_line()["summary"]["cached"] == 1
    (video,) = cached.last_line()["videos"]
    assert video["status"] == "cached"
    assert Path(video["master"]).is_file()
    assert [r["name"] for r in video["renditions"] if r["status"] == "completed"] == [r["name"] for r in made]

    assert fresh("queue", "clear", "--yes").code == 0
    assert fresh("down").code == 0
    assert fresh(*arguments).last_line()["videos"] == [video], "it is the same when its job is off the list"


@pytest.mark.more
def test_process_continues_after_a_file_that_is_no_video(fresh: Program, clips: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    names = [b"[red]x.mp4", b"caf\xe9.mp4", b"-y.mp4"]
    for name in names:
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes((clips / "short.mp4").read_bytes())
    (folder / "text.mp4").write_text("not a video\n")
    answer = fresh("process", "-i", str(folder), "-o", str(tmp_path / "out"))
    assert answer.code == 1
    assert "NO_MEDIA" in answer.out
    (log,) = re.findall(r"^  log: (.*)$", answer.out, re.MULTILINE)
    assert Path(log).is_file()
    assert "4 videos: 3 done, 1 failed" in answer.out
    assert "[red]x.mp4: done" in answer.out
    assert "caf\\xe9.mp4: done" in answer.out
    assert sorted(path.name for path in folder.iterdir()) == sorted([*map(os.fsdecode, names), "text.mp4"])


def test_process_refuses_workers_where_one_runs(up: Program, clips: Path) -> None:
    answer = up("process", "-i", f"{clips}/short.mp4", "--workers", "2")
    assert answer.code == 4
    assert answer.err.startswith("error: REFUSED: ")


@pytest.mark.slow
def test_process_says_what_it_waits_for(up: Program, clips: Path, tmp_path: Path) -> None:
    for name in ("long", "short"):
        (tmp_path / f"{name}.mp4").write_bytes((clips / f"{name}.mp4").read_bytes())
    job = _only(up("add", f"{tmp_path}/long.mp4", "-o", str(tmp_path / "out"), "--json"))["job"]
    until(lambda: _status_of(up, job) == "in_progress")
    with up.spawn("process", "-i", f"{tmp_path}/short.mp4", "-o", str(tmp_path / "out")) as process:
        assert process.stdout is not None
        assert b"waiting for other running jobs" in process.stdout.readline()
        _only(up("job", "cancel", str(job), "--json"))
        out, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    assert b"1 video: 1 done" in out


def test_an_unknown_profile_makes_no_job(up: Program, clips: Path) -> None:
    before = up("queue", "status", "--json").json()["total"]
    answer = up("process", "-i", f"{clips}/short.mp4", "--profile", "nonsense", "--json")
    assert answer.code == 2
    assert answer.last_line()["error"]["code"] == "BAD_CONFIG"
    assert "fast" in answer.err
    assert up("queue", "status", "--json").json()["total"] == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_the_rest_queued(up: Program, clips: Path, tmp_path: Path, number: int) -> None:
    source = tmp_path / "long.mp4"
    source.write_bytes((clips / "long.mp4").read_bytes())
    with up.spawn("process", "-i", str(source), "-o", str(tmp_path / "out"), "--json") as process:
        until(lambda: up("job", "list", "-s", "in_progress", "--json").json()["jobs"])
        process.send_signal(number)
        out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    assert b"1 of 1 video left in the queue, which the supervisor encodes; run it again to wait" in err
    assert json.loads(out.splitlines()[-1])["videos"][0]["status"] == "in_progress"
    (job,) = up("job", "list", "-s", "in_progress", "--json").json()["jobs"]
    _only(up("job", "cancel", str(job["id"]), "--json"))
    until(lambda: _status_of(up, job["id"]) == "cancelled")


@pytest.mark.more
@pytest.mark.parametrize("verb", ["process", pytest.param("queue process", marks=pytest.mark.more)])
def test_a_run_whose_supervisor_is_stopped_sums_up(
    verb: str, fresh: Program, clips: Path, tmp_path: Path
) -> None:
    source = tmp_path / "long.mp4"
    source.write_bytes((clips / "long.mp4").read_bytes())
    files = ("-i", str(source), "-o", str(tmp_path / "out"))
    if verb == "queue process":
        assert fresh("process", *files, "--no-process").code == 0
        files = ()
    with fresh.spawn(*verb.split(), *files) as process:
        until(lambda: fresh("job", "list", "-s", "in_progress").out.startswith("ID"))
        assert fresh("down").code == 0
        out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 3
    assert b"the supervisor was stopped during the run" in err
    assert b"1 of 1 video left in the queue; run it again to continue" in err
    assert b"1 video: 1 left" in out


def _wait_for_jobs(shell: Program, status: str, count: int) -> list[int]:
    def ids() -> list[int]:
        answer = shell("job", "list", "-s", status, "--json")
        return [job["id"] for job in answer.json()["jobs"]] if answer.code == 0 else []

    return list(until(lambda: found if len(found := ids()) == count else None))


def _is_left(process: subprocess.Popen[bytes], how: str) -> bytes:
    """Interrupt a run, or stop reading what it prints; answers what it printed."""
    assert process.stdout is not None
    assert process.stderr is not None
    if how == "ctrl-c":
        process.send_signal(signal.SIGINT)
    else:
        process.stdout.close()
    output = process.stderr.read()
    assert process.wait(timeout=WAIT_S) in ((130,) if how == "ctrl-c" else (1, 141)), output
    return output


@pytest.mark.more
@pytest.mark.parametrize("how", ["ctrl-c", pytest.param("head", marks=pytest.mark.more)])
def test_a_run_leaves_the_supervisor_it_started_to_jobs_of_others(
    how: str, fresh: Program, clips: Path, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    with fresh.spawn("process", "-i", f"{clips}/long.mp4", "-o", out) as process:
        (long,) = _wait_for_jobs(fresh, "in_progress", 1)
        assert fresh("add", f"{clips}/short.mp4", "-o", out).code == 0
        output = _is_left(process, how)
    assert b") keeps running: other jobs are open; stop it with: tqstudio --home " in output
    assert fresh("job", "cancel", str(long)).code == 0
    until(lambda: fresh("status").code == 3, "it ends when the other job has ended")


@pytest.mark.more
@pytest.mark.parametrize("how", ["ctrl-c", "head"])
def test_a_run_stops_its_supervisor_when_only_its_own_jobs_are_open(
    how: str, fresh: Program, clips: Path, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    with fresh.spawn("process", "-i", f"{clips}/long.mp4", "-o", out) as process:
        _wait_for_jobs(fresh, "in_progress", 1)
        assert fresh("add", f"{clips}/short.mp4", "-o", out, "--hold").code == 0
        output = _is_left(process, how)
    assert b"keeps running" not in output
    assert fresh("status").code == 3


@pytest.mark.more
@pytest.mark.fault(
    "The command that started the supervisor ends while others need it",
    "It runs until they have ended",
    area="supervisor",
)
def test_a_run_leaves_the_supervisor_it_started_to_another_run(
    fresh: Program, clips: Path, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    with fresh.spawn("process", "-i", f"{clips}/long.mp4", "-o", out) as first:
        (long,) = _wait_for_jobs(fresh, "in_progress", 1)
        with fresh.spawn("queue", "process", "--json") as second:
            # It works on the same job: no other one is open, and yet it is not alone.
            assert second.stderr is not None
            until(lambda: b"long.mp4" in second.stderr.readline())
            output = _is_left(first, "ctrl-c")
            assert b") keeps running: another command uses it; " in output
            assert fresh("job", "cancel", str(long)).code == 0
            answer, _ = second.communicate(timeout=WAIT_S)
    assert second.returncode == 1
    assert json.loads(answer.splitlines()[-1])["summary"]["cancelled"] == 1
    until(lambda: fresh("status").code == 3, "the last one has stopped it")


@pytest.mark.more
@pytest.mark.fault(
    "The command that started the supervisor is killed",
    "The supervisor ends when no job is left that waits or runs",
    area="supervisor",
)
def test_a_supervisor_ends_after_a_run_that_was_killed(fresh: Program, clips: Path, tmp_path: Path) -> None:
    with fresh.spawn("process", "-i", f"{clips}/long.mp4", "-o", str(tmp_path / "out")) as process:
        (long,) = _wait_for_jobs(fresh, "in_progress", 1)
        process.kill()
    assert fresh("status").code == 0, "its job is still running"
    assert fresh("job", "cancel", str(long)).code == 0
    until(lambda: fresh("status").code == 3)


@pytest.mark.more
def test_a_supervisor_stays_if_it_is_asked_to_during_the_run(
    fresh: Program, clips: Path, tmp_path: Path
) -> None:
    with fresh.spawn("process", "-i", f"{clips}/long.mp4", "-o", str(tmp_path / "out")) as process:
        _wait_for_jobs(fresh, "in_progress", 1)
        assert "already running" in fresh("up", "--detach").out
        output = _is_left(process, "ctrl-c")
    assert b") keeps running: the terminal UI or `tqstudio up` asked for it; " in output
    assert fresh("job", "list", "-s", "in_progress").out.startswith("ID")
    assert fresh("down").code == 0


# Adding what is there already


def _shown(shell: Program, job: int) -> Any:
    return shell("job", "show", str(job), "--json").json()


def test_adding_again_changes_a_waiting_job(up: Program, held: int, tmp_path: Path) -> None:
    source, out = str(tmp_path / "held.mp4"), str(tmp_path / "out")
    plain = up("add", source, "-o", out)
    assert plain.code == 0
    assert f"is paused as job {held}; resume it with: tqstudio job resume {held}" in plain.out
    assert "now with" not in plain.out

    changed = up("add", source, "-o", out, "--profile", "web", "--priority", "-5")
    assert changed.code == 0, changed.err
    assert "now with profile web and priority -5" in changed.out
    job = _shown(up, held)
    assert (job["profile"], job["priority"], job["status"]) == ("web", -5, "paused")
    assert [event["detail"] for event in job["events"] if event["trigger"] == "profile_changed"] == [
        "profile web"
    ]
    assert _only(up("add", source, "-o", out, "--profile", "web", "--json"))["applied"] == {}

    other = up("add", source, "-o", str(tmp_path / "other"), "--hold")
    assert f"(job {held} encodes the same file for another output)" in other.out
    (row,) = up("job", "list", "--text", "held.mp4", "--limit", "1", "--sort", "newest", "--json").json()[
        "jobs"
    ]
    assert up("job", "delete", str(row["id"])).code == 0


def test_what_is_noted_with_a_job_is_shown(up: Program, held: int, tmp_path: Path) -> None:
    source, out = str(tmp_path / "held.mp4"), str(tmp_path / "out")
    notes = ("--meta", "client=acme & sons", "--meta", "order=a=b")
    assert "now with metadata client, order" in up("add", source, "-o", out, *notes).out
    assert _shown(up, held)["metadata"] == {"client": "acme & sons", "order": "a=b"}
    assert (
        "now with metadata order" in up("process", source, "-o", out, "--no-process", "--meta", "order=").out
    )
    assert "  metadata   client=acme & sons, order=\n" in up("job", "show", str(held)).out


def test_adding_again_holds_a_job_that_waits(up: Program, held: int, tmp_path: Path) -> None:
    assert up("queue", "pause").code == 0
    assert up("job", "resume", str(held)).code == 0
    assert "  waits      the queue is paused\n" in up("job", "show", str(held)).out
    answer = up("add", str(tmp_path / "held.mp4"), "-o", str(tmp_path / "out"), "--hold")
    assert "; held" in answer.out
    assert _status_of(up, held) == "paused"
    assert "  waits " not in up("job", "show", str(held)).out
    assert up("queue", "resume").code == 0


def test_adding_again_cannot_change_a_running_job(up: Program, clips: Path, tmp_path: Path) -> None:
    source = tmp_path / "long.mp4"
    source.write_bytes((clips / "long.mp4").read_bytes())
    arguments = ("add", str(source), "-o", str(tmp_path / "out"))
    job = _only(up(*arguments, "--json"))["job"]
    until(lambda: _status_of(up, job) == "in_progress")
    assert f"job {job} is already encoding it" in up(*arguments, "--profile", "fast", "--priority", "9").out
    for more, remedy in (
        (("--profile", "web"), f"tqstudio job retranscode {job} --profile web"),
        (("--set", "video.crf=30"), "add it again when"),
        (("--hold",), f"tqstudio job pause {job}"),
    ):
        refused = up(*arguments, *more)
        assert refused.code == 4, refused.out
        assert refused.err.startswith(f"error: REFUSED: job {job} is encoding long.mp4")
        assert remedy in refused.err
    run = up("process", "-i", str(source), "-o", str(tmp_path / "out"), "--profile", "web", "--json")
    assert run.code == 4, run.err
    (video,) = run.last_line()["videos"]
    assert (video["status"], video["error"]["code"]) == ("rejected", "REFUSED")
    assert _shown(up, job)["profile"] == "fast"
    _only(up("job", "cancel", str(job), "--json"))
    until(lambda: _status_of(up, job) == "cancelled")


def test_retranscode_with_another_profile(up: Program, held: int) -> None:
    assert _only(up("job", "resume", str(held), "--json"))["ok"] is True
    until(lambda: _status_of(up, held) == "done")

    unknown = up("job", "retranscode", str(held), "--profile", "nonsense")
    assert unknown.code == 2
    assert unknown.err.startswith("error: BAD_CONFIG: there is no profile nonsense\n")
    assert "fast, web" in unknown.err
    missing = up("job", "retranscode", str(held), "--profile", "fast", "--quality", "1080p")
    assert missing.code == 4
    assert "no quality 1080p with the profile fast" in missing.err
    (only,) = _shown(up, held)["video_view"]["generation"]["renditions"]
    for name, expected in (("361p", "no quality 361p to drop"), (only["name"], "no quality left without")):
        refused = up("job", "retranscode", str(held), "--drop", name)
        assert (refused.code, expected in refused.err) == (4, True)

    assert up("queue", "pause").code == 0
    made = up("job", "retranscode", str(held), "--profile", "web", "--priority", "7")
    assert made.code == 0, made.err
    assert f"encodes the ladder of job {held} again, with profile web" in made.out
    new = int(made.out.split()[1])
    job = _shown(up, new)
    assert (job["kind"], job["profile"], job["priority"]) == ("retranscode", "web", 7)
    assert up("queue", "resume").code == 0
    until(lambda: _status_of(up, new) == "done")
    assert _shown(up, new)["video_view"]["generation"]["number"] == 2


# Jobs


@pytest.fixture
def held(up: Program, clips: Path, tmp_path: Path) -> Iterator[int]:
    """A job that waits, paused."""
    source = tmp_path / "held.mp4"
    source.write_bytes((clips / "short.mp4").read_bytes())
    answer = up("add", str(source), "-o", str(tmp_path / "out"), "--hold", "--json")
    job = _only(answer)["job"]
    yield job
    up("job", "cancel", str(job))
    up("job", "delete", str(job))


def test_a_held_job_gets_other_settings(up: Program, held: int) -> None:
    dry = up("job", "change", str(held), "--profile", "web", "--dry-run")
    assert (dry.code, dry.out.splitlines()[0]) == (0, "1 job: 1 changed")
    assert _shown(up, held)["profile"] == "fast"
    changed = up("job", "change", str(held), "--profile", "web", "--set", "crf=33", "--priority", "4")
    assert (changed.code, changed.out) == (0, f"job {held} changed: paused\n")
    assert [_shown(up, held)[name] for name in ("profile", "priority")] == ["web", 4]
    refused = up("job", "change", str(held), "--set", "crf=99")
    assert refused.code == 4
    assert f"job {held} cannot have these settings: video.crf cannot be 99; allowed" in refused.err
    unknown = up("job", "change", str(held), "--profile", "web", "--set", "crf=99")
    assert (unknown.code, unknown.err.startswith("error: BAD_CONFIG: video.crf cannot be 99")) == (2, True)
    assert up("undo").out.startswith("the former settings of job ")
    assert [_shown(up, held)[name] for name in ("profile", "priority")] == ["fast", 0]


def test_columns_of_lists_are_chosen(up: Program, held: int) -> None:
    jobs = up("job", "list", "--columns", "video,id,priority,profile,owner").out.splitlines()
    assert jobs[0].split() == ["VIDEO", "ID", "PRIORITY", "PROFILE", "OWNER"]
    assert ["held.mp4", str(held), "0", "fast", "user"] in [line.split() for line in jobs[1:]]
    workers = up("worker", "list", "--columns", "status,worker")
    assert [line.split()[-1] for line in workers.out.splitlines()] == ["WORKER", "cpu-0"]
    assert up("video", "list", "--columns", "video").out.splitlines()[0] == "VIDEO"
    assert up("profile", "list", "--columns", "from").out.split()[:2] == ["FROM", "shipped"]
    assert up("token", "list", "--columns", "role").code == up("alert", "list", "--columns", "due").code == 0


def test_a_job_through_its_life(up: Program, held: int) -> None:
    assert up("job", "list").out.splitlines()[0].split()[:2] == ["ID", "STATE"]
    assert _status_of(up, held) == "paused"
    assert _only(up("job", "resume", str(held), "--json"))["ok"] is True
    until(lambda: _status_of(up, held) == "done")
    commands = up("job", "command", str(held))
    assert commands.code == 0
    assert "ffmpeg" in commands.out
    shown = up("job", "show", str(held))
    assert "master.m3u8" in shown.out
    log = up("job", "log", str(held))
    assert (log.code, up("job", "log", str(held), "--follow").out) == (0, log.out), "it has ended"

    refused = up("job", "pause", str(held))
    assert refused.code == 4
    assert refused.err.startswith("error: REFUSED: ")

    new = _only(up("job", "retranscode", str(held), "--json"))["new_job"]
    assert new != held
    until(lambda: _status_of(up, new) == "done")
    output = up("events", "--job", str(new), "--json").out.splitlines()
    assert [json.loads(line)["target"] for line in output if json.loads(line)["target"]][-1] == "done"
    assert "published" in [json.loads(line)["trigger"] for line in output], "when its ladder began to play"


def test_the_commands_of_a_job_run_in_bash(up: Program, clips: Path, tmp_path: Path) -> None:
    source = os.fsencode(tmp_path) + b"/caf\xe9 'one'.mp4"
    Path(os.fsdecode(source)).write_bytes((clips / "short.mp4").read_bytes())
    job = _only(up("add", source, "-o", str(tmp_path / "out"), "--json"))["job"]
    until(lambda: _status_of(up, job) == "done")
    shown = up("job", "show", str(job)).out
    assert "running" in shown
    assert "in_progress" not in shown
    (tmp_path / "again").mkdir()
    script = up("job", "command", str(job)).out
    subprocess.run(["bash", "-ec", script], cwd=tmp_path / "again", check=True, capture_output=True)
    assert list((tmp_path / "again").glob("*/index.m3u8"))
    assert list((tmp_path / "again").glob("*/*.m4s"))


def test_priority_delete_and_undelete(up: Program, held: int) -> None:
    def priority() -> int:
        return int(up("job", "show", str(held), "--json").json()["priority"])

    for wanted, expected, how in (
        ("7", 7, "7"),
        ("+5", 12, "changed by +5"),
        ("-2", 10, "changed by -2"),
        ("=-3", -3, "-3"),
    ):
        answer = up("job", "priority", str(held), wanted)
        assert (answer.code, answer.out) == (0, f"job {held}: priority {how}\n")
        assert priority() == expected
    assert up("job", "delete", str(held)).code == 0
    assert held not in [job["id"] for job in up("job", "list", "--json").json()["jobs"]]
    assert up("job", "undelete", str(held)).code == 0
    assert held in [job["id"] for job in up("job", "list", "--json").json()["jobs"]]
    assert up("job", "cancel", str(held)).code == 0
    assert up("job", "retry", str(held)).code == 0
    until(lambda: _status_of(up, held) == "done")


def test_a_filter_chooses_the_jobs(up: Program, clips: Path, tmp_path: Path) -> None:
    source = tmp_path / "chosen.mp4"
    source.write_bytes((clips / "short.mp4").read_bytes())
    added = up("add", str(source), "-o", str(tmp_path / "out"), "--hold", "--json")
    chosen = _only(added)["job"]

    def listed(line: str, *more: str) -> list[int]:
        answer = up("job", "list", "--filter", line, "--json", *more)
        assert answer.code == 0, answer.err
        return [row["id"] for row in answer.json()["jobs"]]

    assert listed("state:pau chosen") == [chosen]
    assert listed("!state:paused chosen") == []
    assert listed("chosen", "--status", "paused", "--sort", "-size") == [chosen]
    raised = up("job", "priority", "41", "--filter", "chosen state:paused,failed", "--json")
    assert raised.json() == {"done": 1, "skipped": {}, "reason": "", "removed_segments": 0, "stopped": False}
    assert _shown(up, chosen)["priority"] == 41
    assert up("job", "cancel", "--filter", "chosen !state:done").out == "1 cancelled\n"
    refused = up("job", "pause", "--filter", "chosen")
    assert (refused.code, refused.out) == (4, "0 paused, 1 skipped: cancelled\n")
    assert f"error: REFUSED: job {chosen} is cancelled; retry it first" in refused.err
    for profile in ([], ["--profile", "fast"]):
        refused = up("job", "retranscode", "--filter", "chosen", "--drop", "storyboard", *profile)
        assert refused.code == 4
        assert f"job {chosen} is cancelled; use retry or restart" in refused.err
    assert up("job", "delete", "--filter", "chosen state:cancelled").code == 0
    assert listed("chosen") == []
    assert listed("state:deleted chosen state:cancelled") == [chosen]
    restored = up("job", "undelete", "--filter", "state:deleted chosen state:cancelled")
    assert (restored.code, restored.out) == (0, "1 restored\n")
    assert listed("chosen state:cancelled") == [chosen]
    up("job", "cancel", str(chosen))
    up("job", "delete", str(chosen))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("pause", "--filter", "colour:red"), "unknown word “colour:”"),
        (("pause", "--filter", "state:d"), "may be deleted or done"),
        (("retry", "--filter", "folder:nowhere"), "there is no drop folder “nowhere”"),
        (("retry", "--filter", "older:x"), "older: “x” is no time"),
        (("list", "--filter", 'a "b'), "a quote is not closed"),
        (("list", "--filter", "code:"), "“code:” needs a value"),
        (("list", "--status", "asleep"), "unknown state “asleep”"),
        (("list", "--sort", "colour"), "jobs cannot be sorted by “colour”"),
        (("delete",), "no job is chosen"),
        (("delete", "--filter", " "), "no job is chosen"),
        (("delete", "1", "--filter", "x"), "not by both"),
        (("priority", "1", "7", "--filter", "x"), "not by both"),
        (("priority", "--filter", "x", "high"), "is not “ID... PRIORITY”"),
    ],
)
def test_a_filter_that_cannot_be_used_is_refused(up: Program, words: tuple[str, ...], message: str) -> None:
    answer = up("job", *words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: BAD_REQUEST: ")
    assert message in answer.err


def test_a_filter_of_no_job_is_an_error(up: Program) -> None:
    answer = up("job", "cancel", "--filter", "no-such-name-anywhere")
    assert answer.code == 4
    assert answer.err.startswith("error: NOT_FOUND: no job matches the filter")


def test_a_job_that_does_not_exist(up: Program) -> None:
    assert up("job", "show", "99999").code == 4
    answer = up("job", "cancel", "99999", "--json")
    assert answer.code == 4
    assert answer.json()["results"][0]["error"]["code"] == "NOT_FOUND"


# The queue, folders, workers, events


def test_pausing_the_queue_changes_no_job(up: Program) -> None:
    assert up("queue", "pause", "--reason", "maintenance").code == 0
    gates = up("queue", "status", "--json").json()["gates"]
    assert [gate["kind"] for gate in gates] == ["user"]
    assert "blocked" in up("status").out
    assert up("queue", "resume").code == 0
    assert up("queue", "status", "--json").json()["gates"] == []


def test_a_pause_of_the_queue_ends_when_it_is_asked_to(up: Program) -> None:
    paused = up("queue", "pause", "--until", "2h")
    [gate] = up("queue", "status", "--json").json()["gates"]
    end = datetime.fromisoformat(gate["until"])
    assert timedelta(minutes=100) < end - datetime.now(UTC) <= timedelta(hours=2)
    assert f"the queue is paused until {end.astimezone():%m-%d %H:%M}; " in paused.out
    assert f"paused by user until {end.astimezone():%m-%d %H:%M}" in up("status").out
    for wrong in ("later", "25:00", "2001-01-01"):
        answer = up("queue", "pause", "--until", wrong, "--json")
        assert answer.code == 2
        assert answer.json()["error"]["code"] == "BAD_REQUEST"
    assert up("queue", "resume").code == 0


def _no_video(folder: Path, name: str) -> str:
    path = folder / name
    path.write_text(f"no video {name}")
    return str(path)


def test_queue_retry(up: Program, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    paths = [_no_video(tmp_path, f"{number}.mp4") for number in range(3)]
    answers = [up("add", *some, "-o", out, "--json").json() for some in (paths[:2], paths[2:])]
    ids = [[result["job"] for result in answer["results"]] for answer in answers]
    until(lambda: all(_status_of(up, job) == "failed" for job in [*ids[0], *ids[1]]))
    assert "→ tqstudio job list --status failed\n" in up("status").out
    assert "NO_MEDIA" in up("job", "list", "--status", "failed").out

    def retries(job: int) -> int:
        return [event["trigger"] for event in _shown(up, job)["events"]].count("retry")

    one = up("queue", "retry", "--batch", answers[1]["batch"])
    assert one.code == 0, one.err
    assert one.out == "1 failed job requeued\n"
    assert [retries(job) for job in [*ids[0], *ids[1]]] == [0, 0, 1]
    until(lambda: _status_of(up, ids[1][0]) == "failed")

    everything = up("queue", "retry", "--json").json()
    assert everything["retried"] >= 3
    assert everything["refused"] == []
    assert [retries(job) for job in [*ids[0], *ids[1]]] == [1, 1, 2]
    until(lambda: all(_status_of(up, job) == "failed" for job in [*ids[0], *ids[1]]))


def _asked(shell: Program, answer: str, *arguments: str) -> tuple[int, str]:
    """Run a command on a terminal and answer its question."""
    mine, its = pty.openpty()
    with subprocess.Popen(
        shell.command(*arguments), stdin=its, stdout=its, stderr=its, env=shell.environment
    ) as process:
        os.close(its)
        output = b""
        while b"[y/N]" not in output:
            output += os.read(mine, 1000)
        os.write(mine, f"{answer}\n".encode())
        with contextlib.suppress(OSError):  # the terminal is gone with its last user
            while chunk := os.read(mine, 1000):
                output += chunk
        code = process.wait(timeout=WAIT_S)
    os.close(mine)
    return code, output.decode()


@pytest.mark.more
def test_queue_clear(fresh: Program, clips: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    assert fresh("up", "--detach").code == 0
    assert "nothing to clear" in fresh("queue", "clear").out
    done = _only(fresh("add", f"{clips}/short.mp4", "-o", out, "--json"))["job"]
    failed = _only(fresh("add", _no_video(tmp_path, "x.mp4"), "-o", out, "--json"))["job"]
    held = _only(fresh("add", _no_video(tmp_path, "y.mp4"), "-o", out, "--hold", "--json"))["job"]
    until(lambda: (_status_of(fresh, done), _status_of(fresh, failed)) == ("done", "failed"))

    unasked = fresh("queue", "clear")
    assert unasked.code == 2
    assert "remove 2 ended jobs from the list, which needs a confirmation" in unasked.err
    assert "--yes" in unasked.err
    code, output = _asked(fresh, "n", "queue", "clear")
    assert code == 4
    assert "nothing was changed" in output
    assert len(fresh("job", "list", "--json").json()["jobs"]) == 3

    code, output = _asked(fresh, "y", "queue", "clear")
    assert code == 0
    assert "2 jobs removed from the list, the ladders stay" in output
    assert [job["id"] for job in fresh("job", "list", "--json").json()["jobs"]] == [held]
    deleted = fresh("job", "list", "--deleted", "--json").json()["jobs"]
    assert sorted(job["id"] for job in deleted) == [done, failed]
    assert Path(_shown(fresh, done)["video_view"]["generation"]["master"]).is_file()
    assert up_again(fresh, done) == "done"

    answer = fresh("queue", "clear", "--history", "--yes", "--json").json()
    assert answer["deleted"] == 1
    assert answer["pruned"] > 10
    (left,) = [json.loads(line) for line in fresh("events", "--since", "1h", "--json").out.splitlines()]
    assert (left["trigger"], left["actor"]) == ("pruned", "user")
    assert str(answer["pruned"]) in left["detail"]
    assert _status_of(fresh, held) == "paused"


def up_again(shell: Program, job: int) -> str:
    assert shell("job", "undelete", str(job)).code == 0
    return _status_of(shell, job)


def _segments(shell: Program, job: int) -> int:
    return sum(rendition["segments_done"] for rendition in _shown(shell, job)["renditions"])


@pytest.mark.more
def test_deleting_says_what_is_lost(fresh: Program, tmp_path: Path) -> None:
    """By a job's deletion, and by that of all that ended; undoing brings back a truthful job."""
    assert fresh("up", "--detach").code == 0
    # Small, so that a segment is soon made; long, so that it is not done before it is cancelled.
    source = str(_clip(tmp_path / "small.mp4", "320x240", 240))
    job = _only(fresh("add", source, "-o", str(tmp_path / "out"), "--json"))["job"]

    def work_and_stop() -> str:
        """Whole segments of all qualities, in words, once they are counted and the job is cancelled."""
        until(lambda: _segments(fresh, job), timeout_s=COMMAND_TIMEOUT_S)
        assert fresh("job", "cancel", str(job)).code == 0
        until(lambda: _status_of(fresh, job) == "cancelled")
        count = _segments(fresh, job)
        return f"{count} finished segment{'' if count == 1 else 's'}"

    made = work_and_stop()
    answer = fresh("job", "delete", str(job))
    back = f"tqstudio job undelete {job} restores only the job"
    assert answer.out == f"job {job} deleted with {made}; {back}\n"
    assert up_again(fresh, job) == "cancelled"
    shown = _shown(fresh, job)
    assert (shown["progress"], _segments(fresh, job)) == (0, 0)
    events = [json.loads(line) for line in fresh("events", "--job", str(job), "--json").out.splitlines()]
    assert [event["detail"] for event in events if event["trigger"] == "work_removed"] == [made]
    # Nothing is left to lose: it is not reported again.
    assert "undo with: tqstudio job undelete" in fresh("job", "delete", str(job)).out

    assert up_again(fresh, job) == "cancelled"
    assert fresh("job", "retry", str(job)).code == 0
    made = work_and_stop()
    unasked = fresh("queue", "clear")
    assert (
        f"remove 1 ended job from the list, and permanently delete {made} of failed and cancelled jobs"
        in unasked.err
    )
    assert f"{made} of failed and cancelled jobs deleted permanently" in fresh("queue", "clear", "--yes").out


@pytest.mark.slow
def test_queue_process_works_until_nothing_is_left(fresh: Program, clips: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "in", str(tmp_path / "out")
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.mp4").write_bytes((clips / "short.mp4").read_bytes())
    assert fresh("process", "-i", str(folder), "-o", out, "--no-process").code == 0
    done = fresh("queue", "process")
    assert done.code == 0, done.err
    assert "2 videos: 2 done, in " in done.out
    assert "started one for this run" in done.err
    assert fresh("status").code == 3
    assert fresh("queue", "process", "--workers", "2").out == "nothing to do\n"


@pytest.mark.more
def test_queue_process_stops_after_so_many_jobs(fresh: Program, clips: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "in", str(tmp_path / "out")
    folder.mkdir()
    for name in ("short", "long"):
        (folder / f"{name}.mp4").write_bytes((clips / f"{name}.mp4").read_bytes())
    assert fresh("process", "-i", str(folder), "-o", out, "--no-process", "--order", "size").code == 0
    some = fresh("queue", "process", "--max-jobs", "1", "--json")
    assert some.code == 0, some.err
    report = some.last_line()
    assert (report["summary"]["total"], report["summary"]["done"]) == (2, 1)
    assert {Path(video["source"]).name: video["status"] == "done" for video in report["videos"]} == {
        "short.mp4": True,
        "long.mp4": False,
    }
    assert fresh("status").code == 3
    assert fresh("up", "--detach").code == 0
    assert "running" in fresh("queue", "status").out
    refused = fresh("queue", "process", "--workers", "2")
    assert refused.code == 4
    assert refused.err.startswith("error: REFUSED: ")


@pytest.mark.more
@pytest.mark.parametrize("verb", ["process", "queue process"])
def test_what_a_run_has_made_may_be_taken_off_the_list_meanwhile(
    verb: str, fresh: Program, clips: Path, tmp_path: Path
) -> None:
    folder, out = tmp_path / "in", str(tmp_path / "out")
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.mp4").write_bytes((clips / "short.mp4").read_bytes())
    assert fresh("process", "-i", f"{folder}/a.mp4", "-o", out).code == 0
    (folder / "long.mp4").write_bytes((clips / "long.mp4").read_bytes())
    files: tuple[str, ...] = ("-i", str(folder), "-o", out, "--order", "size")
    if verb == "queue process":
        assert fresh("process", *files, "--no-process").code == 0
        files = ()
    with fresh.spawn(*verb.split(), *files, "--json") as process:
        _wait_for_jobs(fresh, "done", 2)
        (long,) = _wait_for_jobs(fresh, "in_progress", 1)
        assert fresh("queue", "clear", "--yes", "--json").json()["deleted"] == 2
        assert fresh("job", "cancel", str(long)).code == 0
        answer, _ = process.communicate(timeout=WAIT_S)
    videos = json.loads(answer.splitlines()[-1])["videos"]
    statuses = {Path(video["source"]).name: video["status"] for video in videos}
    cached = {"a.mp4": "cached"} if verb == "process" else {}
    assert statuses == cached | {"b.mp4": "done", "long.mp4": "cancelled"}


def test_a_drop_folder(up: Program, clips: Path, tmp_path: Path) -> None:
    drop = tmp_path / "drop"
    drop.mkdir()
    arguments = ("-o", str(tmp_path / "out"), "--settle", "0.2", "--json")
    folder = up("folder", "add", str(drop), *arguments).json()
    assert folder["path"] == str(drop)
    (drop / ".film.part").write_bytes((clips / "short.mp4").read_bytes())
    (drop / ".film.part").rename(drop / "film.mp4")
    until(lambda: list((tmp_path / "out").glob("*/master.m3u8")))
    assert up("folder", "edit", str(drop), "--priority", "5", "--json").json()["priority"] == 5
    assert str(drop) in up("folder", "list").out
    (drop / "empty.mp4").touch()
    os.mkfifo(drop / "pipe.mp4")

    def skipped() -> Any:
        found = up("folder", "list", "--json").json()["folders"][0]["skipped"]
        return found if len(found) == 2 else None

    left_out = until(skipped)
    assert {each["name"]: each["code"] for each in left_out} == {
        "empty.mp4": "SOURCE_EMPTY",
        "pipe.mp4": "UNSUPPORTED",
    }
    assert all(each["hint"] for each in left_out)
    output = up("folder", "list").err
    assert f"folder {folder['id']}: skipped empty.mp4: SOURCE_EMPTY: empty – copy it again" in output
    assert up("folder", "remove", str(folder["id"])).code == 0
    assert str(drop) not in up("folder", "list").out
    answer = up("folder", "add", str(drop), "-o", str(tmp_path / "out")).out
    assert f"watching {drop}" in answer
    assert f"output: {tmp_path / 'out'}" in answer
    assert up("folder", "remove", str(drop)).code == 0


@pytest.mark.parametrize(
    "command", [("add", "{clip}"), ("process", "-i", "{clip}"), ("folder", "add", "{folder}")], ids=" ".join
)
def test_an_output_that_can_take_no_file_is_refused_at_once(
    command: tuple[str, ...], up: Program, clips: Path, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    words = [word.format(clip=clips / "short.mp4", folder=tmp_path) for word in command]

    def known() -> list[list[int]]:
        lists = (up("job", "list", "--json").json()["jobs"], up("folder", "list", "--json").json()["folders"])
        return [sorted(row["id"] for row in rows) for rows in lists]

    before = known()
    answer = up(*words, "-o", str(file / "out"))
    assert answer.code == 2
    assert answer.err.startswith(f"error: BAD_REQUEST: {file} is not a folder\n")
    assert "choose another output folder" in answer.err
    assert known() == before


def test_workers_are_added_and_removed(up: Program) -> None:
    name = up("worker", "add", "--json").json()["name"]
    refused = up("worker", "remove", name, "no-such-worker")
    assert (refused.code, "nothing was changed" in refused.err) == (4, True)
    assert up("worker", "remove", name).out == f"{name} is removed\n"
    assert name not in up("worker", "list").out
    added = up("worker", "add").out
    other = added.split()[0]
    assert "until the supervisor ends; the setting workers is their number at the start" in added
    assert up("worker", "remove", other, "--json").json() == {"workers": [{"removed": other, "job": None}]}


def test_a_removed_worker_is_not_listed_while_its_process_ends(up: Program) -> None:
    name = up("worker", "add", "--json").json()["name"]
    pid = until(
        lambda: next(
            row["pid"] for row in up("worker", "list", "--json").json()["workers"] if row["name"] == name
        ),
        "its process has registered",
    )
    os.kill(pid, signal.SIGSTOP)
    assert up("worker", "remove", name).code == 0
    assert lives(pid)
    assert name not in up("worker", "list").out
    assert up("worker", "remove", name).code == 4
    os.kill(pid, signal.SIGCONT)
    until(lambda: not lives(pid), "its process ends")


def test_workers(up: Program) -> None:
    until(lambda: up("worker", "list", "--json").json()["workers"][0]["status"] == "idle")
    assert up("worker", "disable", "cpu-0").code == 0
    assert up("worker", "list", "--json").json()["workers"][0]["enabled"] is False
    assert up("worker", "enable", "cpu-0").code == 0
    assert up("worker", "list", "--json").json()["workers"][0]["enabled"] is True
    refused = up("worker", "drain", "cpu-0", "no-such-worker")
    assert refused.code == 4
    assert "there is no worker no-such-worker; nothing was changed" in refused.err
    assert up("worker", "list", "--json").json()["workers"][0]["enabled"] is True
    idle = up("worker", "drain", "cpu-0").out
    assert idle == "cpu-0 (disabled) takes no jobs until it is enabled\n"
    assert up("worker", "enable", "cpu-0").out == "cpu-0 (idle) takes jobs\n"


def test_a_worker_at_work_ends_its_job_first(up: Program, clips: Path, tmp_path: Path) -> None:
    job = _only(up("add", f"{clips}/long.mp4", "-o", str(tmp_path / "out"), "--json"))["job"]
    _wait_for_jobs(up, "in_progress", 1)
    for verb in ("drain", "disable"):
        expected = f"cpu-0 (draining) finishes job {job}, then takes no jobs until it is enabled\n"
        assert up("worker", verb, "cpu-0").out == expected
    assert up("job", "cancel", str(job)).code == 0
    assert up("worker", "enable", "cpu-0").code == 0
    until(lambda: _status_of(up, job) == "cancelled")


def test_a_deleted_job_is_reported_as_deleted(up: Program, held: int) -> None:
    assert up("job", "delete", str(held)).code == 0
    output = up("job", "show", str(held)).out
    assert re.search(
        rf"^  deleted    .*; restore it with: tqstudio job undelete {held}$", output, re.MULTILINE
    )
    assert up("job", "undelete", str(held)).code == 0
    assert "deleted  " not in up("job", "show", str(held)).out.partition("EVENT")[0]


@pytest.mark.more
def test_a_supervisor_that_drains_says_that_what_is_added_waits(
    fresh: Program, clips: Path, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    job = _only(fresh("add", f"{clips}/long.mp4", "-o", out, "--json"))["job"]
    _wait_for_jobs(fresh, "in_progress", 1)
    with fresh.spawn("down", "--drain") as down:
        until(lambda: fresh("status", "--json").json()["supervisor"]["draining"])
        added = fresh("add", f"{clips}/short.mp4", "-o", out)
        assert added.code == 0
        assert "queued as job" in added.out
        assert "is draining: it exits after its running jobs" in added.err
        assert fresh("job", "cancel", str(job)).code == 0
        assert down.wait(WAIT_S) == 0


def test_events(up: Program, held: int) -> None:
    rows = list(csv.DictReader(io.StringIO(up("events", "--since", "1h", "--csv").out)))
    assert {row["video_name"] for row in rows if row["job"] == str(held)} == {_shown(up, held)["name"]}
    assert [int(row["seq"]) for row in rows] == sorted(int(row["seq"]) for row in rows)
    with up.spawn("events", "--follow", "--job", str(held), "--json") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["target"] == "paused"
        up("job", "cancel", str(held))
        assert json.loads(process.stdout.readline())["target"] == "cancelled"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=WAIT_S) == 130


def test_events_have_the_words_of_the_screens(up: Program, held: int) -> None:
    for command in (("events", "--job", str(held)), ("job", "show", str(held))):
        printed = up(*command).out
        assert any("queued on hold" in line and "the user" in line for line in printed.splitlines()), command
        assert "create_held" not in printed


def test_as_many_events_as_asked_for(up: Program, held: int) -> None:
    client = Client(up.home.socket)
    for number in range(450):
        client.send(calls.act("priority", [held], priority=number % 2))
    of_job = ("events", "--job", str(held), "--json", "--limit")
    some = [json.loads(line)["seq"] for line in up(*of_job, "430").out.splitlines()]
    assert len(some) == 430
    assert some == sorted(some)
    every = [json.loads(line)["seq"] for line in up(*of_job, "5000").out.splitlines()]
    assert len(every) > 450
    assert every[-430:] == some
    assert up("job", "delete", str(held)).code == 0
    assert len(up(*of_job, "5000").out.splitlines()) == len(every) + 1, "it is off the list, not unknown"


def test_a_job_that_never_was_has_no_events(up: Program) -> None:
    for more in ((), ("--since", "1h"), ("--follow",)):
        answer = up("events", "--job", "4711", *more)
        assert answer.code == 4
        assert answer.err.startswith("error: NOT_FOUND: there is no job 4711\n")
        assert "tqstudio job list" in answer.err


def test_doctor_asks_the_supervisor_too(up: Program) -> None:
    answer = up("doctor", "--json")
    assert answer.code == 0, answer.out


def test_profiles_are_read_by_the_supervisor_too(up: Program) -> None:
    folder = up.home.profiles
    own = folder / "my own.toml"
    broken = Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.toml"))
    own.write_text('extends = "fast"\ndescription = "mine"\n')
    broken.write_text("[video]\ncrf = 99\n")
    try:
        answer = up("profile", "list", "--json")
        assert answer.code == 2
        profiles = {p["name"]: p for p in json.loads(answer.out)["profiles"]}
        assert [name for name in profiles if profiles[name]["default"]] == ["fast"]
        assert profiles["my own"]["origin"] == str(own)
        assert profiles["caf\\xe9"]["error"]["code"] == "BAD_CONFIG"
        assert "caf\\xe9.toml: video.crf: 99" in answer.err
        assert up("doctor").code == 1
    finally:
        own.unlink()
        broken.unlink()


def test_commands_start_a_supervisor_and_say_so(fresh: Program, clips: Path, tmp_path: Path) -> None:
    answer = fresh("add", f"{clips}/short.mp4", "-o", str(tmp_path / "out"), "--hold")
    assert answer.code == 0
    assert "started one in the background" in answer.err
    assert fresh("status").code == 0


@pytest.mark.slow
def test_the_demo_publishes_its_clips_and_stops(fresh: Program) -> None:
    done = fresh("demo", timeout_s=500)
    assert done.code == 0, done.err
    masters = [
        Path(line) for line in done.out.splitlines() if line.endswith("/master.m3u8") and line[0] == "/"
    ]
    assert len(masters) >= 3
    assert all(master.is_file() for master in masters)
    assert fresh("status").code == 3
    again = fresh("demo")
    assert again.code == 0
    assert "by an earlier demo" in again.err
    assert again.out.splitlines()[-3:] == done.out.splitlines()[-3:]


@pytest.mark.slow
def test_what_a_command_did_is_undone(fresh: Program, tmp_path: Path) -> None:
    assert fresh("undo").out == "nothing left to undo\n"
    paths = [tmp_path / f"clip-{number}.mp4" for number in range(2)]
    for path in paths:
        path.write_bytes(path.name.encode())
    fresh("add", "--hold", *paths)
    rows = json.loads(fresh("job", "list", "--json").out)["jobs"]
    jobs = sorted(row["id"] for row in rows)
    fresh("job", "cancel", *map(str, jobs))
    fresh("job", "delete", str(jobs[0]))
    answer = fresh("undo")
    assert (answer.out, answer.code) == (f"job {jobs[0]}, clip-0.mp4 restored to the list\n", 0)
    assert fresh("undo").out == "cancelling 2 jobs is undone\n"
    assert [_status_of(fresh, job) for job in jobs] == ["paused", "paused"]
    answer = fresh("undo", "--json")
    assert (json.loads(answer.out)["operation"], answer.code) == (None, 0)

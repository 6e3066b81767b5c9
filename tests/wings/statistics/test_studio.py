"""What ffmpeg used is recorded for each attempt and added up, with a real supervisor and a real ffmpeg."""

from __future__ import annotations

import os
import re
import signal
from datetime import datetime
from pathlib import Path

import pytest

from e2e.conftest import MakeClip, MakeStudio
from e2e.studio import seconds_between
from harness import Program
from tqstudio.protocol import calls
from waiting import until

# Writes down what the kernel counted for the shell and, in a second line, for the real ffmpeg.
_COUNTED = """#!/bin/sh
"{ffmpeg}" "$@"
status=$?
case " $* " in *" -i "*) times >> "{log}" ;; esac
exit $status
"""


def _seconds(times: str) -> float:
    """Parse `0m1.230000s 0m0.040000s`."""
    parts = (part.rstrip("s").split("m") for part in times.split())
    return sum(int(minutes) * 60 + float(seconds) for minutes, seconds in parts)


@pytest.mark.slow
def test_attempts_and_sums(
    make_studio: MakeStudio, clip: MakeClip, copy, ffmpeg: str, tmp_path: Path
) -> None:
    log, script = tmp_path / "times", tmp_path / "counted"
    script.write_text(_COUNTED.format(ffmpeg=ffmpeg, log=log))
    script.chmod(0o755)
    studio = make_studio(real_ffmpeg=script).up()
    first = studio.add(copy(clip(seconds=8), "first.mp4"), batch="one")
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video")
    failed = studio.add(broken, batch="two")
    details = [studio.done(first), until(lambda: (job := studio.job(failed))["status"] == "failed" and job)]
    attempts = [attempt for detail in details for attempt in detail["attempts_log"]]
    counted = sum(map(_seconds, log.read_text().splitlines()[1::2]))
    assert attempts[0]["cpu_s"] == pytest.approx(counted, rel=0.15, abs=0.3)
    assert attempts[0]["peak_memory_bytes"] > 500_000
    wall_s = sum(seconds_between(each["started_at"], each["ended_at"]) for each in attempts)

    view = studio.send(calls.statistics("day"))
    sums = view["total"]
    assert (sums["done"], sums["failed"], sums["attempts"]) == (1, 1, len(attempts))
    assert sums["cpu_s"] == pytest.approx(sum(each["cpu_s"] or 0 for each in attempts))
    assert sums["wall_s"] == pytest.approx(wall_s, abs=0.01)
    assert sums["media_s"] == pytest.approx(8, abs=0.2)
    assert sums["bytes_in"] == os.path.getsize(copy(clip(seconds=8), "same.mp4"))
    master = Path(details[0]["video_view"]["generation"]["master"])
    media = [path.stat().st_size for path in master.parent.glob("v1/*/*") if path.suffix in (".m4s", ".mp4")]
    assert sums["bytes_out"] == sum(media)

    run = Program(studio.home.root)
    rows = {row["key"]: row for row in run("stats", "--by", "batch", "--json").json()["rows"]}
    assert (rows["one"]["done"], rows["two"]["failed"]) == (1, 1)
    [one] = [line for line in run("stats", "--by", "batch").out.splitlines() if line.startswith("one")]
    assert re.search(r" first\.mp4 .*\d\d:\d\d$", one)
    assert run("stats", "--since", "1d").out.splitlines()[-1].split()[:3] == ["total", "1", "1"]
    by_hour = run("stats", "--by", "hour").out.splitlines()
    assert re.match(r"HOUR +DONE +FAILED", by_hour[5])
    assert len(by_hour) == 5 + 1 + 48 + 1
    assert by_hour[-1].split()[:3] == ["total", "1", "1"]
    assert by_hour[-2].startswith(f"{datetime.now():%Y-%m-%d}")
    for since in ("soon", "9999999999d", "500d", "tomorrow"):
        refused = run("stats", "--since", since)
        assert refused.code == 2
        assert "write it as" in refused.err


@pytest.mark.more
def test_an_attempt_whose_worker_is_killed_keeps_what_was_reported(
    make_studio: MakeStudio, clip: MakeClip, copy
) -> None:
    studio = make_studio().up()
    with studio.paced(1):
        job = studio.add(copy(clip(seconds=6), "clip.mp4"))
        known = until(
            lambda: (attempts := studio.job(job)["attempts_log"]) and attempts[0]["cpu_s"], "it is reported"
        )
        [worker] = studio.status()["workers"]
        os.kill(worker["pid"], signal.SIGKILL)
        until(lambda: studio.job(job)["attempts_log"][0]["outcome"] == "lost", "it is lost")
    lost = studio.job(job)["attempts_log"][0]
    assert lost["cpu_s"] >= known
    assert lost["peak_memory_bytes"] > 1_000_000
    studio.done(job)
    sums = studio.send(calls.statistics("worker"))["total"]
    assert sums["attempts"] == 2
    assert sums["cpu_s"] > lost["cpu_s"]

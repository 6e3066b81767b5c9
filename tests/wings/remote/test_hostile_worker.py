"""Workers of other machines that bring less than they report, or pictures that cannot be decoded."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import MakeClip
from e2e.studio import Studio
from tqstudio.protocol import calls
from waiting import until

from .test_studio import Far

pytestmark = pytest.mark.slow

# The real program, which reports only the first segment of each stream, with the right bit rates.
_CUTS = """
from tqstudio.engine.media.segments.playlists import bit_rates
from tqstudio.engine.worker.job import manifest
whole = manifest.build
def cut(*arguments):
    made = whole(*arguments)
    for each in made["renditions"]:
        [first] = each["segments"] = each["segments"][:1]
        each["duration_s"] = first["duration_s"]
        each["peak_bps"], each["average_bps"] = bit_rates([first["size"]], [first["duration_s"]])
    return made
manifest.build = cut
"""
# The same, whose pictures and sound are random bytes in whole boxes, with the right hashes.
_SCRAMBLES = """
import os
from tqstudio.engine.media.segments import boxes, join
whole = join.join
def scramble(fragments, target):
    whole(fragments, target)
    with target.open("r+b") as file:
        for name, at, length in boxes.top_level(file, target.stat().st_size):
            if name == b"mdat":
                file.seek(at)
                file.write(os.urandom(length))
join.join = scramble
"""
_RUNS = "import sys; from tqstudio.cli import main; sys.exit(main(['worker', 'run']))"


@pytest.fixture
def studio(tmp_path: Path, ffmpeg: str) -> Iterator[Studio]:
    quick = {
        "heartbeat_s": 0.5,
        "lease_s": 5,
        "reconnect_s": 5,
        "lease_scan_s": 1,
        "attempts": 1,
        "quarantine_after": 1,
    }
    studio = Studio(tmp_path / "studio", ffmpeg, listen="127.0.0.1:0", **quick).up()
    studio.client.send(calls.worker_action("cpu-0", "disable"))
    yield studio
    studio.down()


@pytest.fixture
def far(studio: Studio, tmp_path: Path) -> Iterator[Far]:
    far = Far(studio, tmp_path / "far")
    yield far
    if far.process is not None:
        far.end(signal.SIGKILL)


def _is_refused(studio: Studio, far: Far, source: Path) -> Any:
    """The job whose result is refused: nothing of it is published or kept, and its worker is tested."""
    job = studio.wait(studio.add(source), "failed")
    assert job["error"]["code"] == "OUTPUT_INVALID"
    assert {attempt["worker"] for attempt in job["attempts_log"]} == {far.name}
    assert not list(studio.root.rglob("master.m3u8"))
    assert not studio.stored_segments(job["video"])

    def tested() -> list[Any]:
        events = studio.client.send(calls.events())["events"]
        return [each for each in events if each["trigger"] in ("worker_tested", "worker_quarantined")]

    assert until(tested)[0]["worker"] == far.name
    return job


def _starts(far: Far, lie: str) -> None:
    far.process = subprocess.Popen(
        [sys.executable, "-P", "-c", f"{lie}\n{_RUNS}"],
        env=far.program.environment
        | {
            "TQSTUDIO_CONNECT": far.url,
            "TQSTUDIO_TOKEN_FILE": str(far.root / "token"),
            "TQSTUDIO_FFMPEG": far.studio.environment["TQSTUDIO_FFMPEG"],
        },
        stderr=subprocess.PIPE,
    )


@pytest.mark.fault(
    "A worker of another machine reports less than it was to make",
    "Its result is compared with the packets of the source and refused; the next attempt begins without it",
    area="workers",
)
def test_a_ladder_of_first_segments_is_not_published(
    studio: Studio, far: Far, clip: MakeClip, copy: Any
) -> None:
    _starts(far, _CUTS)
    job = _is_refused(studio, far, copy(clip(seconds=10), "film.mp4"))
    assert "has other segments than its worker lists" in job["error"]["message"]


@pytest.mark.fault(
    "A broken machine sends segments whose pictures cannot be decoded",
    "One segment of each quality is decoded before the ladder is published",
    area="workers",
)
def test_a_ladder_that_cannot_be_decoded_is_not_published(
    studio: Studio, far: Far, clip: MakeClip, copy: Any
) -> None:
    _starts(far, _SCRAMBLES)
    job = _is_refused(studio, far, copy(clip(seconds=10), "film.mp4"))
    assert "cannot be decoded in seg_" in job["error"]["message"]

"""Several bad files in a row: they fail, what is behind them is made, and no sound worker is held back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeClip, MakeStudio
from .studio import write_script

_BROKEN = """#!/bin/sh
case "$*" in *libx264*) echo "Error: no encoder" >&2; exit 1;; esac
exec "{ffmpeg}" "$@"
"""


def _spoilt(clip: Path, path: Path) -> Path:
    """A file that is read and begins well, and of whose pictures hardly any can be decoded."""
    content = bytearray(clip.read_bytes())
    begin = content.index(b"mdat") + len(content) // 8
    content[begin:] = bytes(len(content) - begin)
    path.write_bytes(content)
    return path


@pytest.mark.slow
@pytest.mark.fault(
    "Several bad files follow one another",
    "Each fails; the worker passes its test encode and continues",
    area="workers",
)
def test_bad_files_in_a_row_stop_no_worker(
    make_studio: MakeStudio, clip: MakeClip, copy, tmp_path: Path
) -> None:
    studio = make_studio().up()
    bad = [studio.add(_spoilt(clip(seconds=12), tmp_path / f"bad-{number}.mp4")) for number in range(3)]
    good = studio.add(copy(clip(), "good.mp4"))
    studio.done(good)
    for job in bad:
        failed = studio.wait(job, "failed")
        assert failed["error"]["code"] in ("ENCODER_EXIT", "OUTPUT_EMPTY", "OUTPUT_INVALID")
        ways = [(attempt["error_code"], attempt["error"]) for attempt in failed["attempts_log"]]
        # What ffmpeg says at last depends on its threads, so that the second attempt may differ.
        is_given_up = ways[0] == ways[1]
        assert len(ways) == (2 if is_given_up else 3)
        assert ("twice in the same way" in failed["error"]["hint"]) == is_given_up
    assert [worker["quarantine"] for worker in studio.status()["workers"]] == [None]
    triggers = [event["trigger"] for event in studio.client.send(calls.events(limit=500))["events"]]
    assert "worker_tested" in triggers
    assert "worker_quarantined" not in triggers


@pytest.mark.more
@pytest.mark.fault(
    "A worker fails three different jobs in a row",
    "It must pass a test encode; if that fails too it takes no more jobs",
    area="workers",
)
def test_a_worker_whose_ffmpeg_cannot_encode_is_held_back(
    make_studio: MakeStudio, clip: MakeClip, copy, ffmpeg: str, tmp_path: Path
) -> None:
    broken = write_script(tmp_path / "broken", _BROKEN.format(ffmpeg=ffmpeg))
    studio = make_studio(real_ffmpeg=broken).up()
    for number in range(4):
        studio.add(copy(clip(), f"film-{number}.mp4"))
    held = until(lambda: studio.status()["workers"][0]["quarantine"], "the worker is held back")
    assert "and a test encode: " in held
    assert "no encoder" in held

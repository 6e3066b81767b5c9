"""Jobs that go wrong, with the real ffmpeg."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tqstudio.engine.media.ffmpeg import FFmpeg
from tqstudio.engine.media.profiles import Profile
from tqstudio.engine.worker.outcome import Done, Failed
from tqstudio.engine.worker.pipeline import Bench
from tqstudio.errors import ErrorCode

from .conftest import MakeJob, RecordingReport, run

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def test_a_source_that_changes_meanwhile(clip: Path, make_job: MakeJob, bench: Bench, tmp_path: Path) -> None:
    source = tmp_path / "changing.mp4"
    shutil.copy(clip, source)

    def change(report: RecordingReport) -> None:
        if report.seen[-1].step == "master_playlist":
            os.utime(source)

    outcome = run(make_job(source), bench, RecordingReport(change))
    assert isinstance(outcome, Failed)
    assert outcome.code is ErrorCode.SOURCE_CHANGED
    assert "changing.mp4" in outcome.text


def test_a_source_that_is_cut_meanwhile_is_not_called_broken(
    long_clip: Path, make_job: MakeJob, bench: Bench, tmp_path: Path
) -> None:
    source = tmp_path / "cut.mp4"
    shutil.copy(long_clip, source)

    def cut(report: RecordingReport) -> None:
        if report.seen[-1].step == "transcode" and source.stat().st_size > 1000:
            os.truncate(source, 1000)

    outcome = run(make_job(source), bench, RecordingReport(cut))
    assert isinstance(outcome, Failed)
    assert outcome.code is ErrorCode.SOURCE_CHANGED


def _text(path: Path) -> None:
    path.write_text("#EXTM3U\nno video\n")


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda _: None, ErrorCode.SOURCE_MISSING),
        (Path.touch, ErrorCode.SOURCE_EMPTY),
        (_text, ErrorCode.NO_MEDIA),
        (Path.mkdir, ErrorCode.UNSUPPORTED),
    ],
)
def test_bad_sources(
    make: Callable[[Path], None], code: ErrorCode, make_job: MakeJob, bench: Bench, tmp_path: Path
) -> None:
    source = tmp_path / "odd [red]name\n.mp4"
    make(source)
    outcome = run(make_job(source), bench, RecordingReport())
    assert isinstance(outcome, Failed)
    assert outcome.code is code
    assert "odd [red]name\\n.mp4" in outcome.text
    assert outcome.hint
    assert str(code) in Path(make_job(source)["log"]).read_text()


@pytest.mark.parametrize(
    "name", [b"-y.mp4", b"a b'c\"d.mp4", "é\n.mp4".encode(), b"%03d.mp4", b"caf\xe9.mp4"]
)
def test_odd_names(
    name: bytes, clip: Path, make_job: MakeJob, bench: Bench, tmp_path: Path, small: Profile
) -> None:
    source = os.path.join(os.fsencode(tmp_path), name)
    shutil.copy(clip, source)
    profile = dataclasses.replace(small, rungs=small.rungs[-1:])
    report = RecordingReport()
    outcome = run(make_job(source, profile=profile.to_json()), bench, report)
    assert isinstance(outcome, Done)
    for state in report.seen:
        state.model_dump_json()


def test_a_disk_that_is_too_small(clip: Path, make_job: MakeJob, bench: Bench, sink: Path) -> None:
    full = dataclasses.replace(bench, disk_reserve_bytes=1 << 60)
    outcome = run(make_job(clip), full, RecordingReport())
    assert isinstance(outcome, Failed)
    assert outcome.code is ErrorCode.DISK_LOW
    assert str(sink.parent.parent) in outcome.text
    # What is whole already needs no space.
    run(make_job(clip), bench, RecordingReport())
    assert isinstance(run(make_job(clip, epoch=2), full, RecordingReport()), Done)


def test_an_ffmpeg_that_hangs(clip: Path, make_job: MakeJob, bench: Bench, tmp_path: Path) -> None:
    hanging = tmp_path / "ffmpeg"
    hanging.write_text("#!/bin/sh\nexec cat /dev/zero >/dev/null\n")
    hanging.chmod(0o755)
    stuck = dataclasses.replace(bench, ffmpeg=FFmpeg(str(hanging), "0", "0"), stall_s=0.5)
    outcome = run(make_job(clip), stuck, RecordingReport())
    assert isinstance(outcome, Failed)
    assert outcome.code is ErrorCode.STALLED


def test_a_mistake_of_ours_is_told(
    clip: Path, make_job: MakeJob, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tqstudio.engine.worker.manifest.combined", lambda _: {}["surprise"])
    outcome = run(make_job(clip), bench, RecordingReport())
    assert isinstance(outcome, Failed)
    assert outcome.code is ErrorCode.INTERNAL
    assert "Traceback" in Path(make_job(clip)["log"]).read_text()


def test_a_profile_of_another_version(clip: Path, make_job: MakeJob, bench: Bench) -> None:
    outcome = run(make_job(clip, profile={"name": "web"}), bench, RecordingReport())
    assert isinstance(outcome, Failed)
    assert outcome.code is ErrorCode.BAD_CONFIG

"""Disks that fail or go away under a worker, with the real ffmpeg and real file systems. Needs the right to
mount."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.hung import HungMount
from powercut.volume import CannotCut, Volume
from tqstudio import paths
from tqstudio.engine.worker.job.attempt import WorkerConfig
from tqstudio.engine.worker.reporting.outcome import Done, Failed, Outcome
from tqstudio.errors import ErrorClass, ErrorCode, class_of

from .conftest import MakeJob, RecordingReport, run

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Volume]:
    try:
        volume = Volume(tmp_path / "disk")
    except CannotCut as reason:
        pytest.skip(str(reason))
    yield volume
    volume.release()


def _segments(report: RecordingReport) -> int:
    """Finished of every video quality that is made."""
    made = [r.segments_done for r in report.seen[-1].renditions or [] if r.width and r.segments_total]
    return min(made, default=0)


def _failed(outcome: Outcome) -> Failed:
    assert isinstance(outcome, Failed)
    return outcome


@pytest.mark.fault(
    "The disk of a source fails", "`IO_ERROR`, retried; not reported as a broken video", area="resume"
)
def test_a_source_whose_disk_fails_is_no_broken_video(
    long_clip: Path, make_job: MakeJob, bench: WorkerConfig, disk: Volume
) -> None:
    source = disk.root / "long.mp4"
    shutil.copy(long_clip, source)
    disk.recover()  # so that nothing of it is in memory
    job = make_job(source)
    disk.cut()
    failed = _failed(run(job, bench, RecordingReport()))
    assert failed.code is ErrorCode.IO_ERROR
    assert class_of(failed.code) is ErrorClass.RETRYABLE
    assert "long.mp4" in failed.text
    assert "dmesg" in failed.hint


@pytest.mark.fault(
    "The server of a source is gone", "`SOURCE_UNAVAILABLE`, nothing is counted", area="resume"
)
def test_a_source_whose_server_is_gone_is_away(
    clip: Path, make_job: MakeJob, bench: WorkerConfig, tmp_path: Path
) -> None:
    folder = tmp_path / "share"
    folder.mkdir()
    source = folder / "clip.mp4"
    shutil.copy(clip, source)
    job = make_job(source)
    mount = HungMount(folder)
    try:
        mount.leave()
        failed = _failed(run(job, bench, RecordingReport()))
    finally:
        mount.end()
    assert failed.code is ErrorCode.SOURCE_UNAVAILABLE
    assert "clip.mp4" in failed.text


@pytest.mark.slow
def test_an_output_that_becomes_read_only_is_no_question_of_permission(
    long_clip: Path, make_job: MakeJob, bench: WorkerConfig, disk: Volume
) -> None:
    work_dir = disk.root / "out" / ".tqstudio" / "store"
    job = make_job(long_clip, work_dir=_file(work_dir))

    def freeze(report: RecordingReport) -> None:
        if _segments(report):
            subprocess.run(["mount", "-o", "remount,ro", disk.root], check=False)

    try:
        failed = _failed(run(job, bench, RecordingReport(freeze)))
        assert failed.code is ErrorCode.OUTPUT_UNAVAILABLE
        assert "remount it read-write" in failed.hint
        # Also where it is so from the start.
        failed = _failed(run(job | {"epoch": 2}, bench, RecordingReport()))
        assert failed.code is ErrorCode.OUTPUT_UNAVAILABLE
        assert "remount it read-write" in failed.hint
    finally:
        subprocess.run(["mount", "-o", "remount,rw", disk.root], check=True)
    report = RecordingReport()
    assert isinstance(run(job | {"epoch": 3}, bench, report), Done)
    assert report.seen[-1].resumed_from, "it resumes where it was"


@pytest.mark.fault(
    "The output becomes read-only, or its disk fails",
    "The queue waits with a hint; nothing is counted",
    area="disks",
)
def test_an_output_whose_disk_fails_is_gone(
    long_clip: Path, make_job: MakeJob, bench: WorkerConfig, disk: Volume
) -> None:
    job = make_job(long_clip, work_dir=_file(disk.root / "out" / ".tqstudio" / "store"))
    cut = []

    def fail(report: RecordingReport) -> None:
        if _segments(report) and not cut:
            disk.cut()
            cut.append(True)

    failed = _failed(run(job, bench, RecordingReport(fail)))
    assert failed.code is ErrorCode.OUTPUT_UNAVAILABLE
    assert "check the disk" in failed.hint


def _file(work_dir: Path) -> dict[str, str]:
    return {"kind": "file", "path_b64": paths.encode(work_dir)}

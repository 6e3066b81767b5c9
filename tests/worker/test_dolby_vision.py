"""Jobs of Dolby Vision without a base layer, which need Vulkan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from media.dolby_vision import FPS, ipt_source, without_vulkan
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.worker.job.attempt import WorkerConfig
from tqstudio.engine.worker.reporting.outcome import Done, Failed
from tqstudio.errors import ErrorCode

from .conftest import MakeJob, RecordingReport, run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("nothing_is_left")]


@pytest.fixture
def source(ffmpeg: FFmpeg, tmp_path: Path) -> Path:
    grey = (50.0, 50.0, 50.0)
    return ipt_source(ffmpeg, tmp_path / "film.mp4", [grey], 1, (320, 180), frames=FPS)


@pytest.mark.more
@pytest.mark.fault(
    "A source needs Vulkan, which does not work here",
    "`UNSUPPORTED`, with the driver to install",
    area="resume",
)
def test_without_vulkan_the_job_fails_at_once(
    source: Path, make_job: MakeJob, bench: WorkerConfig, work_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_vulkan(monkeypatch)
    outcome = run(make_job(source), bench, RecordingReport())
    assert isinstance(outcome, Failed)
    assert outcome.code is ErrorCode.UNSUPPORTED
    assert outcome.text.startswith(f"{source} is Dolby Vision profile 5")
    assert "mesa-vulkan-drivers" in outcome.hint
    assert not list(work_dir.glob("segments/*"))


@pytest.mark.usefixtures("vulkan")
def test_a_gpu_worker_encodes_it_on_the_cpu(source: Path, make_job: MakeJob, bench: WorkerConfig) -> None:
    gpu, report = replace(bench, encoder="h264_nvenc", device="0"), RecordingReport()
    outcome = run(make_job(source), gpu, report)
    assert isinstance(outcome, Done)
    words = {word for command in report.seen[-1].argv or [] for word in command}
    assert words & {"libx264", "h264_nvenc"} == {"libx264"}
    assert [each["code"] for each in outcome.manifest["warnings"]] == ["HDR_TONE_MAPPED"]
    assert outcome.manifest["poster"] is not None

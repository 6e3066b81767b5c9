"""Jobs that go wrong, with the real ffmpeg."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from media.conftest import run_ffmpeg
from tqstudio.engine.media.ffmpeg.binary import FFmpeg, locate
from tqstudio.engine.media.plan.profiles import Profile, override
from tqstudio.engine.worker.job.attempt import WorkerConfig
from tqstudio.engine.worker.job.limits import Deadline, TimeLimit
from tqstudio.engine.worker.reporting.outcome import Done, Failed
from tqstudio.errors import ErrorCode, WarningCode

from .conftest import MakeJob, RecordingReport, run

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.mark.fault(
    "The source changes while it is encoded",
    "`SOURCE_CHANGED`, encoded again, uncounted; old and new content are never joined",
    area="resume",
)
def test_a_source_that_changes_meanwhile(
    clip: Path, make_job: MakeJob, bench: WorkerConfig, tmp_path: Path
) -> None:
    source = tmp_path / "changing.mp4"
    shutil.copy(clip, source)

    def change(report: RecordingReport) -> None:
        if report.seen[-1].step == "master_playlist":
            before = source.stat()
            with source.open("r+b") as file:
                file.seek(before.st_size // 2)
                file.write(b"other")
            os.utime(source, ns=(before.st_mtime_ns, before.st_mtime_ns))

    outcome = run(make_job(source), bench, RecordingReport(change))
    assert isinstance(outcome, Failed)
    assert outcome.code is ErrorCode.SOURCE_CHANGED
    assert "changing.mp4" in outcome.text


def _link(source: Path) -> None:
    source.with_name("backup.mp4").hardlink_to(source)


def _let_others_read(source: Path) -> None:
    source.chmod(0o664)


def _label(source: Path) -> None:
    os.setxattr(source, "user.comment", b"seen")


@pytest.mark.fault(
    "A backup links a source while it is encoded, or its owner, rights or times are changed",
    "The encode continues; all bytes are compared before its ladder is published",
    area="resume",
)
@pytest.mark.parametrize("touch", [_link, _let_others_read, _label, os.utime])
def test_a_source_that_is_only_touched_is_encoded_on(
    clip: Path, make_job: MakeJob, bench: WorkerConfig, tmp_path: Path, touch: Callable[[Path], None]
) -> None:
    source = tmp_path / "touched.mp4"
    shutil.copy(clip, source)
    before = source.stat().st_ctime_ns

    def once(report: RecordingReport) -> None:
        if report.seen[-1].step == "transcode" and source.stat().st_ctime_ns == before:
            touch(source)

    outcome = run(make_job(source), bench, RecordingReport(once))
    assert source.stat().st_ctime_ns != before
    assert isinstance(outcome, Done), outcome


@pytest.mark.slow
@pytest.mark.fault("The source grows while it is encoded", "`SOURCE_CHANGED`, encoded again", area="resume")
def test_a_source_that_grows_meanwhile_is_encoded_again(
    long_clip: Path, make_job: MakeJob, bench: WorkerConfig, work_dir: Path, tmp_path: Path
) -> None:
    source = tmp_path / "growing.mkv"
    shutil.copy(long_clip, source)
    job = make_job(source)

    def grow(report: RecordingReport) -> None:
        if source.stat().st_size == job["source_size"] and _segments(report):
            with source.open("ab") as file:
                file.write(b"more")

    first = RecordingReport(grow)
    outcome = run(job, bench, first)
    assert isinstance(outcome, Failed)
    assert outcome.code is ErrorCode.SOURCE_CHANGED
    assert "growing.mkv" in outcome.text
    stale = {path.parent for path in work_dir.glob("segments/3/*/*/*.m4s")}
    assert stale
    # The next attempt is handed what is recorded of the old content, and uses none of it.
    known = next(state for state in first.seen if state.facts)
    again = RecordingReport()
    outcome = run(job | {"epoch": 2, "facts": known.facts, "content_id": known.content_id}, bench, again)
    assert isinstance(outcome, Done)
    assert not {work_dir / rendition["folder"] for rendition in outcome.manifest["renditions"]} & stale
    fresh = next(state for state in again.seen if state.facts)
    assert fresh.content_id != known.content_id
    assert fresh.facts["size"] == source.stat().st_size
    assert again.seen[-1].resumed_from == 0


def _segments(report: RecordingReport) -> int:
    return max((r.segments_done for r in report.seen[-1].renditions or []), default=0)


def _segments_of_each(report: RecordingReport) -> int:
    """An attempt resumes where every quality has what comes before."""
    return min((r.segments_done for r in report.seen[-1].renditions or [] if r.segments_total), default=0)


def test_a_source_that_is_cut_meanwhile_is_not_called_broken(
    long_clip: Path, make_job: MakeJob, bench: WorkerConfig, tmp_path: Path
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
    make: Callable[[Path], None], code: ErrorCode, make_job: MakeJob, bench: WorkerConfig, tmp_path: Path
) -> None:
    source = tmp_path / "odd [red]name\n.mp4"
    make(source)
    outcome = run(make_job(source), bench, RecordingReport())
    assert isinstance(outcome, Failed)
    assert outcome.code is code
    assert "odd [red]name\\n.mp4" in outcome.text
    assert outcome.hint
    assert str(code) in Path(make_job(source)["log"]).read_text()


@pytest.mark.slow
@pytest.mark.fault(
    "A source ends before the length it declares",
    '`SOURCE_TRUNCATED` with the time, or with `on_damage = "accept"` a warning on what is published',
    area="resume",
)
def test_a_cut_source_is_refused_unless_that_is_accepted(
    long_clip: Path, make_job: MakeJob, bench: WorkerConfig, small: Profile, tmp_path: Path
) -> None:
    source = tmp_path / "cut.mp4"
    command = [
        bench.ffmpeg.path,
        "-v",
        "error",
        "-i",
        str(long_clip),
        "-c",
        "copy",
        "-movflags",
        "+faststart",
    ]
    subprocess.run([*command, str(source)], check=True, timeout=60)
    os.truncate(source, source.stat().st_size // 2)
    for profile in (small, override(small, {"on_damage": "refuse"})):
        refused = run(make_job(source, profile=profile.to_json()), bench, RecordingReport())
        assert isinstance(refused, Failed)
        assert refused.code is ErrorCode.SOURCE_TRUNCATED
        assert re.search(r"cut\.mp4 breaks off at 0:\d\d of \d:\d\d$", refused.text)
    accepts = override(small, {"on_damage": "accept"})
    done = run(make_job(source, epoch=2, profile=accepts.to_json()), bench, RecordingReport())
    assert isinstance(done, Done)
    codes = {each["code"] for each in done.manifest["warnings"]}
    assert WarningCode.SOURCE_INCOMPLETE in codes
    assert codes <= {WarningCode.SOURCE_INCOMPLETE, WarningCode.SOURCE_DAMAGED}


def _without_a_second(source: Path) -> None:
    content = source.read_bytes()
    packets = len(content) // 188
    source.write_bytes(content[: packets // 3 * 188] + content[packets // 3 * 2 * 188 :])


def _with_wrong_bits(source: Path) -> None:
    content = bytearray(source.read_bytes())
    for at in range(len(content) // 3, len(content) // 2, 97):
        content[at] ^= 0x55
    source.write_bytes(content)


@pytest.mark.parametrize(("name", "harm"), [("hole.ts", _without_a_second), ("bits.mp4", _with_wrong_bits)])
@pytest.mark.fault(
    "A source has holes or errors",
    'Warning `SOURCE_DAMAGED`, or with `on_damage = "refuse"` refused with the time',
    area="resume",
)
def test_a_profile_that_refuses_damage_refuses_it_within(
    long_clip: Path,
    make_job: MakeJob,
    bench: WorkerConfig,
    small: Profile,
    tmp_path: Path,
    name: str,
    harm: Callable[[Path], None],
) -> None:
    source = tmp_path / name
    command = [bench.ffmpeg.path, "-v", "error", "-i", str(long_clip), "-t", "4", "-c", "copy", str(source)]
    subprocess.run(command, check=True, timeout=60)
    harm(source)
    refusing, report = override(small, {"on_damage": "refuse"}), RecordingReport()
    refused = run(make_job(source, profile=refusing.to_json()), bench, report)
    assert isinstance(refused, Failed)
    assert refused.code is ErrorCode.SOURCE_DAMAGED
    assert re.search(rf"{name}: .* at (about )?0:0\d", refused.text)
    facts = report.request().get("facts")
    published = run(make_job(source, epoch=2, facts=facts), bench, RecordingReport())
    assert isinstance(published, Done)
    assert {each["code"] for each in published.manifest["warnings"]} == {WarningCode.SOURCE_DAMAGED}


@pytest.mark.fault(
    "A transport stream changes the codec of a stream midway",
    "`UNSUPPORTED` with the time",
    area="resume",
)
def test_a_source_whose_codec_changes_is_refused_whatever_is_accepted(
    long_clip: Path, make_job: MakeJob, bench: WorkerConfig, small: Profile, tmp_path: Path
) -> None:
    source = tmp_path / "changes.ts"
    kept, other = ("-c", "copy"), ("-c:v", "mpeg2video", "-c:a", "copy", "-output_ts_offset", "2")
    for options in (kept, other):
        part = tmp_path / "part.ts"
        run_ffmpeg(bench.ffmpeg, "-i", str(long_clip), "-t", "2", *options, str(part))
        with source.open("ab") as file:
            file.write(part.read_bytes())
    accepts = override(small, {"on_damage": "accept"})
    refused = run(make_job(source, profile=accepts.to_json()), bench, RecordingReport())
    assert isinstance(refused, Failed)
    assert refused.code is ErrorCode.UNSUPPORTED
    assert re.search(r"changes\.ts: .* changes its codec at 0:0[12]", refused.text)
    assert "split" in refused.hint


@pytest.mark.parametrize(
    "name",
    [
        b"%03d.mp4",
        b"caf\xe9.mp4",
        *(
            pytest.param(name, marks=pytest.mark.more)
            for name in (b"-y.mp4", b"a b'c\"d.mp4", "é\n.mp4".encode())
        ),
    ],
)
def test_odd_names(
    name: bytes, clip: Path, make_job: MakeJob, bench: WorkerConfig, tmp_path: Path, small: Profile
) -> None:
    source = os.path.join(os.fsencode(tmp_path), name)
    shutil.copy(clip, source)
    profile = dataclasses.replace(small, rungs=small.rungs[-1:])
    report = RecordingReport()
    outcome = run(make_job(source, profile=profile.to_json()), bench, report)
    assert isinstance(outcome, Done)
    for state in report.seen:
        state.model_dump_json()


def test_a_disk_that_is_too_small(clip: Path, make_job: MakeJob, bench: WorkerConfig, work_dir: Path) -> None:
    full = dataclasses.replace(bench, disk_reserve_bytes=1 << 60)
    outcome = run(make_job(clip), full, RecordingReport())
    assert isinstance(outcome, Failed)
    assert outcome.code is ErrorCode.DISK_LOW
    assert str(work_dir.parent.parent) in outcome.text
    # What is whole already needs no space.
    run(make_job(clip), bench, RecordingReport())
    assert isinstance(run(make_job(clip, epoch=2), full, RecordingReport()), Done)


@pytest.mark.fault("ffmpeg hangs", "Killed after `stall_s`: `STALLED`, retried", area="resume")
def test_an_ffmpeg_that_hangs(clip: Path, make_job: MakeJob, bench: WorkerConfig, tmp_path: Path) -> None:
    hanging = tmp_path / "ffmpeg"
    hanging.write_text("#!/bin/sh\nexec cat /dev/zero >/dev/null\n")
    hanging.chmod(0o755)
    stuck = dataclasses.replace(bench, ffmpeg=FFmpeg(str(hanging), "0", "0"), stall_s=0.5)
    outcome = run(make_job(clip), stuck, RecordingReport())
    assert isinstance(outcome, Failed)
    assert outcome.code is ErrorCode.STALLED


@pytest.fixture
def hanging_gpu(ffmpeg: FFmpeg, bench: WorkerConfig, tmp_path: Path) -> WorkerConfig:
    """A CPU worker with a GPU that was found to decode, and hangs."""
    path = tmp_path / "ffmpeg"
    path.write_text(
        f'#!/bin/sh\ncase " $* " in *" -hwaccel "*) exec sleep 600 ;; esac\nexec "{ffmpeg.path}" "$@"\n'
    )
    path.chmod(0o755)
    return dataclasses.replace(bench, ffmpeg=locate(str(path)), device="0", decodes="h264", stall_s=5)


@pytest.fixture
def bt709(ffmpeg: FFmpeg, tmp_path: Path) -> Path:
    """A clip whose pictures need another size only."""
    path = tmp_path / "bt709.mp4"
    tags = "setparams=color_primaries=1:color_trc=1:colorspace=1:range=limited"
    source = ("-f", "lavfi", "-i", f"testsrc2=s=320x180:r=25:d=3,{tags}", "-pix_fmt", "yuv420p")
    run_ffmpeg(ffmpeg, *source, "-c:v", "libx264", str(path))
    return path


@pytest.mark.slow
def test_a_gpu_that_hangs_is_given_up(bt709: Path, make_job: MakeJob, hanging_gpu: WorkerConfig) -> None:
    report = RecordingReport()
    assert isinstance(run(make_job(bt709), hanging_gpu, report), Done)
    [warning] = report.seen[-1].warnings or []
    assert warning.code == WarningCode.GPU_FAILED
    assert "no progress for 5 s" in warning.text


def test_a_profile_for_the_cpu_uses_no_gpu(
    bt709: Path, make_job: MakeJob, hanging_gpu: WorkerConfig, small: Profile
) -> None:
    report = RecordingReport()
    job = make_job(bt709, profile=dataclasses.replace(small, encoder="cpu").to_json())
    assert isinstance(run(job, hanging_gpu, report), Done)
    assert not report.seen[-1].warnings


@pytest.mark.slow
def test_a_stopped_ffmpeg_is_a_stall(
    long_clip: Path, make_job: MakeJob, bench: WorkerConfig, work_dir: Path
) -> None:
    """As one is that waits for a disk which never answers."""
    stopped: list[int] = []

    def stop(report: RecordingReport) -> None:
        if _segments_of_each(report) and not stopped:
            stopped.extend(child.pid for child in psutil.Process().children() if "ffmpeg" in child.name())
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)

    outcome = run(make_job(long_clip), dataclasses.replace(bench, stall_s=5), RecordingReport(stop))
    assert stopped
    assert isinstance(outcome, Failed)
    assert outcome.code is ErrorCode.STALLED
    assert re.search(r"ffmpeg \((poster, )?video", outcome.text)
    log = Path(make_job(long_clip)["log"]).read_text()
    assert re.search(r"\[video\] stalled after \d+\.\d s of CPU: .*enc0:0:libx264 T", log)
    assert not [pid for pid in stopped if psutil.pid_exists(pid)]
    kept = {path: path.stat().st_ino for path in work_dir.glob("segments/3/*/*/*.m4s")}
    assert kept
    again = RecordingReport()
    assert isinstance(run(make_job(long_clip, epoch=2), bench, again), Done)
    assert {path: path.stat().st_ino for path in kept} == kept
    assert (again.seen[-1].resumed_from or 0) > 0


@pytest.mark.fault("An attempt exceeds its time limit", "`TIMEOUT`, retried from where it was", area="resume")
def test_what_takes_too_long_is_ended(
    long_clip: Path, make_job: MakeJob, bench: WorkerConfig, slow: Profile
) -> None:
    impatient = dataclasses.replace(bench, time_limit=TimeLimit(least_s=0, most_s=0))
    job = make_job(long_clip, profile=slow.to_json())
    outcome = run(job, impatient, RecordingReport())
    assert isinstance(outcome, Failed)
    assert outcome.code is ErrorCode.TIMEOUT
    assert "time_limit_factor" in outcome.hint


def test_each_segment_moves_the_deadline(
    clip: Path, make_job: MakeJob, bench: WorkerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    class Noted(Deadline):
        def advance(self, made: int) -> None:
            seen.append(made)
            super().advance(made)

    monkeypatch.setattr("tqstudio.engine.worker.job.pipeline.Deadline", Noted)
    report = RecordingReport()
    assert isinstance(run(make_job(clip), bench, report), Done)
    assert seen == sorted(seen)
    assert seen[-1] > 1


def test_a_small_file_that_lasts_for_days_is_refused(
    ffmpeg: FFmpeg, tmp_path: Path, make_job: MakeJob, bench: WorkerConfig
) -> None:
    """A frame an hour: 34 kB of it were planned as 606 815 segments."""
    path = tmp_path / "slides.mkv"
    source = ("-f", "lavfi", "-i", "testsrc2=s=160x90:r=1:d=50", "-vf", "setpts=N*3600/TB")
    encoded = ("-fps_mode", "passthrough", "-c:v", "libx264", "-preset", "ultrafast")
    subprocess.run([ffmpeg.path, "-v", "error", "-nostdin", *source, *encoded, path], check=True)
    assert path.stat().st_size < 200_000
    outcome = run(make_job(path), bench, RecordingReport())
    assert isinstance(outcome, Failed)
    assert outcome.code is ErrorCode.UNSUPPORTED
    assert "max_duration_s allows 48.0 h" in outcome.text


def test_a_mistake_of_ours_is_reported(
    clip: Path, make_job: MakeJob, bench: WorkerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tqstudio.engine.worker.job.manifest.combined", lambda _: {}["surprise"])
    outcome = run(make_job(clip), bench, RecordingReport())
    assert isinstance(outcome, Failed)
    assert outcome.code is ErrorCode.INTERNAL
    assert "Traceback" in Path(make_job(clip)["log"]).read_text()


def test_a_profile_of_another_version(clip: Path, make_job: MakeJob, bench: WorkerConfig) -> None:
    outcome = run(make_job(clip, profile={"name": "web"}), bench, RecordingReport())
    assert isinstance(outcome, Failed)
    assert outcome.code is ErrorCode.BAD_CONFIG

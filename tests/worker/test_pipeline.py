"""Whole jobs with the real ffmpeg, without a supervisor."""

from __future__ import annotations

import dataclasses
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from media.conftest import leave
from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.worker.job.attempt import WorkerConfig
from tqstudio.engine.worker.reporting.outcome import Done, Lost, Stopped
from tqstudio.lifecycle import Step
from tqstudio.protocol.requests import CompleteRequest

from .conftest import MakeJob, RecordingReport, lease_of, run

pytestmark = pytest.mark.usefixtures("nothing_is_left")

FRAGMENTS = 2
"""In a segment of the test profile."""


def test_a_job_from_end_to_end(clip: Path, make_job: MakeJob, bench: WorkerConfig, work_dir: Path) -> None:
    report = RecordingReport()
    outcome = run(make_job(clip), bench, report)
    assert isinstance(outcome, Done)
    manifest = CompleteRequest(
        instance="an-instance",
        epoch=1,
        manifest=outcome.manifest,
        full_hash=outcome.full_hash,
        steps=report.steps,
    ).manifest
    assert [(r.name, r.kind, r.width, r.height) for r in manifest.renditions] == [
        ("144p", "video", 256, 144),
        ("90p", "video", 160, 90),
        ("audio-und", "audio", None, None),
    ]
    for rendition in manifest.renditions:
        folder = work_dir / rendition.folder
        assert (folder / "init.mp4").stat().st_size == rendition.init_size
        assert [(folder / s.name).stat().st_size for s in rendition.segments] == [
            s.size for s in rendition.segments
        ]
        assert rendition.duration_s == pytest.approx(3, abs=0.1)
    assert manifest.renditions[0].frame_rate == 25
    assert (manifest.renditions[2].channels, manifest.renditions[2].default) == (1, True)
    assert manifest.poster is not None
    assert (work_dir / manifest.poster).read_bytes()[:2] == b"\xff\xd8"
    assert (manifest.keep, manifest.warnings) == ([], [])
    assert manifest.storyboard is not None
    assert (work_dir / manifest.storyboard / "storyboard.vtt").is_file()

    assert list(report.steps) == [step.value for step in Step]
    assert report.steps["extras"] > 0.001, "the poster's own run, though it is made beside the transcode"
    progress = [state.progress for state in report.seen]
    assert progress == sorted(progress)
    assert report.progress == 99
    first = report.seen[1]
    assert [(r.name, r.status.value) for r in first.renditions or []] == [
        ("360p", "skipped"),
        ("144p", "pending"),
        ("90p", "pending"),
    ]
    assert first.facts is not None
    assert first.content_id
    last = {r.name: r for r in report.seen[-1].renditions or []}
    assert (last["144p"].progress, last["144p"].segments_done, last["144p"].segments_total) == (100, 2, 2)
    assert sorted(report.commands) == ["audio-und/index.m3u8", "poster.jpg", "video"]

    log = Path(make_job(clip)["log"]).read_text()
    assert "[video] $ " in log
    assert "finalize: done" in log
    assert not list(Path(make_job(clip)["log"]).parent.glob("*.runs"))


def test_what_one_attempt_finished_no_other_makes_again(
    clip: Path, make_job: MakeJob, bench: WorkerConfig
) -> None:
    # The first one stops behind its transcode, as a killed worker does.
    job = make_job(clip)
    lease = lease_of(job)
    stop = RecordingReport(
        lambda report: lease.lose("gone") if report.seen[-1].step == "master_playlist" else None
    )
    assert isinstance(run(job, bench, stop, lease), Lost)
    again = RecordingReport()
    outcome = run(make_job(clip, epoch=2, attempt=2), bench, again)
    assert isinstance(outcome, Done)
    assert again.commands == []
    assert outcome.manifest["poster"] is not None
    assert again.steps["extras"] < stop.steps["extras"], "it was there already"


@pytest.mark.fault(
    "A running job is paused or cancelled",
    "ffmpeg is dead within 2 s, finished fragments are stored",
    area="resume",
)
@pytest.mark.parametrize(
    "reason",
    [
        "cancel",
        "lost",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("pause", "restart", "shutdown")),
    ],
)
def test_ffmpeg_is_dead_once_the_pipeline_stops(
    long_clip: Path, make_job: MakeJob, bench: WorkerConfig, slow: Profile, reason: str
) -> None:
    job = make_job(long_clip, profile=slow.to_json())
    lease, asked = lease_of(job), False

    def stop(report: RecordingReport) -> None:
        nonlocal asked
        if report.progress > 1 and not asked:
            asked = True
            {"shutdown": lease.shut_down, "lost": lambda: lease.lose("gone")}.get(
                reason, lambda: lease.control(reason)
            )()

    report = RecordingReport(stop)
    outcome = run(job, bench, report, lease)
    assert outcome == (Lost("gone") if reason == "lost" else Stopped(reason))  # type: ignore[arg-type]
    assert list(report.steps) == ["probe", "extras", "transcode"]


def test_an_attempt_says_at_which_fragment_of_the_first_segment_it_resumes(
    clip: Path, make_job: MakeJob, bench: WorkerConfig, work_dir: Path
) -> None:
    first = RecordingReport()
    assert isinstance(run(make_job(clip), bench, first), Done)
    assert (first.seen[-1].resumed_from, first.seen[-1].resumed_at_s) == (0, 0)
    for name in ("144p", "90p"):
        [directory] = work_dir.glob(f"segments/3/{name}/*")
        leave(directory, 0, 1)
    again, next_job = RecordingReport(), make_job(clip, epoch=2)
    assert isinstance(run(next_job, bench, again), Done)
    assert (again.seen[-1].resumed_from, again.seen[-1].resumed_at_s) == (0, 1)
    log = Path(next_job["log"]).read_text()
    assert "found: 144p 0 of 2 segments, 90p 0 of 2 segments" in log
    assert "[video] resumes at segment 0, at 1.0 s" in log


def test_a_paused_job_resumes_at_the_segment(
    long_clip: Path, make_job: MakeJob, bench: WorkerConfig, paced: FFmpeg, work_dir: Path
) -> None:
    job = make_job(long_clip)
    lease = lease_of(job)

    def pause(report: RecordingReport) -> None:
        if any(r.segments_done > 1 for r in report.seen[-1].renditions or []):
            lease.control("pause")

    paused = RecordingReport(pause)
    assert run(job, dataclasses.replace(bench, ffmpeg=paced), paused, lease) == Stopped("pause")
    # Not of the sound, whose short end joins the segment before.
    stored = {path: path.stat().st_ino for path in work_dir.glob("segments/3/*p/*/*.m4s")}
    kept = {name: len(list(work_dir.glob(f"segments/3/{name}/*/*.m4s"))) for name in ("144p", "90p")}
    assert max(kept.values()) > 1
    assert f"144p {kept['144p']} of 30 segments" in Path(job["log"]).read_text()

    left = {r.name: r for r in paused.seen[-1].renditions or ()}
    for name, segments in kept.items():
        fragments = len(list(work_dir.glob(f"segments/3/{name}/*/fragments/*.m4s")))
        whole = 100 * (segments * FRAGMENTS + fragments) / (30 * FRAGMENTS)
        assert (left[name].status, left[name].kept) == ("pending", pytest.approx(whole, abs=0.1))

    again = RecordingReport()
    next_job = make_job(long_clip, epoch=2)
    outcome = run(next_job, bench, again)
    assert isinstance(outcome, Done)
    assert {path: path.stat().st_ino for path in stored} == stored
    assert "poster.jpg" not in again.commands
    assert again.seen[-1].resumed_from == min(kept.values())
    log = Path(next_job["log"]).read_text()
    assert f"found: 144p {kept['144p']} of 30 segments" in log
    assert f"[video] resumes at segment {min(kept.values())}" in log
    # Every quality is shown from what is kept, and none goes back.
    shown = [{r.name: r for r in state.renditions} for state in again.seen if state.renditions]
    for name, segments in kept.items():
        assert shown[0][name].segments_done == segments
        assert shown[0][name].kept == left[name].kept, "what was finished is found again, to the fragment"
        assert [rows[name].kept for rows in shown] == sorted(rows[name].kept for rows in shown)
        assert all(rows[name].kept <= rows[name].progress for rows in shown)
        progress = [rows[name].progress for rows in shown]
        assert segments / 30 * 100 - 0.1 <= progress[0] < (segments + 1) / 30 * 100
        assert progress == sorted(progress)


@pytest.mark.slow
@pytest.mark.fault(
    "A seek misses its frame", "The source is decoded from its start, also by later attempts", area="resume"
)
def test_a_seek_that_missed_is_known_to_the_next_attempt(
    long_clip: Path, make_job: MakeJob, bench: WorkerConfig, paced: FFmpeg, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    job = make_job(long_clip)
    lease = lease_of(job)

    def stop(report: RecordingReport) -> None:
        if any(r.segments_done > 9 for r in report.seen[-1].renditions or []):
            lease.control("pause")

    first = dataclasses.replace(bench, ffmpeg=paced)
    assert run(job, first, RecordingReport(stop), lease) == Stopped("pause")
    astray = tmp_path / "ffmpeg"
    astray.write_text(
        f"""#!/bin/sh
for word in "$@"; do
  shift
  [ "$last" = -ss ] && word=55
  set -- "$@" "$word"
  last=$word
done
exec "{ffmpeg.path}" "$@"
"""
    )
    astray.chmod(0o755)
    second = RecordingReport()
    next_job = make_job(long_clip, epoch=2)
    stray = dataclasses.replace(bench, ffmpeg=dataclasses.replace(ffmpeg, path=str(astray)))
    assert isinstance(run(next_job, stray, second), Done)
    facts = [state.facts for state in second.seen if state.facts]
    assert (facts[0]["unseekable"], facts[-1]["unseekable"]) == (False, True)
    # The next attempt is handed these.
    assert SourceFacts.from_json(facts[-1]).unseekable
    assert second.seen[-1].content_id == second.seen[1].content_id
    assert "decoding from the start of the source" in Path(next_job["log"]).read_text()


def test_kept_renditions_are_not_made(clip: Path, make_job: MakeJob, bench: WorkerConfig) -> None:
    first = run(make_job(clip), bench, RecordingReport())
    assert isinstance(first, Done)
    kept = {r["name"]: r["settings_hash"] for r in first.manifest["renditions"]}
    all_kept, report = run(make_job(clip, kept=kept, epoch=2), bench, RecordingReport()), RecordingReport()
    assert isinstance(all_kept, Done)
    assert (all_kept.manifest["renditions"], all_kept.manifest["keep"]) == ([], sorted(kept))
    boards = [
        (each.manifest["storyboard"] is None, each.manifest["keep_storyboard"]) for each in (first, all_kept)
    ]
    assert boards == [(False, False), (True, True)]
    assert all_kept.manifest["settings_hash"] == first.manifest["settings_hash"]
    shutil.rmtree(Path(make_job(clip)["log"]).parent)
    outcome = run(make_job(clip, kept=kept | {"90p": "older"}, epoch=3, video=4), bench, report)
    assert isinstance(outcome, Done)
    assert [r["name"] for r in outcome.manifest["renditions"]] == ["90p"]
    assert sorted(report.commands) == ["poster.jpg", "video"]


def test_dropped_renditions_are_not_made(clip: Path, make_job: MakeJob, bench: WorkerConfig) -> None:
    report = RecordingReport()
    outcome = run(make_job(clip, dropped=["144p", "audio-und"]), bench, report)
    assert isinstance(outcome, Done)
    assert [r["name"] for r in outcome.manifest["renditions"]] == ["90p"]
    assert sorted(report.commands) == ["poster.jpg", "video"]


def test_known_facts_spare_the_probe(
    clip: Path, make_job: MakeJob, bench: WorkerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = RecordingReport()
    first = run(make_job(clip), bench, report)
    probed = next(state for state in report.seen if state.facts)
    monkeypatch.setattr("tqstudio.engine.media.source.probe.probe", lambda *_: pytest.fail("probed again"))
    job = make_job(clip, epoch=2, facts=probed.facts, content_id=probed.content_id)
    second = run(job, bench, RecordingReport())
    assert isinstance(first, Done)
    assert second == first


def test_facts_of_another_version_or_file_are_read_again(
    clip: Path, make_job: MakeJob, bench: WorkerConfig
) -> None:
    for number, changes in enumerate(
        ({"facts": {"nonsense": 1}}, {"source_mtime_ns": 1, "content_id": "of the old content"})
    ):
        report = RecordingReport()
        assert isinstance(run(make_job(clip, epoch=number + 1, **changes), bench, report), Done)
        assert report.seen[1].content_id not in (None, "of the old content")


def test_chapters_that_an_earlier_version_only_counted_are_read(
    clip: Path, make_job: MakeJob, bench: WorkerConfig
) -> None:
    report = RecordingReport()
    run(make_job(clip), bench, report)
    facts = next(state.facts for state in report.seen if state.facts)
    again = RecordingReport()
    run(make_job(clip, epoch=2, facts=facts | {"chapters": 2}), bench, again)
    assert next(state.facts for state in again.seen if state.facts) == facts


def test_nothing_is_kept_of_content_that_differs_between_the_samples(
    clip: Path, make_job: MakeJob, bench: WorkerConfig, tmp_path: Path
) -> None:
    """The file changed after it was queued; a change behind it was made of what it held before."""
    path = Path(shutil.copyfile(clip, tmp_path / "padded.mp4"))
    with path.open("ab") as file:
        file.write((12_000_000).to_bytes(4, "big") + b"free" + bytes(11_999_992))
    report = RecordingReport()
    first = run(make_job(path), bench, report)
    assert isinstance(first, Done)
    known = next(state for state in report.seen if state.facts)
    kept = {rendition["name"]: rendition["settings_hash"] for rendition in first.manifest["renditions"]}
    claim = {"kept": kept, "source_mtime_ns": 1, "content_id": known.content_id}
    same = run(make_job(path, epoch=2, full_hash=first.full_hash, **claim), bench, RecordingReport())
    assert isinstance(same, Done)
    assert (same.manifest["renditions"], sorted(same.manifest["keep"])) == ([], sorted(kept))
    with path.open("r+b") as file:
        file.seek(clip.stat().st_size + 2_000_000)
        file.write(b"x" * 350)
    other = run(make_job(path, epoch=3, full_hash=first.full_hash, **claim), bench, RecordingReport())
    assert isinstance(other, Done)
    assert ([r["name"] for r in other.manifest["renditions"]], other.manifest["keep"]) == (list(kept), [])


def test_no_thread_is_left(clip: Path, make_job: MakeJob, bench: WorkerConfig) -> None:
    run(make_job(clip), bench, RecordingReport())
    assert [thread.name for thread in threading.enumerate() if thread.name == "source-hash"] == []


@pytest.mark.fault(
    "A worker is suspended beyond its lease and continues beside the next one",
    "It stores, verifies and removes nothing",
    area="resume",
)
def test_a_lease_that_ends_within_a_step_takes_nothing_away(
    clip: Path, make_job: MakeJob, bench: WorkerConfig, work_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a sleep in the middle of it: the lease was looked at just before."""
    job = make_job(clip)
    lease, step = lease_of(job), LadderEncode.step

    def late(encode: LadderEncode) -> Any:
        for task in encode.tasks:
            task.run.wait()
        lease.lose("gone")
        return step(encode)

    monkeypatch.setattr(LadderEncode, "step", late)
    assert isinstance(run(job, bench, RecordingReport(), lease), Lost)
    assert not list(work_dir.glob("segments/3/*/*/*.m4s")), "nor is anything stored"


@pytest.mark.fault("A poster is cut short", "Detected by its end; made again", area="power cuts")
@pytest.mark.parametrize("torn", [b"", b"\xff\xd8\xff\xe0 half"])
def test_a_poster_that_a_power_cut_tore_is_made_again(
    clip: Path, make_job: MakeJob, bench: WorkerConfig, work_dir: Path, torn: bytes
) -> None:
    assert isinstance(run(make_job(clip), bench, RecordingReport()), Done)
    [poster] = work_dir.glob("segments/3/poster-*.jpg")
    whole = poster.read_bytes()
    poster.write_bytes(torn)
    for made in work_dir.glob("segments/3/144p/*/complete.json"):
        made.unlink()
    again = RecordingReport()
    assert isinstance(run(make_job(clip, epoch=2), bench, again), Done)
    assert "poster.jpg" in again.commands
    assert poster.read_bytes() == whole


def test_damage_that_one_attempt_saw_is_known_to_the_next(
    clip: Path, make_job: MakeJob, bench: WorkerConfig, tmp_path: Path
) -> None:
    """Also where that one makes nothing that is damaged, for it finds it made."""
    source = tmp_path / "errors.mp4"
    content = bytearray(clip.read_bytes())
    begins = content.index(b"mdat") + 4
    size = int.from_bytes(content[begins - 8 : begins - 4])
    for at in range(begins + size // 2, begins + size * 3 // 4, 499):
        content[at : at + 12] = bytes(value ^ 0x55 for value in content[at : at + 12])
    source.write_bytes(content)
    report = RecordingReport()
    outcome = run(make_job(source), bench, report)
    assert isinstance(outcome, Done)
    damage = [each for each in outcome.manifest["warnings"] if each["code"] == "SOURCE_DAMAGED"]
    assert any("pictures" in each["text"] for each in damage), outcome.manifest["warnings"]
    assert [each.model_dump() for each in report.seen[-1].warnings or ()] == outcome.manifest["warnings"]
    facts = report.seen[-1].facts
    assert facts is not None
    again = RecordingReport()
    second = run(make_job(source, epoch=2, facts=facts), bench, again)
    assert isinstance(second, Done)
    assert again.commands == []
    assert sorted(each["text"] for each in second.manifest["warnings"]) == sorted(
        each["text"] for each in outcome.manifest["warnings"]
    )

"""A quality as the target of a profile: decided once, found again by every later attempt, and shown."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from e2e.conftest import MakeStudio
from e2e.studio import Studio, mark, published_marks, write_script
from harness import lives
from tqstudio.protocol import calls
from waiting import until

from .conftest import PROFILE, MakeFilm, decided, used_crfs


def _studio(make_studio: MakeStudio, profile: str = PROFILE, **settings: Any) -> Studio:
    studio = make_studio(profile="good", **settings)
    studio.write_profile("good", profile)
    return studio


def _reasons(job: Any) -> dict[str, str]:
    return {each["name"]: each["reason"] for each in job["renditions"] if each["status"] == "completed"}


def _searches(job: Any) -> bool:
    """Whether the newest attempt sought a CRF."""
    return "[probe] $" in Path(job["attempts_log"][-1]["log"]).read_text()


@pytest.mark.slow
def test_a_quality_is_decided_reached_and_shown(make_studio: MakeStudio, film: MakeFilm) -> None:
    studio, source = _studio(make_studio).up(), film()
    before = str(studio("plan", str(source)))
    number = studio.add(source)
    until(lambda: "finding the CRF" in (studio.job(number)["step"] or ""), "the search is shown")
    job = studio.done(number)

    [found] = decided(studio)
    assert found["encoder"] == "libx264"
    assert found["vmaf"] == pytest.approx(90, abs=1.5)
    assert used_crfs(job) == {str(found["crf"])}
    reasons = _reasons(job)
    shown = re.fullmatch(r"VMAF ([\d.]+) \(v0\.6\.1 at 1920×1080\), CRF (\d+)", reasons["90p"])
    assert shown, reasons
    assert float(shown[1]) == pytest.approx(90, abs=3)
    assert reasons["60p"] == f"CRF {found['crf']}"
    assert not job["warnings"]

    assert "90p: VMAF 90; its CRF is decided when it is encoded" in before
    after = studio("plan", str(source), "--json").json()
    assert [each["crf"] for each in after["renditions"] if each["kind"] == "video"] == [found["crf"]] * 2
    # Nothing of it counts as changed, and what is made again has the same CRF.
    (again,) = studio.offer(source)
    assert again["decision"] == "cached", again
    made = studio.done(studio.do("retranscode", job["id"])["new_job"])
    assert used_crfs(made) == used_crfs(job)
    assert decided(studio) == [found]
    assert _searches(job)
    assert not _searches(made)


@pytest.mark.slow
def test_a_published_ladder_is_measured(make_studio: MakeStudio, film: MakeFilm) -> None:
    studio = _studio(make_studio, PROFILE.replace("quality = 90", "crf = 30")).up()
    job = studio.done(studio.add(film()))
    video = job["video"]

    view = studio("quality", str(video), "--json").json()
    assert (view["model"], view["size"]) == ("vmaf_v0.6.1", "1920×1080")
    best, small = view["renditions"]
    assert (best["name"], small["name"]) == ("90p", "60p")
    assert 100 > best["vmaf"] > small["vmaf"] > 0
    for each in view["renditions"]:
        assert each["vmaf"] > each["low_1_percent"] >= each["worst"]["vmaf"]
        assert 0 <= each["worst"]["at_s"] < 61
    printed = str(studio("quality", str(film())))
    assert f"{best['vmaf']:.1f}" in printed
    assert "vmaf_v0.6.1 at 1920×1080, every fifth picture" in printed


@pytest.mark.slow
@pytest.mark.fault(
    "the worker is killed after it found the CRF for a quality",
    "another worker uses that CRF, and continues with what is stored",
    area="workers",
)
def test_a_later_attempt_of_another_worker_finds_the_decision(
    make_studio: MakeStudio, film: MakeFilm
) -> None:
    studio = _studio(make_studio, workers=2).up()
    with studio.paced(20):
        job = studio.add(film())
        ffmpegs = studio.running(job, segments=3)
        first = studio.job(job)["worker"]
        [found] = decided(studio)
        kept = {mark(path) for path in studio.stored_segments(studio.job(job)["video"])}
        studio.client.send(calls.worker_action(first, "disable"))
        os.kill(studio.worker(first)["pid"], signal.SIGKILL)
    done = studio.done(job)
    assert not any(map(lives, ffmpegs))
    assert [each["worker"] for each in done["attempts_log"]][-1] != first
    assert kept <= published_marks(done)
    assert decided(studio) == [found]
    assert used_crfs(done) == {str(found["crf"])}
    assert not _searches(done)


@pytest.mark.slow
def test_a_poor_source_wins_over_the_quality(make_studio: MakeStudio, film: MakeFilm) -> None:
    studio = _studio(make_studio, PROFILE.replace("quality = 90", "quality = 98")).up()
    job = studio.done(
        studio.add(film(61, "-b:v", "60k", "-maxrate", "60k", "-bufsize", "60k", "-preset", "veryslow"))
    )
    [warning] = [each for each in job["warnings"] if each["code"] == "QUALITY_NOT_REACHED"]
    [found] = decided(studio)
    assert f"with CRF {found['crf']} and the" in warning["text"]
    assert "kb/s that its source allows" in warning["text"]
    assert found["vmaf"] < 97
    assert found["remark"]


def _without(ffmpeg: str, folder: Path, *arms: str) -> Path:
    """ffmpeg behind a script with these arms of a `case` over its arguments."""
    text = "\n".join(arms)
    return write_script(folder / "half", f'#!/bin/sh\ncase "$*" in\n{text}\nesac\nexec "{ffmpeg}" "$@"\n')


@pytest.mark.slow
@pytest.mark.fault(
    "a probe for the CRF of a quality crashes",
    "the CRF of the profile is used, with a warning; a retranscode seeks again",
    area="workers",
)
def test_a_crashed_probe_falls_back_to_the_crf(
    make_studio: MakeStudio, film: MakeFilm, ffmpeg: str, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.touch()
    script = _without(ffmpeg, tmp_path, f'*libvmaf=*) [ -e "{broken}" ] && kill -SEGV $$ ;;')
    studio = _studio(make_studio, real_ffmpeg=script).up()
    job = studio.done(studio.add(film()))
    [warning] = job["warnings"]
    assert warning["code"] == "QUALITY_NOT_REACHED"
    assert "VMAF 90 was not sought for h264, which has CRF 22: ffmpeg was terminated" in warning["text"]
    assert used_crfs(job) == {"22"}
    assert _reasons(job)["90p"] == "CRF 22"

    broken.unlink()
    again = studio.done(studio.do("retranscode", job["id"])["new_job"])
    assert not again["warnings"]
    assert decided(studio)[-1]["vmaf"] == pytest.approx(90, abs=1.5)


@pytest.mark.slow
def test_an_ffmpeg_without_libvmaf_is_reported(
    make_studio: MakeStudio, film: MakeFilm, ffmpeg: str, tmp_path: Path
) -> None:
    script = _without(ffmpeg, tmp_path, f'*-filters*) "{ffmpeg}" "$@" | grep -v libvmaf; exit ;;')
    studio = _studio(make_studio, real_ffmpeg=script).up()
    [check] = [each for each in studio("doctor", "--json").json()["checks"] if each["name"] == "vmaf"]
    assert (check["level"], check["ok"]) == ("warn", True)
    job = studio.done(studio.add(film()))
    [warning] = job["warnings"]
    assert (warning["code"], warning["text"][-14:]) == ("QUALITY_NOT_REACHED", "has no libvmaf")
    assert used_crfs(job) == {"22"}
    refused = studio("quality", str(job["video"]))
    assert "has no libvmaf" in refused.err


@pytest.mark.slow
def test_a_short_video_has_the_crf_and_the_keys_of_the_profile(
    make_studio: MakeStudio, film: MakeFilm
) -> None:
    studio = _studio(make_studio).up()
    studio.write_profile("plain", PROFILE.replace("quality = 90", "crf = 22"))
    source = film(20)
    assert "90p: CRF 22, because the video is shorter than 60 s" in str(studio("plan", str(source)))
    job = studio.done(studio.add(source))
    assert _reasons(job)["90p"] == "CRF 22: the video is shorter than 60 s"
    assert used_crfs(job) == {"22"}
    assert not job["warnings"]
    (same,) = studio.offer(source, profile="plain")
    assert same["decision"] == "cached"


@pytest.mark.slow
@pytest.mark.parametrize("control", ["pause", "cancel"])
def test_a_search_can_be_stopped(make_studio: MakeStudio, film: MakeFilm, control: str) -> None:
    studio = _studio(make_studio).up()
    with studio.paced(0.5):
        job = studio.add(film())
        until(lambda: "finding the CRF" in (studio.job(job)["step"] or ""), "the search has begun")
        ffmpegs = until(studio.encoders, "its ffmpeg runs")
        studio.do(control, job)
        studio.wait(job, "paused" if control == "pause" else "cancelled")
    assert not any(map(lives, ffmpegs))
    assert decided(studio) == []
    studio.do("resume" if control == "pause" else "retry", job)
    assert _reasons(studio.done(job))["90p"].startswith("VMAF ")


@pytest.mark.slow
def test_measuring_ends_with_ctrl_c_and_a_changed_source_is_refused(
    make_studio: MakeStudio, film: MakeFilm, copy: Callable[..., Path]
) -> None:
    studio = _studio(make_studio, PROFILE.replace("quality = 90", "crf = 30")).up()
    source = copy(film(), "film.mp4")
    video = str(studio.done(studio.add(source))["video"])
    command = studio.spawn("quality", video)
    ffmpegs = until(lambda: _children(command.pid), "it measures")
    command.send_signal(signal.SIGINT)
    assert command.wait(30) == 130
    assert not any(map(lives, ffmpegs))

    os.utime(source, (1, 1))
    refused = studio("quality", video)
    assert "SOURCE_CHANGED" in refused.err
    assert "there is no video 99" in studio("quality", "99").err


def _children(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children(recursive=True) if lives(child.pid)]

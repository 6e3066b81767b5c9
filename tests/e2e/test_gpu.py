"""GPU workers: found by a real encode through whatever ffmpeg is configured."""

from __future__ import annotations

import json
import os
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest

from harness import PROGRAM
from media.conftest import run_ffmpeg
from media.gpus import in_place_of_gpus
from tqstudio.engine.media.ffmpeg.binary import locate
from tqstudio.protocol import calls
from waiting import until
from wings.standby.test_standby import RUNGS, stand_by

from .conftest import MakeClip, MakeFleet, MakeStudio
from .ladder import check_ladder
from .studio import WORDS, Studio, video_runs, write_script

# Answers for h264_nvenc by encoding with libx264; options that only the GPU knows are left out. For one file
# it fails, as a GPU does whose driver went away.
_STANDS_IN = """#!/bin/sh
{words}
skip=
nvenc=
case " $words " in
    *falls-back*" h264_nvenc "*) exit 1 ;;
    *" h264_nvenc "*) nvenc=1 ;;
esac
if [ -n "$nvenc" ]; then
    for word in "$@"; do
        shift
        if [ -n "$skip" ]; then skip=; continue; fi
        case "$word" in
            -gpu|-rc|-cq|-forced-idr|-no-scenecut|-strict_gop|-preset|-b:v) skip=1; continue ;;
            h264_nvenc) set -- "$@" libx264 -preset ultrafast -sc_threshold 0 -bf 0; continue ;;
        esac
        set -- "$@" "$word"
    done
fi
exec "{ffmpeg}" "$@"
"""

# Lists the encoder, as a build does that has it, and fails to open a device, as it does without a GPU.
_NO_DEVICE = """#!/bin/sh
case " $* " in *" h264_nvenc "*) echo "Cannot load libcuda.so.1" >&2; exit 1 ;; esac
exec "{ffmpeg}" "$@"
"""


def _with(make_studio: MakeStudio, ffmpeg: str, tmp_path: Path, script: str) -> Studio:
    wrapper = write_script(tmp_path / "gpu-ffmpeg", script.format(words=WORDS, ffmpeg=ffmpeg))
    return make_studio(gpu="true", real_ffmpeg=wrapper)


@pytest.mark.slow
def test_a_gpu_that_encodes_gets_a_worker_that_finishes_jobs(
    make_studio: MakeStudio, ffmpeg: str, tmp_path: Path, clip: MakeClip, copy
) -> None:
    studio = _with(make_studio, ffmpeg, tmp_path, _STANDS_IN).up()
    until(lambda: "gpu-0" in [w["name"] for w in studio.status()["workers"]], "gpu-0 is there")
    until(lambda: studio.worker("gpu-0")["status"] == "idle", "gpu-0 is registered")
    gpu = studio.worker("gpu-0")
    assert (gpu["kind"], gpu["encoder"]) == ("gpu", "h264_nvenc")
    # The CPU worker is off, so that only the GPU can have done it.
    studio.client.send(calls.worker_action("cpu-0", "disable"))
    job = studio.add(copy(clip(), "on-the-gpu.mp4"))
    done = studio.done(job)
    assert done["processed_by"] == "gpu-0"
    (attempt,) = done["attempts_log"]
    assert attempt["encoder"] == "h264_nvenc"
    assert all("h264_nvenc" in argv for argv in video_runs(attempt))
    rows = [row for row in done["renditions"] if row["status"] == "completed"]
    assert {row["encoder"] for row in rows} == {"h264_nvenc"}
    master = Path(done["video_view"]["generation"]["master"])
    check_ladder(master, frames=100, fps=Fraction(25), names=("180p", "120p", "90p"))

    fallen = studio.done(studio.add(copy(clip(), "falls-back.mp4")))
    assert fallen["processed_by"] == "gpu-0"
    assert fallen["attempts"] == 0
    rows = [row for row in fallen["renditions"] if row["status"] == "completed"]
    assert {row["encoder"] for row in rows} == {"libx264"}
    assert all("h264_nvenc" in row["reason"] for row in rows), "it is reported"
    master = Path(fallen["video_view"]["generation"]["master"])
    check_ladder(master, frames=100, fps=Fraction(25), names=("180p", "120p", "90p"))

    # With both at hand the GPU goes first.
    studio.client.send(calls.worker_action("cpu-0", "enable"))
    until(lambda: {w["status"] for w in studio.status()["workers"]} == {"idle"}, "both are idle")
    jobs = [studio.add(copy(clip(fps="24"), f"gpu-first-{n}.mp4")) for n in range(2)]
    assert "gpu-0" in {studio.done(job)["processed_by"] for job in jobs}


@pytest.mark.more
def test_one_that_stands_by_lends_its_gpu(
    fleet: MakeFleet, ffmpeg: str, tmp_path: Path, clip: MakeClip, copy
) -> None:
    first, second = fleet("first", "second", gpu="true", lease_s=120)
    wrapper = write_script(tmp_path / "gpu-ffmpeg", _STANDS_IN.format(words=WORDS, ffmpeg=ffmpeg))
    # A setting of this machine, which its lent workers need too.
    del second.environment["TQSTUDIO_FFMPEG"]
    with second.home.config.open("a") as settings:
        settings.write(f"ffmpeg = {json.dumps(str(wrapper))}\n")
    first.up()
    stand_by(second)
    until(
        lambda: {"second", "second_gpu"} <= {w["name"] for w in first.status()["workers"]}, "both have joined"
    )
    for worker in ("cpu-0", "second"):
        first.client.send(calls.worker_action(worker, "disable"))
    done = first.done(first.add(copy(clip(), "on-the-lent-gpu.mp4")))
    assert done["processed_by"] == "second_gpu"
    (attempt,) = done["attempts_log"]
    assert attempt["encoder"] == "h264_nvenc"
    check_ladder(Path(done["video_view"]["generation"]["master"]), frames=100, fps=Fraction(25), names=RUNGS)


@pytest.mark.more
def test_a_gpu_that_fails_its_probe_gets_none(
    make_studio: MakeStudio, ffmpeg: str, tmp_path: Path, clip: MakeClip, copy
) -> None:
    studio = _with(make_studio, ffmpeg, tmp_path, _NO_DEVICE).up()
    job = studio.add(copy(clip(), "on-the-cpu.mp4"))
    assert studio.done(job)["processed_by"] == "cpu-0"
    until(lambda: studio.worker()["status"] == "idle", "the worker is idle")
    assert [worker["name"] for worker in studio.status()["workers"]] == ["cpu-0"]


# GPUs that decode too


@pytest.fixture(scope="module")
def bt709(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clip whose pictures need another size only."""
    path = tmp_path_factory.mktemp("clip") / "bt709.mp4"
    tags = "setparams=color_primaries=1:color_trc=1:colorspace=1:range=limited"
    source = ("-f", "lavfi", "-i", f"testsrc2=s=320x180:r=25:d=4,{tags}")
    run_ffmpeg(locate(ffmpeg), *source, "-c:v", "libx264", "-g", "50", "-pix_fmt", "yuv420p", str(path))
    return path


# Its trial runs use a stand-in for the GPU, and the jobs ffmpeg itself: it finds no driver, or no such GPU.
_DECODER_FAILS = """#!/bin/sh
echo "$*" >> "{log}"
case "$*" in
    *tqstudio-probe-*) ;;
    *" -hwaccel "*) exec "{ffmpeg}" -init_hw_device cuda=none:99 "$@" ;;
esac
exec "{gpu}" "$@"
"""


def _until_gpu_decodes(studio: Studio) -> None:
    """Wait until gpu-0 decodes H.264; a start repeats a trial that timed out on a busy machine."""
    for last in (False, False, True):
        until(lambda: "gpu-0" in [w["name"] for w in studio.status()["workers"]], "gpu-0 is there")
        until(lambda: studio.worker("gpu-0")["status"] == "idle", "gpu-0 is registered")
        log = studio.home.supervisor_log.read_text()
        found = studio.worker("gpu-0")["capabilities"].get("decodes")
        if found or last or "STALLED" not in log:
            assert found == "h264", log
            return
        studio.down()
        studio.start()


@pytest.mark.more
@pytest.mark.fault(
    "A GPU does not decode any more",
    "The CPU decodes, the GPU still encodes; warning `GPU_FAILED`",
    area="resume",
)
def test_a_decoder_that_fails_leaves_the_encoder(
    make_studio: MakeStudio, ffmpeg: str, tmp_path: Path, bt709: Path, copy
) -> None:
    gpu = in_place_of_gpus(tmp_path / "gpu", locate(ffmpeg), "h264_nvenc", decodes=("h264",))
    log = tmp_path / "ffmpeg.log"
    script = _DECODER_FAILS.format(log=log, ffmpeg=ffmpeg, gpu=gpu.path)
    studio = make_studio(
        gpu="true", gpu_decode="true", real_ffmpeg=write_script(tmp_path / "gpu-ffmpeg", script)
    ).up()
    _until_gpu_decodes(studio)
    studio.client.send(calls.worker_action("cpu-0", "disable"))
    done = studio.done(studio.add(copy(bt709, "decoded.mp4")))
    assert (done["processed_by"], done["attempts"]) == ("gpu-0", 0)
    (attempt,) = done["attempts_log"]
    assert ["-hwaccel" in argv for argv in video_runs(attempt)] == [True, False]
    rows = [row for row in done["renditions"] if row["status"] == "completed"]
    assert {row["encoder"] for row in rows} == {"h264_nvenc"}
    assert all(row["reason"].endswith(" kb/s, as its source allows") for row in rows), "no other encoder"
    [warning] = done["warnings"]
    assert warning["code"] == "GPU_FAILED"
    assert "180p, 120p, 90p" in warning["text"]
    master = Path(done["video_view"]["generation"]["master"])
    check_ladder(master, frames=100, fps=Fraction(25), names=("180p", "120p", "90p"), audio=False)

    # The next start knows what the trials of the first one found.
    studio.down()
    log.unlink()
    studio.start()
    until(lambda: studio.worker("gpu-0")["status"] == "idle", "gpu-0 is registered")
    assert "tqstudio-probe-" not in log.read_text()
    # `doctor` repeats them.
    environment = {**os.environ, **studio.environment}
    told = subprocess.run([*PROGRAM, "doctor", "--json"], env=environment, capture_output=True, check=False)
    checks = {check["name"]: check["detail"] for check in json.loads(told.stdout)["checks"]}
    assert checks["gpu-0"].startswith("NVIDIA ")
    assert checks["gpu-0"].endswith(" (0): encodes with h264_nvenc; decodes and scales: h264")
    assert "tqstudio-probe-" in log.read_text()


# A /dev with the node of an NVIDIA GPU, seen by the supervisor only.
_WITH_NODE = """
set -e
mount --make-rprivate /
mount -t tmpfs none "$0"
for name in null zero full random urandom; do touch "$0/$name"; mount --bind "/dev/$name" "$0/$name"; done
ln -s /proc/self/fd "$0/fd"
mkdir "$0/shm"
touch "$0/nvidia0"
mount --move "$0" /dev
exec "$@"
"""


@pytest.mark.more
def test_a_gpu_without_an_encoder_decodes_for_the_cpu_workers(
    make_studio: MakeStudio, ffmpeg: str, tmp_path: Path, bt709: Path, copy
) -> None:
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount")
    dev = tmp_path / "dev"
    dev.mkdir()
    gpu = in_place_of_gpus(tmp_path / "gpu", locate(ffmpeg), decodes=("h264",))
    before = ("unshare", "--mount", "sh", "-c", _WITH_NODE, str(dev))
    studio = make_studio(before=before, gpu="true", gpu_decode="true", real_ffmpeg=gpu.path).up()
    assert [worker["name"] for worker in studio.status()["workers"]] == ["cpu-0"]
    assert studio.worker()["capabilities"]["decodes"] == "h264"
    done = studio.done(studio.add(copy(bt709, "decoded.mp4")))
    assert done["warnings"] == []
    (attempt,) = done["attempts_log"]
    assert ["-hwaccel" in argv for argv in video_runs(attempt)] == [True]
    rows = [row for row in done["renditions"] if row["status"] == "completed"]
    assert {row["encoder"] for row in rows} == {"libx264"}
    master = Path(done["video_view"]["generation"]["master"])
    check_ladder(master, frames=100, fps=Fraction(25), names=("180p", "120p", "90p"), audio=False)

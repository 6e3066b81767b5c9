"""Decoding and scaling on a real GPU; skipped where none passes its trial.

The corpus of sources whose timestamps are hard to resume on, in a size that every decoder takes.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.hardware import Device, discover
from tqstudio.engine.media.plan.profiles import Profile, RungSpec
from tqstudio.engine.media.source.probe import probe

from .conftest import MakeClip, MakeEncode, leave, run_to_end
from .corpus import Corpus, Nasty
from .test_gpu_decode import DIRECT, hardware_runs, joined, streams, tagged, video_of

pytestmark = pytest.mark.slow

# With any filter of the CPU above 0.85, of the next picture below 0.7.
ALIKE = 0.8


@pytest.fixture(scope="module")
def device(ffmpeg: FFmpeg) -> Device:
    found = next((device for device in discover(ffmpeg) if device.decodes), None)
    if found is None:
        pytest.skip("no GPU decodes and scales here")
    return found


@pytest.fixture(scope="module")
def corpus(ffmpeg: FFmpeg, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(ffmpeg, tmp_path_factory.mktemp("corpus"), "640x360")


@pytest.fixture
def profile(small: Profile) -> Profile:
    return replace(small, segment_s=3, rungs=(RungSpec(270, 500), RungSpec(90, 200)))


@pytest.fixture
def on_gpu(encode: MakeEncode, device: Device, profile: Profile) -> MakeEncode:
    """Encodes with the tags of BT.709, decoded and scaled by the GPU unless `decodes` is empty."""

    def make(source: Path, **changes: object) -> LadderEncode:
        given = {"device": device.node, "decodes": device.decodes, "poster": False}
        given |= {"facts": tagged(probe(os.fsencode(source)))}
        return encode(source, profile, **(given | changes))

    return make


@pytest.mark.parametrize("nasty", [pytest.param(one, id=one.name) for one in DIRECT])
def test_every_picture_has_the_place_that_the_cpu_gives_it(
    corpus: Corpus, on_gpu: MakeEncode, nasty: Nasty, tmp_path: Path
) -> None:
    """With one resume."""
    source = corpus.source(nasty)
    whole = on_gpu(source, decodes="", store_root=tmp_path / "whole")
    run_to_end(whole)
    assert (whole.state, hardware_runs(whole)) == ("done", [False])
    attempt = on_gpu(source)
    run_to_end(attempt)
    assert (attempt.error, attempt.warnings, hardware_runs(attempt)) == (None, [], [True])
    for state in video_of(attempt):
        leave(state.directory, 1, 2)
    last = on_gpu(source)
    run_to_end(last)
    assert (last.state, last.warnings, hardware_runs(last)) == ("done", [], [True])
    assert streams(attempt) == streams(last) == streams(whole)


HEVC = ("-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=error", "-tag:v", "hvc1")
AV1 = ("-c:v", "libsvtav1", "-preset", "12", "-pix_fmt", "yuv420p")
JITTER = {"filters": r"setpts=PTS+0.3*mod(N*7\,5)/5/FRAME_RATE/TB", "options": ("-fps_mode", "vfr")}


@pytest.mark.parametrize(
    ("codec", "size", "changes"),
    [
        pytest.param("h264", "1280x720", {}, id="h264"),
        pytest.param("hevc", "1280x720", {"video": HEVC}, id="hevc"),
        pytest.param("av1", "1280x720", {"video": AV1}, id="av1"),
        pytest.param("av1", "1280x720", {"video": (*AV1, "-svtav1-params", "film-grain=20")}, id="grain"),
        pytest.param("h264", "1918x1078", {}, id="not of whole blocks"),
        pytest.param("hevc", "722x1282", {"video": HEVC}, id="portrait"),
        pytest.param("h264", "1280x720", JITTER, id="of varying rate"),
    ],
)
def test_pictures_look_as_the_cpu_makes_them(
    clip: MakeClip,
    ffmpeg: FFmpeg,
    on_gpu: MakeEncode,
    device: Device,
    codec: str,
    size: str,
    changes: dict[str, Any],
    tmp_path: Path,
) -> None:
    if codec not in device.decodes.split():
        pytest.skip(f"this GPU does not decode {codec}")
    source = clip("pictures.mkv", size=size, seconds=3, **changes)
    by_gpu, by_cpu = on_gpu(source), on_gpu(source, decodes="", store_root=tmp_path / "of-cpu")
    for each in (by_gpu, by_cpu):
        run_to_end(each)
        assert (each.state, each.warnings) == ("done", [])
    assert (hardware_runs(by_gpu), hardware_runs(by_cpu)) == ([True], [False])
    for state, other in zip(video_of(by_gpu), video_of(by_cpu), strict=True):
        paths = tmp_path / f"{state.name}-gpu.mp4", tmp_path / f"{state.name}-cpu.mp4"
        for path, made in zip(paths, (state, other), strict=True):
            path.write_bytes(joined(made))
        alike = likeness(ffmpeg, *paths)
        assert len(alike) == by_gpu.spec.grid.total_frames
        assert min(alike) > ALIKE


def likeness(ffmpeg: FFmpeg, first: Path, second: Path) -> list[float]:
    """The structural similarity (0 … 1) of each picture."""
    graph = "[0:v]setpts=N[a];[1:v]setpts=N[b];[a][b]ssim=stats_file=-"
    argv = [ffmpeg.path, "-v", "error", "-nostdin", "-i", str(first), "-i", str(second)]
    ran = subprocess.run(
        [*argv, "-filter_complex", graph, "-f", "null", "-"], capture_output=True, check=True, timeout=60
    )
    return [float(share) for share in re.findall(rb"All:([\d.]+)", ran.stdout)]

"""Decoding and scaling on a GPU: its commands, and encodes with a stand-in whose filters get device frames.

No test needs a GPU: the program of `gpus.py` runs the commands with the CPU's decoder and scaler. A real one
is tried in `test_real_gpu.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.values import RenditionState
from tqstudio.engine.media.ffmpeg import gpu_decode, trial_runs
from tqstudio.engine.media.ffmpeg.binary import FFmpeg, locate
from tqstudio.engine.media.ffmpeg.command import video_command
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.grid import make_grid
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import Rung, build_ladder
from tqstudio.engine.media.source import source_file
from tqstudio.engine.media.source.facts import Damage, SourceFacts, SubtitleTrack
from tqstudio.engine.media.source.probe import probe
from tqstudio.errors import ErrorCode, TqError

from .conftest import MakeClip, MakeEncode, leave, run_to_end
from .corpus import CORPUS, Corpus, Nasty, pictures
from .gpus import in_place_of_gpus
from .gpus import patient as patient
from .test_grid import facts

pytestmark = pytest.mark.slow

WEB = profiles.load("web")
FFMPEG = FFmpeg("/opt/ffmpeg", "9", "build")


def tagged(measured: SourceFacts) -> SourceFacts:
    """The same source with the tags of BT.709."""
    tags = {"color_space": 1, "color_primaries": 1, "color_transfer": 1, "color_range": 1}
    return replace(measured, video=replace(measured.video, **tags))


FACTS = replace(tagged(facts(Fraction(30000, 1001), Fraction(42 * 1001, 30000))), measured=True)
GRID = make_grid(FACTS, WEB)
RUNGS = [rung for rung in build_ladder(FACTS, WEB) if not rung.skipped]
NODE = "/dev/dri/renderD128"
NO_GPU = "99"
"""The index of an NVIDIA GPU that no machine has."""

CUDA = "-hwaccel cuda -hwaccel_device decoder -hwaccel_output_format cuda"
VAAPI = "-hwaccel vaapi -hwaccel_device decoder -hwaccel_output_format vaapi"
TO_480P_BY_CUDA = (
    "scale_cuda=h=540:interp_algo=bilinear:w=960[s4];[s4]scale_cuda=h=480:interp_algo=bilinear:w=854"
)
TO_480P_BY_VAAPI = "scale_vaapi=h=540:w=960[s4];[s4]scale_vaapi=h=480:w=854"


def command(encoder: str, device: str, *, on_device: bool = True) -> list[str]:
    """Of 480p of a source of 1080p, resumed."""
    return video_command(
        *(FFMPEG, b"/a.mp4", FACTS, GRID, WEB, RUNGS[2:3], encoder),
        start=15,
        device=device,
        on_device=on_device,
    )


@pytest.mark.parametrize(
    ("encoder", "device", "opened", "held", "read", "scaled"),
    [
        pytest.param(
            *("h264_nvenc", "1", "-init_hw_device cuda=decoder:1", "", CUDA),
            f"{TO_480P_BY_CUDA}[s5];[s5]setsar=1[s6]",
            id="nvenc",
        ),
        pytest.param(
            *("hevc_vaapi", NODE, f"-init_hw_device vaapi=decoder:{NODE}", "-extra_hw_frames 16 ", VAAPI),
            f"{TO_480P_BY_VAAPI}[s5];[s5]setsar=1[s6]",
            id="vaapi",
        ),
        pytest.param(
            *("h264_qsv", NODE),
            f"-init_hw_device qsv=gpu:hw_any,child_device={NODE} -init_hw_device vaapi=decoder:{NODE}",
            *("-extra_hw_frames 16 ", VAAPI),
            f"{TO_480P_BY_VAAPI}[s5];[s5]setsar=1[s6];[s6]hwdownload[s7];[s7]format=nv12[s8]",
            id="qsv",
        ),
        pytest.param(
            *("libx264", "0", "-init_hw_device cuda=decoder:0", "", CUDA),
            f"{TO_480P_BY_CUDA}[s5];[s5]setsar=1[s6];[s6]hwdownload[s7];[s7]format=nv12[s8];[s8]format=yuv420p[s9]",
            id="a GPU without an encoder",
        ),
    ],
)
def test_the_command_of_each_interface(
    encoder: str, device: str, opened: str, held: str, read: str, scaled: str
) -> None:
    argv, on_cpu = command(encoder, device), command(encoder, device, on_device=False)
    end = argv.index("-map")
    assert " ".join(argv[:end]) == (
        f"/opt/ffmpeg -hide_banner -nostdin -nostats -y {opened} -progress pipe:1 -stats_period 0.5"
        f" -analyzeduration 90000000 -copyts {held}-format_whitelist {source_file.FORMATS} {read}"
        " -noaccurate_seek -protocol_whitelist file -ss 20.030000 -threads 1 -i file:/a.mp4 -filter_complex"
        " [0:0]fps=fps=30000/1001[s0];[s0]trim=end_pts=5436:start_pts=942[s1];"
        "[s1]setparams=color_primaries=1:color_trc=1:colorspace=1:range=limited[s2];[s2]split=1[s3];"
        f"[s3]{scaled}"
    )
    assert argv[end + 1] == scaled[-4:]
    # Encoder and output are the same as without.
    assert argv[argv.index("-f") :] == on_cpu[on_cpu.index("-f") :]


@pytest.mark.parametrize(
    ("size", "steps"),
    [
        ((1920, 1080), ["1920x1080"]),
        ((1280, 720), ["1280x720"]),
        ((960, 540), ["960x540"]),
        ((854, 480), ["960x540", "854x480"]),
        ((426, 240), ["960x540", "480x270", "426x240"]),
        ((240, 240), ["960x540", "480x270", "240x240"]),
        ((2560, 90), ["2560x540", "2560x270", "2560x134", "2560x90"]),
    ],
)
def test_no_step_shrinks_by_more_than_half(size: tuple[int, int], steps: list[str]) -> None:
    filters = gpu_decode.scaling(FACTS.video, Rung("x", *size, 100), "0")
    assert [f"{options['w']}x{options['h']}" for _, options in filters] == steps


@pytest.mark.parametrize("device", [NO_GPU, "/dev/dri/renderD999"])
def test_ffmpeg_knows_all_options(ffmpeg: FFmpeg, device: str) -> None:
    """It fails to open a missing GPU, and in the graph because these filters accept frames of a GPU only."""
    opened = ffmpeg_says(ffmpeg, *gpu_decode.open_decoder(device), "-version")
    reasons = r"Cannot load libcuda|invalid device ordinal|No VA display found|No such file or directory"
    assert re.search(reasons, opened)
    words = [
        word for name, value in gpu_decode.decoder_options(device).items() for word in (f"-{name}", value)
    ]
    source = ("-f", "lavfi", "-i", "color=s=64x64:d=0.1")
    read = ffmpeg_says(ffmpeg, *map(str, words), *source, "-f", "null", "-")
    assert "Unrecognized" not in read
    assert "decoder" in read
    (name, options), *_ = gpu_decode.scaling(FACTS.video, RUNGS[0], device)
    arguments = ":".join(f"{key}={value}" for key, value in options.items())
    graph = ffmpeg_says(ffmpeg, *source, "-vf", f"{name}={arguments}", "-f", "null", "-")
    assert "Impossible to convert between the formats supported by the filter" in graph


def ffmpeg_says(ffmpeg: FFmpeg, *arguments: str) -> str:
    argv = [ffmpeg.path, "-hide_banner", "-nostdin", *arguments]
    ran = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    return ran.stderr.decode(errors="replace")


# Which sources


def of_video(**changes: object) -> SourceFacts:
    return replace(FACTS, video=replace(FACTS.video, **changes))  # type: ignore[arg-type]


BITMAPS = SubtitleTrack(2, "hdmv_pgs_subtitle", "en", "", False, False, "", canvas=(1920, 1080))
HDR = {"color_space": 9, "color_primaries": 9, "color_transfer": 16}


@pytest.mark.parametrize(
    "refused",
    [
        pytest.param(of_video(codec="vp9"), id="a codec that it does not decode"),
        pytest.param(of_video(pix_fmt="yuv420p10le", bit_depth=10), id="ten bits"),
        pytest.param(of_video(pix_fmt="yuv422p"), id="4:2:2"),
        pytest.param(of_video(color_range=2), id="full range"),
        pytest.param(of_video(color_space=5), id="BT.601"),
        pytest.param(of_video(color_primaries=9), id="a wide gamut"),
        pytest.param(of_video(**HDR), id="HDR"),
        pytest.param(of_video(interlaced=True), id="interlaced"),
        pytest.param(of_video(rotation=90), id="rotated"),
        pytest.param(of_video(varies=True), id="of several sizes"),
        pytest.param(of_video(inset=True), id="cropped on the left or above"),
        pytest.param(of_video(coded_width=1919), id="an odd width"),
        pytest.param(of_video(coded_height=1079), id="an odd height"),
        pytest.param(of_video(still=True), id="a cover"),
        pytest.param(replace(FACTS, unseekable=True), id="jumping timestamps"),
        pytest.param(replace(FACTS, captions=True), id="closed captions"),
        pytest.param(replace(FACTS, damage=(Damage("corrupt", 1.0),)), id="damaged"),
        pytest.param(replace(FACTS, measured=False), id="not measured"),
    ],
)
def test_what_is_left_to_the_cpu(refused: SourceFacts) -> None:
    assert gpu_decode.permits("h264 hevc", FACTS, WEB, RUNGS[0])
    assert not gpu_decode.permits("h264 hevc", refused, WEB, RUNGS[0])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"pixel_format": "yuv420p10le"}, id="ten bits"),
        pytest.param({"on_damage": "refuse"}, id="refused damage"),
        pytest.param({"fields": "film"}, id="film"),
        pytest.param({"subtitle_burn": "en"}, id="burnt subtitles"),
    ],
)
def test_profiles_that_are_left_to_the_cpu(changes: dict[str, str]) -> None:
    with_bitmaps = replace(FACTS, subtitles=(BITMAPS,))
    assert gpu_decode.permits("h264", with_bitmaps, WEB, RUNGS[0])
    assert not gpu_decode.permits("h264", with_bitmaps, replace(WEB, **changes), RUNGS[0])


def test_old_versions_of_ffmpeg_are_not_used() -> None:
    versions = ("5.1.9-0+deb12u1", "7.1", "8.0", "9.0.2-17-g2a571b6068", "123456-gabc")
    supported = [version for version in versions if gpu_decode.supported(replace(FFMPEG, version=version))]
    assert supported == list(versions[2:])


# Trials


def test_a_trial_compares_every_picture(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    gpu = in_place_of_gpus(tmp_path / "ffmpeg", ffmpeg, "h264_nvenc", decodes=("h264", "hevc"))
    assert trial_runs.decoding_error(gpu, "h264", "h264_nvenc", "0") is None
    assert trial_runs.decoding_error(gpu, "hevc", "libx264", NODE) is None
    refused = trial_runs.decoding_error(gpu, "av1", "h264_nvenc", "0")
    assert refused is not None
    assert "cannot load the driver" in refused.message


SMALL = "scale_cuda=h=160:interp_algo=bilinear:w=160"


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        pytest.param(SMALL, f"crop=160:160:0:0,{SMALL}", "160×160 are wrong", id="of the wrong part"),
        pytest.param("setsar=1", "lutyuv=y=16:u=0:v=0,setsar=1", "512×512 are wrong", id="green"),
        pytest.param("tpad=", r"select=gte(n\,1),setpts=PTS-1,tpad=", "512×512", id="one too late"),
        pytest.param("setparams=", r"select=lt(n\,27),setparams=", "27 of 30 pictures", id="too few"),
    ],
)
def test_a_gpu_with_wrong_pictures_fails(
    ffmpeg: FFmpeg, tmp_path: Path, old: str, new: str, error: str
) -> None:
    gpu = in_place_of_gpus(tmp_path / "gpu", ffmpeg, "h264_nvenc", decodes=("h264",))
    found = trial_runs.decoding_error(script(tmp_path / "ffmpeg", gpu, old, new), "h264", "h264_nvenc", "0")
    assert found is not None
    assert error in found.message


def script(path: Path, ffmpeg: FFmpeg, old: str, new: str) -> FFmpeg:
    """An ffmpeg with something else in the commands that decode on a GPU."""
    path.write_text(
        f"""#!/usr/bin/env python3
import os, sys
words = sys.argv[1:]
if "-hwaccel" in words:
    words = [word.replace({old!r}, {new!r}) for word in words]
os.execv({ffmpeg.path!r}, [{ffmpeg.path!r}, *words])
"""
    )
    path.chmod(0o755)
    return locate(str(path))


# Encodes


def video_of(made: LadderEncode) -> list[RenditionState]:
    return [state for state in made.renditions if state.kind == "video"]


def streams(made: LadderEncode) -> dict[str, list[tuple[int, int]]]:
    """(pts, number shown) of every picture of each quality."""
    return {state.name: pictures(joined(state)) for state in video_of(made)}


def joined(state: RenditionState) -> bytes:
    """The whole stream of a quality."""
    paths = [state.directory / "init.mp4", *sorted(state.directory.glob("*.m4s"))]
    return b"".join(path.read_bytes() for path in paths)


@pytest.fixture
def gpu(ffmpeg: FFmpeg, tmp_path: Path) -> FFmpeg:
    return in_place_of_gpus(tmp_path / "gpu-ffmpeg", ffmpeg, "h264_nvenc", decodes=("h264", "hevc"))


@pytest.fixture
def on_gpu(encode: MakeEncode, gpu: FFmpeg) -> MakeEncode:
    """Encodes with the tags of BT.709 on a GPU that also decodes."""

    def make(source: Path, *profile: Profile, **changes: object) -> LadderEncode:
        given = {"ffmpeg": gpu, "encoder": "h264_nvenc", "device": "0", "decodes": "h264 hevc"}
        given |= {"facts": tagged(probe(os.fsencode(source))), "poster": False}
        return encode(source, *profile, **(given | changes))

    return make


def hardware_runs(made: LadderEncode) -> list[bool]:
    """Whether each run of video decoded on the GPU."""
    return ["-hwaccel" in run.argv for run in made.runs if run.label.startswith("video")]


@pytest.fixture(scope="module")
def corpus(ffmpeg: FFmpeg, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(ffmpeg, tmp_path_factory.mktemp("corpus"))


DIRECT = [nasty for nasty in CORPUS if not nasty.unseekable]


@pytest.mark.parametrize(
    "nasty",
    [
        pytest.param(one, id=one.name, marks=[] if one.name == "open-gop.mp4" else [pytest.mark.slow])
        for one in DIRECT
    ],
)
def test_every_picture_has_the_place_that_the_cpu_gives_it(
    corpus: Corpus, on_gpu: MakeEncode, small: Profile, nasty: Nasty, tmp_path: Path
) -> None:
    """With one resume. Where Mesa's Vulkan is installed, the filters before `split` get device frames."""
    rungs = (Rung("90p", 160, 90, 200), Rung("54p", 96, 54, 100))
    profile = replace(small, segment_s=3)
    whole = on_gpu(corpus.source(nasty), profile, rungs=rungs, decodes="", store_root=tmp_path / "whole")
    run_to_end(whole)
    assert (whole.state, hardware_runs(whole)) == ("done", [False])
    attempt = on_gpu(corpus.source(nasty), profile, rungs=rungs)
    run_to_end(attempt)
    assert (attempt.error, hardware_runs(attempt)) == (None, [True])
    for state in video_of(attempt):
        leave(state.directory, 1, 2)
    last = on_gpu(corpus.source(nasty), profile, rungs=rungs)
    run_to_end(last)
    assert (last.state, last.warnings, hardware_runs(last)) == ("done", [], [True])
    assert [run.starts_at_s for run in last.runs if run.label == "video"] == [last.spec.grid.fragment_s(5)]
    assert streams(attempt) == streams(last) == streams(whole)


def test_streams_of_the_gpu_and_of_the_cpu_are_not_joined(clip: MakeClip, on_gpu: MakeEncode) -> None:
    source = clip("24.mp4", fps="24", seconds=5)
    by_gpu = on_gpu(source)
    run_to_end(by_gpu)
    for state in video_of(by_gpu):
        leave(state.directory, 1)
    by_cpu = on_gpu(source, decodes="")
    by_cpu.look_up()
    keys = [{state.stream_key for state in video_of(made)} for made in (by_gpu, by_cpu)]
    assert keys[0].isdisjoint(keys[1])
    assert {state.segments_done for state in video_of(by_cpu)} == {0}
    assert {state.settings_hash for state in video_of(by_cpu)} == {s.settings_hash for s in video_of(by_gpu)}
    # Which one is further counts.
    again = on_gpu(source)
    again.look_up()
    assert {(state.on_device, state.segments_done) for state in video_of(again)} == {(True, 1)}


def test_a_gpu_without_an_encoder_decodes_for_the_cpu(clip: MakeClip, on_gpu: MakeEncode) -> None:
    made = on_gpu(clip("24.mp4", fps="24", seconds=5), encoder="libx264")
    run_to_end(made)
    assert (made.state, made.warnings, hardware_runs(made)) == ("done", [], [True])
    assert [state.encoder for state in video_of(made)] == ["libx264", "libx264"]
    [argv] = [run.argv for run in made.runs if run.label == "video"]
    assert "hwdownload" in " ".join(argv)


# Fallbacks


@pytest.mark.fault(
    "The GPU cannot decode or scale a source",
    "The CPU does, for the same encoder; warning `GPU_FAILED`",
    area="resume",
)
def test_a_decoder_that_does_not_open(
    clip: MakeClip, on_gpu: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    """Really: the encoder is a stand-in, `-init_hw_device cuda` is ffmpeg's own, of a missing GPU."""
    real = tmp_path / "ffmpeg"
    encodes = in_place_of_gpus(tmp_path / "encodes", ffmpeg, "h264_nvenc")
    real.write_text(
        f"""#!/bin/sh
case " $* " in *" -hwaccel "*) exec "{ffmpeg.path}" "$@" ;; esac
exec "{encodes.path}" "$@"
"""
    )
    real.chmod(0o755)
    made = on_gpu(clip("24.mp4", fps="24", seconds=5), ffmpeg=locate(str(real)), device=NO_GPU)
    run_to_end(made)
    assert (made.state, hardware_runs(made)) == ("done", [True, False])
    assert [state.encoder for state in video_of(made)] == ["h264_nvenc", "h264_nvenc"]
    [warning] = made.warnings
    assert warning.code == "GPU_FAILED"
    assert "144p, 90p" in warning.text
    assert "init_hw_device" in warning.text


def test_first_the_decoder_is_given_up_then_the_encoder(
    clip: MakeClip, on_gpu: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    broken = in_place_of_gpus(tmp_path / "ffmpeg", ffmpeg, decodes=("h264",))
    made = on_gpu(clip("24.mp4", fps="24", seconds=5), ffmpeg=broken)
    run_to_end(made)
    assert (made.state, hardware_runs(made)) == ("done", [True, False, False])
    used = [run.encoder for run in made.runs if run.label == "video"]
    assert used == ["h264_nvenc", "h264_nvenc", "libx264"]
    assert [warning.code for warning in made.warnings] == ["GPU_FAILED"] * 2


def test_sessions_are_counted_before_the_decoder_is_given_up(
    clip: MakeClip, on_gpu: MakeEncode, gpu: FFmpeg, tmp_path: Path
) -> None:
    path = tmp_path / "ffmpeg"
    path.write_text(
        f"""#!/bin/sh
case "$*" in *h264_nvenc*h264_nvenc*)
  echo "[h264_nvenc @ 0x1] OpenEncodeSessionEx failed: out of memory (10)" >&2
  echo "[vist#0:0/h264 @ 0x1] [dec:h264 @ 0x2] Error submitting packet to decoder: Cannot allocate memory" >&2
  exit 187;;
esac
exec "{gpu.path}" "$@"
"""
    )
    path.chmod(0o755)
    made = on_gpu(clip("24.mp4", fps="24", seconds=5), ffmpeg=locate(str(path)))
    run_to_end(made)
    assert (made.state, made.warnings, hardware_runs(made)) == ("done", [], [True, True, True])


REBUILT = "[fc#0 @ 0x55] Reconfiguring filter graph because hwaccel changed"
REFUSED = "[vist#0:0/h264 @ 0x1] [dec:h264 @ 0x2] Error submitting packet to decoder: Generic error"


@pytest.mark.parametrize("line", [REBUILT, REFUSED])
def test_what_its_log_says_midway(
    clip: MakeClip, on_gpu: MakeEncode, gpu: FFmpeg, tmp_path: Path, line: str
) -> None:
    """The fragments that followed are not used."""
    path = tmp_path / "ffmpeg"
    # Holds the end of the run until the test has read the line.
    path.write_text(
        f"""#!/bin/sh
case " $* " in *" -hwaccel "*)
  for word in "$@"; do
    shift
    [ "$word" = "-i" ] && set -- "$@" -readrate 1
    set -- "$@" "$word"
  done
  (while ! [ -e 144p/init.mp4 ]; do sleep 0.05; done; echo '{line}' >&2) &
esac
exec "{gpu.path}" "$@"
"""
    )
    path.chmod(0o755)
    made = on_gpu(clip("24.mp4", fps="24", seconds=5), ffmpeg=locate(str(path)))
    run_to_end(made)
    assert (made.state, hardware_runs(made)) == ("done", [True, False])
    [warning] = made.warnings
    assert line in warning.text
    first, second = (run.resumed_from for run in made.runs if run.label == "video")
    assert (first, second) == (0, 0)
    assert [state.check.frames for state in video_of(made) if state.check] == [120, 120]
    assert len({path.name for state in video_of(made) for path in state.directory.parent.iterdir()}) == 2


def test_a_stall(clip: MakeClip, on_gpu: MakeEncode, gpu: FFmpeg, tmp_path: Path) -> None:
    path = tmp_path / "ffmpeg"
    path.write_text(
        f'#!/bin/sh\ncase " $* " in *" -hwaccel "*) exec sleep 600 ;; esac\nexec "{gpu.path}" "$@"\n'
    )
    path.chmod(0o755)
    made = on_gpu(clip("24.mp4", fps="24", seconds=5), ffmpeg=locate(str(path)))
    made.start()
    stalled = TqError(ErrorCode.STALLED, "ffmpeg made no progress for 5 s and was killed")
    assert made.leave_device(stalled)
    assert not made.leave_device(stalled)
    run_to_end(made)
    assert (made.state, hardware_runs(made)) == ("done", [True, False])
    assert "no progress for 5 s" in made.warnings[0].text


def test_missing_pictures(clip: MakeClip, on_gpu: MakeEncode, gpu: FFmpeg, tmp_path: Path) -> None:
    lossy = script(tmp_path / "ffmpeg", gpu, "setparams=", r"select=lt(n\,100),setparams=")
    made = on_gpu(clip("24.mp4", fps="24", seconds=5), ffmpeg=lossy)
    run_to_end(made)
    assert (made.state, made.error, hardware_runs(made)) == ("done", None, [True, False])
    assert {(state.encoder, state.on_device) for state in video_of(made)} == {("h264_nvenc", False)}
    assert [state.check.frames for state in video_of(made) if state.check] == [120, 120]
    assert [warning.code for warning in made.warnings] == ["GPU_FAILED"]


def test_a_source_that_has_to_be_decoded_from_its_start(
    corpus: Corpus, on_gpu: MakeEncode, small: Profile
) -> None:
    """As the first runs find out, and the next attempt knows."""
    [nasty] = [one for one in CORPUS if one.unseekable == "found"]
    rungs = (Rung("90p", 160, 90, 200), Rung("54p", 96, 54, 100))
    first = on_gpu(corpus.source(nasty), small, rungs=rungs)
    run_to_end(first)
    assert (first.state, hardware_runs(first)) == ("done", [True, False, False])
    assert first.spec.facts.unseekable
    for state in video_of(first):
        leave(state.directory, 1)
    again = on_gpu(corpus.source(nasty), small, rungs=rungs)
    run_to_end(again)
    assert (again.state, again.error, hardware_runs(again)) == ("done", None, [False])


def test_the_others_follow_when_one_batch_has_to_be_decoded_from_the_start(
    corpus: Corpus, on_gpu: MakeEncode, small: Profile
) -> None:
    """Batches that wait leave the GPU too."""
    [nasty] = [one for one in CORPUS if one.unseekable == "found"]
    rungs = (Rung("90p", 160, 90, 200), Rung("54p-hevc", 96, 54, 100, codec="hevc", crf=30))
    made = on_gpu(corpus.source(nasty), small, rungs=rungs)
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    assert hardware_runs(made) == [True, True, False, False, False]
    assert {state.on_device for state in video_of(made)} == {False}

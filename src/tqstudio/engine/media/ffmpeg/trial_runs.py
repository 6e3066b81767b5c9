"""Trial runs of ffmpeg: whether an encoder, Vulkan, or decoder and scaler of a GPU work on this machine."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from tqstudio.engine.media.ffmpeg.binary import FFmpeg, environment
from tqstudio.engine.media.ffmpeg.errors import classify_exit
from tqstudio.engine.media.ffmpeg.output_options import (
    encoder_options,
    input_filters,
    open_gpu,
    open_vulkan,
)
from tqstudio.engine.media.ffmpeg.process import Run, can_be_confined, start
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.file_names import INIT_NAME, fragment_name
from tqstudio.engine.media.plan.grid import make_grid
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.plan.video_codecs import CODECS
from tqstudio.engine.media.source import colour
from tqstudio.engine.media.source.facts import NO_PICTURE, SourceFacts, VideoTrack
from tqstudio.errors import ErrorCode, TqError

TIMEOUT_S = 60.0
_WITHOUT_VULKAN = (ErrorCode.ENCODER_EXIT, ErrorCode.ENCODER_SIGNAL)
_QUIET = ("-hide_banner", "-nostdin", "-nostats", "-y")
_FPS = 30
_SIZE = 512
# Not scaled, and scaled in two steps. NVENC refuses much smaller frames.
_RUNGS = tuple(Rung(f"test-{size}", size, size, 4000) for size in (_SIZE, 160))
# Every picture differs much from those before and after it.
_MOVING = "scroll=h=0.03"
# Structural similarity of each picture: with any filter of the CPU above 0.85, of the next picture below 0.7.
_ALIKE = 0.8
_SIMILARITY = re.compile(r"All:([\d.]+)")


def compiled_encoders(ffmpeg: FFmpeg) -> frozenset[str]:
    """Names of the video encoders that ffmpeg lists; empty if it fails."""
    return frozenset(re.findall(r"^ V\S+ (\S+)", _listed(ffmpeg, "-encoders"), re.MULTILINE))


def has_vmaf(ffmpeg: FFmpeg) -> bool:
    """Whether ffmpeg can measure VMAF."""
    return bool(re.search(r"^ \S+ libvmaf ", _listed(ffmpeg, "-filters"), re.MULTILINE))


def _listed(ffmpeg: FFmpeg, what: str) -> str:
    """What ffmpeg lists of itself; empty if it fails."""
    try:
        output = subprocess.run(
            [ffmpeg.path, "-hide_banner", what],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=True,
            env=environment(),
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return output.decode(errors="replace")


def encoding_error(ffmpeg: FFmpeg, encoder: str, node: str | None = None) -> TqError | None:
    """Encode 0.1 s of 256×256 pixels with the options of jobs; return why it failed, or None."""
    options = encoder_options(profiles.load("web"), Rung("test", 256, 256, 1000), _FPS, encoder, node)
    filters = ",".join("=".join(each) for each in input_filters(encoder, "yuv420p"))
    encoding = [word for name, value in options.items() for word in (f"-{name}", str(value))]
    return _error(ffmpeg, open_gpu(encoder, node), filters, encoding, f"the test encode with {encoder}")


def require_vulkan(ffmpeg: FFmpeg, video: VideoTrack, name: str) -> None:
    """Refuse a source that needs Vulkan, as UNSUPPORTED, if a confined trial run shows that it does not work.

    Raises TqError also if the trial run lacked something else, such as memory or the filter.
    """
    if not colour.needs_vulkan(video):
        return
    filter_name, options = colour.RENDER
    filters = f"{filter_name}={':'.join(f'{key}={value}' for key, value in options.items())}"
    confined = can_be_confined(ffmpeg.path)
    failed = _error(ffmpeg, open_vulkan(video), filters, [], "a test of Vulkan", confined=confined)
    if failed is None:
        return
    if failed.code not in _WITHOUT_VULKAN:
        raise failed
    raise TqError(
        ErrorCode.UNSUPPORTED,
        f"{name} is Dolby Vision profile {video.dv_profile}: its colours need Vulkan, which fails here",
        "install a Vulkan driver for the CPU (Debian, Ubuntu: apt install mesa-vulkan-drivers), then retry;"
        " or add a copy with a base layer (profile 8)",
    )


def _error(
    ffmpeg: FFmpeg,
    before: Sequence[str],
    filters: str,
    output: Sequence[str],
    what: str,
    *,
    confined: bool = False,
) -> TqError | None:
    """Run 0.1 s of pictures through filters and encoder; return why it failed, None if it did not."""
    argv = [
        *(ffmpeg.path, *_QUIET, "-progress", "pipe:1"),
        *before,
        *("-f", "lavfi", "-i", f"color=size=256x256:rate={_FPS}:duration=0.1", "-vf", filters),
        *output,
        *("-f", "null", "-"),
    ]
    with tempfile.TemporaryDirectory(prefix="tqstudio-probe-") as scratch:
        try:
            run = _ended(argv, Path(scratch), what, confined=confined)
        except TqError as error:
            return error
        return None if run.progress.frame else TqError(ErrorCode.ENCODER_EXIT, f"{what} gave no picture")


def decoding_error(ffmpeg: FFmpeg, codec: str, encoder: str, node: str) -> TqError | None:
    """Decode and scale 1 s on a GPU with the command of jobs; return what was wrong, or None.

    Every picture must arrive in its place, and look as when the CPU decodes and scales it.

    Args:
        codec: of the source.
        encoder: of the GPU, or of the CPU, which gets the scaled pictures.
    """
    # Imported here: the supervisor builds no other commands.
    from tqstudio.engine.media.ffmpeg.command import video_command

    profile, facts = profiles.load("web"), _facts(codec)
    grid = make_grid(facts, profile)
    with tempfile.TemporaryDirectory(prefix="tqstudio-probe-") as folder:
        scratch = Path(folder)
        clip = scratch / "clip.mp4"
        for rung in _RUNGS:
            (scratch / rung.name).mkdir()
        make = ("-f", "lavfi", "-i", f"testsrc2=size={_SIZE}x{_SIZE}:rate={_FPS}:duration=1")
        colours = f"{_MOVING},setparams=color_primaries=1:color_trc=1:colorspace=1:range=limited"
        argv = video_command(
            ffmpeg, os.fsencode(clip), facts, grid, profile, _RUNGS, encoder, device=node, on_device=True
        )
        try:
            made = (*make, "-vf", colours, "-pix_fmt", "yuv420p", "-c:v", CODECS[codec].encoder, str(clip))
            _ended([ffmpeg.path, *_QUIET, *made], scratch, f"making a clip of {codec}")
            run = _ended(argv, scratch, f"decoding {codec} on the GPU")
            if run.progress.frame != grid.total_frames:
                text = f"{run.progress.frame or 0} of {grid.total_frames} pictures of {codec} were decoded"
                return TqError(ErrorCode.OUTPUT_INVALID, text)
            for rung in _RUNGS:
                alike = _likeness(ffmpeg, clip, rung, scratch)
                if len(alike) != grid.total_frames or min(alike) < _ALIKE:
                    least = f"SSIM {min(alike, default=0)}"
                    text = f"pictures of {codec} in {rung.width}×{rung.height} are wrong ({least})"
                    return TqError(ErrorCode.OUTPUT_INVALID, text)
        except TqError as error:
            return error
        except OSError as error:
            return TqError(ErrorCode.OUTPUT_EMPTY, f"decoding {codec} on the GPU wrote nothing: {error}")
    return None


def _facts(codec: str) -> SourceFacts:
    """What is measured of the clip."""
    video = replace(
        NO_PICTURE,
        still=False,
        index=0,
        codec=codec,
        width=_SIZE,
        height=_SIZE,
        coded_width=_SIZE,
        coded_height=_SIZE,
        pix_fmt="yuv420p",
        bit_depth=8,
        fps=Fraction(_FPS),
        color_primaries=1,
        color_transfer=1,
        color_space=1,
        color_range=1,
        duration_s=1.0,
        last_s=1 - 1 / _FPS,
        end_s=1.0,
    )
    return SourceFacts("mov,mp4,m4a,3gp,3g2,mj2", 1.0, 0.0, 0, 0, video, measured=True)


def _likeness(ffmpeg: FFmpeg, clip: Path, rung: Rung, scratch: Path) -> list[float]:
    """The structural similarity (0 … 1) of each picture to that of the clip when the CPU scales it."""
    made, folder = scratch / f"{rung.name}.mp4", scratch / rung.name
    made.write_bytes((folder / INIT_NAME).read_bytes() + (folder / fragment_name(0)).read_bytes())
    graph = (
        f"[0:v]setpts=N,scale={rung.width}:{rung.height},format=yuv420p[a];"
        f"[1:v]setpts=N,format=yuv420p[b];[a][b]ssim=stats_file={rung.name}.txt"
    )
    compare = ("-i", str(clip), "-i", str(made), "-filter_complex", graph, "-f", "null", "-")
    _ended([ffmpeg.path, *_QUIET, *compare], scratch, "comparing the pictures")
    return [float(share) for share in _SIMILARITY.findall((scratch / f"{rung.name}.txt").read_text())]


def _ended(argv: Sequence[str], scratch: Path, doing: str, *, confined: bool = False) -> Run:
    """Run ffmpeg to its end.

    Raises:
        TqError: of its exit status; STALLED.
    """
    log = scratch / f"log-{len(list(scratch.glob('log-*')))}"
    run = start(argv, scratch, log, progress="-progress" in argv, nice=0, confined=confined)
    try:
        status = run.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise TqError(ErrorCode.STALLED, f"{doing} took longer than {TIMEOUT_S:g} s") from None
    finally:
        run.kill()
    if status != 0:
        raise classify_exit(status, run.log_tail())
    return run

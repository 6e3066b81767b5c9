"""How near `video.quality` comes to what was asked for, and its bytes against one CRF for all."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks.options import Options
from benchmarks.report import Section
from tqstudio.engine.media.encode.values import EncodeSpec
from tqstudio.engine.media.ffmpeg import binary
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan import profiles, rungs
from tqstudio.engine.media.plan.grid import make_grid
from tqstudio.engine.media.plan.keys import largest_rungs
from tqstudio.engine.media.plan.rungs import build_ladder
from tqstudio.engine.media.source.fingerprint import Original
from tqstudio.engine.media.source.probe import probe
from tqstudio.wings.quality.search import find, samples
from tqstudio.wings.quality.vmaf import Bench, mean

TARGET = 93.0
USUAL = 22
_NEAR, _NOT_FAR = 1.5, 3.0
_SIZE = "s=640x360:r=25"
KINDS = {
    "moving shapes": f"testsrc2={_SIZE}",
    "shapes and grain": f"testsrc2={_SIZE},noise=alls=12:allf=t",
    "zoom": f"mandelbrot={_SIZE}:maxiter=300:start_scale=0.6:end_scale=0.0005:end_pts=2000",
    "soft zoom": f"mandelbrot={_SIZE}:maxiter=300:start_scale=0.6:end_scale=0.01:end_pts=2000,gblur=2.5",
    "dark zoom and grain": f"mandelbrot={_SIZE}:end_pts=2000,eq=brightness=-0.3,noise=alls=6:allf=t",
    "gradients": f"gradients={_SIZE}:speed=0.02:n=4",
    "fine pattern": f"sierpinski={_SIZE}:seed=1:jump=3",
    "cells": "cellauto=s=160x90:r=25:rule=30:seed=1,scale=640:360:flags=bicubic",
    "life": "life=s=160x90:r=25:seed=1:mold=10:ratio=0.2:death_color=#202040,scale=640:360:flags=bicubic",
    "slides": f"smptehdbars={_SIZE},drawgrid=w=40:h=40:c=white@0.4,scroll=h=0.0004",
    "fast pan": f"testsrc2={_SIZE},scroll=h=0.03:v=0.01",
    "slow pan": f"mandelbrot={_SIZE}:maxiter=300:end_scale=3,scroll=h=0.002",
    "cuts": f"testsrc2={_SIZE},hue=h='120*floor(t)',rotate='0.5*floor(t)'",
    "fades": f"testsrc2={_SIZE},eq=brightness='0.5*sin(t)':eval=frame",
    "turning": f"testsrc2={_SIZE},rotate='t/4'",
    "flashes": f"gradients={_SIZE}:speed=0.01:n=3,eq=brightness='0.4*gt(mod(t,2),1.9)':eval=frame",
    "coarse grain": f"mandelbrot={_SIZE}:end_scale=2,noise=alls=30:allf=t,gblur=1.2",
    "still": f"mandelbrot={_SIZE}:end_scale=3:end_pts=1e9",
    "grey": f"mandelbrot={_SIZE}:end_pts=2000,hue=s=0,noise=alls=3:allf=t",
    "blocks": "testsrc2=s=80x45:r=25,scale=640:360:flags=neighbor",
}
"""What they show → ffmpeg's sources and filters."""


def measure(options: Options, root: Path) -> Section:
    seconds = 16 if options.clip_s > 10 else 4
    kinds = KINDS if options.clip_s > 10 else dict(list(KINDS.items())[:2])
    section = Section(
        f"VMAF with video.quality = {TARGET:g}",
        f"{len(kinds)} clips of {seconds} s in 360p, H.264, veryfast, bits not limited; the whole clip with"
        f" the CRF that samples gave; bytes ÷ those with CRF {USUAL}",
    )
    # Such short clips keep their CRF otherwise.
    least, rungs.MIN_SOUGHT_S = rungs.MIN_SOUGHT_S, 0.0
    try:
        found = {name: _of(root, name, kind, seconds) for name, kind in kinds.items()}
    finally:
        rungs.MIN_SOUGHT_S = least
    for name, (crf, vmaf, ratio) in found.items():
        section.add(f"{name}: CRF {crf}", [vmaf], "VMAF")
        section.add(f"{name}: bytes", [ratio], "×")
    off = [abs(vmaf - TARGET) for _, vmaf, _ in found.values()]
    for within in (_NEAR, _NOT_FAR):
        share = 100 * sum(each <= within for each in off) / len(off)
        section.add(f"within ± {within:g}", [share], "%")
    section.add("bytes, median of the clips", [median(ratio for *_, ratio in found.values())], "×")
    return section


def _of(root: Path, name: str, kind: str, seconds: int) -> tuple[int, float, float]:
    """CRF, VMAF of the whole clip, and its bytes ÷ those with the usual CRF."""
    folder = root / name.replace(" ", "-")
    folder.mkdir()
    program = binary.locate()
    spec = _spec(program, _clip(program, folder / "clip.mp4", kind, seconds), folder)
    rung = largest_rungs(spec.facts, spec.profile)["h264"]
    bench = Bench(spec, folder / "bench", lambda: None, stall_s=120)

    # Half of them, which are half of the clip.
    ranges = samples(spec.grid, seeks=True)[1::2]
    crf = find("h264", TARGET, lambda crfs: bench.probe(rung, "libx264", crfs, ranges)).crf
    whole = bench.encode(rung, "libx264", [crf, USUAL], 0, spec.grid.fragment_count)
    size, usual = (_bytes(folder / "bench" / each.name) for each in whole)
    return crf, mean(bench.compare(whole[:1], 0, None)[whole[0].name]), size / usual


def _clip(program: FFmpeg, clip: Path, kind: str, seconds: int) -> Path:
    coded = ("-c:v", "libx264", "-preset", "veryfast", "-crf", "8", "-pix_fmt", "yuv420p")
    command = [program.path, "-v", "error", "-nostdin", "-f", "lavfi", "-i", kind, "-t", str(seconds)]
    subprocess.run([*command, *coded, str(clip)], check=True, capture_output=True)
    return clip


def _spec(program: FFmpeg, clip: Path, folder: Path) -> EncodeSpec:
    source = os.fsencode(clip)
    facts = probe(source)
    web = replace(profiles.load("web"), quality=TARGET, preset="veryfast")
    profile = replace(web, rungs=(profiles.RungSpec(360, 50_000),))
    # Without the limit of the source: what the target does is measured.
    facts = replace(facts, video=replace(facts.video, measured_bitrate=0))
    return EncodeSpec(
        ffmpeg=program,
        source=source,
        original=Original.of(source),
        facts=facts,
        grid=make_grid(facts, profile),
        profile=profile,
        rungs=build_ladder(facts, profile),
        audio=(),
        subtitles=(),
        content_id="clip",
        store_root=folder / "store",
        scratch=folder,
        log_dir=folder / "logs",
        nice=0,
    )


def _bytes(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.glob("*.m4s"))

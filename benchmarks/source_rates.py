"""The bytes of each quality against those of its source: none is larger than what its source is worth."""

from __future__ import annotations

import subprocess
from pathlib import Path

import av

from benchmarks import clips
from benchmarks.options import Options
from benchmarks.report import Section, at_most
from benchmarks.studio import studio
from tqstudio.engine.media.ffmpeg import binary
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.source_rates import MARGIN, RATE_EXPONENT, WORTH

SECONDS = 12
SOURCES = (
    ("vp8.webm", "libvpx", "640x360", 160),
    ("vp9.webm", "libvpx-vp9", "1280x720", 300),
    ("h264.mp4", "libx264", "1920x1080", 400),
    ("hevc.mp4", "libx265", "1280x720", 250),
    ("mpeg4.avi", "mpeg4", "640x480", 500),
    ("mpeg2.ts", "mpeg2video", "720x576", 2000),
)
"""Name, encoder, size, kbit/s: what people download, record and keep."""


def measure(options: Options, root: Path) -> Section:
    section = Section(
        "Bytes of a quality ÷ what its source is worth",
        f"{SECONDS} s in six codecs, profile web; worth: bytes of its pictures × codec"
        f" × (pixels ÷ its pixels)^{RATE_EXPONENT}",
    )
    program = binary.locate().path
    drawn = clips.make(program, root.parent, max(SECONDS, options.clip_s))
    larger = 0
    with studio(root / "home") as running:
        for name, encoder, size, kbps in SOURCES:
            clip = _poor(program, drawn, root / name, encoder, size, kbps)
            output = root / f"out-{name}"
            running.run("process", "-i", str(clip), "-o", str(output), "--profile", "web")
            codec, pixels, spent, limit = _pictures(clip)
            for folder in sorted(output.glob("*/v*/*p"), key=lambda each: int(each.name[:-1]), reverse=True):
                published = sum(each.stat().st_size for each in folder.glob("seg_*.m4s"))
                with av.open(folder / "index.m3u8") as container:
                    of_rung = container.streams.video[0]
                    share = of_rung.width * of_rung.height / pixels
                ratio = published / (spent * WORTH[codec] * share**RATE_EXPONENT)
                larger += ratio > limit
                section.add(f"{name}, {kbps} kb/s: {folder.name}", [ratio], "×")
    section.add(f"qualities above {MARGIN} ×, or what their key frames need", [larger], "", at_most(0))
    return section


def _poor(program: str, drawn: Path, clip: Path, encoder: str, size: str, kbps: int) -> Path:
    rate = ("-b:v", f"{kbps}k", "-maxrate", f"{kbps}k", "-bufsize", f"{2 * kbps}k")
    command = [program, "-v", "error", "-nostdin", "-y", "-t", str(SECONDS), "-i", str(drawn), "-an"]
    shape = ("-vf", f"scale={size.replace('x', ':')},setsar=1")
    subprocess.run([*command, *shape, "-c:v", encoder, *rate, str(clip)], check=True, capture_output=True)
    return clip


def _pictures(clip: Path) -> tuple[str, int, int, float]:
    """Codec, pixels and bytes of the pictures of a clip, and how many times as much a quality may have."""
    with av.open(clip) as container:
        stream = container.streams.video[0]
        sizes = [(packet.size, packet.is_keyframe) for packet in container.demux(stream) if packet.size]
        spent, keys = sum(size for size, _ in sizes), [size for size, is_key in sizes if is_key]
        more = max(0.0, SECONDS / profiles.load("web").gop_s - len(keys)) * sum(keys) / len(keys)
        codec = stream.codec_context.codec.canonical_name
        return codec, stream.width * stream.height, spent, max(MARGIN, 1 + more / spent)

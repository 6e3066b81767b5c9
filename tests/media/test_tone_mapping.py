"""Tone mapping against the published formulas, in ΔE ITP (ITU-R BT.2124), of which 1 can just be seen.

SMPTE ST 2084 and BT.2100 (PQ, HLG), BT.2087 (gamut) and the curve of `docs/media.md`, computed here. White of
SDR is shown at 203 nits (BT.2408).
"""

from __future__ import annotations

import math
import os
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, quantiles

import pytest

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.keys import settings_hash
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.source.colour import peak_of
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.media.source.probe import probe

from .conftest import MakeEncode, run_ffmpeg, run_to_end
from .test_colour import first_frame
from .test_resume import streams

Triple = tuple[float, float, float]
SIZE, CELL = (320, 192), 16
WHITE, KNEE = 203.0, 0.45
BT709_OF_BT2020 = (
    (1.660491, -0.587641, -0.072850),
    (-0.124550, 1.132900, -0.008349),
    (-0.018151, -0.100579, 1.118730),
)
BT2020_OF_BT709 = (
    (0.627404, 0.329283, 0.043313),
    (0.069097, 0.919540, 0.011362),
    (0.016391, 0.088013, 0.895595),
)
LMS = (
    (1688 / 4096, 2146 / 4096, 262 / 4096),
    (683 / 4096, 2951 / 4096, 462 / 4096),
    (99 / 4096, 309 / 4096, 3688 / 4096),
)
RANDOM = random.Random(7)
STEPS = [n / 19 for n in range(20)]
BARS = [(r, g, b) for level in (0.58, 0.75, 0.4) for r in (1, 0) for g in (1, 0) for b in (1, 0)]


def times(matrix: Sequence[Sequence[float]], colour: Triple) -> Triple:
    return tuple(sum(w * c for w, c in zip(row, colour, strict=True)) for row in matrix)  # type: ignore[return-value]


def pq_nits(signal: float) -> float:
    x = max(0.0, signal) ** (1 / 78.84375)
    return 10_000 * float((max(0.0, x - 0.8359375) / (18.8515625 - 18.6875 * x)) ** (1 / 0.1593017578125))


def pq_signal(nits: float) -> float:
    y = (max(0.0, nits) / 10_000) ** 0.1593017578125
    return float(((0.8359375 + 18.8515625 * y) / (1 + 18.6875 * y)) ** 78.84375)


def hlg_nits(signal: Triple) -> Triple:
    """On a display of 1000 nits."""
    scene = [
        s * s / 3 if s <= 0.5 else (math.exp((s - 0.55991073) / 0.17883277) + 0.28466892) / 12 for s in signal
    ]
    luminance = 0.2627 * scene[0] + 0.6780 * scene[1] + 0.0593 * scene[2]
    return tuple(1000 * luminance**0.2 * value for value in scene)  # type: ignore[return-value]


def mapped(nits: Triple, peak: float) -> Triple:
    """Light in BT.2020 → light in BT.709, 1 for white."""
    light = times(BT709_OF_BT2020, tuple(value / WHITE for value in nits))  # type: ignore[arg-type]
    top, most = max(light), peak / WHITE
    if top > KNEE:
        bend = 1 / (1 - KNEE) - 1 / (most - KNEE)
        light = tuple(c / top * (KNEE + (top - KNEE) / (1 + bend * (top - KNEE))) for c in light)  # type: ignore[assignment]
    return tuple(min(1.0, max(0.0, c)) for c in light)  # type: ignore[return-value]


def itp(light: Triple) -> Triple:
    nits = times(BT2020_OF_BT709, (WHITE * light[0], WHITE * light[1], WHITE * light[2]))
    long, medium, short = (pq_signal(cone) for cone in times(LMS, nits))
    tritan = (6610 * long - 13613 * medium + 7003 * short) / 4096
    return ((long + medium) / 2, tritan / 2, (17933 * long - 17390 * medium - 543 * short) / 4096)


def delta_e(one: Triple, other: Triple) -> float:
    return 720 * math.dist(itp(one), itp(other))


def chart(ffmpeg: FFmpeg, path: Path, signals: Sequence[Triple], transfer: str, *options: str) -> Path:
    """A source whose cells of 16×16 have these R'G'B' signals of BT.2020, without loss."""
    columns = SIZE[0] // CELL
    coded = []
    for r, g, b in signals:
        y = 0.2627 * r + 0.6780 * g + 0.0593 * b
        coded.append((64 + 876 * y, 512 + 896 * (b - y) / 1.8814, 512 + 896 * (r - y) / 1.4746))
    planes = b""
    for plane in range(3):
        for start in range(0, len(coded), columns):
            row = [round(cell[plane]) for cell in coded[start : start + columns] for _ in range(CELL)]
            planes += struct.pack(f"<{len(row)}H", *row) * CELL
    raw = path.with_suffix(".raw")
    raw.write_bytes(planes * 3)
    tags = f"setparams=color_primaries=bt2020:colorspace=bt2020nc:range=tv:color_trc={transfer}"
    shape = ("-f", "rawvideo", "-pix_fmt", "yuv444p10le", "-s", f"{SIZE[0]}x{SIZE[1]}", "-r", "25")
    run_ffmpeg(ffmpeg, *shape, "-i", str(raw), "-vf", tags, *options, str(path))
    return path


def shown(encode: MakeEncode, source: Path, tmp_path: Path) -> list[Triple]:
    """The light of each cell as an SDR display shows it, 1 for white."""
    made = encode(source, rungs=(Rung("192p", *SIZE, 20_000, crf=1),), poster=False)
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    frame = first_frame(streams(made)["192p"], tmp_path)
    found = []
    for top in range(0, SIZE[1], CELL):
        for left in range(0, SIZE[0], CELL):
            y, cb, cr = (
                mean(
                    bytes(part)[(top // n + dy) * part.line_size + left // n + dx]
                    for dy in range(6 // n, 10 // n)
                    for dx in range(6 // n, 10 // n)
                )
                for part, n in zip(frame.planes, (1, 2, 2), strict=True)
            )
            y, cb, cr = (y - 16) / 219, (cb - 128) / 224, (cr - 128) / 224
            r, b = y + 1.5748 * cr, y + 1.8556 * cb
            g = (y - 0.2126 * r - 0.0722 * b) / 0.7152
            found.append(tuple(min(1.0, max(0.0, c)) ** 2.4 for c in (r, g, b)))
    return found  # type: ignore[return-value]


def filled(signals: Sequence[Triple]) -> list[Triple]:
    cells = SIZE[0] // CELL * (SIZE[1] // CELL)
    return [signals[n % len(signals)] for n in range(cells)]


def natural(most: float) -> list[Triple]:
    """Colours of things: of moderate saturation, over the whole range of brightness up to a signal."""
    found = []
    for _ in range(240):
        level, hue = most * RANDOM.random() ** 0.7, 2 * math.pi * RANDOM.random()
        tint = 0.12 * RANDOM.random()
        found.append(
            tuple(max(0.0, min(most, level * (1 + tint * math.cos(hue + turn)))) for turn in (0, 2.1, 4.2))
        )
    return found  # type: ignore[return-value]


FFV1 = ("-c:v", "ffv1")
CLL = "log-level=error:lossless=1:max-cll={},400"
MASTER = "G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L({}0000,50)"
X265 = ("-c:v", "libx265", "-preset", "ultrafast", "-x265-params")
CHARTS: dict[str, tuple[list[Triple], str, float, tuple[str, ...]]] = {
    "bars-pq.mkv": ([(0.58 * r, 0.58 * g, 0.58 * b) for r, g, b in BARS], "smpte2084", 1000, FFV1),
    "bars-hlg.mkv": ([(0.75 * r, 0.75 * g, 0.75 * b) for r, g, b in BARS], "arib-std-b67", 1000, FFV1),
    "ramp-pq.mkv": ([(s * 0.75, s * 0.75, s * 0.75) for s in STEPS], "smpte2084", 1000, FFV1),
    "ramp-hlg.mkv": ([(s, s, s) for s in STEPS], "arib-std-b67", 1000, FFV1),
    "natural-pq.mkv": (natural(0.75), "smpte2084", 1000, FFV1),
    "natural-hlg.mkv": (natural(1.0), "arib-std-b67", 1000, FFV1),
    "max-cll.mkv": (natural(0.9), "smpte2084", 4000, (*X265, CLL.format(4000))),
    "display.mp4": (
        natural(0.83),
        "smpte2084",
        2000,
        (*X265, f"{CLL.format(0)}:master-display={MASTER.format(2000)}"),
    ),
    "too-low.mp4": (natural(0.75), "smpte2084", 1000, (*X265, CLL.format(100))),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if "ramp" in name or "bars" in name else [])
        for name in CHARTS
    ],
)
def test_what_is_published_is_what_the_formulas_give(
    encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path, name: str
) -> None:
    signals, transfer, peak, options = CHARTS[name]
    signals = filled(signals)
    source = chart(ffmpeg, tmp_path / name, signals, transfer, *options)
    light: Callable[[Triple], Triple] = (
        hlg_nits if transfer == "arib-std-b67" else lambda s: tuple(map(pq_nits, s))  # type: ignore[assignment,return-value]
    )
    expected = [mapped(light(signal), peak) for signal in signals]
    apart = [delta_e(a, b) for a, b in zip(shown(encode, source, tmp_path), expected, strict=True)]
    assert mean(apart) < 1
    assert quantiles(apart, n=20)[-1] < 1.5


def test_the_peak_of_the_metadata_matters_to_pq_only(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    signals, transfer, _, options = CHARTS["display.mp4"]
    pq = probe(os.fsencode(chart(ffmpeg, tmp_path / "pq.mp4", filled(signals), transfer, *options)))
    assert pq.video.peak_nits == 2000
    profile, rung = profiles.load("web"), Rung("192p", *SIZE, 1000)

    def keys(facts: SourceFacts) -> set[str]:
        return {
            settings_hash(
                "content", profile, rung, replace(facts, video=replace(facts.video, peak_nits=peak))
            )
            for peak in (0, 600, 1000, 2000, 4000)
        }

    assert len(keys(pq)) == 3
    for other in (18, 1):
        assert len(keys(replace(pq, video=replace(pq.video, color_transfer=other)))) == 1


@pytest.mark.parametrize(
    ("light", "display", "peak"),
    [
        (None, None, 0),
        (struct.pack("=II", 0, 0), None, 0),
        (struct.pack("=II", 1200, 1), struct.pack("=72xiiii", 4000, 1, 1, 1), 1200),
        (struct.pack("=II", 0, 400), struct.pack("=72xiiii", 40_000_000, 10_000, 1, 1), 4000),
        (None, struct.pack("=72xiiii", 4000, 1, 1, 0), 0),
        (None, struct.pack("=72xiiii", 4000, 0, 1, 1), 0),
    ],
)
def test_the_peak_is_of_the_content_else_of_the_display(
    light: bytes | None, display: bytes | None, peak: int
) -> None:
    assert peak_of({"CONTENT_LIGHT_LEVEL": light, "MASTERING_DISPLAY_METADATA": display}) == peak

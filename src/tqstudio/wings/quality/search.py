"""Chooses CRFs to try for a quality, and the one that reaches it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tqstudio.engine.media.plan.grid import Grid, nearest
from tqstudio.engine.media.plan.video_codecs import CODECS

_SAMPLE_S = 4
"""Rate control needs some seconds to spend what a whole video would."""
_SAMPLES, _SAMPLE_EACH_S = (4, 8), 60
_STEP = 0.08
"""From the usual CRF to the first two that are tried, as a share of those that the codec has."""
_FURTHER = 2
"""Probes at most, if the quality lies outside of what was tried, or between two that are far apart."""
_MOST = 101.0
"""What VMAF lacks of this grows with the CRF by about the same factor each step; 100 itself is reached."""
_ALIKE = 0.5
"""VMAF that viewers do not notice: for less, no bits are spent."""
_UNREACHED = 1.0


@dataclass(frozen=True, slots=True)
class Found:
    """The CRF for a quality."""

    crf: int
    vmaf: float
    """What the samples have with it, by the CRFs that were tried."""
    reached: bool
    """Whether that is the quality, or at least not less."""


def samples(grid: Grid, *, seeks: bool) -> list[tuple[int, int]]:
    """Ranges of fragments that stand for a video: the first one of each, and the end.

    Args:
        seeks: whether the source can be seeked in; else they are early in it.
    """
    length_s = float(grid.length)
    low, high = _SAMPLES
    count = min(high, max(low, round(length_s / _SAMPLE_EACH_S)))
    length = grid.total_frames if seeks else min(grid.total_frames, int(2 * _SAMPLE_EACH_S * grid.fps))
    sample = nearest(_SAMPLE_S * grid.fps)
    found = {}
    for number in range(count):
        start = grid.fragment_at(int(max(0, length - sample) * (number + 0.5) / count))
        # Not the last fragment, which may be short.
        stop = min(grid.fragment_count - 1, grid.fragment_at(grid.fragment_start(start) + sample))
        found[start] = max(start + 1, stop)
    return [*found.items()]


def find(codec: str, target: float, probe: Callable[[Sequence[int]], Mapping[int, float]]) -> Found:
    """Find the CRF of a codec whose VMAF is nearest to a target, mostly with two or three probes.

    Args:
        probe: measures CRFs: returns the VMAF of each.
    """
    usual, most = CODECS[codec].crf, CODECS[codec].most_crf
    step = round(_STEP * most)
    tried = dict(probe([usual - step, usual + step]))
    for _ in range(_FURTHER):
        low, high = min(tried), max(tried)
        if tried[high] <= target <= tried[low]:
            ends = (
                max(crf for crf in tried if tried[crf] >= target),
                min(c for c in tried if tried[c] <= target),
            )
            crf = round(_crf_for(target, {crf: tried[crf] for crf in ends}))
            # Between two that are far apart the curve is not known well enough.
            if ends[1] - ends[0] <= 2 * step:
                break
        elif min(abs(vmaf - target) for vmaf in tried.values()) < _ALIKE:
            break
        else:
            up = target < tried[high]
            nearest = sorted(tried)[-2:] if up else sorted(tried)[:2]
            if not up and _is_capped(tried, nearest):
                break
            crf = round(_crf_for(target, {crf: tried[crf] for crf in nearest}))
            # Not far outside, about which the two say little.
            crf = (
                min(most, max(crf, high + 2), high + 4 * step)
                if up
                else max(1, min(crf, low - 2), low - 3 * step)
            )
        if crf in tried:
            break
        tried |= probe([crf])
    return _best(tried, target, most)


def _is_capped(tried: Mapping[int, float], lowest: Sequence[int]) -> bool:
    """Whether a lower CRF is no better any more: the bit rate is at its limit."""
    return tried[lowest[0]] < tried[lowest[1]] + _ALIKE


def _best(tried: Mapping[int, float], target: float, most: int) -> Found:
    best = max(tried.values())
    if best < target:
        crf = max(crf for crf, vmaf in tried.items() if vmaf > best - _ALIKE)
        return Found(crf, tried[crf], reached=target - tried[crf] < _UNREACHED)
    above = max(crf for crf in tried if tried[crf] >= target)
    below = [crf for crf in tried if crf > above]
    if not below:
        return Found(above, tried[above], reached=True)
    ends = {crf: tried[crf] for crf in (above, min(below))}
    crf = min(most, max(1, round(_crf_for(target, ends))))
    return Found(crf, _vmaf_at(crf, ends), reached=True)


def _line(tried: Mapping[int, float]) -> tuple[float, float, int]:
    """What VMAF lacks at the lowest CRF as a logarithm, its rise with each CRF, and that CRF."""
    low, high = min(tried), max(tried)
    lacks = [math.log(max(_MOST - 100, _MOST - tried[crf])) for crf in (low, high)]
    return lacks[0], max(1e-3, (lacks[1] - lacks[0]) / (high - low)), low


def _crf_for(target: float, tried: Mapping[int, float]) -> float:
    lacks, rise, low = _line(tried)
    return low + max(-100.0, min(100.0, (math.log(_MOST - target) - lacks) / rise))


def _vmaf_at(crf: float, tried: Mapping[int, float]) -> float:
    lacks, rise, low = _line(tried)
    return _MOST - math.exp(lacks + rise * (crf - low))

"""Computes the gain of renditions from the loudness that a run measured.

The gain is constant, so that loud and quiet passages keep their ratio. It never raises the true peak above
-1 dBTP; if that requires a smaller gain, the rendition is less loud than its profile asks for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tqstudio.errors import ErrorCode, TqError

_MAX_PEAK_DBTP = -1.0
# Encoders raise peaks, of dense sound at low bit rates by several dB: only more than this needs another run.
_HEADROOM_DB = 0.5
_TOLERANCE_LU = 0.5
# dB between the values in the log.
_RESOLUTION_DB = 0.1
# What EBU R 128 does not count as sound; the filter reports it for sound shorter than 0.4 s too.
_SILENCE_LUFS = -70.0
# The summary of ffmpeg's filter `ebur128@NAME`; lines of other filters and streams may be between its parts.
_SUMMARY = re.compile(
    rb"^\[ebur128@([\w-]+) @ \w+\] Summary:\s+Integrated loudness:\s+I:\s+(\S+) LUFS"
    rb"(?:(?! Summary:).)*?True peak:\s+Peak:\s+(\S+) dBFS",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain of one rendition."""

    db: float
    warning: str
    """Why the rendition is less loud than it should be; empty if it is not."""


def gains(log: bytes, names: Sequence[str], target_lufs: float | None) -> dict[str, Gain]:
    """Compute the gain of each rendition from the log of `loudness_command`; no target keeps the loudness.

    Raises OUTPUT_INVALID if the log lacks a rendition.
    """
    measured = _measured(log)
    if lost := [name for name in names if name not in measured]:
        raise TqError(ErrorCode.OUTPUT_INVALID, f"the loudness of {', '.join(lost)} could not be measured")
    return {name: _gain(name, *measured[name], target_lufs) for name in names}


def lowered_gains(log: bytes, gains: Mapping[str, float], target_lufs: float) -> dict[str, Gain]:
    """Compute smaller gains for the renditions whose encoded peaks are too high.

    Args:
        log: of a finished run of `audio_command`; what it lacks was not measured.
        gains: in dB, with which they were encoded.
    """
    lowered = {}
    for name, (lufs, peak_db) in _measured(log).items():
        excess_db = peak_db - _MAX_PEAK_DBTP
        if excess_db > 0 and lufs > _SILENCE_LUFS:
            by_db = excess_db + _RESOLUTION_DB
            lowered[name] = Gain(round(gains[name] - by_db, 1), _warning(name, lufs - by_db, target_lufs))
    return lowered


def _measured(log: bytes) -> dict[str, tuple[float, float]]:
    """Loudness in LUFS and true peak in dBTP by name."""
    return {name.decode(): (float(lufs), float(peak)) for name, lufs, peak in _SUMMARY.findall(log)}


def _gain(name: str, lufs: float, peak_db: float, target_lufs: float | None) -> Gain:
    if target_lufs is None or lufs <= _SILENCE_LUFS:
        return Gain(0.0, "")
    db = round(min(target_lufs - lufs, _MAX_PEAK_DBTP - _HEADROOM_DB - peak_db), 1)
    return Gain(db, _warning(name, lufs + db, target_lufs))


def _warning(name: str, reached_lufs: float, target_lufs: float) -> str:
    if target_lufs - reached_lufs <= _TOLERANCE_LU:
        return ""
    return (
        f"{name} has a loudness of {reached_lufs:.1f} LUFS instead of {target_lufs:g}:"
        f" more would exceed a true peak of {_MAX_PEAK_DBTP:g} dBTP"
    )

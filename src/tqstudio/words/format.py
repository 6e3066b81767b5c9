"""Formats numbers, times and paths for narrow columns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tqstudio import shell_quoting, units
from tqstudio.paths import decode, readable

if TYPE_CHECKING:
    from tqstudio.protocol.answers import EtaView, SourceSummary


def clock_duration(seconds: float | None) -> str:
    """Formats a duration as a clock time: `03:40`, `1h10`, `2d 4h`."""
    if seconds is None:
        return ""
    whole = max(0, round(seconds))
    if whole < 3600:
        return f"{whole // 60:02d}:{whole % 60:02d}"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}"
    return f"{whole // 86400}d {whole % 86400 // 3600}h"


def short_duration(seconds: float) -> str:
    """Formats a duration roughly, in one unit: `40s`, `12m`, `3h`, `5d`."""
    whole = max(0, round(seconds))
    if whole < 100:
        return f"{whole}s"
    if whole < 6000:
        return f"{round(whole / 60)}m"
    if whole < 172_800:
        return f"{round(whole / 3600)}h"
    return f"{round(whole / 86400)}d"


def with_range(eta: EtaView) -> str:
    """Formats an ETA with its uncertainty in the same unit: `41m ±4`, `90s ±20`.

    A range, `20m–3h`, where the uncertainty exceeds half of the estimate.
    """
    left, off = round(eta["eta_s"]), (eta["high_s"] - eta["low_s"]) / 2
    if off > left / 2:
        return f"{short_duration(eta['low_s'])}–{short_duration(eta['high_s'])}"
    unit_s, unit = (1, "s") if left < 100 else (60, "m") if left < 6000 else (3600, "h")
    whole = round(off / unit_s)
    return f"{round(left / unit_s)}{unit} ±{whole}" if whole else f"{round(left / unit_s)}{unit}"


def step_duration(seconds: float) -> str:
    return f"{seconds:.1f}s" if seconds < 60 else clock_duration(seconds)


def counted(count: int, one: str) -> str:
    """Formats a count with its noun: `1 job`, `2 jobs`."""
    return f"{number(count)} {one}{'' if count == 1 else 's'}"


def speed(value: float | None) -> str:
    """Formats a multiple of real time: `2.1×`."""
    if value is None:
        return ""
    return f"{value:.1f}×" if value < 99.5 else f"{value:.0f}×"


def percent(value: float) -> str:
    return f"{units.whole_percent(value)}%"


def number(count: int) -> str:
    """Formats an integer with spaces between thousands: `100 000`."""
    return f"{count:,}".replace(",", " ")


def bitrate(bits: float | None) -> str:
    """Formats bits per second; empty for 0, which containers declare when they do not know."""
    if not bits:
        return ""
    if bits < 1e3:
        return f"{bits:.0f} b/s"
    return f"{bits / 1e6:.1f} Mb/s" if bits >= 1e6 else f"{bits / 1e3:.0f} kb/s"


def source_size(source: SourceSummary) -> str:
    """Short side and frame rate: `1080p24`; `sound` without video."""
    width, height, fps = source["width"], source["height"], source["fps"]
    if width == 0:
        return "sound"
    if not width or not height:
        return ""
    rate = f"{fps:.0f}" if fps else ""
    return f"{min(width, height)}p{rate}"


def sparkline(values: Sequence[float | None], heights: str) -> str:
    """Draws one block per value, the largest at full height; only zero and None are as low as the first.

    Args:
        heights: blocks of growing height, as `Glyphs.heights`.
    """
    most, top = max((value or 0.0 for value in values), default=0.0), len(heights) - 1
    return "".join(heights[max(1, round(value / most * top)) if value else 0] for value in values)


def share(value: float | None) -> str:
    """Formats a share of 1: `12%`."""
    return "" if value is None else f"{value:.0%}"


def parse_time(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def lasted(began: str | None, ended: str | None) -> str:
    """How long something lasted, between two API timestamps; empty without both."""
    start, end = parse_time(began), parse_time(ended)
    return clock_duration((end - start).total_seconds()) if start and end else ""


def age(text: str | None, now: datetime) -> float | None:
    """Seconds since an API timestamp; never negative."""
    at = parse_time(text)
    return None if at is None else max(0.0, (now - at).total_seconds())


def until(text: str | None, now: datetime) -> float | None:
    """Seconds until an API timestamp; never negative."""
    at = parse_time(text)
    return None if at is None else max(0.0, (at - now).total_seconds())


def moment(text: str | None, now: datetime) -> str:
    """Local clock time, with the date instead of the seconds when it is not today."""
    at = parse_time(text)
    if at is None:
        return ""
    local, today = at.astimezone(now.tzinfo), now
    return f"{local:%H:%M:%S}" if local.date() == today.date() else f"{local:%m-%d %H:%M}"


def time_of_day(seconds: float, now: datetime) -> str:
    """Local clock time so many seconds from now: `14:03`, on another day `Tue 14:03`, later `12-24`."""
    at = now + timedelta(seconds=max(0.0, seconds))
    days = (at.date() - now.date()).days
    return f"{at:%H:%M}" if not days else f"{at:%a %H:%M}" if days < 7 else f"{at:%m-%d}"


def end(text: str | None) -> str:
    """Local date and time at which something ends, as ` until 11-26 07:00`; empty without one."""
    at = parse_time(text)
    return "" if at is None else f" until {at.astimezone():%m-%d %H:%M}"


def full_moment(text: str | None, now: datetime) -> str:
    """Local date and time, and how long ago that was."""
    at = parse_time(text)
    if at is None:
        return ""
    ago = short_duration(max(0.0, (now - at).total_seconds()))
    return f"{at.astimezone(now.tzinfo):%Y-%m-%d %H:%M:%S}, {ago} ago"


def plain(text: str) -> str:
    """Makes external text safe to print on one line: no control or bidirectional characters."""
    return readable(text.replace("\t", "    "))


def copied(path_b64: str) -> str:
    """The text that `y` copies for a path: the path, or bash's `$'…'` for one that is not UTF-8."""
    return shell_quoting.transportable(os.fsdecode(decode(path_b64)))

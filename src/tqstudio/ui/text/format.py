"""Numbers as people read them in narrow columns."""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING

from tqstudio import shell_quoting, units
from tqstudio.paths import decode, readable

if TYPE_CHECKING:
    from tqstudio.protocol.answers import EtaView, SourceSummary


def clock_duration(seconds: float | None) -> str:
    """A remaining time: `03:40`, `1h10`, `2d 4h`."""
    if seconds is None:
        return ""
    whole = max(0, round(seconds))
    if whole < 3600:
        return f"{whole // 60:02d}:{whole % 60:02d}"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}"
    return f"{whole // 86400}d {whole % 86400 // 3600}h"


def short_duration(seconds: float) -> str:
    """A rough time in one unit: `40s`, `12m`, `3h`, `5d`."""
    whole = max(0, round(seconds))
    if whole < 100:
        return f"{whole}s"
    if whole < 6000:
        return f"{round(whole / 60)}m"
    if whole < 172_800:
        return f"{round(whole / 3600)}h"
    return f"{round(whole / 86400)}d"


def with_range(eta: EtaView) -> str:
    """A time left and how far off it may be, in the unit of both: `41m ±4`, `90s ±20`; `20m–3h` where much is
    not known."""
    left, off = round(eta["eta_s"]), (eta["high_s"] - eta["low_s"]) / 2
    if off > left / 2:
        return f"{short_duration(eta['low_s'])}–{short_duration(eta['high_s'])}"
    unit_s, unit = (1, "s") if left < 100 else (60, "m") if left < 6000 else (3600, "h")
    whole = round(off / unit_s)
    return f"{round(left / unit_s)}{unit} ±{whole}" if whole else f"{round(left / unit_s)}{unit}"


def step_duration(seconds: float) -> str:
    return f"{seconds:.1f}s" if seconds < 60 else clock_duration(seconds)


def counted(count: int, one: str, many: str = "") -> str:
    """`1 job`, `2 jobs`; `many` where the plural is more than an s."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def speed(value: float | None) -> str:
    """A multiple of real time: `2.1×`."""
    if value is None:
        return ""
    return f"{value:.1f}×" if value < 99.5 else f"{value:.0f}×"


def percent(value: float) -> str:
    return f"{units.whole_percent(value)}%"


def number(count: int) -> str:
    """With thin groups, so that 100 000 can be read."""
    return f"{count:,}".replace(",", " ")


def bitrate(bits: float | None) -> str:
    """Empty where it is not known, for which containers say 0 too."""
    if not bits:
        return ""
    if bits < 1e3:
        return f"{bits:.0f} b/s"
    return f"{bits / 1e6:.1f} Mb/s" if bits >= 1e6 else f"{bits / 1e3:.0f} kb/s"


def source_size(source: SourceSummary) -> str:
    """Short side and frame rate, as people name formats: `1080p24`; `720v` stands upright."""
    width, height, fps = source["width"], source["height"], source["fps"]
    if not width or not height:
        return ""
    rate = f"{fps:.0f}" if fps else ""
    return f"{min(width, height)}{'v' if height > width else 'p'}{rate}"


def parse_time(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def age(text: str | None, now: datetime) -> float | None:
    """Seconds since a time of the API; never negative."""
    at = parse_time(text)
    return None if at is None else max(0.0, (now - at).total_seconds())


def until(text: str | None, now: datetime) -> float | None:
    """Seconds until a time of the API; never negative."""
    at = parse_time(text)
    return None if at is None else max(0.0, (at - now).total_seconds())


def moment(text: str | None, now: datetime) -> str:
    """Clock time in the zone of this machine, with the date when it is not today."""
    at = parse_time(text)
    if at is None:
        return ""
    local, today = at.astimezone(now.tzinfo), now
    return f"{local:%H:%M:%S}" if local.date() == today.date() else f"{local:%m-%d %H:%M}"


def full_moment(text: str | None, now: datetime) -> str:
    """Date and time in the zone of this machine, and how long ago that was."""
    at = parse_time(text)
    if at is None:
        return ""
    ago = short_duration(max(0.0, (now - at).total_seconds()))
    return f"{at.astimezone(now.tzinfo):%Y-%m-%d %H:%M:%S}, {ago} ago"


def plain(text: str) -> str:
    """Text from outside as one harmless line: no control or direction characters reach the terminal."""
    return readable(text.replace("\t", "    "))


def copied(path_b64: str) -> str:
    """A path as `y` copies it: itself; one that is no UTF-8, which no clipboard carries, as bash's `$'…'`."""
    return shell_quoting.transportable(os.fsdecode(decode(path_b64)))

"""Verifies a complete rendition against its plan, before it is published."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import av
import av.error
from av.container import InputContainer

from tqstudio import path_checks
from tqstudio.engine.media.ffmpeg.errors import from_output_error
from tqstudio.engine.media.plan.file_names import INIT_NAME, segment_name
from tqstudio.engine.media.plan.grid import SHORT_S, TIMELINE_START_S, Grid, make_grid
from tqstudio.engine.media.plan.keys import without_copy
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.segments.boxes import Init, Segment
from tqstudio.engine.media.segments.checked import CheckedSegment, IFrame, RenditionCheck
from tqstudio.engine.media.segments.inspect import Torn, inspect_init, inspect_segment
from tqstudio.engine.media.segments.playlists import bit_rates
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.media.source.measure import tolerance_s
from tqstudio.engine.media.source.source_file import require_readable
from tqstudio.errors import ErrorCode, TqError

# Audio ends at an audio frame, and the encoder prepends one: 64 ms at 16 kHz.
_SOUND_TOLERANCE_S = 0.2


def verify_rendition(
    directory: Path, grid: Grid | None = None, *, video: bool = False, name: str = ""
) -> RenditionCheck:
    """Check all segments of a rendition, and that they are contiguous; 0.8 s for two hours.

    Args:
        directory: has `init.mp4` and `seg_00000.m4s` …; other files are ignored.
        grid: of video, if it is known: the segments begin at its times. None for audio.
        video: its segments are full, except the last one (see `SHORT_S`); audio is cut at audio frames. True
            with a grid.
        name: of the rendition, for messages; by default that of the directory.

    Raises:
        TqError: OUTPUT_EMPTY or OUTPUT_INVALID, with the segment.
    """
    label, video = name or directory.name, video or grid is not None
    names = SegmentStore(directory).listing()
    if not names:
        raise TqError(ErrorCode.OUTPUT_EMPTY, f"{label} has no segment")
    if names != tuple(segment_name(k) for k in range(len(names))):
        raise _invalid(label, f"has {len(names)} segments that are not numbered from 0 without gaps")
    init = _whole_init(directory, label)
    found = [_whole_segment(directory, label, each) for each in names]
    for k, segment in enumerate(found):
        if k and segment.tfdt != found[k - 1].tfdt + found[k - 1].duration:
            raise _invalid(label, f"does not join at segment {k}")
        if grid is not None and not grid.on_grid(grid.segment_start(k), segment.tfdt, init.timescale):
            raise _invalid(label, f"segment {k} does not begin at its time on the grid")
        if video:
            full = found[0].frames if grid is None else grid.segment_frames(k)
            _check_cut(label, full, k, segment, init.timescale, last=k == len(found) - 1)
    frames = sum(segment.frames for segment in found)
    # Versions of ffmpeg without loopback decoders lose some samples where the layout of the sound changes.
    slack = 0 if video else int(_SOUND_TOLERANCE_S * init.timescale)
    _check_packets(directory, label, names, frames, slack)
    durations = [segment.duration / init.timescale for segment in found]
    peak, average = bit_rates([segment.size for segment in found], durations)
    return RenditionCheck(
        frames=frames,
        start_s=found[0].tfdt / init.timescale,
        duration_s=sum(durations),
        width=init.width,
        height=init.height,
        codecs=init.codec,
        segments=tuple(
            CheckedSegment(name, segment.size, duration, segment.frames, _iframes(segment, init, video))
            for name, segment, duration in zip(names, found, durations, strict=True)
        ),
        peak_bps=peak,
        avg_bps=average,
    )


def verify_same_length(checks: Mapping[str, RenditionCheck]) -> None:
    """Check that all video renditions of a ladder have the same frame count; else raise OUTPUT_INVALID."""
    if len({check.frames for check in checks.values()}) > 1:
        counts = ", ".join(f"{name} {check.frames}" for name, check in checks.items())
        raise TqError(ErrorCode.OUTPUT_INVALID, f"the qualities differ in length (frames: {counts})")


def check_end(source: bytes, facts: SourceFacts, grid: Grid, frames: int) -> None:
    """Check that a video rendition of this many frames ends where the source does; else raise OUTPUT_INVALID.

    Raises as `require_readable` if the source cannot be read to its end.
    """
    encoded_s, planned_s = float(frames / grid.fps), float(grid.total_frames / grid.fps)
    slack_s = 0 if grid.exact else tolerance_s(planned_s, facts.unseekable)
    if abs(encoded_s - planned_s) <= slack_s:
        return
    # ffmpeg reports a read error as the end of the file.
    require_readable(source)
    raise TqError(
        ErrorCode.OUTPUT_INVALID,
        f"the source has {planned_s:.1f} s of video, but {encoded_s:.1f} s were encoded",
    )


def check_audio(facts: SourceFacts, grid: Grid, check: RenditionCheck, name: str) -> None:
    """Check that an audio rendition begins and ends with the video; else raise OUTPUT_INVALID.

    If the timestamps of the source jump, the end is an estimate and the tolerance larger.
    """
    begins_s = check.start_s - TIMELINE_START_S
    ends_s = begins_s + check.duration_s - float(grid.total_frames / grid.fps)
    slack_s = max(_SOUND_TOLERANCE_S, 0 if grid.exact else tolerance_s(facts.duration_s, facts.unseekable))
    for what, off_s in (("begins", begins_s), ("ends", ends_s)):
        if abs(off_s) > slack_s:
            raise _invalid(name, f"{what} {abs(off_s):.2f} s {'before' if off_s < 0 else 'after'} the video")


def _check_cut(label: str, full: int, k: int, segment: Segment, timescale: int, last: bool) -> None:
    """Check that a segment can be decoded alone, and has the number of frames of a full one.

    The last one may have fewer, or a short rest more.
    """
    if not segment.keyframe:
        raise _invalid(label, f"segment {k} does not begin with a key frame")
    rest_s = Fraction((segment.frames - full) * segment.duration, segment.frames * timescale)
    if segment.frames != full and not (last and rest_s < SHORT_S):
        raise _invalid(label, f"segment {k} has {segment.frames} frames instead of {full}")
    if sum(key_frame.duration for key_frame in segment.key_frames) != segment.duration:
        raise _invalid(label, f"a fragment of segment {k} does not begin with a key frame")


def _iframes(segment: Segment, init: Init, video: bool) -> tuple[IFrame, ...]:
    key_frames = segment.key_frames if video else ()
    return tuple(IFrame(offset, size, length / init.timescale) for offset, size, length in key_frames)


def _check_packets(directory: Path, label: str, names: Sequence[str], frames: int, slack: int) -> None:
    """Demux the stream; check that packets match the boxes in number, are in order and have no gap.

    Args:
        slack: how much longer or shorter than its packets a rendition may be, in ticks of its clock.
    """
    count = step = 0
    first_pts, last_pts, last_dts = math.inf, -math.inf, -math.inf
    try:
        with joined(directory, names) as stream:
            for packet in stream.demux():
                if not packet.size:
                    continue  # the flush at the end
                count += 1
                if packet.pts is None or packet.dts is None:
                    raise _invalid(label, f"frame {count} has no timestamp")
                if packet.dts <= last_dts:
                    raise _invalid(label, f"decode times go back at frame {count}")
                last_dts = packet.dts
                first_pts, last_pts = min(first_pts, packet.pts), max(last_pts, packet.pts)
                step = step or packet.duration or 0
    except av.error.FFmpegError as error:
        if isinstance(error, OSError) and error.errno in path_checks.FAILING:
            raise from_output_error(error, f"{label} cannot be read") from error
        raise _invalid(label, f"cannot be read: {error.strerror}") from error
    if count != frames:
        raise _invalid(label, f"has {count} frames, its boxes declare {frames}")
    if abs(last_pts - first_pts - (count - 1) * step) > slack:
        raise _invalid(label, "has a gap in its timestamps")


def published_grid(facts: SourceFacts, profile: Profile, video: Path | None) -> Grid:
    """The grid on which a ladder is cut, of which a video rendition is in this folder.

    What joined a ladder without a copy is cut as that, although its profile asks for copies.
    """
    grid = make_grid(facts, profile)
    if grid.copied is not None and video is not None and (video / segment_name(0)).exists():
        first = inspect_segment(video / segment_name(0))
        if isinstance(first, Segment) and first.frames != grid.segment_frames(0):
            return make_grid(facts, without_copy(profile))
    return grid


def joined(directory: Path, names: Sequence[str]) -> InputContainer:
    """Open the segments of a rendition as one stream."""
    files = _Joined([directory / INIT_NAME, *(directory / name for name in names)])
    return av.open(files, mode="r", format="mp4")


def _whole_init(directory: Path, label: str) -> Init:
    try:
        init = inspect_init(directory / "init.mp4")
    except FileNotFoundError:
        raise _invalid(label, "has no init.mp4") from None
    if isinstance(init, Torn):
        raise _invalid(label, f"has a damaged init.mp4 ({init.reason})")
    return init


def _whole_segment(directory: Path, label: str, name: str) -> Segment:
    segment = inspect_segment(directory / name)
    if isinstance(segment, Torn):
        raise _invalid(label, f"{name} is damaged ({segment.reason})")
    if not segment.frames:
        raise _invalid(label, f"{name} has no frames")
    return segment


def _invalid(label: str, what: str) -> TqError:
    return TqError(ErrorCode.OUTPUT_INVALID, f"{label} {what}")


class _Joined(io.RawIOBase):
    """Reads several files in sequence as one stream."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = list(reversed(paths))
        self._file: io.BufferedReader | None = None

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while self._file is not None or self._paths:
            if self._file is None:
                self._file = self._paths.pop().open("rb")
            if data := self._file.read(size):
                return data
            self._file.close()
            self._file = None
        return b""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()

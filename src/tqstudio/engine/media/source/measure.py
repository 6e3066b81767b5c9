"""Measures a source from its packets: start and end of each stream, frame rate, picture sizes, damage.

What containers declare is often wrong: the duration may include the time before the start, the frame rate may
be that of the clock, later pictures may be larger than the first. A job therefore reads all packets before it
plans; 3 s for two hours of video in the page cache, plus the sampled key frames.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

import av.error
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.packet import Packet
from av.stream import Stream

from tqstudio.engine.media.source.coded_pictures import CodedPictures
from tqstudio.engine.media.source.cut import is_cut
from tqstudio.engine.media.source.facts import AudioTrack, Damage, SourceFacts, VideoTrack
from tqstudio.engine.media.source.mpegts_scan import TransportScan
from tqstudio.engine.media.source.packet_times import (
    PacketFaults,
    PacketTimes,
    StreamClock,
    gap_at,
    measured_rate,
    retime_adts,
)
from tqstudio.engine.media.source.picture_shapes import Bitmaps, PictureShapes, carries_captions
from tqstudio.engine.media.source.source_file import encrypted, require_readable
from tqstudio.engine.media.source.streams import channels_of, last_picture_s, late, packets, scheme_of

_JUMPY_CONTAINERS = frozenset({"mpegts", "mpeg", "ogg"})
"""Formats whose clock may restart anywhere, which ffmpeg corrects; in others, times come from an index."""
_CHECK_EVERY = 1000
# Of a track of which nothing can be decoded; four minutes of AAC.
_TRIED_PACKETS = 10_000
# Bytes of packets of Fraps or MPEG-4 that say only that nothing has changed.
_MAY_BE_EMPTY = 32

_END_TOLERANCE_S = 0.5
_END_TOLERANCE_SHARE = 0.01
# Larger where timestamps jump: ffmpeg then aligns sound and pictures by estimates.
_UNSEEKABLE_TOLERANCE_SHARE = 0.05


def measure(
    path: bytes,
    container: InputContainer,
    facts: SourceFacts,
    check: Callable[[], None] = lambda: None,
    skips: Callable[[], bool] = lambda: False,
) -> SourceFacts:
    """Read all packets of a source and correct its facts. A demuxer error counts as the end of the file.

    Args:
        container: freshly opened.
        facts: from the header of the file.
        check: called often; its exceptions abort the reading.
        skips: whether the demuxer has skipped data, see `streams.watched`.

    Raises:
        TqError: as `require_readable` if the file cannot be read to its end.
    """
    reading = _Reading(path, container, facts)
    reading.read(check)
    # Before the source is opened again, whose demuxer may skip some too.
    skipped = skips()
    return reading.measured(check, skipped)


class _Reading:
    """One pass over the packets of a source."""

    def __init__(self, path: bytes, container: InputContainer, facts: SourceFacts) -> None:
        self._path = path
        self._container = container
        self._facts = facts
        self._pictures = next((s for s in container.streams.video if s.index == facts.leading), None)
        known = {track.index for track in facts.audio}
        pictures = [self._pictures] if self._pictures else []
        streams = (*pictures, *(s for s in container.streams.audio if s.index in known))
        self._times = {s.index: PacketTimes(s, reordered=facts.container == "avi") for s in streams}
        # Sound of an unknown codec has no context; the header does not describe sound that begins late.
        self._sounds = [s for s in streams if isinstance(s, AudioStream) and s.codec_context is not None]
        self._silent = {s.index: "" for s in self._sounds}
        """Of the sounds of which nothing was decoded yet, by what scheme they are encrypted."""
        self._tried: Counter[int] = Counter()
        self._clocks = {s.index: StreamClock(s, facts.video.fps) for s in streams}
        self._clock = self._clocks[facts.leading]
        self._other_clocks = [self._clocks[track.index] for track in facts.audio]
        self._shapes = PictureShapes(self._pictures, facts.video, facts.container) if self._pictures else None
        self._coded = CodedPictures(self._pictures) if self._pictures else None
        self._faults = PacketFaults(facts, restarts=facts.container in _JUMPY_CONTAINERS)
        self._bitmaps = {
            s.index: Bitmaps(s, facts.video) for s in container.streams.subtitles if Bitmaps.are_in(s)
        }
        pids = {s.id for s in streams}
        self._scan = TransportScan(path, pids) if facts.container == "mpegts" else None
        self._scanned: list[Damage] = []
        self._reached = Fraction(0)
        self._key_sizes: list[int] = []
        self._breaks_off = False
        self._captions = False

    def read(self, check: Callable[[], None]) -> None:
        """Read to the end of the file, or to the first error of the demuxer."""
        played = 0
        try:
            for number, packet in enumerate(packets(self._container)):
                if number % _CHECK_EVERY == 0:
                    check()
                if not packet.size:
                    continue  # the flush at the end
                if self._facts.container == "aac":
                    played = retime_adts(packet, played)
                self._add(packet)
        except av.error.PatchWelcomeError:
            self._breaks_off = True  # such as sound whose channels change in Ogg
        except av.error.FFmpegError:
            pass
        self._scan_until(math.inf)
        self._times[self._facts.leading].close()

    def _add(self, packet: Packet[Stream]) -> None:
        self._scan_until(packet.pos or 0)
        if packet.pts is not None and packet.time_base is not None and not packet.is_discard:
            self._reached = max(self._reached, (packet.pts + (packet.duration or 0)) * packet.time_base)
        index = packet.stream_index
        if index in self._bitmaps:
            self._bitmaps[index].add(packet)
        is_leading = index == self._facts.leading
        if is_leading and self._coded:
            self._coded.add(packet)
        if packet.is_discard or index not in self._times:
            return
        self._times[index].add(packet)
        if scheme := scheme_of(packet):
            if is_leading:
                raise encrypted(self._path, scheme)
            self._silent[index] = scheme
        pauses = self._clocks[index].add(packet, self._other_clocks if is_leading else (self._clock,))
        self._faults.add(packet, pauses=pauses)
        if self._shapes and is_leading:
            self._shapes.add(packet)
            if packet.is_keyframe:
                self._key_sizes.append(packet.size)
            self._captions = self._captions or carries_captions(packet)
        elif self._silent.get(index) == "" and self._tried[index] < _TRIED_PACKETS:
            self._tried[index] += 1
            if _decodes(packet):
                del self._silent[index]

    def _scan_until(self, position: float) -> None:
        """Note what the scan of a transport stream found before a position in the file."""
        if self._scan and (found := self._scan.before(position)):
            self._scanned += [Damage(what, self._clock.played_s(0)) for what in found]

    def measured(self, check: Callable[[], None], skipped: bool) -> SourceFacts:
        """Returns the facts, corrected by what was read; `skipped` if the demuxer has skipped data."""
        facts, clock = self._facts, self._clock
        # Where it jumps, only the playing time says how long the source is.
        jumps = facts.container in _JUMPY_CONTAINERS and clock.jumps
        missing = () if jumps else _missing(self._path, facts, self._times[facts.leading], self._reached)
        cut = not missing and (self._breaks_off or is_cut(self._path, facts.container))
        video = self._video(check, jumps)
        duration_s = clock.played_s(clock.pause_s) if jumps else _length_s(self._times)
        if not video.still and (length_s := video.duration_s or duration_s):
            size, keys = self._times[facts.leading].size, self._key_sizes
            video = replace(
                video,
                measured_bitrate=round(size * 8 / length_s),
                key_bytes=sum(keys) // max(1, len(keys)),
                key_rate=len(keys) / length_s,
            )
        return replace(
            facts,
            duration_s=duration_s,
            video=video,
            audio=tuple(self._audio(track, jumps) for track in facts.audio),
            subtitles=tuple(
                self._bitmaps[track.index].apply(track)
                if track.index in self._bitmaps and not jumps
                else track
                for track in facts.subtitles
            ),
            omitted=(*facts.omitted, *late(self._container)),
            captions=self._captions,
            unseekable=facts.unseekable or jumps,
            pause_s=_pause_s(facts, clock, self._clocks.values()) if jumps else 0,
            damage=(
                *self._scanned,
                *missing,
                *self._faults.damage(steady=not video.vfr, skipped=skipped, cut=cut),
            ),
            measured=True,
        )

    def _video(self, check: Callable[[], None], jumps: bool) -> VideoTrack:
        video, times = self._facts.video, self._times[self._facts.leading]
        if not (self._pictures and self._shapes):
            return video
        if jumps:
            played_s = self._clock.played_s(self._clock.pause_s)
            video = replace(video, duration_s=played_s, own_duration=True)
        elif times.end is not None:
            video = _timed(video, times, times.end, self._pictures.time_base or Fraction(1, 90_000))
        if times.last_size <= _MAY_BE_EMPTY and not (jumps or self._facts.unseekable or video.edits):
            # Some recorders write packets without a picture, while the one before stands.
            shown = last_picture_s(self._path, self._facts.leading, times.last, check)
            video = video if shown is None else replace(video, last_s=float(min(times.last, shown)))
        video = self._shapes.apply(video)
        if not self._coded or video.still:
            return video
        if jumps or self._facts.unseekable:
            return replace(video, not_copied="timestamps that jump")
        return self._coded.apply(video)

    def _audio(self, track: AudioTrack, jumps: bool) -> AudioTrack:
        sound = next((s.codec_context for s in self._sounds if s.index == track.index), None)
        clock = self._clocks[track.index]
        return _audio(
            track,
            self._times[track.index],
            (channels_of(sound), sound.sample_rate) if sound else (0, 0),
            clock.played_s(self._clock.pause_s) if jumps else None,
            self._silent.get(track.index),
        )


def _pause_s(facts: SourceFacts, leading: StreamClock, clocks: Iterable[StreamClock]) -> int:
    """The longest step ahead that is a pause, in seconds; 0 for ffmpeg's own limit of 10 s.

    Where VOBs with several tracks of sound are joined, ffmpeg corrects the clock twice, and the part between
    would become a pause of up to 10 s.
    """
    # Of all streams, because ffmpeg corrects each; silence in one track is no change of the clock.
    longest_s = max(clock.longest_s for clock in clocks)
    return leading.pause_s or (longest_s + 1 if facts.container == "mpeg" else 0)


def tolerance_s(seconds: float, unseekable: bool) -> float:
    """Seconds by which the end of a stream may differ from the expected one."""
    return max(
        _END_TOLERANCE_S, (_UNSEEKABLE_TOLERANCE_SHARE if unseekable else _END_TOLERANCE_SHARE) * seconds
    )


def _timed(video: VideoTrack, times: PacketTimes, end: Fraction, time_base: Fraction) -> VideoTrack:
    """The track with its measured rate and length; `end` is that of the last packet."""
    fps, vfr = measured_rate(times.gaps, time_base, video.fps)
    if video.interlaced and fps == 2 * video.fps:
        fps = video.fps  # one packet per field
    count = sum(times.gaps.values())
    gap = gap_at(times.gaps, count // 2) * time_base if count and not (vfr or video.interlaced) else 1 / fps
    one_of = max(1, round(1 / (gap * fps)))
    # The last packet may have no duration.
    end, last = max(end, times.last + 1 / (one_of * fps)), times.last
    if video.edits:
        # ffmpeg puts the parts together some frames early or late; the edit list has the right end.
        begins_s, _, length_s = video.edits[-1]
        end = Fraction(begins_s + length_s)
        last = end - 1 / fps
    length = max(end - video.first_pts_s, 1 / fps)
    return replace(
        video,
        fps=fps,
        vfr=vfr,
        one_of=one_of,
        last_s=float(last),
        end_s=float(end),
        duration_s=float(length),
        own_duration=True,
    )


def _audio(
    track: AudioTrack,
    times: PacketTimes,
    rate: tuple[int, int],
    played_s: float | None,
    silent: str | None,
) -> AudioTrack:
    """The track as measured; `silent` if nothing of it can be decoded, by what scheme it is encrypted."""
    channels, sample_rate = rate
    track = replace(
        track, channels=track.channels or channels, sample_rate=track.sample_rate or sample_rate or 0
    )
    if times.first is None or times.end is None:
        return track
    end_s = float(times.end) if played_s is None else float(times.first) + played_s
    if silent is not None:
        track = replace(track, codec="", encrypted=silent)
    length_s = end_s - float(times.first)
    bitrate = round(times.size * 8 / length_s) if length_s > 0 else 0
    return replace(track, first_s=float(times.first), end_s=end_s, bitrate=bitrate)


def _length_s(times: Mapping[int, PacketTimes]) -> float:
    known = [(found.first, found.end) for found in times.values() if found.end is not None]
    begins = min((first for first, _ in known if first is not None), default=Fraction(0))
    return float(max((end for _, end in known if end is not None), default=begins) - begins)


def _decodes(packet: Packet[Stream]) -> bool:
    """Decode an audio packet, which sets channels and sample rate of its stream; False if that fails."""
    with contextlib.suppress(av.error.FFmpegError):
        frames = packet.decode()
        for frame in frames:
            if isinstance(frame, AudioFrame):
                channels_of(frame)
        return bool(frames)
    return False


def _missing(path: bytes, facts: SourceFacts, times: PacketTimes, reached: Fraction) -> tuple[Damage, ...]:
    """Compare the end of the packets with the declared duration; returns what a truncated file lacks.

    Some containers declare the time of the end instead of a duration: a file that starts late may match
    either. The duration of the whole file shows which of the two a stream declares. A stream without its own
    duration may end early, if another stream reaches the end.

    Raises:
        TqError: as `require_readable` if the file cannot be read to its end.
    """
    declared_s = facts.video.duration_s
    if not declared_s:
        return ()
    slack_s = tolerance_s(declared_s, unseekable=False)
    # The first pictures of a recording may not be decodable.
    first_s = float(min(facts.video.first_pts_s, times.first if times.first is not None else math.inf))
    own_end = float(times.end) if times.end is not None else first_s
    reached_s = max(own_end, float(reached))
    begins_s, ends_s = facts.start_time_s, facts.duration_s
    at_end = abs(reached_s - ends_s) <= slack_s
    if facts.video.own_duration:
        reached_s = own_end
        if first_s + declared_s > begins_s + ends_s + slack_s:
            begins_s, at_end = first_s, True  # as long, it would end after the file
        at_end = at_end and abs(own_end - declared_s) <= slack_s
    if at_end or reached_s - first_s >= declared_s - slack_s:
        return ()
    # ffmpeg reports a read error as the end of the file.
    require_readable(path)
    has_s = max(0.0, own_end - first_s)
    lacks_s = declared_s - has_s
    return (Damage("cut", has_s, lacks_s - begins_s if lacks_s > begins_s > 0 else lacks_s),)

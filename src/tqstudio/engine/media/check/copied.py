"""Compares a copied rendition with the pictures of its source, packet by packet."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import zip_longest
from pathlib import Path

import av
import av.error
from av.container import InputContainer
from av.packet import Packet
from av.stream import Stream
from av.video.stream import VideoStream

from tqstudio.engine.media import nal_units
from tqstudio.engine.media.check.rendition import joined
from tqstudio.engine.media.plan.copying import is_tagged
from tqstudio.engine.media.plan.grid import Grid
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.media.source.probe import open_source
from tqstudio.errors import ErrorCode, TqError

# Of a frame, from the places of pictures in the source to those on the clock of the grid.
_MOST_MOVED = Fraction(1, 4)


def verify_copy(directory: Path, source: bytes, facts: SourceFacts, grid: Grid, name: str) -> None:
    """Check that a rendition has the coded pictures of the source, in its order and with its times.

    Parameter sets are compared too, unless the tags of the colours were added to them.

    Raises:
        TqError: OUTPUT_INVALID, with the picture that differs; as `open_source`, of the source.
    """
    try:
        with joined(directory, SegmentStore(directory).listing()) as copy, open_source(source) as original:
            _compare(_Pictures(copy, 0), _Pictures(original, facts.video.index), facts, grid, name)
    except av.error.FFmpegError as error:
        raise _invalid(name, f"it cannot be compared with the source: {error.strerror}") from error


class _Pictures:
    """The coded pictures of one stream."""

    def __init__(self, container: InputContainer, index: int) -> None:
        stream = container.streams[index]
        assert isinstance(stream, VideoStream)
        self._stream: Stream = stream
        self._container = container
        self.codec = stream.codec_context.name
        self.extradata = stream.codec_context.extradata or b""
        self._length = nal_units.length_bytes(self.codec, self.extradata)

    def packets(self) -> Iterator[Packet[Stream]]:
        """All packets of the stream, in the order of decoding."""
        return (packet for packet in self._container.demux(self._stream) if packet.size)

    def units(self, packet: Packet[Stream], *, sets: bool) -> list[bytes]:
        """The units of a packet: its parameter sets, or all others but delimiters."""
        kinds = nal_units.PARAMETER_SETS[self.codec]
        left_out = nal_units.DELIMITERS[self.codec]
        return [
            unit
            for unit in nal_units.units(bytes(packet), self._length)
            if (kind := nal_units.kind(self.codec, unit)) not in left_out and (kind in kinds) == sets
        ]


def _compare(copy: _Pictures, source: _Pictures, facts: SourceFacts, grid: Grid, name: str) -> None:
    first: tuple[Fraction, Fraction] | None = None
    tagged = is_tagged(facts.video)
    for number, (made, given) in enumerate(zip_longest(copy.packets(), source.packets())):
        if made is None or given is None:
            raise _invalid(name, f"it has {'more' if given is None else 'fewer'} pictures than the source")
        if copy.units(made, sets=False) != source.units(given, sets=False):
            raise _invalid(name, f"picture {number} is not that of the source")
        if tagged and any(unit not in copy.extradata for unit in source.units(given, sets=True)):
            raise _invalid(name, f"picture {number} has other parameter sets than the source")
        if made.is_keyframe != given.is_keyframe:
            raise _invalid(name, f"picture {number} is a key frame in one of copy and source")
        times = _time(made), _time(given)
        first = first or times
        moved = ((times[0] - first[0]) - (times[1] - first[1])) * grid.fps
        if abs(moved) > _MOST_MOVED:
            raise _invalid(name, f"picture {number} is {float(moved):.2f} frames from its time in the source")


def _time(packet: Packet[Stream]) -> Fraction:
    return (packet.pts or 0) * Fraction(packet.time_base or 0)


def _invalid(name: str, what: str) -> TqError:
    return TqError(ErrorCode.OUTPUT_INVALID, f"{name}: {what}")

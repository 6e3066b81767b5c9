"""Looks at a published ladder as a player would: the master by its rules, every frame of every quality."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import m3u8

from tqstudio.engine.media.check.ladder import verify_ladder


@dataclass(frozen=True)
class Stream:
    """What one rendition holds."""

    frames: int
    width: int
    height: int
    duration_s: float
    start_s: float


@dataclass(frozen=True)
class Ladder:
    """A master playlist and what it names."""

    master: Path
    video: dict[str, Stream]
    audio: dict[str, Stream]


def frames_of(source: Path) -> int:
    """Frames of a file, counted by decoding them."""
    with av.open(str(source)) as container:
        return sum(1 for _ in container.decode(video=0))


def check_ladder(
    master: Path,
    *,
    frames: int,
    fps: Fraction,
    names: Sequence[str],
    audio: bool = True,
    layout: str = "stereo",
) -> Ladder:
    """Check a master playlist, every segment of every rendition that it names, and the digests of them all.

    Args:
        frames: that every quality must have.
        names: the qualities that must be there, largest first.
    """
    report = verify_ladder(master, every_byte=True)
    assert report.ok, report
    assert all(finding.compared for finding in report.findings), report
    playlist = m3u8.load(str(master))
    assert playlist.is_variant
    assert playlist.is_independent_segments
    video = {}
    for entry in playlist.playlists:
        info = entry.stream_info
        name = Path(entry.uri).parent.name
        stream = _check_video(master.parent / entry.uri, fps)
        video[name] = stream
        assert info.resolution == (stream.width, stream.height)
        assert info.average_bandwidth > 0
        assert info.bandwidth >= info.average_bandwidth
        assert info.frame_rate == round(float(fps), 3)
        assert re.search(r"avc1\.[0-9a-fA-F]{6}", info.codecs)
        assert ("mp4a.40.2" in info.codecs) is audio
        assert bool(info.audio) is audio
        assert name == f"{min(stream.width, stream.height)}p"
        assert stream.width % 2 == stream.height % 2 == 0
        assert stream.frames == frames, f"{name} has {stream.frames} frames instead of {frames}"
    assert list(video) == list(names)
    assert [Path(entry.uri).parent.name for entry in playlist.iframe_playlists] == list(names)
    assert len({(s.frames, s.duration_s, s.start_s) for s in video.values()}) == 1, "lengths differ"
    sound = {}
    for medium in playlist.media:
        assert medium.type == "AUDIO"
        assert medium.group_id in {entry.stream_info.audio for entry in playlist.playlists}
        sound[Path(medium.uri).parent.name] = _check_audio(master.parent / medium.uri, layout)
    assert bool(sound) is audio
    length = next(iter(video.values())).duration_s
    for stream in sound.values():
        assert abs(stream.duration_s - length) < 0.3
    return Ladder(master, video, sound)


def segments_of(index: Path) -> tuple[bytes, list[Path], Any]:
    """The initialisation segment and the segments of a rendition's playlist, which must be complete."""
    playlist = m3u8.load(str(index))
    assert playlist.is_endlist
    assert playlist.playlist_type == "vod"
    (init,) = playlist.segment_map
    paths = [index.parent / segment.uri for segment in playlist.segments]
    assert max(segment.duration for segment in playlist.segments) <= playlist.target_duration + 0.5
    return (index.parent / init.uri).read_bytes(), paths, playlist


def _check_video(index: Path, fps: Fraction) -> Stream:
    init, paths, playlist = segments_of(index)
    pieces = [path.read_bytes() for path in paths]
    for path, piece in zip(paths, pieces, strict=True):
        with av.open(io.BytesIO(init + piece)) as container:
            first = next(packet for packet in container.demux(video=0) if packet.size)
            assert first.is_keyframe, f"{path} does not begin with a key frame"
    with av.open(io.BytesIO(init + b"".join(pieces))) as container:
        stream = container.streams.video[0]
        times = [frame.pts * frame.time_base for frame in container.decode(stream)]
        size = stream.width, stream.height
    step = 1 / fps
    assert times == sorted(times)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert all(abs(gap - step) < step / 20 for gap in gaps), f"{index}: frames are not evenly spaced"
    assert abs(sum(segment.duration for segment in playlist.segments) - len(times) * float(step)) < 0.01
    return Stream(len(times), *size, round(len(times) * float(step), 4), round(float(times[0]), 4))


def _check_audio(index: Path, layout: str) -> Stream:
    init, paths, _ = segments_of(index)
    with av.open(io.BytesIO(init + b"".join(path.read_bytes() for path in paths))) as container:
        stream = container.streams.audio[0]
        assert stream.layout.name == layout
        assert stream.rate == 48000
        samples, last, first = 0, None, None
        for frame in container.decode(stream):
            at = frame.pts * frame.time_base
            if last is not None:
                assert abs(at - last) < Fraction(1, 1000), (
                    f"{index}: a hole in the sound at {float(at):.3f} s"
                )
            first = at if first is None else first
            last = at + Fraction(frame.samples, frame.sample_rate)
            samples += frame.samples
    assert first is not None
    return Stream(samples, 0, 0, samples / 48000, round(float(first), 4))

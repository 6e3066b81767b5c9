"""Builds the ffmpeg commands for audio, each of which reads the source once for all tracks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any

import ffmpeg as compiler

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.command_line import (
    CAP_FACTOR,
    CAP_MARGIN_S,
    CAP_UNDECLARED_S,
    MAX_REPAIRED_S,
    compile_command,
    compile_outputs,
    open_input,
    read_all_streams,
    start_of,
)
from tqstudio.engine.media.ffmpeg.output_options import hls_options
from tqstudio.engine.media.plan.audio import DOWNMIX_PEAK, AudioRendition
from tqstudio.engine.media.plan.file_names import PLAYLIST_NAME, SEGMENT_PATTERN
from tqstudio.engine.media.plan.grid import TIMELINE_START_S, UNEVEN_S, Grid, sound_segment_s
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.source.facts import AudioTrack, SourceFacts

# Audio timestamps may be off by this much before silence is inserted or samples are dropped.
_MAX_AUDIO_OFFSET_S = 0.03
# `aresample` holds the silence that it inserts in memory: 0.7 MB per second of stereo.
_SILENCE_AT_ONCE_S = 30
# Decoders count the samples of AAC without container: its demuxer counts all in the rate of the first frame.
_UNTIMED = {"bsf:a": "setts=pts=NOPTS:dts=NOPTS"}
_DECODED = "decoded-"
# Of channels without places ffmpeg makes no stereo. Of a sound field (W, Y, …), what comes from both sides.
_STEREO_OF = {"discrete": "stereo|c0<c0|c1<c1", "ambisonic": "stereo|c0<c0+c1|c1<c0-c1"}
_HALF = 0.7071
_NEAREST = {
    "FC": (_HALF, "FL FR"),
    "BC": (_HALF, "BL BR"),
    "TFC": (_HALF, "FC"),
    "TC": (_HALF, "FC"),
    "TBC": (1, "BC"),
    "BFC": (_HALF, "FC"),
    "LFE2": (1, "LFE"),
    **{
        f"{name}{side}": (gain, f"{near}{side}")
        for side in "LR"
        for name, gain, near in (
            ("B", _HALF, "F"),
            ("S", 1, "B"),
            ("W", 1, "F"),
            ("TF", _HALF, "F"),
            ("TB", 1, "B"),
            ("TS", 1, "S"),
            ("BF", _HALF, "F"),
        )
    },
    **{f"F{side}C": (1, f"F{side}") for side in "LR"},
}
"""Channel → gain and where it is heard in a layout without it; the LFE is left out of stereo."""
_CHANNELS = {"stereo": "FL FR", "5.1": "FL FR FC LFE BL BR", "7.1": "FL FR FC LFE BL BR SL SR"}
_MEASURE = {"peak": "true", "framelog": "verbose"}
_LAYOUTS = {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}
"""ffmpeg's name of the layout by number of channels."""


def audio_command(
    ffmpeg: FFmpeg,
    source: bytes,
    facts: SourceFacts,
    grid: Grid,
    profile: Profile,
    renditions: Sequence[AudioRendition],
    gains: Mapping[str, float],
) -> list[str]:
    """Build the command that reads once and writes all given audio renditions on the timeline of the video.

    It always starts at the beginning, because a joined AAC stream clicks at the seam. Its output directories
    must exist. With a loudness in the profile its log has that of the decoded outputs, in the form of
    `loudness_command`; older versions of ffmpeg cannot measure it.

    Args:
        gains: in dB, by name of the rendition.
    """
    rate, limit = profile.audio_sample_rate, _limit(facts, grid, renditions)

    def encoded(sounds: Sequence[Any]) -> list[Any]:
        return [
            _amplified(stream, gains[rendition.name]).output(
                str(PurePosixPath(rendition.name, PLAYLIST_NAME)),
                **{
                    "c:a": rendition.codec,
                    "b:a": f"{rendition.bitrate_kbps}k",
                    "ac": rendition.channels,
                    "ar": rate,
                    **limit,
                },
                **hls_options(
                    rendition.name,
                    SEGMENT_PATTERN,
                    _segment_s(rendition, grid, profile),
                    TIMELINE_START_S - grid.zero + _zero(facts),
                    0,
                ),
            )
            for stream, rendition in zip(sounds, renditions, strict=True)
        ]

    argv = _compile(ffmpeg, source, facts, grid, profile, renditions, encoded)
    if profile.target_lufs is not None and ffmpeg.has_loopback:
        argv += _measured_outputs(argv, renditions)
    return argv + read_all_streams(facts)


def loudness_command(
    ffmpeg: FFmpeg,
    source: bytes,
    facts: SourceFacts,
    grid: Grid,
    profile: Profile,
    renditions: Sequence[AudioRendition],
) -> list[str]:
    """Build the command that measures what `audio_command` encodes without gains.

    Its log has loudness and true peak of each rendition, in the summary of the filter `ebur128@NAME`.
    """
    limit = _limit(facts, grid, renditions)

    def measured(sounds: Sequence[Any]) -> list[Any]:
        return [
            # The encoder gets this layout too.
            stream.filter("aformat", channel_layouts=_LAYOUTS[rendition.channels])
            .filter(f"ebur128@{rendition.name}", **_MEASURE)
            .output("-", f="null", **limit)
            for stream, rendition in zip(sounds, renditions, strict=True)
        ]

    return _compile(ffmpeg, source, facts, grid, profile, renditions, measured) + read_all_streams(facts)


def begins_late(rendition: AudioRendition, grid: Grid) -> bool:
    """Whether sound begins so late that it needs a run of its own.

    ffmpeg does not filter before all tracks of a run have begun, and holds the others in memory until then.
    """
    return Fraction(rendition.track.first_s or 0) - grid.zero > _SILENCE_AT_ONCE_S


def _measured_outputs(argv: Sequence[str], renditions: Sequence[AudioRendition]) -> list[str]:
    """Decode what a command encodes, and measure it; the compiler does not know loopback decoders."""
    paths = {str(PurePosixPath(each.name, PLAYLIST_NAME)): each.name for each in renditions}
    names = [paths[word] for word in argv if word in paths]
    options = ":".join(f"{key}={value}" for key, value in _MEASURE.items())
    words: list[str] = []
    # As many outputs come before these as there are decoders.
    for number, name in enumerate(names, argv.count("-dec")):
        graph = f"[dec:{number}]ebur128@{name}={options}[measured{number}]"
        words += ["-dec", f"{number}:0", "-filter_complex", graph]
        words += ["-map", f"[measured{number}]", "-f", "null", "-"]
    return words


def _compile(
    ffmpeg: FFmpeg,
    source: bytes,
    facts: SourceFacts,
    grid: Grid,
    profile: Profile,
    renditions: Sequence[AudioRendition],
    outputs: Callable[[Sequence[Any]], list[Any]],
) -> list[str]:
    """Compile a command that opens the source, and puts its sound on the timeline of the video.

    Where the layout of a track changes, ffmpeg builds the filters after the decoder again: they lose their
    state and would fill the start a second time. So a second graph fits the sound to the grid, which comes
    from a loopback decoder, always in one layout. Older versions of ffmpeg have no such decoder.

    Args:
        outputs: receives the stream of each rendition.
    """
    rate = profile.audio_sample_rate
    untimed = _UNTIMED if facts.container == "aac" and ffmpeg.has_loopback else {}
    decoded = _decoded(open_input(1, facts, 0, **untimed), renditions, rate)

    def fitted(streams: Sequence[Any]) -> list[Any]:
        pairs = zip(streams, renditions, strict=True)
        return outputs([_fitted(stream, each, grid, _zero(facts), rate) for stream, each in pairs])

    if not ffmpeg.has_loopback:
        return compile_command(ffmpeg, source, fitted(decoded), progress=True, threads=1)
    limit = _limit(facts, grid, renditions)
    as_pcm = {"c:a": "pcm_f32le", "f": "null", **limit}
    names = [f"{_DECODED}{number}" for number in range(len(renditions))]
    # ffmpeg drops what a loopback decoder gives for times before zero.
    start = start_of(facts)
    early = _samples(1 - start, rate) if start < 0 and not facts.unseekable else 0
    parts = [
        _moved(stream.filter("aformat", channel_layouts=_LAYOUTS[each.channels]), early).output(
            name, **as_pcm
        )
        for stream, each, name in zip(decoded, renditions, names, strict=True)
    ]
    argv = compile_command(ffmpeg, source, parts, progress=True, threads=1)
    written = [word for word in argv if word in names]
    argv += [word for number in range(len(written)) for word in ("-dec", f"{number}:0")]
    # The names of inputs stand for the decoders.
    rest = compile_outputs(fitted([_moved(compiler.input(name), -early) for name in names]))
    read = [written.index(word) for word in rest if word in names]

    def named(label: re.Match[str]) -> str:
        return f"[fitted{label[2]}]" if label[1] else f"[dec:{read[int(label[2])]}]"

    return argv + [re.sub(r"\[(s?)(\d+)\]", named, word) for word in rest[2 * len(names) :]]


def _moved(stream: Any, samples: int) -> Any:
    return stream.filter("asetpts", f"PTS{samples:+d}") if samples else stream


def _zero(facts: SourceFacts) -> Fraction:
    """The source time at which timestamps start: without -copyts they start at zero."""
    return start_of(facts) if facts.unseekable else Fraction(0)


def _limit(facts: SourceFacts, grid: Grid, renditions: Sequence[AudioRendition]) -> dict[str, str]:
    """The option that limits the length of an output, where the filters may not."""
    if grid.exact and all(each.track.end_s is not None for each in renditions):
        return {}
    limit_s = facts.duration_s * CAP_FACTOR + CAP_MARGIN_S if facts.duration_s else CAP_UNDECLARED_S
    return {"t": f"{limit_s:.3f}"}


def _amplified(stream: Any, gain_db: float) -> Any:
    return stream.filter("volume", f"{gain_db}dB") if gain_db else stream


def _decoded(opened: Any, renditions: Sequence[AudioRendition], rate: int) -> list[Any]:
    """Decode the tracks of an input, each once, and return the stream of each rendition."""
    uses = Counter(track for rendition in renditions for track in rendition.tracks)
    branches: dict[AudioTrack, list[Any]] = {}
    for track, count in uses.items():
        stream = opened[str(track.index)]
        # Before the resampler, which would give all of them the channels that one asks for.
        split = stream.filter_multi_output("asplit", count) if count > 1 else [stream]
        # Gaps in a recording are filled with silence, so that audio and video stay in sync.
        branches[track] = [
            split[number].filter("aresample", rate, min_hard_comp=_MAX_AUDIO_OFFSET_S, **{"async": 1})
            for number in range(count)
        ]
        if mix := _STEREO_OF.get(track.unplaced):
            branches[track] = [stream.filter("pan", mix) for stream in branches[track]]
    streams = []
    for rendition in renditions:
        parts = [branches[track].pop() for track in rendition.tracks]
        if rendition.track.places and rendition.downmixed:
            layout = _LAYOUTS[max(2, rendition.channels)]
            # In floats, because the sum may exceed full scale before it is limited.
            exact = parts[0].filter("aformat", sample_fmts="fltp")
            parts = [exact.filter("pan", args=_mix_of(rendition.track.places, layout))]
        joined = {"channel_layout": "stereo", "map": "0.0-FL|1.0-FR"}
        streams.append(parts[0] if len(parts) == 1 else compiler.filter(parts, "join", **joined))
    return streams


def _mix_of(places: str, layout: str) -> str:
    """The `pan` that mixes the named channels down to a layout with the gains of BT.775, and loses none."""
    gains: dict[str, list[str]] = {channel: [] for channel in _CHANNELS[layout].split()}

    def add(source: str, channel: str, gain: float) -> None:
        if channel in gains:
            gains[channel].append(f"{gain:.4f}*{source}")
        elif channel in _NEAREST:
            less, nearest = _NEAREST[channel]
            for each in nearest.split():
                add(source, each, gain * less)

    for place in places.split():
        add(place, place, 1)
    return "|".join([layout, *(f"{channel}={'+'.join(each or ['0*FL'])}" for channel, each in gains.items())])


def _fitted(stream: Any, rendition: AudioRendition, grid: Grid, zero: Fraction, rate: int) -> Any:
    """Mix decoded sound down to the channels of a rendition, and cut or fill it up to the grid.

    Its timestamps start at the source time `zero`.
    """
    if rendition.downmixed:
        # The sum of several channels may exceed full scale: 5.1 mixed to stereo by 7.7 dB.
        stream = stream.filter("aformat", channel_layouts=_LAYOUTS[rendition.channels])
        stream = stream.filter("alimiter", limit=DOWNMIX_PEAK, level="disabled", latency=1)
    first_s, end_s, begins = rendition.track.first_s, rendition.track.end_s, grid.zero
    is_late = first_s is None or first_s > begins
    delay = _samples(Fraction(first_s or 0) - begins, rate) if begins_late(rendition, grid) else 0
    first = {"first_pts": _samples(begins - zero, rate) + delay} if is_late else {}
    # Fill what is left of gaps to the sample: at the start, and where the filters before were built again.
    stream = stream.filter("aresample", rate, min_hard_comp=1e-4, **{"async": 1}, **first)
    if delay:
        stream = _moved(stream.filter("adelay", f"{delay}S", all=1), -delay)
    if first_s is not None and first_s < begins - UNEVEN_S:
        stream = stream.filter("atrim", start_pts=_samples(begins - zero, rate))
    if end_s is None:
        return stream
    missing = max(Fraction(0), begins + grid.length - Fraction(end_s))
    if grid.exact:
        missing += MAX_REPAIRED_S
    if samples := _samples(missing, rate):
        stream = stream.filter("apad", pad_len=samples)
    if not grid.exact:
        return stream
    return stream.filter("atrim", end_pts=_samples(_end(end_s, grid) - zero, rate))


def _end(end_s: float, grid: Grid) -> Fraction:
    """The source time at which sound that ends at `end_s` is cut."""
    ends = grid.zero + grid.length
    return Fraction(end_s) if ends < end_s <= ends + UNEVEN_S else ends


def _segment_s(rendition: AudioRendition, grid: Grid, profile: Profile) -> str:
    end_s, nominal_s = rendition.track.end_s, profile.segment_s
    if not grid.exact or end_s is None:
        return str(nominal_s)
    length = _end(end_s, grid) - grid.zero
    return f"{float(sound_segment_s(length, nominal_s, profile.audio_sample_rate)):.6f}"


def _samples(seconds: Fraction, rate: int) -> int:
    return round(seconds * rate)

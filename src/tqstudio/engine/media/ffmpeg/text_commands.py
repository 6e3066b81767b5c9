"""Builds the ffmpeg commands for subtitles, each of which reads the source once for all tracks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ffmpeg as compiler

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.command_line import compile_command, open_input, read_all_streams
from tqstudio.engine.media.plan.subtitles import SubtitleRendition
from tqstudio.engine.media.source.facts import SourceFacts, SubtitleTrack
from tqstudio.engine.media.source.source_file import FORMATS, PROTOCOLS

SUBTITLE_OFFSET_S = 1000
"""WebVTT has no negative times: the muxer would shift all of them."""
CAPTIONS_SOURCE = "source"
SIDECAR_NAMES = {"subrip": "sidecar.srt", "ass": "sidecar.ass", "webvtt": "sidecar.vtt"}
_WEBVTT = {"c:s": "webvtt", "f": "webvtt", "output_ts_offset": SUBTITLE_OFFSET_S}
_SRT = _WEBVTT | {"c:s": "srt", "f": "srt"}
ASS = ("ass", "ssa")
# Of other formats ffmpeg sets the sides by a font or grid of its own.
_WITH_SIDES = ("srt", "subrip", *ASS)


def subtitle_command(
    ffmpeg: FFmpeg, source: bytes, facts: SourceFacts, renditions: Sequence[SubtitleRendition]
) -> list[str]:
    """Build the command that writes each subtitle rendition as `text_name`, ASS as `script_name` too.

    Its times are those of the source, `SUBTITLE_OFFSET_S` later.
    """
    # One byte that is no UTF-8 must not drop a line.
    opened = open_input(1, facts, sub_charenc_mode="ignore")
    # MP4 has WebVTT in boxes.
    copies = facts.container.startswith("matroska")
    outputs = [
        output
        for rendition in renditions
        for output in _texts(opened[str(rendition.track.index)], rendition, copies=copies)
    ]
    return compile_command(ffmpeg, source, outputs, progress=True, threads=0) + read_all_streams(facts)


def sidecar_command(ffmpeg: FFmpeg, rendition: SubtitleRendition) -> list[str]:
    """Build the command that converts a subtitle file as `subtitle_command` does, with the same times.

    It reads a copy of the file in UTF-8, `SIDECAR_NAMES` by codec, in its directory.
    """
    codec = rendition.track.codec
    opened = compiler.input(
        f"file:{SIDECAR_NAMES[codec]}",
        protocol_whitelist=PROTOCOLS,
        format_whitelist="srt,ass,webvtt",
        copyts=None,
    )
    outputs = _texts(opened["0"], rendition, copies=True)
    return compile_command(ffmpeg, None, outputs, progress=True, threads=0)


def text_name(track: SubtitleTrack, name: str) -> str:
    """The file with the text of a rendition: SRT, where only that keeps on which side it is shown."""
    return f"{name}.srt" if track.codec in _WITH_SIDES else f"{name}.vtt"


def script_name(name: str) -> str:
    """The file with all that a track of ASS says, beside its text."""
    return f"{name}.ass"


def _texts(stream: Any, rendition: SubtitleRendition, *, copies: bool) -> list[Any]:
    """The files that are made of a stream, which may be copied if it is WebVTT."""
    codec, name = rendition.track.codec, text_name(rendition.track, rendition.name)
    # Decoded WebVTT would lose its positions, speakers and ruby.
    copied = {"c:s": "copy"} if copies and codec == "webvtt" else {}
    kind = _SRT if codec in _WITH_SIDES else _WEBVTT | copied
    outputs = [stream.output(name, **kind)]
    if codec in ASS:
        outputs.append(stream.output(script_name(rendition.name), **_SRT | {"c:s": "ass", "f": "ass"}))
    return outputs


def captions_command(ffmpeg: FFmpeg, rendition: SubtitleRendition) -> list[str]:
    """Build the command that writes the closed captions in the pictures to `NAME.vtt`, as `subtitle_command`.

    It decodes the video for that. Only a filter can do it; it opens `CAPTIONS_SOURCE` in the directory.
    """
    checks = f"format_whitelist={FORMATS}\\:protocol_whitelist={PROTOCOLS}"
    graph = f"movie={CAPTIONS_SOURCE}:si={rendition.track.index}:format_opts='{checks}'[out0+subcc]"
    # Stream 0 of the filter has the pictures, stream 1 the captions.
    output = compiler.input(graph, f="lavfi", copyts=None)["1"].output(f"{rendition.name}.vtt", **_WEBVTT)
    return compile_command(ffmpeg, None, [output], progress=True, threads=0)

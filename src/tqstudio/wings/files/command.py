"""Builds the ffmpeg command that puts the renditions of a ladder into one file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tqstudio.engine.media import languages
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.file_names import PLAYLIST_NAME
from tqstudio.engine.media.plan.grid import TIMELINE_START_S
from tqstudio.engine.store.library.generations import PublishedRow
from tqstudio.protocol.requests import ManifestChapter

ABOUT = "about.txt"
"""Title and chapters, as ffmpeg reads them."""
_KINDS = {"video": "v", "audio": "a", "subtitles": "s"}
_DISPOSITIONS = {
    "commentary": "comment",
    "description": "visual_impaired",
    "forced": "forced",
    "captions": "hearing_impaired",
}
_SPECIAL = re.compile(r"([=;#\\\n])")


def build(ffmpeg: FFmpeg, rows: Sequence[PublishedRow], made: str) -> list[str]:
    """Build the command, which runs in a folder beside those of the renditions.

    Times are those of the segments, from 0. What precedes it, such as the priming of AAC, is left out by the
    edit lists of MP4.

    Args:
        rows: video first, then sound, the default first, then subtitles.
        made: the name of the file, by which ffmpeg chooses its format.
    """
    options = [ffmpeg.path, "-hide_banner", "-nostdin", "-nostats", "-y", "-copyts"]
    inputs = [word for row in rows for word in _input(row)]
    tracks = [word for number, row in enumerate(rows) for word in ("-map", f"{number}:0")]
    count = dict.fromkeys(_KINDS.values(), 0)
    for row in rows:
        kind = _KINDS[row.kind]
        tracks += _track(f"{kind}:{count[kind]}", row, is_first=not count[kind])
        count[kind] += 1
    about = str(len(rows))
    return [
        *options,
        *inputs,
        *("-protocol_whitelist", "file", "-f", "ffmetadata", "-i", f"file:{ABOUT}"),
        *tracks,
        *("-map_metadata", about, "-map_chapters", about),
        *("-c", "copy", "-c:s", "mov_text"),
        *(("-tag:v", "hvc1") if rows[0].codecs.startswith("hvc1") else ()),
        *("-output_ts_offset", str(-TIMELINE_START_S), "-movflags", "+faststart"),
        f"file:{made}",
    ]


def text_name(row: PublishedRow) -> str:
    """The file with all cues of a rendition of subtitles."""
    return f"{row.name}.vtt"


def about(title: str, chapters: Sequence[ManifestChapter]) -> str:
    """Title and chapters in the format of ffmpeg, with times in milliseconds."""
    lines = [";FFMETADATA1", f"title={_escaped(title)}"]
    for number, chapter in enumerate(chapters, 1):
        lines += [
            "[CHAPTER]",
            "TIMEBASE=1/1000",
            f"START={round(chapter.start_s * 1000)}",
            f"END={round(chapter.end_s * 1000)}",
            f"title={_escaped(chapter.title or f'Chapter {number}')}",
        ]
    return "\n".join([*lines, ""])


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def _input(row: PublishedRow) -> Iterator[str]:
    yield from ("-protocol_whitelist", "file")
    if row.kind == "subtitles":
        yield from ("-itsoffset", str(TIMELINE_START_S), "-f", "webvtt", "-i", f"file:{text_name(row)}")
    else:
        yield from ("-f", "hls", "-i", f"file:../{row.name}/{PLAYLIST_NAME}")


def _track(stream: str, row: PublishedRow, *, is_first: bool) -> Iterator[str]:
    """The options of a track: what players show in their menus, and with which one they begin."""
    flags = [_DISPOSITIONS[row.role]] if row.kind != "video" and row.role else []
    if is_first and row.kind != "subtitles":
        flags.insert(0, "default")
    yield from (f"-disposition:{stream}", "+".join(flags) or "0")
    if row.kind != "video":
        name = row.menu_name("Audio" if row.kind == "audio" else "Subtitles")
        yield from (f"-metadata:s:{stream}", f"language={languages.three_letters(row.language or 'und')}")
        yield from (f"-metadata:s:{stream}", f"title={name}", f"-metadata:s:{stream}", f"handler_name={name}")

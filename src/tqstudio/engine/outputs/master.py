"""Writes the playlists of a generation; replacing the master playlist switches players to another one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from tqstudio.engine.files import durable
from tqstudio.engine.host import failpoints
from tqstudio.engine.media.plan.file_names import IFRAMES_NAME, PLAYLIST_NAME
from tqstudio.engine.media.plan.track_names import LOW, is_of_track, quality_of
from tqstudio.engine.media.segments.chapters import JSON_NAME
from tqstudio.engine.media.segments.checked import IFrame
from tqstudio.engine.media.segments.playlists import (
    AUDIO_GROUP,
    LOW_GROUP,
    SURROUND_GROUP,
    AudioEntry,
    IFrameEntry,
    SubtitleEntry,
    Variant,
    iframe_playlist,
    iframe_rates,
    master_playlist,
    media_playlist,
    target_duration,
)
from tqstudio.engine.outputs import dash
from tqstudio.engine.outputs.place import Place
from tqstudio.engine.store.library.generations import PublishedRow

_NAMED = re.compile(r'^(?:#EXT-X-MEDIA:.*URI=")?v(\d+)/', re.MULTILINE)


def named(place: Place) -> int | None:
    """The generation that the master names; None if there is none."""
    try:
        found = _NAMED.search(place.master.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return int(found[1]) if found else None


def write_next(place: Place, number: int, rows: Sequence[PublishedRow]) -> None:
    """Write the master of a generation under a temporary name.

    Raises:
        OSError: of the file system.
    """
    durable.write(place.next_master, text(place, number, rows))


def replace(place: Place, number: int) -> None:
    """Replace the master atomically by the one that `write_next` wrote, and before it the MPD.

    Raises:
        OSError: of the file system.
    """
    dash.set_current(place, number)
    failpoints.reach("publish.mpd_replaced")
    place.next_master.replace(place.master)
    durable.sync_folder(place.folder)


def set_current(place: Place, number: int, rows: Sequence[PublishedRow]) -> None:
    """Make the master name a generation.

    Raises:
        OSError: of the file system.
    """
    write_next(place, number, rows)
    replace(place, number)


def target_of(rows: Sequence[PublishedRow]) -> int | None:
    """The target duration of all playlists of a generation; None if each has its own.

    That is so in a generation without I-frames: an earlier tqstudio wrote its playlists.
    """
    if not any(_iframes(row) for row in rows):
        return None
    return target_duration(file.duration_s for row in rows for file in row.files)


def playlists(row: PublishedRow, target: int | None) -> dict[str, bytes]:
    """The playlists of a rendition as they are published: file name → content.

    Args:
        target: `target_of` its generation.
    """
    durations = [file.duration_s for file in row.files]
    names = [file.name for file in row.files]
    has_init = bool(row.init_size)
    written = {PLAYLIST_NAME: media_playlist(durations, names, target=target, has_init=has_init)}
    if iframes := _iframes(row):
        written[IFRAMES_NAME] = iframe_playlist(iframes)
    return {name: content.encode() for name, content in written.items()}


def _iframes(row: PublishedRow) -> list[tuple[str, IFrame]]:
    """The I-frames of a rendition, each with its file."""
    return [(file.name, iframe) for file in row.files for iframe in file.iframes]


def text(place: Place, number: int, rows: Sequence[PublishedRow]) -> bytes:
    """The master playlist of a generation as it is published; names its chapters if it has any."""
    # New and kept renditions in one order: the default first, then by name.
    sounds = sorted(
        (row for row in rows if row.kind == "audio" and is_of_track(row.name)),
        key=lambda row: (not row.is_default, row.name),
    )
    qualities = [row for row in rows if not is_of_track(row.name)]
    has_low = len(qualities) > 1 and any(row.name.endswith(LOW) for row in sounds)
    # The only one is offered with both groups.
    lowest = min(qualities, key=_picture_size) if has_low else None
    variants = [
        Variant(
            uri=f"v{number}/{row.name}/{PLAYLIST_NAME}",
            width=row.width or 0,
            height=row.height or 0,
            fps=Fraction(row.frame_rate or 0).limit_denominator(1001),
            codec=row.codecs,
            peak_bps=row.peak_bps,
            average_bps=row.average_bps,
            video_range=row.video_range,
            iframes=_iframe_entry(number, row),
            group=LOW_GROUP if row is lowest else row.name if sounds and row.kind == "audio" else "",
        )
        for row in qualities
    ]
    alone = [row for row in qualities if row.kind == "audio"]
    audio = _by_quality(number, alone, sounds) if alone else _by_channels(number, sounds)
    subtitles = [
        SubtitleEntry(
            uri=f"v{number}/{row.name}/{PLAYLIST_NAME}",
            language=row.language or "und",
            name=row.menu_name("Subtitles"),
            peak_bps=row.peak_bps,
            average_bps=row.average_bps,
            role=row.role,
        )
        for row in sorted(rows, key=lambda row: row.name)
        if row.kind == "subtitles"
    ]
    # Players allow no difference between qualities.
    captions = {row.role for row in rows if row.kind == "video"} == {"captions"}
    # The first closed captions have the language of the programme. Earlier versions did not declare it.
    language = audio[0].language if audio and any(variant.iframes for variant in variants) else "und"
    has_chapters = (place.generation(number) / JSON_NAME).is_file()
    return master_playlist(
        variants,
        audio,
        subtitles,
        captions=captions,
        captions_language=language,
        chapters=f"v{number}/{JSON_NAME}" if has_chapters else "",
    ).encode()


def _by_channels(number: int, sounds: Sequence[PublishedRow]) -> list[AudioEntry]:
    """The groups of the sound of a video: one of all tracks, one with their channels if any has more, and one
    for the lowest quality if the profile asks for it."""
    names = {row.name for row in sounds}
    surround = {row.surround_of: row for row in sounds if row.surround_of in names}
    lowest = {row.name.removesuffix(LOW): row for row in sounds if row.name.endswith(LOW)}
    mixed = [row for row in sounds if row.surround_of not in names and row not in lowest.values()]
    audio = [_audio(number, row, AUDIO_GROUP, row, row is mixed[0]) for row in mixed]
    if surround:
        # Every group has the same tracks: those without more channels are in both.
        for row in mixed:
            played = surround.get(row.name, row)
            audio.append(_audio(number, row, SURROUND_GROUP, played, row is mixed[0]))
    if lowest:
        audio += [_audio(number, row, LOW_GROUP, lowest.get(row.name, row), row is mixed[0]) for row in mixed]
    return audio


def _by_quality(
    number: int, qualities: Sequence[PublishedRow], sounds: Sequence[PublishedRow]
) -> list[AudioEntry]:
    """The groups of sound alone, one for each quality, with all tracks; none of a single track."""
    tracks: dict[str, list[PublishedRow]] = {}
    for row in sounds:
        tracks.setdefault(row.name.removesuffix(quality_of(row.name)), []).append(row)
    audio: list[AudioEntry] = []
    for quality in qualities if tracks else ():
        # Every group has the same tracks: what failed in one quality is played in another one.
        played = [min(rows, key=lambda row: quality_of(row.name) != quality.name) for rows in tracks.values()]
        audio += [_audio(number, row, quality.name, row, row is quality) for row in (quality, *played)]
    return audio


def _picture_size(row: PublishedRow) -> tuple[int, int]:
    return (row.width or 0) * (row.height or 0), row.peak_bps


def _iframe_entry(number: int, row: PublishedRow) -> IFrameEntry | None:
    iframes = _iframes(row)
    return IFrameEntry(f"v{number}/{row.name}/{IFRAMES_NAME}", *iframe_rates(iframes)) if iframes else None


def _audio(number: int, row: PublishedRow, group: str, played: PublishedRow, default: bool) -> AudioEntry:
    """The entry of a track in a group, and of the rendition that is played for it there."""
    return AudioEntry(
        uri=f"v{number}/{played.name}/{PLAYLIST_NAME}",
        language=row.language or "und",
        name=row.menu_name("Audio"),
        channels=played.channels or 2,
        codec=played.codecs,
        peak_bps=played.peak_bps,
        average_bps=played.average_bps,
        default=default,
        role=row.role,
        group=group,
    )

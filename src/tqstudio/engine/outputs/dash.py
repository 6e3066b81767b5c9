"""Writes the MPD of a generation over the segments of its playlists, and puts it beside the master."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from tqstudio.engine.files import durable
from tqstudio.engine.media.check import digests
from tqstudio.engine.media.plan.file_names import INIT_NAME, SEGMENT_PATTERN, SPRITE_PATTERN
from tqstudio.engine.media.plan.track_names import LOW, STORYBOARD, is_of_track, quality_of
from tqstudio.engine.media.segments import dash, storyboard, webvtt
from tqstudio.engine.media.segments.inspect import Torn, inspect_init, inspect_segment
from tqstudio.engine.media.segments.playlists import target_duration
from tqstudio.engine.outputs.place import Place
from tqstudio.engine.store.library.generations import PublishedRow
from tqstudio.errors import ErrorCode, TqError
from tqstudio.ladder_files import MPD_NAME

_CICP = "urn:mpeg:mpegB:cicp:"
_ROLE = "urn:mpeg:dash:role:2011"
_PURPOSE = "urn:tva:metadata:cs:AudioPurposeCS:2007"
_CAPTIONS = "urn:scte:dash:cc:cea-608:2015"
_TILE = "http://dashif.org/guidelines/thumbnail_tile"
_CHANNELS = {7: 11, 8: 12}
"""ChannelConfiguration of ISO/IEC 23091-3; up to 5.1 it is the number of channels."""
_TRANSFER = {"PQ": 16, "HLG": 18}
_ROLES = {"captions": "caption", "forced": "forced-subtitle", "": "subtitle"}
_PURPOSES = {"description": "1", "captions": "2"}


def has(place: Place, number: int) -> bool:
    """Whether a generation has an MPD."""
    return (place.generation(number) / MPD_NAME).is_file()


def files(folder: Path, rows: Sequence[PublishedRow]) -> dict[str, bytes]:
    """The files of DASH for a generation, by name.

    Args:
        folder: of the generation, with the files of its renditions.

    Raises:
        TqError: OUTPUT_INVALID if the head of a rendition cannot be read.
        OSError: from the file system.
    """
    whole = {
        f"{row.name}.vtt": webvtt.whole(
            (folder / row.name / file.name).read_text("utf-8") for file in row.files
        )
        for row in rows
        if row.kind == "subtitles"
    }
    qualities = [row for row in rows if not is_of_track(row.name)]
    longest = target_duration(file.duration_s for row in qualities for file in row.files)
    root = Element(
        "MPD",
        {
            "xmlns": "urn:mpeg:dash:schema:mpd:2011",
            "profiles": "urn:mpeg:dash:profile:isoff-live:2011",
            "type": "static",
            "mediaPresentationDuration": f"PT{max(row.duration_s for row in qualities):.6f}S",
            "minBufferTime": f"PT{longest}S",
        },
    )
    period = SubElement(root, "Period", id="0", start="PT0S")
    qualities.sort(key=lambda row: (-(row.width or 0) * (row.height or 0), -row.peak_bps, row.name))
    for codec, transfer in dict.fromkeys((row.codecs[:4], row.video_range) for row in qualities):
        alike = [row for row in qualities if (row.codecs[:4], row.video_range) == (codec, transfer)]
        if alike[0].kind == "audio":
            _track(period, folder, alike)
        else:
            _videos(period, folder, alike, transfer)
    tracks: dict[str, list[PublishedRow]] = {}
    for row in sorted(rows, key=lambda row: (not row.is_default, row.name)):
        if is_of_track(row.name):
            track = row.name.removesuffix(quality_of(row.name)) or row.name.removesuffix(LOW)
            tracks.setdefault(track, []).append(row)
    for alike in tracks.values():
        _track(period, folder, sorted(alike, key=lambda row: -row.peak_bps))
    if tiles := storyboard.tiles(folder):
        _tiles(period, tiles)
    indent(root)
    mpd: bytes = tostring(root, "utf-8", xml_declaration=True)
    return {name: text.encode() for name, text in whole.items()} | {MPD_NAME: mpd + b"\n"}


def set_current(place: Place, number: int | None) -> None:
    """Put the MPD of a generation beside the master playlist, durably; without one, remove ours.

    Raises:
        OSError: from the file system.
    """
    if number is not None and has(place, number):
        durable.write(place.next_mpd, dash.below(durable.read(place.generation(number) / MPD_NAME), number))
        place.next_mpd.replace(place.mpd)
    elif dash.named(place.folder) is not None:
        durable.discard(place.mpd)
    else:
        return
    # Before the master is replaced: a generation whose publish is finished by its master has its MPD.
    durable.sync_folder(place.folder)


def intact(place: Place, number: int, rows: Sequence[PublishedRow]) -> bool:
    """Whether the files of DASH are as published.

    Raises:
        OSError or ValueError: one cannot be read.
    """
    generation = place.generation(number)
    if not has(place, number):
        return dash.named(place.folder) is None
    sums = digests.read(generation / digests.SUMS_NAME)
    # The MPD names the storyboard too.
    names = [MPD_NAME, *(f"{row.name}.vtt" for row in rows if row.kind == "subtitles")]
    names += [name for name in sums if name.startswith(STORYBOARD)]
    return durable.read(place.mpd) == dash.below(durable.read(generation / MPD_NAME), number) and all(
        digests.of_file(generation / name) == sums.get(name) for name in names
    )


def _videos(period: Element, folder: Path, rows: Sequence[PublishedRow], transfer: str) -> None:
    group = _group(period, "video", "mp4")
    if transfer in _TRANSFER:
        # Players that do not know them leave these qualities out.
        values = {
            "ColourPrimaries": 9,
            "TransferCharacteristics": _TRANSFER[transfer],
            "MatrixCoefficients": 9,
        }
        for name, value in values.items():
            _descriptor(group, "EssentialProperty", _CICP + name, str(value))
    if all(row.role == "captions" for row in rows):
        _descriptor(group, "Accessibility", _CAPTIONS, None)
    _descriptor(group, "Role", _ROLE, "main")
    for row in rows:
        rate = Fraction(row.frame_rate or 0).limit_denominator(1001)
        size = {"width": str(row.width), "height": str(row.height), "frameRate": str(rate)}
        _media(group, folder, row, size)


def _track(period: Element, folder: Path, qualities: Sequence[PublishedRow]) -> None:
    """Describe a track of sound in one or several qualities, or subtitles."""
    row = qualities[0]
    sound = row.kind == "audio"
    group = _group(period, "audio" if sound else "text", "mp4" if sound else "vtt")
    if row.language not in (None, "und"):
        group.set("lang", str(row.language))
    if sound:
        # Players begin with it, not with the one of more channels.
        group.set("selectionPriority", "2" if row.is_default and not row.surround_of else "1")
        channels = row.channels or 2
        _descriptor(
            group,
            "AudioChannelConfiguration",
            _CICP + "ChannelConfiguration",
            str(_CHANNELS.get(channels, channels)),
        )
    label = row.menu_name("Audio" if sound else "Subtitles")
    SubElement(group, "Label").text = "".join(char if char.isprintable() else " " for char in label)
    if row.role in _PURPOSES:
        _descriptor(group, "Accessibility", _PURPOSE, _PURPOSES[row.role])
    role = (row.role or ("main" if row.is_default else "alternate")) if sound else _ROLES[row.role]
    _descriptor(group, "Role", _ROLE, role)
    if sound:
        for quality in qualities:
            _media(group, folder, quality, {})
    else:
        whole = SubElement(group, "Representation", id=row.name, bandwidth=str(max(1, row.average_bps)))
        SubElement(whole, "BaseURL").text = f"{row.name}.vtt"


def _group(period: Element, kind: str, ending: str) -> Element:
    mime = f"{'text' if kind == 'text' else kind}/{ending}"
    group = SubElement(period, "AdaptationSet", id=str(len(period)), contentType=kind, mimeType=mime)
    if kind in ("video", "audio"):
        group.attrib |= {"segmentAlignment": "true", "startWithSAP": "1"}
    return group


def _tiles(period: Element, tiles: storyboard.Tiles) -> None:
    """Describe the storyboard as tiled thumbnails of the guidelines of the DASH-IF."""
    group = _group(period, "image", "jpeg")
    SubElement(
        group,
        "SegmentTemplate",
        timescale="1000",
        duration=str(tiles.sprite_ms),
        media=SPRITE_PATTERN.replace("%03d", "$Number%03d$"),
        startNumber="0",
    )
    shown = SubElement(
        group,
        "Representation",
        id=STORYBOARD,
        bandwidth=str(tiles.largest * 8000 // tiles.sprite_ms + 1),
        width=str(tiles.columns * tiles.width),
        height=str(tiles.rows * tiles.height),
    )
    _descriptor(shown, "EssentialProperty", _TILE, f"{tiles.columns}x{tiles.rows}")


def _descriptor(group: Element, tag: str, scheme: str, value: str | None) -> None:
    SubElement(group, tag, {"schemeIdUri": scheme} | ({} if value is None else {"value": value}))


def _media(group: Element, folder: Path, row: PublishedRow, more: dict[str, str]) -> None:
    """Describe the segments of a rendition."""
    init = inspect_init(folder / row.name / INIT_NAME)
    first = inspect_segment(folder / row.name / row.files[0].name)
    if isinstance(init, Torn) or isinstance(first, Torn):
        raise TqError(ErrorCode.OUTPUT_INVALID, f"{row.name}: its segments cannot be described for DASH")
    described = SubElement(
        group, "Representation", {"id": row.name, "bandwidth": str(row.peak_bps), "codecs": row.codecs} | more
    )
    if row.kind == "audio":
        described.set("audioSamplingRate", str(init.timescale))
    template = SubElement(
        described,
        "SegmentTemplate",
        timescale=str(init.timescale),
        presentationTimeOffset=dash.offset(init.timescale),
        initialization=f"$RepresentationID$/{INIT_NAME}",
        media=f"$RepresentationID$/{SEGMENT_PATTERN.replace('%05d', '$Number%05d$')}",
        startNumber="0",
    )
    listed = SubElement(template, "SegmentTimeline")
    durations = [file.duration_s for file in row.files]
    for entry in dash.timeline(durations, init.timescale, first.tfdt):
        SubElement(listed, "S", entry)

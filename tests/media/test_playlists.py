"""Playlists, read back with the m3u8 library."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import m3u8
import pytest

from tqstudio.engine.media.segments.playlists import (
    AudioEntry,
    IFrameEntry,
    SubtitleEntry,
    Variant,
    bit_rates,
    master_playlist,
    media_playlist,
)


def test_media_playlist() -> None:
    names = [f"seg_{k:05d}.m4s" for k in range(3)]
    text = media_playlist([6.006, 6.006, 1.968633], names)
    playlist = m3u8.loads(text)
    assert [segment.uri for segment in playlist.segments] == names
    assert [segment.duration for segment in playlist.segments] == [6.006, 6.006, 1.968633]
    assert playlist.target_duration == 6
    assert playlist.is_endlist
    assert playlist.is_independent_segments
    assert playlist.playlist_type == "vod"
    assert playlist.version == 7
    assert playlist.segment_map[0].uri == "init.mp4"


def test_no_segment_is_longer_than_the_target_when_rounded() -> None:
    assert m3u8.loads(media_playlist([6.5, 2.0], ["a", "b"])).target_duration == 7
    assert m3u8.loads(media_playlist([0.04], ["a"])).target_duration == 1


def variant(name: str, width: int, height: int, peak: int) -> Variant:
    return Variant(
        f"v1/{name}/index.m3u8", width, height, Fraction(30000, 1001), "avc1.64001F", peak, peak // 2
    )


def test_master_playlist_names_what_was_measured() -> None:
    audio = AudioEntry("v1/audio-en/index.m3u8", "en", 'say "hi"\n', 2, "mp4a.40.2", 131_000, 130_000)
    text = master_playlist(
        [variant("360p", 640, 360, 800_000), variant("720p", 1280, 720, 3_000_000)], [audio]
    )
    playlist = m3u8.loads(text)
    assert [entry.uri for entry in playlist.playlists] == ["v1/720p/index.m3u8", "v1/360p/index.m3u8"]
    best = playlist.playlists[0].stream_info
    assert best.bandwidth == 3_131_000
    assert best.average_bandwidth == 1_630_000
    assert best.codecs == "avc1.64001F,mp4a.40.2"
    assert best.resolution == (1280, 720)
    assert best.frame_rate == 29.97
    assert best.audio == "audio"
    (media,) = playlist.media
    assert (media.type, media.language, media.uri, media.channels) == (
        "AUDIO",
        "en",
        "v1/audio-en/index.m3u8",
        "2",
    )
    assert media.name == "say  hi"
    assert playlist.is_independent_segments
    assert "FRAME-RATE=29.970,VIDEO-RANGE=SDR" in text


def test_players_begin_with_two_megabits() -> None:
    variants = [
        variant("1080p", 1920, 1080, 9_000_000),
        variant("720p", 1280, 720, 3_900_000),
        variant("360p", 640, 360, 800_000),
    ]
    order = [entry.uri.split("/")[1] for entry in m3u8.loads(master_playlist(variants)).playlists]
    assert order == ["1080p", "720p", "360p"], "as before there were I-frames"
    variants = [replace(each, iframes=IFrameEntry("i.m3u8", 9, 8)) for each in variants]
    master = m3u8.loads(master_playlist(variants))
    assert [entry.uri.split("/")[1] for entry in master.playlists] == ["720p", "1080p", "360p"]
    assert [entry.iframe_stream_info.resolution for entry in master.iframe_playlists] == [
        (1280, 720),
        (1920, 1080),
        (640, 360),
    ]


def test_a_variant_has_its_own_group_of_audio_or_all_others() -> None:
    audio = [
        AudioEntry(f"v1/{group}/index.m3u8", "en", "English", 2, "mp4a.40.2", bps, bps, group=group)
        for group, bps in (("audio", 30), ("surround", 60), ("audio-low", 10))
    ]
    variants = [variant("720p", 1280, 720, 3000), variant("234p", 416, 234, 100)]
    listed = m3u8.loads(
        master_playlist([variants[0], replace(variants[1], group="audio-low")], audio)
    ).playlists
    assert [(each.stream_info.audio, each.stream_info.bandwidth) for each in listed] == [
        ("audio", 3030),
        ("surround", 3060),
        ("audio-low", 110),
    ]
    [alone] = m3u8.loads(
        master_playlist([replace(variants[0], group="audio", uri=audio[0].uri)], audio[:1])
    ).playlists
    assert alone.stream_info.bandwidth == 30, "it is itself the entry of its group"


def test_captions_have_their_language_if_it_is_known() -> None:
    for language, expected in (("de-AT", "de-AT"), ("und", None)):
        text = master_playlist([variant("360p", 640, 360, 1)], captions=True, captions_language=language)
        [medium] = m3u8.loads(text).media
        assert (medium.type, medium.instream_id, medium.language) == ("CLOSED-CAPTIONS", "CC1", expected)


def test_descriptions_and_captions_are_offered_beside_equal_ones() -> None:
    audio = [
        AudioEntry(f"{n}.m3u8", "en", "English", 2, "mp4a.40.2", 1, 1, default=not n, role=role)
        for n, role in enumerate(["", "description", "description"])
    ]
    subtitles = [
        SubtitleEntry(f"s{n}.m3u8", "de", "German", 1, 1, role=role)
        for n, role in enumerate(["captions", "captions", "forced", "forced", "", ""])
    ]
    media = m3u8.loads(master_playlist([variant("360p", 640, 360, 1)], audio, subtitles)).media
    assert [each.autoselect for each in media] == ["YES"] * 8 + ["NO"]


@pytest.mark.parametrize("char", ["\x00", "\x0b", "\x1c", "\x7f", "\x85", "\u2028", "\u2029"])
def test_no_control_character_of_a_title_reaches_the_master(char: str) -> None:
    audio = AudioEntry("a.m3u8", "en", f'one{char}#EXT-X-ENDLIST "two"', 2, "mp4a.40.2", 1, 1)
    text = master_playlist([variant("360p", 640, 360, 1)], [audio])
    assert char not in text
    assert text.splitlines() == text.rstrip("\n").split("\n")
    assert m3u8.loads(text).media[0].name == "one #EXT-X-ENDLIST  two"


def test_names_are_unique_and_only_different_tracks_are_offered_to_choose_from() -> None:
    tracks = [("en", "", "English"), ("en", "", "English"), ("en", "description", "English"), ("und", "", "")]
    audio = [
        AudioEntry(f"{n}.m3u8", language, name, 2, "mp4a.40.2", 1, 1, default=not n, role=role)
        for n, (language, role, name) in enumerate(tracks)
    ]
    media = m3u8.loads(master_playlist([variant("360p", 640, 360, 1)], audio)).media
    assert [(each.name, each.autoselect, each.characteristics) for each in media] == [
        ("English", "YES", None),
        ("English 2", "NO", None),
        ("English 3", "YES", "public.accessibility.describes-video"),
        ("audio", "YES", None),
    ]
    assert [each.default for each in media] == ["YES", "NO", "NO", "NO"]


def test_every_variant_is_listed_for_each_group_with_its_own_rates() -> None:
    audio = [
        AudioEntry("a.m3u8", "en", "English", 2, "mp4a.40.2", 130_000, 120_000),
        AudioEntry("b.m3u8", "en", "English", 6, "ec-3", 390_000, 380_000, group="surround"),
    ]
    variants = [variant("720p", 1280, 720, 3_000_000), variant("360p", 640, 360, 800_000)]
    found = m3u8.loads(master_playlist(variants, audio)).playlists
    assert [(each.uri, each.stream_info.audio, each.stream_info.bandwidth) for each in found] == [
        ("v1/720p/index.m3u8", "audio", 3_130_000),
        ("v1/720p/index.m3u8", "surround", 3_390_000),
        ("v1/360p/index.m3u8", "audio", 930_000),
        ("v1/360p/index.m3u8", "surround", 1_190_000),
    ]
    assert [each.stream_info.codecs for each in found[:2]] == ["avc1.64001F,mp4a.40.2", "avc1.64001F,ec-3"]


def test_subtitles_and_captions_are_declared() -> None:
    subtitles = [
        SubtitleEntry("a.m3u8", "en", "English", 100, 50, "forced"),
        SubtitleEntry("b.m3u8", "en", "English", 200, 60, "captions"),
    ]
    found = m3u8.loads(master_playlist([variant("360p", 640, 360, 1)], [], subtitles, captions=True))
    [stream] = found.playlists
    assert (stream.stream_info.bandwidth, stream.stream_info.average_bandwidth) == (201, 60)
    assert (stream.stream_info.subtitles, stream.stream_info.closed_captions) == ("subs", '"cc"')
    assert [(each.type, each.name, each.forced, each.default, each.instream_id) for each in found.media] == [
        ("SUBTITLES", "English", "YES", "NO", None),
        ("SUBTITLES", "English 2", None, "NO", None),
        ("CLOSED-CAPTIONS", "Closed captions", None, None, "CC1"),
    ]
    assert "describes-music-and-sound" in found.media[1].characteristics
    plain = master_playlist([variant("360p", 640, 360, 1)])
    assert "CLOSED-CAPTIONS=NONE" in plain
    assert "SUBTITLES" not in plain


def test_without_audio_no_group_is_named() -> None:
    text = master_playlist([variant("360p", 640, 360, 800_000)])
    assert "AUDIO" not in text
    assert m3u8.loads(text).playlists[0].stream_info.codecs == "avc1.64001F"


def test_an_unknown_language_is_not_invented() -> None:
    audio = AudioEntry("a.m3u8", "und", "Audio", 2, "mp4a.40.2", 1, 1)
    assert "LANGUAGE" not in master_playlist([variant("360p", 640, 360, 1)], [audio])


@pytest.mark.parametrize(
    ("sizes", "durations", "peak"),
    [
        ([750, 1500], [6.0, 6.0], 2000),
        # The last segment is one keyframe: 16 kb/s of its own, but only beside the one before it.
        ([750, 80], [6.0, 0.04], 1099),
        ([80], [0.04], 16000),
        ([], [], 0),
    ],
)
def test_peaks_are_those_of_the_specification(sizes: list[int], durations: list[float], peak: int) -> None:
    assert bit_rates(sizes, durations)[0] == peak

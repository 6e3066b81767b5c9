"""No quality is larger than what its source is worth: its bit rate, and which qualities are left out."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import av
import pytest

from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.audio import AudioRendition, audio_renditions
from tqstudio.engine.media.plan.profiles import RungSpec
from tqstudio.engine.media.plan.rungs import ABOVE_SOURCE, NOT_REQUESTED, SAME_RATE, build_ladder
from tqstudio.engine.media.plan.warnings import of_source
from tqstudio.engine.media.source.facts import AudioTrack, SourceFacts
from tqstudio.engine.media.source.probe import probe
from tqstudio.errors import WarningCode

from .conftest import MakeClip, MakeEncode, run_to_end
from .test_grid import facts

WEB = profiles.load("web")


def source(bitrate: int, *audio: AudioTrack, **video: Any) -> SourceFacts:
    """A film of 1080p whose pictures have this bit rate, in bits per second."""
    plain = facts(Fraction(25), seconds=1e6)
    return replace(plain, video=replace(plain.video, measured_bitrate=bitrate, **video), audio=audio)


def sound(**values: Any) -> AudioTrack:
    described = {"index": 1, "codec": "aac", "channels": 2, "sample_rate": 48_000, "language": "en"}
    return AudioTrack(
        **{**described, "title": "", "default": True, "role": "", "first_s": 0.0, "end_s": 60.0, **values}
    )


def rates(bitrate: int, profile: profiles.Profile = WEB, **video: Any) -> dict[str, int]:
    ladder = build_ladder(source(bitrate, **video), profile)
    return {rung.name: rung.maxrate_kbps for rung in ladder if not rung.skipped}


def test_each_quality_gets_what_the_source_has_for_its_pixels() -> None:
    # 1.3 × 1000, × (4/9)^0.75, × (4/9)^1.5 …
    assert rates(1_000_000) == {"1080p": 1300, "720p": 708, "480p": 385, "360p": 250}


def test_the_profile_limits_what_the_source_has_more_of() -> None:
    assert rates(20_000_000) == {"1080p": 6000, "720p": 3500, "480p": 1600, "360p": 800}
    assert rates(4_000_000) == {"1080p": 5200, "720p": 2831, "480p": 1542, "360p": 800}


@pytest.mark.parametrize(
    ("codec", "kbps"),
    [("h264", 1300), ("hevc", 1950), ("av1", 2210), ("vp9", 1820), ("mpeg2video", 780), ("prores", 6000)],
)
def test_a_bit_of_a_better_codec_is_worth_more(codec: str, kbps: int) -> None:
    """What keeps every picture whole, such as ProRes, says nothing about what its pictures need."""
    assert rates(1_000_000, codec=codec)["1080p"] == kbps


def test_slides_get_what_the_key_frames_of_a_ladder_need() -> None:
    """A source with one in ten seconds has the same pictures as a ladder with five, and fewer bits."""
    sparse, dense = ({"key_bytes": 250_000, "key_rate": rate} for rate in (0.1, 0.5))
    assert rates(225_000, **sparse) == {"1080p": 1025, "720p": 558, "480p": 304, "360p": 197}
    assert rates(225_000, **dense)["1080p"] == 292
    # What moves has small key frames beside the rest.
    assert rates(1_000_000, key_bytes=20_000, key_rate=0.1)["1080p"] == 1300


@pytest.mark.parametrize("apart", [50, 250])
def test_key_frames_are_measured(clip: MakeClip, apart: int) -> None:
    encoder = ("-c:v", "libx264", "-preset", "ultrafast", "-g", str(apart), "-sc_threshold", "0")
    path = clip(f"keys-{apart}.mp4", seconds=20, video=encoder)
    with av.open(path) as container:
        keys = [packet.size for packet in container.demux(video=0) if packet.size and packet.is_keyframe]
    video = probe(bytes(path)).video
    assert len(keys) == 500 / apart
    assert (video.key_bytes, video.key_rate) == (sum(keys) // len(keys), pytest.approx(len(keys) / 20))


def test_a_rung_in_a_better_codec_needs_less() -> None:
    profile = replace(
        WEB, rungs=(RungSpec(1080, 6000, codec="hevc"), RungSpec(1080, 6000), RungSpec(360, 800))
    )
    assert rates(1_500_000, profile) == {"1080p-hevc": 1300, "1080p": 1950, "360p": 375}


@pytest.mark.parametrize("bitrate", [0, 100_000_000])
def test_a_source_without_a_rate_or_with_a_high_one_changes_nothing(bitrate: int) -> None:
    assert build_ladder(source(bitrate), WEB) == build_ladder(facts(Fraction(25)), WEB)


def test_what_is_hardly_smaller_than_a_higher_quality_falls_away_but_never_the_smallest() -> None:
    ladder = build_ladder(source(40_000), WEB)
    assert {rung.name: rung.skipped_reason for rung in ladder} == {
        "2160p": ABOVE_SOURCE,
        "1440p": ABOVE_SOURCE,
        "1080p": None,
        "720p": SAME_RATE,
        "480p": SAME_RATE,
        "360p": None,
    }
    made = {rung.name: (rung.maxrate_kbps, rung.limited) for rung in ladder if not rung.skipped}
    assert made == {"1080p": (64, True), "360p": (64, True)}


def test_two_rates_of_one_size_become_one() -> None:
    names = rates(3_000_000, profiles.load("apple"))
    assert "1080p" in names
    assert "1080p-6000k" not in names
    assert names["720p"] < names["1080p"]


def test_rungs_that_the_profile_has_close_together_stay_where_the_source_has_enough() -> None:
    profile = replace(WEB, rungs=(RungSpec(1080, 6000), RungSpec(1000, 5800), RungSpec(360, 800)))
    assert [*rates(30_000_000, profile)] == ["1080p", "1000p", "360p"]


def test_a_request_for_some_qualities_gives_them_the_same_rates() -> None:
    film = source(40_000)
    asked = {rung.name: rung for rung in build_ladder(film, WEB, {"360p", "720p"})}
    assert asked["1080p"].skipped_reason == NOT_REQUESTED
    assert asked["720p"].skipped_reason == SAME_RATE
    assert asked["360p"] == next(rung for rung in build_ladder(film, WEB) if rung.name == "360p")


def only(track: AudioTrack, **profile: Any) -> AudioRendition:
    return audio_renditions(source(1, track), replace(WEB, **profile))[0]


@pytest.mark.parametrize(
    ("track", "kbps"),
    [
        (sound(bitrate=128_000), 128),
        (sound(bitrate=80_000), 104),
        (sound(bitrate=48_000), 96),  # so low, it is HE-AAC
        (sound(codec="mp3", bitrate=64_000), 72),
        (sound(codec="opus", bitrate=48_000), 88),
        (sound(codec="opus", bitrate=16_000, channels=1), 32),
        (sound(codec="amrnb", bitrate=12_000, channels=1), 128),
        (sound(codec="pcm_s16le", bitrate=1_536_000), 128),
        (sound(codec="ac3", bitrate=384_000, channels=6), 128),
        (sound(bitrate=0), 128),
    ],
)
def test_sound_gets_no_more_than_its_track_is_worth(track: AudioTrack, kbps: int) -> None:
    assert only(track).bitrate_kbps == kbps


def test_a_low_quality_of_sound_that_would_be_like_the_other_falls_away() -> None:
    made = audio_renditions(source(1, sound(codec="mp3", bitrate=32_000)), replace(WEB, audio_low_kbps=48))
    assert [(each.name, each.bitrate_kbps) for each in made] == [("audio-en", 48)]
    plain = audio_renditions(source(0, sound(bitrate=32_000)), replace(WEB, audio_low_kbps=48))
    assert [each.bitrate_kbps for each in plain] == [128, 48]


def warned(film: SourceFacts) -> list[str]:
    return [each.text for each in of_source(film, WEB) if each.code is WarningCode.LOW_BITRATE]


def test_a_poor_source_is_a_warning() -> None:
    assert warned(source(4_000_000)) == []
    assert warned(source(1_200_000)) == [
        "the pictures of the source have only 1200 kb/s, which limits its qualities"
    ]
    [text] = warned(source(40_000))
    assert text.endswith("left out, as hardly smaller than a higher quality: 720p, 480p")
    assert warned(replace(source(40_000), duration_s=5.0)) == []


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["libvpx", "libx264"])
def test_a_ladder_is_not_larger_than_its_source(clip: MakeClip, encode: MakeEncode, codec: str) -> None:
    """The bytes of the pictures, counted by another reader than the one that planned them."""
    poor = ("-c:v", codec, "-b:v", "150k", "-maxrate", "150k", "-bufsize", "300k", "-g", "50")
    # By default libvpx takes half a minute of CPU time for it.
    poor += ("-deadline", "realtime", "-cpu-used", "8") if codec == "libvpx" else ()
    path = clip(
        f"poor-{codec}.mkv", seconds=20, size="640x360", audio=0, filters="noise=alls=12:allf=t", video=poor
    )
    with av.open(path) as container:
        size = sum(packet.size for packet in container.demux(video=0))
    profile = replace(WEB, preset="veryfast")
    film = probe(bytes(path))
    assert film.video.measured_bitrate == pytest.approx(size * 8 / 20, rel=0.01)
    made = encode(path, profile, poster=False)
    run_to_end(made)
    assert made.state == "done", made.error
    [state] = made.renditions
    published = sum(each.stat().st_size for each in state.directory.glob("seg_*.m4s"))
    worth = {"libvpx": 0.9, "libx264": 1.0}[codec]
    assert published <= 1.3 * worth * size * 1.05, "a container adds a little"
    plain = replace(film, video=replace(film.video, measured_bitrate=0))
    assert build_ladder(plain, profile)[-1].maxrate_kbps == 800, "the profile would have allowed more"

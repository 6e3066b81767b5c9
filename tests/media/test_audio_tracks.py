"""Every audio track of a source is published, at its time and in its channels: each has a tone of its own."""

from __future__ import annotations

import io
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import av
import pytest

from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.values import RenditionState
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.audio import audio_renditions
from tqstudio.engine.media.plan.profiles import Profile, RungSpec
from tqstudio.engine.media.plan.track_names import MAX_TRACKS
from tqstudio.engine.media.plan.warnings import of_source
from tqstudio.engine.media.source.facts import AudioTrack, SourceFacts
from tqstudio.engine.media.source.probe import probe
from tqstudio.errors import WarningCode

from .conftest import MakeEncode, run_ffmpeg, run_to_end
from .test_ladder_encode import codes_of, scripted

SECONDS = 4
RATE = 48_000
X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "50")
FRONT = ("FL", "FR", "FC", "LFE", "BL", "BR", "SL", "SR")


@dataclass(frozen=True)
class Heard:
    """A published rendition, decoded."""

    begins: float
    ends: float
    samples: list[array[float]]
    """Of each channel, on a clock that begins with the video."""

    def loud(self, channel: int, hertz: float, at: float) -> bool:
        return self.level(channel, hertz, at) > 0.01

    def level(self, channel: int, hertz: float, at: float) -> float:
        """The amplitude of a tone in a tenth of a second (Goertzel's algorithm); 1 is full scale."""
        first = int((at - self.begins) * RATE)
        part = self.samples[channel][first : first + RATE // 10]
        turn = 2 * math.cos(2 * math.pi * hertz / RATE)
        one = two = 0.0
        for sample in part:
            one, two = sample + turn * one - two, one
        power = one * one + two * two - turn * one * two
        return 2 * math.sqrt(max(0.0, power)) / max(1, len(part))


def hear(state: RenditionState) -> Heard:
    names = ["init.mp4", *sorted(path.name for path in state.directory.glob("seg_*.m4s"))]
    content = b"".join((state.directory / name).read_bytes() for name in names)
    with av.open(io.BytesIO(content)) as container:
        frames = list(container.decode(audio=0))
        channels: list[array[float]] = [array("f") for _ in frames[0].layout.channels]
        for frame in frames:
            assert frame.format.name == "fltp"
            # PyAV lists one plane too many for eight channels.
            for channel, plane in zip(channels, frame.planes, strict=False):
                channel += array("f", bytes(plane)[: frame.samples * 4])
        first = frames[0].pts * frames[0].time_base
    return Heard(float(first) - 10, float(first) - 10 + len(channels[0]) / RATE, channels)


def audio_of(encode: LadderEncode) -> dict[str, RenditionState]:
    return {state.name: state for state in encode.renditions if state.kind == "audio"}


def warned(encode: LadderEncode) -> str:
    [warning] = of_source(encode.spec.facts, encode.spec.profile)
    assert warning.code is WarningCode.AUDIO_CUT
    return warning.text


def tone(hertz: int, seconds: float = SECONDS) -> tuple[str, ...]:
    return "-f", "lavfi", "-i", f"sine={hertz}:r={RATE}:d={seconds},volume=2"


def film(ffmpeg: FFmpeg, path: Path, inputs: Sequence[str], *options: str, seconds: float = SECONDS) -> Path:
    """A clip with the given inputs of sound."""
    count = list(inputs).count("-i")
    maps = [word for number in range(count + 1) for word in ("-map", str(number))]
    picture = ("-f", "lavfi", "-i", f"testsrc2=s=160x90:r=25:d={seconds}")
    run_ffmpeg(ffmpeg, *picture, *inputs, *maps, *X264, *options, f"file:{path}")
    return path


@pytest.fixture
def one(small: Profile) -> Profile:
    return replace(small, rungs=(RungSpec(90, 120),))


def test_every_track_is_published_with_its_own_sound_at_its_time(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    """The second begins late and ends early, the third begins early and lasts longer than the pictures."""
    source = film(
        ffmpeg,
        tmp_path / "film.mkv",
        [*tone(500), "-itsoffset", "1", *tone(1000, 2), "-itsoffset", "-1", *tone(2000, 8), *tone(3000)],
        *("-c:a", "aac", "-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=ger"),
        *("-metadata:s:a:2", "language=eng", "-disposition:a:2", "comment", "-disposition:a:0", "default"),
        *("-disposition:a:3", "visual_impaired"),
    )
    made = encode(source, one)
    run_to_end(made)
    assert (made.state, made.error, codes_of(made)) == ("done", None, [])
    assert made.spec.grid.total_frames == SECONDS * 25
    states = audio_of(made)
    assert list(states) == ["audio-en", "audio-de", "audio-en-2", "audio-und"]
    assert [run.label for run in made.runs].count("audio") == 1, "one run reads for all of them"
    heard = {name: hear(state) for name, state in states.items()}
    for sound in heard.values():
        assert (sound.begins, sound.ends) == (pytest.approx(0, abs=0.1), pytest.approx(SECONDS, abs=0.1))
    tones = {"audio-en": 500, "audio-de": 1000, "audio-en-2": 2000, "audio-und": 3000}
    for name, sound in heard.items():
        at = {hertz for hertz in tones.values() if sound.loud(0, hertz, 2.0)}
        assert at == {tones[name]}, name
    assert [heard["audio-de"].loud(0, 1000, at) for at in (0.5, 1.5, 2.5, 3.5)] == [False, True, True, False]
    assert "by up to 4.0 s: stream 3 (en, aac)" in warned(made), "a second before the video and three after"
    roles = [(each.track.role, each.default) for each in made.spec.audio]
    assert roles == [("", True), ("", False), ("commentary", False), ("description", False)]


def test_the_default_track_comes_first_and_its_end_is_that_of_the_video(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    source = film(
        ffmpeg,
        tmp_path / "film.mkv",
        [*tone(500, 9), *tone(1000, 5)],
        *("-c:a", "aac", "-disposition:a:0", "0", "-disposition:a:1", "default"),
        *("-metadata:s:a:0", "language=fre", "-metadata:s:a:1", "language=jpn"),
    )
    made = encode(source, one)
    run_to_end(made)
    assert made.state == "done", made.error
    assert [each.name for each in made.spec.audio] == ["audio-ja", "audio-fr"]
    assert made.spec.grid.total_frames == 125, "the last picture is held for the default sound alone"
    assert (
        warned(made) == "audio tracks are cut to the length of the ladder, by up to 4.0 s: stream 1 (fr, aac)"
    )
    assert {round(hear(state).ends, 1) for state in audio_of(made).values()} == {5.0}


def test_sound_follows_its_layout_where_pictures_change_their_size_too(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    """As at the start of a film on television."""
    content = b""
    for number, (size, layout, tones) in enumerate(
        [("320x180", "stereo", "0.3*sin(2*PI*500*t)|0"), ("160x90", "5.1", "0|0|0.5*sin(2*PI*900*t)|0|0|0")]
    ):
        part = tmp_path / f"{number}.ts"
        run_ffmpeg(
            ffmpeg,
            *("-f", "lavfi", "-i", f"testsrc2=s={size}:r=25:d=3"),
            *("-f", "lavfi", "-i", f"aevalsrc='{tones}':c={layout}:s={RATE}:d=3"),
            *("-c:v", "mpeg2video", "-c:a", "ac3", "-muxdelay", "0", "-output_ts_offset", f"{3 * number}"),
            str(part),
        )
        content += part.read_bytes()
    source = tmp_path / "evening.ts"
    source.write_bytes(content)
    made = encode(source, one, poster=False)
    run_to_end(made)
    assert made.state == "done", made.error
    [sound] = map(hear, audio_of(made).values())
    assert [(sound.loud(0, 500, at), sound.loud(0, 900, at)) for at in (1, 5)] == [
        (True, False),
        (False, True),
    ]


@pytest.mark.parametrize(
    ("surround", "codec", "channels", "source_channels"),
    [
        ("aac", "mp4a.40.2", 8, 6),
        pytest.param("eac3", "ec-3", 6, 8, marks=pytest.mark.slow),
        pytest.param("aac", "mp4a.40.2", 8, 8, marks=pytest.mark.slow),
        pytest.param("eac3", "ec-3", 6, 6, marks=pytest.mark.slow),
    ],
)
def test_surround_is_kept_beside_its_downmix(
    ffmpeg: FFmpeg,
    encode: MakeEncode,
    one: Profile,
    tmp_path: Path,
    surround: str,
    codec: str,
    channels: int,
    source_channels: int,
) -> None:
    """Each channel has a tone of its own, and the dialogue in the centre is in both of the downmix."""
    tones = [300 * (number + 1) for number in range(source_channels)]
    names = FRONT[:source_channels]
    mix = "|".join(f"0.5*sin(2*PI*{hertz}*t)" for hertz in tones)
    layout = {6: "5.1", 8: "7.1"}[source_channels]
    source = film(
        ffmpeg,
        tmp_path / "film.mkv",
        ["-f", "lavfi", "-i", f"aevalsrc={mix}:s={RATE}:d={SECONDS}:c={layout}", *tone(5000)],
        *("-c:a", "pcm_s16le", "-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=eng"),
    )
    made = encode(source, replace(one, audio_surround=surround))
    run_to_end(made)
    assert made.state == "done", made.error
    states = audio_of(made)
    assert list(states) == ["audio-en", "audio-en-surround", "audio-en-2"]
    check = states["audio-en-surround"].check
    assert check is not None
    assert check.codecs == codec
    kept, mixed = hear(states["audio-en-surround"]), hear(states["audio-en"])
    expected = min(channels, source_channels)
    assert (len(kept.samples), len(mixed.samples)) == (expected, 2)
    for number, hertz in enumerate(tones[:expected]):
        # E-AC-3 and AAC cut their subwoofer channel off above 120 Hz.
        if names[number] != "LFE":
            assert kept.loud(number, hertz, 2.0), names[number]
    centre = tones[names.index("FC")]
    assert mixed.loud(0, centre, 2.0)
    assert mixed.loud(1, centre, 2.0)


@pytest.mark.parametrize(
    ("layout", "heard"),
    [("3.0", {0: 300, 1: 600, 2: 900}), ("quad", {0: 300, 1: 600, 4: 900, 5: 1200})],
)
def test_other_layouts_become_five_one(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path, layout: str, heard: dict[int, int]
) -> None:
    mix = "|".join(f"0.3*sin(2*PI*{hertz}*t)" for hertz in heard.values())
    inputs = ["-f", "lavfi", "-i", f"aevalsrc={mix}:s={RATE}:d={SECONDS}:c={layout}"]
    source = film(ffmpeg, tmp_path / "film.mkv", inputs, "-c:a", "flac")
    made = encode(source, replace(one, audio_surround="aac"))
    run_to_end(made)
    assert made.state == "done", made.error
    kept = hear(audio_of(made)["audio-und-surround"])
    assert len(kept.samples) == 6
    for channel, hertz in heard.items():
        assert kept.loud(channel, hertz, 2.0)


@pytest.mark.parametrize(
    ("layout", "channel"),
    [("5.1.4", "TBL"), ("7.1.4", "TBR"), pytest.param("hexadecagonal", "WL", marks=pytest.mark.slow)],
)
def test_channels_that_ffmpeg_would_lose_are_heard(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path, layout: str, channel: str
) -> None:
    options = ("-filter:a", f"pan={layout}|{channel}=c0", "-c:a", "pcm_s24le")
    source = film(ffmpeg, tmp_path / "film.mov", tone(500), *options)
    made = encode(source, replace(one, audio_surround="aac"))
    run_to_end(made)
    assert made.state == "done", made.error
    stereo, surround = (hear(state) for state in audio_of(made).values())
    side = 0 if channel.endswith("L") else 1
    assert [stereo.loud(at, 500, 2.0) for at in (0, 1)] == [side == 0, side == 1]
    assert any(surround.loud(at, 500, 2.0) for at in range(8))


@pytest.mark.slow
def test_the_mix_of_many_channels_keeps_their_levels(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    """As that of fewer: in stereo the centre and the surrounds are 3 dB lower than the front."""
    places = {"FL": 500, "FC": 1000, "BL": 1500, "TBL": 2000}
    sounds = [word for hertz in places.values() for word in tone(hertz)]
    mix = "|".join(f"{place}=0.1*c{number}" for number, place in enumerate(places))
    options = ("-filter_complex", f"[1][2][3][4]amerge=4,pan=7.1.4|{mix}[a]", "-map", "0", "-map", "[a]")
    picture = ("-f", "lavfi", "-i", f"testsrc2=s=160x90:r=25:d={SECONDS}")
    path = tmp_path / "film.mov"
    run_ffmpeg(ffmpeg, *picture, *sounds, *options, *X264, "-c:a", "pcm_s24le", f"file:{path}")
    made = encode(path, replace(one, audio_surround="aac"))
    run_to_end(made)
    stereo, surround = (hear(state) for state in audio_of(made).values())
    front, *others = (stereo.level(0, hertz, 2.0) for hertz in places.values())
    assert [level / front for level in others] == pytest.approx([0.707] * 3, abs=0.05)
    levels = [max(surround.level(at, hertz, 2.0) for at in range(8)) for hertz in places.values()]
    assert [level / levels[0] for level in levels] == pytest.approx([1] * 4, abs=0.05)


def test_mono_tracks_of_a_mov_file_that_are_named_left_and_right_are_joined(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    sides = [f"-filter:a:{number}" for number in range(3)], ["pan=FL|c0=c0", "pan=FR|c0=c0", "pan=mono|c0=c0"]
    source = film(
        ffmpeg,
        tmp_path / "pair.mov",
        [*tone(500), *tone(1000), *tone(1500)],
        *(word for pair in zip(*sides, strict=True) for word in pair),
        *("-c:a", "pcm_s16le"),
    )
    made = encode(source, one)
    run_to_end(made)
    pair, alone = (hear(state) for state in audio_of(made).values())
    assert (len(pair.samples), len(alone.samples)) == (2, 1)
    assert pair.loud(0, 500, 2.0)
    assert pair.loud(1, 1000, 2.0)
    assert not pair.loud(0, 1000, 2.0)


def test_mono_pairs_of_an_mxf_file_are_joined(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    source = film(
        ffmpeg,
        tmp_path / "pair.mxf",
        [*tone(500), *tone(1000), *tone(1500), *tone(2000)],
        *("-pix_fmt", "yuv422p", "-c:v", "mpeg2video", "-b:v", "4M", "-c:a", "pcm_s16le", "-ac", "1"),
    )
    made = encode(source, one)
    run_to_end(made)
    assert made.state == "done", made.error
    states = audio_of(made)
    assert list(states) == ["audio-und", "audio-und-2"]
    for state, (left, right) in zip(states.values(), ((500, 1000), (1500, 2000)), strict=True):
        sound = hear(state)
        found = [[hz for hz in (500, 1000, 1500, 2000) if sound.loud(c, hz, 2.0)] for c in (0, 1)]
        assert found == [[left], [right]]
    assert of_source(made.spec.facts, one) == []


def test_only_channels_of_one_pair_are_joined(ffmpeg: FFmpeg, one: Profile, tmp_path: Path) -> None:
    facts = probe(bytes(film(ffmpeg, tmp_path / "film.mkv", tone(500), "-c:a", "aac")))

    def chosen(*tracks: tuple[str, float | None]) -> list[tuple[int, ...]]:
        """Stream indexes of the renditions of mono tracks: (language, first sample)."""
        audio = tuple(
            AudioTrack(number, "pcm_s16le", 1, RATE, language, "", False, "", first, first and 4.0)
            for number, (language, first) in enumerate(tracks, 1)
        )
        found = audio_renditions(replace(facts, container="mxf", audio=audio), one)
        return [tuple(track.index for track in each.tracks) for each in found]

    assert chosen(("en", 0.1), ("en", 0.1), ("fr", 0.1), ("fr", 0.1)) == [(1, 2), (3, 4)]
    assert chosen(("en", 0.1), ("fr", 0.1)) == [(1,), (2,)]
    assert chosen(("en", 0.1), ("en", None), ("en", 0.1), ("en", 0.1)) == [(1,), (3, 4)]
    assert chosen(("en", 0.1), ("en", 0.1), ("en", 0.1)) == [(1, 2), (3,)]


@pytest.mark.parametrize("left", [(1.2, 4.0), (0.1, 3.2)])
def test_mono_tracks_that_are_not_together_stay_apart(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path, left: tuple[float, float]
) -> None:
    """ffmpeg would join them sample by sample: out of step, and as far as the shorter one goes."""
    begins, ends = left
    source = film(
        ffmpeg,
        tmp_path / "pair.mov",
        [*tone(500), *tone(1000)],
        *("-filter:a:0", f"pan=FL|c0=c0,atrim={begins}:{ends}", "-filter:a:1", "pan=FR|c0=c0"),
        *("-c:a", "pcm_s16le"),
    )
    made = encode(source, one)
    run_to_end(made)
    assert made.state == "done", made.error
    late, whole = (hear(state) for state in audio_of(made).values())
    times = [0.5, 1.0, 1.5, 2.5, 3.0, 3.5]
    assert [late.loud(0, 500, at) for at in times] == [begins < at < ends for at in times]
    assert all(whole.loud(0, 1000, at) for at in times)


def test_players_begin_with_no_commentary(ffmpeg: FFmpeg, one: Profile, tmp_path: Path) -> None:
    facts = probe(bytes(film(ffmpeg, tmp_path / "film.mkv", tone(500), "-c:a", "aac")))
    commentary = AudioTrack(1, "aac", 2, RATE, "en", "", True, "commentary", 0.0, 4.0)
    plain = replace(commentary, index=2, role="", default=False)
    tracks = [each.track.index for each in audio_renditions(replace(facts, audio=(commentary, plain)), one)]
    assert tracks == [2, 1]


@pytest.mark.parametrize(
    ("container", "options"),
    [
        ("mkv", ("-c:a", "truehd", "-strict", "-2", "-ac", "6")),
        pytest.param("mkv", ("-c:a", "dca", "-strict", "-2", "-ac", "6"), marks=pytest.mark.more),
        pytest.param("mov", ("-c:a", "pcm_s24be", "-ac", "1"), marks=pytest.mark.more),
        ("mov", ("-c:a", "pcm_s16le", "-af", "pan=16c|" + "|".join(f"c{n}=c0" for n in range(16)))),
        ("mov", ("-c:a", "pcm_s16le", "-af", "pan=9C|" + "|".join(f"c{n}=c0" for n in range(9)))),
        (
            "mkv",
            ("-mapping_family", "2", "-c:a", "libopus", "-af", "pan=ambisonic 1|c0=c0|c1=.5*c0|c2=c0|c3=c0"),
        ),
        pytest.param(
            "mkv",
            ("-c:a", "pcm_f32le", "-af", "pan=5.1.4|" + "|".join(f"c{n}=c0" for n in range(10))),
            marks=pytest.mark.more,
        ),
        pytest.param("mkv", ("-c:a", "flac", "-ac", "2"), marks=pytest.mark.more),
        pytest.param("mkv", ("-c:a", "libopus", "-ac", "2"), marks=pytest.mark.more),
        pytest.param("ts", ("-c:a", "ac3", "-ac", "6"), marks=pytest.mark.more),
    ],
    ids=lambda each: each if isinstance(each, str) else f"{each[1]}-{each[-1][:8]}",
)
def test_sound_of_any_codec_and_layout_is_heard(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path, container: str, options: tuple[str, ...]
) -> None:
    source = film(ffmpeg, tmp_path / f"film.{container}", tone(1000), *options)
    made = encode(source, one)
    run_to_end(made)
    assert (made.state, made.error, codes_of(made)) == ("done", None, [])
    [state] = audio_of(made).values()
    sound = hear(state)
    assert all(sound.loud(channel, 1000, 2.0) for channel in range(len(sound.samples)))


@pytest.mark.more
def test_a_track_that_fails_costs_no_other(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    source = film(
        ffmpeg,
        tmp_path / "film.mkv",
        [*tone(500), *tone(1000), *tone(2000)],
        *("-c:a", "aac", "-metadata:s:a:1", "language=ger", "-metadata:s:a:2", "language=fre"),
    )
    broken = scripted(tmp_path / "ffmpeg", ffmpeg, "*audio-de/index*) echo 'Error: no sound' >&2; exit 1;;")
    made = encode(source, one, ffmpeg=broken)
    run_to_end(made)
    assert (made.state, made.error, codes_of(made)) == ("done", None, ["RENDITION_LEFT_OUT"])
    assert "audio-de" in made.warnings[0].text
    statuses = {name: state.status for name, state in audio_of(made).items()}
    assert statuses == {"audio-und": "completed", "audio-de": "failed", "audio-fr": "completed"}
    # The sound with which players begin is not left out in silence.
    required = scripted(tmp_path / "other", ffmpeg, "*audio-und/index*) echo 'Error: no sound' >&2; exit 1;;")
    failed = encode(source, one, ffmpeg=replace(required, build="other"))
    run_to_end(failed)
    assert failed.state == "failed"


def test_joined_vobs_keep_their_time_with_several_tracks(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    whole, content = tmp_path / "film.vob", b""
    for part, seconds in enumerate((6, 4)):
        path = tmp_path / f"{part}.vob"
        sounds = [*tone(1000, seconds), *tone(2000, seconds)]
        encoded = (
            "-c:v",
            "mpeg2video",
            "-bf",
            "2",
            "-c:a",
            "ac3",
            "-filter:a:1",
            "aselect=lt(t\\,1.5)+gt(t\\,5)",
        )
        film(ffmpeg, path, sounds, *(encoded if part == 0 else encoded[:-2]), seconds=seconds)
        content += path.read_bytes()
    whole.write_bytes(content)
    made = encode(whole, one, poster=False)
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    assert made.spec.grid.total_frames == pytest.approx(250, abs=2)
    for state, hertz in zip(audio_of(made).values(), (1000, 2000), strict=True):
        sound = hear(state)
        assert sound.ends == pytest.approx(10, abs=0.1)
        assert [sound.loud(0, hertz, at) for at in (1.0, 3.0, 5.5, 7.0, 9.0)] == [
            *(True, hertz == 1000, True, True, True)
        ]


def test_the_default_alone_is_published_when_the_profile_says_so(
    ffmpeg: FFmpeg, one: Profile, tmp_path: Path
) -> None:
    source = film(ffmpeg, tmp_path / "film.mkv", [*tone(500), *tone(1000)], "-c:a", "aac")
    facts, only = probe(bytes(source)), replace(one, audio_tracks="default")
    assert [each.name for each in audio_renditions(facts, only)] == ["audio-und"]
    assert [each.code for each in of_source(facts, only)] == [WarningCode.AUDIO_LEFT_OUT]
    assert of_source(facts, one) == []


def test_names_are_unique_and_tracks_are_limited(ffmpeg: FFmpeg, one: Profile, tmp_path: Path) -> None:
    facts = probe(bytes(film(ffmpeg, tmp_path / "film.mkv", tone(500), "-c:a", "aac")))
    tracks = [
        AudioTrack(n + 1, "aac", 6, RATE, ("en", "de")[n % 2], "", False, "", 0.0, 4.0) for n in range(40)
    ]
    many: SourceFacts = replace(facts, audio=tuple(tracks))
    chosen = audio_renditions(many, replace(one, audio_surround="aac"))
    assert len({each.name for each in chosen}) == len(chosen) == 2 * MAX_TRACKS
    assert [each.default for each in chosen].count(True) == 1
    [left_out] = of_source(many, one)
    assert left_out.code is WarningCode.AUDIO_LEFT_OUT
    assert "8 audio tracks" in left_out.text

"""Sources of sound alone become qualities of several bit rates: all are compared with the decoded source."""

from __future__ import annotations

import io
import json
import math
from array import array
from dataclasses import dataclass, replace
from pathlib import Path

import av
import pytest

from tqstudio.engine.media.encode.values import RenditionState
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.audio import audio_renditions
from tqstudio.engine.media.plan.grid import TIMELINE_START_S, make_grid
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import build_ladder
from tqstudio.engine.media.plan.warnings import of_source
from tqstudio.engine.media.source.cut import mp3_length_s
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.media.source.probe import probe, probe_head
from tqstudio.errors import ErrorCode, TqError, WarningCode

from .conftest import MakeEncode, run_ffmpeg, run_to_end

RATE, AAC_FRAME_S = 48_000, 1024 / 48_000
BEEPS = (0.5, 2.25, 4.0)
"""When the sound of 5.3 s begins to be heard: on the left with 1000 Hz, on the right with 400 Hz."""
SECONDS = 5.3
_ON = "+".join(f"between(t,{at},{at + 0.4})" for at in BEEPS)
_NOISE = "0.05*(random(0)-0.5)"
SOUND = (
    "-f",
    "lavfi",
    "-i",
    f"aevalsrc='0.5*sin(2*PI*1000*t)*({_ON})+{_NOISE}|0.25*sin(2*PI*400*t)*({_ON})+{_NOISE}':s=44100:d={SECONDS}",
)
LOSSLESS = ("flac", "wav", "mka", "aiff")
FORMATS = {
    "mp3": ("-b:a", "160k"),
    "m4a": ("-b:a", "128k"),
    "m4b": ("-b:a", "128k", "-f", "mp4"),
    "flac": (),
    "wav": (),
    "ogg": ("-c:a", "vorbis", "-strict", "-2"),
    "opus": ("-c:a", "libopus", "-b:a", "96k"),
    "mka": ("-c:a", "flac"),
    "aac": ("-b:a", "128k"),
    "wma": ("-b:a", "128k"),
    "aiff": (),
    "mp4": ("-b:a", "128k"),
    "mkv": ("-c:a", "ac3"),
    "webm": ("-c:a", "libopus"),
    "ts": ("-c:a", "mp2"),
}


@dataclass(frozen=True)
class Heard:
    """Decoded stereo sound."""

    begins: float
    left: array[float]
    right: array[float]

    @property
    def ends(self) -> float:
        return self.begins + len(self.left) / RATE

    @property
    def beeps(self) -> list[float]:
        """The times of the first loud sample after each quarter of a second that is quiet."""
        found, last = [], -1.0
        for number, sample in enumerate(self.left):
            if abs(sample) > 0.1:
                at = self.begins + number / RATE
                if at - last > 0.25:
                    found.append(at)
                last = at
        return found

    @property
    def levels(self) -> tuple[float, float]:
        """Of both channels in dB."""
        powers = (sum(each * each for each in channel) / len(channel) for channel in (self.left, self.right))
        left, right = (10 * math.log10(power) for power in powers)
        return left, right


def decoded(content: Path | bytes) -> Heard:
    with av.open(str(content) if isinstance(content, Path) else io.BytesIO(content)) as container:
        resampler = av.AudioResampler(format="fltp", layout="stereo", rate=RATE)
        channels: tuple[array[float], array[float]] = array("f"), array("f")
        begins: float | None = None
        for frame in container.decode(audio=0):
            if begins is None:
                begins = float((frame.pts or 0) * (frame.time_base or 0))
            for part in resampler.resample(frame):
                for channel, plane in zip(channels, part.planes, strict=True):
                    channel += array("f", bytes(plane)[: part.samples * 4])
        for part in resampler.resample(None):
            for channel, plane in zip(channels, part.planes, strict=True):
                channel += array("f", bytes(plane)[: part.samples * 4])
    return Heard(begins or 0.0, *channels)


def published(state: RenditionState) -> Heard:
    """A published quality, on a clock that begins with the timeline."""
    names = ["init.mp4", *sorted(path.name for path in state.directory.glob("seg_*.m4s"))]
    heard = decoded(b"".join((state.directory / name).read_bytes() for name in names))
    return replace(heard, begins=heard.begins - TIMELINE_START_S)


@pytest.fixture
def music() -> Profile:
    return replace(profiles.load("fast"), segment_s=2, gop_s=1)


def make(ffmpeg: FFmpeg, folder: Path, name: str, *options: str) -> Path:
    run_ffmpeg(ffmpeg, *SOUND, *options, str(folder / name))
    return folder / name


def facts_of(path: Path) -> SourceFacts:
    return probe(str(path).encode())


@pytest.mark.parametrize("rates", [("44100", "32000"), ("32000", "48000")])
def test_aac_that_changes_its_rate_is_published_whole(
    ffmpeg: FFmpeg, encode: MakeEncode, music: Profile, tmp_path: Path, rates: tuple[str, str]
) -> None:
    """Without container, as recorded from the radio: its frames tell no time but their rate."""
    half = ("-t", "2.1"), ("-ss", "2.1")
    parts = [
        make(ffmpeg, tmp_path, f"{rate}.aac", "-ar", rate, *side)
        for rate, side in zip(rates, half, strict=True)
    ]
    source = tmp_path / "radio.aac"
    source.write_bytes(b"".join(part.read_bytes() for part in parts))
    made = encode(source, music)
    run_to_end(made)
    assert (made.state, made.error, made.damage) == ("done", None, [])
    assert made.spec.facts.duration_s == pytest.approx(SECONDS, abs=0.15)
    heard = published(made.renditions[0])
    assert heard.ends == pytest.approx(made.spec.facts.duration_s, abs=0.05)
    # Each part begins with what its encoder needs to start, and its last frame is filled.
    assert heard.beeps == pytest.approx(BEEPS, abs=0.12)
    assert heard.beeps[2] - heard.beeps[1] == pytest.approx(1.75, abs=0.01)


@pytest.mark.parametrize(
    "ending",
    [pytest.param(each, marks=[] if each == "mp3" else pytest.mark.more) for each in FORMATS],
)
def test_every_format_sounds_as_before(
    ffmpeg: FFmpeg, encode: MakeEncode, music: Profile, tmp_path: Path, ending: str
) -> None:
    source = make(ffmpeg, tmp_path, f"talk.{ending}", *FORMATS[ending])
    facts, before = facts_of(source), decoded(source)
    assert (facts.video.still, facts.video.width, facts.damage) == (True, 0, ())
    running = encode(source, music, poster=False)
    run_to_end(running)
    assert running.error is None
    names = [state.name for state in running.renditions]
    assert names == [rung.name for rung in build_ladder(facts, music)]
    # In the clock of the file; some decoders begin late.
    zero = float(make_grid(facts, music).zero)
    until = SECONDS + before.beeps[0] - BEEPS[0] - zero
    for state in running.renditions:
        now = published(state)
        assert state.check is not None
        assert all(round(each.duration_s) <= 2 for each in state.check.segments)
        assert abs(now.ends - until) <= (1 if ending in LOSSLESS else 2) * AAC_FRAME_S
        assert now.beeps == pytest.approx([at - zero for at in before.beeps], abs=0.005)
        assert now.levels == pytest.approx(before.levels, abs=0.5)
    cuts = {
        tuple(part.frames for part in state.check.segments) for state in running.renditions if state.check
    }
    assert len(cuts) == 1


@pytest.mark.parametrize(
    ("kbps", "names"),
    [
        (0, ["192k", "128k", "64k"]),
        (320, ["192k", "128k", "64k"]),
        (192, ["192k", "128k", "64k"]),
        (160, ["160k", "128k", "64k"]),
        (130, ["128k", "64k"]),
        (96, ["96k", "64k"]),
        (70, ["64k"]),
        (48, ["48k"]),
        (8, ["32k"]),
    ],
)
def test_no_quality_has_more_than_the_source(
    ffmpeg: FFmpeg, music: Profile, tmp_path: Path, kbps: int, names: list[str]
) -> None:
    facts = facts_of(make(ffmpeg, tmp_path, "talk.wav"))
    (track,) = facts.audio
    facts = replace(facts, audio=(replace(track, bitrate=kbps * 1000),))
    assert [sound.name for sound in audio_renditions(facts, music)] == names
    assert [rung.maxrate_kbps for rung in build_ladder(facts, music)] == [int(name[:-1]) for name in names]
    requested = build_ladder(facts, music, frozenset(names[-1:]))
    assert [rung.name for rung in requested if not rung.skipped] == names[-1:]


def test_other_tracks_have_the_same_qualities(ffmpeg: FFmpeg, music: Profile, tmp_path: Path) -> None:
    two = ("-map", "0", "-map", "0", "-metadata:s:a:1", "language=fra", "-c:a", "flac")
    facts = facts_of(make(ffmpeg, tmp_path, "two.mka", *two))
    facts = replace(facts, audio=tuple(replace(track, bitrate=100_000) for track in facts.audio))
    sounds = [(sound.name, sound.track.index, sound.default) for sound in audio_renditions(facts, music)]
    assert sounds == [
        *(("100k", 0, True), ("64k", 0, True)),
        *(("audio-fr-100k", 1, False), ("audio-fr-64k", 1, False)),
    ]
    assert [rung.name for rung in build_ladder(facts, music)] == ["100k", "64k"]
    assert of_source(facts, music) == []
    alone = replace(music, audio_tracks="default")
    assert [sound.name for sound in audio_renditions(facts, alone)] == ["100k", "64k"]
    assert [warning.code for warning in of_source(facts, alone)] == [WarningCode.AUDIO_LEFT_OUT]


@pytest.mark.parametrize("share", [0.5, 0.8])
@pytest.mark.parametrize("ending", ["mp3", "m4a", "flac", "mka", "aiff"])
def test_what_breaks_off_is_noticed(ffmpeg: FFmpeg, tmp_path: Path, ending: str, share: float) -> None:
    fast = ("-movflags", "+faststart") if ending == "m4a" else ()
    whole = make(ffmpeg, tmp_path, f"talk.{ending}", *FORMATS[ending], *fast)
    whole.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * share)])
    (damage,) = (each for each in facts_of(whole).damage if each.kind == "cut")
    assert damage.at_s == pytest.approx(SECONDS * share, abs=0.5)
    assert damage.length_s == pytest.approx(SECONDS - damage.at_s, abs=0.1)


@pytest.mark.parametrize("ending", ["wav", "wma"])
def test_what_is_shorter_than_its_header_says_is_noticed(ffmpeg: FFmpeg, tmp_path: Path, ending: str) -> None:
    whole = make(ffmpeg, tmp_path, f"talk.{ending}", *FORMATS[ending])
    whole.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2 - 1])
    assert [(each.kind, each.length_s) for each in facts_of(whole).damage] == [("cut", 0)]


@pytest.mark.parametrize("ending", ["aac", "mp3"])
def test_an_estimated_length_is_not_missed(ffmpeg: FFmpeg, tmp_path: Path, ending: str) -> None:
    """Without a header ffmpeg computes a length of the first frames, which here are loud."""
    whole = make(ffmpeg, tmp_path, f"talk.{ending}", "-write_xing", "0") if ending == "mp3" else None
    whole = whole or make(ffmpeg, tmp_path, "talk.aac")
    assert facts_of(whole).damage == ()
    whole.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    assert not [each for each in facts_of(whole).damage if each.length_s]


def test_the_length_of_an_mp3_is_read_from_its_header(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    for rate in (44_100, 22_050, 8_000):
        path = make(ffmpeg, tmp_path, f"{rate}.mp3", "-ar", str(rate))
        assert mp3_length_s(str(path).encode()) == pytest.approx(SECONDS, abs=0.2)
    path.write_bytes(b"ID3\x03\0\0\0\0\0\x01x" + b"\xff\xfb\xfc\0" + b"Xing\0\0\0\x01\0\0\0\x09")
    assert mp3_length_s(str(path).encode()) == 0, "a rate that does not exist"
    path.write_bytes(b"")
    assert mp3_length_s(str(path).encode()) == 0


def test_facts_survive_their_record(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    path = make(ffmpeg, tmp_path, "talk.flac")
    facts = facts_of(path)
    assert SourceFacts.from_json(json.loads(json.dumps(facts.to_json()))) == facts
    assert probe_head(str(path).encode()).video == facts.video


def test_sound_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "noise.mp3"
    path.write_bytes(b"ID3\x03\0\0\0\0\0\0" + bytes(4000))
    with pytest.raises(TqError) as refused:
        facts_of(path)
    assert refused.value.code in (ErrorCode.SOURCE_UNREADABLE, ErrorCode.NO_MEDIA)


@pytest.mark.slow
def test_quieter_by_the_profile(ffmpeg: FFmpeg, encode: MakeEncode, music: Profile, tmp_path: Path) -> None:
    """All qualities get the gain that brings the source to the loudness asked for."""
    source = make(ffmpeg, tmp_path, "talk.wav")
    by = {}
    for target in (-20.0, -26.0):
        running = encode(source, replace(music, audio_loudness=target), poster=False)
        run_to_end(running)
        assert running.error is None
        by[target] = [published(state).levels[0] for state in running.renditions]
    assert [loud - quiet for loud, quiet in zip(by[-20.0], by[-26.0], strict=True)] == pytest.approx(
        [6] * 3, abs=0.5
    )


@pytest.mark.slow
def test_a_recording_whose_clock_restarts_is_heard_to_its_end(
    ffmpeg: FFmpeg, encode: MakeEncode, music: Profile, tmp_path: Path
) -> None:
    source = make(ffmpeg, tmp_path, "radio.ts", *FORMATS["ts"])
    source.write_bytes(source.read_bytes() * 2)
    running = encode(source, music)
    run_to_end(running)
    assert (running.error, running.spec.facts.unseekable) == (None, True)
    for state in running.renditions:
        beeps = published(state).beeps
        assert beeps == pytest.approx([at + part * SECONDS for part in (0, 1) for at in BEEPS], abs=0.05)


def test_a_pair_of_mono_tracks_is_stereo(ffmpeg: FFmpeg, music: Profile, tmp_path: Path) -> None:
    facts = facts_of(make(ffmpeg, tmp_path, "one.wav", "-ac", "1"))
    (left,) = facts.audio
    facts = replace(facts, container="mxf", audio=(left, replace(left, index=1)))
    assert {(each.channels, each.tracks) for each in audio_renditions(facts, music)} == {(2, facts.audio)}

"""Loudness and true peak of what is published, measured by the test on source and decoded segments."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from array import array
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.values import RenditionState
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.profiles import Profile, RungSpec
from tqstudio.engine.media.source.probe import probe
from tqstudio.errors import WarningCode

from .conftest import MakeEncode, run_to_end
from .test_audio_tracks import RATE, audio_of, film, hear, tone
from .test_ladder_encode import codes_of, scripted

SECONDS = 4
PEAK_DBTP = -1.0
LIMITED = WarningCode.LOUDNESS_LIMITED.value
CHORD = "(sin(2*PI*220*t)+sin(2*PI*277*t)+0.5*sin(2*PI*1320*t))"
QUIET_THEN_LOUD = f"(0.02+0.08*gte(t,2))*{CHORD}"


@pytest.fixture
def one(small: Profile) -> Profile:
    return replace(small, rungs=(RungSpec(90, 120),))


def sound(*channels: str, layout: str = "stereo") -> tuple[str, ...]:
    expressions = "|".join(channels)
    return "-f", "lavfi", "-i", f"aevalsrc='{expressions}':s={RATE}:d={SECONDS}:c={layout}"


def measured(ffmpeg: FFmpeg, path: Path, filters: str = "anull") -> tuple[float, float]:
    """Integrated loudness in LUFS and true peak in dBTP of the first sound of a file."""
    argv = [ffmpeg.path, "-hide_banner", "-nostats", "-nostdin", "-i", f"file:{path}", "-map", "0:a:0"]
    argv += ["-af", f"{filters},ebur128=peak=true:framelog=verbose", "-f", "null", "-"]
    log = subprocess.run(argv, check=True, capture_output=True, timeout=60).stderr.decode()
    [(lufs, peak)] = re.findall(r"I: +(\S+) LUFS.*Peak: +(\S+) dBFS", log, re.DOTALL)
    return float(lufs), float(peak)


def published(state: RenditionState, folder: Path) -> Path:
    names = ["init.mp4", *sorted(path.name for path in state.directory.glob("seg_*.m4s"))]
    joined = folder / f"{state.name}-{state.stream_key}.mp4"
    joined.write_bytes(b"".join((state.directory / name).read_bytes() for name in names))
    return joined


def done(made: LadderEncode, *warnings: str) -> dict[str, RenditionState]:
    run_to_end(made)
    assert (made.state, made.error, codes_of(made)) == ("done", None, [*warnings])
    return audio_of(made)


def audio_runs(made: LadderEncode) -> list[str]:
    return [run.label for run in made.runs if "video" not in run.label and run.label != "poster"]


def rms(samples: Sequence[float], start_s: float, end_s: float) -> float:
    part = samples[round(start_s * RATE) : round(end_s * RATE)]
    return math.sqrt(sum(each * each for each in part) / len(part))


@pytest.mark.slow
@pytest.mark.parametrize(("container", "codec"), [("mp4", "aac"), ("mkv", "ac3"), ("mov", "pcm_s16le")])
def test_loudness_is_that_of_the_source(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path, container: str, codec: str
) -> None:
    inputs = sound(QUIET_THEN_LOUD, f"0.05*{CHORD}")
    source = film(ffmpeg, tmp_path / f"film.{container}", inputs, "-c:a", codec, "-b:a", "256k")
    made = encode(source, one)
    [state] = done(made).values()
    assert measured(ffmpeg, published(state, tmp_path))[0] == pytest.approx(
        measured(ffmpeg, source)[0], abs=0.5
    )
    assert audio_runs(made) == ["audio-und"], "nothing is measured where nothing is changed"


@pytest.mark.more
@pytest.mark.parametrize(
    ("container", "codec", "centre", "surround"),
    [("mov", "pcm_s16le", 0.7071, 0.7071), ("mkv", "aac", 0.7071, 0.7071), ("mkv", "ac3", 0.5946, 0.5)],
)
def test_a_downmix_is_as_loud_as_the_standard_one(
    ffmpeg: FFmpeg,
    encode: MakeEncode,
    one: Profile,
    tmp_path: Path,
    container: str,
    codec: str,
    centre: float,
    surround: float,
) -> None:
    """Each channel has its own tone. ITU-R BS.775 adds centre and surrounds at -3 dB, and no subwoofer; an
    AC-3 stream declares its levels, here -4.5 and -6 dB.
    """
    channels = [f"{0.02 * (n + 2)}*sin(2*PI*{300 * (n + 1)}*t)" for n in range(6)]
    inputs = sound(*channels, layout="5.1")
    source = film(ffmpeg, tmp_path / f"film.{container}", inputs, "-c:a", codec, "-b:a", "640k")
    [state] = done(encode(source, one)).values()
    mix = f"pan=stereo|c0=c0+{centre}*c2+{surround}*c4|c1=c1+{centre}*c2+{surround}*c5"
    expected, peak = measured(ffmpeg, source, f"aformat=sample_fmts=flt,{mix}")
    assert peak < PEAK_DBTP
    assert measured(ffmpeg, published(state, tmp_path))[0] == pytest.approx(expected, abs=0.5)


@pytest.mark.parametrize("target", [-23, pytest.param(-16.5, marks=pytest.mark.more)])
def test_a_loudness_of_the_profile_is_reached_by_a_constant_gain(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path, target: float
) -> None:
    """The second track is far too loud, the third far too quiet."""
    louder = f"0.35*{CHORD}"
    inputs = [*sound(QUIET_THEN_LOUD, QUIET_THEN_LOUD), *sound(louder, louder), *tone(500)]
    source = film(ffmpeg, tmp_path / "film.mkv", inputs, "-c:a", "pcm_s16le", "-af:a:2", "volume=-30dB")
    made = encode(source, replace(one, audio_loudness=target))
    states = done(made)
    for state in states.values():
        lufs, peak = measured(ffmpeg, published(state, tmp_path))
        assert lufs == pytest.approx(target, abs=0.5), state.name
        assert peak <= PEAK_DBTP
    assert audio_runs(made) == ["loudness", "audio"], "each reads the source once for all tracks"
    plain = done(encode(source, one))
    before, after = (hear(each["audio-und"]).samples[0] for each in (plain, states))
    ratios = [rms(after, *at) / rms(before, *at) for at in ((0.5, 1.5), (2.5, 3.5))]
    assert ratios[0] == pytest.approx(ratios[1], rel=0.03), "the quiet passage is amplified like the loud one"


@pytest.mark.slow
def test_surround_and_its_downmix_are_measured_each_for_itself(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    channels = [f"{0.02 * (n + 2)}*sin(2*PI*{300 * (n + 1)}*t)" for n in range(6)]
    source = film(ffmpeg, tmp_path / "film.mkv", sound(*channels, layout="5.1"), "-c:a", "pcm_s16le")
    made = encode(source, replace(one, audio_loudness=-20.0, audio_surround="eac3"))
    states = done(made)
    assert list(states) == ["audio-und", "audio-und-surround"]
    gains = [state.gain_db for state in states.values()]
    assert gains[0] != gains[1]
    for state in states.values():
        assert measured(ffmpeg, published(state, tmp_path))[0] == pytest.approx(-20, abs=0.5)


def test_a_loudness_that_the_peaks_do_not_allow_is_a_warning(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    """Short strokes: high peaks, little loudness."""
    strokes = "0.9*sin(2*PI*440*t)*exp(-40*mod(t,0.5))"
    source = film(ffmpeg, tmp_path / "film.mkv", sound(strokes, strokes), "-c:a", "pcm_s16le")
    made = encode(source, replace(one, audio_loudness=-9.0))
    [state] = done(made, LIMITED).values()
    lufs, peak = measured(ffmpeg, published(state, tmp_path))
    assert PEAK_DBTP - 1 < peak <= PEAK_DBTP
    reached, wanted = re.findall(r"-\d+(?:\.\d)?", made.warnings[0].text)[:2]
    assert (float(reached), float(wanted)) == (pytest.approx(lufs, abs=0.2), -9)
    again = encode(source, replace(one, audio_loudness=-9.0))
    done(again, LIMITED)
    assert audio_runs(again) == [], "the warning is stored with what is complete"


def test_peaks_that_the_encoder_raises_cost_another_run(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    """AAC at a low bit rate raises the peaks of clipped sound by more than a decibel."""
    clipped = "clip(12*(random(0)-0.5)*exp(-20*mod(t,0.5)),-0.9,0.9)"
    source = film(ffmpeg, tmp_path / "film.mkv", sound(clipped, clipped), "-c:a", "pcm_s16le")
    made = encode(source, replace(one, audio_loudness=-9.0, audio_bitrate_kbps=64))
    [state] = done(made, LIMITED).values()
    assert measured(ffmpeg, published(state, tmp_path))[1] <= PEAK_DBTP
    assert audio_runs(made)[:3] == ["audio-und-loudness", "audio-und", "audio-und"]
    assert len(made.notes) == len(audio_runs(made)) - 2


@pytest.mark.more
@pytest.mark.parametrize("seconds", [SECONDS, 0.3])
def test_sound_without_loudness_is_unchanged(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path, seconds: float
) -> None:
    """Silence has none, nor has what is shorter than 0.4 s."""
    inputs = tone(500, seconds) if seconds < SECONDS else sound("0", "0")
    source = film(ffmpeg, tmp_path / "film.mkv", inputs, "-c:a", "pcm_s16le", seconds=seconds)
    made = encode(source, replace(one, audio_loudness=-16.0))
    [state] = done(made).values()
    [plain] = done(encode(source, one)).values()
    assert plain.directory != state.directory
    assert hear(state).samples == hear(plain).samples


@pytest.mark.parametrize("label", [pytest.param("audio-und-loudness", marks=pytest.mark.more), "audio-und"])
def test_a_killed_run_is_done_again(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path, label: str
) -> None:
    source = film(ffmpeg, tmp_path / "film.mkv", sound(QUIET_THEN_LOUD, "0"), "-c:a", "pcm_s16le")
    profile = replace(one, audio_loudness=-16.0)
    first = encode(source, profile)
    run_to_end(first, until=lambda: label in audio_runs(first))
    first.kill()
    [state] = audio_of(first).values()
    assert state.status == "pending"
    # What an earlier run with another gain left behind is not continued.
    [other] = done(encode(source, one)).values()
    shutil.rmtree(state.directory, ignore_errors=True)
    shutil.copytree(other.directory, state.directory, ignore=shutil.ignore_patterns("complete.json"))
    second = encode(source, profile)
    [state] = done(second).values()
    assert measured(ffmpeg, published(state, tmp_path))[0] == pytest.approx(-16, abs=0.5)
    assert audio_runs(second) == ["audio-und-loudness", "audio-und"]


@pytest.mark.slow
def test_a_track_that_cannot_be_measured_costs_no_other(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    inputs = [*tone(500), *tone(1000)]
    source = film(ffmpeg, tmp_path / "film.mkv", inputs, "-c:a", "aac", "-metadata:s:a:1", "language=ger")
    case = "*index.m3u8*) ;;\n*ebur128@audio-de=*) echo 'Error: no sound' >&2; exit 1;;"
    broken = scripted(tmp_path / "ffmpeg", ffmpeg, case)
    made = encode(source, replace(one, audio_loudness=-16.0), ffmpeg=broken)
    states = done(made, WarningCode.RENDITION_LEFT_OUT.value)
    assert {name: state.status for name, state in states.items()} == {
        "audio-und": "completed",
        "audio-de": "failed",
    }
    assert measured(ffmpeg, published(states["audio-und"], tmp_path))[0] == pytest.approx(-16, abs=0.5)
    # A summary that is missing is no loudness of zero.
    mute = scripted(
        tmp_path / "mute", ffmpeg, f'*index.m3u8*) ;;\n*ebur128@*) exec "{ffmpeg.path}" -v quiet "$@";;'
    )
    failed = encode(source, replace(one, audio_loudness=-18.0), ffmpeg=mute)
    run_to_end(failed)
    assert failed.state == "failed"


def test_samples_are_not_clipped_before_the_gain(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    """A source of floating-point samples may exceed full scale, which the gain brings back."""
    source = film(
        ffmpeg,
        tmp_path / "film.mkv",
        sound("3*sin(2*PI*500*t)", "3*sin(2*PI*500*t)"),
        *("-c:a", "pcm_f32le"),
    )
    [state] = done(encode(source, replace(one, audio_loudness=-16.0))).values()
    samples: array[float] = hear(state).samples[0]
    peak = max(abs(each) for each in samples[RATE : 2 * RATE])
    assert peak / rms(samples, 1, 2) == pytest.approx(math.sqrt(2), rel=0.02)


@pytest.mark.slow
def test_sound_of_a_source_that_is_decoded_from_its_start_is_measured_too(
    ffmpeg: FFmpeg, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    inputs = [*sound(QUIET_THEN_LOUD, QUIET_THEN_LOUD), *tone(500)]
    source = film(ffmpeg, tmp_path / "film.ts", inputs, "-c:a", "aac")
    facts = replace(probe(bytes(source)), unseekable=True)
    states = done(encode(source, replace(one, audio_loudness=-16.0), facts=facts))
    for state in states.values():
        assert measured(ffmpeg, published(state, tmp_path))[0] == pytest.approx(-16, abs=0.5)

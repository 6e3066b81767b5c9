"""The commands, as far as reading them proves anything; `test_ladder_encode` runs them."""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.command import poster_command, video_command
from tqstudio.engine.media.ffmpeg.track_commands import audio_command
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.audio import AudioRendition
from tqstudio.engine.media.plan.file_names import segment_name
from tqstudio.engine.media.plan.grid import make_grid
from tqstudio.engine.media.plan.rungs import build_ladder
from tqstudio.engine.media.source.facts import AudioTrack

from .test_grid import facts

WEB = profiles.load("web")
FFMPEG = FFmpeg("/opt/ffmpeg", "9", "build")
FACTS = facts(Fraction(30000, 1001), Fraction(7, 5))
GRID = make_grid(FACTS, WEB)
RUNGS = [rung for rung in build_ladder(FACTS, WEB) if not rung.skipped]


def after(argv: list[str], option: str) -> str:
    return argv[argv.index(option) + 1]


def test_one_decode_feeds_every_rung() -> None:
    argv = video_command(FFMPEG, b"/media/a.mp4", FACTS, GRID, WEB, RUNGS)
    assert argv[0] == "/opt/ffmpeg"
    assert argv.count("-i") == 1
    graph = after(argv, "-filter_complex")
    assert graph.startswith("[0:0]setpts=PTS+round(0.001400/TB)[s0];[s0]fps=fps=30000/1001[")
    assert f"split={len(RUNGS)}" in graph
    assert [word for word in argv if word.endswith(".m3u8")] == [f"{rung.name}/index.m3u8" for rung in RUNGS]
    assert argv.count("-map") == len(RUNGS)


def test_the_recipe_is_complete() -> None:
    argv = video_command(FFMPEG, b"/media/a.mp4", FACTS, GRID, WEB, RUNGS[:1])
    for option, value in {
        "-c:v": "libx264",
        "-g": "60",
        "-keyint_min": "60",
        "-sc_threshold": "0",
        "-flags": "+cgop",
        "-hls_time": "2.001999",
        "-hls_list_size": "2",
        "-hls_segment_options": "movflags=+frag_discont",
        "-hls_flags": "temp_file+independent_segments",
        "-output_ts_offset": "8.598600",
        "-maxrate": "6000k",
        "-bufsize": "12000k",
        "-crf": "22",
        "-preset": "medium",
        "-profile:v": "high",
        "-protocol_whitelist": "file",
    }.items():
        assert after(argv, option) == value
    assert {"-nostdin", "-copyts"} <= set(argv)
    assert "concat" not in after(argv, "-format_whitelist")
    assert argv.index("-copyts") < argv.index("-i")


def test_a_run_from_the_start_does_not_seek() -> None:
    argv = video_command(FFMPEG, b"/media/a.mp4", FACTS, GRID, WEB, RUNGS)
    assert "-ss" not in argv
    assert "start_pts" not in after(argv, "-filter_complex")
    # Twice what is declared and a minute: jumping timestamps end there.
    assert f"end_pts={GRID.g0 + 2 * GRID.total_frames + 1798}" in after(argv, "-filter_complex")


@pytest.mark.parametrize(
    ("container", "seek"), [("mov,mp4,m4a,3gp,3g2,mj2", "30.031400"), ("mpegts", "20.031400")]
)
def test_a_resumed_run_seeks_a_key_frame_and_cuts_at_the_frame(container: str, seek: str) -> None:
    facts = replace(FACTS, container=container)
    argv = video_command(FFMPEG, b"/media/a.mp4", facts, GRID, WEB, RUNGS, start=15)
    assert after(argv, "-ss") == seek
    assert argv.index("-noaccurate_seek") < argv.index("-i")
    assert f"start_pts={GRID.g0 + 15 * 60}" in after(argv, "-filter_complex")
    assert after(argv, "-start_number") == "15"


def test_a_run_of_an_indexed_source_begins_early_when_asked() -> None:
    facts = replace(FACTS, container="mov,mp4,m4a,3gp,3g2,mj2")
    assert after(
        video_command(FFMPEG, b"/media/a.mp4", facts, GRID, WEB, RUNGS, start=15, early=True), "-ss"
    ) == ("20.031400")


def test_a_run_has_an_end_whatever_the_source_says() -> None:
    argv = video_command(FFMPEG, b"/media/a.mp4", FACTS, GRID, WEB, RUNGS, start=15)
    assert argv.count("-frames:v") == len(RUNGS)
    assert after(argv, "-frames:v") == str(2 * GRID.total_frames + 1798 - 15 * 60)
    bounded = video_command(FFMPEG, b"/media/a.mp4", FACTS, GRID, WEB, RUNGS, start=15, stop=18)
    assert f"end_pts={GRID.g0 + 18 * 60}" in after(bounded, "-filter_complex")
    assert after(bounded, "-frames:v") == str(3 * 60)
    # A source that declares far too little does not end a run before it begins.
    late = video_command(FFMPEG, b"/media/a.mp4", FACTS, GRID, WEB, RUNGS, start=1500)
    assert after(late, "-frames:v") == "60"


@pytest.mark.parametrize("g0", [43, -43])
def test_an_unseekable_source_is_decoded_from_the_start_on_a_clock_of_its_own(g0: int) -> None:
    unseekable, grid = replace(FACTS, unseekable=True), replace(GRID, g0=g0)
    argv = video_command(FFMPEG, b"/media/a.ts", unseekable, grid, WEB, RUNGS, start=15)
    assert not {"-copyts", "-ss", "-noaccurate_seek"} & set(argv)
    graph = after(argv, "-filter_complex")
    assert f"setpts=PTS-STARTPTS{g0:+d}" in graph
    assert graph.index("setpts") < graph.index(f"start_pts={g0 + 15 * 60}")
    assert argv.count("-fps_mode") == len(RUNGS)
    rendition = AudioRendition("audio-en", AudioTrack(1, "aac", 1, 44100, "en", "", True, ""), 2)
    sound = audio_command(FFMPEG, b"/a.ts", unseekable, grid, WEB, [rendition], {rendition.name: 0.0})
    assert "-copyts" not in sound
    assert after(sound, "-output_ts_offset") == "10.000000"


NVENC = "-cq 22 -forced-idr 1 -gpu {device} -no-scenecut 1 -preset medium -rc vbr -strict_gop 1 -b:v 0"
QSV = "-adaptive_i 0 -forced_idr 1 -preset medium -b:v {average}"
QSV += " -init_hw_device qsv=gpu:hw_any,child_device={device}"
VAAPI = "-rc_mode VBR -b:v {average} -init_hw_device vaapi=gpu:{device} -filter_hw_device gpu"


@pytest.mark.parametrize("codec", ["h264", "hevc", "av1"])
@pytest.mark.parametrize(
    ("api", "options", "device"),
    [("nvenc", NVENC, "1"), ("qsv", QSV, "/dev/dri/renderD129"), ("vaapi", VAAPI, "/dev/dri/renderD129")],
)
def test_the_options_of_each_gpu_encoder(codec: str, api: str, options: str, device: str) -> None:
    rung = replace(RUNGS[0], codec=codec)
    encoder = f"{codec}_{api}"
    argv = video_command(FFMPEG, b"/a.mp4", FACTS, GRID, WEB, [rung], encoder=encoder, device=device)
    average = f"{round(rung.maxrate_kbps / 1.5)}k"
    words = f"-c:v {encoder} -flags +cgop -g {GRID.gop} -maxrate {rung.maxrate_kbps}k " + options.format(
        device=device, average=average
    )
    names, values = words.split()[::2], words.split()[1::2]
    assert {name: after(argv, name) for name in names} == dict(zip(names, values, strict=True))
    assert ("-profile:v" in argv, "hvc1" in argv) == (codec == "h264", codec == "hevc")
    graph = after(argv, "-filter_complex")
    assert "format=nv12" in graph
    assert ("hwupload" in graph) == (api == "vaapi")


def test_encoders_that_are_not_supported_are_refused() -> None:
    with pytest.raises(ValueError, match="h265_magic"):
        video_command(FFMPEG, b"/a.mp4", FACTS, GRID, WEB, RUNGS[:1], encoder="h265_magic")


@pytest.mark.parametrize("name", [b"-y.mp4", b"%03d.mp4", b"http:x.mp4", b"caf\xe9.mp4", b"a b'c\"d;[x].mp4"])
def test_any_name_is_one_word_of_the_command(name: bytes) -> None:
    source = b"/media/" + name
    for argv in (
        video_command(FFMPEG, source, FACTS, GRID, WEB, RUNGS),
        poster_command(FFMPEG, source, FACTS, WEB),
    ):
        assert os.fsencode(after(argv, "-i")) == b"file:" + source
        # A % in an output path would break the hls muxer.
        assert [word for word in argv if "%" in word and word != after(argv, "-i")] == (
            [f"{rung.name}/frag_%05d.m4s" for rung in RUNGS] if "hls" in argv else []
        )


def test_audio_shares_the_timeline() -> None:
    rendition = AudioRendition("audio-en", AudioTrack(1, "aac", 1, 44100, "en", "", True, ""), 2)
    argv = audio_command(FFMPEG, b"/a.mp4", FACTS, GRID, WEB, [rendition], {rendition.name: 0.0})
    argv = argv[argv.index("-map", argv.index("-dec")) :]
    assert after(argv, "-output_ts_offset") == "8.600000"
    assert (after(argv, "-c:a"), after(argv, "-b:a"), after(argv, "-ac"), after(argv, "-ar")) == (
        "aac",
        "128k",
        "2",
        "48000",
    )
    assert argv[-1] == "audio-en/index.m3u8"


@pytest.mark.parametrize(("version", "measured"), [("7.0.2", []), ("7.1", ["2:0", "3:0"])])
def test_encoded_sound_is_measured_where_ffmpeg_decodes_what_it_encodes(
    version: str, measured: list[str]
) -> None:
    track = AudioTrack(1, "aac", 2, 44100, "en", "", True, "")
    sounds = [AudioRendition(name, track, 2) for name in ("audio-en", "audio-en-2")]
    ffmpeg, loud = FFmpeg("/opt/ffmpeg", version, "build"), replace(WEB, audio_loudness=-16.0)
    gains = {"audio-en": 1.5, "audio-en-2": 0.0}
    argv = audio_command(ffmpeg, b"/a.mp4", FACTS, GRID, loud, sounds, gains)
    assert sum(word.count("volume=") for word in argv) == 1
    plain = audio_command(ffmpeg, b"/a.mp4", FACTS, GRID, WEB, sounds, gains)
    decoded = [[b for a, b in pairwise(words) if a == "-dec"] for words in (argv, plain)]
    assert decoded == [[*decoded[1], *measured], ["0:0", "1:0"] if measured else []]


def test_segments_sort_by_name() -> None:
    assert segment_name(7) == "seg_00007.m4s"

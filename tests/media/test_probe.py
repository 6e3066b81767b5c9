"""What is read from real files, and how everything else is refused."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan import profiles, warnings
from tqstudio.engine.media.source.facts import Chapter, Damage, SourceFacts
from tqstudio.engine.media.source.packet_times import grid_rate
from tqstudio.engine.media.source.probe import probe
from tqstudio.errors import ErrorCode, TqError

from .conftest import MakeClip, run_ffmpeg
from .corpus import with_edits


def probed(path: Path) -> SourceFacts:
    return probe(os.fsencode(path))


def warned(path: Path) -> list[tuple[str, str]]:
    """Code and text of the warnings about a source."""
    return [(each.code, each.text) for each in warnings.of_source(probed(path), profiles.load("web"))]


def test_a_plain_file(clip: MakeClip) -> None:
    facts = probed(clip("plain.mp4", fps="30000/1001"))
    video = facts.video
    assert (video.codec, video.width, video.height, video.fps) == ("h264", 320, 180, Fraction(30000, 1001))
    assert (video.pix_fmt, video.bit_depth, video.rotation, video.interlaced) == ("yuv420p", 8, 0, False)
    assert not video.vfr
    assert facts.duration_s == pytest.approx(4, abs=0.1)
    assert facts.bitrate > 0
    (audio,) = facts.audio
    assert (audio.codec, audio.channels, audio.sample_rate, audio.language) == ("aac", 2, 44100, "und")


def test_facts_survive_json(clip: MakeClip) -> None:
    damage = (Damage("hole", 3.5, 1.25), Damage("pictures", 4))
    facts = replace(probed(clip("plain.mp4", fps="30000/1001")), damage=damage)
    data = json.loads(json.dumps(facts.to_json()))
    assert data["video"]["fps"] == "30000/1001"
    assert SourceFacts.from_json(data) == facts


def test_a_transport_stream_starts_late(clip: MakeClip) -> None:
    facts = probed(clip("late.ts", options=("-f", "mpegts")))
    assert facts.start_time_s == pytest.approx(1.4, abs=0.1)
    assert facts.video.first_pts_s >= Fraction(14, 10)
    assert facts.video.fps == 25


def test_rotation_and_sample_aspect_give_the_display_size(
    clip: MakeClip, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    turned = tmp_path / "turned.mp4"
    run_ffmpeg(ffmpeg, "-display_rotation", "90", "-i", str(clip("plain25.mp4")), "-c", "copy", str(turned))
    video = probed(turned).video
    assert (video.width, video.height, video.coded_width, video.coded_height) == (180, 320, 320, 180)
    assert video.rotation == 90
    wide = probed(clip("wide.mkv", filters="setsar=4/3")).video
    assert (wide.width, wide.height, wide.coded_width) == (427, 180, 320)


def test_variable_rate_uses_the_nominal_one(clip: MakeClip) -> None:
    path = clip(
        "vfr.mp4",
        fps="60",
        filters="select='not(mod(n,3))+lt(mod(n,200),60)'",
        options=("-fps_mode", "vfr"),
        audio=0,
    )
    video = probed(path).video
    assert (video.fps, video.vfr) == (Fraction(60), True)


def test_interlaced_and_ten_bit_are_seen(clip: MakeClip) -> None:
    interlaced = clip(
        "interlaced.mp4",
        filters="tinterlace=interleave_top,setfield=tff",
        video=("-c:v", "libx264", "-preset", "ultrafast", "-flags", "+ildct+ilme"),
        audio=0,
    )
    assert probed(interlaced).video.interlaced
    deep = clip("deep.mkv", filters="format=yuv420p10le", audio=0)
    assert (probed(deep).video.pix_fmt, probed(deep).video.bit_depth) == ("yuv420p10le", 10)


@pytest.mark.parametrize(
    ("codec", "video"),
    [
        ("h264", ("-c:v", "libx264")),
        ("hevc", ("-c:v", "libx265", "-preset", "ultrafast")),
        ("av1", ("-c:v", "libsvtav1", "-preset", "12")),
    ],
)
def test_a_codec_has_its_own_name(clip: MakeClip, codec: str, video: tuple[str, ...]) -> None:
    """Not that of its decoder, such as libdav1d."""
    made = clip("codec.mp4", seconds=1, size="128x72", video=video)
    assert probe(os.fsencode(made)).video.codec == codec


@pytest.mark.parametrize("name", ["crop.mp4", "crop.mkv", "crop.ts"])
@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize(
    ("crop", "inset"),
    [
        ("crop_left=32", True),
        ("crop_top=16", True),
        ("crop_right=32:crop_bottom=8", False),
    ],
)
def test_what_is_cut_off_on_the_left_or_above_is_seen(
    clip: MakeClip, ffmpeg: FFmpeg, tmp_path: Path, name: str, codec: str, crop: str, inset: bool
) -> None:
    encoder = {"h264": "libx264", "hevc": "libx265"}[codec]
    whole = clip("whole.mp4", seconds=1, video=("-c:v", encoder, "-preset", "ultrafast"))
    cropped = tmp_path / name
    run_ffmpeg(ffmpeg, "-i", str(whole), "-c", "copy", "-bsf:v", f"{codec}_metadata={crop}", str(cropped))
    video, before = probe(os.fsencode(cropped)).video, probe(os.fsencode(whole)).video
    assert (video.inset, before.inset) == (inset, False)
    assert (video.coded_width, video.coded_height) != (before.coded_width, before.coded_height)


def test_tracks_and_their_languages(clip: MakeClip, ffmpeg: FFmpeg, tmp_path: Path) -> None:
    subtitles = tmp_path / "a.srt"
    subtitles.write_text("1\n00:00:00,000 --> 00:00:01,000\nhello\n")
    path = tmp_path / "tracks.mkv"
    source = str(clip("plain25.mp4"))
    run_ffmpeg(
        ffmpeg,
        *("-i", source, "-i", str(subtitles), "-map", "0:v", "-map", "0:a", "-map", "0:a", "-map", "1"),
        *("-c", "copy", "-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=fre"),
        *("-metadata:s:a:1", "title=Commentaire", "-disposition:a:1", "default", "-disposition:a:0", "0"),
        *("-metadata:s:s:0", "language=../etc", str(path)),
    )
    facts = probed(path)
    assert [(track.language, track.default) for track in facts.audio] == [("en", False), ("fr", True)]
    assert facts.audio[1].title == "Commentaire"
    assert [track.language for track in facts.subtitles] == ["und"]


@pytest.mark.parametrize(
    ("guessed", "base", "average", "expected"),
    [
        ("24", "24", "1439/60", ("24", False)),
        ("60", "60", "6000/179", ("60", True)),
        ("120", "120", "120", ("60", True)),
        ("120000/1001", "120000/1001", "120000/1001", ("60000/1001", True)),
        ("90000", "90000", "2997/100", ("30000/1001", False)),
        ("1000", None, "26", ("30000/1001", True)),
        (None, None, None, ("30", False)),
        ("90000", "90000", "400", ("60", True)),
    ],
)
def test_the_rate_of_the_grid(
    guessed: str | None, base: str | None, average: str | None, expected: tuple[str, bool]
) -> None:
    fps, _ = grid_rate(*(Fraction(text) if text else None for text in (guessed, base, average)))
    assert fps == Fraction(expected[0])


def refused(path: Path) -> TqError:
    with pytest.raises(TqError) as caught:
        probed(path)
    return caught.value


def a_playlist(path: Path) -> None:
    path.write_text("#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\n/etc/hostname.ts\n#EXT-X-ENDLIST\n")


def a_script(path: Path) -> None:
    path.write_text("ffconcat version 1.0\nfile '/etc/hostname'\n")


BAD: list[tuple[str, Callable[[Path], object], ErrorCode]] = [
    ("missing", lambda _: None, ErrorCode.SOURCE_MISSING),
    ("empty", lambda path: path.touch(), ErrorCode.SOURCE_EMPTY),
    ("folder", lambda path: path.mkdir(), ErrorCode.UNSUPPORTED),
    ("fifo", lambda path: os.mkfifo(path), ErrorCode.UNSUPPORTED),
    ("device", lambda path: path.symlink_to("/dev/null"), ErrorCode.UNSUPPORTED),
    ("dangling link", lambda path: path.symlink_to("nowhere"), ErrorCode.SOURCE_MISSING),
    ("text", lambda path: path.write_text("hello"), ErrorCode.NO_MEDIA),
    ("noise", lambda path: path.write_bytes(bytes(range(1, 256)) * 20), ErrorCode.NO_MEDIA),
    ("playlist", a_playlist, ErrorCode.NO_MEDIA),
    ("concat script", a_script, ErrorCode.NO_MEDIA),
]


@pytest.mark.parametrize(("make", "code"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_what_is_no_video(tmp_path: Path, make: Callable[[Path], object], code: ErrorCode) -> None:
    path = tmp_path / "x.mp4"
    make(path)
    error = refused(path)
    assert error.code == code
    assert "x.mp4" in error.message


def test_a_script_that_names_a_real_video_is_refused_too(clip: MakeClip, tmp_path: Path) -> None:
    target = clip("plain25.mp4")
    path = tmp_path / "x.mp4"
    path.write_text(f"ffconcat version 1.0\nfile '{target}'\n")
    assert refused(path).code == ErrorCode.NO_MEDIA


def test_an_mp4_without_its_index_is_broken(clip: MakeClip, tmp_path: Path) -> None:
    path = tmp_path / "cut.mp4"
    path.write_bytes(clip("plain25.mp4").read_bytes()[:20_000])
    assert refused(path).code == ErrorCode.SOURCE_UNREADABLE


def test_text_alone_is_neither_video_nor_sound(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    text, path = tmp_path / "text.srt", tmp_path / "text.mkv"
    text.write_text("1\n00:00:00,000 --> 00:00:01,000\nwords\n")
    run_ffmpeg(ffmpeg, "-i", str(text), str(path))
    assert refused(path).code == ErrorCode.NO_MEDIA


@pytest.mark.skipif(not shutil.which("setpriv"), reason="root ignores modes")
def test_a_file_that_may_not_be_read(clip: MakeClip, tmp_path: Path) -> None:
    path = tmp_path / "secret.mp4"
    shutil.copy(clip("plain25.mp4"), path)
    path.chmod(0)
    code = f"""
from tqstudio.engine.media.source.probe import probe
from tqstudio.errors import TqError
try:
    probe({os.fsencode(path)!r})
except TqError as error:
    print(error.code)
"""
    without_override = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all"]
    prefix = without_override if os.geteuid() == 0 else []
    answer = subprocess.run([*prefix, sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "PERMISSION"


def test_messages_show_any_name(tmp_path: Path) -> None:
    with pytest.raises(TqError) as caught:
        probe(os.fsencode(tmp_path) + b"/caf\xe9\n.mp4")
    assert "caf\\xe9\\n.mp4" in caught.value.message


@pytest.mark.parametrize("name", ["half.mp4", "half.mkv", "half.flv"])
def test_half_a_source_is_truncated(clip: MakeClip, tmp_path: Path, name: str) -> None:
    options = ("-movflags", "+faststart") if name.endswith("mp4") else ()
    whole = clip(name, seconds=6, options=options).read_bytes()
    half = tmp_path / name
    half.write_bytes(whole[: len(whole) // 2])
    facts = probe(os.fsencode(half))
    [cut] = [each for each in facts.damage if each.kind == "cut"]
    assert cut.at_s == pytest.approx(facts.video.duration_s, abs=0.1)
    assert cut.at_s + cut.length_s == pytest.approx(6, abs=0.1)


@pytest.mark.parametrize("name", ["late.mkv", "late.flv", "late.ts"])
def test_half_a_source_that_starts_late_is_truncated(
    clip: MakeClip, ffmpeg: FFmpeg, tmp_path: Path, name: str
) -> None:
    whole, half = tmp_path / name, tmp_path / f"half-{name}"
    run_ffmpeg(
        ffmpeg, "-i", str(clip("plain6.mp4", seconds=6)), "-c", "copy", "-output_ts_offset", "78", str(whole)
    )
    facts = probe(os.fsencode(whole))
    assert facts.video.duration_s == pytest.approx(6, abs=0.05)
    half.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    if name.endswith(".ts"):
        # A transport stream declares no length: it is what is there.
        assert 2 < probe(os.fsencode(half)).video.duration_s < 4
        return
    [cut] = [each for each in probe(os.fsencode(half)).damage if each.kind == "cut"]
    assert cut.at_s + cut.length_s == pytest.approx(6, abs=0.1)


@pytest.mark.parametrize("clock_s", [0, 78])
@pytest.mark.parametrize("name", ["late.mkv", "late.flv", "late.mp4", "late.ts"])
def test_pictures_that_begin_after_the_sound_are_whole_and_half_of_them_truncated(
    clip: MakeClip, ffmpeg: FFmpeg, tmp_path: Path, name: str, clock_s: int
) -> None:
    """The end of the half, 2 s of its pictures, lies where the whole would end without the late start."""
    whole, half = tmp_path / name, tmp_path / f"half-{name}"
    pictures, sound = clip("silent.mp4", audio=0), clip("plain6.mp4", seconds=6)
    run_ffmpeg(
        ffmpeg,
        *("-itsoffset", "2", "-i", str(pictures), "-i", str(sound), "-map", "0", "-map", "1:a", "-c", "copy"),
        *("-output_ts_offset", str(clock_s), "-movflags", "+faststart", str(whole)),
    )
    facts = probe(os.fsencode(whole))
    assert (facts.video.duration_s, facts.damage) == (pytest.approx(4, abs=0.05), ())
    half.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2 + 100])
    [cut] = [each for each in probe(os.fsencode(half)).damage if each.kind == "cut"]
    assert cut.at_s == pytest.approx(2, abs=0.3)
    # A transport stream declares no length.
    assert cut.length_s == (0 if name.endswith("ts") else pytest.approx(4 - cut.at_s, abs=0.1))


def test_fragments_whose_clock_starts_late_are_whole(ffmpeg: FFmpeg, clip: MakeClip, tmp_path: Path) -> None:
    """They declare no length: ffmpeg takes the time at which the last fragment ends for it."""
    run_ffmpeg(
        ffmpeg,
        *("-i", str(clip("plain6.mp4", seconds=6)), "-c", "copy", "-output_ts_offset", "10", "-f", "hls"),
        *("-hls_segment_type", "fmp4", "-hls_segment_options", "movflags=+frag_discont"),
        *("-hls_fmp4_init_filename", "init.mp4", "-hls_segment_filename", str(tmp_path / "%d.m4s")),
        str(tmp_path / "index.m3u8"),
    )
    whole = tmp_path / "whole.mp4"
    names = ["init.mp4", *sorted(path.name for path in tmp_path.glob("*.m4s"))]
    whole.write_bytes(b"".join((tmp_path / name).read_bytes() for name in names))
    facts = probe(os.fsencode(whole))
    assert (float(facts.video.first_pts_s), facts.damage) == (pytest.approx(10, abs=0.1), ())


def test_a_channel_order_that_is_not_ffmpegs_own_does_not_end_the_process(
    ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    path = tmp_path / "order.mov"
    run_ffmpeg(
        ffmpeg,
        *("-f", "lavfi", "-i", "testsrc2=s=160x90:r=25:d=1", "-f", "lavfi", "-i", "sine=d=1"),
        *("-filter_complex", "[1]pan=FR+FL+LFE|FR=c0|FL=c0|LFE=c0[a]", "-map", "0", "-map", "[a]"),
        *("-c:v", "mpeg4", "-c:a", "pcm_s16le", str(path)),
    )
    code = (
        "import sys, os; from tqstudio.engine.media.source.probe import probe;"
        " print(probe(os.fsencode(sys.argv[1])).audio)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    assert "channels=3" in done.stdout


def test_a_pause_before_the_first_picture_is_no_missing_end(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    source = tmp_path / "film.mp4"
    pictures, sound = "testsrc2=s=160x90:r=25:d=6", "sine=d=6"
    run_ffmpeg(
        ffmpeg, "-f", "lavfi", "-i", pictures, "-f", "lavfi", "-i", sound, "-bf", "2", f"file:{source}"
    )
    with_edits(source, (-1, 0), (0.4, 2.4), (4.0, 5.6))
    facts = probed(source)
    assert facts.video.first_pts_s == 1
    assert facts.video.end_s == pytest.approx(4.6, abs=0.05)


def test_pictures_with_exif_are_read(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    """Their kind of side data is newer than PyAV's list."""
    run_ffmpeg(ffmpeg, "-f", "lavfi", "-i", "testsrc2=s=160x90:r=25:d=1", f"file:{tmp_path}/%03d.jpg")
    tiff = b"II*\0\x08\0\0\0" + struct.pack("<HHHII", 1, 0x112, 3, 1, 1) + bytes(4)
    app1 = b"Exif\0\0" + tiff
    for path in tmp_path.glob("*.jpg"):
        jpeg = path.read_bytes()
        path.write_bytes(jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(app1) + 2) + app1 + jpeg[2:])
    source = tmp_path / "camera.avi"
    run_ffmpeg(ffmpeg, "-framerate", "25", "-i", f"file:{tmp_path}/%03d.jpg", "-c", "copy", f"file:{source}")
    facts = probed(source)
    assert (facts.video.codec, facts.duration_s) == ("mjpeg", 1)


def test_titles_of_tracks_in_an_mp4_are_read(ffmpeg: FFmpeg, clip: MakeClip, tmp_path: Path) -> None:
    source, titled = clip("plain.mp4", fps="30000/1001"), tmp_path / "titled.mp4"
    title = ("-metadata:s:a:0", "title=Director's cut")
    run_ffmpeg(ffmpeg, "-i", f"file:{source}", "-c", "copy", *title, f"file:{titled}")
    assert [track.title for track in probed(titled).audio] == ["Director's cut"]


def test_an_encrypted_file_is_called_encrypted(ffmpeg: FFmpeg, clip: MakeClip, tmp_path: Path) -> None:
    path = tmp_path / "locked.mp4"
    scheme = ("-encryption_scheme", "cenc-aes-ctr", "-encryption_key", "76a6c65c5ea762046bd749a2e632ccbb")
    kid = ("-encryption_kid", "a7e61c373e219033c21091fa607bf3b8")
    run_ffmpeg(ffmpeg, "-i", str(clip("plain25.mp4")), "-c", "copy", *scheme, *kid, str(path))
    with pytest.raises(TqError, match=r"is encrypted \(cenc\)") as refused:
        probed(path)
    assert refused.value.code is ErrorCode.UNSUPPORTED


@pytest.mark.parametrize(
    ("name", "codec"), [("x.h264", "libx264"), ("x.m2v", "mpeg2video"), ("x.hevc", "libx265")]
)
def test_a_raw_stream_is_called_one(ffmpeg: FFmpeg, tmp_path: Path, name: str, codec: str) -> None:
    path = tmp_path / name
    run_ffmpeg(ffmpeg, "-f", "lavfi", "-i", "testsrc2=s=160x90:r=25:d=1", "-c:v", codec, str(path))
    with pytest.raises(TqError, match=r"is a raw .* stream without a container") as refused:
        probed(path)
    assert refused.value.code is ErrorCode.UNSUPPORTED


def test_ivf_is_read(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    path = tmp_path / "x.ivf"
    run_ffmpeg(ffmpeg, "-f", "lavfi", "-i", "testsrc2=s=160x90:r=25:d=1", "-c:v", "libvpx", str(path))
    assert probed(path).video.codec == "vp8"


def test_titles_and_languages_are_fit_to_be_published(ffmpeg: FFmpeg, clip: MakeClip, tmp_path: Path) -> None:
    path = tmp_path / "named.mkv"
    title = "Director\x85\u2028 \x07comment\x1fary"
    run_ffmpeg(
        ffmpeg,
        *(
            "-i",
            str(clip("plain25.mp4")),
            "-map",
            "0:v",
            "-map",
            "0:a",
            "-map",
            "0:a",
            "-map",
            "0:a",
            "-c",
            "copy",
        ),
        *("-metadata:s:a:0", f"title={title}", "-metadata:s:a:0", "language=ger"),
        *("-metadata:s:a:1", "language=eng", "-metadata:s:a:2", "language=yue", str(path)),
    )
    tracks = probed(path).audio
    assert (tracks[0].title, [track.language for track in tracks]) == (
        "Director comment ary",
        ["de", "en", "yue"],
    )


def test_chapters_and_captions_are_found(ffmpeg: FFmpeg, clip: MakeClip, tmp_path: Path) -> None:
    chapters = tmp_path / "chapters.txt"
    one = "[CHAPTER]\nTIMEBASE=1/1\nSTART={}\nEND={}\ntitle=part\n"
    chapters.write_text(";FFMETADATA1\n" + one.format(0, 1) + one.format(1, 2))
    path = tmp_path / "parts.mkv"
    run_ffmpeg(
        ffmpeg,
        "-i",
        str(clip("plain25.mp4")),
        "-i",
        str(chapters),
        "-map_metadata",
        "1",
        "-c",
        "copy",
        str(path),
    )
    facts = probed(path)
    assert (facts.chapters, facts.captions) == (
        (Chapter(0, 1, "part", "und"), Chapter(1, 2, "part", "und")),
        False,
    )
    assert warned(path) == []
    # An SEI message with closed captions in front of the first picture, as broadcasters send it.
    raw = tmp_path / "raw.h264"
    run_ffmpeg(ffmpeg, "-i", str(clip("plain25.mp4")), "-map", "0:v", "-c", "copy", str(raw))
    content = raw.read_bytes()
    at = content.index(b"\x00\x00\x01\x65")
    payload = bytes.fromhex("b50031") + b"GA94\x03" + bytes.fromhex("c1fffc9420ff")
    sei = b"\x00\x00\x01\x06\x04" + bytes([len(payload)]) + payload + b"\x80"
    raw.write_bytes(content[:at] + sei + content[at:])
    with_captions = tmp_path / "captions.mkv"
    run_ffmpeg(ffmpeg, "-r", "25", "-i", str(raw), "-c", "copy", str(with_captions))
    assert probed(with_captions).captions


def test_sound_of_an_unknown_codec_is_left_out_with_a_warning(
    ffmpeg: FFmpeg, clip: MakeClip, tmp_path: Path
) -> None:
    path = tmp_path / "unknown.mov"
    run_ffmpeg(ffmpeg, "-i", str(clip("plain25.mp4")), "-c:v", "copy", "-c:a", "pcm_s16le", str(path))
    content = path.read_bytes()
    assert content.count(b"sowt") == 1
    path.write_bytes(content.replace(b"sowt", b"zzzz"))
    [(code, text)] = warned(path)
    assert (code, text.partition(":")[0]) == (
        "AUDIO_UNREADABLE",
        "1 audio track cannot be decoded and is left out",
    )


GIF = ("-f", "lavfi", "-i", "testsrc2=s=320x240:r=10:d=3")


def test_a_moving_gif_is_a_video_and_an_opaque_one_has_no_alpha(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    path = tmp_path / "moving.gif"
    run_ffmpeg(ffmpeg, *GIF, str(path))
    facts = probed(path)
    assert (facts.video.codec, facts.video.fps, facts.video.pix_fmt) == ("gif", 10, "bgr0")
    assert facts.duration_s == pytest.approx(3)
    assert warned(path) == []


def test_a_transparent_gif_is_reported(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    path = tmp_path / "transparent.gif"
    cleared = "format=rgba,drawbox=w=161:h=241:color=red@0:t=fill:replace=1,split[a][b]"
    palette = "[a]palettegen[p];[b][p]paletteuse"
    run_ffmpeg(ffmpeg, *GIF[:3], "testsrc2=s=321x241:r=10:d=1", "-vf", f"{cleared};{palette}", str(path))
    assert [code for code, _ in warned(path)] == ["ALPHA_LEFT_OUT"]


def test_a_gif_of_one_picture_is_no_video(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    path = tmp_path / "still.gif"
    run_ffmpeg(ffmpeg, *GIF, "-frames:v", "1", str(path))
    error = refused(path)
    assert (error.code, "single picture" in error.message) == (ErrorCode.NO_MEDIA, True)

"""Lists the sources of the corpus: how ffmpeg makes each from the chart, and what is to be published."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from media.corpus import with_edits
from media.dolby_vision import with_box

from . import chart

X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p")
BT709 = "scale=out_color_matrix=bt709:out_range=limited"
_TAGS = ("-color_primaries", "bt709", "-color_trc", "bt709", "-colorspace", "bt709")
AAC = ("-c:a", "aac")


@dataclass(frozen=True)
class Case:
    """A source, and what becomes of it."""

    name: str
    """Of the file; its ending chooses the container."""
    options: tuple[str, ...] = (*X264, *AAC)
    """How ffmpeg encodes it."""
    rate: str = "25"
    seconds: float = 2.4
    size: str = "320x180"
    filters: str = "null"
    """What is done to the chart before it is encoded."""
    sounds: tuple[str, ...] = ("stereo",)
    """The layout of each audio track."""
    sound_rate: int = 48000
    then: tuple[str, ...] = ()
    """How the second half is encoded instead; the parts of a transport stream can be joined."""
    jump_s: float = 0
    """How far the clock jumps between them."""
    remux: Callable[[str], tuple[str, ...]] | None = None
    """Inputs and options of a second run of ffmpeg, whose source is the first one's file."""
    harm: Callable[[Path], None] | None = None
    """Done to the finished file."""
    quick: bool = False
    """Part of `make test`."""
    code: str = ""
    """Why it is refused; empty if it is published."""
    warnings: frozenset[str] = frozenset()
    published_rate: str = ""
    """The frame rate of the qualities, if it is another."""
    from_s: float = 0
    """What of the chart comes before the first picture."""
    held: int = 0
    """How many more pictures the first one lasts, because the sound begins earlier."""
    every: int = 1
    """How many pictures of the chart come together in one of the source: as two fields, or by their rate."""
    near: int = 0
    """How far the number of a picture may be off."""
    colours: int = 14
    """How far colours may be off, of 255; 0 for sources that cannot show them."""
    shape: float = 16 / 9
    """Width by height, as it is to be seen."""
    languages: tuple[str | None, ...] = (None,)
    text: str = ""
    """The codec of its subtitles, if it has any: those of `CUES`."""
    sound_late_s: float = 0
    """By how much the sound comes later than the pictures."""
    pictures: bool = True

    def make(self, ffmpeg: str, path: Path) -> None:
        """Encode the source."""
        whole = path if self.remux is None and not self.text else path.with_name(f"first-{path.name}")
        inputs = [chart.pictures(self.rate, self.seconds, self.size)] if self.pictures else []
        inputs += [
            chart.sound(track, self.seconds, layout, self.sound_rate)
            for track, layout in enumerate(self.sounds)
        ]
        command = [word for source in inputs for word in ("-f", "lavfi", "-i", source)]
        command += [word for at in range(len(inputs)) for word in ("-map", str(at))]
        filtered = ("-vf", self.filters) if self.pictures else ()
        command += filtered
        if self.then:
            self._join(ffmpeg, command, path)
        else:
            _run(ffmpeg, *command, *self.options, f"file:{whole}")
        if self.text:
            subtitles = path.with_name(f"{path.name}.srt")
            subtitles.write_text(
                "".join(
                    f"{at + 1}\n{_clock(a)} --> {_clock(b)}\n{text}\n\n"
                    for at, (a, b, text) in enumerate(CUES)
                )
            )
            both = ("-i", str(whole), "-i", str(subtitles), "-map", "0", "-map", "1", "-c", "copy")
            language = ("-metadata:s:s:0", "language=ger")
            _run(ffmpeg, *both, "-c:s", self.text, *language, f"file:{path}")
        elif self.remux:
            _run(ffmpeg, *self.remux(str(whole)), f"file:{path}")
        if self.harm:
            self.harm(path)

    def _join(self, ffmpeg: str, command: Sequence[str], path: Path) -> None:
        half = f"{self.seconds / 2}"
        flags = ("-mpegts_flags", "initial_discontinuity", "-muxdelay", "0", "-muxpreload", "0")
        # Not from zero: the muxer would delay all by what comes before it.
        clocks = 10, 10 + self.seconds / 2 + self.jump_s
        parts = [path.with_name(f"{number}-{path.name}") for number in range(2)]
        sides = ((*self.options, "-t", half), (*self.then, "-ss", half))
        for options, clock, part in zip(sides, clocks, parts, strict=True):
            _run(ffmpeg, *command, *options, *flags, "-output_ts_offset", f"{clock}", f"file:{part}")
        path.write_bytes(b"".join(part.read_bytes() for part in parts))


def video(name: str, codec: str, *more: str, sound: tuple[str, ...] = AAC, **others: Any) -> Case:
    """A source of another video codec."""
    return Case(name, ("-c:v", codec, *more, *sound), **others)


def audio(name: str, codec: str, *more: str, **others: Any) -> Case:
    """A source of another audio codec."""
    return Case(name, (*X264, "-c:a", codec, *more), **others)


def _run(ffmpeg: str, *arguments: str) -> None:
    subprocess.run([ffmpeg, "-v", "error", "-nostdin", "-y", *arguments], check=True, timeout=120)


def _clock(at_s: float) -> str:
    return f"00:00:{at_s:06.3f}".replace(".", ",")


def _copied(*before: str, after: tuple[str, ...] = ()) -> Callable[[str], tuple[str, ...]]:
    return lambda source: (*before, "-i", source, "-map", "0", "-c", "copy", *after)


def _with_clean_aperture(path: Path) -> None:
    """Hide a border of 40 pixels around 320×180."""
    with_box(path, path, b"clap", struct.pack(">IIIIiIiI", 320, 1, 180, 1, 0, 1, 0, 1))


def _late_sound(source: str) -> tuple[str, ...]:
    return ("-i", source, "-itsoffset", "0.6", "-i", source, "-map", "0:v", "-map", "1:a", "-c", "copy")


def _late_pictures(source: str) -> tuple[str, ...]:
    return ("-i", source, "-itsoffset", "0.6", "-i", source, "-map", "1:v", "-map", "0:a", "-c", "copy")


def _with_cover(source: str) -> tuple[str, ...]:
    cover = ("-f", "lavfi", "-i", "color=red:s=64x64:r=1:d=1")
    attached = ("-c", "copy", "-c:v:1", "mjpeg", "-disposition:v:1", "attached_pic")
    return ("-i", source, *cover, "-map", "0", "-map", "1", *attached)


def _with_he_aac(*options: str) -> Callable[[str], tuple[str, ...]]:
    """HE-AAC v2, which ffmpeg does not encode: parametric stereo of half the rate. Its encoder delays it."""
    sound = Path(__file__).with_name("he-aac-v2.aac")
    return lambda source: ("-i", source, "-i", str(sound), "-map", "0", "-map", "1", "-c", "copy", *options)


def _with_teletext(source: str) -> tuple[str, ...]:
    """Packets of three lines of subtitles each."""
    line = b"\x03\x2c\xf5\xe4" + b"\x15" * 42
    teletext = Path(f"{source}.teletext")
    teletext.write_bytes(12 * (b"\x10" + 3 * line))
    both = ("-i", source, "-f", "dvbtxt", "-i", str(teletext), "-map", "0", "-map", "1", "-c", "copy")
    return (*both, "-metadata:s:s:0", "language=ger")


def _with_second_video(source: str) -> tuple[str, ...]:
    other = ("-f", "lavfi", "-i", "color=red:s=160x90:r=25:d=2.4")
    return ("-i", source, *other, "-map", "0", "-map", "1", "-c", "copy", "-c:v:1", *X264[1:])


def _after_radio(source: str) -> tuple[str, ...]:
    """The second programme of a transport stream."""
    radio = ("-f", "lavfi", "-i", chart.sound(1, 2.4), "-i", source, "-map", "0", "-map", "1")
    return (*radio, "-c", "copy", "-c:a:0", "aac", "-program", "st=0", "-program", "st=1:st=2")


def _half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 4096)


def _as_ycgco(width: int) -> tuple[str, ...]:
    """A matrix that ffmpeg's filter `scale` refuses."""
    converted = f"scale={width}:-2,format=gbrp,zscale=matrix=ycgco:range=limited,format=yuv420p"
    return (*X264, "-vf", converted, *AAC)


_PCM = ("-c:a", "pcm_s16le")
_OPUS = ("-c:a", "libopus")
_MP2 = ("-c:a", "mp2")
_AC3 = ("-c:a", "ac3")
_AS_BT709 = (*X264, *_TAGS, "-vf", BT709, *AAC)
_BT601 = ("-color_primaries", "smpte170m", "-color_trc", "smpte170m", "-colorspace", "smpte170m")
_AS_BT601 = (*X264, *_BT601, "-vf", "scale=out_color_matrix=smpte170m:out_range=limited", *AAC)
_AS_PQ = (*X264, "-color_primaries", "bt2020", "-color_trc", "smpte2084", "-colorspace", "bt2020nc", *AAC)
_AS_THEY_ARE = ("-avoid_negative_ts", "disabled")
_LATE = ("-af", "asetpts=PTS+0.6/TB")
_SEI_ROTATION = ("-bsf:v", "h264_metadata=display_orientation=insert:rotate=90")
CUES = ((0.4, 1.2, "Guten Tag"), (1.4, 2.2, "Tom & Anna"))


def _d10(kbps: int, per_frame: int) -> tuple[str, ...]:
    """IMX: pictures of the same number of bits each."""
    bits = [f"{word}={kbps}k" for word in ("minrate", "maxrate", "b:v")]
    bits += [f"{word}={per_frame}" for word in ("bufsize", "rc_init_occupancy")]
    options = [*bits, "rc_buf_aggressivity=0.25", "qmin=1", "qmax=3", "ps=1", "dc=10", "intra_vlc=1", "g=1"]
    words = [part for option in options for part in f"-{option}".split("=")]
    coded = ("-c:v", "mpeg2video", "-pix_fmt", "yuv422p", "-flags", "+ildct+low_delay")
    return (*coded, *words, *_PCM, "-f", "mxf_d10")


_INTERLACED: dict[str, Any] = {"rate": "50", "published_rate": "25", "every": 2, "near": 1}

CASES = [
    # Containers
    Case("h264.mp4", quick=True),
    Case("h264.mov"),
    Case("h264.m4v"),
    Case("h264.mkv"),
    Case("h264.flv"),
    Case("h264.ts"),
    Case("h264.m2ts"),
    Case("h264.mts"),
    Case("h264.3gp"),
    Case("h264.f4v", (*X264, *AAC, "-f", "f4v")),
    Case("h264.avi", (*X264, "-bf", "0", "-c:a", "libmp3lame"), held=1),
    Case("fragmented.mp4", (*X264, *AAC, "-movflags", "frag_keyframe+empty_moov"), held=1),
    Case("b-frames.mp4", ("-c:v", "libx264", "-preset", "veryfast", "-bf", "3", "-pix_fmt", "yuv420p", *AAC)),
    # Its first pictures are decoded 17 frames before they are shown.
    Case(
        "b-frames-16.mkv",
        (
            *("-c:v", "libx264", "-preset", "veryfast", "-bf", "16", "-pix_fmt", "yuv420p"),
            *("-x264-params", "b-adapt=0:scenecut=0", *AAC),
        ),
    ),
    Case(
        "open-gop.ts",
        ("-c:v", "libx264", "-x264-params", "open-gop=1:keyint=20", "-pix_fmt", "yuv420p", *AAC),
    ),
    Case("h264.nut"),
    Case("wrap.ts", (*X264, *AAC, "-output_ts_offset", "95442.7", "-muxdelay", "0", "-muxpreload", "0")),
    Case("plain.y4m", ("-pix_fmt", "yuv420p", "-f", "yuv4mpegpipe"), sounds=(), languages=()),
    Case("plain.ivf", ("-c:v", "libvpx", "-b:v", "1M", "-pix_fmt", "yuv420p"), sounds=(), languages=()),
    Case('it\'s – 100 % "naïve" $HOME `x` [1]*?.mp4'),
    Case("日本語 🎬.mkv"),
    Case("-rf.mp4"),
    # Video codecs
    video("hevc.mp4", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=error"),
    video(
        "hevc-10.mkv",
        "libx265",
        "-preset",
        "ultrafast",
        "-pix_fmt",
        "yuv420p10le",
        "-x265-params",
        "log-level=error",
    ),
    video("av1.mp4", "libsvtav1", "-preset", "8", "-crf", "20", "-pix_fmt", "yuv420p"),
    video("vp8.webm", "libvpx", "-b:v", "1M", "-deadline", "realtime", "-pix_fmt", "yuv420p", sound=_OPUS),
    video(
        "vp9.webm",
        "libvpx-vp9",
        "-b:v",
        "1M",
        "-deadline",
        "realtime",
        "-pix_fmt",
        "yuv420p",
        sound=_OPUS,
    ),
    video(
        "vp9-444.webm",
        "libvpx-vp9",
        "-b:v",
        "1M",
        "-deadline",
        "realtime",
        "-pix_fmt",
        "yuv444p",
        sound=_OPUS,
    ),
    video("mpeg1.mpg", "mpeg1video", "-b:v", "2M", sound=_MP2),
    video("mpeg2.mpg", "mpeg2video", "-b:v", "2M", sound=_MP2),
    video("mpeg2.ts", "mpeg2video", "-b:v", "2M", sound=_MP2),
    video("mpeg2.vob", "mpeg2video", "-b:v", "2M", "-f", "vob", sound=("-c:a", "ac3")),
    video("mpeg2.wtv", "mpeg2video", "-b:v", "2M", sound=_MP2),
    video("mpeg2-422.mxf", "mpeg2video", "-b:v", "8M", "-pix_fmt", "yuv422p", sound=_PCM),
    video("mpeg4.avi", "mpeg4", "-q:v", "3", sound=("-c:a", "libmp3lame"), held=1),
    video("xvid.avi", "libxvid", "-q:v", "3", sound=("-c:a", "libmp3lame"), held=1),
    video("msmpeg4.avi", "msmpeg4", "-q:v", "3", sound=("-c:a", "libmp3lame"), held=1),
    video("wmv2.wmv", "wmv2", "-q:v", "3", sound=("-c:a", "wmav2")),
    video("wmv1.asf", "wmv1", "-q:v", "3", sound=("-c:a", "wmav1")),
    video("h263.3gp", "h263", "-q:v", "3", size="352x288", filters="setsar=12/11", shape=4 / 3),
    video("flv1.flv", "flv", "-q:v", "3", sound=("-c:a", "libmp3lame"), sound_rate=44100),
    video("theora.ogv", "libtheora", "-q:v", "8", sound=("-c:a", "libvorbis")),
    video("prores.mov", "prores_ks", "-pix_fmt", "yuv422p10le", sound=_PCM),
    video("prores-4444.mov", "prores_ks", "-profile:v", "4", "-pix_fmt", "yuv444p10le", sound=_PCM),
    video("dnxhr.mxf", "dnxhd", "-profile:v", "dnxhr_sq", "-pix_fmt", "yuv422p", sound=_PCM, filters=BT709),
    video("cineform.mov", "cfhd", "-pix_fmt", "yuv422p10le", sound=_PCM),
    video("mjpeg.avi", "mjpeg", "-q:v", "3", "-pix_fmt", "yuvj420p", sound=_PCM),
    video("mjpeg.mov", "mjpeg", "-q:v", "3", "-pix_fmt", "yuvj422p", sound=_PCM),
    video("jpeg2000.mov", "jpeg2000", sound=_PCM),
    video("ffv1.mkv", "ffv1", "-pix_fmt", "yuv420p", sound=("-c:a", "flac")),
    video("ffv1-16.mkv", "ffv1", "-pix_fmt", "yuv444p16le", sound=("-c:a", "flac")),
    video("huffyuv.avi", "huffyuv", "-pix_fmt", "yuv422p", sound=_PCM),
    video("utvideo-rgb.avi", "utvideo", "-pix_fmt", "gbrp", sound=_PCM),
    video("magicyuv.mkv", "magicyuv", "-pix_fmt", "gbrp", sound=_PCM),
    video("qtrle.mov", "qtrle", "-pix_fmt", "rgb24", sound=_PCM),
    video("png.mov", "png", "-pix_fmt", "rgb24", sound=_PCM),
    video("raw.avi", "rawvideo", "-pix_fmt", "bgr24", sound=_PCM),
    video("v210.mov", "v210", "-pix_fmt", "yuv422p10le", sound=_PCM),
    video("zmbv.avi", "zmbv", "-pix_fmt", "bgr0", sound=_PCM),
    video("flashsv.flv", "flashsv", "-pix_fmt", "bgr24", sound=("-c:a", "libmp3lame"), sound_rate=44100),
    video(
        "cinepak.mov", "cinepak", "-q:v", "1", sound=_PCM, size="160x96", seconds=1.6, shape=5 / 3, colours=40
    ),
    video("svq1.mov", "svq1", "-q:v", "1", sound=_PCM, size="320x176", shape=20 / 11, colours=25),
    video("rv20.rm", "rv20", "-q:v", "3", sound=("-c:a", "ac3"), size="320x176", shape=20 / 11),
    video("snow.mkv", "snow", "-q:v", "2", "-strict", "-2", sound=_PCM),
    video("dirac.mkv", "vc2", "-b:v", "20M", "-pix_fmt", "yuv422p", sound=_PCM, filters=BT709),
    video("dv.dv", "dvvideo", "-pix_fmt", "yuv420p", sound=_PCM, size="720x576", filters="setsar=64/45"),
    video(
        "dv-ntsc.avi",
        "dvvideo",
        "-pix_fmt",
        "yuv411p",
        sound=_PCM,
        size="720x480",
        rate="30000/1001",
        filters="setsar=32/27",
    ),
    video("vvc.mp4", "libvvenc", "-preset", "faster", "-pix_fmt", "yuv420p10le", seconds=1.6),
    Case(
        "imx.mxf",
        _d10(50_000, 2_000_000),
        size="720x576",
        filters="pad=720:608:0:32:red,setdar=16/9,setfield=tff",
    ),
    Case(
        "imx-ntsc.mxf",
        _d10(30_000, 1_001_000),
        size="720x486",
        rate="30000/1001",
        filters="pad=720:512:0:26:red,setdar=4/3,setfield=tff",
        shape=4 / 3,
    ),
    # Depth, sampling, range
    video("422.mp4", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv422p"),
    video("444-10.mp4", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv444p10le"),
    video("full-range.mp4", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuvj420p"),
    video("rgb.mkv", "libx264rgb", "-preset", "ultrafast", "-qp", "10", "-pix_fmt", "bgr24"),
    video("grey.mp4", "libx264", "-preset", "ultrafast", "-pix_fmt", "gray", colours=0),
    Case("bt709.mp4", (*X264, *_TAGS, *AAC), filters=BT709),
    Case("bt709-hd.mp4", (*X264, *AAC), filters=BT709, size="1280x720", seconds=1.6),
    Case(
        "alpha.mov",
        ("-c:v", "prores_ks", "-pix_fmt", "yuva444p10le", *_PCM),
        filters="format=gbrap",
        warnings=frozenset({"ALPHA_LEFT_OUT"}),
    ),
    # Sizes and shapes
    Case("odd.mkv", (*X264[:-1], "yuv444p", *AAC), size="321x181"),
    Case("tall.mp4", size="180x320", shape=9 / 16),
    Case("wide.mp4", size="640x160", shape=4),
    Case("square.mp4", size="240x240", shape=1),
    Case("anamorphic.mp4", size="240x180", filters="setsar=4/3"),
    Case("pal-wide.mkv", size="720x576", filters="setsar=64/45"),
    Case("rotated-90.mp4", filters="transpose=clock", remux=_copied("-display_rotation", "90"), quick=True),
    Case(
        "rotated-180.mov",
        filters="transpose=clock,transpose=clock",
        remux=_copied("-display_rotation", "180"),
    ),
    Case("rotated-270.mp4", filters="transpose=cclock", remux=_copied("-display_rotation", "270")),
    # Stated by key frames alone.
    Case("rotated-by-sei.ts", filters="transpose=clock", remux=_copied(after=_SEI_ROTATION)),
    Case(
        "clean-aperture.mp4",
        filters="pad=iw+80:ih+80:40:40:red",
        harm=_with_clean_aperture,
    ),
    Case(
        "cropped.mkv",
        filters="pad=iw+80:ih+40:40:20:red",
        # Of 400×224: the blocks of the codec.
        remux=_copied(
            after=("-bsf:v", "h264_metadata=crop_left=40:crop_right=40:crop_top=20:crop_bottom=24")
        ),
    ),
    Case("mirrored.mp4", filters="hflip", remux=_copied("-display_hflip")),
    Case("upside-down.mp4", filters="vflip", remux=_copied("-display_vflip")),
    Case("small.mp4", size="64x36", colours=25),
    # Fields
    Case(
        "fields.ts",
        ("-c:v", "mpeg2video", "-b:v", "4M", "-flags", "+ildct+ilme", *_MP2),
        filters="tinterlace=interleave_top,setfield=tff",
        **_INTERLACED,
    ),
    Case(
        "fields.mkv",
        (*X264, "-flags", "+ildct+ilme", "-x264opts", "tff=1", *AAC),
        filters="tinterlace=interleave_top,setfield=tff",
        **_INTERLACED,
    ),
    Case(
        "bottom-first.mov",
        ("-c:v", "prores_ks", "-flags", "+ildct", "-pix_fmt", "yuv422p10le", *_PCM),
        filters="tinterlace=interleave_bottom,setfield=bff",
        **_INTERLACED,
    ),
    # Rates and times
    Case("100.mp4", rate="100", published_rate="50", every=2, near=1),
    Case(
        "variable.mkv",
        (*X264, "-fps_mode", "vfr", *AAC),
        filters="select='lt(n\\,30)+not(mod(n\\,3))'",
        near=2,
    ),
    Case("edit-list.mp4", remux=_copied("-ss", "0.52"), from_s=0.52),
    Case(
        "edits.mp4",
        ("-c:v", "libx264", "-preset", "veryfast", "-bf", "3", "-pix_fmt", "yuv420p", *AAC),
        harm=lambda path: with_edits(path, (0.52, 1.52), (1.52, 2.4)),
        from_s=0.52,
    ),
    Case("late-sound.mp4", remux=_late_sound, sound_late_s=0.6),
    Case("late-sound.mkv", remux=_late_sound, sound_late_s=0.6),
    Case("late-pictures.mkv", remux=_late_pictures, sound_late_s=-0.6, held=15),
    # What changes midway
    Case("layout-changes.ts", (*X264, *_AC3), then=(*X264, *_AC3, "-ac", "6")),
    Case(
        "layout-changes-late.ts",
        (*X264, *_AC3, *_LATE),
        then=(*X264, *_AC3, "-ac", "6", *_LATE),
        sound_late_s=0.6,
    ),
    Case("tags-change.ts", _AS_BT709, then=_AS_BT601),
    Case("tagged-later.ts", (*X264, "-vf", BT709, *AAC), then=_AS_BT709, size="1280x720", seconds=1.6),
    Case("range-tagged-later.ts", then=(*X264, "-color_range", "tv", *AAC)),
    Case("tags-jump.ts", _AS_BT709, then=_AS_BT601, jump_s=100),
    Case("hdr-later.ts", _AS_BT709, then=_AS_PQ, warnings=frozenset({"COLOURS_CHANGE"}), colours=0),
    Case("size-changes.ts", _as_ycgco(320), then=_as_ycgco(160)),
    Case("range-changes.ts", then=(*X264[:-1], "yuvj420p", *AAC)),
    Case("depth-changes.ts", then=(*X264[:-1], "yuv420p10le", *AAC)),
    Case("codec-changes.ts", ("-c:v", "mpeg2video", *AAC), then=(*X264, *AAC), code="UNSUPPORTED"),
    Case("sound-codec-changes.ts", then=(*X264, *_AC3), code="UNSUPPORTED"),
    # One decoder has both.
    Case("eac3-later.ts", (*X264, *_AC3), then=(*X264, "-c:a", "eac3"), seconds=1.84),
    # Other streams
    Case("cover.mp4", remux=_with_cover),
    Case("two-videos.mkv", remux=_with_second_video, warnings=frozenset({"STREAMS_LEFT_OUT"})),
    Case("teletext.ts", remux=_with_teletext, warnings=frozenset({"SUBTITLES_LEFT_OUT"})),
    Case("programmes.ts", remux=_after_radio, warnings=frozenset({"STREAMS_LEFT_OUT"})),
    Case("timecode.mov", (*X264, *AAC, "-timecode", "01:00:00:00")),
    Case("text.mkv", text="srt", quick=True),
    Case("text-ass.mkv", text="ass"),
    Case("text.mp4", text="mov_text"),
    Case(
        "text.webm",
        ("-c:v", "libvpx", "-b:v", "1M", "-deadline", "realtime", "-pix_fmt", "yuv420p", *_OPUS),
        text="webvtt",
    ),
    Case("23.976.mp4", rate="24000/1001"),
    Case("24.mkv", rate="24"),
    Case("29.97.mp4", rate="30000/1001"),
    # Its times in ms are halfway between two frames at 29.97, so that they would be rounded both ways.
    Case("halfway.mkv", rate="30000/1001", remux=_copied("-itsoffset", "0.017", after=_AS_THEY_ARE)),
    Case("50.mp4", rate="50"),
    Case("59.94.ts", rate="60000/1001"),
    Case("15.mp4", rate="15"),
    Case("10.avi", (*X264, "-bf", "0", *_PCM), rate="10"),
    Case("5.mp4", rate="5"),
    Case("starts-late.ts", (*X264, *AAC, "-output_ts_offset", "5000"), quick=True),
    Case("no-delay.ts", (*X264, *AAC, "-muxdelay", "0", "-muxpreload", "0")),
    # Sound
    audio("mp3.mkv", "libmp3lame"),
    audio("mp2.mkv", "mp2"),
    audio("ac3.mkv", "ac3"),
    audio("eac3.mp4", "eac3"),
    audio("dts.mkv", "dca", "-strict", "-2"),
    audio("truehd.mkv", "truehd", "-strict", "-2"),
    audio("flac.mkv", "flac"),
    audio("alac.mov", "alac"),
    audio("vorbis.mkv", "libvorbis"),
    audio("opus.mkv", "libopus"),
    audio("wavpack.mkv", "wavpack"),
    audio("tta.mkv", "tta"),
    audio("pcm-24.mov", "pcm_s24le"),
    audio("pcm-f32.mov", "pcm_f32le"),
    audio("pcm-bluray.m2ts", "pcm_bluray"),
    audio("pcm-s302m.ts", "s302m", "-strict", "-2"),
    audio("adpcm.avi", "adpcm_ima_wav", "-bf", "0"),
    audio("alaw.mov", "pcm_alaw", sounds=("mono",), sound_rate=8000),
    audio("mono.mp4", "aac", sounds=("mono",)),
    audio("5.1.mkv", "ac3", sounds=("5.1",)),
    audio("7.1.mov", "pcm_s16le", sounds=("7.1",)),
    audio("quad.mkv", "flac", sounds=("quad",)),
    audio("96k.mkv", "flac", sound_rate=96000),
    audio("22k.mp4", "aac", sound_rate=22050),
    *(
        Case(name, X264, sounds=(), remux=_with_he_aac(*options), sound_late_s=0.148)
        for name, options in (("he.mp4", ()), ("he.ts", ()), ("he-latm.ts", ("-mpegts_flags", "latm")))
    ),
    Case("silent.mp4", X264, sounds=(), languages=()),
    Case(
        "languages.mkv",
        (
            *X264,
            *AAC,
            "-metadata:s:a:0",
            "language=ger",
            "-metadata:s:a:1",
            "language=eng",
            "-metadata:s:a:2",
            "language=fre",
        ),
        sounds=("stereo", "mono", "stereo"),
        languages=("de", "en", "fr"),
    ),
    Case(
        "languages.ts",
        (*X264, *AAC, "-metadata:s:a:0", "language=deu", "-metadata:s:a:1", "language=jpn"),
        sounds=("stereo", "stereo"),
        languages=("de", "ja"),
    ),
    # Sound alone
    # Sound alone
    Case("sound.mp3", ("-c:a", "libmp3lame"), pictures=False),
    Case("sound.m4a", AAC, pictures=False),
    Case("sound.flac", ("-c:a", "flac"), pictures=False),
    Case("sound.opus", _OPUS, pictures=False),
    # Refused
    Case("half.mp4", harm=_half, code="SOURCE_UNREADABLE"),
    Case("half.mkv", harm=_half, code="SOURCE_TRUNCATED", seconds=6),
    Case("garbage.mp4", harm=_garbage, code="NO_MEDIA"),
    Case("raw.h264", X264, sounds=(), code="UNSUPPORTED"),
    # A matrix of light in PQ or HLG, in SDR.
    Case("ictcp.mp4", (*X264, "-x264-params", "colormatrix=ictcp", *AAC), code="UNSUPPORTED"),
    Case(
        "encrypted.mp4",
        (
            *X264,
            *AAC,
            "-encryption_scheme",
            "cenc-aes-ctr",
            "-encryption_key",
            "76a6c65c5ea762046bd749a2e632ccbb",
            "-encryption_kid",
            "a7e61c373e219033c21091fa607bf3b8",
        ),
        code="UNSUPPORTED",
    ),
]

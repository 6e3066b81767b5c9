"""Makes a source of each kind, whose pictures are numbered and whose sound tracks differ in their tone."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from numbered_pictures import draw

_HDR = "setparams=color_primaries=bt2020:color_trc=smpte2084:colorspace=bt2020nc:range=tv"
_BT709 = "setparams=color_primaries=bt709:color_trc=bt709:colorspace=bt709:range=tv"
RISES_S = 2
"""How often a tone rises by itself in a source that is copied."""
_WORDS = ((0.4, 1.3), (3.2, 5.1), (6.6, 7.1))
"""From and to of each line of subtitles in seconds; the second lies in two segments."""


@dataclass(frozen=True)
class Sound:
    """One sound track: a tone.

    `late_s` is by how much it begins behind the pictures.
    """

    hertz: int
    label: str = "English"
    """Its name in the menu of a player."""
    language: str = "eng"
    disposition: str = "0"
    channels: int = 2
    late_s: float = 0


@dataclass(frozen=True)
class Text:
    """One track of subtitles; one with a `suffix` is a file beside the video, such as `.de.srt`."""

    language: str
    tag: str
    """As players name the language."""
    disposition: str = "0"
    suffix: str = ""


@dataclass(frozen=True)
class Kind:
    """A kind of package."""

    name: str
    fps: Fraction = Fraction(25)
    frames: int = 0
    size: str = "640x360"
    sounds: tuple[Sound, ...] = (Sound(440),)
    texts: tuple[Text, ...] = ()
    chapters: bool = False
    late_s: float = 0
    """By how much the pictures begin behind the sound."""
    noise: int = 30
    """So strong that the source is worth the bits of all qualities."""
    filters: str = "null"
    rungs: str = ""
    """Of the profile; empty for those of H.264."""
    settings: Mapping[str, str] = field(default_factory=dict)
    levels: tuple[tuple[int, str], ...] = ()
    """Short side and codec of what Chromium can play."""
    pictures: bool = True
    killed: bool = False
    """The worker that makes it is killed half-way."""
    encoding: tuple[str, ...] = ()
    """Options of the source's encoder; its largest quality is a copy then."""

    @property
    def copied(self) -> bool:
        """Whether the largest quality is a copy of the source's pictures."""
        return bool(self.encoding)

    @property
    def late(self) -> int:
        """For how many pictures the first one stands still."""
        return round(self.late_s * self.fps)

    @property
    def shown(self) -> int:
        """How many pictures a quality has."""
        return self.frames + self.late

    def can_be_decoded(self, channels: int) -> bool:
        """Whether Chromium can decode sound of so many channels."""
        return channels <= 2 or self.settings.get("audio.surround") != "eac3"

    def hertz(self, label: str) -> int:
        """The tone of the sound track with this name."""
        return next(sound.hertz for sound in self.sounds if sound.label == label)


def cues(text: Text) -> list[tuple[float, float, str]]:
    """From, to and words of each line."""
    return [(start, end, f"{text.language} {number}") for number, (start, end) in enumerate(_WORDS)]


def make(kind: Kind, ffmpeg: str, folder: Path) -> Path:
    """Encode a source and write the files beside it; returns its path."""
    seconds = float(kind.frames / kind.fps)
    ending = "mp4" if kind.copied else "mkv" if kind.pictures else "mka"
    source = folder / f"{kind.name}.{ending}"
    inputs, maps = [], []
    if kind.pictures:
        inputs = ["-itsoffset", f"{kind.late_s}", "-f", "lavfi", "-i"]
        inputs += [draw(kind.fps, seconds + 1)]
        maps = ["-map", "0:v"]
    count = int(kind.pictures)
    for number, sound in enumerate(kind.sounds):
        times = f"*(1+floor(t/{RISES_S}))" if kind.copied else ""
        tone = "|".join([f"0.2*sin(2*PI*{sound.hertz}{times}*t)"] * sound.channels)
        layout = {1: "mono", 2: "stereo", 6: "5.1"}[sound.channels]
        length = seconds + kind.late_s - sound.late_s
        inputs += ["-itsoffset", f"{sound.late_s}", "-f", "lavfi", "-i"]
        inputs += [f"aevalsrc={tone}:c={layout}:s=48000:d={length}"]
        maps += ["-map", f"{count}:a", f"-metadata:s:a:{number}", f"language={sound.language}"]
        maps += [f"-disposition:a:{number}", sound.disposition]
        count += 1
    within = [text for text in kind.texts if not text.suffix]
    for number, text in enumerate(within):
        inputs += ["-i", str(_subtitles(folder / f"{kind.name}-{number}.srt.txt", text))]
        maps += ["-map", f"{count}:s", f"-metadata:s:s:{number}", f"language={text.language}"]
        maps += [f"-disposition:s:{number}", text.disposition]
        count += 1
    for text in kind.texts:
        if text.suffix:
            _subtitles(source.with_suffix(text.suffix), text)
    if kind.chapters:
        chapters = folder / "chapters.txt"
        chapters.write_text(
            ";FFMETADATA1\n[CHAPTER]\nTIMEBASE=1/1\nSTART=0\nEND=4\ntitle=one\n"
            "[CHAPTER]\nTIMEBASE=1/1\nSTART=4\nEND=9\ntitle=two\n"
        )
        inputs += ["-i", str(chapters)]
        maps += ["-map_metadata", str(count)]
    size = kind.size.replace("x", ":")
    arguments = [*inputs, *maps, "-c:a", "aac" if kind.copied else "flac", "-c:s", "srt"]
    if kind.pictures:
        arguments += [
            "-vf",
            f"noise=alls={kind.noise}:allf=t,{kind.filters},scale={size}:flags=neighbor,setsar=1",
        ]
        arguments += ["-frames:v", str(kind.frames), "-c:v", "libx264"]
        arguments += kind.encoding or ["-preset", "ultrafast", "-g", "50"]
    subprocess.run(
        [ffmpeg, "-v", "error", "-nostdin", "-y", *arguments, f"file:{source}"], check=True, timeout=60
    )
    return source


def _subtitles(path: Path, text: Text) -> Path:
    def clock(seconds: float) -> str:
        return f"00:00:{int(seconds):02},{round(seconds % 1 * 1000):03}"

    entries = [f"{clock(start)} --> {clock(end)}\n{words}\n" for start, end, words in cues(text)]
    path.write_text("\n".join(f"{number}\n{entry}" for number, entry in enumerate(entries, 1)))
    return path


_H264 = ((360, "avc1"), (180, "avc1"), (120, "avc1"), (90, "avc1"))
_NTSC = Fraction(24000, 1001)
_LANGUAGES = (
    Sound(440, language="eng", disposition="default", channels=6),
    Sound(1000, "German", language="deu", channels=1),
    Sound(2000, "English (commentary)", language="eng", disposition="comment"),
)
_AV1 = '{ short_side = 360, maxrate_kbps = 500, codec = "av1", preset = "ultrafast" }'
_HEVC = '{ short_side = 360, maxrate_kbps = 600, codec = "hevc", preset = "ultrafast" }'
_NEAR = "0.7,1.9,4.3,5.0,6.6,6.9,8.8,10.9"
_SIX_S = {"video.segment_s": "6", "video.gop_s": "2"}
_SMALL = "{ short_side = 180, maxrate_kbps = 400 }"
_SMALL_AV1 = _AV1.replace("360", "180").replace("500", "250")


def _copied(name: str, keys: str, *encoding: str, fps: Fraction = Fraction(25), **changes: Any) -> Kind:
    """A source that fits the largest quality, with key frames at these times."""
    fixed = ("-preset", "veryfast", "-crf", "36", "-g", "160", "-sc_threshold", "0")
    options = (*fixed, "-force_key_frames", keys, *encoding)
    return Kind(name, fps=fps, levels=_H264, noise=12, filters=_BT709, encoding=options, **changes)


ALONE = Kind(
    "sound-alone",
    frames=160,
    sounds=(Sound(440, disposition="default"), Sound(1000, "German", language="deu")),
    pictures=False,
)
KINDS = {
    kind.name: kind
    for kind in (
        Kind("ladder", frames=337, levels=_H264, chapters=True),
        Kind(
            "film",
            fps=_NTSC,
            frames=250,
            sounds=_LANGUAGES,
            texts=(Text("fra", "fr"), Text("eng", "en", "forced"), Text("deu", "de", suffix=".de.srt")),
            settings={"audio.surround": "aac", "storyboard": "true"},
            levels=_H264,
        ),
        Kind("dolby", frames=160, sounds=_LANGUAGES, settings={"audio.surround": "eac3"}, levels=_H264),
        Kind("low-sound", frames=160, sounds=_LANGUAGES, settings={"audio.low_kbps": "48"}, levels=_H264),
        Kind("late-sound", frames=160, sounds=(Sound(440, late_s=2.7),), levels=_H264),
        Kind("late-picture", frames=110, late_s=3.72, levels=_H264),
        Kind("no-sound", fps=Fraction(30000, 1001), frames=181, sounds=(), levels=_H264),
        Kind("one-segment", frames=21, levels=_H264),
        Kind("short-end", frames=301, settings=_SIX_S, levels=_H264),
        Kind("short-end-alone", frames=151, settings=_SIX_S, levels=_H264),
        Kind("portrait", fps=Fraction(50), frames=233, size="180x320", levels=_H264[1:]),
        Kind("av1", frames=160, rungs=f"{_AV1}, {_SMALL_AV1}", levels=((360, "av01"), (180, "av01"))),
        Kind("mixed", frames=160, rungs=f"{_HEVC}, {_AV1}, {_SMALL}", levels=((360, "av01"), (180, "avc1"))),
        Kind(
            "hdr",
            frames=130,
            noise=12,
            filters=f"format=yuv420p10le,{_HDR}",
            rungs=f"{_HEVC[:-2]}, hdr = true }}, {_AV1[:-2]}, hdr = true }}, {_SMALL}, {_SMALL_AV1}",
            levels=((360, "av01"), (180, "avc1"), (180, "av01")),
        ),
        Kind("resumed", frames=337, levels=_H264, killed=True),
        _copied(
            "copied", "1.3,4.1,9.4,15.8,16.2,22.1,27.9", "-b-pyramid", "none", frames=750, settings=_SIX_S
        ),
        _copied("copied-plain", _NEAR, "-bf", "0", frames=301, settings={"video.preset": "veryfast"}),
        _copied("copied-reordered", _NEAR, "-bf", "4", "-b-pyramid", "strict", fps=_NTSC, frames=289),
    )
}

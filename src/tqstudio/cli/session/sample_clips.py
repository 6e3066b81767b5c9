"""Creates the sample clips of `demo` with ffmpeg's test sources."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from tqstudio import path_checks
from tqstudio.drill.clips import generate, write


@dataclass(frozen=True, slots=True)
class SampleClip:
    """A clip: a picture and a tone."""

    name: str
    picture: str
    """A lavfi source with size and rate."""
    tone_hz: int
    seconds: int


LIFE = (
    "life=size={size}:rate=24:mold=20:ratio=0.15:seed=4:death_color=#203050:life_color=#ffd166"
    ":mold_color=#1b3a4b,scale=iw*8:ih*8:flags=neighbor"
)
CLIPS = (
    SampleClip("test card 720p29.97.mp4", "testsrc2=size=1280x720:rate=30000/1001", 440, 7),
    SampleClip("mandelbrot portrait.mp4", "mandelbrot=size=480x854:rate=30:maxiter=200", 660, 6),
    SampleClip("gradients 360p25.mp4", "gradients=size=640x360:rate=25:speed=0.02:seed=7", 330, 6),
)
WIDE = SampleClip("life in cinema width.mp4", LIFE.format(size="160x68"), 550, 9)

FILM = "four scenes.mkv"
"""The clip that is watched while it is transcoded."""
_SCENE_S = 4
_SCENES = {
    "Mandelbrot set": "mandelbrot=size=1280x720:rate=24:maxiter=300:start_scale=1.6:end_pts=200",
    "Game of life": LIFE.format(size="160x90"),
    "Spiral of colours": "gradients=size=640x360:rate=24:n=6:type=spiral:speed=0.03:seed=7,scale=1280:720",
    "Rule 110": "cellauto=size=160x90:rate=24:rule=110:scroll=1:random_seed=3,scale=1280:720:flags=neighbor"
    ",format=rgb24,colorchannelmixer=rr=0.2:gg=0.7:bb=0.9",
}
_ROUND_S = _SCENE_S * len(_SCENES)
_CHORDS = "+".join(f"0.1*sin(2*PI*t*({hz}+49*floor(t/{_SCENE_S})))" for hz in (196, 247))
_SOUNDS = {"eng": f"aevalsrc={_CHORDS}:sample_rate=48000", "deu": "sine=220:beep_factor=4:sample_rate=48000"}
_WATCHED_S = 50
"""How long the encode of the film takes by itself; beside the other clips it takes longer."""
_FILM_S = (32, 400)
"""Least and greatest length of the film."""
_MEASURED_S = 4


def create(clip: SampleClip, folder: Path, ffmpeg: str) -> Path:
    """Create a clip in `folder` unless it exists; returns its path. Raises as `clips.generate`."""
    tone = f"sine={clip.tone_hz}:sample_rate=48000"
    return generate(folder / clip.name, clip.picture, tone, ("-t", str(clip.seconds)), ffmpeg)


def create_film(folder: Path, ffmpeg: str) -> Path:
    """Create the film in `folder` unless it exists; returns its path. Raises as `clips.generate`.

    Its scenes are encoded once and repeated, so that a long film costs little; it is as long as this machine
    encodes in `_WATCHED_S`. It has chapters, subtitles, and sound in two languages.
    """
    film = folder / FILM
    if path_checks.is_file(film):
        return film
    scenes = _create_scenes(folder / "scenes.mkv", ffmpeg)
    seconds = max(_FILM_S[0], min(_FILM_S[1], _WATCHED_S * _speed(scenes, ffmpeg)))
    rounds = round(seconds / _ROUND_S)
    titles = folder / "titles.srt"
    chapters = folder / "chapters.txt"
    shown = [*_SCENES] * rounds
    titles.write_text("\n".join(_subtitle(number, name) for number, name in enumerate(shown)))
    chapters.write_text(";FFMETADATA1\n" + "".join(map(_chapter, range(rounds))))
    options = (
        *("-stream_loop", str(rounds - 1), "-i", str(scenes), "-i", str(titles), "-i", str(chapters)),
        *("-map", "0", "-map", "1", "-map_metadata", "2", "-map_chapters", "2", "-c", "copy"),
        *("-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=deu"),
        *("-metadata:s:s:0", "language=eng", "-f", "matroska"),
    )
    write(film, options, ffmpeg)
    for part in (scenes, titles, chapters):
        part.unlink()
    return film


def _create_scenes(target: Path, ffmpeg: str) -> Path:
    sources = [("-f", "lavfi", "-t", str(_SCENE_S), "-i", source) for source in _SCENES.values()]
    sources += [("-f", "lavfi", "-t", str(_ROUND_S), "-i", sound) for sound in _SOUNDS.values()]
    count = len(_SCENES)
    each = "".join(f"[{at}:v]format=yuv420p,setsar=1[v{at}];" for at in range(count))
    joined = "".join(f"[v{at}]" for at in range(count)) + f"concat=n={count}[v]"
    sounds = [word for at in range(len(_SOUNDS)) for word in ("-map", f"{count + at}:a")]
    codecs = ("-c:v", "libx264", "-preset", "ultrafast", "-crf", "24", "-c:a", "aac", "-b:a", "96k")
    inputs = [word for source in sources for word in source]
    return write(target, (*inputs, "-filter_complex", each + joined, "-map", "[v]", *sounds, *codecs), ffmpeg)


def _speed(clip: Path, ffmpeg: str) -> float:
    """How many seconds of a clip this machine encodes in a second, in the qualities of the profile `fast`."""
    scaled = "[0:v]split=3[a][b][c];[b]scale=-2:480[d];[c]scale=-2:360[e]"
    outputs = ("-map", "[a]", "-map", "[d]", "-map", "[e]", "-c:v", "libx264", "-preset", "veryfast")
    began = time.monotonic()
    options = ("-t", str(_MEASURED_S), "-i", str(clip), "-filter_complex", scaled, *outputs, "-f", "matroska")
    write(clip.with_name("measured.mkv"), options, ffmpeg).unlink()
    return _MEASURED_S / (time.monotonic() - began)


def _subtitle(number: int, name: str) -> str:
    begin = number * _SCENE_S
    return f"{number + 1}\n{_clock(begin)},000 --> {_clock(begin + _SCENE_S - 1)},500\n{name}\n"


def _chapter(number: int) -> str:
    begin = number * _ROUND_S
    return f"[CHAPTER]\nTIMEBASE=1/1\nSTART={begin}\nEND={begin + _ROUND_S}\ntitle=Round {number + 1}\n"


def _clock(seconds: int) -> str:
    return f"00:{seconds // 60:02d}:{seconds % 60:02d}"


def drop(clip: Path, folder: Path) -> Path:
    """Copy a clip into a drop folder as an upload should: under a temporary name, then renamed."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / clip.name
    if not path_checks.is_there(target):
        unfinished = folder / f".{clip.name}.part"
        shutil.copyfile(clip, unfinished)
        os.replace(unfinished, target)
    return target

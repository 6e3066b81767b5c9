"""What is made covers the source from its first picture or sound to its last, each at its time."""

from __future__ import annotations

import io
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import av
import pytest

from numbered_pictures import draw
from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.ffmpeg.binary import FFmpeg

from .conftest import MakeEncode, run_ffmpeg, run_to_end
from .corpus import pictures

SECONDS = 7
# 0.1 s of a tone at every full second but the first.
_BEEPS = "aevalsrc='if(lt(mod(t,1),0.1)*gt(t,0.5),sin(2*PI*1000*t),0)':s=48000"

Run = Callable[..., None]


@dataclass(frozen=True)
class Made:
    """What players find, on a clock that begins with the first of it."""

    pictures: dict[int, float]
    """The number that is shown → when it is first shown."""
    video: tuple[float, float]
    beeps: list[float]
    audio: tuple[float, float] | None


def read(encode: LadderEncode) -> Made:
    """Decode what an encode has stored."""
    assert encode.state == "done", encode.error
    streams = {state.name: state for state in encode.renditions}
    video = next(s for s in streams.values() if s.kind == "video")
    sound = next((s for s in streams.values() if s.kind == "audio"), None)
    content = joined(video.directory)
    with av.open(io.BytesIO(content)) as container:
        base = container.streams.video[0].time_base
        length = [float((p.pts + p.duration) * base) for p in container.demux() if p.size]
    numbered = [(float(pts * base), number) for pts, number in pictures(content)]
    shown: dict[int, float] = {}
    for at, number in numbered:
        shown.setdefault(number, at - 10)
    beeps, audio = hear(joined(sound.directory)) if sound else ([], None)
    return Made(shown, (numbered[0][0] - 10, max(length) - 10), beeps, audio)


def hear(content: bytes) -> tuple[list[float], tuple[float, float]]:
    """When each beep begins, and the time that the sound covers."""
    found, loud, times = [], False, []
    with av.open(io.BytesIO(content)) as container:
        for frame in container.decode(audio=0):
            samples = array("f", bytes(frame.planes[0])[: frame.samples * 4])
            begins = float(frame.pts * frame.time_base) - 10
            times += [begins, begins + frame.samples / frame.sample_rate]
            for at in range(0, len(samples) - 47, 48):
                was, loud = loud, max(samples[at : at + 48]) > 0.2
                if loud and not was:
                    found.append(begins + at / frame.sample_rate)
    return found, (min(times), max(times))


def joined(directory: Path) -> bytes:
    return b"".join(
        (directory / name).read_bytes()
        for name in ("init.mp4", *sorted(path.name for path in directory.glob("seg_*.m4s")))
    )


@pytest.fixture(scope="session")
def clips(ffmpeg: FFmpeg, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Clips with numbered pictures and a beep at every full second, put together in many ways."""
    folder = tmp_path_factory.mktemp("range")

    def run(*arguments: str) -> None:
        run_ffmpeg(ffmpeg, *arguments)

    plain = folder / "plain.mp4"
    run(
        *("-f", "lavfi", "-i", draw(25, SECONDS)),
        *("-f", "lavfi", "-i", f"{_BEEPS}:d={SECONDS}", "-c:v", "libx264", "-preset", "ultrafast"),
        *("-g", "25", "-pix_fmt", "yuv420p", "-c:a", "aac", "-ac", "2", str(plain)),
    )

    def make(name: str) -> Path:
        path = folder / name
        if not path.exists():
            _RECIPES[name](run, str(plain), str(path))
        return path

    return make


def _late(seconds: float) -> Callable[[Run, str, str], None]:
    def make(run: Run, plain: str, path: str) -> None:
        run("-i", plain, "-c", "copy", "-output_ts_offset", f"{seconds}", path)

    return make


def _apart(video_s: float = 0, sound_s: float = 0) -> Callable[[Run, str, str], None]:
    def make(run: Run, plain: str, path: str) -> None:
        run(
            *("-itsoffset", f"{video_s}", "-i", plain, "-itsoffset", f"{sound_s}", "-i", plain),
            *("-map", "0:v", "-map", "1:a", "-c", "copy", path),
        )

    return make


def _one_picture(run: Run, plain: str, path: str) -> None:
    one = f"{path}.one.mp4"
    run("-i", plain, "-an", "-frames:v", "1", "-c", "copy", one)
    run("-i", one, "-i", plain, "-map", "0:v", "-map", "1:a", "-c", "copy", path)


def _frozen_end(run: Run, plain: str, path: str) -> None:
    run("-i", plain, "-vf", "select='lt(n,75)'", "-fps_mode", "vfr", "-c:a", "copy", path)


def _avi(run: Run, plain: str, path: str) -> None:
    run("-i", plain, "-c:v", "libx264", "-bf", "2", "-preset", "veryfast", "-c:a", "pcm_s16le", path)


def _late_fragments(run: Run, plain: str, path: str) -> None:
    """A CMAF piece: its fragments begin late, and nothing in front of them says so."""
    folder = Path(f"{path}.parts")
    folder.mkdir()
    run(
        *("-i", plain, "-c", "copy", "-output_ts_offset", "90", "-f", "hls", "-hls_time", "60"),
        *("-hls_segment_type", "fmp4", "-hls_segment_options", "movflags=+frag_discont"),
        *("-hls_segment_filename", f"{folder}/%d.m4s", f"{folder}/index.m3u8"),
    )
    Path(path).write_bytes((folder / "init.mp4").read_bytes() + (folder / "0.m4s").read_bytes())


def _cut(run: Run, plain: str, path: str) -> None:
    """A recording that begins in the middle of a GOP."""
    whole = f"{path}.whole.ts"
    run("-i", plain, "-c:v", "libx264", "-bf", "2", "-g", "100", "-c:a", "copy", whole)
    content = Path(whole).read_bytes()
    Path(path).write_bytes(content[len(content) // 188 // 10 * 188 :])


def _jump(run: Run, plain: str, path: str) -> None:
    """Two pieces with clocks of their own; the sound of the first ends before its picture."""
    parts = []
    for name, options in (
        ("a", ("-t", "3", "-i", plain, "-t", "2.55", "-i", plain)),
        ("b", ("-ss", "3", "-i", plain, "-ss", "3", "-i", plain)),
    ):
        part = f"{path}.{name}.ts"
        clock = "0" if name == "a" else "5000"
        run(
            *(*options, "-map", "0:v", "-map", "1:a", "-c:v", "libx264", "-preset", "ultrafast", "-g", "25"),
            *("-c:a", "aac", "-output_ts_offset", clock, "-f", "mpegts", part),
        )
        parts.append(Path(part).read_bytes())
    Path(path).write_bytes(b"".join(parts))


_RECIPES: dict[str, Callable[[Run, str, str], None]] = {
    "late78.ts": _late(78),
    "late300.ts": _late(300),
    "late.mkv": _late(78),
    "late.flv": _late(78),
    "late.f4v": _late(78),
    "late.mpg": lambda run, plain, path: run(
        "-i", plain, "-c:v", "mpeg2video", "-q:v", "3", "-c:a", "mp2", "-output_ts_offset", "900", path
    ),
    "late-fragments.mp4": _late_fragments,
    "late-sound.mp4": _apart(sound_s=1.5),
    "late-sound.ts": _apart(sound_s=1.5),
    "late-sound.mkv": _apart(sound_s=1.5),
    "late-picture.mp4": _apart(video_s=1.5),
    "late-picture.ts": _apart(video_s=1.5),
    "late-picture.mkv": _apart(video_s=1.5),
    "half-rate.ts": lambda run, plain, path: run(
        "-i", plain, "-vf", "fps=12.5", "-c:v", "libx264", "-c:a", "copy", path
    ),
    "lost-sound.mkv": lambda run, plain, path: run(
        "-i", plain, "-c", "copy", "-bsf:a", "noise=drop='eq(mod(n,47),23)'", path
    ),
    "cut.ts": _cut,
    "jump.ts": _jump,
    "dropped.avi": lambda run, plain, path: run(
        *("-i", plain, "-vf", "select='not(eq(mod(n,11),5))'", "-fps_mode", "vfr", "-c:v", "mjpeg"),
        *("-q:v", "2", "-c:a", "pcm_s16le", path),
    ),
    "slow.mp4": lambda run, plain, path: run(
        *("-i", plain, "-vf", "select='not(mod(n,25))'", "-fps_mode", "vfr", "-c:v", "libx264"),
        *("-c:a", "copy", path),
    ),
    "one-picture.mp4": _one_picture,
    "one-picture.mkv": _one_picture,
    "one-picture.ts": _one_picture,
    "frozen-end.mp4": _frozen_end,
    "reordered.avi": _avi,
}

NAMES = [name for name in _RECIPES if name.startswith(("late", "reordered"))]
QUICK = ("late78.ts", "late.mpg", "late-fragments.mp4", "late-sound.ts", "late-picture.mkv", "reordered.avi")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.more) for name in NAMES]
)
def test_pictures_and_sound_keep_their_times(
    name: str, clips: Callable[[str], Path], encode: MakeEncode
) -> None:
    encoded = encode(clips(name))
    run_to_end(encoded)
    made = read(encoded)
    # None was made twice.
    assert sorted(run.label for run in encoded.runs if run.label != "poster") == ["audio-und", "video-90p"]
    # Every picture of the source is shown, each at its time from the first.
    assert sorted(made.pictures)[:1] + sorted(made.pictures)[-1:] == [0, SECONDS * 25 - 1]
    late_s = 1.5 if "late-picture" in name else 0
    sound_late_s = 1.5 if "late-sound" in name else 0
    # Picture 0 is held in front where the sound begins first.
    times = {number: at for number, at in made.pictures.items() if number}
    assert times == pytest.approx({number: number / 25 + late_s for number in times}, abs=0.021)
    assert len(times) == SECONDS * 25 - 1
    # A beep at every full second, heard with the picture of that second.
    beeps = [second + sound_late_s for second in range(1, SECONDS)]
    assert made.beeps == pytest.approx(beeps, abs=0.025)
    # All begins and ends together.
    assert made.audio is not None
    assert made.video[0] == pytest.approx(0, abs=0.001)
    assert made.audio[0] == pytest.approx(0, abs=0.06)
    assert made.video[1] == pytest.approx(SECONDS + 1.5 * bool(late_s or sound_late_s), abs=0.061)
    assert made.audio[1] == pytest.approx(made.video[1], abs=0.08)


@pytest.mark.parametrize(
    "name",
    [
        "half-rate.ts",
        "lost-sound.mkv",
        pytest.param("dropped.avi", marks=pytest.mark.slow),
        pytest.param("slow.mp4", marks=pytest.mark.slow),
    ],
)
def test_every_picture_is_shown_and_every_beep_heard_at_its_time(
    name: str, clips: Callable[[str], Path], encode: MakeEncode
) -> None:
    source = clips(name)
    encoded = encode(source)
    run_to_end(encoded)
    made = read(encoded)
    numbers = [number for _, number in pictures(source.read_bytes())]
    assert sorted(made.pictures) == numbers
    assert made.pictures == pytest.approx({number: number / 25 for number in numbers}, abs=0.041)
    first = made.pictures[0]
    assert made.beeps == pytest.approx([first + second for second in range(1, SECONDS)], abs=0.04)


def test_a_recording_that_begins_within_a_gop(clips: Callable[[str], Path], encode: MakeEncode) -> None:
    encoded = encode(clips("cut.ts"))
    run_to_end(encoded)
    made = read(encoded)
    # The second GOP is the first that can be decoded; every beep is heard with its picture.
    assert sorted(made.pictures)[-75:] == list(range(100, 175))
    at = {number: when for number, when in made.pictures.items() if number > 100}
    for second, beep in zip(range(5, SECONDS), made.beeps[-2:], strict=True):
        assert beep == pytest.approx(at[second * 25], abs=0.025)


def test_sound_stays_with_the_picture_across_a_jump(clips: Callable[[str], Path], encode: MakeEncode) -> None:
    encoded = encode(clips("jump.ts"))
    run_to_end(encoded)
    made = read(encoded)
    assert sorted(made.pictures) == list(range(175))
    for beep, second in zip(made.beeps[-3:], (4, 5, 6), strict=True):
        assert beep == pytest.approx(made.pictures[second * 25], abs=0.035)


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "shown"),
    [("one-picture.mp4", 1), ("one-picture.mkv", 1), ("one-picture.ts", 1), ("frozen-end.mp4", 75)],
)
def test_the_last_picture_is_held_while_there_is_sound(
    name: str, shown: int, clips: Callable[[str], Path], encode: MakeEncode
) -> None:
    encoded = encode(clips(name))
    run_to_end(encoded)
    made = read(encoded)
    assert sorted(run.label for run in encoded.runs if run.label != "poster") == ["audio-und", "video-90p"]
    assert made.pictures == pytest.approx({number: number / 25 for number in range(shown)}, abs=0.001)
    assert made.video == pytest.approx((0, SECONDS), abs=0.041)
    assert made.beeps == pytest.approx(range(1, SECONDS), abs=0.025)
    assert made.audio == pytest.approx((0, SECONDS), abs=0.06)

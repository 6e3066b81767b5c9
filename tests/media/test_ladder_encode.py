"""Whole encodes with the real ffmpeg, read back frame by frame."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import psutil
import pytest

from pacing import paced_ffmpeg
from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.values import RenditionState
from tqstudio.engine.media.ffmpeg.binary import FFmpeg, locate
from tqstudio.engine.media.plan.file_names import segment_name
from tqstudio.engine.media.plan.profiles import Profile, RungSpec
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.errors import ErrorCode

from .conftest import MakeClip, MakeEncode, leave, pids_of, run_ffmpeg, run_to_end


def video_of(encode: LadderEncode) -> list[RenditionState]:
    return [state for state in encode.renditions if state.kind == "video"]


def decoded(state: RenditionState, tmp_path: Path) -> tuple[int, set[Fraction], tuple[int, int]]:
    """(frames, distances between them, size) of a stored stream, decoded as a player would."""
    names = SegmentStore(state.directory).listing()
    joined = tmp_path / f"{state.name}.mp4"
    joined.write_bytes(b"".join((state.directory / name).read_bytes() for name in ("init.mp4", *names)))
    with av.open(str(joined)) as container:
        stream = container.streams.video[0]
        times = [frame.pts * frame.time_base for frame in container.decode(stream)]
        size = (stream.codec_context.width, stream.codec_context.height)
        assert stream.codec_context.pix_fmt == "yuv420p"
        assert (stream.codec_context.profile or "").endswith("High")
    return len(times), {later - earlier for earlier, later in pairwise(times)}, size


@pytest.mark.parametrize(
    ("name", "fps", "frames"),
    [
        pytest.param("24.mp4", "24", 120, marks=pytest.mark.slow),
        ("29.mkv", "30000/1001", 150),
        pytest.param("25.ts", "25", 125, marks=pytest.mark.slow),
    ],
)
def test_every_frame_of_every_rendition(
    clip: MakeClip, encode: MakeEncode, tmp_path: Path, name: str, fps: str, frames: int
) -> None:
    made = encode(clip(name, fps=fps, seconds=5))
    new = run_to_end(made)
    assert (made.state, made.error, made.warnings) == ("done", None, [])
    assert made.fraction == 1.0
    for state in video_of(made):
        count, steps, _ = decoded(state, tmp_path)
        assert (count, steps) == (frames, {1 / Fraction(fps)})
        assert state.check is not None
        assert state.check.frames == frames
        assert state.segments_done == state.segments_total == 3
    assert [name for rendition, name in new if rendition == "144p"] == [segment_name(k) for k in range(3)]
    audio = made.renditions[-1]
    assert (audio.name, audio.status) == ("audio-und", "completed")
    assert audio.check is not None
    assert audio.check.codecs == "mp4a.40.2"
    assert audio.check.duration_s == pytest.approx(5, abs=0.1)
    assert made.side.poster is not None
    assert made.side.poster.read_bytes()[:2] == b"\xff\xd8"
    assert made.side.poster_s > 0
    # What was moved into the store is not left behind.
    assert [path.name for path in made.side.poster.parent.iterdir()] == ["poster.jpg"]


@pytest.mark.slow
def test_variable_rate_becomes_constant(clip: MakeClip, encode: MakeEncode, tmp_path: Path) -> None:
    source = clip(
        "vfr.mp4",
        fps="60",
        filters="select='not(mod(n,3))+lt(mod(n,200),60)'",
        options=("-fps_mode", "vfr"),
        audio=0,
    )
    made = encode(source)
    run_to_end(made)
    assert made.state == "done"
    for state in video_of(made):
        count, steps, _ = decoded(state, tmp_path)
        assert steps == {Fraction(1, 60)}
        assert count == pytest.approx(240, abs=3)


@pytest.mark.slow
def test_turned_ten_bit_interlaced_late_and_silent(
    clip: MakeClip, encode: MakeEncode, small: Profile, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    one = replace(small, rungs=(RungSpec(90, 120),))
    turned = tmp_path / "turned.mp4"
    run_ffmpeg(ffmpeg, "-display_rotation", "90", "-i", str(clip("plain25.mp4")), "-c", "copy", str(turned))
    late = tmp_path / "late.mkv"
    plain = str(clip("plain25.mp4"))
    run_ffmpeg(
        ffmpeg,
        "-itsoffset",
        "2",
        "-i",
        plain,
        "-i",
        plain,
        "-map",
        "0:v",
        "-map",
        "1:a",
        "-c",
        "copy",
        str(late),
    )
    interlaced = clip(
        "interlaced.mp4",
        filters="tinterlace=interleave_top,setfield=tff",
        video=("-c:v", "libx264", "-preset", "ultrafast", "-flags", "+ildct+ilme"),
        audio=0,
    )
    deep = clip("deep.mkv", filters="format=yuv420p10le", audio=0)
    for source, size in ((turned, (90, 160)), (late, (160, 90)), (interlaced, (160, 90)), (deep, (160, 90))):
        made = encode(source, one, content_id=source.name, poster=False)
        run_to_end(made)
        assert (source.name, made.state, made.error) == (source.name, "done", None)
        count, steps, made_size = decoded(video_of(made)[0], tmp_path)
        assert (count, made_size) == (made.spec.grid.total_frames, size)
        assert steps == {1 / made.spec.facts.video.fps}


def audio_of(made: LadderEncode, tmp_path: Path) -> tuple[int, float]:
    """Channels of the published audio, and its highest sample, decoded; 1 is full scale."""
    [state] = [state for state in made.renditions if state.kind == "audio"]
    whole = tmp_path / f"{state.stream_key}.mp4"
    parts = [state.directory / "init.mp4", *sorted(state.directory.glob("*.m4s"))]
    whole.write_bytes(b"".join(part.read_bytes() for part in parts))
    peak = 0.0
    with av.open(str(whole)) as container:
        context = container.streams.audio[0].codec_context
        for frame in container.decode(audio=0):
            for plane in frame.planes:
                samples = array("f", bytes(plane)[: frame.samples * 4])
                peak = max(peak, -min(samples), max(samples))
        assert context.sample_rate == 48000
        return context.channels, peak


def test_mono_stays_mono(clip: MakeClip, encode: MakeEncode, small: Profile, tmp_path: Path) -> None:
    made = encode(clip("mono.mp4", seconds=2, audio=1), replace(small, rungs=(RungSpec(90, 120),)))
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    assert audio_of(made, tmp_path)[0] == 1


@pytest.mark.parametrize("layout", ["5.1", "7.1"])
def test_several_channels_are_mixed_down_without_clipping(
    encode: MakeEncode, small: Profile, ffmpeg: FFmpeg, tmp_path: Path, layout: str
) -> None:
    source = tmp_path / "surround.mov"
    every = "|".join(["0.99*sin(440*2*PI*t)"] * (6 if layout == "5.1" else 8))
    run_ffmpeg(
        ffmpeg,
        *("-f", "lavfi", "-i", "testsrc2=s=160x90:r=25:d=3"),
        *("-f", "lavfi", "-i", f"aevalsrc={every}:c={layout}:s=48000:d=3"),
        *("-c:v", "mpeg4", "-c:a", "pcm_s16le", str(source)),
    )
    made = encode(source, replace(small, rungs=(RungSpec(90, 120),)), poster=False)
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    channels, peak = audio_of(made, tmp_path)
    assert channels == 2
    assert 0.5 < peak <= 10 ** (-1 / 20), "-1 dBFS"


@pytest.mark.parametrize(
    "name",
    [
        b"-y.mp4",
        b"%03d.mp4",
        *(
            pytest.param(name, marks=pytest.mark.more)
            for name in (b"a b'c\"d.mp4", b"\xc3\xa9\n.mp4", b"[red]x.mp4")
        ),
        b"caf\xe9.mp4",
    ],
)
def test_any_name(clip: MakeClip, encode: MakeEncode, small: Profile, tmp_path: Path, name: bytes) -> None:
    folder = tmp_path / "%d in"
    folder.mkdir()
    source = os.fsencode(folder) + b"/" + name
    shutil.copy(os.fsencode(clip("tiny.mp4", seconds=1)), source)
    before = os.stat(source)
    made = encode(source, replace(small, rungs=(RungSpec(90, 120),)))
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    assert video_of(made)[0].check is not None
    after = os.stat(source)
    assert (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)


def test_what_is_finished_is_not_made_again(clip: MakeClip, encode: MakeEncode) -> None:
    source = clip("24.mp4", fps="24", seconds=5)
    run_to_end(encode(source))
    again = encode(source, poster=False)
    again.start()
    assert again.state == "done"
    assert again.runs == []
    assert all(state.status == "completed" and state.fraction == 1.0 for state in again.renditions)


@pytest.mark.slow
def test_a_killed_encode_leaves_whole_segments_and_resumes(
    clip: MakeClip, encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    source = clip("long.mp4", seconds=30)
    pace = tmp_path / "pace"
    pace.write_text("6")
    paced = locate(str(paced_ffmpeg(tmp_path / "ffmpeg", ffmpeg.path, pace)))
    first = encode(source, poster=False, ffmpeg=paced)
    run_to_end(first, until=lambda: all(state.segments_done >= 2 for state in video_of(first)))
    pids = pids_of(first)
    before = [state.fraction for state in video_of(first)]
    first.kill()
    assert first.state == "killed"
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    stored = SegmentStore(video_of(first)[0].directory)
    kept = {name: (stored.root / name).stat().st_mtime_ns for name in stored.listing()}
    init = stored.init_path.read_bytes()
    assert len(kept) >= 2

    second = encode(source, poster=False)
    second.start()
    assert [state.fraction >= 0.06 for state in video_of(second)] == [True, True]
    assert before
    new = run_to_end(second)
    assert (second.state, second.error) == ("done", None)
    resumed_from = next(run.resumed_from for run in second.runs if run.label == "video")
    assert resumed_from >= 1
    # Nothing that was there is touched, and the seam cannot be seen.
    assert not [name for rendition, name in new if rendition == "144p" and name in kept]
    assert {name: (stored.root / name).stat().st_mtime_ns for name in kept} == kept
    assert stored.init_path.read_bytes() == init
    for state in video_of(second):
        assert decoded(state, tmp_path)[:2] == (750, {Fraction(1, 25)})


def unfinish(state: RenditionState, segments: int, fragments: int = 0) -> dict[Path, int]:
    """Leave of a finished stream what a kill after so many segments, and fragments of the next one, would
    have left: path → inode of the segments."""
    leave(state.directory, segments, fragments)
    return {path: path.stat().st_ino for path in state.directory.glob("*.m4s")}


def inodes(paths: Iterable[Path]) -> dict[Path, int]:
    return {path: path.stat().st_ino for path in paths}


def video_runs(encode: LadderEncode) -> list[tuple[str, int]]:
    return [(run.label, run.resumed_from) for run in encode.runs if run.label.startswith("video")]


def test_a_stream_that_cannot_be_continued_starts_again(clip: MakeClip, encode: MakeEncode) -> None:
    source = clip("24.mp4", fps="24", seconds=5)
    first = encode(source, poster=False)
    run_to_end(first)
    large, small = video_of(first)
    unfinish(large, 2)
    kept = unfinish(small, 2)
    # As an encoder with other parameter sets would have written it: longer by a free box, and still whole.
    init = large.directory / "init.mp4"
    init.write_bytes(init.read_bytes() + b"\0\0\0\x08free")
    second = encode(source, poster=False)
    run_to_end(second)
    assert (second.state, second.error) == ("done", None)
    assert video_runs(second) == [("video", 2), ("video-90p", 2), ("video-144p", 0)]
    assert ["144p" in note for note in second.notes] == [True]
    assert not second.warnings
    assert inodes(kept) == kept
    assert [state.check.frames for state in video_of(second) if state.check] == [120, 120]


@pytest.mark.slow
def test_what_lags_behind_catches_up_alone(clip: MakeClip, encode: MakeEncode, tmp_path: Path) -> None:
    source = clip("long.mp4", seconds=30)
    first = encode(source, poster=False)
    run_to_end(first)
    kept = unfinish(video_of(first)[0], 12) | unfinish(video_of(first)[1], 3)
    second = encode(source, poster=False)
    second.look_up()
    assert [state.segments_done for state in video_of(second)] == [12, 3]
    run_to_end(second)
    assert (second.state, second.error, second.warnings) == ("done", None, [])
    assert video_runs(second) == [("video-90p", 3), ("video", 12)]
    assert inodes(kept) == kept
    for state in video_of(second):
        assert decoded(state, tmp_path)[:2] == (750, {Fraction(1, 25)})


@pytest.mark.slow
def test_a_fragment_that_the_disk_lost_is_made_again(
    clip: MakeClip, encode: MakeEncode, small: Profile, tmp_path: Path
) -> None:
    source, profile = clip("long.mp4", seconds=30), replace(small, segment_s=3, gop_s=1)
    first = encode(source, profile, poster=False)
    run_to_end(first)
    kept = unfinish(video_of(first)[0], 5, 2) | unfinish(video_of(first)[1], 5, 2)
    torn = video_of(first)[1].directory / "fragments" / "frag_00015.m4s"
    torn.write_bytes(torn.read_bytes()[:-1])
    second = encode(source, profile, poster=False)
    run_to_end(second)
    assert (second.state, second.error, second.warnings) == ("done", None, [])
    assert [(run.label, run.starts_at_s) for run in second.runs if run.label.startswith("video")] == [
        ("video-90p", 15.0),
        ("video", 17.0),
    ]
    assert inodes(kept) == kept
    for state in video_of(second):
        assert decoded(state, tmp_path)[:2] == (750, {Fraction(1, 25)})
        assert not (state.directory / "fragments").exists()


def test_a_whole_stream_is_adopted_without_its_proof(clip: MakeClip, encode: MakeEncode) -> None:
    """Killed between its last segment and the record that it is whole: the short last one shows it."""
    source = clip("24.mp4", fps="24", seconds=5)
    first = encode(source, poster=False)
    run_to_end(first)
    for state in video_of(first):
        unfinish(state, 3)
    second = encode(source, poster=False)
    second.start()
    assert (second.state, second.runs) == ("done", [])
    assert [state.check for state in video_of(second)] == [state.check for state in video_of(first)]


@pytest.mark.slow
@pytest.mark.fault(
    "The source declares too long a duration and no frame is left",
    "The previous fragment proves the end",
    area="resume",
)
def test_where_no_frame_is_left_the_segment_before_proves_the_end(
    clip: MakeClip, encode: MakeEncode, tmp_path: Path
) -> None:
    source = clip("six.mp4", fps="50", seconds=6)
    first = encode(source, poster=False)
    run_to_end(first)
    kept: dict[Path, int] = {}
    for state in video_of(first):
        kept |= unfinish(state, 3)
    # The source says that it is longer than it is.
    longer = replace(first.spec.grid, total_frames=320, exact=False)
    second = encode(source, poster=False, grid=longer)
    run_to_end(second)
    assert (second.state, second.error) == ("done", None)
    assert video_runs(second) == [("video", 3), ("video", 2)]
    assert inodes(kept) == kept
    assert decoded(video_of(second)[0], tmp_path)[:2] == (300, {Fraction(1, 50)})


@pytest.mark.slow
@pytest.mark.fault(
    "A seek misses its frame", "The source is decoded from its start, also by later attempts", area="resume"
)
def test_a_seek_that_misses_is_made_good_and_remembered(
    clip: MakeClip, encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    source = clip("long.mp4", seconds=30)
    first = encode(source, poster=False)
    run_to_end(first)
    kept: dict[Path, int] = {}
    for state in video_of(first):
        kept |= unfinish(state, 10)
    # Reads on from a later place than was requested, as some demuxers do.
    astray = tmp_path / "ffmpeg"
    astray.write_text(
        f"""#!/bin/sh
for word in "$@"; do
  shift
  [ "$last" = -ss ] && word=25
  set -- "$@" "$word"
  last=$word
done
exec "{ffmpeg.path}" "$@"
"""
    )
    astray.chmod(0o755)
    stray = replace(ffmpeg, path=str(astray))
    second = encode(source, poster=False, ffmpeg=stray)
    assert not second.spec.facts.unseekable
    run_to_end(second)
    assert (second.state, second.error, second.spec.facts.unseekable) == ("done", None, True)
    # At the key frame, then early, then from the start.
    assert [(run.resumed_from, run.unseekable) for run in second.runs] == [
        (10, False),
        (10, False),
        (10, True),
    ]
    assert inodes(kept) == kept
    for state in video_of(second):
        assert decoded(state, tmp_path)[:2] == (750, {Fraction(1, 25)})
    # Known from the start, it is not tried again.
    for state in video_of(second):
        unfinish(state, 10)
    third = encode(source, poster=False, ffmpeg=stray, facts=replace(second.spec.facts, unseekable=True))
    run_to_end(third)
    assert [(run.resumed_from, run.unseekable) for run in third.runs] == [(10, True)]


def test_reading_counts_as_movement_until_the_first_frame(
    clip: MakeClip, encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    """As an ffmpeg does that decodes an hour on the way to its first segment."""
    source = clip("24.mp4", fps="24", seconds=5)
    reads = tmp_path / "ffmpeg"
    reads.write_text(
        f"""#!{sys.executable}
import os, sys, time
with open({str(source)!r}, "rb") as file:
    while file.read(1000):
        time.sleep(0.005)
os.execv({ffmpeg.path!r}, [{ffmpeg.path!r}, *sys.argv[1:]])
"""
    )
    reads.chmod(0o755)
    made = LadderEncode(
        replace(encode(source, poster=False).spec, ffmpeg=replace(ffmpeg, path=str(reads))),
        clock=itertools.count().__next__,
    )
    moved: set[float] = set()

    def moves() -> bool:
        moved.add(made.last_advance)
        return len(moved) > 5

    run_to_end(made, until=moves)
    assert made.state == "running"
    assert all(state.segments_done == 0 for state in video_of(made))
    made.kill()


@pytest.mark.fault(
    "The source changes while it is encoded",
    "`SOURCE_CHANGED`, encoded again, uncounted; old and new content are never joined",
    area="resume",
)
def test_nothing_is_stored_of_a_source_that_changed(
    clip: MakeClip, encode: MakeEncode, tmp_path: Path
) -> None:
    source = tmp_path / "growing.mp4"
    shutil.copy(clip("long.mp4", seconds=30), source)
    made = encode(source, poster=False)
    made.start()
    for pid in pids_of(made):
        os.kill(pid, signal.SIGSTOP)
    with source.open("ab") as file:
        file.write(b"more")
    for pid in pids_of(made):
        os.kill(pid, signal.SIGCONT)
    run_to_end(made)
    assert made.state == "failed"
    assert made.error is not None
    assert made.error.code is ErrorCode.SOURCE_CHANGED
    assert "growing.mp4" in made.error.message
    assert not list((tmp_path / "store").rglob("*.m4s"))


def scripted(path: Path, ffmpeg: FFmpeg, cases: str) -> FFmpeg:
    """An ffmpeg that does something else in some `case` of its arguments."""
    path.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}\nesac\nexec "{ffmpeg.path}" "$@"\n')
    path.chmod(0o755)
    return locate(str(path))


def codes_of(made: LadderEncode) -> list[str]:
    return [warning.code.value for warning in made.warnings]


@pytest.mark.slow
@pytest.mark.fault(
    "One quality fails in a common run",
    "The others are encoded one by one from where they are; only that one fails",
    area="resume",
)
def test_the_culprit_fails_alone(
    clip: MakeClip, encode: MakeEncode, small: Profile, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    broken = scripted(tmp_path / "ffmpeg", ffmpeg, "*90p/index*) echo 'Error: no 90' >&2; exit 1;;")
    optional = replace(small, rungs=(RungSpec(144, 300), RungSpec(90, 120, required=False)))
    for profile, state in ((small, "failed"), (optional, "done")):
        made = encode(clip("24.mp4", fps="24", seconds=5), profile, ffmpeg=broken, poster=False)
        run_to_end(made)
        assert made.state == state
        assert [(s.name, s.status) for s in video_of(made)] == [("144p", "completed"), ("90p", "failed")]
        assert codes_of(made) == (["RENDITION_LEFT_OUT"] if state == "done" else [])
        if state == "failed":
            assert made.error is not None
            assert made.error.code == ErrorCode.ENCODER_EXIT
            assert "no 90" in made.error.message
            assert [run.label for run in made.runs] == ["audio-und", "video", "video-144p", "video-90p"]


@pytest.mark.slow
def test_the_culprit_fails_alone_and_the_others_resume_at_the_segment(
    clip: MakeClip, encode: MakeEncode, small: Profile, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    broken = scripted(tmp_path / "ffmpeg", ffmpeg, "*90p/index*) echo 'Error: no 90' >&2; exit 1;;")
    broken = replace(broken, build=ffmpeg.build)
    optional = replace(small, rungs=(RungSpec(144, 300), RungSpec(90, 120, required=False)))
    source = clip("long.mp4", seconds=30)
    first = encode(source, poster=False)
    run_to_end(first)
    kept = unfinish(video_of(first)[0], 5, 1) | unfinish(video_of(first)[1], 6)
    second = encode(source, ffmpeg=broken, poster=False)
    run_to_end(second)
    assert second.state == "failed"
    assert video_runs(second) == [("video", 5), ("video-144p", 5), ("video-90p", 6)]
    assert [(s.name, s.status, s.segments_done) for s in video_of(second)] == [
        ("144p", "completed", 15),
        ("90p", "failed", 6),
    ]
    assert inodes(kept) == kept
    # The next attempt tries the culprit alone; where it is not required, the ladder is done without it.
    for profile, state in ((small, "failed"), (optional, "done")):
        again = encode(source, profile, ffmpeg=broken, poster=False)
        run_to_end(again)
        assert (again.state, video_runs(again)) == (state, [("video-90p", 6)])
        assert codes_of(again) == (["RENDITION_LEFT_OUT"] if state == "done" else [])
    mended = encode(source, poster=False)
    run_to_end(mended)
    assert (mended.state, video_runs(mended)) == ("done", [("video-90p", 6)])
    assert inodes(kept) == kept


@pytest.mark.fault("The GPU fails", "The CPU encodes the rest; warning `GPU_FAILED`", area="resume")
def test_a_failing_gpu_falls_back_to_the_cpu(
    clip: MakeClip, encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    broken = scripted(tmp_path / "ffmpeg", ffmpeg, "*h264_nvenc*) echo 'Error: GPU is lost' >&2; exit 1;;")
    source = clip("24.mp4", fps="24", seconds=5)
    made = encode(source, ffmpeg=broken, encoder="h264_nvenc", device="0", poster=False)
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    assert [state.encoder for state in video_of(made)] == ["libx264", "libx264"]
    assert [run.encoder for run in made.runs if run.label == "video"] == ["h264_nvenc", "libx264"]
    assert codes_of(made) == ["GPU_FAILED"]
    assert "GPU is lost" in made.warnings[0].text
    # What the CPU finished counts when the GPU asks again.
    again = encode(source, ffmpeg=broken, encoder="h264_nvenc", device="0", poster=False)
    again.start()
    assert again.state == "done"


def test_a_gpu_without_a_free_session_is_waited_for(
    clip: MakeClip, encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    says = "[h264_nvenc @ 0x1] OpenEncodeSessionEx failed: out of memory (10)"
    busy = scripted(tmp_path / "ffmpeg", ffmpeg, f"*h264_nvenc*) echo '{says}' >&2; exit 187;;")
    made = encode(clip("24.mp4", fps="24", seconds=5), ffmpeg=busy, encoder="h264_nvenc", poster=False)
    run_to_end(made)
    assert made.error is not None
    assert made.error.code == ErrorCode.GPU_BUSY
    assert pids_of(made) == ()


@pytest.mark.slow
def test_a_poster_is_worth_a_warning_only(
    clip: MakeClip, encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    broken = scripted(tmp_path / "ffmpeg", ffmpeg, "*poster.jpg*) exit 0;;")
    made = encode(clip("24.mp4", fps="24", seconds=5), ffmpeg=broken)
    run_to_end(made)
    assert made.state == "done"
    assert made.side.poster is None
    assert codes_of(made) == ["POSTER_MISSING"]


@pytest.mark.parametrize(
    ("gop", "position", "second", "runs"),
    [
        pytest.param(50, 0.1, 2, 1, id="the next key frame"),
        pytest.param(50, 0.9, 4, 2, id="the picture itself, behind the last key frame"),
        pytest.param(250, 0.5, 2, 2, id="the picture itself, with one key frame in all"),
        pytest.param(50, 1.0, 4, 2, id="the last one, at the end of the video"),
    ],
)
def test_which_picture_becomes_the_poster(
    clip: MakeClip, encode: MakeEncode, small: Profile, gop: int, position: float, second: int, runs: int
) -> None:
    source = clip(
        f"steps-{gop}.mp4",
        seconds=5,
        audio=0,
        filters="geq=lum='20+40*floor(T)':cb=128:cr=128",
        video=("-c:v", "libx264", "-preset", "ultrafast", "-g", str(gop), "-sc_threshold", "0"),
    )
    made = encode(source, replace(small, poster_position=position))
    run_to_end(made)
    assert made.side.poster is not None
    with av.open(str(made.side.poster)) as container:
        luma = bytes(next(container.decode(video=0)).planes[0])
    # The steps are 40 apart, 46 in a JPEG, whose black is darker and whose white is brighter.
    assert round((luma[0] - 5) / 46) == second
    assert [run.label for run in made.runs].count("poster") == runs
    assert not made.warnings


def test_an_ffmpeg_that_vanished(clip: MakeClip, encode: MakeEncode, tmp_path: Path) -> None:
    made = encode(clip("24.mp4", fps="24", seconds=5), ffmpeg=FFmpeg(str(tmp_path / "gone"), "9", "x"))
    run_to_end(made)
    assert made.error is not None
    assert made.error.code == ErrorCode.FFMPEG_MISSING


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 kB."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(path)]
    if not shutil.which("mount") or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting needs root")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


def test_a_full_disk_is_no_broken_encode(clip: MakeClip, encode: MakeEncode, small_disk: Path) -> None:
    scratch = small_disk / "scratch"
    scratch.mkdir()
    made = encode(
        clip("long.mp4", seconds=30), store_root=small_disk / "store", scratch=scratch, poster=False
    )
    run_to_end(made)
    assert made.state == "failed"
    assert made.error is not None
    assert made.error.code == ErrorCode.DISK_LOW


@pytest.mark.fault(
    "The disk lost a stored segment",
    "That quality encodes it again, the others wait where they are",
    area="resume",
)
@pytest.mark.parametrize("torn", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_stored_segment_that_the_disk_lost_is_made_again(
    clip: MakeClip, encode: MakeEncode, torn: bool
) -> None:
    source = clip("24.mp4", fps="24", seconds=5)
    first = encode(source, poster=False)
    run_to_end(first)
    damaged = video_of(first)[0].directory
    (damaged / "complete.json").unlink()
    content = (damaged / "seg_00001.m4s").read_bytes()
    (damaged / "seg_00001.m4s").write_bytes(content[:-100] if torn else bytes(len(content)))
    second = encode(source, poster=False)
    run_to_end(second)
    assert (second.state, second.error) == ("done", None)
    assert video_runs(second) == [("video-144p", 1)]


def test_a_wrapper_that_encodes_for_nvenc_makes_the_ladder(
    clip: MakeClip, encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    path = tmp_path / "ffmpeg"
    path.write_text(
        f"""#!/bin/sh
for word in "$@"; do
  shift
  [ "$word" = h264_nvenc ] && word=libx264
  set -- "$@" "$word"
done
exec "{ffmpeg.path}" "$@"
"""
    )
    path.chmod(0o755)
    source = clip("24.mp4", fps="24", seconds=5)
    made = encode(source, ffmpeg=locate(str(path)), encoder="h264_nvenc", device="0", poster=False)
    run_to_end(made)
    assert (made.state, made.error, made.warnings) == ("done", None, [])
    assert [state.encoder for state in video_of(made)] == ["h264_nvenc", "h264_nvenc"]
    assert [state.check.frames for state in video_of(made) if state.check] == [120, 120]

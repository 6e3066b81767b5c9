"""The largest quality is the source's own stream where it fits; the others are cut at its key frames."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numbered_pictures import draw
from tqstudio.engine.media import nal_units
from tqstudio.engine.media.check.copied import verify_copy
from tqstudio.engine.media.check.rendition import published_grid
from tqstudio.engine.media.encode.division import RangeEncode, division
from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.missing_runs import plan
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan import copying, profiles
from tqstudio.engine.media.plan.grid import Grid, make_grid
from tqstudio.engine.media.plan.keys import earlier_hashes, expected_hashes, without_copy
from tqstudio.engine.media.plan.profiles import Profile, RungSpec
from tqstudio.engine.media.plan.rungs import build_ladder
from tqstudio.engine.media.segments import webvtt
from tqstudio.engine.media.segments.boxes import Init, Segment
from tqstudio.engine.media.segments.inspect import inspect_init, inspect_segment
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.engine.media.source import coded_pictures
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.media.source.probe import probe
from tqstudio.engine.worker.job.rendition_choice import on_kept_grid
from tqstudio.errors import ErrorCode, TqError, WarningCode
from tqstudio.wings.quality.vmaf import Bench

from .conftest import MakeEncode, leave, run_ffmpeg, run_to_end
from .corpus import pictures
from .gpus import in_place_of_gpus
from .test_resume import streams, video_of

SECONDS = 9
KEYS = "1.0,1.4,3.2,4.0,5.8,7.6"
"""Besides the first one: near and far apart."""
BT709 = "setparams=color_primaries=bt709:color_trc=bt709:colorspace=bt709:range=tv"
X264 = ("-c:v", "libx264", "-preset", "veryfast", "-bf", "2", "-g", "60", "-sc_threshold", "0")
X265 = ("-c:v", "libx265", "-preset", "ultrafast", "-tag:v", "hev1", "-forced-idr", "1")
X265 += ("-x265-params", "open-gop=0:keyint=60:scenecut=0:log-level=error")
MakeSource = Callable[..., Path]


@pytest.fixture
def fitting(small: Profile) -> Profile:
    return replace(small, copy="fitting", rungs=(RungSpec(180, 2000), RungSpec(90, 120)))


@pytest.fixture
def source(ffmpeg: FFmpeg, tmp_path: Path) -> MakeSource:
    """Makes a source whose pictures show their number."""

    def make(
        name: str,
        *options: str,
        fps: str = "25",
        seconds: float = SECONDS,
        video: tuple[str, ...] = X264,
        filters: str = BT709,
        keys: str = KEYS,
        sound: tuple[str, ...] = ("-f", "lavfi", "-i", f"sine=r=44100:d={SECONDS}"),
    ) -> Path:
        path = tmp_path / name
        run_ffmpeg(
            ffmpeg,
            *("-f", "lavfi", "-i", draw(fps, seconds, "320x180"), *sound),
            *("-vf", filters, *video, "-force_key_frames", keys, *options, str(path)),
        )
        return path

    return make


def frames_of(path: Path) -> list[str]:
    """Digests of all decoded pictures, in the order in which they are shown."""
    with av.open(str(path)) as container:
        return [hashlib.sha1(b"".join(_rows(frame))).hexdigest() for frame in container.decode(video=0)]


def _rows(frame: av.VideoFrame) -> Iterator[bytes]:
    for plane in frame.planes:
        pixels = bytes(plane)
        for row in range(plane.height):
            yield pixels[row * plane.line_size :][: plane.width]


def joined(encode: LadderEncode, tmp_path: Path, name: str) -> Path:
    made = tmp_path / f"joined-{name}.mp4"
    made.write_bytes(streams(encode)[name])
    return made


def facts_of(path: Path) -> SourceFacts:
    return probe(os.fsencode(path))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("film.mp4", {}),
        ("film.mkv", {"fps": "30000/1001"}),
        ("film.ts", {}),
        ("film.flv", {"fps": "24"}),
        ("plain.mp4", {"video": (*X264[:4], "-bf", "0", "-g", "60", "-sc_threshold", "0")}),
        ("late.mkv", {"options": ("-output_ts_offset", "3.217")}),
        pytest.param("hevc.mp4", {"video": X265, "codec": "hevc"}, marks=pytest.mark.slow),
        pytest.param("silent.mp4", {"sound": ()}, marks=pytest.mark.slow),
        pytest.param("hevc.ts", {"video": X265[:4] + X265[6:], "codec": "hevc"}, marks=pytest.mark.slow),
        pytest.param("each.mp4", {"video": (*X264[:4], "-g", "1")}, marks=pytest.mark.slow),
    ],
)
def test_the_largest_quality_is_the_source(
    source: MakeSource,
    encode: MakeEncode,
    fitting: Profile,
    tmp_path: Path,
    name: str,
    changes: dict[str, object],
) -> None:
    """Picture by picture, and the other quality shows the same picture at the same time."""
    profile = replace(fitting, codec=str(changes.pop("codec", "h264")))
    options = changes.pop("options", ())
    film = source(name, *options, **changes)  # type: ignore[misc, arg-type]
    made = encode(film, profile)
    run_to_end(made)
    assert (made.state, str(made.error), made.warnings) == ("done", "None", [])
    largest, other = video_of(made)
    assert (largest.name, largest.encoder) == ("180p", copying.COPY)
    assert other.encoder != copying.COPY
    assert frames_of(joined(made, tmp_path, "180p")) == frames_of(film)

    shown = [pictures(streams(made)[state.name]) for state in (largest, other)]
    assert shown[0] == shown[1]
    assert [number for _, number in shown[0]] == list(range(made.spec.grid.total_frames))
    # Also for players that ignore edit lists.
    assert _times(largest.directory) == _times(other.directory)
    assert largest.check is not None
    assert other.check is not None
    assert [each.duration_s for each in largest.check.segments] == pytest.approx(
        [each.duration_s for each in other.check.segments]
    )
    # Key frames of the encoded one: where segments begin, and as far apart as the profile says, or less.
    grid = made.spec.grid
    begins = [round(Fraction(at) * grid.fps) for at in _keys(joined(made, tmp_path, "90p"))]
    assert [each - begins[0] for each in begins] == list(grid.starts[:-1])
    assert max(b - a for a, b in pairwise(grid.starts)) <= grid.gop


def _times(directory: Path) -> list[tuple[Fraction, Fraction]]:
    """When the first picture of each segment is shown, and when the last one ends, in seconds."""
    init = inspect_init(directory / "init.mp4")
    assert isinstance(init, Init)
    found = [inspect_segment(path) for path in sorted(directory.glob("*.m4s"))]
    return [
        (Fraction(each.first_pts, init.timescale), Fraction(each.end_pts, init.timescale))
        for each in found
        if isinstance(each, Segment)
    ]


def _keys(path: Path) -> list[Fraction]:
    with av.open(str(path)) as container:
        return [
            packet.pts * packet.time_base
            for packet in container.demux(video=0)
            if packet.is_keyframe and packet.size and packet.pts is not None and packet.time_base
        ]


_FAST = X264[:4]
_NOISE = f"{BT709},noise=alls=40:allf=t"
_FAR = (*X264[:6], "-g", "250", "-sc_threshold", "0")
_REFRESH = (*_FAST, "-x264-params", "intra-refresh=1:keyint=50")
UNFIT: list[tuple[str, dict[str, object], str]] = [
    ("far.mp4", {"keys": "0", "video": _FAR}, "key frames 9.0 s apart"),
    ("open.mp4", {"keys": "0", "video": (*X264, "-x264-params", "open-gop=1:bframes=3")}, "cannot begin"),
    ("refresh.mp4", {"keys": "0", "video": _REFRESH}, "cannot begin"),
    ("untagged.mp4", {"filters": "null"}, "colours other than those of BT.709"),
    ("full.mp4", {"filters": f"{BT709},scale=out_range=full,setparams=range=pc"}, "colours|yuvj420p"),
    ("444.mp4", {"filters": f"{BT709},format=yuv444p"}, "pictures in yuv444p"),
    ("wide.mp4", {"filters": f"{BT709},setsar=4/3"}, "pixels that are not square"),
    ("fields.mp4", {"filters": f"{BT709},setfield=tff", "options": ("-flags", "+ildct+ilme")}, "interlaced"),
    ("low.mp4", {"options": ("-x264-params", "level=10")}, "level 1"),
    (
        "vfr.mkv",
        {"filters": f"{BT709},select='mod(n,7)'", "options": ("-fps_mode", "vfr")},
        "varying frame rate",
    ),
    ("film.avi", {"video": (*_FAST, "-bf", "0")}, "no times of its pictures"),
    ("early.mkv", {"filters": f"{BT709},trim=start=0.4", "options": ("-copyts",)}, "begin and end together"),
    ("short.mp4", {"seconds": SECONDS - 1}, "begin and end together"),
    ("rate.mp4", {"filters": _NOISE, "options": ("-crf", "1")}, "the profile allows"),
    (
        "film.webm",
        {"video": ("-c:v", "libvpx"), "options": ("-deadline", "realtime", "-c:a", "libopus")},
        "the source is vp8",
    ),
    ("small.mp4", {"filters": f"{BT709},scale=240:134"}, "no quality of the profile has its size"),
]


@pytest.mark.parametrize(("name", "changes", "why"), [pytest.param(*each, id=each[0]) for each in UNFIT])
def test_what_does_not_fit_is_encoded_and_says_why(
    source: MakeSource, fitting: Profile, name: str, changes: dict[str, object], why: str
) -> None:
    options = changes.get("options", ())
    film = source(name, *options, **{k: v for k, v in changes.items() if k != "options"})  # type: ignore[misc, arg-type]
    facts = facts_of(film)
    grid = make_grid(facts, fitting)
    assert grid.copied is None
    assert any(each in grid.not_copied for each in why.split("|")), grid.not_copied
    # Nothing is known of a copy where none is possible: the ladder is that without one.
    assert (grid.starts, grid.heads) == ((), ())
    first, *others = (rung for rung in build_ladder(facts, fitting) if not rung.skipped)
    assert (first.not_copied, [rung.not_copied for rung in others]) == (grid.not_copied, [""] * len(others))
    without = without_copy(fitting)
    assert expected_hashes("content", fitting, facts) == expected_hashes("content", without, facts)


def test_a_turned_film_and_one_that_is_cut_without_encoding(
    source: MakeSource, ffmpeg: FFmpeg, fitting: Profile, tmp_path: Path
) -> None:
    film, turned, cut = source("film.mp4"), tmp_path / "turned.mp4", tmp_path / "cut.mp4"
    run_ffmpeg(ffmpeg, "-display_rotation", "90", "-i", str(film), "-c", "copy", str(turned))
    run_ffmpeg(ffmpeg, "-ss", "2.0", "-i", str(film), "-c", "copy", str(cut))
    assert make_grid(facts_of(turned), fitting).not_copied == "rotated pictures"
    assert make_grid(facts_of(cut), fitting).not_copied


def test_parameter_sets_that_change_midway(
    source: MakeSource, ffmpeg: FFmpeg, fitting: Profile, tmp_path: Path
) -> None:
    first = source("first.ts", sound=())
    second = source("second.ts", sound=(), video=(*X264, "-x264-params", "cabac=0:ref=1:8x8dct=0"))
    listed, whole = tmp_path / "list.txt", tmp_path / "whole.ts"
    listed.write_text(f"file {first}\nfile {second}\n")
    run_ffmpeg(ffmpeg, "-f", "concat", "-safe", "0", "-i", str(listed), "-c", "copy", str(whole))
    assert make_grid(facts_of(whole), fitting).not_copied == "parameter sets that change"


@pytest.mark.parametrize(
    "changes",
    [
        {"subtitle_burn": "en"},
        {"codec": "hevc"},
        {"video_profile": "main"},
        {"copy": "never"},
    ],
)
def test_a_profile_that_asks_for_something_else(
    source: MakeSource, fitting: Profile, changes: dict[str, object]
) -> None:
    facts = facts_of(source("film.mp4"))
    assert make_grid(facts, fitting).copied == fitting.rungs[0]
    if "subtitle_burn" in changes:
        return  # without bitmaps there is nothing to burn
    assert make_grid(facts, replace(fitting, **changes)).copied is None  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["film.ts", "from-ts.mp4"])
def test_parameter_sets_are_where_players_look_for_them(
    source: MakeSource, encode: MakeEncode, fitting: Profile, ffmpeg: FFmpeg, tmp_path: Path, name: str
) -> None:
    """Not between the pictures, as in MPEG-TS and what was made of it without encoding."""
    film = source("film.ts", sound=())
    if name != film.name:
        film = tmp_path / name
        run_ffmpeg(ffmpeg, "-i", str(tmp_path / "film.ts"), "-c", "copy", str(film))
    made = encode(film, fitting)
    assert made.spec.facts.video.sets_inside
    run_to_end(made)
    assert (made.state, made.warnings, video_of(made)[0].encoder) == ("done", [], copying.COPY)
    with av.open(str(joined(made, tmp_path, "180p"))) as container:
        kinds = {
            nal_units.kind("h264", unit)
            for packet in container.demux(video=0)
            for unit in nal_units.units(bytes(packet), 4)
        }
    assert kinds.isdisjoint(nal_units.PARAMETER_SETS["h264"])


def test_of_several_equal_qualities_the_first_with_enough_bits_is_the_copy(
    source: MakeSource, fitting: Profile
) -> None:
    facts = facts_of(source("film.mp4"))
    kbps = facts.video.measured_bitrate // 1000
    rungs = (RungSpec(180, 3 * kbps), RungSpec(180, 2 * kbps), RungSpec(180, kbps // 2), RungSpec(90, 60))
    ladder = [rung for rung in build_ladder(facts, replace(fitting, rungs=rungs)) if not rung.skipped]
    assert [(rung.copied, rung.width) for rung in ladder] == [(True, 320), (False, 320), (False, 160)]
    assert ladder[0].maxrate_kbps == kbps + 1
    assert not ladder[0].limited


@pytest.mark.slow
def test_untagged_pictures_of_hd_get_the_tags_that_players_assume(
    source: MakeSource, encode: MakeEncode, fitting: Profile, tmp_path: Path
) -> None:
    film = source("hd.mp4", filters="scale=1280:720", video=(*X264[:3], "ultrafast", "-g", "50"), seconds=3,
                  sound=("-f", "lavfi", "-i", "sine=d=3"), keys="0")  # fmt: skip
    made = encode(film, replace(fitting, rungs=(RungSpec(720, 4000), RungSpec(90, 120))))
    run_to_end(made)
    assert (made.state, made.warnings) == ("done", [])
    assert video_of(made)[0].encoder == copying.COPY
    whole = joined(made, tmp_path, "720p")
    assert frames_of(whole) == frames_of(film)
    with av.open(str(whole)) as container:
        context = container.streams.video[0].codec_context
        assert (context.color_primaries, context.color_trc, context.colorspace) == (1, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("fragment", [1, 2, 4, 5, 7])
def test_killed_anywhere_the_rest_joins(
    source: MakeSource, encode: MakeEncode, fitting: Profile, tmp_path: Path, fragment: int
) -> None:
    film, slow = source("film.mp4"), replace(fitting, preset="slow")
    whole = encode(film, slow, store_root=tmp_path / "whole", poster=False)
    run_to_end(whole)
    made = encode(film, slow, poster=False)
    run_to_end(made)
    grid = made.spec.grid
    [other] = [state for state in video_of(made) if state.encoder != copying.COPY]
    segment = grid.segment_of(fragment)
    _leave(other.directory, grid, fragment)
    again = encode(film, slow, poster=False)
    run_to_end(again)
    assert (again.state, again.warnings) == ("done", [])
    # The copy was complete: it is not made again.
    assert [run.label for run in again.runs if run.encoder == copying.COPY] == []
    [run] = [run for run in again.runs if run.label.startswith("video")]
    assert run.resumed_from == segment
    expected, found = (pictures(streams(each)["90p"]) for each in (whole, again))
    assert found == expected
    assert _times(video_of(again)[1].directory) == _times(video_of(whole)[1].directory)


def _leave(directory: Path, grid: Grid, fragment: int) -> None:
    """Take away what follows a fragment; fragments of unequal length are left by segment."""
    segment = grid.segment_of(fragment)
    leave(directory, segment, 0)
    for stale in (directory / "fragments").glob("*.m4s"):
        stale.unlink()


def test_a_copy_that_was_interrupted_begins_again(
    source: MakeSource, encode: MakeEncode, fitting: Profile
) -> None:
    film = source("film.mp4")
    made = encode(film, fitting)
    run_to_end(made)
    largest = video_of(made)[0]
    leave(largest.directory, 2)
    again = encode(film, fitting)
    run_to_end(again)
    assert again.state == "done"
    [run] = [run for run in again.runs if run.encoder == copying.COPY]
    assert (run.resumed_from, run.starts_at_s) == (0, 0)
    assert streams(again)["180p"] == streams(made)["180p"]


def test_a_copy_that_fails_is_encoded_on_the_same_grid(
    source: MakeSource, encode: MakeEncode, fitting: Profile
) -> None:
    """The facts of another file, whose key frames are elsewhere: the copy is refused."""
    film = source("film.mp4")
    facts = facts_of(film)
    first, second, *others = facts.video.key_gaps.split()
    wrong = replace(facts, video=replace(facts.video, key_gaps=" ".join((second, first, *others))))
    made = encode(film, fitting, facts=wrong)
    run_to_end(made)
    assert made.state == "done"
    assert [warning.code for warning in made.warnings] == [WarningCode.NOT_COPIED]
    largest, other = video_of(made)
    assert largest.encoder == "libx264"
    assert largest.check is not None
    assert other.check is not None
    lengths = [[segment.frames for segment in each.check.segments] for each in (largest, other) if each.check]
    assert lengths[0] == lengths[1]


@pytest.mark.slow
@pytest.mark.parametrize("obeys", [True, False])
def test_a_gpu_encodes_beside_a_copy_if_it_sets_every_key_frame(
    source: MakeSource, encode: MakeEncode, fitting: Profile, ffmpeg: FFmpeg, tmp_path: Path, obeys: bool
) -> None:
    """Each fragment is checked as it appears, so that one that does not is noticed after two seconds."""
    gpu = in_place_of_gpus(tmp_path / "gpu", ffmpeg, "h264_nvenc")
    if not obeys:
        script = Path(gpu.path).read_text()
        asked = 'words.index("-/force_key_frames")'
        left_out = f'if "h264_nvenc" in words:\n    del words[{asked} : {asked} + 2]\n'
        Path(gpu.path).write_text(script.replace("new = list(words)\n", f"{left_out}new = list(words)\n", 1))
    made = encode(source("film.mp4"), fitting, ffmpeg=gpu, encoder="h264_nvenc", device="0")
    run_to_end(made)
    assert made.state == "done"
    codes = [warning.code for warning in made.warnings]
    assert codes == ([] if obeys else [WarningCode.GPU_FAILED])
    encoders = [state.encoder for state in video_of(made)]
    assert encoders == [copying.COPY, "h264_nvenc" if obeys else "libx264"]


def test_what_shows_damage_when_it_is_decoded_is_not_copied(
    source: MakeSource, encode: MakeEncode, fitting: Profile, tmp_path: Path
) -> None:
    """Only the other qualities are decoded: the attempt ends, and the next one knows of it."""
    film = source("film.mp4", "-crf", "36", filters=f"{BT709},noise=alls=20:allf=t", sound=())
    with av.open(str(film)) as container:
        positions = [(packet.pos, packet.size) for packet in container.demux(video=0) if packet.pos]
    broken = bytearray(film.read_bytes())
    for at, size in positions[100:104]:
        broken[at + 40 : at + size - 8] = bytes(byte ^ 0x5A for byte in broken[at + 40 : at + size - 8])
    damaged = tmp_path / "damaged.mp4"
    damaged.write_bytes(broken)
    first = encode(damaged, fitting)
    assert first.spec.grid.copied is not None
    run_to_end(first)
    assert (first.state, str(first.error).partition(": ")[2].startswith(copying.DAMAGED)) == ("failed", True)
    facts = replace(first.spec.facts, damage=(*first.spec.facts.damage, *first.damage))
    assert make_grid(facts, fitting).not_copied == "damage"
    rungs, grid = build_ladder(facts, fitting), make_grid(facts, fitting)
    again = encode(damaged, fitting, facts=facts, grid=grid, rungs=rungs)
    run_to_end(again)
    assert again.state == "done"
    assert {state.encoder for state in video_of(again)} == {"libx264"}


def test_a_copy_is_compared_with_its_source(source: MakeSource, encode: MakeEncode, fitting: Profile) -> None:
    """What was copied from another film of the same shape is not accepted."""
    film, other = source("film.mp4"), source("other.mp4", filters=f"{BT709},negate")
    made = encode(film, fitting)
    run_to_end(made)
    directory, spec = video_of(made)[0].directory, made.spec
    verify_copy(directory, os.fsencode(film), spec.facts, spec.grid, "180p")
    with pytest.raises(TqError) as raised:
        verify_copy(directory, os.fsencode(other), spec.facts, spec.grid, "180p")
    assert raised.value.code is ErrorCode.OUTPUT_INVALID
    store = SegmentStore(directory)
    store.remove(store.listing()[-1])
    with pytest.raises(TqError, match="fewer pictures"):
        verify_copy(directory, os.fsencode(film), spec.facts, spec.grid, "180p")


def test_the_keys_of_a_ladder_with_a_copy_are_others(source: MakeSource, fitting: Profile) -> None:
    """A quality of it cannot join one that is cut elsewhere; sound can."""
    facts, without = facts_of(source("film.mp4")), without_copy(fitting)
    keys, plain = (expected_hashes("content", each, facts) for each in (fitting, without))
    assert {name for name in keys if keys[name] == plain[name]} == {"audio-und"}
    assert all(plain[name] in found for name, found in earlier_hashes("content", fitting, facts).items())
    # How it would be encoded is of no concern to a copy.
    changed = expected_hashes("content", replace(fitting, crf=35), facts)
    assert {name for name in keys if keys[name] != changed[name]} == {"90p"}


gaps = st.lists(st.integers(1, 150), min_size=1, max_size=80)


@given(gaps, st.sampled_from([25, 48, 60]), st.sampled_from([1, 3]))
def test_every_cut_is_at_a_key_frame_and_nothing_is_lost(found: list[int], gop: int, each: int) -> None:
    keys = coded_pictures.read(coded_pictures.written(found))
    assert [b - a for a, b in pairwise(keys)] == found
    starts, heads = copying._cuts(coded_pictures.written(found), gop, gop * each, 12)
    cuts = [starts[head] for head in heads]
    assert (cuts[0], cuts[-1]) == (0, keys[-1])
    assert set(cuts) <= set(keys)
    assert all(0 < b - a <= gop for a, b in pairwise(starts))
    assert len(cuts) == 2 or cuts[-1] - cuts[-2] >= 12
    # No key frame would have been nearer to the nominal length.
    for begin, end in list(pairwise(cuts))[:-1]:
        aim = begin + gop * each
        assert abs(end - aim) == min(abs(key - aim) for key in keys if key > begin)


def test_a_grid_with_cuts_answers_as_one_without(source: MakeSource, fitting: Profile) -> None:
    grid = make_grid(facts_of(source("film.mp4")), fitting)
    count = grid.segment_count
    assert grid.edges == [grid.segment_start(k) for k in range(count)] + [grid.total_frames]
    assert sum(map(grid.segment_frames, range(count))) == grid.total_frames
    assert [g for k in range(count) for g in grid.fragments_of(k)] == list(range(grid.fragment_count))
    for fragment in range(grid.fragment_count):
        first = grid.fragment_start(fragment)
        assert (
            grid.fragment_at(first)
            == grid.fragment_at(first + grid.fragment_frames(fragment) - 1)
            == fragment
        )
        assert fragment in grid.fragments_of(grid.segment_of(fragment))
    # After the end there is nothing.
    assert grid.segment_of(grid.fragment_count) == count
    assert (grid.segment_frames(count), grid.fragment_frames(grid.fragment_count)) == (0, 0)
    assert sum(webvtt.durations(grid)) == pytest.approx(float(grid.length))
    [run] = plan(grid, {"90p": grid.fragment_count - 1})
    assert grid.total_frames - grid.fragment_start(run.start) >= 16
    copy = grid.of_copy(copying.copied_starts(facts_of(source("film.mp4")).video))
    assert copy.edges == grid.edges


def test_a_published_ladder_is_compared_on_its_own_grid(
    source: MakeSource, encode: MakeEncode, fitting: Profile, tmp_path: Path
) -> None:
    """Although its profile asks for copies, and the source would fit."""
    film, without = source("film.mp4"), without_copy(fitting)
    for number, profile in enumerate((fitting, without)):
        made = encode(film, profile, store_root=tmp_path / f"store-{number}")
        run_to_end(made)
        folder = video_of(made)[1].directory
        assert published_grid(made.spec.facts, fitting, folder).edges == made.spec.grid.edges


@pytest.mark.slow
def test_probes_for_a_quality_are_cut_as_the_ladder(
    source: MakeSource, encode: MakeEncode, fitting: Profile, tmp_path: Path
) -> None:
    made = encode(source("film.mp4"), fitting)
    spec = made.spec
    assert spec.grid.copied is not None
    # As large as the source, so that only pictures at their places are alike.
    [copied] = [each for each in spec.rungs if each.copied]
    rung = replace(copied, copied=False, maxrate_kbps=2000)
    bench = Bench(spec, tmp_path / "bench", lambda: None, stall_s=120)
    found = bench.probe(rung, "libx264", [20, 45], [(1, 4), (5, 7)])
    assert 80 < found[45] < found[20]


@pytest.mark.slow
def test_other_workers_make_segments_beside_a_copy(
    source: MakeSource, encode: MakeEncode, fitting: Profile, tmp_path: Path
) -> None:
    film = source("film.mp4")
    whole = encode(film, fitting, store_root=tmp_path / "whole", poster=False)
    offered: set[str] = set()

    def look() -> bool:
        part = division(whole)
        offered.update(part.streams if part else ())
        return False

    run_to_end(whole, until=look)
    assert offered <= {"90p"}, "the copy is not divided"
    first = encode(film, fitting, poster=False)
    run_to_end(first)
    leave(first.renditions[1].directory, 1)
    folder = tmp_path / "other"
    folder.mkdir()
    other = RangeEncode(replace(first.spec, scratch=folder), 2, 4, {"90p": first.renditions[1].stream_key})
    while other.step():
        time.sleep(0.01)
    again = encode(film, fitting, poster=False)
    run_to_end(again)
    assert (again.state, again.warnings) == ("done", [])
    # It ended where the other's segments begin, and continued after them.
    assert [run.resumed_from for run in again.runs if run.label.startswith("video")] == [1, 4]
    assert pictures(streams(again)["90p"]) == pictures(streams(whole)["90p"])
    assert _times(video_of(again)[1].directory) == _times(video_of(whole)[1].directory)


def test_units_are_found_with_start_codes_and_with_lengths() -> None:
    given_units = [b"\x67\x01\x02", b"\x65\x00\x00\x03\x01"]
    codes = b"".join((b"\0\0\0\1", given_units[0], b"\0\0\1", given_units[1], b"\0\0"))
    lengths = b"".join(len(unit).to_bytes(4, "big") + unit for unit in given_units)
    assert list(nal_units.units(codes, 0)) == list(nal_units.units(lengths, 4)) == given_units
    assert [nal_units.kind("h264", unit) for unit in given_units] == [7, 5]
    assert list(nal_units.units(lengths[:-2], 4))[:1] == given_units[:1]


def test_shipped_profiles_copy_but_the_archive() -> None:
    copies = {name: profiles.load(name).copy for name in profiles.available()}
    assert copies == {"apple": "fitting", "archive": "never", "fast": "fitting", "web": "fitting"}


def test_what_joins_a_published_ladder_is_cut_as_that(source: MakeSource, fitting: Profile) -> None:
    facts, without = facts_of(source("film.mp4")), without_copy(fitting)
    cut, plain = (expected_hashes("content", each, facts) for each in (fitting, without))
    other, plainer = (expected_hashes("content", replace(each, crf=40), facts) for each in (fitting, without))

    def choice(kept: dict[str, str], requested: list[str] | None = None) -> str:
        return on_kept_grid(facts, fitting, "content", requested, kept).copy

    assert choice({}) == choice(cut) == choice(cut, ["90p"]) == "fitting"
    assert choice(plain) == choice(plain, ["90p"]) == "never"
    # Sound is the same in both.
    assert choice({"audio-und": plain["audio-und"]}) == "fitting"
    # With other settings nothing is kept, unless only some qualities are made again.
    assert choice(plainer) == choice(other) == choice(other, ["90p"]) == "fitting"
    assert choice(plainer, ["90p"]) == "never"

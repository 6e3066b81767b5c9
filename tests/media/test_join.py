"""A segment is made of fragments: joined without a change, and each kept as soon as it is there."""

from __future__ import annotations

import errno
import io
import itertools
import os
import shutil
import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import pytest

from tqstudio.engine.media.check.rendition import verify_rendition
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.file_names import FRAGMENTS_NAME, INIT_NAME, fragment_name, segment_name
from tqstudio.engine.media.plan.grid import Grid
from tqstudio.engine.media.segments import boxes, join
from tqstudio.engine.media.segments.boxes import Segment
from tqstudio.engine.media.segments.collector import SeamError, StreamOutput
from tqstudio.engine.media.segments.inspect import Prefix, Torn, inspect_segment, verified_prefix
from tqstudio.engine.media.segments.store import Complete, SegmentStore
from tqstudio.errors import ErrorCode, TqError

from .conftest import run_ffmpeg

# 25 fps, three fragments of a second a segment; 7.4 s of source: two segments, a fragment, and 10 frames.
GRID = Grid(Fraction(25), 25, 75, 0, 185, Fraction(0))
SHORT = 7


@pytest.fixture(scope="module")
def written(ffmpeg: FFmpeg, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a run from the start writes: init.mp4 and fragments 0 … 7."""
    directory = tmp_path_factory.mktemp("written")
    run_ffmpeg(
        ffmpeg,
        *("-f", "lavfi", "-i", "testsrc2=s=64x64:r=25:d=7.4", "-c:v", "libx264", "-g", "25"),
        *("-pix_fmt", "yuv420p", "-sc_threshold", "0", "-flags", "+cgop", "-output_ts_offset", "10"),
        *("-f", "hls", "-hls_time", GRID.hls_time, "-hls_segment_type", "fmp4"),
        *("-hls_segment_options", "movflags=+frag_discont", "-hls_playlist_type", "event"),
        *("-hls_segment_filename", str(directory / "frag_%05d.m4s"), str(directory / "index.m3u8")),
    )
    assert len(list(directory.glob("frag_*.m4s"))) == GRID.fragment_count == SHORT + 1
    return directory


class Bench:
    """A store, and runs that write into a scratch directory of their own, fragment by fragment."""

    def __init__(self, root: Path, written: Path) -> None:
        self.store = SegmentStore(root / "store" / "144p" / "key")
        self._root, self._written, self._runs = root, written, itertools.count()

    def run(self, start: int = 0, *, to_the_end: bool = True) -> Run:
        scratch = self._root / f"run-{next(self._runs)}"
        scratch.mkdir()
        shutil.copy(self._written / INIT_NAME, scratch)
        output = StreamOutput("144p", scratch, self.store, GRID, start, to_the_end)
        return Run(output, scratch, self._written)

    def prefix(self) -> Prefix:
        return verified_prefix(self.store.root, GRID)

    def kept(self) -> list[str]:
        return sorted(path.name for path in self.store.root.glob(f"{FRAGMENTS_NAME}/*"))

    def packets(self) -> int:
        content = (self.store.root / INIT_NAME).read_bytes()
        content += b"".join((self.store.root / name).read_bytes() for name in self.store.listing())
        with av.open(io.BytesIO(content)) as stream:
            shown = [frame.pts for frame in stream.decode(video=0)]
        assert len({later - earlier for earlier, later in itertools.pairwise(shown)}) == 1
        return len(shown)


class Run:
    def __init__(self, output: StreamOutput, scratch: Path, written: Path) -> None:
        self.output, self.scratch, self._written = output, scratch, written

    def writes(self, *numbers: int, ended: bool = False) -> list[str]:
        """Let it have written these; the names of the segments that came of it."""
        for number in numbers:
            shutil.copy(self._written / fragment_name(number), self.scratch)
        new: list[tuple[str, str]] = []
        self.output.collect(new, ended)
        return [name for _, name in new]


@pytest.fixture
def bench(tmp_path: Path, written: Path) -> Bench:
    return Bench(tmp_path, written)


def test_fragments_are_kept_until_their_segment_is_whole(bench: Bench) -> None:
    run = bench.run()
    assert run.writes(0) == []
    assert (bench.prefix(), bench.kept()) == (Prefix(0, 1), [fragment_name(0)])
    assert run.writes(1) == []
    assert bench.prefix() == Prefix(0, 2)
    assert run.writes(2) == [segment_name(0)]
    assert (bench.prefix(), bench.kept()) == (Prefix(1, 3), [])
    assert run.output.complete_segments == 1
    # A quick run has written several before anybody looked.
    assert run.writes(3, 4, 5, 6) == [segment_name(1)]
    assert (bench.prefix(), bench.kept()) == (Prefix(2, 7), [fragment_name(6)])
    # A short one is the last if the run ended with 0, and not otherwise.
    assert run.writes(SHORT) == []
    assert bench.prefix() == Prefix(2, 7)
    assert run.writes(ended=True) == [segment_name(2)]
    assert (bench.prefix(), bench.kept()) == (Prefix(2, 6, ended=True), [])
    assert run.output.complete_segments == 3
    assert bench.packets() == GRID.total_frames
    assert not list(run.scratch.glob("*.m4s"))


@pytest.mark.parametrize("start", range(1, SHORT + 1))
def test_a_run_resumes_behind_any_fragment(bench: Bench, start: int) -> None:
    bench.run().writes(*range(start))
    before = bench.prefix()
    assert before.fragments == start
    run = bench.run(start)
    run.writes(*range(start, SHORT + 1), ended=True)
    assert bench.prefix() == Prefix(2, 6, ended=True)
    assert bench.packets() == GRID.total_frames


def test_a_source_may_end_with_a_full_fragment(bench: Bench) -> None:
    run = bench.run()
    assert run.writes(*range(5), ended=True) == [segment_name(0), segment_name(1)]
    assert bench.prefix() == Prefix(1, 3, ended=True)


def test_a_bounded_run_ends_no_stream(bench: Bench) -> None:
    """It only makes up arrears: what it leaves open the next one resumes with."""
    run = bench.run(to_the_end=False)
    assert run.writes(*range(4), ended=True) == [segment_name(0)]
    assert bench.prefix() == Prefix(1, 4)
    assert run.writes(SHORT, ended=True) == []
    assert run.output.next_piece == 4


def test_what_a_sibling_still_lacks_is_made_and_dropped(bench: Bench) -> None:
    bench.run().writes(*range(3))
    before = (bench.store.root / segment_name(0)).stat().st_ino
    run = bench.run(2)
    assert run.writes(2) == []
    assert bench.kept() == []
    assert run.writes(3, 4, 5) == [segment_name(1)]
    assert (bench.store.root / segment_name(0)).stat().st_ino == before
    assert bench.prefix() == Prefix(2, 6)


def test_a_run_that_ends_within_a_finished_segment_is_a_miss(bench: Bench) -> None:
    bench.run().writes(*range(3))
    with pytest.raises(SeamError):
        bench.run(1).writes(1, ended=True)
    assert bench.prefix() == Prefix(1, 3)


@pytest.mark.parametrize("start", [1, 3, 4])
def test_a_run_that_begins_elsewhere_stores_nothing(bench: Bench, start: int) -> None:
    bench.run().writes(*range(start))
    run = bench.run(start)
    # As a seek does that went astray: the next fragment under the name of this one.
    shutil.copy(run._written / fragment_name(start + 1), run.scratch / fragment_name(start))
    with pytest.raises(SeamError):
        run.writes()
    assert bench.prefix().fragments == start


def test_a_torn_fragment_is_reported_and_those_before_it_stay(bench: Bench) -> None:
    run = bench.run()
    run.writes(0)
    content = (run._written / fragment_name(1)).read_bytes()
    (run.scratch / fragment_name(1)).write_bytes(content[:-1])
    with pytest.raises(TqError, match="fragment 1 is damaged") as caught:
        run.writes()
    assert caught.value.code is ErrorCode.OUTPUT_INVALID
    assert bench.prefix() == Prefix(0, 1)


def test_a_short_fragment_with_another_behind_it_is_damage(bench: Bench) -> None:
    run = bench.run(to_the_end=True)
    shutil.copy(run._written / fragment_name(SHORT), run.scratch / fragment_name(0))
    with pytest.raises(TqError, match="fragment 0 has 10 frames instead of 25"):
        run.writes(1)


HARMS: dict[str, Callable[[bytes, bytes], bytes | None]] = {
    "torn": lambda content, _: content[:-1],
    "longer": lambda content, _: content + b"1234",
    "elsewhere": lambda _, other: other,
    "gone": lambda *_: None,
}


@pytest.mark.fault("The disk lost a stored fragment", "It is encoded again", area="resume")
@pytest.mark.parametrize("step", [1, 2, 5], ids=lambda step: f"{step} at once")
@pytest.mark.parametrize("harm", list(HARMS))
def test_a_fragment_that_the_disk_lost_is_made_again(bench: Bench, harm: str, step: int) -> None:
    run = bench.run()
    run.writes(*range(5))
    path = bench.store.fragment_path(3)
    left = HARMS[harm](path.read_bytes(), (run._written / fragment_name(4)).read_bytes())
    path.unlink() if left is None else path.write_bytes(left)
    assert bench.prefix() == Prefix(1, 3)
    # The arrears come first, in a run of their own; the next one resumes.
    bench.run(3, to_the_end=False).writes(3, 4, ended=True)
    assert bench.prefix() == Prefix(1, 5)
    path.unlink() if left is None else path.write_bytes(left)
    run = bench.run(3)
    for first in range(3, SHORT + 1, step):
        run.writes(*range(first, min(first + step, SHORT + 1)))
    run.writes(ended=True)
    assert bench.prefix() == Prefix(2, 6, ended=True)
    assert bench.packets() == GRID.total_frames


def test_a_fragment_that_cannot_be_read_to_its_end_is_met_once(bench: Bench) -> None:
    """Its boxes are whole, its media is not: the sector is bad, or it is cut while it is read."""
    bench.run().writes(0, 1)
    run = bench.run(2)

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join, "join", fail)
        with pytest.raises(TqError, match="cannot be joined"):
            run.writes(2)
    assert run.writes(3) == []
    assert bench.prefix() == Prefix()
    bench.run().writes(*range(SHORT + 1), ended=True)
    assert bench.prefix() == Prefix(2, 6, ended=True)


def test_a_disk_that_is_too_full_for_a_segment_keeps_its_fragments(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run = bench.run()
    with monkeypatch.context() as patch:
        patch.setattr(join, "join", refuse)
        with pytest.raises(TqError) as caught:
            run.writes(0, 1, 2)
    assert caught.value.code is ErrorCode.DISK_LOW
    assert bench.prefix() == Prefix(0, 2)
    bench.run(2).writes(*range(2, SHORT + 1), ended=True)
    assert bench.packets() == GRID.total_frames


@pytest.mark.fault(
    "A worker that lost its job stores what the next one made",
    "Equal names hold equal content; the second copy is dropped",
    area="resume",
)
def test_two_workers_with_the_same_fragments_make_one_segment(bench: Bench) -> None:
    """One lost its lease and does not know it yet."""
    bench.run().writes(0, 1)
    late, own = bench.run(2), bench.run(1)
    assert own.writes(1) == []
    assert late.writes(2) == [segment_name(0)]
    assert own.writes(2, 3) == []
    assert bench.prefix() == Prefix(1, 4)
    assert own.writes(4, 5) == [segment_name(1)]


def test_a_late_worker_may_tidy_up_at_any_moment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It proves the stream whole between two steps of one that stores a fragment."""
    bench.run().writes(*range(SHORT + 1), ended=True)
    complete = Complete("libx264", verify_rendition(bench.store.root, GRID))
    link, tidied = os.link, []

    def tidy_first(source: Path, target: Path) -> None:
        if not tidied:
            bench.store.mark_complete(complete)
            tidied.append(True)
        link(source, target)

    late = bench.run(6)
    monkeypatch.setattr(os, "link", tidy_first)
    late.writes(6)
    assert tidied
    assert bench.store.completed() is not None


@pytest.mark.parametrize("code", [errno.EPERM, errno.EXDEV])
def test_fragments_are_kept_without_hard_links(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    bench.run().writes(*range(5))
    assert bench.prefix() == Prefix(1, 5)
    bench.run(5).writes(*range(5, SHORT + 1), ended=True)
    assert bench.packets() == GRID.total_frames


def test_what_a_late_worker_left_goes_with_the_proof(bench: Bench) -> None:
    bench.run().writes(*range(SHORT + 1), ended=True)
    (bench.store.root / FRAGMENTS_NAME).mkdir(exist_ok=True)
    bench.store.fragment_path(4).write_bytes(b"late")
    bench.store.mark_complete(Complete("libx264", verify_rendition(bench.store.root, GRID)))
    assert not (bench.store.root / FRAGMENTS_NAME).exists()
    assert bench.store.completed() is not None


def test_a_joined_segment_is_its_fragments(written: Path, tmp_path: Path) -> None:
    parts = [written / fragment_name(number) for number in range(3)]
    join.join(parts, tmp_path / "seg")
    content = (tmp_path / "seg").read_bytes()
    found = boxes.top_level(io.BytesIO(content), len(content))
    assert [kind for kind, *_ in found] == [b"styp", b"sidx", *[b"moof", b"mdat"] * 3]
    media = content[found[1][1] + found[1][2] :]
    assert media == b"".join(_media(path.read_bytes()) for path in parts)
    whole = inspect_segment(tmp_path / "seg")
    single = [inspect_segment(path) for path in parts]
    assert isinstance(whole, Segment)
    assert whole.size == len(content)
    assert whole.frames == 75
    assert [whole.tfdt, whole.end_pts] == [single[0].tfdt, single[2].end_pts]  # type: ignore[union-attr]
    # The index points at each of them, to the byte.
    index = content[found[1][1] : found[1][1] + found[1][2]]
    (count,) = struct.unpack_from(">H", index, 30)
    sizes = [struct.unpack_from(">I", index, 32 + 12 * number)[0] for number in range(count)]
    assert sizes == [len(_media(path.read_bytes())) for path in parts]
    lengths = [struct.unpack_from(">I", index, 36 + 12 * number)[0] for number in range(count)]
    assert lengths == [one.duration for one in single if isinstance(one, Segment)]


@pytest.mark.parametrize("order", [(0, 2), (1, 0), (0, 0)])
def test_fragments_that_do_not_follow_each_other_are_no_segment(
    written: Path, tmp_path: Path, order: tuple[int, int]
) -> None:
    join.join([written / fragment_name(number) for number in order], tmp_path / "seg")
    assert inspect_segment(tmp_path / "seg") == Torn("its fragments are not contiguous")


def test_an_index_of_another_kind_is_reported(written: Path, tmp_path: Path) -> None:
    content = (written / fragment_name(0)).read_bytes()
    at = content.index(b"sidx") + 4
    (tmp_path / "odd").write_bytes(content[:at] + b"\x07" + content[at + 1 :])
    with pytest.raises(boxes.BoxError):
        join.join([tmp_path / "odd"], tmp_path / "seg")


def _media(fragment: bytes) -> bytes:
    return fragment[fragment.index(b"moof") - 4 :]

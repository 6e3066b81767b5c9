"""A ladder whose segments several workers encode equals that of one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tqstudio.engine.media.encode.division import RangeEncode, division, gaps
from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.segments.collector import InitDiffersError
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.errors import ErrorCode, TqError

from .conftest import MakeEncode, leave, run_to_end
from .corpus import CORPUS, Corpus, Nasty, pictures
from .test_resume import RUNGS, streams, video_of

BeginEncode = Callable[[Path], LadderEncode]
_SEEKABLE = [one for one in CORPUS if not one.unseekable]


@pytest.fixture(scope="module")
def corpus(ffmpeg: FFmpeg, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(ffmpeg, tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def slow(small: Profile) -> Profile:
    return replace(small, preset="slow", segment_s=3, gop_s=1)


@pytest.fixture
def begun_encode(encode: MakeEncode, slow: Profile) -> BeginEncode:
    """Makes an encode of which nothing is stored but the headers, with which others compare theirs."""

    def make_one(source: Path) -> LadderEncode:
        first = encode(source, slow, rungs=RUNGS, poster=False)
        run_to_end(
            first, until=lambda: all(SegmentStore(s.directory).init_path.exists() for s in video_of(first))
        )
        first.kill()
        for state in video_of(first):
            leave(state.directory, 0)
        return encode(source, slow, rungs=RUNGS, poster=False)

    return make_one


def keys_of(encode: LadderEncode) -> dict[str, str]:
    encode.look_up()
    return {state.name: state.stream_key for state in video_of(encode)}


def part_of(encode: LadderEncode, folder: Path, first: int, end: int, **changes: object) -> RangeEncode:
    """A range of an encode, in a scratch directory of its own."""
    folder.mkdir()
    spec = replace(encode.spec, scratch=folder, **changes)  # type: ignore[arg-type]
    return RangeEncode(spec, first, end, keys_of(encode))


def make(part: RangeEncode, until: Callable[[], bool] = lambda: False) -> None:
    try:
        while part.step() and not until():
            time.sleep(0.002)
    finally:
        part.kill()


def begun(encode: LadderEncode) -> list[int]:
    """The segments at which its runs of video began."""
    return [run.resumed_from for run in encode.runs if run.label == "video"]


def stored(encode: LadderEncode) -> dict[str, list[int]]:
    return {state.name: sorted(SegmentStore(state.directory).numbers_from(0)) for state in video_of(encode)}


@pytest.mark.parametrize(
    "nasty",
    [
        pytest.param(one, id=one.name, marks=[] if number == 0 else [pytest.mark.more])
        for number, one in enumerate(_SEEKABLE)
    ],
)
def test_ranges_of_others_between_its_own(
    corpus: Corpus, encode: MakeEncode, slow: Profile, begun_encode: BeginEncode, nasty: Nasty, tmp_path: Path
) -> None:
    """Two are made before the encode comes there, one of them is broken off."""
    source = corpus.source(nasty)
    whole = encode(source, slow, rungs=RUNGS, poster=False, store_root=tmp_path / "whole")
    run_to_end(whole)
    assert (whole.state, whole.error) == ("done", None)
    expected = {name: pictures(stream) for name, stream in streams(whole).items()}
    last = whole.spec.grid.segment_count - 1
    assert last >= 4

    own = begun_encode(source)
    make(part_of(own, tmp_path / "range", 3, last))
    assert stored(own) == {name: [*range(3, last)] for name in ("90p", "54p")}
    broken = part_of(own, tmp_path / "broken", 1, 3)
    make(broken, until=lambda: min(broken.done.values()) > 0)
    run_to_end(own)
    assert (own.state, own.error) == ("done", None)
    assert own.warnings == whole.warnings
    assert {name: pictures(stream) for name, stream in streams(own).items()} == expected
    assert set(begun(own)) <= {0, 2, last - 1, last}, "a run begins where segments are missing"


def test_it_skips_what_others_have_made(corpus: Corpus, begun_encode: BeginEncode, tmp_path: Path) -> None:
    own = begun_encode(corpus.source(_SEEKABLE[0]))
    last = own.spec.grid.segment_count - 1
    make(part_of(own, tmp_path / "range", 1, last))
    own.start()
    offered = division(own)
    assert offered is not None
    assert (list(offered.missing), offered.streams) == ([(0, 1)], keys_of(own))
    run_to_end(own)
    assert (own.state, own.error) == ("done", None)
    [first] = [run for run in own.runs if run.label == "video" and run.resumed_from == 0]
    # On a busy machine ffmpeg may have made all of it before anyone looks.
    assert begun(own) in ([0, last], [0, last - 1]) or first.returncode == 0
    assert division(own) is None


def test_what_is_stored_ahead_counts(
    corpus: Corpus, encode: MakeEncode, slow: Profile, begun_encode: BeginEncode, tmp_path: Path
) -> None:
    source = corpus.source(_SEEKABLE[0])
    own = begun_encode(source)
    last = own.spec.grid.segment_count - 1
    make(part_of(own, tmp_path / "range", last - 1, last))
    own.start()
    offered = division(own)
    assert offered is not None
    assert list(offered.missing) == gaps(0, last, {last - 1})
    run_to_end(own)
    assert own.state == "done"
    for state in video_of(own):
        SegmentStore(state.directory).remove("seg_00002.m4s")
    again = encode(source, slow, rungs=RUNGS, poster=False)
    again.look_up()
    assert {state.segments_done for state in video_of(again)} == {last}
    assert {tuple(numbers) for numbers in stored(again).values()} == {(0, 1, *range(3, last + 1))}


def test_another_encoder_can_make_none_of_it(
    corpus: Corpus, encode: MakeEncode, slow: Profile, tmp_path: Path
) -> None:
    own = encode(corpus.source(_SEEKABLE[0]), slow, rungs=RUNGS, poster=False)
    ffmpeg = replace(own.spec.ffmpeg, build="another")
    with pytest.raises(TqError) as caught:
        part_of(own, tmp_path / "range", 1, 2, ffmpeg=ffmpeg)
    assert caught.value.code is ErrorCode.UNSUPPORTED


def test_a_source_that_ends_early_ends_the_range(
    corpus: Corpus, begun_encode: BeginEncode, tmp_path: Path
) -> None:
    own = begun_encode(corpus.source(_SEEKABLE[0]))
    count = own.spec.grid.segment_count
    with pytest.raises(TqError) as caught:
        make(part_of(own, tmp_path / "range", count + 1, count + 2))
    assert caught.value.code is ErrorCode.OUTPUT_EMPTY
    run_to_end(own)
    assert own.state == "done"


def test_a_range_without_headers_to_compare_with_stores_nothing(
    corpus: Corpus, encode: MakeEncode, slow: Profile, tmp_path: Path
) -> None:
    own = encode(corpus.source(_SEEKABLE[0]), slow, rungs=RUNGS, poster=False)
    with pytest.raises(InitDiffersError):
        make(part_of(own, tmp_path / "range", 1, 2))
    assert not any(stored(own).values())


def test_a_range_with_another_init_removes_nothing(
    corpus: Corpus, encode: MakeEncode, slow: Profile, tmp_path: Path
) -> None:
    own = encode(corpus.source(_SEEKABLE[0]), slow, rungs=RUNGS, poster=False)
    run_to_end(own, until=lambda: all(stored(own).values()))
    own.kill()
    for state in video_of(own):
        leave(state.directory, 1)
        init = state.directory / "init.mp4"
        init.write_bytes(init.read_bytes() + b"\0\0\0\x08free")
    before = stored(own)
    with pytest.raises(InitDiffersError):
        make(part_of(own, tmp_path / "range", 1, 2))
    assert stored(own) == before


def test_sources_that_are_decoded_from_their_start_are_not_divided(
    corpus: Corpus, encode: MakeEncode, slow: Profile
) -> None:
    jumping = next(one for one in CORPUS if one.unseekable == "probed")
    own = encode(corpus.source(jumping), slow, rungs=RUNGS, poster=False)
    own.start()
    assert any(task.kind == "video" for task in own.tasks)
    assert division(own) is None


@pytest.mark.parametrize(
    ("taken", "left"),
    [
        ((), [(2, 9)]),
        ((2, 8), [(3, 8)]),
        ((4, 5), [(2, 4), (6, 9)]),
        (range(20), []),
        ((0, 1, 9, 12), [(2, 9)]),
    ],
)
def test_gaps(taken: tuple[int, ...], left: list[tuple[int, int]]) -> None:
    assert gaps(2, 9, taken) == left


def test_a_run_that_catches_up_past_what_others_have_made(
    corpus: Corpus, encode: MakeEncode, slow: Profile
) -> None:
    """It has ended before it is looked at: all that it has written counts."""
    source = corpus.source(_SEEKABLE[0])
    run_to_end(encode(source, slow, rungs=RUNGS, poster=False))
    own = encode(source, slow, rungs=RUNGS, poster=False)
    own.look_up()
    ahead, late = video_of(own)
    leave(ahead.directory, 5)
    store = SegmentStore(late.directory)
    for name in ("seg_00001.m4s", "seg_00003.m4s", "seg_00005.m4s"):
        store.remove(name)
    own.look_up()
    own.start()
    [run] = [task for task in own.tasks if task.kind == "video"]
    assert (run.names, run.planned and run.planned.stop) == (("54p",), 15)
    run.run.wait()
    run_to_end(own)
    assert (own.state, own.error, own.warnings) == ("done", None, [])
    assert [len(numbers) for numbers in stored(own).values()] == [own.spec.grid.segment_count] * 2

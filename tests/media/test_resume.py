"""Killed and resumed in every segment of sources with nasty timestamps: no one can see it afterwards."""

from __future__ import annotations

import io
import os
import signal
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import av
import pytest

from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.values import RenditionState, RunRecord
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.media.source.probe import probe

from .conftest import MakeEncode, leave, run_ffmpeg, run_to_end
from .corpus import CORPUS, Corpus, Nasty, pictures

RUNGS = (Rung("90p", 160, 90, 200), Rung("54p", 96, 54, 100))


@pytest.fixture(scope="module")
def corpus(ffmpeg: FFmpeg, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(ffmpeg, tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def slow(small: Profile) -> Profile:
    """Slow enough to be killed between two segments."""
    return replace(small, preset="slow", segment_s=3, gop_s=1)


def video_of(encode: LadderEncode) -> list[RenditionState]:
    return [state for state in encode.renditions if state.kind == "video"]


def streams(encode: LadderEncode) -> dict[str, bytes]:
    """Each stored stream as one file, init.mp4 in front."""
    return {
        state.name: b"".join(
            path.read_bytes()
            for path in [state.directory / "init.mp4", *sorted(state.directory.glob("*.m4s"))]
        )
        for state in video_of(encode)
    }


def kill_behind(encode: LadderEncode, fragment: int) -> None:
    """SIGKILL every ffmpeg as soon as all qualities have so many fragments; what came after is taken away."""
    run_to_end(encode, until=lambda: _fragments_made(encode) >= fragment)
    encode.kill()
    for state in video_of(encode):
        leave(state.directory, *divmod(fragment, len(encode.spec.grid.fragments_of(0))))


def _fragments_made(encode: LadderEncode) -> int:
    outputs = [output for task in encode.tasks if task.kind == "video" for output in task.outputs]
    return min((output.next_piece for output in outputs), default=0)


@pytest.mark.fault(
    "ffmpeg is killed in any segment or fragment",
    "The result equals that of an uninterrupted run, frame by frame",
    area="resume",
)
@pytest.mark.parametrize(
    ("number", "nasty"),
    [
        pytest.param(
            number, nasty, id=nasty.name, marks=[] if nasty.name == "jump-forward.ts" else [pytest.mark.slow]
        )
        for number, nasty in enumerate(CORPUS)
    ],
)
def test_killed_in_every_segment(
    corpus: Corpus, encode: MakeEncode, slow: Profile, number: int, nasty: Nasty, tmp_path: Path
) -> None:
    """In each once: at its first, its second or its third fragment, by turns."""
    source = corpus.source(nasty)
    whole = encode(source, slow, rungs=RUNGS, poster=False, store_root=tmp_path / "whole")
    assert whole.spec.facts.unseekable is (nasty.unseekable == "probed")
    run_to_end(whole)
    assert (whole.state, whole.error) == ("done", None)
    assert whole.spec.facts.unseekable is bool(nasty.unseekable)
    expected = {name: pictures(stream) for name, stream in streams(whole).items()}
    _is_the_source(expected["90p"], nasty)
    assert [number for _, number in expected["54p"]] == [number for _, number in expected["90p"]]

    grid = whole.spec.grid
    each = len(grid.fragments_of(0))
    cuts = [k * each + (k + number) % each for k in range(grid.segment_count)]
    # With fewer pictures left, a run begins earlier.
    cuts = [cut for cut in cuts if 0 < grid.fragment_start(cut) <= grid.total_frames - 16]
    begun, killed = [], 0
    for cut in cuts:
        attempt = encode(source, slow, rungs=RUNGS, poster=False)
        kill_behind(attempt, cut)
        begun.append(_video_run(attempt).starts_at_s)
        killed += _video_run(attempt).returncode == -signal.SIGKILL
    while not killed:
        # On a busy machine ffmpeg may have ended before it was looked at; here it is killed as it begins.
        attempt = encode(source, slow, rungs=RUNGS, poster=False)
        kill_behind(attempt, cuts[-1])
        killed += _video_run(attempt).returncode == -signal.SIGKILL
    last = encode(source, slow, rungs=RUNGS, poster=False)
    run_to_end(last)
    assert (last.state, last.error) == ("done", None)
    # Where two streams were joined, packets at the join are damaged: ffmpeg reports them when it reads them.
    assert {warning.code for warning in last.warnings} <= {warning.code for warning in whole.warnings}
    assert last.spec.facts.unseekable is bool(nasty.unseekable), "no seam missed that a seek can find"
    begun.append(_video_run(last).starts_at_s)
    assert begun == [grid.fragment_s(cut) for cut in (0, *cuts)]
    assert {name: pictures(stream) for name, stream in streams(last).items()} == expected
    assert [s.check.frames for s in video_of(last) if s.check] == [len(expected["90p"])] * 2
    for sound in (state for state in last.renditions if state.kind == "audio" and state.check):
        assert sound.check is not None
        assert abs(sound.check.duration_s - _seconds(expected["90p"], whole)) < 0.3 + nasty.late_s


@pytest.mark.parametrize(
    "nasty", [one for one in CORPUS if one.unseekable == "probed"], ids=lambda one: one.name
)
def test_the_probe_knows_how_long_a_jumping_source_plays(corpus: Corpus, nasty: Nasty) -> None:
    facts = probe(os.fsencode(corpus.source(nasty)))
    assert facts.unseekable
    assert facts.duration_s == facts.video.duration_s == pytest.approx(17.4, abs=0.1)
    assert SourceFacts.from_json(facts.to_json()) == facts


def test_a_probe_of_a_whole_file_can_be_ended(corpus: Corpus) -> None:
    class Enough(Exception):
        pass

    def check() -> None:
        raise Enough

    with pytest.raises(Enough):
        probe(os.fsencode(corpus.source(CORPUS[0])), check)


def _video_run(encode: LadderEncode) -> RunRecord:
    return [run for run in encode.runs if run.label == "video"][-1]


def _is_the_source(shown: list[tuple[int, int]], nasty: Nasty) -> None:
    """Even frames, and every picture that the source has in its order."""
    assert len({later - earlier for (earlier, _), (later, _) in pairwise(shown)}) == 1
    numbers = [number for _, number in shown]
    first, end = nasty.shown
    assert (numbers[0], numbers[-1] + 1) == (first, end)
    assert numbers == sorted(numbers)
    assert len(set(numbers)) == end - first - nasty.lost
    held = numbers.count(first) - 1
    assert all(numbers.index(number) == number - first + held for number in {*numbers} - {first}), (
        "at its time"
    )


def _seconds(shown: list[tuple[int, int]], encode: LadderEncode) -> float:
    return float(len(shown) / encode.spec.grid.fps)


@pytest.mark.parametrize("left", [1, 2, 5])
def test_resumed_where_few_pictures_are_left(
    ffmpeg: FFmpeg, encode: MakeEncode, slow: Profile, tmp_path: Path, left: int
) -> None:
    """An encoder that gets one picture alone does not delay it, and says so in the initialisation segment."""
    source = tmp_path / "short.mp4"
    picture = ("-f", "lavfi", "-i", "testsrc2=s=160x90:r=25")
    run_ffmpeg(ffmpeg, *picture, "-frames:v", str(225 + left), "-c:v", "libx264", str(source))
    whole = encode(source, slow, rungs=RUNGS, poster=False)
    run_to_end(whole)
    expected = {name: pictures_of(stream) for name, stream in streams(whole).items()}
    inits = {state.name: (state.directory / "init.mp4").read_bytes() for state in video_of(whole)}
    for state in video_of(whole):
        leave(state.directory, 3)
    again = encode(source, slow, rungs=RUNGS, poster=False)
    run_to_end(again)
    assert (again.state, again.error, again.notes) == ("done", None, [])
    assert {state.name: (state.directory / "init.mp4").read_bytes() for state in video_of(again)} == inits
    assert {name: pictures_of(stream) for name, stream in streams(again).items()} == expected
    assert [run.resumed_from for run in again.runs if run.label == "video"] != [0]


def pictures_of(stream: bytes) -> list[int]:
    """The times of the pictures of a stream."""
    with av.open(io.BytesIO(stream)) as container:
        return [frame.pts or 0 for frame in container.decode(video=0)]

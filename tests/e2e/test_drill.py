"""The drill: kills at random places and times, and nothing lost. `make chaos KILLS=1000` does more of it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tqstudio.drill import clips
from tqstudio.drill.clips import CLIPS
from tqstudio.drill.run import drill
from tqstudio.drill.sandbox import Sandbox
from tqstudio.drill.witness import Witness, unplayable, wrong_frames

from .conftest import MakeClip
from .studio import Studio

KILLS = 6


@pytest.fixture
def root() -> Iterator[Path]:
    """A short path: the sandbox's socket lies below it."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tqd-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


# On a busy machine its six faults and the calm after them take long.
@pytest.mark.slow
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.more), 2])
def test_nothing_is_lost_whatever_is_killed(root: Path, ffmpeg: str, workers: int) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    account = drill(Sandbox(root, ffmpeg, workers), ffmpeg, kills=KILLS, seed=seed, log=print)
    assert account.lost == []
    assert sum(account.faults.values()) >= KILLS
    assert account.jobs_done >= len(CLIPS)
    assert account.ladders_checked >= len(CLIPS)


# The witness is worth nothing unless it sees.


def test_a_segment_that_is_made_again_is_seen(tmp_path: Path) -> None:
    store = tmp_path / ".tqstudio" / "uuid" / "segments" / "1" / "360p" / "key"
    store.mkdir(parents=True)
    segment = store / "seg_00000.m4s"
    segment.write_bytes(b"first")
    witness = Witness(tmp_path)
    witness.check()
    witness.check()
    assert witness.made_again == []
    other = store / "other"
    other.write_bytes(b"second")
    other.replace(segment)
    witness.check()
    assert witness.made_again == [str(segment)]


@pytest.mark.slow
def test_a_ladder_that_does_not_play_is_seen(shared: Studio, clip: MakeClip, copy, tmp_path: Path) -> None:
    studio = shared
    done = studio.done(studio.add(copy(clip(seconds=4), "witnessed.mp4")))
    master = Path(done["video_view"]["generation"]["master"])
    assert unplayable(master) is None
    names = ("180p", "120p", "90p")
    assert wrong_frames(master, 100, names) is None
    assert "100 frames instead of 99" in str(wrong_frames(master, 99, names))
    assert "instead of" in str(wrong_frames(master, 100, ("180p",)))

    broken = tmp_path / "broken"
    shutil.copytree(master.parent, broken, ignore=shutil.ignore_patterns(".owner"))
    segment = next(broken.glob("v*/120p/seg_*.m4s"))
    segment.unlink()
    assert segment.name in str(unplayable(broken / "master.m3u8"))
    witness = Witness(tmp_path)
    witness.check()
    assert len(witness.broken) == 1
    (broken / "master.m3u8").unlink()
    assert unplayable(broken / "master.m3u8") == "the master playlist is missing"


@pytest.mark.slow
def test_the_clips_have_the_frames_they_say(tmp_path: Path, ffmpeg: str) -> None:
    import av

    for source in CLIPS:
        with av.open(str(clips.make(source, tmp_path, ffmpeg))) as container:
            assert sum(1 for _ in container.decode(video=0)) == source.frames

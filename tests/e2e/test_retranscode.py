"""A ladder is made again while it plays: what plays never breaks."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import m3u8
import pytest

from waiting import until

from .conftest import MakeClip, MakeStudio
from .ladder import check_ladder
from .studio import Studio, audio_runs, published_marks, video_runs

RUNGS = ("180p", "120p", "90p")


class Player:
    """Reads the master and everything it names, from the start, again and again."""

    def __init__(self, master: Path) -> None:
        self.master = master
        self.rounds = 0
        self.generations: set[str] = set()
        self.trouble: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._play()
            except Exception as error:
                self.trouble = f"{type(error).__name__}: {error}"
                return
            self.rounds += 1

    def _play(self) -> None:
        master = m3u8.loads(self.master.read_text())
        names = [entry.uri for entry in (*master.playlists, *master.media)]
        assert len(names) == 4, f"the master names {names}"
        for name in names:
            self.generations.add(name.split("/")[0])
            index = self.master.parent / name
            playlist = m3u8.loads(index.read_text())
            files = [playlist.segment_map[0].uri, *(segment.uri for segment in playlist.segments)]
            for file in files:
                assert (index.parent / file).read_bytes(), f"{name}: {file} is empty"

    def end(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self.trouble is None, self.trouble


@pytest.fixture
def seconds() -> int:
    """The length of the clip; tests that act while it is encoded set a longer one."""
    return 4


@pytest.fixture
def ready(shared: Studio, clip: MakeClip, copy, seconds: int) -> int:
    """A finished job of a clip of its own."""
    job = shared.add(copy(clip(seconds=seconds), "plays.mp4"))
    shared.done(job)
    return job


@pytest.fixture
def player(shared: Studio, ready: int) -> Iterator[Player]:
    player = Player(Path(shared.video_of(ready)["generation"]["master"]))
    until(lambda: player.rounds, "the player has played")
    yield player
    player.end()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [12])
def test_all_of_it_again_while_it_plays(shared: Studio, ready: int, player: Player) -> None:
    old = published_marks(shared.job(ready))
    with shared.paced(2):
        again = shared.do("retranscode", ready)["new_job"]
        assert again != ready
        shared.running(again)
        assert shared.video_of(ready)["status"] == "ready"
        # It says how to get out of it.
        refused = shared.act("retranscode", ready)
        assert refused["error"]["code"] == "REFUSED"
        assert f"job {again}" in refused["error"]["message"]
        assert "cancel" in refused["error"]["message"]
        refused = shared.act("retranscode", again)
        assert "restart" in refused["error"]["message"]
        assert "cancel" in refused["error"]["message"]
    done = shared.done(again)
    assert done["kind"] == "retranscode"
    assert shared.job(ready)["status"] == "done", "the old job stays as it is"
    rounds = player.rounds
    until(lambda: player.rounds >= rounds + 2 or player.trouble, "the player plays the new one")
    player.end()
    assert player.generations == {"v1", "v2"}
    assert not old & published_marks(done), "everything was made again"
    folder = player.master.parent
    assert len(list((folder / "v1").glob("*/*.m4s"))) == len(old), "the old generation stays for its players"
    check_ladder(player.master, frames=300, fps=Fraction(25), names=RUNGS)


@pytest.mark.slow
def test_one_quality_again_keeps_the_others(shared: Studio, ready: int, player: Player) -> None:
    before = shared.job(ready)
    again = shared.do("retranscode", ready, renditions=["120p"])["new_job"]
    done = shared.done(again)
    for name in ("180p", "90p", "audio-und"):
        marks = published_marks(before, name)
        assert marks
        assert published_marks(done, name) == marks, f"{name} stays as it is, by hard links"
    assert not published_marks(done, "120p") & published_marks(before, "120p")
    (attempt,) = done["attempts_log"]
    (run,) = video_runs(attempt)
    assert "120p/index.m3u8" in run
    assert "180p/index.m3u8" not in run
    assert audio_runs(attempt) == []
    assert done["requested"] == ["120p"]
    rows = {row["name"]: (row["status"], row["reason"]) for row in done["renditions"]}
    assert rows["120p"] == ("completed", None)
    assert rows["180p"][0] == "completed" or rows["180p"] == ("skipped", "not requested")
    timed = {row["name"] for row in done["renditions"] if row["started_at"] and row["completed_at"]}
    assert timed == {"120p"}, "only what was made took time"
    player.end()
    check_ladder(player.master, frames=100, fps=Fraction(25), names=RUNGS)


@pytest.mark.fault("A retranscode fails", "The old ladder keeps playing", area="publishing")
def test_one_that_fails_leaves_the_old_playing(shared: Studio, ready: int, player: Player) -> None:
    source = Path(os.fsdecode(shared.video_of(ready)["path"]))
    before = published_marks(shared.job(ready))
    source.unlink()
    again = shared.do("retranscode", ready)["new_job"]
    failed = shared.wait(again, "failed")
    assert failed["error"]["code"] == "SOURCE_MISSING"
    assert failed["video_view"]["status"] == "ready"
    assert failed["video_view"]["generation"]["number"] == 1
    assert published_marks(failed) == before
    rounds = player.rounds
    until(lambda: player.rounds > rounds or player.trouble, "the player keeps playing")
    player.end()
    assert player.generations == {"v1"}


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [12])
@pytest.mark.fault("A retranscode is cancelled", "The old ladder keeps playing", area="publishing")
def test_one_that_is_cancelled_leaves_the_old_playing(shared: Studio, ready: int, player: Player) -> None:
    with shared.paced(2):
        again = shared.do("retranscode", ready)["new_job"]
        shared.running(again)
        shared.do("cancel", again)
        cancelled = shared.wait(again, "cancelled")
    assert cancelled["video_view"]["status"] == "ready"
    assert cancelled["video_view"]["generation"]["number"] == 1
    player.end()


@pytest.mark.slow
def test_what_a_killed_publish_left_is_swept(shared: Studio, ready: int) -> None:
    before = shared.video_of(ready)["generation"]
    folder, next_number = Path(before["master"]).parent, before["number"] + 1
    (folder / f".v{next_number}-building" / "180p").mkdir(parents=True)
    (folder / ".master.m3u8-next").write_text("#EXTM3U")
    (folder / ".mine").touch()
    shared.done(shared.do("retranscode", ready)["new_job"])
    versions = {f"v{before['number']}", f"v{next_number}"}
    assert {p.name for p in folder.iterdir()} == {".mine", ".owner", "master.m3u8", *versions}


def test_an_unknown_quality_is_refused(shared: Studio, ready: int) -> None:
    refused = shared.act("retranscode", ready, renditions=["4711p"])
    assert refused["error"]["code"] == "REFUSED"
    assert "4711p" in refused["error"]["message"]
    assert "120p" in refused["error"]["message"]
    assert refused["new_job"] is None


@pytest.mark.slow
@pytest.mark.fault(
    "The supervisor is killed while a retranscode is published",
    "The old ladder plays; nothing is encoded again",
    area="publishing",
)
def test_killed_in_mid_publish_it_plays_on_and_nothing_is_encoded_again(
    make_studio: MakeStudio, clip: MakeClip, copy
) -> None:
    studio = make_studio().up()
    first = studio.add(copy(clip(), "plays.mp4"))
    player = Player(Path(studio.done(first)["video_view"]["generation"]["master"]))
    studio.down()

    studio.fail_point = "publish.built"
    second = studio.up().do("retranscode", first)["new_job"]
    studio.died()
    done = studio.up().done(second)
    assert [attempt["outcome"] for attempt in done["attempts_log"]] == ["lost", "done"]
    assert done["attempts_log"][1]["argv"] == [], "its segments were where they were"
    assert (done["attempts"], done["crashes"]) == (0, 0)
    studio.down()

    studio.fail_point = "publish.pointed"
    third = studio.up().do("retranscode", second)["new_job"]
    studio.died()
    done = studio.up().done(third)
    assert [attempt["outcome"] for attempt in done["attempts_log"]] == ["done"], "it had been published"
    assert done["video_view"]["generation"]["number"] == 3
    rounds = player.rounds
    until(lambda: player.rounds >= rounds + 2 or player.trouble, "the player plays the last one")
    player.end()
    assert player.generations == {"v1", "v2", "v3"}
    check_ladder(player.master, frames=100, fps=Fraction(25), names=RUNGS)
    names = {entry.name for entry in player.master.parent.iterdir()}
    assert names == {".owner", "master.m3u8", "v1", "v2", "v3"}

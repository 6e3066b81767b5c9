"""A library that an earlier version published stays as it is when a newer one looks at all of it."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest

from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.keys import expected_hashes
from tqstudio.engine.media.source.facts import SourceFacts
from waiting import until

from .conftest import MakeClip, MakeStudio
from .studio import Studio
from .test_drop_folder import Drop

LADDERS = 100


def _as_before(studio: Studio) -> None:
    """Store what the version before stored: facts without the rate of the pictures, and keys by these."""
    profile = profiles.load("tiny", studio.home.profiles)
    with contextlib.closing(sqlite3.connect(studio.home.database)) as db, db:
        for video, content, stored in db.execute("SELECT id, quick_hash, facts FROM video").fetchall():
            facts = json.loads(stored)
            now = expected_hashes(content, profile, SourceFacts.from_json(facts))
            assert facts["video"].pop("measured_bitrate") > 0
            before = expected_hashes(content, profile, SourceFacts.from_json(facts))
            assert before["90p"] != now["90p"], "the source is not poor enough for this test"
            db.execute("UPDATE video SET facts = ? WHERE id = ?", (json.dumps(facts), video))
            db.executemany(
                "UPDATE published_rendition SET settings_hash = ? WHERE name = ? AND generation_id IN"
                " (SELECT id FROM generation WHERE video_id = ?)",
                [(key, name, video) for name, key in before.items()],
            )


def _done(drop: Drop) -> int:
    return sum(job["status"] == "done" for job in drop.jobs())


@pytest.mark.slow
def test_a_hundred_ladders_are_looked_at_and_none_is_made_again(
    make_studio: MakeStudio, clip: MakeClip, tmp_path: Path
) -> None:
    studio = make_studio()
    drop = Drop(studio.up(), tmp_path / "in", duplicates="link")
    source = clip(seconds=1)
    files = [drop.put(source, f"film {number}.mp4") for number in range(LADDERS)]
    until(lambda: _done(drop) == LADDERS, "all are published", timeout_s=300)
    studio.down()
    _as_before(studio)
    studio.up()
    assert {answer["decision"] for answer in studio.offer(*files, profile="tiny")} == {"cached"}
    # With one quality made again, its facts and that key are new, the others' are not.
    again = studio.do("retranscode", drop.job(), renditions=["90p"])
    studio.done(again["new_job"])
    assert {answer["decision"] for answer in studio.offer(*files, profile="tiny")} == {"cached"}
    drop.put(source, "the last one.mp4")
    until(lambda: len(drop.jobs()) > LADDERS + 1, "the folder is scanned")
    assert [job["name"] for job in drop.jobs()[LADDERS + 1 :]] == ["the last one.mp4"]

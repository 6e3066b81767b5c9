"""A restored backup beside the database it was made of: both have one store, and so one work folder."""

from __future__ import annotations

import shutil

import pytest

from tqstudio.paths import encode
from waiting import until

from .conftest import MakeClip, MakeStudio
from .studio import Studio


@pytest.fixture
def pair(make_studio: MakeStudio) -> tuple[Studio, Studio]:
    """Two homes, the second one not begun; `double` makes it a copy of the first."""
    return make_studio(), make_studio()


def double(first: Studio, second: Studio) -> None:
    """Restore a backup of the first home's database in the second home."""
    copy = first.root / "copy.db"
    assert first("backup", copy).code == 0
    shutil.copyfile(copy, second.home.database)


@pytest.mark.more
@pytest.mark.fault(
    "A copy of a home is started while the original works",
    "`OUTPUT_IN_USE`: it does not start",
    area="supervisor",
)
def test_a_copy_does_not_start_while_the_first_one_works(
    pair: tuple[Studio, Studio], clip: MakeClip, copy
) -> None:
    first, second = pair
    first.up()
    first.done(first.add(copy(clip(seconds=1), "done.mp4")))
    with first.paced(1):
        job = first.add(copy(clip(seconds=40), "long.mp4"))
        first.running(job)
        double(first, second)
        second.environment = {**second.environment, "TQSTUDIO_OUTPUT": str(first.out)}
        second.launch()
        assert second.ended() == 4
        assert "OUTPUT_IN_USE" in second.last_words() or "OUTPUT_IN_USE" in second("up", "--detach").err
        assert first.job(job)["status"] == "in_progress"
    first.done(job)
    first.down()
    second.up()


@pytest.mark.slow
@pytest.mark.fault(
    "A restored backup is started beside the supervisor of the original",
    "It does not start, or waits, with `OUTPUT_IN_USE`",
    area="supervisor",
)
def test_two_that_run_do_not_work_in_one_output_at_the_same_time(
    pair: tuple[Studio, Studio], clip: MakeClip, copy
) -> None:
    first, second = pair
    first.up()
    double(first, second)
    second.up()
    options = {"output_b64": encode(first.out)}
    with first.paced(1):
        job = first.add(copy(clip(seconds=12), "long.mp4"))
        first.running(job)
        until(lambda: list(first.out.glob(".tqstudio/*/lock")), "the output is locked")
        other = second.add(copy(clip(seconds=1), "short.mp4"), **options)
        gate = until(lambda: second.status()["gates"], "the second one waits")[0]
        assert (gate["code"], second.job(other)["status"]) == ("OUTPUT_IN_USE", "pending")
        assert str(first.out) in gate["reason"]
    first.done(job)
    # Nothing unfinished lies there any more, so the first one lets go of it.
    second.done(other)

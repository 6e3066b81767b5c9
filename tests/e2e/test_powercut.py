"""Some power cuts, where a file system can be mounted and shut down. `make powercut` makes more of them."""

from __future__ import annotations

import random

import pytest

from powercut.course import Account, run
from powercut.volume import CannotCut

CUTS = 2


def _seed() -> int:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    return seed


# On a busy machine a cut, with all that is looked at after it, takes its time.
@pytest.mark.fault(
    "The power fails at any moment",
    "Nothing that was confirmed is lost, every ladder plays, and the queue continues",
    area="power cuts",
)
@pytest.mark.slow
def test_nothing_that_was_reported_is_lost(ffmpeg: str) -> None:
    try:
        account = run(Account(), ffmpeg=ffmpeg, cuts=CUTS, seed=_seed(), say=print)
    except CannotCut as reason:
        pytest.skip(str(reason))
    assert account.lost == []
    assert account.cuts == CUTS
    assert account.ladders > 0
    assert account.jobs_done == account.jobs > 0


@pytest.mark.more
def test_a_studio_that_does_not_sync_its_commits_is_caught(ffmpeg: str) -> None:
    """The cuts are worth nothing unless they show it."""
    try:
        account = run(Account(), ffmpeg=ffmpeg, cuts=8, seed=_seed(), careless="commits", say=print)
    except CannotCut as reason:
        pytest.skip(str(reason))
    assert any(line.startswith(("event", "job", "database")) for line in account.caught), account.caught
    assert account.lost == []

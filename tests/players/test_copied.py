"""Players change between a quality that is a copy, whose segments are unequal, and encoded ones beside it."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import m3u8
import pytest

from .conftest import Ask, Published
from .sources import RISES_S, Kind
from .test_players import NATIVE, OF_DASH, OF_HLS, check_played, open_it, pairs, seek

pytestmark = pytest.mark.players


def _copied(kind: Kind) -> bool:
    return kind.copied


def _starts(published: Published, kind: Kind) -> list[int]:
    """The first frames of the segments, which all qualities share, and the end."""
    playlists = [*(published(kind).master.parent / "v1").glob("*p/index.m3u8")]
    assert len(playlists) == len(kind.levels)
    [lengths] = {
        tuple(round(each.duration * kind.fps) for each in m3u8.loads(path.read_text()).segments)
        for path in playlists
    }
    return [*accumulate(lengths, initial=0)]


@pytest.mark.parametrize(("kind", "player"), pairs(*OF_HLS, *OF_DASH, of=_copied))
def test_qualities_change_without_a_gap_or_a_repeated_picture(
    ask: Ask, published: Published, kind: Kind, player: str
) -> None:
    """The copy and an encoded one in turn, segment by segment: each picture around their edges is there."""
    starts = _starts(published, kind)
    assert (starts[-1], len({end - begin for begin, end in pairwise(starts)}) > 2) == (kind.frames, True)
    open_it(ask, published, kind, player, in_turn=True)
    ask("loaded")
    seek(ask, kind, (frame for edge in starts[1:-1] for frame in range(edge - 2, edge + 3)))
    ask("seek", 0, 0)
    played = ask("playToEnd", 2)
    check_played(kind, played, rate=2)
    largest = max(side for side, _ in kind.levels)
    changes = [largest in pair for pair in pairwise(played["heights"])]
    assert changes.count(True) >= 2, played["heights"]


@pytest.mark.parametrize(("kind", "player"), pairs(*OF_HLS, *OF_DASH, NATIVE, of=_copied))
def test_sound_and_pictures_are_in_step(ask: Ask, published: Published, kind: Kind, player: str) -> None:
    open_it(ask, published, kind, player)
    ask("playFor", 0.2)
    [sound] = kind.sounds
    late: list[Any] = []
    for number in range(1, int(kind.frames / kind.fps / RISES_S)):
        rises = number * RISES_S
        ask("seek", rises - 0.5, int((rises - 0.5) * kind.fps + 0.01))
        late.append(ask("heard", sound.hertz * (1 + number)) - rises)
    # A busy machine may look late, never early.
    assert min(late) > -0.05, late
    assert min(late) < 0.2, late

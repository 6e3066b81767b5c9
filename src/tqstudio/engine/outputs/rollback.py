"""Takes back a publish that was not recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from tqstudio.engine.files import durable
from tqstudio.engine.files.dir_fd import NotOurs
from tqstudio.engine.outputs import generation, master
from tqstudio.engine.outputs.place import Place
from tqstudio.engine.store.library.generations import GenerationRow, PublishedRow


def undo(place: Place, number: int, rows: Sequence[PublishedRow], recorded: GenerationRow | None) -> None:
    """Leave a video's folder as it was before generation `number` was begun. Idempotent.

    Args:
        rows: what the generation was to hold.
        recorded: the generation that is to play; None when the video has none.

    Raises:
        OSError: something of it stays.
    """
    with contextlib.ExitStack() as stack:
        try:
            place = stack.enter_context(place.hold())
        except (FileNotFoundError, NotOurs):
            return  # the folder is gone, and what may be in its place is somebody else's
        _undo(place, number, rows, recorded)


def _undo(place: Place, number: int, rows: Sequence[PublishedRow], recorded: GenerationRow | None) -> None:
    if master.named(place) == number:
        if recorded is None:
            durable.discard(place.master)
            # Before the generation goes that it named.
            durable.sync_folder(place.folder)
        else:
            master.point(place, recorded.number, recorded.renditions)
    # While it has its temporary name, a folder under the final one is somebody else's; and so is one that
    # does not hold what this publish made.
    made = place.generation(number)
    named = not place.building(number).exists()
    if named and rows and all(generation.is_whole(made, row) for row in rows):
        generation.remove(place, number)
    durable.discard(place.trash(number))
    generation.sweep(place)
    durable.sync_folder(place.folder)

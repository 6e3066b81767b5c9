"""Rolls back a publish that was not recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from tqstudio.engine.files import durable
from tqstudio.engine.files.dir_fd import NotOurs
from tqstudio.engine.outputs import dash, generation, integrity, master
from tqstudio.engine.outputs.place import Place
from tqstudio.engine.store.library.generations import GenerationRow, PublishedRow


def undo(place: Place, number: int, rows: Sequence[PublishedRow], recorded: GenerationRow | None) -> None:
    """Restore a video's folder to its state before generation `number`. Idempotent.

    Args:
        rows: the renditions of the generation.
        recorded: the generation to be published instead; None if the video has none.

    Raises:
        OSError: something could not be removed.
    """
    with contextlib.ExitStack() as stack:
        try:
            place = stack.enter_context(place.hold())
        except (FileNotFoundError, NotOurs):
            return  # the folder is missing, or another one is in its place
        _undo(place, number, rows, recorded)


def _undo(place: Place, number: int, rows: Sequence[PublishedRow], recorded: GenerationRow | None) -> None:
    # It may name the generation although the master does not yet.
    dash.set_current(place, recorded.number if recorded else None)
    if master.named(place) == number:
        if recorded is None:
            durable.discard(place.master)
            # Before the generation that it named is removed.
            durable.sync_folder(place.folder)
        else:
            master.set_current(place, recorded.number, recorded.renditions)
    # A folder under the final name is not from this publish if the one with the temporary name exists, or if
    # its files differ.
    final = place.generation(number)
    named = not place.building(number).exists()
    if named and rows and not any(integrity.torn(final, rows)):
        generation.remove(place, number)
    durable.discard(place.trash(number))
    generation.sweep(place)
    durable.sync_folder(place.folder)

"""Takes over the renditions that another video published of the same source, instead of encoding them.

Their segments are hard-linked into the segment store, as if an earlier attempt had encoded them. From then on
nothing depends on the other video.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tqstudio.engine.files import durable
from tqstudio.engine.media.check import digests
from tqstudio.engine.media.encode.rendition_states import RenditionStates
from tqstudio.engine.media.encode.values import Duplicate, EncodeSpec, RenditionState
from tqstudio.engine.media.plan.file_names import IFRAMES_NAME, INIT_NAME, PLAYLIST_NAME
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.errors import ErrorCode, TqError


def take_over(
    spec: EncodeSpec, states: RenditionStates, duplicate: Duplicate, check: Callable[[], None]
) -> list[str]:
    """Complete the missing renditions that a duplicate has with the same settings.

    Args:
        check: called before each file is read; its exceptions abort.

    Returns:
        A line for each that is damaged or gone; it is left as it was.

    Raises:
        OwnershipLostError: another worker may have the job.
    """
    notes = []
    for state in states.states:
        settings, key = duplicate.keys.get(state.name, ("", ""))
        if state.status == "completed" or settings != state.settings_hash:
            continue
        # Under the duplicate's key: these segments may be joined with its own only.
        store = SegmentStore(spec.store_root / state.name / key)
        try:
            if store.completed() is None:
                _link(spec, replace(state, duplicate=duplicate.video), duplicate.folder, store, check)
            complete = store.completed()
        except (OSError, TqError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            notes.append(f"{state.name} cannot be linked from video {duplicate.video}: {why}")
            continue
        if complete is not None:
            states.update(state.name, directory=store.root, stream_key=key, duplicate=duplicate.video)
            states.complete(state.name, complete.check)
    return notes


def _link(
    spec: EncodeSpec, state: RenditionState, folder: Path, store: SegmentStore, check: Callable[[], None]
) -> None:
    """Link a rendition of a generation, verify every byte of it, and put it into the store.

    Raises:
        TqError: it is not what was published, or not what is needed.
        OSError, ValueError: a file is missing or cannot be read.
    """
    # Imported late: it loads PyAV, which most jobs need only once ffmpeg works.
    from tqstudio.engine.media.encode.finish import finish

    scratch = spec.scratch / f"{state.name}-of-{state.duplicate}"
    scratch.mkdir()
    for listed, digest in digests.read(folder / digests.SUMS_NAME).items():
        of, name = os.path.split(listed)
        if of != state.name or name in (PLAYLIST_NAME, IFRAMES_NAME):
            continue
        check()
        if name == INIT_NAME:
            durable.write(scratch / name, durable.read(folder / listed))
        else:
            durable.link(folder / listed, scratch / name)
        if digests.of_file(scratch / name) != digest:
            raise TqError(ErrorCode.OUTPUT_INVALID, f"{name} is not what was published")
    found = finish(spec, [replace(state, directory=scratch)])
    for error in (*found.failures.values(), *filter(None, [found.end_mismatch])):
        raise error
    check()
    store.put_all(scratch)

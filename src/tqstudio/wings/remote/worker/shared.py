"""Finds the source of a job in folders that this machine shares with the studio, such as a mounted NAS."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tqstudio import paths
from tqstudio.engine.media.source.fingerprint import quick_hash
from tqstudio.errors import TqError

if TYPE_CHECKING:
    from tqstudio.protocol.worker_answers import SourceFile

# File systems of other systems store times in steps of up to two seconds.
_MTIME_DIFFERS_NS = 2_000_000_000


def find(folders: Sequence[Path], source: bytes, files: Sequence[SourceFile]) -> tuple[Path, Path] | None:
    """Find a source whose content is that of the studio's, with all the files beside it.

    Where the studio has mounted a folder does not matter: the ends of the path are tried, the longest first.

    Args:
        source: its path at the studio, absolute or below a folder.
        files: as `JobInputs.files`.

    Returns:
        The folder of `folders`, and the file below it; None if the source has to be copied.
    """
    parts = Path(os.fsdecode(source)).parts
    for folder, at in itertools.product(folders, range(len(parts))):
        parent = folder.joinpath(*parts[at:]).parent
        beside = [parent / os.fsdecode(paths.decode(file["name_b64"])) for file in files]
        if all(_is_same(path, folder, file) for path, file in zip(beside, files, strict=True)):
            return folder, beside[0]
    return None


def _is_same(path: Path, folder: Path, file: SourceFile) -> bool:
    identity = file["identity"]
    try:
        state = path.stat()
        return (
            path.resolve().is_relative_to(folder.resolve())
            and state.st_size == identity["size"]
            and abs(state.st_mtime_ns - identity["mtime_ns"]) < _MTIME_DIFFERS_NS
            and quick_hash(os.fsencode(path)) == file["quick_hash"]
        )
    except (OSError, TqError):
        return False

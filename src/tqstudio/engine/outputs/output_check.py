"""Checks whether a folder can be used as an output, when it is given.

Otherwise the first job would find out, and the queue would wait for ever for space that there cannot be.
"""

from __future__ import annotations

import contextlib
import os
import stat
from functools import partial

from tqstudio.engine.files.bounded_io import BoundedIO, NoAnswer
from tqstudio.engine.outputs.workspace import require_unshared
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display

_ELSEWHERE = "choose another output folder"


async def require_usable(root: bytes, bounded_io: BoundedIO, *, allow_shared: bool) -> None:
    """Refuse an output root that cannot store files; one that does not answer is accepted.

    Args:
        allow_shared: accept a folder that other users may write to.

    Raises:
        TqError: BAD_REQUEST if the folder cannot exist, PERMISSION if it is not writable, OUTPUT_SHARED.
    """
    with contextlib.suppress(NoAnswer):
        await bounded_io.run(root, partial(_examine, root, allow_shared))


def _examine(root: bytes, allow_shared: bool) -> None:
    folder, found = _nearest(root)
    shown = display(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise TqError(ErrorCode.BAD_REQUEST, f"{shown} is not a folder", _ELSEWHERE)
    volume = os.statvfs(folder)
    if not volume.f_blocks:
        raise TqError(
            ErrorCode.BAD_REQUEST, f"the file system of {display(root)} cannot store files", _ELSEWHERE
        )
    if volume.f_flag & os.ST_RDONLY:
        raise TqError(ErrorCode.PERMISSION, f"the file system of {display(root)} is read-only", _ELSEWHERE)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise TqError(
            ErrorCode.PERMISSION,
            f"the folder {shown} is not writable",
            f"give the user that runs the supervisor access to it, or {_ELSEWHERE}",
        )
    if not allow_shared:
        require_unshared(root)


def _nearest(root: bytes) -> tuple[bytes, os.stat_result]:
    """The folder itself, or its nearest existing parent."""
    folder = root
    while True:
        try:
            return folder, os.stat(folder)
        except (FileNotFoundError, NotADirectoryError) as error:
            if os.path.islink(folder):
                message = f"{display(folder)} is a broken link"
                raise TqError(ErrorCode.BAD_REQUEST, message, _ELSEWHERE) from error
            folder = os.path.dirname(folder)
        except PermissionError as error:
            raise TqError(ErrorCode.PERMISSION, f"{display(root)} cannot be accessed") from error
        except OSError as error:
            message = f"{display(root)} cannot be an output: {error.strerror}"
            raise TqError(ErrorCode.BAD_REQUEST, message, _ELSEWHERE) from error

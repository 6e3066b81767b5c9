"""File checks that report permission errors instead of treating the path as missing.

In a folder that may not be searched, `Path.is_file` and the like raise OSError, and `os.path.isdir` returns
False.
"""

from __future__ import annotations

import os
import stat

from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display

AnyPath = str | bytes | os.PathLike[str]


def mode(path: AnyPath) -> int | None:
    """Return `st_mode` of a path, following links; None if it does not exist.

    Raises:
        TqError: PERMISSION when it cannot be accessed.
    """
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise refused(path, error) from None


def is_there(path: AnyPath) -> bool:
    """Whether a path exists. Raises as `mode`."""
    return mode(path) is not None


def is_file(path: AnyPath) -> bool:
    """Whether a path is a regular file. Raises as `mode`."""
    found = mode(path)
    return found is not None and stat.S_ISREG(found)


def is_folder(path: AnyPath) -> bool:
    """Whether a path is a folder. Raises as `mode`."""
    found = mode(path)
    return found is not None and stat.S_ISDIR(found)


def refused(path: AnyPath, error: OSError, what: str = "accessed") -> TqError:
    """Convert a refused access to a path to a PERMISSION error."""
    return TqError(
        ErrorCode.PERMISSION,
        f"{display(os.fsencode(path))} cannot be {what}: {error.strerror or error}",
        "give this user access to it and its parent folders, or choose another path",
    )

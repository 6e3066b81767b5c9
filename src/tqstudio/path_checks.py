"""Whether something is there. What may not be looked at is told, and never taken for missing.

`Path.is_file` and the like raise the system's error where a folder on the way may not be searched, and
`os.path.isdir` answers no; neither is a sentence.
"""

from __future__ import annotations

import os
import stat

from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display

AnyPath = str | bytes | os.PathLike[str]


def mode(path: AnyPath) -> int | None:
    """The kind and permissions of what a path leads to, as in `st_mode`; None where nothing is.

    Raises:
        TqError: PERMISSION when the system refuses to look.
    """
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise refused(path, error) from None


def is_there(path: AnyPath) -> bool:
    """Whether a path leads to anything. Raises as `mode`."""
    return mode(path) is not None


def is_file(path: AnyPath) -> bool:
    """Whether a path leads to a regular file. Raises as `mode`."""
    found = mode(path)
    return found is not None and stat.S_ISREG(found)


def is_folder(path: AnyPath) -> bool:
    """Whether a path leads to a folder. Raises as `mode`."""
    found = mode(path)
    return found is not None and stat.S_ISDIR(found)


def refused(path: AnyPath, error: OSError, what: str = "looked at") -> TqError:
    """What the system does not let this user do with a path, as one of our errors."""
    return TqError(
        ErrorCode.PERMISSION,
        f"{display(os.fsencode(path))} cannot be {what}: {error.strerror or error}",
        "give this user access to it and to the folders above it, or name another path",
    )

"""Which files the paths of a command line mean."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tqstudio.cli import printing
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import absolute, display
from tqstudio.source_files import VIDEO_EXTENSIONS, walk

ORDERS = ("name", "size", "mtime")


@dataclass(frozen=True, slots=True)
class Rules:
    """How folders are looked through. A file that is named itself is always taken."""

    recursive: bool = False
    extensions: frozenset[bytes] = VIDEO_EXTENSIONS
    limit: int | None = None
    order: str = "name"
    exclude: Sequence[bytes] = ()
    """Folders whose files are results, not sources."""


def rules(
    *,
    recursive: bool,
    extensions: Sequence[str],
    limit: int | None,
    order: str,
    exclude: Sequence[str] = (),
) -> Rules:
    """Rules from options.

    Raises:
        TqError: BAD_REQUEST for an order that does not exist.
    """
    if order not in ORDERS:
        raise TqError(
            ErrorCode.BAD_REQUEST, f"--order {order} is unknown", f"use one of: {', '.join(ORDERS)}"
        )
    wanted = frozenset(b"." + os.fsencode(e).lower().lstrip(b".") for e in extensions) or VIDEO_EXTENSIONS
    return Rules(recursive, wanted, limit, order, [os.fsencode(folder) for folder in exclude])


Skip = Callable[[bytes, str], object]
"""Is called with a file that is not taken, and why."""


def say_skipped(path: bytes, why: str) -> None:
    """Report a file that is not taken."""
    printing.say(f"skipped {display(path)}: {why}")


def select(paths: Sequence[str], by: Rules, skip: Skip = lambda _path, _why: None) -> list[bytes]:
    """The absolute paths of the files to take, each once, in order.

    Args:
        skip: called for each file in a folder that may be meant and is not taken.

    Raises:
        TqError: BAD_REQUEST, SOURCE_MISSING, PERMISSION, UNSUPPORTED or NO_MEDIA for a path that yields
            nothing; all paths are looked at before anything is done with one.
    """
    found: dict[bytes, None] = {}
    for path in paths:
        found.update(dict.fromkeys(_expand(os.fsencode(absolute(path)), by, skip)))
    files = sorted(found, key=_sorting(by.order)) if by.order != "name" else list(found)
    return files[: by.limit]


def _expand(path: bytes, by: Rules, skip: Skip) -> list[bytes]:
    shown = display(path)
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise TqError(
            ErrorCode.SOURCE_MISSING, f"there is no file or folder {shown}", "check the path, and quote it"
        ) from None
    except OSError as error:
        raise TqError(ErrorCode.PERMISSION, f"{shown} cannot be looked at: {error.strerror}") from None
    if stat.S_ISREG(mode):
        return [path]
    if not stat.S_ISDIR(mode):
        raise TqError(
            ErrorCode.UNSUPPORTED,
            f"{shown} is neither a file nor a folder",
            "name a video or a folder of videos",
        )
    if not os.access(path, os.R_OK | os.X_OK):
        raise TqError(
            ErrorCode.PERMISSION, f"the folder {shown} may not be read", "make it readable, then retry"
        )
    _refuse_results(path, by.exclude)
    files = [file for file in _videos(path, by, skip) if not any(_lies_in(file, out) for out in by.exclude)]
    if not files:
        where = "" if by.recursive else " (sub-folders are looked into with -r)"
        raise TqError(
            ErrorCode.NO_MEDIA,
            f"the folder {shown} holds no videos{where}",
            "looked for " + " ".join(sorted(e.decode("utf-8", "replace") for e in by.extensions)),
        )
    return files


def _videos(folder: bytes, by: Rules, skip: Skip) -> Iterator[bytes]:
    def skipped(path: bytes) -> None:
        if any(_lies_in(path, out) for out in by.exclude):
            return
        if os.path.islink(path):
            skip(path, "symbolic links in a folder are not followed; name it to take it")
        elif not os.path.isfile(path):
            skip(path, "it is no regular file")
        elif by.extensions is VIDEO_EXTENSIONS:
            # With --ext, a person has said what is meant.
            skip(path, "its name is not that of a video; name it, or use --ext, to take it")

    return walk(folder, recursive=by.recursive, extensions=by.extensions, skipped=skipped)


def _refuse_results(folder: bytes, exclude: Sequence[bytes]) -> None:
    """Refuse a folder that is an output or lies in one: of what is there nothing is a source."""
    real = os.path.realpath(folder)
    for output in map(os.path.realpath, exclude):
        if real == output or _lies_in(real, output):
            where = "is the output folder" if real == output else f"lies in the output {display(output)}"
            raise TqError(
                ErrorCode.BAD_REQUEST,
                f"{display(folder)} cannot be both input and output: it {where}",
                "let the ladders go elsewhere with -o, or name the videos themselves",
            )


def _lies_in(path: bytes, folder: bytes) -> bool:
    return path.startswith(folder.rstrip(b"/") + b"/")


def _sorting(order: str) -> Callable[[bytes], float]:
    def key(file: bytes) -> float:
        try:
            found = os.stat(file)
        except OSError:
            return 0
        return found.st_size if order == "size" else found.st_mtime_ns

    return key

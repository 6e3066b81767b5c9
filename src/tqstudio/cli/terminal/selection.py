"""Selects the files that the paths of a command line refer to."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tqstudio.cli.terminal import printing
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import absolute, display
from tqstudio.source_files import VIDEO_EXTENSIONS, walk


@dataclass(frozen=True, slots=True)
class SearchRules:
    """How folders are searched. A file that is named explicitly is always selected."""

    recursive: bool = False
    extensions: frozenset[bytes] = VIDEO_EXTENSIONS
    limit: int | None = None
    order: str = "name"
    exclude: Sequence[bytes] = ()
    """Output folders, whose files are never sources."""


def rules(
    *,
    recursive: bool,
    extensions: Sequence[str],
    limit: int | None,
    order: str,
    exclude: Sequence[str] = (),
) -> SearchRules:
    """Build rules from command-line options."""
    wanted = frozenset(b"." + os.fsencode(e).lower().lstrip(b".") for e in extensions) or VIDEO_EXTENSIONS
    return SearchRules(recursive, wanted, limit, order, [os.fsencode(folder) for folder in exclude])


Skip = Callable[[bytes, str], object]
"""Called with a skipped file, and the reason."""


def report_skipped(path: bytes, why: str) -> None:
    """Report a skipped file."""
    printing.err(f"skipped {display(path)}: {why}")


def select(paths: Sequence[str], by: SearchRules, skip: Skip = lambda _path, _why: None) -> list[bytes]:
    """The absolute paths of the selected files, each once, in order.

    Args:
        skip: called for each file in a folder that might be meant but is skipped.

    Raises:
        TqError: BAD_REQUEST, SOURCE_MISSING, PERMISSION, UNSUPPORTED or NO_MEDIA for a path that yields
            nothing; all paths are checked before any is processed.
    """
    found: dict[bytes, None] = {}
    for path in paths:
        found.update(dict.fromkeys(_expand(os.fsencode(absolute(path)), by, skip)))
    files = sorted(found, key=_sorting(by.order)) if by.order != "name" else list(found)
    return files[: by.limit]


def _expand(path: bytes, by: SearchRules, skip: Skip) -> list[bytes]:
    shown = display(path)
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise TqError(
            ErrorCode.SOURCE_MISSING,
            f"there is no file or folder {shown}",
            "check the path; quote one with spaces",
        ) from None
    except OSError as error:
        raise TqError(ErrorCode.PERMISSION, f"{shown} cannot be accessed: {error.strerror}") from None
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
            ErrorCode.PERMISSION, f"no permission to read the folder {shown}", "make it readable, then retry"
        )
    _refuse_results(path, by.exclude)
    files = [file for file in _videos(path, by, skip) if not any(_lies_in(file, out) for out in by.exclude)]
    if not files:
        where = "" if by.recursive else " (-r includes sub-folders)"
        raise TqError(
            ErrorCode.NO_MEDIA,
            f"the folder {shown} contains no videos{where}",
            "searched for " + " ".join(sorted(e.decode("utf-8", "replace") for e in by.extensions)),
        )
    return files


def _videos(folder: bytes, by: SearchRules, skip: Skip) -> Iterator[bytes]:
    bins = set()

    def skipped(path: bytes) -> None:
        name = os.path.basename(path)
        if any(_lies_in(path, out) for out in by.exclude) or name in bins:
            return
        if os.path.islink(path):
            skip(path, "symbolic links in a folder are not followed; name the link to include it")
        elif os.path.isdir(path):
            bins.add(name)
            skip(path, "a bin, previews or unfinished downloads, as all of this name; name it to include it")
        elif not os.path.isfile(path):
            skip(path, "not a regular file")
        elif by.extensions is VIDEO_EXTENSIONS:
            # With --ext the user has chosen the extensions.
            skip(path, "not a video extension; name the file, or use --ext, to include it")

    return walk(folder, recursive=by.recursive, extensions=by.extensions, skipped=skipped)


def _refuse_results(folder: bytes, exclude: Sequence[bytes]) -> None:
    """Refuse a folder that is an output folder or inside one: it contains no sources."""
    real = os.path.realpath(folder)
    for output in map(os.path.realpath, exclude):
        if real == output or _lies_in(real, output):
            where = "is the output folder" if real == output else f"is inside the output {display(output)}"
            raise TqError(
                ErrorCode.BAD_REQUEST,
                f"{display(folder)} cannot be both input and output: it {where}",
                "choose another output with -o, or name the videos themselves",
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

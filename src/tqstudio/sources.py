"""Which files count as sources: names that are videos, names that are still being written, walking folders.

What the program made itself is no source; how a ladder is told is in `ladder`.

Paths are bytes here, as the kernel gives them. `display` makes one readable for people, `data` gives it to
programs.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Iterable, Iterator

from tqstudio.errors import ErrorCode, TqError
from tqstudio.ladder import is_head_of_segments, is_ladder

VIDEO_EXTENSIONS = frozenset(
    (
        b".3g2 .3gp .asf .avi .divx .dv .f4v .flv .gxf .ivf .m2t .m2ts .m4v .mkv .mov .mp4 .mpeg .mpg .mts"
        b" .mxf .nut .ogm .ogv .qt .rm .rmvb .ts .vob .webm .wmv .wtv .y4m"
        # Raw streams cannot be transcoded; their job fails and says what to do.
        b" .264 .265 .h264 .h265 .hevc .m1v .m2v"
    ).split()
)
"""File name extensions taken for videos when no other rule is given; compared without case."""

_COMPANIONS = frozenset(
    (
        b".ass .ssa .srt .sub .idx .sup .vtt .nfo .txt .log .md .csv .pdf .htm .html .url .xml .json .yaml"
        b" .jpg .jpeg .png .gif .webp .bmp .tbn .ini .db .lnk .md5 .sha1 .sha256 .sfv .par2 .torrent"
        b" .m3u8 .m4s .mpd .thm .lrv"
    ).split()
)
"""What lies beside videos and surprises nobody when it stays there: subtitles, notes, pictures, checksums."""

_HARMLESS = re.compile("[\u00a0\u1680\u2000-\u200a\u200c\u200d\u202f\u205f\u3000]+")
"""What Python takes for unprintable and names are full of: every kind of space, and the two joiners, without
which Persian is misspelt and an emoji falls apart."""

_TEMPORARY_SUFFIXES = (b".part", b".tmp", b".crdownload", b".partial", b".filepart", b".aria2", b"~")


def absolute(path: str) -> str:
    """A path as a person typed it, made absolute without following links.

    Raises:
        TqError: BAD_REQUEST for an empty one, which is what an unset variable of a shell leaves behind, and
            for one that begins at a working directory that was removed.
    """
    if not path:
        raise TqError(
            ErrorCode.BAD_REQUEST, "an empty path was given", "name it; a dot is the folder you are in"
        )
    try:
        return os.path.abspath(os.path.expanduser(path))
    except FileNotFoundError:
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"the folder you are in is gone, so there is no {display(os.fsencode(path))}",
            "change to one that exists, or give the whole path",
        ) from None


def normal(path: bytes) -> bytes:
    """An absolute path without dots and doubled slashes, also at its beginning, where POSIX keeps two."""
    return b"/" + os.path.normpath(path).lstrip(b"/")


def is_temporary(name: bytes) -> bool:
    """Whether programs give such names to files they have not finished: `.part`, `.tmp`, hidden, `~`."""
    return name.startswith(b".") or name.lower().endswith(_TEMPORARY_SUFFIXES)


def is_video_name(name: bytes, extensions: frozenset[bytes] = VIDEO_EXTENSIONS) -> bool:
    return os.path.splitext(name)[1].lower() in extensions and not is_temporary(name)


def is_companion(name: bytes) -> bool:
    """Whether such files lie beside videos and are none: subtitles, pictures, notes."""
    return os.path.splitext(name)[1].lower() in _COMPANIONS


def walk(
    root: bytes,
    *,
    recursive: bool,
    extensions: frozenset[bytes] = VIDEO_EXTENSIONS,
    skipped: Callable[[bytes], object] = lambda _: None,
) -> Iterator[bytes]:
    """Absolute paths of the video files below `root`, in name order.

    Hidden folders and published ladders are not entered, and symbolic links not followed.

    Args:
        skipped: called with the path of each file that may be meant and is not taken: not with hidden or
            unfinished files, nor with what lies beside videos.
    """
    return _walk(root, recursive=recursive, extensions=extensions, named=True, skipped=skipped)


def _walk(
    root: bytes,
    *,
    recursive: bool,
    extensions: frozenset[bytes],
    named: bool,
    skipped: Callable[[bytes], object],
) -> Iterator[bytes]:
    try:
        with os.scandir(root) as entries:
            listed = worth_a_look(entries, named=named)
    except OSError:
        return
    for entry in listed:
        if entry.is_dir(follow_symlinks=False):
            if recursive:
                yield from _walk(
                    entry.path, recursive=True, extensions=extensions, named=False, skipped=skipped
                )
        elif entry.is_file(follow_symlinks=False) and is_video_name(entry.name, extensions):
            yield entry.path
        elif not is_temporary(entry.name) and not is_companion(entry.name):
            skipped(entry.path)


def worth_a_look(listing: Iterable[os.DirEntry[bytes]], *, named: bool = False) -> list[os.DirEntry[bytes]]:
    """Of all entries of a folder those that may be sources or lead to some, in name order.

    Hidden ones are left out, the work folder of an output among them, and so is all that makes up a
    published ladder. Names alone decide: nothing more is read of the disk than the listing.

    Args:
        named: a person named this very folder, so it is looked into even where a ladder was put into it.
    """
    entries = sorted(listing, key=lambda entry: entry.name)
    names = {entry.name for entry in entries}
    if not named and is_ladder(names):
        return []
    return [
        entry
        for entry in entries
        if not entry.name.startswith(b".") and not is_head_of_segments(entry.name, names)
    ]


def display(path: bytes) -> str:
    """A path for people, on one line: `readable`, with bytes that are no UTF-8 as escapes too.

    It names no file: what is to be opened, copied or sent is `data`, or the bytes themselves.
    """
    return readable(path.decode("utf-8", "backslashreplace"))


def readable(text: str) -> str:
    """Text of which nothing harms a terminal, breaks a line, turns its direction or hides.

    Control characters, line separators, direction marks, invisible ones, and those whose look nobody knows
    (unassigned, private) are shown as escapes. Spaces and joiners stay.
    """
    if text.isprintable() or _HARMLESS.sub("", text).isprintable():
        return text
    return "".join(
        c if c.isprintable() or _HARMLESS.match(c) else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


def data(path: bytes | str | os.PathLike[str]) -> str:
    """A path for programs, as JSON carries it: itself; one that is no UTF-8 as `display` has it.

    Its exact bytes travel beside it: `encode`.
    """
    raw = os.fsencode(path)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return display(raw)


def encode(path: bytes | str | os.PathLike[str]) -> str:
    """A path as base64 of its bytes, for messages."""
    return base64.b64encode(os.fsencode(path)).decode("ascii")


def decode(path_b64: str) -> bytes:
    """The bytes of a path from its base64 form.

    Raises:
        ValueError: the text is no base64, or names a path with a NUL byte.
    """
    path = base64.b64decode(path_b64, validate=True)
    if b"\0" in path or not path:
        raise ValueError("not a path")
    return path

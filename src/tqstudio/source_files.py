"""Says which files count as videos by their names, and walks folders for them.

Published ladders and unfinished files are left out; `ladder_files` tells a ladder from other folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from tqstudio.ladder_files import is_head_of_segments, is_ladder

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


_TEMPORARY_SUFFIXES = (b".part", b".tmp", b".crdownload", b".partial", b".filepart", b".aria2", b"~")


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

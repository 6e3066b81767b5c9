"""Recognises video files by their names, and searches folders for them.

Skips published ladders, which `ladder_files` recognises, unfinished files, and bins and previews.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator

from tqstudio.ladder_files import is_head_of_segments, is_ladder

VIDEO_EXTENSIONS = frozenset(
    (
        b".3g2 .3gp .asf .avi .divx .dv .f4v .flv .gxf .ivf .m2t .m2ts .m4v .mkv .mov .mp4 .mpeg .mpg .mts"
        b" .mxf .nut .ogm .ogv .qt .rm .rmvb .ts .vob .webm .wmv .wtv .y4m"
        # Raw streams cannot be transcoded; their job fails with a hint what to do.
        b" .264 .265 .h264 .h265 .hevc .m1v .m2v"
    ).split()
)
"""Extensions of videos if no other rule is given; case-insensitive."""


AUDIO_EXTENSIONS = frozenset(
    b".aac .aif .aifc .aiff .flac .m4a .m4b .mka .mp2 .mp3 .oga .ogg .opus .wav .wma".split()
)


_COMPANIONS = frozenset(
    (
        b".ass .ssa .srt .sub .idx .sup .vtt .nfo .txt .log .md .csv .pdf .htm .html .url .xml .json .yaml"
        b" .jpg .jpeg .png .webp .bmp .avif .heic .heif .tbn .ini .db .lnk .md5 .sha1 .sha256 .sfv .par2"
        b" .torrent .m3u8 .m4s .mpd .thm .lrv"
    ).split()
)
"""Extensions of files that are skipped silently: subtitles, notes, pictures, checksums."""


_TEMPORARY_SUFFIXES = (
    *(b".part", b".tmp", b".crdownload", b".partial", b".filepart", b".aria2", b"~"),
    *(b".download", b".opdownload", b".fdmdownload", b".xltd"),
    *(b".!qb", b".!ut", b".!bt", b".!sync", b".bc!", b".az!"),
    # What a Synology NAS keeps beside each file.
    *(b"@synoeastream", b"@synoresource"),
)
_BIN = re.compile(
    # Synology, QNAP, Buffalo, Nextcloud, AFP: bins, snapshots, previews.
    rb"[#@]recycle|#snapshot|@recently-snapshot|@eadir|@tmp|@transcode|network recycle bin( \d+)?|trashbox"
    rb"|files_(trashbin|versions)|network trash folder|temporary items"
    # Windows, ext4.
    rb"|\$recycle\.bin|recycler|system volume information|lost\+found"
    # Unfinished downloads: SABnzbd and NZBGet, Safari.
    rb"|_(unpack|failed)(_.*)?|.*\.download",
    re.IGNORECASE | re.DOTALL,
)


_PART = re.compile(
    # Of DVDs, Blu-rays and AVCHD; of cameras: four characters and a number, as DCF, Sony and GoPro have them.
    rb"vts_\d\d_\d|video_ts|\d{5}|[a-z0-9_]{4}\d{4}|c\d{4}|(vid|pxl|dji)_[\d_]+|g[xhp]\d{6}|p\d{7}",
    re.IGNORECASE,
)
_INSIDE = re.compile(
    rb"video_ts|bdmv|stream|private|avchd|dcim|\d{3}[a-z0-9_]{5}|(m4|xd|mp_|sony_)root|clip|contents",
    re.IGNORECASE,
)
"""Folders of discs and memory cards."""


def film_name(path: bytes, base: bytes | None = None) -> bytes:
    """Return the file name of a film, after that of its folder if many films have the same: `VTS_01_1.VOB`.

    Args:
        base: the drop folder, whose own name says nothing. Without one, only folders of discs and memory
            cards are left for what is around them.
    """
    folder, name = os.path.split(path)
    folders = [part for part in (os.path.relpath(folder, base) if base else folder).split(b"/") if part]
    if not _PART.fullmatch(os.path.splitext(name)[0]):
        return name
    if base is None and not (folders and _INSIDE.fullmatch(folders[-1])):
        return name
    around = [part for part in folders if not _INSIDE.fullmatch(part) and part != b"."]
    return b" ".join((*around[-1:], name))


def is_bin(name: bytes) -> bool:
    """Whether a folder of this name holds what others deleted, made as previews or have not finished.

    Hidden ones, such as `.Trash-1000`, are left out as hidden.
    """
    return _BIN.fullmatch(name) is not None


def is_temporary(name: bytes) -> bool:
    """Whether a name is one that programs give to unfinished files: `.part`, `.tmp`, hidden, `~`."""
    return name.startswith(b".") or name.lower().endswith(_TEMPORARY_SUFFIXES)


def is_video_name(name: bytes, extensions: frozenset[bytes] = VIDEO_EXTENSIONS) -> bool:
    return os.path.splitext(name)[1].lower() in extensions and not is_temporary(name)


def is_audio_name(name: bytes) -> bool:
    """Whether a name is that of sound without video."""
    return is_video_name(name, AUDIO_EXTENSIONS)


def is_gif(name: bytes) -> bool:
    """Whether a name is that of a picture that may move; it is taken when it is asked for."""
    return is_video_name(name, frozenset((b".gif",)))


def is_companion(name: bytes) -> bool:
    """Whether a name is that of a file that accompanies videos: subtitles, pictures, notes."""
    return os.path.splitext(name)[1].lower() in _COMPANIONS


def walk(
    root: bytes,
    *,
    recursive: bool,
    extensions: frozenset[bytes] = VIDEO_EXTENSIONS,
    skipped: Callable[[bytes], object] = lambda _: None,
) -> Iterator[bytes]:
    """Yield the absolute paths of the video files below `root`, in name order.

    Does not enter hidden folders, bins and published ladders, and does not follow symbolic links.

    Args:
        skipped: called with the path of each skipped bin, and of each skipped file that may be a video, so
            not for hidden, unfinished or companion files.
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
            listed = candidates(entries, named=named)
    except OSError:
        return
    for entry in listed:
        if entry.is_dir(follow_symlinks=False):
            if recursive and is_bin(entry.name):
                skipped(entry.path)
            elif recursive:
                yield from _walk(
                    entry.path, recursive=True, extensions=extensions, named=False, skipped=skipped
                )
        elif entry.is_file(follow_symlinks=False) and is_video_name(entry.name, extensions):
            yield entry.path
        elif not is_temporary(entry.name) and not is_companion(entry.name):
            skipped(entry.path)


def candidates(listing: Iterable[os.DirEntry[bytes]], *, named: bool = False) -> list[os.DirEntry[bytes]]:
    """Return the entries of a folder that may be or contain sources, in name order.

    Leaves out hidden entries, such as the work folder of an output, and published ladders. Decides by names
    only, without further access to the disk.

    Args:
        named: this folder was given explicitly, so it is searched even if it contains a ladder.
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

"""Writes a player page beside published ladders: `index.html`, and `player.js` with hls.js in it.

The page finds everything by the master playlist, so a later version of the ladder needs no new one.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from tqstudio.engine.files import dir_fd, durable
from tqstudio.errors import ErrorCode, TqError
from tqstudio.path_checks import refused
from tqstudio.paths import display
from tqstudio.wings.page.ladders import owner_of

PAGE_NAME, SCRIPT_NAME = "index.html", "player.js"
_MARK = b"<!-- written by tqstudio embed -->"
"""The page begins with it: another index.html is not replaced."""
_DEPTH = 6
"""Folders of ladders below the one that is named, by the output templates."""
_STATIC = Path(__file__).parent / "static"
_HLS_JS, _LICENSE = _STATIC / "hls.js", _STATIC / "hls.js.LICENSE"


def has_hls_js() -> bool:
    """Whether this installation carries hls.js."""
    return _HLS_JS.is_file()


def write(output: Path) -> list[Path]:
    """Write the page beside the ladder in a folder, or beside each ladder below it; returns the pages.

    Raises:
        TqError: SOURCE_MISSING, there is no ladder; REFUSED, another page is there; PERMISSION, DISK_LOW …
    """
    files = {PAGE_NAME: _page(), SCRIPT_NAME: _script()}
    at: Path | None = None
    try:
        found = [*_ladders(output, _DEPTH)]
        for at in found:
            with dir_fd.hold(at) as folder:
                _check(at, folder)
        for at in found:
            with dir_fd.hold(at) as folder:
                _write(folder, files)
    except FileNotFoundError:
        found = []
    except OSError as error:
        # Below a ladder that is held, the error names a descriptor.
        raise refused(at or error.filename or output, error, "written to" if at else "read") from None
    if not found:
        raise TqError(
            ErrorCode.SOURCE_MISSING,
            f"there is no ladder of tqstudio in {display(os.fsencode(output))}",
            "name the folder of a ladder, or one above: tqstudio video list",
        )
    return [ladder / PAGE_NAME for ladder in found]


def _ladders(folder: Path, depth: int) -> Iterator[Path]:
    """Find ladders; folders below that may not be read are left out."""
    try:
        if owner_of(folder) is not None:
            yield folder
        elif depth:
            with os.scandir(folder) as entries:
                below = sorted(
                    e.path for e in entries if e.name[0] != "." and e.is_dir(follow_symlinks=False)
                )
            for each in below:
                yield from _ladders(Path(each), depth - 1)
    except PermissionError:
        if depth == _DEPTH:
            raise


def _check(ladder: Path, folder: Path) -> None:
    """Refuse a ladder beside which another page lies."""
    try:
        is_ours = durable.read(folder / PAGE_NAME).startswith(_MARK)
    except FileNotFoundError:
        is_ours = not os.path.lexists(folder / SCRIPT_NAME)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EISDIR, errno.ELOOP):
            raise
        is_ours = False  # a folder or a link
    if not is_ours:
        raise TqError(
            ErrorCode.REFUSED,
            f"{display(os.fsencode(ladder))} has another {PAGE_NAME} or {SCRIPT_NAME}",
            "move it away, and try again",
        )


def _write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        durable.write(folder / f".{name}-next", content)
        os.replace(folder / f".{name}-next", folder / name)
    durable.sync_folder(folder)


def _page() -> bytes:
    style = (_STATIC / "page.css").read_bytes()
    return b"\n".join((_MARK, (_STATIC / "embed.html").read_bytes().replace(b"/* page.css */", style)))


def _script() -> bytes:
    ours = (_STATIC / "player.js").read_bytes()
    if not has_hls_js():
        return ours
    license_text = _LICENSE.read_bytes().replace(b"*/", b"* /")
    return b"\n".join((b"/*! hls.js\n" + license_text + b"*/", _HLS_JS.read_bytes(), ours))

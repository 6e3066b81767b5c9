"""`open` and `embed`: shows results in the browser, and writes a player page beside ladders."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tqstudio.cli.session.supervisor_session import session
from tqstudio.cli.terminal import printing
from tqstudio.cli.terminal.options import JsonFlag
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import current_home
from tqstudio.paths import absolute, display, is_bucket
from tqstudio.protocol import calls
from tqstudio.words import format as fmt

if TYPE_CHECKING:
    from tqstudio.protocol import answers

_STARTED_S = 3.0
"""A program of the desktop that has not failed by then shows the page."""


def open_page(
    job: Annotated[
        int | None,
        typer.Argument(metavar="ID", help="Number of a job; the library without it.", show_default=False),
    ] = None,
    only_print: Annotated[bool, typer.Option("--print", help="Print the address; start no browser.")] = False,
    port: Annotated[
        int,
        typer.Option("--port", min=0, max=65535, metavar="N", help="Port on 127.0.0.1; 0 is any free one."),
    ] = 0,
    close: Annotated[bool, typer.Option("--close", help="End the page that is served.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Show library and results in a browser: a page on this machine that only reads.

    Over SSH, and without a desktop, its address is printed. It opens once, within ten minutes. The page ends
    when it was not used for 15 minutes.
    """
    from tqstudio.wings.page import process

    home = current_home()
    if close:
        if job is not None:
            raise TqError(ErrorCode.BAD_REQUEST, "--close ends the one page of all jobs", "leave out the ID")
        closed = process.close(home)
        return printing.answer({"closed": closed}, "closed" if closed else "no page was open", as_json)
    at = session(quiet=as_json)
    video = None if job is None else _playable(at.client.send(calls.job(job)))
    page = process.start(home, port)
    opener = None if only_print else _opener()
    opened = opener is not None and _shown(opener, process.leading_page(home, page, video))
    address = "" if opened else page.address(process.new_code(home, ".url"), video)
    if as_json:
        printing.out_json({"opened": opened, "url": address, "port": page.port})
    elif opened:
        printing.out(f"opened in the browser; if it shows nothing: tqstudio open {job or ''} --print")
    else:
        printing.out(address)
        where = "from another machine, first: " if opener is None else ""
        printing.err(f"{where}ssh -L {page.port}:{process.HOST}:{page.port} {_login()}")
    return 0


def _playable(job: answers.JobDetail) -> int:
    """The number of the video of a job, if it can be played."""
    view = job["video_view"]
    if view["generation"] is None or view["deleted_at"]:
        what = "its ladder was deleted" if job["status"] == "done" else f"it is {job['word']}"
        raise TqError(
            ErrorCode.REFUSED,
            f"job {job['id']} has nothing to play: {what}",
            f"see: tqstudio job show {job['id']}",
        )
    return view["id"]


def _opener() -> str | None:
    """The program that opens files on this desktop; None without a desktop, and over SSH."""
    if os.environ.get("SSH_CONNECTION"):
        return None
    if sys.platform == "darwin":
        return "open"
    is_desktop = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return shutil.which("xdg-open") if is_desktop else None


def _shown(opener: str, page: Path) -> bool:
    null = subprocess.DEVNULL
    try:
        started = subprocess.Popen(
            [opener, str(page)], stdin=null, stdout=null, stderr=null, start_new_session=True
        )
        return started.wait(_STARTED_S) == 0
    except subprocess.TimeoutExpired:
        return True
    except OSError:
        return False


def _login() -> str:
    """Who logs in where: the address that the caller came to, if it came over SSH."""
    came_to = os.environ.get("SSH_CONNECTION", "").split()[2:3]
    name = "USER"
    with contextlib.suppress(KeyError, OSError):
        name = getpass.getuser()
    return f"{name}@{(came_to or [socket.gethostname()])[0]}"


def embed(
    output: Annotated[
        str,
        typer.Argument(metavar="OUT", help="A ladder's folder, or a folder of ladders.", show_default=False),
    ],
    as_json: JsonFlag = False,
) -> int:
    """Write a player page beside ladders; any web server that serves the folder then plays them.

    Two files, index.html and player.js, for each ladder; written again they are of the installed version.
    """
    if is_bucket(output):
        raise TqError(
            ErrorCode.BAD_REQUEST,
            "a page cannot be written into a bucket",
            "write it beside a local copy of the ladder, and upload index.html and player.js",
        )
    from tqstudio.wings.page import embedding

    pages = embedding.write(Path(absolute(output)))
    shown = [display(os.fsencode(page)) for page in pages]
    if as_json:
        printing.out_json({"pages": shown, "hls_js": embedding.has_hls_js()})
        return 0
    for page in shown:
        printing.out(page)
    if not embedding.has_hls_js():
        printing.err(
            "without hls.js, which this installation lacks: only browsers that play HLS will play it"
        )
    printing.err(f"{fmt.counted(len(pages), 'page')} written; serve the folder with any web server")
    return 0

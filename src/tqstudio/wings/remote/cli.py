"""`worker run`: encodes jobs of a studio of another machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import current_home
from tqstudio.protocol import remote

if TYPE_CHECKING:
    pass

Names = Annotated[
    list[str], typer.Argument(metavar="NAME...", help="Worker names, such as cpu-0.", show_default=False)
]


def run(
    work: Annotated[
        str, typer.Option("--work", metavar="FOLDER", help="Folder for copies; by default in the home.")
    ] = "",
    gpu: Annotated[
        bool,
        typer.Option(
            "--gpu", help="Encode on a GPU, each of --slots on the next. A worker's token needs --kind gpu."
        ),
    ] = False,
    gpu_number: Annotated[int, typer.Option("--gpu-number", metavar="N", min=1, hidden=True)] = 1,
    bandwidth: Annotated[
        float, typer.Option("--bandwidth", metavar="MBIT/S", min=0, help="Limit in each direction.")
    ] = 0,
    shared: Annotated[
        list[Path] | None,
        typer.Option(
            "--shared", metavar="FOLDER", help="Mounted folder of the studio: no copy is made. Repeatable."
        ),
    ] = None,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Name to join by; default: the host name.")
    ] = "",
    slots: Annotated[
        int,
        typer.Option(
            "--slots", metavar="N", min=1, max=16, help="Workers on this machine, with a token to join."
        ),
    ] = 1,
) -> int:
    """Encode jobs of another machine's studio: that of --connect, with a token of the role join or worker.

    The source is copied from the studio, finished segments are sent to it. Ends with Ctrl-C, after which its
    job continues elsewhere.
    """
    at = remote.chosen()
    if at is None:
        raise TqError(
            ErrorCode.BAD_REQUEST,
            "the workers of this machine are started by its supervisor",
            "for a studio of another machine: tqstudio --connect URL --token-file FILE worker run",
        )
    from tqstudio.wings.remote.worker import program

    folder = Path(work or current_home().root / "work").expanduser().absolute()
    folders = [each.expanduser().absolute() for each in shared or ()]
    if slots > 1:
        return program.run_slots(at, folder, slots, name=name, gpu=gpu, bandwidth=bandwidth, shared=folders)
    number = gpu_number if gpu else 0
    return program.run(at, folder, name=name, gpu=number, bytes_per_s=bandwidth * 1e6 / 8, shared=folders)

"""Drop folders: `folder add|list|edit|remove`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tqstudio import path_checks
from tqstudio.cli import options, printing
from tqstudio.cli.supervisor_session import SupervisorSession, door, session, session_for
from tqstudio.errors import ErrorCode, TqError, in_one_line
from tqstudio.paths import absolute, display, encode, readable
from tqstudio.protocol import calls

if TYPE_CHECKING:
    from tqstudio.engine.store.db.connection import Connection
    from tqstudio.protocol.answers import FolderView
    from tqstudio.protocol.client import Client

FolderId = Annotated[str, typer.Argument(metavar="ID|PATH", help="Number or path of the folder.")]
Sub = Annotated[bool | None, typer.Option("--recursive/--no-recursive", help="Sub-folders too.")]
Patterns = Annotated[
    list[str] | None,
    typer.Option("--pattern", metavar="GLOB", help="Take only names like this, such as '*.mov'; may repeat."),
]
Settle = Annotated[
    float | None,
    typer.Option("--settle", min=0, metavar="SECONDS", help="How long a file must stay unchanged."),
]
FolderPriority = Annotated[
    int | None,
    typer.Option("--priority", min=-1000, max=1000, metavar="N", help="Of its jobs; higher goes first."),
]
Watch = Annotated[
    str | None,
    typer.Option(
        "--watch", metavar="auto|inotify|polling", help="How changes are noticed; polling for NFS, SMB."
    ),
]


def add(
    path: Annotated[str, typer.Argument(metavar="PATH", help="The folder to watch.", show_default=False)],
    output: options.OutputDir = None,
    profile: options.ProfileName = None,
    recursive: Sub = None,
    pattern: Patterns = None,
    settle: Settle = None,
    priority: FolderPriority = None,
    watch: Watch = None,
    autorestart: options.Autorestart = None,
    no_autorestart: options.NoAutorestart = False,
    delay: options.Delay = None,
    as_json: options.JsonFlag = False,
) -> int:
    """Watch a folder: every video in it, and every one that is put there, is transcoded."""
    folder_path = absolute(path)
    if not path_checks.is_folder(folder_path):
        shown = display(os.fsencode(folder_path))
        what = "is not a folder" if os.path.lexists(folder_path) else "does not exist"
        raise TqError(ErrorCode.SOURCE_MISSING, f"{shown} {what}", "name a folder that exists")
    folder = session().door.send(
        calls.add_folder(
            encode(folder_path),
            output_b64=options.output_b64(output),
            profile=profile,
            recursive=recursive,
            patterns=pattern,
            settle_s=settle,
            priority=priority,
            watch=watch,
            autorestart=options.autorestart_limit(autorestart, no_autorestart),
            autorestart_delay_s=delay,
        )
    )
    watched = f"folder {folder['id']}: {readable(folder['path'])} is watched ({folder['watch']})"
    return _answer(folder, as_json, f"{watched}, its ladders go to {readable(folder['output_root'])}")


def list_folders(as_json: options.JsonFlag = False) -> int:
    """List the drop folders."""
    folders = door().send(calls.folders())["folders"]
    if as_json:
        printing.out_json({"folders": folders})
        return 0
    if not folders:
        printing.out("no drop folders; add one with: tqstudio folder add PATH")
        return 0
    printing.table(
        ("ID", "PROFILE", "WATCH", "SETTLING", "RESTARTS", "TODAY", "FOLDER", "OUTPUT"),
        [
            (
                str(folder["id"]),
                folder["profile"],
                folder["watch"] if folder["enabled"] else "off",
                str(folder["settling"] or ""),
                str(folder["autorestart"] or ""),
                f"{folder['done_today']} done, {folder['failed_today']} failed",
                readable(folder["path"]),
                readable(folder["output_root"]),
            )
            for folder in folders
        ],
        right=(0, 3, 4),
        elastic=(7, 6),
    )
    for folder in folders:
        _print_troubles(folder)
    return 0


def _print_troubles(folder: FolderView) -> None:
    if problem := folder["problem"]:
        printing.say(printing.warning_lines(problem["code"], problem["message"], problem["hint"]))
    if count := folder["checking"]:
        files = "a file that has" if count == 1 else f"{count} files that have"
        printing.say(f"folder {folder['id']}: checking {files} a new time, byte by byte, for changes")
    for skipped in folder["skipped"]:
        why = in_one_line(skipped["code"], skipped["reason"], skipped["hint"])
        printing.say(f"folder {folder['id']}: skipped {skipped['name']}: {why}")


def edit(
    folder: FolderId,
    output: options.OutputDir = None,
    profile: options.ProfileName = None,
    recursive: Sub = None,
    pattern: Patterns = None,
    settle: Settle = None,
    priority: FolderPriority = None,
    watch: Watch = None,
    autorestart: options.Autorestart = None,
    no_autorestart: options.NoAutorestart = False,
    delay: options.Delay = None,
    enable: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Watch it, or not for now.")
    ] = None,
    as_json: options.JsonFlag = False,
) -> int:
    """Change the rules of a drop folder, at once; what was queued by the old ones stays as it is."""
    changes: dict[str, Any] = {
        "output_b64": options.output_b64(output),
        "profile": profile,
        "recursive": recursive,
        "patterns": pattern or None,
        "settle_s": settle,
        "priority": priority,
        "watch": watch,
        "autorestart": options.autorestart_limit(autorestart, no_autorestart),
        "autorestart_delay_s": delay,
        "enabled": enable,
    }
    given = {key: value for key, value in changes.items() if value is not None}
    if not given:
        raise TqError(
            ErrorCode.BAD_REQUEST, "nothing was given to change", "see: tqstudio folder edit --help"
        )
    at = _session(folder).door
    changed = at.send(calls.edit_folder(_id_of(at, folder), **given))
    return _answer(changed, as_json, f"folder {changed['id']}: {readable(changed['path'])} has its new rules")


def remove(folder: FolderId, as_json: options.JsonFlag = False) -> int:
    """Stop watching a folder; its files, jobs and ladders stay."""
    at = _session(folder).door
    number = _id_of(at, folder)
    answer = at.send(calls.remove_folder(number))
    return _answer(answer, as_json, f"folder {number} is no longer watched; its files and ladders stay")


def _session(given: str) -> SupervisorSession:
    """The supervisor for a change of a drop folder that exists."""

    def known(db: Connection) -> bool:
        from tqstudio.engine.store.library import folders

        if given.isdigit():
            return folders.exists(db, int(given))
        return os.fsencode(absolute(given)) in (folder.path for folder in folders.listing(db))

    return session_for(known, _unknown(given))


def _id_of(at: Client, given: str) -> int:
    if given.isdigit():
        return int(given)
    wanted = encode(absolute(given))
    for folder in at.send(calls.folders())["folders"]:
        if folder["path_b64"] == wanted:
            return folder["id"]
    raise _unknown(given)


def _unknown(given: str) -> TqError:
    said = (
        f"there is no drop folder {given}"
        if given.isdigit()
        else f"{display(os.fsencode(given))} is no drop folder"
    )
    return TqError(ErrorCode.NOT_FOUND, said, "list them with: tqstudio folder list")


def _answer(value: object, as_json: bool, sentence: str) -> int:
    if as_json:
        printing.out_json(value)
    else:
        printing.out(sentence)
    return 0

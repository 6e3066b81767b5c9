"""Drop folders: `folder add|list|edit|remove`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tqstudio import path_checks
from tqstudio.cli.session.supervisor_session import SupervisorSession, client, session, session_for
from tqstudio.cli.terminal import options, printing
from tqstudio.errors import ErrorCode, TqError, in_one_line
from tqstudio.paths import absolute, display, encode, readable
from tqstudio.protocol import calls
from tqstudio.words.sentences import folder_rules

if TYPE_CHECKING:
    from tqstudio.engine.store.db.connection import Connection
    from tqstudio.protocol.answers import FolderView
    from tqstudio.protocol.client import Client

HEADS = ("ID", "PROFILE", "WATCH", "SETTLING", "RESTARTS", "TODAY", "FOLDER", "OUTPUT")
Columns = Annotated[str | None, options.columns(HEADS)]
FolderId = Annotated[str, typer.Argument(metavar="ID|PATH", help="Number or path of the drop folder.")]
Sub = Annotated[bool | None, typer.Option("--recursive/--no-recursive", help="Include sub-folders.")]
Patterns = Annotated[
    list[str] | None,
    typer.Option("--pattern", metavar="GLOB", help="Only file names like this, such as '*.mov'; repeatable."),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="GLOB", help="Leave out such files and sub-folders; repeatable."),
]
AfterDone = Annotated[
    Literal["keep", "move", "delete"] | None,
    typer.Option(
        "--after-done",
        metavar="keep|move|delete",
        help="What becomes of sources once their ladder is published and complete.",
    ),
]
DoneDir = Annotated[
    str | None, typer.Option("--done-dir", metavar="DIR", help="Existing folder that sources are moved to.")
]
Duplicates = Annotated[
    Literal["encode", "skip", "link"] | None,
    typer.Option(
        "--duplicates",
        metavar="encode|skip|link",
        help="What becomes of new files that repeat a published source.",
    ),
]
Template = Annotated[
    str | None,
    typer.Option(
        "--template",
        metavar="TEMPLATE",
        help="Where ladders of new videos lie below the output, of {relative_dir}, {date} and {slug}.",
    ),
]
Audio = Annotated[
    Literal["encode", "skip"] | None,
    typer.Option(
        "--audio", metavar="encode|skip", help="What becomes of sound without video; default: skip."
    ),
]
Settle = Annotated[
    float | None,
    typer.Option("--settle", min=0, metavar="SECONDS", help="Time without change until a file is complete."),
]
FolderPriority = Annotated[
    int | None,
    typer.Option(
        "--priority", min=-1000, max=1000, metavar="N", help="Priority of its jobs; higher runs first."
    ),
]
Watch = Annotated[
    Literal["auto", "inotify", "polling"] | None,
    typer.Option(
        "--watch", metavar="auto|inotify|polling", help="How changes are detected; polling for NFS and SMB."
    ),
]


def add(
    path: Annotated[str, typer.Argument(metavar="PATH", help="The folder to watch.", show_default=False)],
    output: options.OutputDir = None,
    profile: options.ProfileName = None,
    recursive: Sub = None,
    pattern: Patterns = None,
    exclude: Exclude = None,
    after_done: AfterDone = None,
    done_dir: DoneDir = None,
    duplicates: Duplicates = None,
    template: Template = None,
    audio: Audio = None,
    hours: options.Hours = None,
    settle: Settle = None,
    priority: FolderPriority = None,
    watch: Watch = None,
    autorestart: options.Autorestart = None,
    no_autorestart: options.NoAutorestart = False,
    delay: options.Delay = None,
    max_attempts: options.MaxAttempts = None,
    max_crashes: options.MaxCrashes = None,
    as_json: options.JsonFlag = False,
) -> int:
    """Add a drop folder: all videos in it, and those added later, are transcoded."""
    folder_path = absolute(path)
    if not path_checks.is_folder(folder_path):
        shown = display(os.fsencode(folder_path))
        what = "is not a folder" if os.path.lexists(folder_path) else "does not exist"
        raise TqError(ErrorCode.SOURCE_MISSING, f"{shown} {what}", "name an existing folder")
    folder = session().client.send(
        calls.add_folder(
            encode(folder_path),
            output_b64=options.output_b64(output),
            profile=profile,
            recursive=recursive,
            patterns=pattern,
            exclude=exclude,
            after_done=after_done,
            done_dir_b64=encode(absolute(done_dir)) if done_dir is not None else None,
            duplicates=duplicates,
            template=template,
            audio=audio,
            hours=hours,
            settle_s=settle,
            priority=priority,
            watch=watch,
            autorestart=options.autorestart_limit(autorestart, no_autorestart),
            autorestart_delay_s=delay,
            max_attempts=max_attempts,
            max_crashes=max_crashes,
        )
    )
    watched = f"folder {folder['id']}: watching {readable(folder['path'])} ({folder['watch']})"
    return printing.answer(folder, f"{watched}, output: {readable(folder['output_root'])}", as_json)


def list_folders(columns: Columns = None, as_json: options.JsonFlag = False) -> int:
    """List the drop folders."""
    folders = client().send(calls.folders())["folders"]
    if as_json:
        printing.out_json({"folders": folders})
        return 0
    if not folders:
        printing.out("no drop folders; add one with: tqstudio folder add PATH")
        return 0
    printing.table(
        HEADS,
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
        columns=columns,
    )
    for folder in folders:
        printing.out(f"folder {folder['id']}: {', '.join(folder_rules(folder))}")
        _print_problems(folder)
    return 0


def _print_problems(folder: FolderView) -> None:
    if problem := folder["problem"]:
        printing.err(printing.warning_lines(problem["code"], problem["message"], problem["hint"]))
    if count := folder["checking"]:
        files = "a file" if count == 1 else f"{count} files"
        printing.err(f"folder {folder['id']}: comparing {files} with a new modification time byte by byte")
    for skipped in folder["skipped"]:
        why = in_one_line(skipped["code"], skipped["reason"], skipped["hint"])
        printing.err(f"folder {folder['id']}: skipped {skipped['name']}: {why}")


def edit(
    folder: FolderId,
    output: options.OutputDir = None,
    profile: options.ProfileName = None,
    recursive: Sub = None,
    pattern: Patterns = None,
    exclude: Exclude = None,
    after_done: AfterDone = None,
    done_dir: DoneDir = None,
    duplicates: Duplicates = None,
    template: Template = None,
    audio: Audio = None,
    hours: options.Hours = None,
    settle: Settle = None,
    priority: FolderPriority = None,
    watch: Watch = None,
    autorestart: options.Autorestart = None,
    no_autorestart: options.NoAutorestart = False,
    delay: options.Delay = None,
    max_attempts: options.MaxAttempts = None,
    max_crashes: options.MaxCrashes = None,
    enable: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Start or stop watching it.")
    ] = None,
    no_pattern: Annotated[bool, typer.Option("--no-pattern", help="Take files of any name again.")] = False,
    no_exclude: Annotated[bool, typer.Option("--no-exclude", help="Exclude nothing any more.")] = False,
    as_json: options.JsonFlag = False,
) -> int:
    """Change the rules of a drop folder; existing jobs keep the old ones."""
    for name, both in (("pattern", pattern and no_pattern), ("exclude", exclude and no_exclude)):
        if both:
            raise TqError(ErrorCode.BAD_REQUEST, f"--{name} and --no-{name} exclude each other", "give one")
    changes: dict[str, Any] = {
        "output_b64": options.output_b64(output),
        "profile": profile,
        "recursive": recursive,
        "patterns": [] if no_pattern else pattern or None,
        "exclude": [] if no_exclude else exclude or None,
        "after_done": after_done,
        "done_dir_b64": encode(absolute(done_dir)) if done_dir is not None else None,
        "duplicates": duplicates,
        "template": template,
        "audio": audio,
        "hours": hours,
        "settle_s": settle,
        "priority": priority,
        "watch": watch,
        "autorestart": options.autorestart_limit(autorestart, no_autorestart),
        "autorestart_delay_s": delay,
        "max_attempts": max_attempts,
        "max_crashes": max_crashes,
        "enabled": enable,
    }
    given = {key: value for key, value in changes.items() if value is not None}
    if not given:
        raise TqError(ErrorCode.BAD_REQUEST, "no change was given", "see: tqstudio folder edit --help")
    at = _session(folder).client
    changed = at.send(calls.edit_folder(_id_of(at, folder), **given))
    text = f"folder {changed['id']}: rules of {readable(changed['path'])} changed"
    return printing.answer(changed, text, as_json)


def remove(folder: FolderId, as_json: options.JsonFlag = False) -> int:
    """Remove a drop folder; its files, jobs and ladders stay."""
    at = _session(folder).client
    number = _id_of(at, folder)
    answer = at.send(calls.remove_folder(number))
    return printing.answer(answer, f"folder {number} removed; its files and ladders stay", as_json)


def _session(given: str) -> SupervisorSession:
    """The supervisor for a change of an existing drop folder."""

    def known(db: Connection) -> bool:
        from tqstudio.engine.store.library import folders

        if given.isdecimal():
            return folders.exists(db, int(given))
        return os.fsencode(absolute(given)) in (folder.path for folder in folders.listing(db))

    return session_for(known, _unknown(given))


def _id_of(at: Client, given: str) -> int:
    if given.isdecimal():
        return int(given)
    wanted = encode(absolute(given))
    for folder in at.send(calls.folders())["folders"]:
        if folder["path_b64"] == wanted:
            return folder["id"]
    raise _unknown(given)


def _unknown(given: str) -> TqError:
    message = (
        f"there is no drop folder {given}"
        if given.isdecimal()
        else f"{display(os.fsencode(given))} is not a drop folder"
    )
    return TqError(ErrorCode.NOT_FOUND, message, "list them with: tqstudio folder list")

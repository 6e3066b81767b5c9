"""Videos: `video list|delete|undelete|relocate|upload`."""

from __future__ import annotations

import os
import threading
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tqstudio import shell_quoting
from tqstudio.cli.session.supervisor_session import SupervisorSession, client, session_for
from tqstudio.cli.terminal import options, printing
from tqstudio.cli.terminal.options import JsonFlag
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import absolute, decode, display, encode, is_bucket, normal, readable
from tqstudio.protocol import calls, remote
from tqstudio.words import format as fmt

if TYPE_CHECKING:
    from tqstudio.engine.store.db.connection import Connection
    from tqstudio.protocol.answers import VideoView

PAGE = 200
HEADS = ("ID", "STATE", "JOB", "VIDEO", "PLAYLIST")
NEWEST = 2**53
"""Above the number of any video."""
_LOOK_S = 2.0
"""How long the disks of ladders may take to answer."""
_RELOCATE = ("tqstudio", "video", "relocate")

Video = Annotated[
    str, typer.Argument(metavar="ID|PATH", help="Number of the video, or the path of its source.")
]


def list_videos(
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="Maximal number of videos.")] = 50,
    columns: Annotated[str | None, options.columns(HEADS)] = None,
    as_json: JsonFlag = False,
) -> int:
    """List videos and playlists, newest first."""
    at = client()
    found: list[VideoView] = []
    before: int | None = NEWEST
    while before is not None and len(found) < limit:
        page = at.send(calls.videos(before=before, limit=min(PAGE, limit - len(found))))
        found += reversed(page["videos"])
        before = page["before"]
    if as_json:
        printing.out_json({"videos": found})
        return 0
    if not found:
        printing.out("no videos")
        return 0
    # The paths of another machine are not here.
    missing = set() if remote.is_chosen() else _without_ladder(found)
    lines = [_line(video, missing) for video in found]
    printing.table(HEADS, lines, right=(0, 2), elastic=(3, 4), columns=columns)
    for output in dict.fromkeys(video["output_root_b64"] for video in found if video["id"] in missing):
        path = os.fsdecode(decode(output))
        command = shell_quoting.line(shell_quoting.transportable(word) for word in (*_RELOCATE, path))
        printing.err(f"ladders are missing in {readable(path)}; if it was moved: {command} NEW")
    if before is not None:
        printing.err(f"the newest {fmt.counted(len(found), 'video')} shown; use --limit for more")
    return 0


def _without_ladder(found: Sequence[VideoView]) -> set[int]:
    """The videos whose ladder is not where it was published, as far as their disks answer in time."""
    missing: set[int] = set()

    def look() -> None:
        for video in found:
            generation = video["generation"]
            if video["deleted_at"] or generation is None or is_bucket(generation["master"]):
                continue
            if not os.path.lexists(decode(generation["master_b64"])):
                missing.add(video["id"])

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(_LOOK_S)
    return set(missing)


def _line(video: VideoView, missing: Container[int]) -> tuple[str, ...]:
    state = "missing" if video["id"] in missing else video["status"]
    return (
        str(video["id"]),
        "deleted" if video["deleted_at"] else state,
        str(video["job"] or ""),
        readable(video["name"]),
        readable(video["generation"]["master"]) if video["generation"] else "",
    )


def delete(
    video: Video,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Delete a video: its ladder, its jobs and their unfinished work. The source stays."""
    at = _session(video)
    found = _video(at, video)
    ladder = "its ladder" if found["generation"] else "no ladder"
    page = at.client.send(calls.jobs(video=found["id"], limit=500))
    jobs = fmt.counted(len(page["jobs"]), "job")
    what = f"delete video {found['id']} ({found['name']}) with {ladder}, {jobs} and their unfinished work"
    if found["deleted_at"] is None and not yes and not printing.agreed(what, as_json):
        printing.out("nothing was changed")
        return printing.exit_code(ErrorCode.REFUSED)
    view = at.client.send(calls.delete_video(found["id"]))
    undo = f"tqstudio video undelete {view['id']}"
    text = f"video {view['id']} deleted; while its ladder is kept, undo with: {undo}"
    return printing.answer(view, text, as_json)


def undelete(video: Video, as_json: JsonFlag = False) -> int:
    """Bring a deleted video back: its ladder and jobs too, while its files are there."""
    at = _session(video)
    view = at.client.send(calls.undelete_video(_video(at, video)["id"]))
    return printing.answer(view, f"video {view['id']} is back", as_json)


def relocate(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The output folder as it was.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Where it is now.")],
    as_json: JsonFlag = False,
) -> int:
    """Say where ladders were moved: their output folder as it was, and as it is."""
    at = client()
    paths = (encode(normal(os.fsencode(absolute(path)))) for path in (old, new))
    answer = at.send(calls.relocate_videos(*paths))
    if as_json:
        printing.out_json(answer)
    else:
        where = display(os.fsencode(absolute(new)))
        printing.out(f"ladders of {fmt.counted(answer['moved'], 'video')} are now in {where}")
        for folder in answer["folders"]:
            printing.out(f"folder {folder}: its output is there too")
        for left in answer["not_moved"]:
            printing.err(f"video {left['video']} stays: {left['reason']}")
    return printing.exit_code(ErrorCode.REFUSED) if answer["not_moved"] else 0


def upload(video: Video, as_json: JsonFlag = False) -> int:
    """Upload a ladder to its bucket again; for example when `verify s3://...` reports missing files."""
    at = _session(video)
    view = at.client.send(calls.upload_video(_video(at, video)["id"]))
    where = readable(view["delivery"]["url"]) if view["delivery"] else "its bucket"
    return printing.answer(view, f"video {view['id']} is uploaded to {where}; see: tqstudio status", as_json)


def _session(given: str) -> SupervisorSession:
    """The supervisor for a change of an existing video."""

    def known(db: Connection) -> bool:
        from tqstudio.engine.store.library import videos

        if given.isdecimal():
            return videos.get(db, int(given)) is not None
        return bool(videos.with_source(db, os.fsencode(absolute(given))))

    return session_for(known, _unknown(given))


def _video(at: SupervisorSession, given: str) -> VideoView:
    """The video of that number, or of that source if it has one output.

    Raises:
        TqError: NOT_FOUND; BAD_REQUEST, the source has several.
    """
    if given.isdecimal():
        return at.client.send(calls.video(int(given)))
    found = at.client.send(calls.videos_of(encode(absolute(given))))["videos"]
    if len(found) > 1:
        numbers = ", ".join(f"{video['id']} ({video['output_root']})" for video in found)
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"{display(os.fsencode(given))} has a video in several outputs",
            f"name one by its number: {numbers}",
        )
    if not found:
        raise _unknown(given)
    return found[0]


def _unknown(given: str) -> TqError:
    shown = given if given.isdecimal() else f"of {display(os.fsencode(given))}"
    return TqError(ErrorCode.NOT_FOUND, f"there is no video {shown}", "list videos with: tqstudio video list")

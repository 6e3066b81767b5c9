"""`demo`: sample clips through the real thing, from the drop folder to playable ladders."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tqstudio import path_checks
from tqstudio.cli import printing
from tqstudio.cli.follow.follower import POLL_S, Video, last_seq
from tqstudio.cli.follow.interrupt import Interrupt
from tqstudio.cli.options import JsonFlag
from tqstudio.cli.sample_clips import CLIPS, drop, make
from tqstudio.cli.supervisor_session import SupervisorSession, session
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home, current_home
from tqstudio.protocol import calls

if TYPE_CHECKING:
    from tqstudio.protocol.answers import VideoView
    from tqstudio.protocol.client import Client

PROFILE = "fast"
SETTLE_S = 0.5
PICK_UP_TIMEOUT_S = 60.0


def demo(
    again: Annotated[
        bool, typer.Option("--again", help="Transcode the clips again if they are done.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Turn three sample clips into HLS ladders.

    The clips are made by ffmpeg and dropped into a folder that is watched.
    It has a home of its own in the user's cache folder unless TQSTUDIO_HOME or --home says otherwise.
    """
    from tqstudio.cli.commands.studio.ui import has_terminal, show

    own_home = not os.environ.get("TQSTUDIO_HOME")
    if not own_home:
        home = current_home()
        folder = home.root / "demo"
    else:
        from platformdirs import user_cache_path

        folder = user_cache_path("tqstudio", appauthor=False) / "demo"
        os.environ["TQSTUDIO_HOME"] = str(folder)
        home = current_home()
    printing.say(f"the demo lives in {folder}")
    clips = _make_clips(home, folder / "clips")
    started_at = time.monotonic()
    with session(for_this_run=True) as at:
        at.own_home = own_home
        after = last_seq(at.door)
        _watch(at.door, folder / "drop", folder / "ladders")
        dropped = [drop(clip, folder / "drop") for clip in clips]
        printing.say(f"{len(dropped)} clips are in the drop folder {folder / 'drop'}")
        if has_terminal() and not as_json:
            videos = _wake(at.door, _picked_up(at.door, dropped), again)
            at.jobs |= {video.job for video in videos if video.job is not None}
            code = show(home, f"the demo watches {folder / 'drop'}: drop more videos there", stops=at.started)
        else:
            code = _follow(at, dropped, after, started_at, again=again, as_json=as_json)
    if at.stopped:
        printing.say("the demo's supervisor has stopped")
    return code


def _make_clips(home: Home, folder: Path) -> list[Path]:
    from tqstudio.config import load_settings
    from tqstudio.engine.media.ffmpeg.binary import locate

    missing = [clip.name for clip in CLIPS if not path_checks.is_file(folder / clip.name)]
    if missing:
        printing.say(f"making {printing.counted(len(missing), 'sample clip')}")
    ffmpeg = locate(load_settings(home).ffmpeg or None)
    return [make(clip, folder, ffmpeg.path) for clip in CLIPS]


def _watch(at: Client, folder: Path, output: Path) -> None:
    """Register the drop folder unless it is."""
    from tqstudio.paths import encode

    folder.mkdir(parents=True, exist_ok=True)
    path = encode(folder)
    if all(known["path_b64"] != path for known in at.send(calls.folders())["folders"]):
        at.send(calls.add_folder(path, output_b64=encode(output), profile=PROFILE, settle_s=SETTLE_S))


def _picked_up(at: Client, dropped: list[Path]) -> list[VideoView]:
    """Wait until intake has made a video of every clip."""
    from tqstudio.paths import encode

    wanted = {encode(path) for path in dropped}
    deadline = time.monotonic() + PICK_UP_TIMEOUT_S
    while True:
        found: dict[str, VideoView] = {}
        after: int | None = None
        while True:
            page = at.send(calls.videos(after=after, limit=200))
            found |= {v["path_b64"]: v for v in page["videos"] if v["path_b64"] in wanted and v["job"]}
            after = page["after"]
            if after is None:
                break
        if len(found) == len(wanted):
            return [found[encode(path)] for path in dropped]
        if time.monotonic() > deadline:
            missing = [path.name for path in dropped if encode(path) not in found]
            raise TqError(
                ErrorCode.TIMEOUT,
                f"the drop folder did not pick up {', '.join(missing)} within {PICK_UP_TIMEOUT_S:.0f} s",
                "look at: tqstudio folder list, tqstudio doctor",
            )
        time.sleep(POLL_S)


def _wake(at: Client, views: list[VideoView], again: bool) -> list[Video]:
    """The clips as videos to follow; those that failed or are to be made again get going."""
    videos = []
    for view in views:
        job = at.send(calls.job(view["job"] or 0))
        status, job_id = job["status"], job["id"]
        master = view["generation"]["master"] if view["generation"] else None
        is_there = master is not None and Path(master).is_file()
        if status == "done" and (again or not is_there):
            job_id = _do(at, "retranscode", job_id)
            status = "pending"
        elif status in ("failed", "cancelled", "paused"):
            _do(at, "resume" if status == "paused" else "retry", job_id)
            status = "pending"
        status = "cached" if status == "done" else status
        video = Video(view["name"], view["path"], view["path_b64"], status, job_id)
        if status == "cached":
            video.take(job)
        videos.append(video)
    return videos


def _do(at: Client, operation: str, job: int) -> int:
    """Do it; answers the job that goes on, which is a new one after a retranscode."""
    result = at.send(calls.act(operation, [job]))["results"][0]
    if error := result["error"]:
        raise TqError(error["code"], error["message"], error["hint"])
    return result["new_job"] or job


def _follow(
    at: SupervisorSession, dropped: list[Path], after: int, started_at: float, *, again: bool, as_json: bool
) -> int:
    from tqstudio.cli.commands.jobs.process import INTERRUPTED, exit_code, follow, print_summary, summary

    videos = _wake(at.door, _picked_up(at.door, dropped), again)
    at.jobs |= {video.job for video in videos if video.job is not None}
    if all(video.status == "cached" for video in videos):
        printing.say(
            "the clips were transcoded by an earlier demo; make them again with: tqstudio demo --again"
        )
    with Interrupt() as interrupt:
        interrupted = follow(at, videos, interrupt, after=after, to_stderr=as_json)
    report = summary(videos, time.monotonic() - started_at)
    if as_json:
        printing.out_json(report, indent=None)
    else:
        print_summary(report["summary"])
        for video in videos:
            printing.out(video.master or f"{video.name}: no ladder ({video.status})")
    return INTERRUPTED if interrupted else exit_code(videos)

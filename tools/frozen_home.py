"""Keeps a home of this version for the tests of later ones: `python tools/frozen_home.py`.

A real supervisor with real workers fills it with jobs of every status, and is killed in the middle of a
publish and of an encode.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqstudio import __version__
from tqstudio.engine.host.ages import HOLD_US
from tqstudio.engine.media.ffmpeg.binary import locate
from tqstudio.paths import encode
from tqstudio.protocol import calls

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

if TYPE_CHECKING:
    from e2e.studio import Studio

PROFILE = """
description = "Small, and all of it said: what a later version changes in its own profiles is not meant here"
encoder = "cpu"
storyboard = false

[video]
codec = "h264"
preset = "ultrafast"
crf = 40
profile = "high"
pixel_format = "yuv420p"
copy = "never"
segment_s = 2
gop_s = 1
bufsize_factor = 2.0
rungs = [{ short_side = 72, maxrate_kbps = 100 }, { short_side = 48, maxrate_kbps = 60 }]

[audio]
codec = "aac"
bitrate_kbps = 32
channels = 1
sample_rate = 48000

[poster]
position = 0.1
height = 48
"""


def main() -> None:
    """Write `home-<version>.tar.xz` of the tests."""
    from e2e.studio import Studio
    from releases import kept_home

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        studio = Studio(root, locate().path, **kept_home.SETTINGS)
        try:
            studio.write_profile("small", PROFILE)
            settings = [f"{name} = {value}\n" for name, value in kept_home.OWN_SETTINGS.items()]
            studio.home.config.write_text("".join(settings))
            _fill(studio.up(), root)
            _leave_half_finished(studio, root)
        finally:
            studio.clear_away()
        # As after a jump of the clock: for a day of running time nothing is old, whenever it is opened.
        clock = {"boot": "", "offset_us": 0, "ahead_us": HOLD_US, "left_us": HOLD_US}
        studio.home.clock.write_text(json.dumps(clock))
        kept_home.pack(root, kept_home.HERE / f"home-{__version__}.tar.xz")


def _clip(root: Path, name: str, seconds: int) -> Path:
    path = root / name
    path.parent.mkdir(exist_ok=True)
    path.with_suffix(".part").unlink(missing_ok=True)
    made = ("-f", "lavfi", "-i", f"testsrc2=s=128x72:r=25:d={seconds}")
    sound = ("-f", "lavfi", "-i", f"sine=r=48000:d={seconds}")
    coded = ("-c:v", "libx264", "-preset", "veryfast", "-crf", "40", "-c:a", "aac", "-b:a", "16k")
    argv = (locate().path, "-v", "error", "-nostdin", *made, *sound, *coded, "-metadata", f"title={name}")
    subprocess.run([*argv, "-f", "mp4", path.with_suffix(".part")], check=True)
    # Archives keep whole seconds: another time would be a changed source.
    os.utime(path.with_suffix(".part"), (1_700_000_000, 1_700_000_000))
    return path.with_suffix(".part").rename(path)


def _fill(studio: Studio, root: Path) -> None:
    send = studio.send
    folder = send(
        calls.add_folder(
            encode(_made(root / "drop")),
            output_b64=encode(studio.out),
            profile="small",
            patterns=["*.mp4"],
            exclude=["draft-*"],
            priority=3,
            autorestart=2,
            template="{relative_dir}/{slug}",
        )
    )
    _clip(root, "drop/dropped.mp4", 1)
    off = send(
        calls.add_folder(
            encode(_made(root / "nights")), output_b64=encode(studio.out), hours="mon-fri 22:00-06:00"
        )
    )
    send(calls.edit_folder(off["id"], enabled=False))
    plain = _add(studio, _clip(root, "sources/plain.mp4", 1), batch="first")
    again = _add(studio, _clip(root, "sources/again.mp4", 1), batch="first")
    broken = root / "sources" / "broken.mp4"
    broken.write_text("no video\n")
    os.utime(broken, (1_700_000_000, 1_700_000_000))
    failed = _add(studio, broken)
    deleted = _add(studio, _clip(root, "sources/deleted.mp4", 1))
    for job in (plain, again, deleted):
        studio.done(job)
    studio.wait(failed, "failed")
    # Its first ladder is kept for those who play it.
    studio.done(studio.do("retranscode", again, overrides={"video.crf": "42"})["new_job"])
    with studio.paced(1):
        for name, operation, status in (("paused", "pause", "paused"), ("cancelled", "cancel", "cancelled")):
            job = _add(studio, _clip(root, f"sources/{name}.mp4", 8))
            studio.running(job)
            studio.do(operation, job)
            studio.wait(job, status)
    send(calls.delete_video(studio.job(deleted)["video"]))
    _until_done(studio, folder["id"])


def _until_done(studio: Studio, folder: int) -> None:
    from waiting import until

    def is_done() -> bool:
        rows = studio.send(calls.jobs(f"folder:{folder}"))["jobs"]
        return bool(rows) and all(row["status"] == "done" for row in rows)

    until(is_done, "what was dropped is done")


def _leave_half_finished(studio: Studio, root: Path) -> None:
    """Kill everything while one job is published, and another one has some of its segments."""
    from releases import kept_home
    from waiting import until

    studio.stop()
    studio.fail_point = "publish.renamed"
    studio.up()
    studio.send(calls.pause_queue("kept"))
    waiting = [_add(studio, _clip(root, f"sources/waiting-{at}.mp4", 1), priority=at) for at in range(3)]
    held = _add(studio, _clip(root, "sources/held.mp4", 1), hold=True)
    gone = _add(studio, _clip(root, "sources/gone.mp4", 1))
    running = _add(studio, _clip(root, "sources/running.mp4", 16), priority=50)
    published = _add(studio, _clip(root, "sources/published.mp4", 8), priority=50)
    for job in (*waiting, held, gone):
        until(lambda job=job: studio.video_of(job)["facts"], "its source is probed")
    with studio.paced(0.7):
        studio.send(calls.resume_queue())
        studio.running(running)
        studio.running(published)
    studio.send(calls.pause_queue("kept"))
    studio.do("delete", gone)
    studio.do("priority", waiting[0], priority=9)
    studio.do("pause", waiting[1])
    studio.send(calls.create_token("looks", "view"))
    studio.send(calls.revoke_token("looks"))
    roles = ("view", "operate", "admin", "worker")
    tokens = {role: studio.send(calls.create_token(role, role))["token"] for role in roles}
    studio.send(calls.worker_action("worker", "disable"))
    shown = kept_home.shown(studio)
    shown |= {"running": running, "published": published, "ffmpeg": locate().build, "secrets": tokens}
    (root / kept_home.SHOWN_NAME).write_text(json.dumps(shown))
    studio.died()
    assert studio.stored_status(running) == studio.stored_status(published) == "in_progress"
    (studio.home.profiles / "tiny.toml").unlink()
    for name in ("ffmpeg", "pace", f"{studio.home.root.name}.printed"):
        (root / name).unlink(missing_ok=True)
    for path in (studio.home.root / "tmp", studio.home.root / "supervisor.sock", studio.home.lock):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _made(path: Path) -> Path:
    path.mkdir()
    return path


def _add(studio: Studio, path: Path, **options: Any) -> int:
    return studio.add(path, profile="small", **options)


if __name__ == "__main__":
    main()

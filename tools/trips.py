"""Counts the files and functions of tqstudio that run in three trips: `make trips ARGS=--files`.

Each trip is made for real: a supervisor, its workers, ffmpeg, a terminal. What ran before a trip, and what an
import runs, does not count; a lambda or a comprehension counts as the function that holds it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from certificates import certificate
from e2e.studio import Studio
from e2e.terminal import Terminal
from harness import PROGRAM
from recorder.sitecustomize import FOLDER
from tqstudio.drill import clips
from tqstudio.engine.media.ffmpeg.binary import locate
from tqstudio.paths import encode
from tqstudio.protocol import calls
from waiting import until
from wings.remote.test_studio import Far

CLIP = clips.Clip("film.mp4", Fraction(25), 300, "320x180")
PERIOD_S = 11
"""Longer than the supervisor's short intervals: what it does in them is then part of each record of a job."""
WINGS = "wings"
"""The folder with a folder for each optional capability."""

Ran = dict[str, list[str]]
"""Files, each with the functions that ran."""


class Recorder:
    """Has the processes that start from now on record what runs; `on` switches it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        with (folder / "switch").open("w+b") as file:
            file.write(b"\0")
            file.flush()
            self._switch = mmap.mmap(file.fileno(), 1)
        os.environ[FOLDER] = str(folder)
        os.environ["PYTHONPATH"] = str(Path(__file__).with_name("recorder"))

    @contextlib.contextmanager
    def on(self, least_s: float = 0) -> Iterator[None]:
        """Record what runs in here, for at least some seconds."""
        end = time.monotonic() + least_s
        self._switch[0] = 1
        yield
        time.sleep(max(0.0, end - time.monotonic()))
        self._switch[0] = 0

    def ran(self, pids: Collection[int]) -> Ran:
        """What ran in these processes, which have ended, or in all."""
        found: dict[str, set[str]] = defaultdict(set)
        for path in self._folder.iterdir():
            if path.name != "switch" and (not pids or int(path.name) in pids):
                for line in path.read_text().splitlines():
                    file, _, name = line.partition("\t")
                    found[file].add(name.partition(".<locals>.<")[0])
        return {file: sorted(found[file]) for file in sorted(found)}


@contextlib.contextmanager
def running(root: Path, **settings: str) -> Iterator[Studio]:
    """A supervisor whose worker waits for a job; ended after it, with all that runs for it."""
    ffmpeg = locate(os.environ.get("TQSTUDIO_FFMPEG")).path
    # Itself in place of the script that can be slowed down: a script is not confined.
    studio = Studio(root / "studio", ffmpeg, **{"ffmpeg": ffmpeg, **settings})
    try:
        yield studio.up()
    except BaseException:
        studio.clear_away()
        raise
    studio.down()


def source(root: Path) -> Path:
    return clips.make(CLIP, root / "sources", locate(os.environ.get("TQSTUDIO_FFMPEG")).path)


def idle(studio: Studio) -> list[str]:
    return [each["name"] for each in studio.status()["workers"] if each["status"] == "idle"]


def until_stored(studio: Studio, status: str) -> None:
    """Wait until the only job has a status. A question to the supervisor would be recorded."""

    def there() -> bool:
        with contextlib.closing(sqlite3.connect(f"file:{studio.home.database}?mode=ro", uri=True)) as db:
            return db.execute("SELECT status FROM job").fetchall() == [(status,)]

    until(there, f"the job is {status}")


def drop(root: Path, recorder: Recorder) -> Collection[int]:
    """Move a clip into a drop folder; until its job is done."""
    clip, folder = source(root), root / "drop"
    folder.mkdir()
    with running(root) as studio:
        studio.send(calls.add_folder(encode(folder), output_b64=encode(studio.out), profile="tiny"))
        with recorder.on(PERIOD_S):
            clip.rename(folder / clip.name)
            until_stored(studio, "done")
    return ()


def pause(root: Path, recorder: Recorder) -> Collection[int]:
    """Press `p` on a job that waits; until the screen shows it paused. In the UI and the supervisor."""
    clip = source(root)
    with running(root) as studio:
        studio.send(calls.worker_action("cpu-0", "disable"))
        studio.add(clip)
        with Terminal(PROGRAM, studio.environment) as terminal:
            terminal.shows("1 job", clip.name, "sort order")
            assert "paused" not in terminal.settled()
            with recorder.on():
                terminal.press("p")
                until_stored(studio, "paused")
                terminal.shows("paused")
        return studio.process.pid, terminal.process.pid


def remote(root: Path, recorder: Recorder) -> Collection[int]:
    """Add a clip that a worker makes, which has joined over TLS; until its job is done."""
    clip = source(root)
    cert, key = certificate(root)
    with running(root, listen="127.0.0.1:0", tls_cert=str(cert), tls_key=str(key)) as studio:
        studio.send(calls.worker_action("cpu-0", "disable"))
        far = Far(studio, root / "far", token=studio.send(calls.create_token("fleet", "join"))["token"])
        far.program.environment["TQSTUDIO_CA"] = str(cert)
        far.start("", "--name", far.name)
        try:
            until(lambda: far.name in idle(studio), "it has joined")
            with recorder.on(PERIOD_S):
                studio.add(clip)
                until_stored(studio, "done")
        finally:
            far.end()
    return ()


@dataclass(frozen=True)
class Trip:
    title: str
    make: Callable[[Path, Recorder], Collection[int]]
    wings: frozenset[str] = frozenset()
    """Those that it uses."""


TRIPS = {
    "drop": Trip("a dropped file", drop),
    "pause": Trip("the key p", pause),
    "remote": Trip("a remote job", remote, frozenset({"remote"})),
}


def record(trip: Trip) -> Ran:
    root = Path(tempfile.mkdtemp(prefix="tqstudio-trip-"))
    try:
        recorder = Recorder(root / "records")
        return recorder.ran(trip.make(root, recorder))
    finally:
        shutil.rmtree(root)


def by_folder(ran: Ran) -> dict[str, list[str]]:
    """The files of each folder, which is named below `src/tqstudio`."""
    folders: dict[str, list[str]] = defaultdict(list)
    for file in ran:
        folders[str(Path(file).parent)].append(Path(file).stem)
    return dict(sorted(folders.items()))


def strangers(trip: Trip, ran: Ran) -> list[str]:
    """Files that ran of wings which the trip does not use."""
    parts = [Path(file).parts for file in ran]
    return ["/".join(each) for each in parts if each[0] == WINGS and each[2:] and each[1] not in trip.wings]


def show(trip: Trip, ran: Ran, files: bool) -> None:
    folders, functions = by_folder(ran), sum(map(len, ran.values()))
    print(f"{trip.title:<16}{len(ran):>4} files {functions:>5} functions {len(folders):>3} folders")
    for folder, names in folders.items() if files else ():
        print(f"  {folder:<24}{len(names):>3}  {' '.join(names)}")


def main() -> int:
    """Make the trips and print what ran; exit status 1 if `--check` finds a wing that a trip does not use."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=TRIPS, help="make one trip")
    parser.add_argument("--files", action="store_true", help="list the files by folder")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the functions of each file")
    parser.add_argument("--check", action="store_true", help="fail if a wing runs in a trip without it")
    chosen = parser.parse_args()
    recorded: dict[str, Ran] = {}
    astray: list[str] = []
    for name in [chosen.only] if chosen.only else TRIPS:
        ran = recorded[name] = record(TRIPS[name])
        show(TRIPS[name], ran, chosen.files)
        astray += [f"{name} does not use {file}" for file in strangers(TRIPS[name], ran)]
    if chosen.json:
        chosen.json.write_text(json.dumps(recorded, indent=1) + "\n")
    if not chosen.check:
        return 0
    print(*astray, sep="\n", end="\n" if astray else "")
    return int(bool(astray))


if __name__ == "__main__":
    sys.exit(main())

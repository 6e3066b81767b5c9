"""What lies on the file system after a cut, before anything of ours has run again."""

from __future__ import annotations

import io
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import av

from tqstudio.drill.clips import RUNGS, Clip
from tqstudio.drill.witness import unplayable, wrong_frames
from tqstudio.engine.media.check.ladder import verify_ladder
from tqstudio.engine.media.plan.file_names import FRAGMENTS_NAME, INIT_NAME
from tqstudio.engine.media.segments.inspect import Torn, inspect_init, inspect_segment
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.errors import TqError

_DAMAGE = (OSError, ValueError, IndexError, av.FFmpegError, TqError)


def open_copy(database: Path, folder: Path) -> sqlite3.Connection:
    """A copy of the database as the cut left it, opened as SQLite does it: with its log replayed.

    Raises:
        sqlite3.DatabaseError: it cannot be opened.
    """
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name in (database.name, f"{database.name}-wal"):
        if (database.parent / name).exists():
            shutil.copyfile(database.parent / name, folder / name)
    return sqlite3.connect(folder / database.name)


def has_tables(db: sqlite3.Connection) -> bool:
    """False before the first start of a home has come that far."""
    return db.execute("SELECT 1 FROM sqlite_master WHERE name = 'publication'").fetchone() is not None


def damage(db: sqlite3.Connection) -> list[str]:
    """What SQLite finds wrong."""
    found = [row[0] for row in db.execute("PRAGMA integrity_check")]
    found += [f"foreign key: {row}" for row in db.execute("PRAGMA foreign_key_check")]
    return [f"database: {line}" for line in found if line != "ok"]


FIRST = ("240p",)
"""What is published of a ladder before the rest, by the profile of the drill."""


def ladders(output: Path, clips: Sequence[Clip], *, ended: bool = False) -> Iterator[tuple[str, str | None]]:
    """Every ladder that has a master playlist, and what is wrong with it; `ended`: all of them are whole."""
    frames = {Path(clip.name).stem: clip.frames for clip in clips}
    for master in sorted(output.glob("[!.]*/master.m3u8")):
        name = master.parent.name
        try:
            wrong = (
                _ladder_damage(master, frames[name], ended=ended)
                if name in frames
                else "it has the name of no clip"
            )
            yield name, wrong and f"ladder {name}: {wrong}"
        except _DAMAGE as error:
            yield name, f"ladder {name}: {error!r}"


def _ladder_damage(master: Path, frames: int, *, ended: bool) -> str | None:
    if (missing := unplayable(master)) is not None:
        return f"{missing} is missing"
    report = verify_ladder(master, every_byte=True)
    if not all(finding.compared for finding in report.findings if finding.error is None):
        return "its digests are missing"
    if not report.ok:
        errors = [report.error, *(finding.error for finding in report.findings)]
        return str(next(error for error in errors if error is not None))
    return wrong_frames(master, frames, FIRST if report.first_only and not ended else RUNGS)


def generations(output: Path) -> Iterator[tuple[str, str | None]]:
    """Every generation that has its name, also one that no master names yet, and what is wrong with it."""
    for folder in sorted(output.glob("[!.]*/v*")):
        name = f"{folder.parent.name}/{folder.name}"
        playlists = sorted(folder.glob("*/index.m3u8"))
        # One is there only whole: it got its name behind everything in it, and loses it before.
        wrong = None if playlists else "has no playlist"
        for playlist in playlists:
            wrong = wrong or _files_damage(playlist)
        yield name, None if wrong is None else f"generation {name}: {wrong}"


def _files_damage(playlist: Path) -> str | None:
    lines = playlist.read_text().splitlines()
    if "#EXT-X-ENDLIST" not in lines:
        return f"{playlist.parent.name}/{playlist.name} is torn"
    for name in (line for line in lines if line and not line.startswith("#")):
        try:
            found = inspect_segment(playlist.parent / name)
        except OSError as error:
            return f"{playlist.parent.name}/{name}: {error.strerror}"
        if isinstance(found, Torn):
            return f"{playlist.parent.name}/{name}: {found.reason}"
    return None


def stored_segments(output: Path) -> Iterator[tuple[int, str | None]]:
    """Every stream of unfinished work: how many segments and fragments it has, and what is wrong with them.

    What gets its name in the store is durable by then, so that nothing may be torn, and a player is to decode
    all that the next attempt will trust.
    """
    # The slash leaves out the files of storyboards, which lie one level higher.
    for stream in sorted(output.glob(".tqstudio/*/segments/*/*/*/")):
        segments = [stream / name for name in SegmentStore(stream).listing()]
        fragments = sorted((stream / FRAGMENTS_NAME).glob("*.m4s"))
        name = "/".join(stream.parts[-3:-1])
        try:
            wrong = _damage_of(stream, segments)
            # One that is in a segment by now may be back behind a cut: each is looked at by itself.
            for fragment in fragments:
                wrong = wrong or _damage_of(stream, [fragment])
        except _DAMAGE as error:
            wrong = repr(error)
        yield len(segments) + len(fragments), None if wrong is None else f"stored segments {name}: {wrong}"


def _damage_of(stream: Path, media: Sequence[Path]) -> str | None:
    if not media:
        return None
    if isinstance(init := inspect_init(stream / INIT_NAME), Torn):
        return f"{INIT_NAME}: {init.reason}"
    frames, content = 0, (stream / INIT_NAME).read_bytes()
    for path in media:
        if isinstance(found := inspect_segment(path), Torn):
            return f"{path.name}: {found.reason}"
        frames += found.frames
        content += path.read_bytes()
    if stream.parent.name not in RUNGS:
        return None
    with av.open(io.BytesIO(content)) as container:
        decoded = sum(1 for _ in container.decode(video=0))
    return None if decoded == frames else f"{decoded} of {frames} frames of {media[0].name} … can be decoded"

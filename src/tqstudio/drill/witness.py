"""Checks files from outside: finished segments must stay, and published ladders must be playable."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass, field
from pathlib import Path

import m3u8


@dataclass(slots=True)
class Witness:
    """Remembers the time of every finished segment, which changes if the segment is encoded again."""

    output: Path
    seen: dict[str, int] = field(default_factory=dict)
    """Path below the segment store → its modification time in ns."""
    made_again: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Masters that were not playable at some time, with what was missing."""

    def check(self) -> None:
        """Compare all segments with those seen earlier, and check all published ladders."""
        for path, made_at in self._stored().items():
            if self.seen.setdefault(path, made_at) != made_at:
                self.made_again.append(path)
                self.seen[path] = made_at
        for master in self.output.glob("*/master.m3u8"):
            missing = unplayable(master)
            if missing is not None:
                self.broken.append(f"{master.parent.name}: {missing}")

    def forget(self) -> None:
        """Start a round in which everything may be encoded again."""
        self.seen.clear()

    def _stored(self) -> dict[str, int]:
        found = {}
        # Unlike Path.glob, this ignores folders that are removed meanwhile.
        for path in glob.iglob(".tqstudio/*/segments/*/*/*/seg_*.m4s", root_dir=self.output):
            try:
                found[str(self.output / path)] = os.stat(self.output / path).st_mtime_ns
            except FileNotFoundError:
                continue  # published and set aside meanwhile
        return found


def unplayable(master: Path) -> str | None:
    """Return a file that a player of this master would miss; None if there is none.

    Reads again if the master was replaced meanwhile, as a player does.
    """
    while True:
        try:
            before = os.stat(master)
            text = master.read_text()
        except FileNotFoundError:
            return "the master playlist is missing"
        missing = _missing(master.parent, text)
        if missing is None:
            return None
        try:
            if os.stat(master).st_ino == before.st_ino:
                return missing
        except FileNotFoundError:
            return "the master playlist is missing"


def _missing(folder: Path, text: str) -> str | None:
    playlist = m3u8.loads(text)
    for entry in [*playlist.playlists, *playlist.media]:
        index = folder / entry.uri
        try:
            stream = m3u8.loads(index.read_text())
        except FileNotFoundError:
            return str(entry.uri)
        if not stream.is_endlist or not stream.segments:
            return f"{entry.uri} is not complete"
        for segment in [*stream.segment_map, *stream.segments]:
            if not (index.parent / segment.uri).is_file():
                return f"{Path(entry.uri).parent / segment.uri}"
    return None


def wrong_frames(master: Path, frames: int, rungs: tuple[str, ...]) -> str | None:
    """Decode every frame of every quality; return what is wrong with them, or None."""
    import io
    from itertools import pairwise

    import av

    playlist = m3u8.loads(master.read_text())
    names = tuple(Path(entry.uri).parent.name for entry in playlist.playlists)
    if names != rungs:
        return f"it has {', '.join(names)} instead of {', '.join(rungs)}"
    for entry in playlist.playlists:
        index = master.parent / entry.uri
        stream = m3u8.loads(index.read_text())
        parts = [stream.segment_map[0].uri, *(segment.uri for segment in stream.segments)]
        content = b"".join((index.parent / part).read_bytes() for part in parts)
        with av.open(io.BytesIO(content), "r") as container:
            times = [frame.pts or 0 for frame in container.decode(video=0)]
        if len(times) != frames:
            return f"{entry.uri} has {len(times)} frames instead of {frames}"
        steps = {later - earlier for earlier, later in pairwise(times)}
        if not steps or max(steps) - min(steps) > 1:
            return f"{entry.uri} has frames that are not evenly spaced"
    return None

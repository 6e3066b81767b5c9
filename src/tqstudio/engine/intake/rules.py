"""Decides by name which files in a drop folder are queued, ignored, or reported as skipped."""

from __future__ import annotations

import os
from enum import Enum
from fnmatch import fnmatchcase

from tqstudio.source_files import is_audio_name, is_bin, is_companion, is_gif, is_temporary, is_video_name


class Choice(Enum):
    TAKE = "take"
    IGNORE = "ignore"
    SKIP = "skip"
    SKIP_SOUND = "skip sound"
    SKIP_GIF = "skip GIF"


class Rules:
    """The name rules of one folder.

    Args:
        patterns: globs relative to the folder, compared without case. `*` and `?` stay within one path
            component, `**` spans any number of them; a pattern without `/` is matched against the file's
            name at any depth. None at all means every video extension.
        exclude: such globs of files and directories that are not taken.
        sound: take sound without video too.
        bins: enter bins, and folders of previews and unfinished files.
    """

    def __init__(
        self,
        patterns: tuple[str, ...],
        exclude: tuple[str, ...] = (),
        *,
        sound: bool = False,
        bins: bool = False,
    ) -> None:
        self._sound = sound
        self._bins = bins
        self._patterns = [_Pattern(pattern) for pattern in patterns if pattern.strip("/ ")]
        self._exclude = [_Pattern(pattern) for pattern in exclude]

    def excludes(self, relative: bytes) -> bool:
        """Whether a file or directory is excluded by itself, not by one above it."""
        return any(pattern.matches(relative) for pattern in self._exclude)

    def leaves_out(self, folder: bytes) -> bool:
        """Whether a folder of this name is not entered, because it is a bin."""
        return not self._bins and is_bin(folder)

    def matches(self, relative: bytes) -> bool:
        """Whether the patterns, if there are any, match a file."""
        return not self._patterns or any(pattern.matches(relative) for pattern in self._patterns)

    def choose(self, relative: bytes) -> Choice:
        name = os.path.basename(relative)
        if is_temporary(name) or self.excludes(relative):
            return Choice.IGNORE
        video = is_video_name(name)
        if self._patterns:
            matching = [pattern for pattern in self._patterns if pattern.matches(relative)]
            if not matching:
                return Choice.IGNORE
            # `cam1/**` gives a place, not a type: a subtitle there is no video. `*.vro` gives a type.
            if any(pattern.names_a_kind for pattern in matching):
                return Choice.TAKE
        if video or (is_audio_name(name) and self._sound):
            return Choice.TAKE
        if is_audio_name(name):
            return Choice.SKIP_SOUND
        if is_gif(name):
            return Choice.SKIP_GIF
        return Choice.IGNORE if is_companion(name) else Choice.SKIP


class _Pattern:
    def __init__(self, pattern: str) -> None:
        parts = [part for part in pattern.lower().split("/") if part not in ("", ".")]
        if pattern.endswith("/"):
            parts.append("**")
        elif len(parts) == 1 and not pattern.startswith("/"):
            parts.insert(0, "**")
        if parts[-1] == "**":
            # Files below the directory, not the directory itself.
            parts.append("*")
        self._parts = parts
        self.names_a_kind = "." in parts[-1] and not set(parts[-1]) <= set("*?.")

    def matches(self, relative: bytes) -> bool:
        """Match by tracking all possible positions in the pattern: linear for any number of `**`."""
        at = self._reach({0})
        for component in os.fsdecode(relative).lower().split("/"):
            step = set()
            for position in at:
                if position == len(self._parts):
                    continue
                if self._parts[position] == "**":
                    step.add(position)
                elif fnmatchcase(component, self._parts[position]):
                    step.add(position + 1)
            at = self._reach(step)
        return len(self._parts) in at

    def _reach(self, positions: set[int]) -> set[int]:
        """Add the positions after each `**`, which may match nothing."""
        reached = set(positions)
        for position in positions:
            at = position
            while at < len(self._parts) and self._parts[at] == "**":
                at += 1
                reached.add(at)
        return reached

"""Looks through a folder as the intake does, to show what some rules would take and leave out."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Collection
from dataclasses import dataclass, field

from tqstudio.engine.intake.ignore_files import Ignored
from tqstudio.engine.intake.problems import EMPTY
from tqstudio.engine.intake.rules import Rules
from tqstudio.engine.intake.scan import Scanner
from tqstudio.engine.intake.settling import Stamp
from tqstudio.engine.store.library.folders import FolderRow
from tqstudio.errors import Problem
from tqstudio.paths import display
from tqstudio.source_files import is_temporary

MAX_FILES = 20_000
"""Files after which a preview ends."""
MAX_REASONS = 20


@dataclass(slots=True)
class Preview:
    """What a folder holds."""

    files: list[bytes] = field(default_factory=list)
    """The videos that the rules take."""
    left_out: int = 0
    reasons: list[tuple[str, str]] = field(default_factory=list)
    """Relative names of the first that are left out, and why; those that the intake lists come first."""
    problem: Problem | None = None
    """Why the folder, or a part of it, cannot be read."""


def look(
    row: FolderRow, *, excluded: Collection[bytes], include_temporary_files: bool, halt: threading.Event
) -> Preview:
    """Look through a folder until `halt` is set, or there are too many files, which sets it."""
    rules = Rules(row.patterns, row.exclude, sound=row.audio == "encode", bins=include_temporary_files)
    prefix = len(os.path.join(row.path, b""))
    silent: list[tuple[str, str]] = []
    seen = ignored_count = 0

    def count(_path: bytes, _stamp: Stamp) -> bool:
        nonlocal seen
        seen += 1
        if seen >= MAX_FILES:
            halt.set()
        return False

    def ignore(path: bytes, ignored: Ignored) -> None:
        nonlocal ignored_count
        ignored_count += 1
        if len(silent) < MAX_REASONS:
            silent.append((display(path[prefix:]), _why(path, prefix, rules, row, ignored)))

    scanner = Scanner(
        row.path,
        rules,
        recursive=row.recursive,
        excluded=excluded,
        is_done=count,
        halt=halt,
        on_ignored=ignore,
    )
    found = scanner.everything()
    empty = {path: EMPTY for path, seen_ in found.files.items() if not seen_.look.size}
    listed = [(display(path[prefix:]), _short(why)) for path, why in (found.odd | empty).items()]
    return Preview(
        [path for path in found.files if path not in empty],
        len(listed) + ignored_count,
        (listed + silent)[:MAX_REASONS],
        found.problem,
    )


def _short(why: Problem) -> str:
    return re.split("[;,]", why.message)[0]


def _why(path: bytes, prefix: int, rules: Rules, row: FolderRow, ignored: Ignored) -> str:
    """Why a path is left out silently; that of a folder ends with a slash."""
    is_folder, plain = path.endswith(b"/"), path.rstrip(b"/")
    relative = plain[prefix:]
    if is_folder and not row.recursive:
        return "sub-folder"
    if rules.excludes(relative) or ignored.excludes(plain, is_folder=is_folder):
        return "excluded"
    if is_folder:
        return "no part of the folder"
    if is_temporary(os.path.basename(relative)):
        return "unfinished"
    return "no video" if rules.matches(relative) else "matches no pattern"

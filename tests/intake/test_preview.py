"""What a preview counts is what the intake then takes."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tqstudio.engine.intake import Intake, preview
from tqstudio.engine.store.library.folders import FolderRow

from .conftest import NEVER_S, World, make_row, put, watching

FILES = (
    b"a.mp4",
    b"b.MKV",
    b"caf\xe9.webm",
    b"sub/c.mp4",
    b"sub/deep/d.mov",
    b"old/e.mp4",
    b"old/keep.mp4",
    b"#recycle/f.mp4",
    b".hidden/g.mp4",
    b".h.mp4",
    b"half.mp4.part",
    b"notes.txt",
    b"disc.iso",
    b"song.mp3",
    b"ignored/i.mp4",
    b"out/1080p/index.mp4",
)

pytestmark = pytest.mark.anyio


def fill(root: Path) -> None:
    for name in FILES:
        folder = os.path.join(os.fsencode(root), os.path.dirname(name))
        os.makedirs(folder, exist_ok=True)
        put(Path(os.fsdecode(folder)), os.path.basename(name))
    (root / "empty.mp4").touch()
    (root / "link.mp4").symlink_to(root / "a.mp4")
    (root / ".tqignore").write_text("ignored/\n")


def look(row: FolderRow, *beside: FolderRow) -> preview.Preview:
    intake = Intake(default_settle_s=1, rescan_s=NEVER_S, offer=None, known=None)  # type: ignore[arg-type]
    intake._rows = beside
    return intake.preview(row, threading.Event())


def row_of(root: Path, **rules: Any) -> FolderRow:
    return make_row(root, output=root / "out", **rules)


RULES: list[dict[str, Any]] = [
    {},
    {"recursive": False},
    {"patterns": ("*.mp4",)},
    {"patterns": ("*.iso", "sub/**")},
    {"exclude": ("old/",)},
    {"exclude": ("/old",)},
    {"exclude": ("old/e.mp4", "*.mkv")},
    {"audio": "encode"},
]


@pytest.mark.parametrize("rules", RULES, ids=str)
async def test_it_counts_what_the_intake_takes(rules: dict[str, Any], world: World) -> None:
    fill(world.root)
    found = look(row_of(world.root, **rules))
    assert found.problem is None
    async with watching(world, output_root=os.fsencode(world.root / "out"), **rules):
        expected = sorted(found.files)
        await world.offered(*(path.removeprefix(os.fsencode(f"{world.root}/")) for path in expected))
        last = "last.iso" if "*.iso" in rules.get("patterns", ()) else "last.mp4"
        await world.catch_up(last)
        expected.append(os.fsencode(world.root / last))
        assert sorted(world.offers) == sorted(expected)
        reasons = dict(found.reasons)
        assert world.skipped.keys() <= reasons.keys(), "the intake lists no other"
        assert found.left_out == len(reasons), "each is counted once"


def test_it_says_why(tmp_path: Path) -> None:
    fill(tmp_path)
    found = look(row_of(tmp_path, exclude=("/old",)))
    assert dict(found.reasons) == {
        "#recycle": "a bin",
        "disc.iso": "not a video by its name",
        "empty.mp4": "empty",
        "half.mp4.part": "unfinished",
        "ignored/": "excluded",
        "link.mp4": "a symbolic link",
        "notes.txt": "no video",
        "old/": "excluded",
        "out/": "no part of the folder",
        "song.mp3": "sound without video",
    }
    flat = look(row_of(tmp_path, recursive=False, patterns=("*.mkv",)))
    assert [os.path.basename(path) for path in flat.files] == [b"b.MKV"]
    reasons = dict(flat.reasons)
    assert (reasons["a.mp4"], reasons["sub/"]) == ("matches no pattern", "sub-folder")


def test_of_a_changed_folder_the_former_rules_do_not_count(tmp_path: Path) -> None:
    fill(tmp_path)
    before = row_of(tmp_path, done_dir=os.fsencode(tmp_path / "old"))
    assert len(look(before).files) == len(look(row_of(tmp_path), before).files) - 2
    other = row_of(tmp_path / "sub")
    assert len(look(row_of(tmp_path), other).files) == len(look(row_of(tmp_path)).files) - 2


def test_it_ends_after_so_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview, "MAX_FILES", 3)
    for name in (b"1.mp4", b"2.mp4", b"3.mp4", b"4.mp4", b"5.mp4"):
        put(tmp_path, name)
    halt = threading.Event()
    found = preview.look(row_of(tmp_path), excluded=(), include_temporary_files=False, halt=halt)
    assert halt.is_set()
    assert len(found.files) == 3


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    gone = look(row_of(tmp_path / "gone"))
    assert gone.problem is not None
    assert "is missing" in gone.problem.message
    fill(tmp_path)
    (tmp_path / "sub" / ".tqignore").write_bytes(b"*" * 2_000_000)
    found = look(row_of(tmp_path))
    assert found.problem is not None
    assert b"a.mp4" in [os.path.basename(path) for path in found.files]

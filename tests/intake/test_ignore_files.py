"""Excluded files: `.tqignore` files, compared with what git makes of them, and the rules of the folder."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from engine.users import as_other_user, needs_root, receive
from tqstudio.engine.intake.ignore_files import IGNORE_NAME, MAX_BYTES, Ignored, UnusableIgnoreFile
from tqstudio.engine.intake.rules import Rules
from waiting import until_true

from .conftest import World, put, scanner_of, watching

FOLDERS = (b"", b"raw", b"cam/raw", b"cam/day/night", b"caf\xe9")
FILES = (
    b"a.mp4",
    b"b.mp4",
    b"B.MP4",
    b"-y.mp4",
    b"a b.mp4",
    b"a\nb.mp4",
    b"caf\xe9.mp4",
    b"#x.mp4",
    b"!x.mp4",
)
IGNORE = os.fsdecode(IGNORE_NAME)


def tree(root: Path) -> list[bytes]:
    """Make every file in every folder; their paths."""
    for folder in FOLDERS:
        os.makedirs(os.path.join(os.fsencode(root), folder), exist_ok=True)
        for name in FILES:
            put(root, os.path.join(folder, name))
    return [os.path.join(os.fsencode(root), folder, name) for folder in FOLDERS for name in FILES]


def taken_by_git(root: Path) -> set[bytes]:
    subprocess.run(["git", "init", "-q", root], check=True)
    listed = ["git", "-C", root, "ls-files", "--others", "-z", f"--exclude-per-directory={IGNORE}"]
    names = subprocess.run(listed, check=True, capture_output=True).stdout.split(b"\0")
    return {os.path.join(os.fsencode(root), name) for name in names if name.lower().endswith(b".mp4")}


@pytest.mark.parametrize(
    "texts",
    [
        {b"": b"a.mp4"},
        {b"": b"/a.mp4\n"},
        {b"": b"raw"},
        {b"": b"raw/\r\n!a.mp4\r\n"},
        {b"": b"/raw/"},
        {b"": b"cam/raw/*.mp4"},
        {b"": b"cam/**"},
        {b"": b"cam/**/night/"},
        {b"": b"**/raw/[!a]*"},
        {b"": b"*.mp4\n!b.mp4\n"},
        {b"": b"*\n!raw/\n"},
        {b"": b"/*\n!/cam\n!/raw/\n"},
        {b"": b"# a.mp4\n\\#x.mp4\n\\!x.mp4\n\n", b"cam": b"raw\n"},
        {b"": b"\xef\xbb\xbfa.mp4\nb.mp4   \n"},
        {b"": b"caf\xe9\n"},
        {b"": b"caf\xe9.mp4", b"caf\xe9": b"!caf\xe9.mp4\n?.mp4"},
        {b"": b"a?b.mp4\n[!b].mp4"},
        {b"": b"*.mp4", b"cam": b"!*.mp4", b"cam/raw": b"a*"},
    ],
)
def test_what_is_taken_is_what_git_would_take(tmp_path: Path, texts: dict[bytes, bytes]) -> None:
    paths = tree(tmp_path)
    for folder, text in texts.items():
        with open(os.path.join(os.fsencode(tmp_path), folder, IGNORE_NAME), "wb") as file:
            file.write(text)
    scanner = scanner_of(tmp_path)
    wanted = taken_by_git(tmp_path)
    assert wanted < set(paths)
    assert set(scanner.everything().files) == wanted
    assert set(scanner.part(paths).files) == wanted


def _unreadable(path: Path) -> None:
    path.write_bytes(b"x")
    path.chmod(0)


def _link(path: Path) -> None:
    (path.parent / "patterns").write_bytes(b"x")
    path.symlink_to("patterns")


@pytest.mark.parametrize(
    ("make", "code"),
    [
        pytest.param(_unreadable, "PERMISSION", marks=pytest.mark.skipif(os.geteuid() == 0, reason="root")),
        (_link, "SOURCE_UNREADABLE"),
        (os.mkdir, "SOURCE_UNREADABLE"),
        (os.mkfifo, "SOURCE_UNREADABLE"),
        (lambda path: path.write_bytes(b"x" * (MAX_BYTES + 1)), "SOURCE_UNREADABLE"),
        (lambda path: path.write_bytes(b"a\n!\n"), "BAD_CONFIG"),
        (lambda path: path.write_bytes(b"!/\n"), "BAD_CONFIG"),
        (lambda path: path.write_bytes(b"[z-a]\n"), "BAD_CONFIG"),
        (lambda path: path.write_bytes(b"*a*a*a*a\n"), "BAD_CONFIG"),
        (lambda path: path.write_bytes(b"**/x/**/x/**/x\n"), "BAD_CONFIG"),
    ],
)
def test_an_unusable_ignore_file_excludes_its_folder_and_no_other(tmp_path: Path, make, code: str) -> None:
    paths = tree(tmp_path)
    make(tmp_path / "cam" / IGNORE)
    outside = {path for path in paths if b"/cam/" not in path}
    scanner = scanner_of(tmp_path)
    findings = scanner.everything()
    assert findings.problem is not None
    assert findings.problem.code == code
    assert f"cam/{IGNORE}" in findings.problem.message
    assert set(findings.files) == outside
    assert set(scanner.part(paths).files) == outside


def test_it_is_said_until_it_is_corrected(world: World) -> None:
    (world.root / "sub").mkdir()
    ignore = world.root / "sub" / IGNORE
    ignore.write_bytes(b"!\n")
    put(world.root, b"sub/a.mp4")

    async def run() -> None:
        async with watching(world):
            await until_true(lambda: world.state.problem is not None)
            await world.catch_up()
            put(world.root, b"sub/b.mp4")
            await world.catch_up("second.mp4")
            assert sorted(world.names) == [b"second.mp4", b"sentinel.mp4"]
            ignore.write_bytes(b"a.mp4\n")
            await world.offered(b"sub/b.mp4")
            assert world.state.problem is None

    asyncio.run(run())
    assert b"sub/a.mp4" not in world.names


@pytest.mark.parametrize("watch", ["inotify", "polling"])
def test_a_changed_ignore_file_counts_from_the_next_scan(world: World, watch: str) -> None:
    put(world.root, b"caf\xe9.mp4")
    (world.root / IGNORE).write_bytes(b"caf\xe9.mp4\n")

    async def run() -> None:
        async with watching(world, watch=watch, rescan_s=0.2 if watch == "polling" else 600):
            await world.catch_up()
            assert world.names == [b"sentinel.mp4"]
            (world.root / IGNORE).write_bytes(b"late.mp4\n")
            await world.offered(b"caf\xe9.mp4")
            put(world.root, b"late.mp4")
            await world.catch_up("second.mp4")
            (world.root / IGNORE).unlink()
            await world.offered(b"late.mp4")

    asyncio.run(run())
    assert world.names == [b"sentinel.mp4", b"caf\xe9.mp4", b"second.mp4", b"late.mp4"]


def test_a_file_that_waits_is_excluded_in_time(world: World) -> None:
    async def run() -> None:
        async with watching(world, settle_s=600):
            put(world.root, b"a.mp4")
            await until_true(lambda: world.state.settling)
            (world.root / IGNORE).write_bytes(b"a.mp4\n")
            await until_true(lambda: not world.state.settling)

    asyncio.run(run())
    assert world.names == []


@pytest.mark.parametrize(
    ("exclude", "left_out"),
    [
        ("b.mp4", rb"(.*/)?[bB]\.(mp4|MP4)"),
        ("RAW", rb"(.*/)?raw/.*"),
        ("/raw", rb"raw/.*"),
        ("raw/", rb"raw/.*"),
        ("cam/*", rb"cam/.*"),
        ("caf*", rb"(.*/)?caf.*"),
        ("**/night/**", rb"cam/day/night/.*"),
    ],
)
def test_rules_exclude_files_and_folders(tmp_path: Path, exclude: str, left_out: bytes) -> None:
    paths = tree(tmp_path)
    scanner = scanner_of(tmp_path, Rules(("*.mp4",), (exclude,)))
    root = os.fsencode(tmp_path)
    wanted = {path for path in paths if not re.fullmatch(left_out, os.path.relpath(path, root), re.DOTALL)}
    assert wanted < set(paths)
    assert set(scanner.everything().files) == wanted
    assert set(scanner.part(paths).files) == wanted


@needs_root
def test_in_a_folder_that_may_not_be_entered_no_file_is_to_blame() -> None:
    with tempfile.TemporaryDirectory() as root:
        os.chmod(root, 0o755)
        closed, entered = Path(root, "closed"), Path(root, "entered")
        for folder, mode in ((closed, 0), (entered, 0o755)):
            folder.mkdir()
            (folder / IGNORE_NAME.decode()).touch(mode=0)
            folder.chmod(mode)

        def read(line: Connection) -> None:
            for folder in (closed, entered):
                try:
                    Ignored().below(os.fsencode(folder))
                except UnusableIgnoreFile as error:
                    line.send(str(error))
                else:
                    line.send("")

        with as_other_user(read) as line:
            assert receive(line) == ""
            assert receive(line) == "cannot be read (permission denied)"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"#recycle/", "#recycle/"),
        (b"a.mp4\r\n#old films/ \r\nb.mp4\n", "#old films/"),
        (b"\xef\xbb\xbf#recycle/\n", "#recycle/"),
        (b"# recycle/\n## a/\n#recycle\n\\#recycle/\n#/\n", None),
    ],
)
def test_a_comment_that_looks_like_a_folder_is_said(tmp_path: Path, text: bytes, line: str | None) -> None:
    (tmp_path / "sub/deep").mkdir(parents=True)
    (tmp_path / "sub" / IGNORE).write_bytes(text)
    findings = scanner_of(tmp_path).everything()
    assert findings.problem is None
    if line is None:
        assert findings.odd == {}
    else:
        (path, why) = findings.odd.popitem()
        assert (path, findings.odd) == (os.fsencode(tmp_path / "sub" / IGNORE), {})
        assert line in why.message
        assert f"\\{line}" in why.hint

"""Logs name no root, however a path is written in them, and leave every other path as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tqstudio
from tqstudio import paths, shell_quoting
from tqstudio.engine.host import log_redaction
from tqstudio.engine.host.log_redaction import Roots

IN = Roots("/srv/in")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/srv/in/a.mp4", "a.mp4"),
        ("/srv/in/2026/may/a.mp4", "2026/may/a.mp4"),
        ("/srv/in", "."),
        ("/srv/in/", "."),
        ("/srv/in//a.mp4", "a.mp4"),
        ("cannot write to /srv/in: no space", "cannot write to .: no space"),
        ("it is in /srv/in.", "it is in .."),
        ("file:/srv/in/a.mp4", "file:a.mp4"),
        ("file:///srv/in/a.mp4", "file://a.mp4"),
        ("path=/srv/in/a.mp4", "path=a.mp4"),
        ("'/srv/in/a b.mp4': Invalid data", "'a b.mp4': Invalid data"),
        ("'/srv/in/'", "'.'"),
        ('error="one\\n/srv/in/a.mp4"', 'error="one\\na.mp4"'),
        ("from /srv/in/a.mp4 to /srv/in/b.mp4", "from a.mp4 to b.mp4"),
    ],
)
def test_a_root_is_not_named(text: str, expected: str) -> None:
    assert IN.relative(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "/data/srv/in/x",
        "data/srv/in/x",
        "./srv/in/x",
        "../srv/in/x",
        "/data-/srv/in/x",
        "/srv/input/x",
        "/srv/in-2/x",
        "/srv/in.old/x",
        "/srv/in\\xe9/x",
        "/srv/i",
        "/srv",
        "1/2",
    ],
)
def test_other_paths_stay(text: str) -> None:
    assert IN.relative(text) == text


def test_the_longest_root_goes_first() -> None:
    nested = Roots("/srv", "/srv/in/drop/", "/srv/in")
    assert nested.relative("/srv/in/drop/a /srv/in/b /srv/c /srv/in/dropped") == "a b c dropped"
    assert nested.relative("/srv/in/drop /srv/in") == ". ."


def test_the_roots_of_both() -> None:
    assert (IN | Roots("/srv/out")).relative("/srv/in/a /srv/out/b") == "a b"
    assert (IN | Roots("/srv/in")) is IN


@pytest.mark.parametrize("folder", ["/", "//", "", "in", b"/"])
def test_what_is_no_root(folder: str | bytes) -> None:
    assert Roots(folder).relative("/srv/in/a and / and in/b") == "/srv/in/a and / and in/b"


ODD = [
    b"/srv/plain",
    b"/srv/a b",
    b"/srv/jane's",
    b'/srv/the "best"',
    b'/srv/it\'s "both"',
    b"/srv/back\\slash",
    b"/srv/(x) [y] {z} $1 50%",
    "/srv/été 東京".encode(),
    "/srv/3.05\u202fPM".encode(),
    b"/srv/caf\xe9",
    b"/srv/new\nline",
    "/srv/é\x1b[31m\xff'".encode("latin-1"),
]


@pytest.mark.parametrize("root", ODD, ids=repr)
@pytest.mark.parametrize("name", [b"a.mp4", b"caf\xe9.mp4", b"don't.mp4", b"tab\t.mp4", "è.mp4".encode()])
def test_a_root_is_not_named_in_any_writing(root: bytes, name: bytes) -> None:
    path, odd = root + b"/" + name, Roots(root)
    raw = os.fsdecode(path)
    error = FileNotFoundError(2, "No such file", raw)
    of_bytes = FileNotFoundError(2, "No such file", path)
    ways = [
        raw,
        path.decode("utf-8", "backslashreplace"),
        paths.display(path),
        shell_quoting.line([shell_quoting.transportable(word) for word in ("ffmpeg", "-i", f"file:{raw}")]),
        str(error),
        str(of_bytes),
    ]
    for text in [*ways, *map(_as_a_value, ways)]:
        output = odd.relative(text)
        assert "srv" not in output, text
        assert os.path.splitext(name)[1].decode() in output


def _as_a_value(text: str) -> str:
    import structlog

    return structlog.processors.LogfmtRenderer()(None, "", {"error": text})


def test_what_ffmpeg_says_of_a_root(tmp_path: Path) -> None:
    """It has its own ways with control characters."""
    from tqstudio.engine.media.ffmpeg.binary import locate

    folder = tmp_path / "a \x1b[31m\x07'b'\n\udce9"
    folder.mkdir()
    source = folder / "é.mp4"
    source.write_text("no video")
    run = subprocess.run(
        [locate(os.environ.get("TQSTUDIO_FFMPEG")).path, "-hide_banner", "-i", f"file:{source}"],
        capture_output=True,
        check=False,
    )
    output = run.stderr.decode("utf-8", "backslashreplace")
    assert str(tmp_path) in output
    assert "é.mp4" in Roots(str(folder)).relative(output)
    assert str(tmp_path) not in Roots(str(folder)).relative(output)


def test_a_traceback_names_no_folder_of_the_program() -> None:
    program = "from tqstudio import paths\npaths.decode('?')\n"
    run = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
    assert "tqstudio/paths.py" in run.stderr
    output = log_redaction.of_program().relative(run.stderr)
    assert 'File "tqstudio/paths.py"' in output
    assert os.path.dirname(os.path.dirname(tqstudio.__file__)) not in output


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/srv/in/film/a.m4s is gone", "film/a.m4s is gone"),
        ("the disk of /srv/in is full", "the disk of in is full"),
        ("/mnt/my films/a b.mp4 cannot be read", "a b.mp4 cannot be read"),
        ("copy '/mnt/a/b c.mp4': /mnt/d/e.mp4 and /films", "copy 'b c.mp4': e.mp4 and films"),
        ("the disk of /mnt/nas/ (quota)", "the disk of nas/ (quota)"),
        ("error:/mnt/a/b (file:///mnt/a/c)", "error:b (file://c)"),
        (
            "is at s3://b/x/y or https://nas/x, 1/2 and/or a / b",
            "is at s3://b/x/y or https://nas/x, 1/2 and/or a / b",
        ),
    ],
)
def test_what_leaves_the_machine_has_no_folders(text: str, shown: str) -> None:
    assert IN.names(text) == shown

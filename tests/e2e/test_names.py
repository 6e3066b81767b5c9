"""File names are bytes: whatever they hold, the file becomes a ladder by every way in."""

from __future__ import annotations

import os
from pathlib import Path

import m3u8
import pytest

from tqstudio.paths import data, decode, display, encode
from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeClip
from .studio import Studio

NAMES = [
    b"-y.mp4",
    b"a b'c\"d.mp4",
    "é\n\x1b[31m.mp4".encode(),
    b"[red]x.mp4",
    b"%03d.mp4",
    b"caf\xe9.mp4",
    b"file:x.mp4",
    b"$(reboot);&.mp4",
    b"!!!.mp4",
    "日本語.mp4".encode(),
    "東京\u3000می\u200cخواهم 3.05\u202fPM.mp4".encode(),
    b"x" * 251 + b".mp4",
]


@pytest.fixture
def odd(clip: MakeClip, tmp_path: Path) -> Path:
    """A folder with one short clip under every name."""
    folder = tmp_path / "odd"
    folder.mkdir()
    content = clip(seconds=2, channels=0).read_bytes()
    for name in NAMES:
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes(content)
    return folder


def _published(out: Path) -> list[Path]:
    masters = list(out.glob("*/master.m3u8"))
    for master in masters:
        assert len(m3u8.load(str(master)).playlists) == 3
    return masters


def _all_there(folder: Path) -> None:
    assert sorted(os.listdir(os.fsencode(folder))) == sorted(NAMES)


@pytest.mark.slow
def test_through_a_drop_folder(shared: Studio, odd: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    folder = shared.client.send(calls.add_folder(encode(odd), output_b64=encode(out), settle_s=0.1))

    def ended() -> list[str]:
        rows = shared.client.send(calls.jobs(limit=500))["jobs"]
        ours = [row for row in rows if row["path"].startswith(str(odd))]
        assert not [row for row in ours if row["status"] == "failed"], [row["error"] for row in ours]
        return [row["name"] for row in ours if row["status"] == "done"]

    until(lambda: len(ended()) == len(NAMES), "every file is done")
    assert sorted(ended()) == sorted(display(name) for name in NAMES)
    assert len(_published(out)) == len(NAMES)
    shared.client.send(calls.remove_folder(folder["id"]))
    _all_there(odd)


@pytest.mark.more
def test_through_process(shared: Studio, odd: Path, tmp_path: Path) -> None:
    out = tmp_path / "出力\u3000\n\x1b"
    answer = shared("process", "-i", odd, "-o", out, "--json")
    assert answer.code == 0, answer.err
    report = answer.last_line()
    assert report["summary"]["done"] == len(NAMES)
    paths = [os.fsencode(odd) + b"/" + name for name in NAMES]
    assert sorted(video["source"] for video in report["videos"]) == sorted(map(data, paths))
    assert sorted(decode(video["source_b64"]) for video in report["videos"]) == sorted(paths)
    assert len(_published(out)) == len(NAMES)
    for video in report["videos"]:
        assert Path(video["master"]).is_file()
        assert decode(video["master_b64"]) == os.fsencode(video["master"])
    again = shared("process", "-i", odd, "-o", out)
    assert again.out.count(f"cached → {display(os.fsencode(out))}") == len(NAMES)
    assert "\x1b" not in again.out + again.err + answer.err
    _all_there(odd)


@pytest.mark.more
def test_through_add_by_their_bare_names(shared: Studio, odd: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    answer = shared("add", "-o", out, "--json", "--", *NAMES, cwd=odd)
    assert answer.code == 0, answer.err
    jobs = [result["job"] for result in answer.json()["results"]]
    for job in jobs:
        shared.done(job)
    assert len(_published(out)) == len(NAMES)
    listed = shared("job", "list", "--limit", "50").out
    assert "[red]x.mp4" in listed
    assert "é\\n\\x1b[31m.mp4" in listed
    assert "東京\u3000می\u200cخواهم 3.05\u202fPM.mp4" in listed
    shown = shared("job", "show", str(jobs[2]))
    assert shown.code == 0, shown.err
    assert str(odd / "é\\n\\x1b[31m.mp4") in shown.out
    assert "\x1b" not in listed + shown.out
    assert shared("job", "log", str(jobs[5])).code == 0
    _all_there(odd)

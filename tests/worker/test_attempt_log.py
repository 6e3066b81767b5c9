"""The log of an attempt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tqstudio.engine.host.log_redaction import Roots
from tqstudio.engine.media.encode.values import RunRecord
from tqstudio.engine.worker.job.attempt_log import AttemptLog


def test_runs_beside_each_other_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "jobs" / "7" / "2.log"
    with AttemptLog(path, Roots()) as log:
        log.run_dir.mkdir(parents=True)
        runs = [
            RunRecord(label, ("ffmpeg", label), log.run_dir / label, "libx264", 0, None)
            for label in ("video", "audio")
        ]
        (log.run_dir / "video").write_text("first line\nhalf a ")
        log.follow(runs)
        (log.run_dir / "audio").write_text("sound\n")
        log.follow(runs)
        with (log.run_dir / "video").open("a") as log_file:
            log_file.write("line\nthe end")
        log.follow([replace(run, returncode=0) for run in runs])
    lines = path.read_text().splitlines()
    assert [line for line in lines if line.startswith("[")] == [
        "[video] first line",
        "[audio] sound",
        "[video] half a line",
        "[video] the end",
    ]
    assert [line.partition(" [")[2] for line in lines if "$" in line] == [
        "video] $ ffmpeg video",
        "audio] $ ffmpeg audio",
    ]
    assert not log.run_dir.exists()


def test_a_talkative_run_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tqstudio.engine.worker.job.attempt_log.MAX_COPIED_BYTES", 1000)
    monkeypatch.setattr("tqstudio.engine.worker.job.attempt_log._CHUNK", 300)
    path = tmp_path / "1.log"
    with AttemptLog(path, Roots()) as log:
        log.run_dir.mkdir()
        run = RunRecord("video", ("ffmpeg",), log.run_dir / "video", "libx264", 0, None)
        run.log_path.write_text("damaged frame\n" * 1000)
        log.follow([run])
        log.follow([replace(run, returncode=0)])
    assert path.stat().st_size < 4000
    assert path.read_text().count("output is omitted") == 1


def test_a_log_that_cannot_be_written_fails_nothing(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with AttemptLog(blocked / "1.log", Roots()) as log:
        log.line("hello")
        log.exception(ValueError("x"))


def test_no_root_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where a long log is read in pieces, nor where a name breaks a line."""
    root = tmp_path / "clients\nof acme"
    path = tmp_path / "1.log"
    damaged = f"'{root}/a b.mp4' is damaged\n"
    # A piece ends in the path of the next line.
    monkeypatch.setattr("tqstudio.engine.worker.job.attempt_log._CHUNK", len(damaged) + 5)
    with AttemptLog(path, Roots(root)) as log:
        log.run_dir.mkdir()
        command = ("ffmpeg", "-i", f"file:{root}/a b.mp4")
        run = RunRecord("video", command, log.run_dir / "video", "libx264", 0, 0)
        run.log_path.write_text(damaged * 9 + f"in {root}")
        log.line(f"{root} cannot be read")
        log.exception(ValueError(f"{root}/x"))
        log.follow([run])
    text = path.read_text()
    assert "acme" not in text
    assert " . cannot be read\n" in text
    assert "ValueError: x\n" in text
    assert "$ ffmpeg -i $'file:a b.mp4'\n" in text
    assert text.count("[video] 'a b.mp4' is damaged\n") == 9
    assert text.endswith("[video] in .\n")


def _logged(tmp_path: Path, *lines: str) -> list[str]:
    path = tmp_path / "1.log"
    with AttemptLog(path, Roots()) as log:
        log.run_dir.mkdir()
        run = RunRecord("video", ("ffmpeg",), log.run_dir / "video", "libx264", 0, 0)
        run.log_path.write_text("".join(f"{line}\n" for line in lines))
        log.line("reads \x1b[2J\u202efilm")
        log.follow([run])
    # Not by `splitlines`, which parts lines at control characters too.
    return path.read_text().split("\n")[:-1]


def test_what_could_harm_a_terminal_is_escaped(tmp_path: Path) -> None:
    first, *_, last = _logged(tmp_path, "    title\t: a\x9b31m\u202eb\u2066c\x1b]0;d\x07")
    assert first.endswith(r" reads \x1b[2J\u202efilm")
    assert last == r"[video]     title       : a\x9b31m\u202eb\u2066c\x1b]0;d\x07"


@pytest.mark.parametrize(
    "line",
    [
        "    location        : +48.1375+011.5755/",
        "    location-eng    : +48.1375+011.5755/",
        "    COM.APPLE.QUICKTIME.LOCATION.ISO6709: +48.1375+011.5755+500.123/",
        "      com.apple.quicktime.location.accuracy.horizontal: 48.1375",
        "    GPSLatitude     : 48.1375",
        "    com.dji.gps     : 48.1375",
        "    comment         : seen at -48.1375-011.5755CRSWGS_84/ by me",
    ],
)
def test_where_something_was_filmed_is_left_out(tmp_path: Path, line: str) -> None:
    last = _logged(tmp_path, line)[-1]
    assert "48" not in last
    assert "11.5755" not in last
    assert "(a position)" in last


@pytest.mark.parametrize(
    "line",
    [
        "    title           : My location",
        "  Duration: 00:00:04.00, start: 0.000000, bitrate: 317 kb/s",
        "Input #0, mov, from 'file:a-12-2024/location 1.mp4':",
        "  Stream #0:0: Video: jpeg2000, xyz12le, 320x180, 25 fps",
    ],
)
def test_other_lines_stay(tmp_path: Path, line: str) -> None:
    assert _logged(tmp_path, line)[-1] == f"[video] {line}"

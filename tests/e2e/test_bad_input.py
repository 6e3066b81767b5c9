"""Bad input and trouble: a code, one sentence, what to do; nothing else in the queue suffers."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tqstudio.errors import MAX_ERROR_TEXT, ErrorCode, TqError
from tqstudio.paths import encode
from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeClip, MakeStudio
from .ladder import check_ladder
from .studio import Studio

_NO_OVERRIDE = "-dac_override,-dac_read_search"


@pytest.fixture
def good(clip: MakeClip, copy) -> Path:
    return copy(clip(), "good.mp4")


def _reported(error: Any, code: str, *words: str) -> None:
    """An error that a user can use."""
    assert error["code"] == code, error
    assert 10 < len(error["message"]) <= MAX_ERROR_TEXT
    assert "Traceback" not in error["message"]
    assert "\n" not in error["message"]
    assert len(error["hint"]) > 5
    for word in words:
        assert word in error["message"], error


# Files that are no videos


def _text(folder: Path, _: Path) -> Path:
    path = folder / "notes.mp4"
    path.write_text("Buy milk.\n" * 50)
    return path


def _playlist(folder: Path, clip: Path) -> Path:
    """What made ffmpeg read another user's video: its format would be guessed as HLS."""
    secret = folder / "secret" / "private.ts"
    secret.parent.mkdir()
    shutil.copyfile(clip, secret)
    path = folder / "film.mp4"
    path.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\nfile://{secret}\n#EXT-X-ENDLIST\n")
    return path


def _concat(folder: Path, clip: Path) -> Path:
    path = folder / "list.mp4"
    path.write_text(f"ffconcat version 1.0\nfile '{clip}'\n")
    return path


def _halved(folder: Path, clip: Path) -> Path:
    path = folder / "halved.mp4"
    whole = clip.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    return path


def _headless(folder: Path, clip: Path) -> Path:
    path = folder / "headless.mp4"
    whole = clip.read_bytes()
    path.write_bytes(whole[:600])
    return path


def _noise(folder: Path, _: Path) -> Path:
    path = folder / "noise.mkv"
    path.write_bytes(bytes(range(256)) * 400)
    return path


@pytest.mark.fault("A file is no video", "`NO_MEDIA`; the next job runs", area="resume")
@pytest.mark.parametrize(
    ("make", "code"),
    [
        (_text, "NO_MEDIA"),
        pytest.param(_playlist, "NO_MEDIA", marks=pytest.mark.more),
        pytest.param(_concat, "NO_MEDIA", marks=pytest.mark.more),
        (_halved, "SOURCE_TRUNCATED"),
        pytest.param(_headless, "SOURCE_UNREADABLE", marks=pytest.mark.more),
        pytest.param(_noise, "NO_MEDIA", marks=pytest.mark.slow),
    ],
)
def test_a_file_that_is_no_video_fails_alone(
    shared: Studio,
    clip: MakeClip,
    good: Path,
    tmp_path: Path,
    make: Callable[[Path, Path], Path],
    code: str,
) -> None:
    bad = make(tmp_path, clip(seconds=12))
    before = bad.read_bytes(), bad.stat().st_mtime_ns
    worker = shared.worker()["pid"]
    job = shared.add(bad)
    after = shared.add(good)
    failed = shared.wait(job, "failed")
    _reported(failed["error"], code, bad.name)
    assert Path(failed["error"]["log"]).is_file()
    assert failed["video_view"]["status"] == "failed"
    assert failed["crashes"] == 0
    assert len(failed["attempts_log"]) == 1, "trying again would not help"
    shared.done(after)
    assert shared.worker()["pid"] == worker, "the worker lives on"
    assert (bad.read_bytes(), bad.stat().st_mtime_ns) == before
    assert not list((shared.out / failed["video_view"]["slug"]).glob("master.m3u8"))


def test_a_source_that_is_replaced_by_a_bad_one_in_the_queue(
    shared: Studio, clip: MakeClip, copy, good: Path
) -> None:
    """What was queued is not what is there when its turn comes."""
    shared.client.send(calls.pause_queue("a test"))
    try:
        job = shared.add(copy(clip(fps="24"), "swapped.mp4"))
        copy(good, "swapped.mp4").write_text("no video any more")
    finally:
        shared.client.send(calls.resume_queue())
    _reported(shared.wait(job, "failed")["error"], "NO_MEDIA", "swapped.mp4")


# Paths that are no files


def test_what_is_refused_before_it_is_queued(shared: Studio, tmp_path: Path, good: Path) -> None:
    empty = tmp_path / "empty.mp4"
    empty.touch()
    fifo = tmp_path / "pipe.mp4"
    os.mkfifo(fifo)
    results = shared.offer(tmp_path / "nothing.mp4", empty, tmp_path, fifo, good)
    assert [result["decision"] for result in results] == ["rejected"] * 4 + ["queued"]
    for result, code in zip(
        results, ("SOURCE_MISSING", "SOURCE_EMPTY", "UNSUPPORTED", "UNSUPPORTED"), strict=False
    ):
        _reported(result["error"], code, result["path"])
        assert result["job"] is None
    shared.done(results[-1]["job"])


@pytest.mark.parametrize("verb", ["add", "process"])
def test_commands_say_what_is_wrong_with_a_path(
    shared: Studio, tmp_path: Path, good: Path, verb: str
) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "readme.txt").write_text("nothing here")
    empty = tmp_path / "empty.mp4"
    empty.touch()
    for given, code, more in (
        (tmp_path / "nowhere", "SOURCE_MISSING", ()),
        (bare, "NO_MEDIA", ()),
        (empty, "SOURCE_EMPTY", ()),
        (good, "BAD_CONFIG", ("--profile", "nonsense")),
        (good, "BAD_CONFIG", ("--set", "video.crf=soft")),
    ):
        answer = shared(verb, given, "-o", tmp_path / "out", *more)
        assert answer.code == 2, answer
        # `process` reports each file among its progress; what stops the whole command is on stderr.
        lines = [*answer.err.splitlines(), *answer.out.splitlines()]
        at = next(n for n, line in enumerate(lines) if line.startswith("error: "))
        assert lines[at].startswith(f"error: {code}: "), answer
        assert lines[at + 1].startswith("  "), "what to do"
        assert "Traceback" not in answer.err
    assert not (tmp_path / "out").exists()


def test_a_folder_with_an_unknown_profile_or_no_folder(shared: Studio, tmp_path: Path) -> None:
    for path, more, code in (
        (tmp_path, {"profile": "nonsense"}, "BAD_CONFIG"),
        (tmp_path / "nowhere", {}, "SOURCE_MISSING"),
        (tmp_path, {"output_b64": encode(tmp_path)}, "REFUSED"),
    ):
        with pytest.raises(TqError) as caught:
            shared.client.send(calls.add_folder(encode(path), **more))
        assert caught.value.code == code
    assert shared.client.send(calls.folders())["folders"] == []


# What the machine lacks


@pytest.mark.more
def test_without_ffmpeg_nothing_starts(make_studio: MakeStudio) -> None:
    studio = make_studio(ffmpeg="/nonexistent/ffmpeg")
    for more in ((), ("--detach",)):
        answer = studio("up", *more)
        assert answer.code == 4
        lines = answer.err.splitlines()
        assert any(line.startswith("error: FFMPEG_MISSING: ") for line in lines), answer.err
        assert "/nonexistent/ffmpeg" in answer.err
        assert "TQSTUDIO_FFMPEG" in answer.err
    assert not studio.processes()
    assert studio("status").code == 3


@pytest.mark.more
@pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None,
    reason="root reads everything, and setpriv is not there to forbid it",
)
def test_a_file_that_may_not_be_read(make_studio: MakeStudio, clip: MakeClip, copy, good: Path) -> None:
    forbid = (
        ("setpriv", "--bounding-set", _NO_OVERRIDE, "--inh-caps", _NO_OVERRIDE, "--")
        if os.geteuid() == 0
        else ()
    )
    studio = make_studio(before=forbid).up()
    closed = copy(clip(), "closed.mp4")
    closed.chmod(0)
    (result,) = studio.offer(closed)
    _reported(result["error"], "PERMISSION", "closed.mp4")
    # One that is closed while it waits.
    studio.client.send(calls.pause_queue("a test"))
    later = copy(clip(fps="24"), "closed-later.mp4")
    job = studio.add(later)
    after = studio.add(good)
    later.chmod(0)
    studio.client.send(calls.resume_queue())
    _reported(studio.wait(job, "failed")["error"], "PERMISSION", "closed-later.mp4")
    studio.done(after)
    later.chmod(0o600)
    studio.do("retry", job)
    studio.done(job)
    # An output that cannot be written to is refused; one that is closed later is found out by its job.
    walled = studio.root / "walled"
    walled.mkdir(mode=0o500)
    with pytest.raises(TqError, match=r"the folder .*walled.* is not writable") as caught:
        studio.add(good, output_b64=encode(walled))
    assert caught.value.code is ErrorCode.PERMISSION
    walled.chmod(0o700)
    studio.client.send(calls.pause_queue("a test"))
    job = studio.add(good, output_b64=encode(walled))
    walled.chmod(0o500)
    studio.client.send(calls.resume_queue())
    _reported(studio.wait(job, "failed")["error"], "PERMISSION", "walled")
    walled.chmod(0o700)
    studio.do("retry", job)
    studio.done(job)


# A disk that fills up


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB, where this user may mount one."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m,mode=700", "tqstudio-test", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def _shut(studio: Studio) -> Any:
    gates = until(lambda: studio.status()["gates"], "a gate is shut")
    assert [gate["kind"] for gate in gates] == ["disk"]
    return gates[0]


@pytest.mark.slow
@pytest.mark.fault(
    "The output fills up during an encode",
    "`DISK_LOW`; no attempt is lost, no segment encoded again",
    area="disks",
)
def test_a_disk_that_becomes_full_holds_the_queue_and_costs_nothing(
    make_studio: MakeStudio, small_disk: Path, clip: MakeClip, copy
) -> None:
    # The estimate is made next to nothing, so that ffmpeg itself meets the end of the disk.
    studio = make_studio(disk_reserve_bytes=10_000, disk_factor=0.001).up()
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\0" * (shutil.disk_usage(small_disk).free - 150_000))
    job = studio.add(copy(clip(seconds=12), "fills.mp4"), output_b64=encode(small_disk))
    gate = _shut(studio)
    assert gate["hint"]
    waiting = studio.wait(job, "pending")
    assert (waiting["attempts"], waiting["crashes"]) == (0, 0)
    _reported(waiting["error"], "DISK_LOW")
    assert studio("status").out.count(f"DISK_LOW: {gate['reason']}") == 1
    ballast.unlink()
    until(lambda: not studio.status()["gates"], "the gate opens by itself")
    # It would continue by itself as well, a quarter of a minute later.
    studio.do("pause", job)
    studio.do("resume", job)
    done = studio.done(job)
    assert (done["attempts"], done["crashes"]) == (0, 0)
    master = Path(done["video_view"]["generation"]["master"])
    check_ladder(master, frames=300, fps=Fraction(25), names=("180p", "120p", "90p"))


@pytest.mark.more
def test_a_disk_below_its_reserve_is_not_begun_to_fill(
    make_studio: MakeStudio, clip: MakeClip, copy, tmp_path: Path
) -> None:
    studio = make_studio(disk_reserve_bytes=shutil.disk_usage(tmp_path).total).up()
    first = studio.add(copy(clip(), "no-room.mp4"))
    gate = _shut(studio)
    assert "free" in gate["reason"]
    second = studio.add(copy(clip(fps="24"), "no-room-either.mp4"))
    job = studio.job(first)
    assert (job["status"], job["attempts"]) == ("pending", 0)
    assert studio.job(second)["attempts_log"] == []
    assert studio.job(first)["attempts_log"] == [], "no worker was given it"
    studio.do("cancel", first)


# Limits of files and names


def test_metadata_that_is_not_understood_is_refused(shared: Studio, good: Path) -> None:
    with pytest.raises(TqError) as caught:
        shared.offer(good, no_such_field=1)
    assert caught.value.code == "BAD_REQUEST"
    with pytest.raises(TqError) as caught:
        shared.client.send(calls.Call("POST", "/v1/videos", body={"paths_b64": ["***"]}))
    assert caught.value.code == "BAD_REQUEST"
    with contextlib.suppress(TqError):
        shared.client.send(calls.job(10**30))
    assert shared.status()["supervisor"]["pid"]

"""A source is opened once: what is put in its place while it is worked on is neither read nor published."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tqstudio import paths
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.process import start
from tqstudio.engine.media.source import fingerprint, sidecars, source_file
from tqstudio.engine.media.source.probe import probe
from tqstudio.engine.worker.job.attempt import WorkerConfig
from tqstudio.engine.worker.job.source import examine
from tqstudio.engine.worker.reporting.outcome import Done, Failed
from tqstudio.errors import ErrorCode, TqError, WarningCode

from .conftest import MakeJob, RecordingReport, run


@pytest.fixture
def drop(tmp_path: Path, clip: Path) -> Path:
    """A drop folder with a video in a folder below it, which leads nowhere else."""
    inner = tmp_path / "drop" / "inner"
    inner.mkdir(parents=True)
    shutil.copyfile(clip, inner / "film.mp4")
    return tmp_path / "drop"


@pytest.fixture
def private(tmp_path: Path, long_clip: Path) -> Path:
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    return Path(shutil.copyfile(long_clip, folder / "film.mp4"))


def swap_file(drop: Path, private: Path) -> None:
    (drop / "inner" / "film.mp4").unlink()
    (drop / "inner" / "film.mp4").symlink_to(private)


def swap_folder(drop: Path, private: Path) -> None:
    shutil.rmtree(drop / "inner")
    (drop / "inner").symlink_to(private.parent)


@pytest.mark.parametrize("swap", [swap_file, swap_folder])
def test_a_link_that_came_while_the_job_waited_is_not_followed(
    drop: Path,
    private: Path,
    make_job: MakeJob,
    bench: WorkerConfig,
    work_dir: Path,
    swap: Callable[[Path, Path], None],
) -> None:
    film = drop / "inner" / "film.mp4"
    job = make_job(film, drop_folder_b64=paths.encode(drop))
    swap(drop, private)
    failed = run(job, bench, RecordingReport())
    assert isinstance(failed, Failed)
    assert failed.code is ErrorCode.UNSUPPORTED
    assert "replaced by a symbolic link" in failed.text
    assert not work_dir.exists()


def test_a_dropped_file_is_transcoded(drop: Path, make_job: MakeJob, bench: WorkerConfig) -> None:
    job = make_job(drop / "inner" / "film.mp4", drop_folder_b64=paths.encode(drop))
    assert isinstance(run(job, bench, RecordingReport()), Done)
    log = Path(job["log"]).read_text()
    assert "from 'file:inner/film.mp4'" in log or "from 'file:film.mp4'" in log
    assert "/proc/self" not in log


def test_a_link_that_a_user_named_is_followed(
    tmp_path: Path, clip: Path, make_job: MakeJob, bench: WorkerConfig
) -> None:
    link = tmp_path / "link.mp4"
    link.symlink_to(clip)
    assert isinstance(run(make_job(link), bench, RecordingReport()), Done)


@pytest.mark.fault(
    "Another user replaces a source while it is encoded",
    "`SOURCE_CHANGED`; the new file is not read",
    area="resume",
)
@pytest.mark.parametrize("swap", [swap_file, swap_folder])
def test_a_source_that_is_held_is_read_whatever_is_put_in_its_place(
    drop: Path, private: Path, ffmpeg: FFmpeg, tmp_path: Path, swap: Callable[[Path, Path], None]
) -> None:
    film = os.fsencode(drop / "inner" / "film.mp4")
    before, quick, full = probe(film), fingerprint.quick_hash(film), fingerprint.full_hash(film)
    original = fingerprint.Original.of(film)
    with source_file.keep_open(film, os.fsencode(drop)):
        swap(drop, private)
        assert probe(film) == before
        assert (fingerprint.quick_hash(film), fingerprint.full_hash(film)) == (quick, full)
        argv = [ffmpeg.path, "-nostdin", "-i", source_file.url(film), "-map", "0:v", "-f", "null", "-"]
        process = start(argv, tmp_path, tmp_path / "log", reads=film)
        assert process.wait(60) == 0
        assert process.argv == tuple(argv), "the command that is shown names the file"
        tail = process.log_tail()
        assert f"from '{source_file.url(film)}'" in tail
        assert "Duration: 00:00:03" in tail
        with pytest.raises(TqError) as caught:
            original.require_same()
        assert caught.value.code is ErrorCode.SOURCE_CHANGED
    assert probe(film) != before


def test_a_pipe_or_a_file_that_is_gone_is_named(drop: Path) -> None:
    below = os.fsencode(drop)
    os.mkfifo(drop / "pipe.mp4")
    for name, code in (("pipe.mp4", ErrorCode.UNSUPPORTED), ("inner/gone.mp4", ErrorCode.SOURCE_MISSING)):
        path = os.fsencode(drop / name)
        with pytest.raises(TqError) as caught, source_file.keep_open(path, below):
            source_file.check(path)
        assert caught.value.code is code


def test_a_folder_that_cannot_be_listed_costs_its_subtitle_files_alone(
    drop: Path, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = drop / "inner" / "film.mp4"
    (drop / "inner" / "film.de.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nhallo\n")
    job, path = make_job(film), os.fsencode(film)
    whole = examine(job, path)

    def fail(_: int) -> list[str]:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "listdir", fail)
    rest = examine(job, path)
    assert [track.language for track in whole.facts.subtitles] == ["de"]
    assert rest.facts == sidecars.with_tracks(whole.facts, ())
    assert [warning.code for warning in rest.warnings] == [WarningCode.SUBTITLES_LEFT_OUT]

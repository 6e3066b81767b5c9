"""Which folders are refused as an output when a user names them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tqstudio.engine.files import bounded_io
from tqstudio.engine.files.bounded_io import BoundedIO
from tqstudio.engine.outputs import output_check
from tqstudio.errors import ErrorCode, TqError

from .hung import HungMount
from .users import OTHER_UID, needs_root


def require(path: Path, *, allow_shared: bool = False) -> None:
    asyncio.run(output_check.require_usable(os.fsencode(path), BoundedIO(), allow_shared=allow_shared))


def refused(path: Path) -> TqError:
    with pytest.raises(TqError) as caught:
        require(path)
    return caught.value


def test_a_folder_may_be_there_or_not(tmp_path: Path) -> None:
    require(tmp_path)
    require(tmp_path / "not" / "yet")
    (tmp_path / "link").symlink_to(tmp_path)
    require(tmp_path / "link" / "below")
    assert not list(tmp_path.glob("not*")), "it is only looked at"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_a_file_system_that_keeps_no_files() -> None:
    error = refused(Path("/proc/x/y"))
    assert (error.code, error.message) == (
        ErrorCode.BAD_REQUEST,
        "the file system of /proc/x/y cannot store files",
    )
    assert "another output" in error.hint


def test_a_file_in_the_way(tmp_path: Path) -> None:
    file = tmp_path / "film.mp4"
    file.touch()
    for path in (file, file / "below", file / "further" / "below"):
        error = refused(path)
        assert error.code is ErrorCode.BAD_REQUEST
        assert error.message == f"{file} is not a folder"


def test_a_link_to_nothing(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "gone")
    assert refused(link / "below").message == f"{link} is a broken link"
    link.unlink()
    link.symlink_to(link)
    assert refused(link).code is ErrorCode.BAD_REQUEST


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    assert "name too long" in refused(tmp_path / ("x" * 300)).message


@pytest.mark.skipif(os.geteuid() == 0, reason="root ignores modes")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    error = refused(closed / "below")
    assert (error.code, error.message) == (ErrorCode.PERMISSION, f"the folder {closed} is not writable")


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757])
def test_a_folder_that_other_users_may_write_to(public: Path, mode: int) -> None:
    public.chmod(0o755)
    out = public / "out"
    out.mkdir()
    out.chmod(mode)
    error = refused(out)
    assert (error.code, error.message) == (
        ErrorCode.OUTPUT_SHARED,
        f"other users may write to the output {out}: everybody may write to it (mode {mode:04o})",
    )
    assert f"chmod go-w {out}" in error.hint
    assert "allow_shared_output" in error.hint
    require(out, allow_shared=True)
    public.chmod(0o700)
    require(out)
    public.chmod(0o755)
    out.chmod(0o755)
    require(out)


@needs_root
def test_a_folder_of_another_user_or_group(public: Path) -> None:
    out = public / "out"
    out.mkdir()
    out.chmod(0o775)
    require(out)
    os.chown(out, 0, OTHER_UID)
    assert "its group may write to it (mode 0775)" in refused(out).message
    out.chmod(0o755)
    require(out)
    os.chown(out, OTHER_UID, 0)
    assert f"another user (uid {OTHER_UID})" in refused(out).message


def test_what_does_not_answer_is_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_io, "TIMEOUT_S", 0.2)
    mount = HungMount(tmp_path / "hung")
    try:
        require(mount.folder / "below")
    finally:
        mount.end()

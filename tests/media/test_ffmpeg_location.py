"""Which ffmpeg is chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tqstudio.engine.media.ffmpeg.binary import FFmpeg, locate
from tqstudio.errors import ErrorCode, TqError


def pretend(path: Path, version: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'ffmpeg version {version} Copyright (c) the FFmpeg developers'\n")
    path.chmod(0o755)
    return str(path)


def test_a_configured_one_wins(tmp_path: Path) -> None:
    found = locate(pretend(tmp_path / "my ffmpeg", "4.4.1"))
    assert (found.path, found.version) == (str(tmp_path / "my ffmpeg"), "4.4.1")
    assert len(found.build) == 12


def test_the_build_distinguishes_versions(tmp_path: Path) -> None:
    builds = {locate(pretend(tmp_path / name, name)).build for name in ("5.1", "5.2")}
    assert len(builds) == 2


@pytest.mark.parametrize("content", [None, "#!/bin/sh\nexit 1\n", "#!/bin/sh\necho I am sox\n"])
def test_a_configured_one_that_does_not_work_is_never_replaced(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "ffmpeg"
    if content is not None:
        path.write_text(content)
        path.chmod(0o755)
    with pytest.raises(TqError) as caught:
        locate(str(path))
    assert caught.value.code == ErrorCode.FFMPEG_MISSING
    assert str(path) in caught.value.message
    assert "TQSTUDIO_FFMPEG" in caught.value.hint


@pytest.mark.fault("ffmpeg is killed while it reports its version", "It is asked again", area="resume")
def test_one_that_is_killed_is_asked_again(tmp_path: Path) -> None:
    """It says nothing about the program: without memory to spare anything may be killed."""
    path, killed = Path(pretend(tmp_path / "ffmpeg", "7.1")), tmp_path / "killed"
    script = path.read_text().replace(
        "echo", f"echo once >> '{killed}'; [ $(wc -l < '{killed}') -gt 2 ] || kill -9 $$; echo", 1
    )
    path.write_text(script)
    assert locate(str(path)).version == "7.1"
    assert killed.read_text().count("once") == 3
    killed.unlink()
    path.write_text(script.replace("-gt 2", "-gt 9"))
    with pytest.raises(TqError):
        locate(str(path))
    assert killed.read_text().count("once") == 3


@pytest.mark.parametrize(
    ("system", "chosen"), [("4.4.1", "6.0"), ("6.1-3ubuntu5", "6.1-3ubuntu5"), ("n10.0", "10.0")]
)
def test_the_newer_of_system_and_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, chosen: str
) -> None:
    monkeypatch.setenv("PATH", str(Path(pretend(tmp_path / "bin/ffmpeg", system)).parent) + ":/usr/bin:/bin")
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", pretend(tmp_path / "shipped", "6.0"))
    assert locate().version == chosen


def test_none_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(tmp_path / "gone"))
    with pytest.raises(TqError) as caught:
        locate()
    assert caught.value.code == ErrorCode.FFMPEG_MISSING


def test_the_installed_one_works(ffmpeg: FFmpeg) -> None:
    assert Path(ffmpeg.path).is_absolute()

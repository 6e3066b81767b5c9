"""Who may write to a finished ladder: the umask closes it further, and opens it only in shared outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import MakeClip, MakeStudio


@pytest.mark.parametrize(
    ("shared", "umask", "file", "folder"),
    [
        pytest.param(True, "002", 0o664, 0o775, marks=pytest.mark.slow),
        pytest.param(False, "002", 0o644, 0o755, marks=pytest.mark.slow),
        pytest.param(False, "027", 0o640, 0o750, marks=pytest.mark.slow),
    ],
)
def test_only_in_a_shared_output_the_umask_lets_a_group_write(
    make_studio: MakeStudio, clip: MakeClip, shared: bool, umask: str, file: int, folder: int
) -> None:
    before = ("sh", "-c", f'umask {umask}; exec "$@"', "sh")
    studio = make_studio(before=before, allow_shared_output=str(shared).lower()).up()
    job = studio.add(clip(seconds=2))
    studio.done(job)
    ladder = Path(studio.video_of(job)["generation"]["master"]).parent
    found = [path for path in (ladder, *ladder.rglob("*")) if not path.is_symlink()]
    assert {path.stat().st_mode & 0o777 for path in found if path.is_file()} == {file}
    assert {path.stat().st_mode & 0o777 for path in found if path.is_dir()} == {folder}
    # In there, others could plant links among unfinished files.
    assert (studio.out / ".tqstudio").stat().st_mode & 0o077 == 0
    # Nor is the home opened, which would be refused at the next start.
    studio.home.require_private()
    studio.down()
    studio.up()

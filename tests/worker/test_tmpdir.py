"""The temporary directory of a worker."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from tqstudio.engine.worker.tmpdir import own_tmpdir
from tqstudio.home import Home


@pytest.mark.fault(
    "A worker leaves temporary files", "The next worker of its name removes them", area="resume"
)
def test_ffmpeg_inherits_it_and_nothing_is_left(tmp_path: Path) -> None:
    path = Home(tmp_path).tmpdir("cpu-0")
    before = tempfile.gettempdir()
    # What a killed worker of the same name left.
    path.mkdir(parents=True)
    (path / "left").touch()
    with own_tmpdir(path):
        assert list(path.iterdir()) == []
        with tempfile.NamedTemporaryFile() as file:
            assert Path(file.name).parent == path
        shown = subprocess.run(
            ["sh", "-c", 'echo "$TMPDIR"; touch "$TMPDIR/left"'], capture_output=True, check=True
        )
        assert Path(os.fsdecode(shown.stdout.strip())) == path
    assert not path.exists()
    assert tempfile.gettempdir() == before


def test_no_name_leads_out_of_the_home(tmp_path: Path) -> None:
    assert (Home(tmp_path).tmpdir("..")).resolve().parent == tmp_path / "tmp"


def test_a_worker_does_without_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    before = os.environ.get("TMPDIR")
    with own_tmpdir(blocked / "tmp"):
        assert os.environ.get("TMPDIR") == before
    assert "temporary directory cannot be created" in capfd.readouterr().out

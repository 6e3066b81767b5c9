"""The folder of a supervisor."""

from __future__ import annotations

import shutil
from pathlib import Path

from tqstudio.home import Home


def test_a_copy_of_a_home_has_an_id_of_its_own(tmp_path: Path) -> None:
    home, copy = Home(tmp_path / "home"), Home(tmp_path / "copy")
    home.root.mkdir()
    known = home.id()
    shutil.copytree(home.root, copy.root)
    assert copy.id() != known, "it would take the other one for its own last run, and take over at once"
    assert home.id() == known

"""What is installed from the wheel has everything that the program reads beside its code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import module_names

ROOT = module_names.ROOT

_LIST = """
import json
from pathlib import Path
import tqstudio
from tqstudio.engine.media.plan import profiles
from tqstudio.ui.look import theme
print(json.dumps({
    "package": str(Path(tqstudio.__file__).parent),
    "profiles": {name: profiles.load(name).description for name in profiles.available()},
    "themes": sorted(theme.load_themes([theme.shipped_folder()]).by_name),
    "problems": theme.load_themes([theme.shipped_folder()]).problems,
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        # `wings/page/test_build.py` shows that it is carried.
        env=os.environ | {"TQSTUDIO_WITHOUT_PLAYER": "1"},
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("installed")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"),
            *("--no-index", "--no-deps", "--no-compile", "--target", str(target), str(wheel)),
        ],
        check=True,
        capture_output=True,
    )
    return target


def _run(installed: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python as `_try` does, without an error."""
    done = _try(installed, home, *arguments)
    assert done.returncode == 0, done.stderr
    return done


def _try(installed: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python outside the checkout, with the installed package before everything else."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(installed), "TQSTUDIO_HOME": str(home / "home")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_themes_and_profiles_are_in_it(installed: Path, tmp_path: Path) -> None:
    found = json.loads(_run(installed, tmp_path, "-c", _LIST).stdout)
    assert Path(found["package"]) == installed / "tqstudio", "it is the installed one that was asked"
    assert set(found["profiles"]) == {"web", "fast", "archive", "apple"}
    assert all(found["profiles"].values())
    assert found["themes"] == sorted(path.stem for path in (ROOT / "themes").glob("*.toml"))
    assert len(found["themes"]) >= 2
    assert not found["problems"]


def test_a_database_is_made_by_what_is_in_it(installed: Path, tmp_path: Path) -> None:
    make = (
        "from pathlib import Path; from tqstudio.engine.store.db.database import Database;"
        " db = Database(Path('fresh.db')); db.open(); db.close()"
    )
    _run(installed, tmp_path, "-c", make)
    assert (tmp_path / "fresh.db").stat().st_size > 0


def test_the_command_runs(installed: Path, tmp_path: Path) -> None:
    assert _run(installed, tmp_path, "-m", "tqstudio", "--version").stdout.startswith("tqstudio ")
    names = _run(installed, tmp_path, "-m", "tqstudio", "profile", "list").stdout
    assert "web" in names
    assert "fast" in names


def test_every_program_that_is_started_by_its_name_is_in_it(installed: Path, tmp_path: Path) -> None:
    for program in module_names.programs(ROOT / "src"):
        done = _try(installed, tmp_path, "-P", "-m", program)
        assert not re.search("No module named|ImportError", done.stderr), done.stderr
        assert done.returncode > 0, f"{program} refuses to run without arguments and input"


def test_nothing_else_is_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert not [name for name in names if not name.startswith("tqstudio")]
    assert not [name for name in names if "__pycache__" in name or name.endswith((".db", ".log"))]
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {"env.py", "versions/0100_initial.py"} <= {name.partition("migrations/")[2] for name in names}
    assert "share/man/man1/tqstudio.1" in {name.partition(".data/data/")[2] for name in names}


def test_the_wheel_of_an_sdist_is_the_same(wheel: Path, tmp_path: Path) -> None:
    """From the archive alone: without git, and without what its author has beside the sources."""
    build = (sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path))
    without = os.environ | {"TQSTUDIO_WITHOUT_PLAYER": "1"}
    subprocess.run([*build, "-t", "sdist"], cwd=ROOT, check=True, capture_output=True)
    (packed,) = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(packed, tmp_path, filter="data")
    source = packed.with_name(packed.name.removesuffix(".tar.gz"))
    subprocess.run([*build, "-t", "wheel"], cwd=source, env=without, check=True, capture_output=True)
    (again,) = tmp_path.glob("*.whl")
    assert _contents(again) == _contents(wheel)
    assert (source / "player" / "package-lock.json").is_file(), "by which hls.js is fetched"


def _contents(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as archive:
        return {each.filename: each.CRC for each in archive.infolist()}

"""On each Python that is at hand, and for a machine that is not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import module_names

from .conftest import BIN, Person

_EVERY = "tqstudio[alerts,postgresql,redis]"
_UV = BIN / "uv"
_TOO_OLD = "tqstudio needs Python 3.11 or newer"


def _at_hand(version: str) -> Path:
    """An interpreter of that version, in the PATH or of pyenv."""
    named = [shutil.which(f"python{version}")]
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for each in (*named, *root.glob(f"versions/{version}.*/bin/python")):
        # A command of pyenv may be there and say that it is not.
        ask = [each, "-c", "import ensurepip, sqlite3, ssl, sys; print(sys.executable)"]
        if (
            each
            and not (asked := subprocess.run(ask, capture_output=True, text=True, check=False)).returncode
        ):
            return Path(asked.stdout.strip())
    pytest.skip(f"Python {version} is not installed")


def _uv(*words: str | Path, given: str = "") -> str:
    """Run uv with the packages of the index; returns what it printed."""
    if not _UV.exists():
        pytest.skip("uv is not installed")
    done = subprocess.run(
        [_UV, *words], input=given, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.xdist_group("install")
@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_another_python(version: str, person: Person, wheel: Path) -> None:
    _uv("venv", "--quiet", "--python", _at_hand(version), person.home / "venv")
    python = person.home / "venv" / "bin" / "python"
    _uv("pip", "install", "--quiet", "--only-binary", ":all:", "--python", python, wheel)
    assert person(python.with_name("tqstudio"), "--version").startswith("tqstudio ")
    person.encodes(python)


@pytest.mark.slow
@pytest.mark.xdist_group("install")
@pytest.mark.parametrize(
    ("machine", "version"),
    [("aarch64", "3.11"), ("aarch64", "3.12"), ("aarch64", "3.13"), ("aarch64", "3.14"), ("x86_64", "3.14")],
)
def test_every_package_has_a_wheel(machine: str, version: str, wheel: Path) -> None:
    """As far as this can be shown without that machine: nothing would have to be compiled."""
    words = ("--only-binary", ":all:", "--no-header", "--no-annotate", "--python-version", version)
    platform = ("--python-platform", f"{machine}-unknown-linux-gnu")
    needed = _uv("pip", "compile", "--quiet", *words, *platform, "-", given=f"{_EVERY} @ {wheel.as_uri()}")
    assert "\nimageio-ffmpeg==" in needed, "which carries ffmpeg"
    assert "\npsycopg-binary==" in needed


def test_an_old_python_is_refused_in_one_sentence(person: Person, tmp_path: Path) -> None:
    old = _at_hand("3.10")
    refused = person.run(old, "-m", "tqstudio", "status", PYTHONPATH=str(module_names.ROOT / "src"))
    assert (refused.returncode, refused.stdout) == (2, "")
    [sentence] = refused.stderr.splitlines()
    assert _TOO_OLD in sentence
    made = person.run("make", "-s", "-C", module_names.ROOT, "demo", f"PYTHON={old}", f"VENV={tmp_path}/venv")
    assert made.returncode
    assert made.stderr.splitlines()[0] == _TOO_OLD


@pytest.mark.slow
@pytest.mark.xdist_group("install")
def test_it_is_not_installed_for_an_old_python(offline: Person, wheel: Path) -> None:
    old = _at_hand("3.10")
    refused = offline.run(_UV, "tool", "install", "--python", old, wheel)
    assert refused.returncode
    assert "does not satisfy Python>=3.11" in " ".join(refused.stderr.split())


# No folder for temporary files.

_READ_ONLY = """
for folder in /tmp /var/tmp /usr/tmp; do
    [ -d $folder ] || continue
    mount --bind $folder $folder && mount -o remount,bind,ro $folder || exit 77
done
mount -t tmpfs none /mnt || exit 77
cd /proc && HOME=/mnt exec "$@"
"""


@pytest.fixture
def without_tmp(person: Person) -> Person:
    """Somebody who may write nowhere but in the home, which is /mnt."""

    class Confined(Person):
        def run(self, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
            apart = ("unshare", *(() if os.geteuid() == 0 else ("--map-root-user",)), "--mount")
            done = super().run(*apart, "sh", "-c", _READ_ONLY, "sh", *command, TMPDIR="", **environment)
            if done.returncode == 77 or done.stderr.startswith("unshare:"):
                pytest.skip(f"this user may not mount: {done.stderr}")
            return done

    return Confined(person.home)


def test_without_tmp_doctor_names_what_is_missing(without_tmp: Person) -> None:
    checked = without_tmp.run(sys.executable, "-m", "tqstudio", "doctor")
    assert (checked.returncode, checked.stderr) == (1, "")
    failed = [line for line in checked.stdout.splitlines() if line.startswith("FAIL")]
    assert len(failed) == 1, "everything else is checked all the same"
    assert "temporary files" in failed[0]
    assert "TMPDIR" in checked.stdout


def test_what_needs_tmp_says_so_in_one_sentence(without_tmp: Person) -> None:
    """As the socket of a home whose path is too long for it."""
    long = f"/mnt/{'long/' * 30}"
    refused = without_tmp.run(sys.executable, "-m", "tqstudio", "up", "--detach", TQSTUDIO_HOME=long)
    assert refused.returncode == 2
    assert refused.stderr.splitlines() == [
        "error: PERMISSION: no folder for temporary files can be written, neither /tmp nor /var/tmp",
        "  → set TMPDIR to a folder of yours",
    ]


@pytest.mark.slow
def test_without_tmp_videos_are_encoded(without_tmp: Person) -> None:
    """The home has folders for what is unfinished."""
    ask = "import imageio_ffmpeg; print(imageio_ffmpeg.get_ffmpeg_exe())"
    ffmpeg = without_tmp(sys.executable, "-c", ask).strip()
    script = f"""
        {ffmpeg} -loglevel error -f lavfi -i testsrc2=duration=2 -pix_fmt yuv420p "$HOME/a.mp4" &&
        {sys.executable} -m tqstudio process --input "$HOME/a.mp4" --output "$HOME/site"
    """
    assert "1 done" in without_tmp("sh", "-c", script)

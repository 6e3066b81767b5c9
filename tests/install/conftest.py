"""The wheel with all it needs, and somebody whose home is empty."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import module_names
from tqstudio import __version__

BIN = Path(sys.executable).parent
HAS_NPM = shutil.which("npm") is not None
_OWN = ("PYTHONPATH", "VIRTUAL_ENV", "TQSTUDIO_", "XDG_", "PIP_", "PIPX_", "UV_")


@dataclass(frozen=True)
class Person:
    """Runs commands in an empty home, outside the checkout and without a package index."""

    home: Path
    packages: Path | None = None
    """Where pip, uv and pipx find packages."""

    @property
    def bin(self) -> Path:
        """Where uv and pipx put commands; not in the PATH, as on a fresh machine."""
        return self.home / ".local" / "bin"

    def __call__(self, *command: str | Path, **environment: str) -> str:
        """Run a command that succeeds; returns what it printed."""
        done = self.run(*command, **environment)
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def run(self, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(_OWN)}
        offline = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "UV_OFFLINE": "1", "UV_NO_CONFIG": "1"}
        offline |= {"PIP_FIND_LINKS": str(self.packages), "UV_FIND_LINKS": str(self.packages)}
        own = {"HOME": str(self.home), "TQSTUDIO_GPU": "false", "TQSTUDIO_WORKERS": "1"}
        return subprocess.run(
            [str(word) for word in command],
            cwd=self.home,
            env=inherited | offline | own | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def encodes(self, python: Path) -> None:
        """Encode a clip of two seconds; the home and its settings are made by the command."""
        ask = "import imageio_ffmpeg; print(imageio_ffmpeg.get_ffmpeg_exe())"
        source = ("-f", "lavfi", "-i", "testsrc2=size=320x180:rate=24:duration=2", "-pix_fmt", "yuv420p")
        self(self(python, "-c", ask).strip(), "-loglevel", "error", *source, "a.mp4")
        self(python.with_name("tqstudio"), "process", "--input", "a.mp4", "--output", "site")
        assert (self.home / "site" / "a" / "master.m3u8").is_file()


@pytest.fixture(scope="session")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made as docs say, once for all processes of a run; what an earlier run fetched is used again."""
    folder = module_names.ROOT / "build" / "wheelhouse"
    folder.mkdir(parents=True, exist_ok=True)
    shared = tmp_path_factory.getbasetemp()
    done = (shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared) / "wheelhouse"
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            # This environment is the one that `make` made, or stands for it.
            words = ("wheelhouse", f"VENV={sys.prefix}", "-o", f"{sys.prefix}/.installed")
            environment = os.environ | ({} if HAS_NPM else {"TQSTUDIO_WITHOUT_PLAYER": "1"})
            made = subprocess.run(
                ["make", *words],
                cwd=module_names.ROOT,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert made.returncode == 0, made.stderr
            done.touch()
    return folder


@pytest.fixture(scope="session")
def wheel(wheelhouse: Path) -> Path:
    return wheelhouse / f"tqstudio-{__version__}-py3-none-any.whl"


@pytest.fixture
def person(tmp_path: Path) -> Person:
    (tmp_path / "me").mkdir()
    return Person(tmp_path / "me")


@pytest.fixture
def offline(person: Person, wheelhouse: Path) -> Person:
    """The one whose only packages are those of the wheelhouse."""
    return Person(person.home, wheelhouse)

"""Real clips, real probe processes, and one whose reader does what a file's name says."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tqstudio.engine.media.ffmpeg.binary import locate
from tqstudio.engine.store.db.database import Database
from tqstudio.home import Home

_HOSTILE = '''
"""The real program; only its parser meets files that are worse than any that can be made on purpose."""
import os, sys, time
from pathlib import Path
from tqstudio.engine.media.source import probe as real
from tqstudio.engine.probing import program

place = Path(__file__).parent
log = (place / "asked").open("a")
probe = real.probe_head

def hostile(path):
    name = os.path.basename(path).decode()
    log.write(f"{os.getpid()} {name}\\n")
    log.flush()
    if "crash" in name:
        os.abort()
    if "hang" in name:
        time.sleep(3600)
    if "loud" in name:
        print("noise between the answers", flush=True)
    while "wait" in name and not (place / "go").exists():
        time.sleep(0.01)
    return probe(path)

real.probe_head = hostile
sys.exit(program.main(sys.argv[1:]))
'''


class Hostile:
    """A probe program, what it was asked, and when files named `wait` are answered."""

    program = "hostile_probe"

    def __init__(self, folder: Path) -> None:
        self._asked, self._go = folder / "asked", folder / "go"
        (folder / f"{self.program}.py").write_text(_HOSTILE)

    @property
    def asked(self) -> list[tuple[int, str]]:
        """Process and file of each look so far."""
        if not self._asked.exists():
            return []
        pairs = [line.split(" ", 1) for line in self._asked.read_text().splitlines()]
        return [(int(pid), name) for pid, name in pairs]

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.asked]

    def go(self) -> None:
        self._go.touch()


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hostile:
    folder = tmp_path / "hostile"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return Hostile(folder)


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seconds of 320×180 with sound. Copy it before changing it."""
    path = tmp_path_factory.mktemp("clips") / "clip.mp4"
    subprocess.run(
        [
            *(locate(os.environ.get("TQSTUDIO_FFMPEG")).path, "-v", "error", "-nostdin", "-y"),
            *("-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=2", "-f", "lavfi", "-i", "sine=d=2"),
            *("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", str(path)),
        ],
        check=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    return path


@pytest.fixture
def copy(clip: Path, tmp_path: Path) -> Callable[[str], Path]:
    """The clip under another name, in a folder of the test's own."""
    folder = tmp_path / "in"
    folder.mkdir()

    def make(name: str) -> Path:
        return Path(shutil.copyfile(clip, folder / name))

    return make


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    return home


@pytest.fixture
def opened(home: Home) -> Iterator[Database]:
    db = Database(home.database)
    db.open()
    yield db
    db.close()

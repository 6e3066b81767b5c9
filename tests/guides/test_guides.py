"""Runs every guide word for word: what a reader types, in order, and what it prints."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from object_storage import object_storage
from tqstudio.engine.media.ffmpeg.binary import locate
from waiting import until

from . import browser
from .shells import HLS_JS, Machines

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
MAX_WORDS = 400
LOOKING = (
    "tqstudio status",
    "tqstudio video list",
    "tqstudio worker list",
    "tqstudio verify",
    "ls ",
    "cat ",
    "curl ",
)
"""Commands that a reader repeats until they show what the guide says."""

PLAY = f"""
video.muted = true;
video.ontimeupdate = () => video.currentTime > 1 && {browser.SAY}("plays");
setInterval(() => {{
  const entry = document.querySelector("li");
  if (!video.currentSrc && entry) {{ entry.click(); video.play(); }}
}}, 200);
"""

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Step:
    """A command and what it prints, or a file and its content."""

    machine: str
    command: str
    lines: tuple[str, ...]
    file: str = ""


def steps(guide: str) -> Iterator[Step]:
    """What a reader does, from the first block to the last."""
    machine = "home"
    for head, kind, block in re.findall(r"([^\n]*)\n*```(\w*)\n(.*?)```", guide, re.DOTALL):
        if kind != "console":
            named = re.findall(r"`([^`]+)`", head)
            assert named, f"a block of {kind} that names no file: {head}"
            yield Step(machine, "", tuple(block.splitlines()), named[-1])
            continue
        command, lines = "", []
        for line in block.splitlines():
            prompt = re.match(r"(\w*)\$ (.*)", line)
            if command.endswith("\\"):
                command += "\n" + line
            elif prompt:
                if command:
                    yield Step(machine, command, tuple(lines))
                machine, command, lines = prompt[1] or "home", prompt[2], []
            else:
                lines.append(line)
        yield Step(machine, command, tuple(lines))


def _pattern(lines: tuple[str, ...]) -> re.Pattern[str]:
    """What a printed text has to be: `…` is anything."""
    return re.compile(r".*?".join(map(re.escape, "\n".join(lines).split("…"))) + r"\s*", re.DOTALL)


def _do(step: Step, machines: Machines) -> None:
    shell = machines[step.machine]
    lines = tuple(map(machines.real, step.lines))
    if step.file:
        path = Path(machines.real(step.file).replace("~", str(shell.home)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
        return
    command, pattern = machines.real(step.command), _pattern(lines)
    printed = ""

    def matches() -> bool:
        nonlocal printed
        status, printed = shell.run(command)
        return status == 0 and (not lines or pattern.fullmatch(printed) is not None)

    if step.command.startswith(LOOKING):
        try:
            until(matches)
        except AssertionError:
            raise AssertionError(f"{command}\n{printed}") from None
    else:
        assert matches(), f"{command}\n{printed}"


def _port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that readers have: a film, and a text that is named as one."""
    folder = tmp_path_factory.mktemp("clips")
    arguments = [
        "-f",
        "lavfi",
        "-i",
        "testsrc2=s=640x360:d=12",
        "-f",
        "lavfi",
        "-i",
        "sine=d=12",
        "-shortest",
    ]
    ffmpeg = locate(None).path
    subprocess.run([ffmpeg, "-v", "error", *arguments, folder / "holiday.mp4"], check=True)
    (folder / "notes.mp4").write_text("no film\n")
    return folder


@pytest.mark.parametrize("guide", sorted(GUIDES.glob("*.md")), ids=lambda path: path.stem)
def test_a_guide_does_what_it_says(guide: Path, tmp_path: Path, clips: Path) -> None:
    with ExitStack() as stack:
        mounted = tmp_path / "mnt"
        real = {
            "/home/me/": f"{tmp_path / 'machines' / 'home'}/",
            "nas.example:": "127.0.0.1:",
            "8000": _port(),
            "8750": _port(),
            "/mnt/": f"{mounted}/",
        }
        if guide.stem == "bucket":
            real["https://s3.example.com"] = stack.enter_context(object_storage()).endpoint
        machines = Machines(tmp_path / "machines", real)
        stack.callback(machines.end)
        done = 0
        for step in steps(guide.read_text()):
            shell = machines[step.machine]
            for clip in clips.iterdir():
                if not (shell.home / clip.name).exists():
                    shutil.copy(clip, shell.home)
            _do(step, machines)
            done += 1
        assert done > 5
        if guide.stem == "small-site" and browser.IS_HERE and HLS_JS.exists():
            page = machines["home"].home / "site" / "index.html"
            assert browser.said_by(page, PLAY, tmp_path, machines.real("http://localhost:8000")) == "plays"


@pytest.mark.parametrize("guide", sorted(GUIDES.glob("*.md")), ids=lambda path: path.stem)
def test_a_guide_is_short(guide: Path) -> None:
    assert len(re.findall(r"\S*\w\S*", guide.read_text())) <= MAX_WORDS

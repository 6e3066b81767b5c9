"""How long a newcomer waits: from the wheel alone and an empty home to the first picture that moves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

from benchmarks import clips
from benchmarks.options import Options
from benchmarks.processes import environment, until
from benchmarks.report import Section, at_most
from tqstudio.engine.media.ffmpeg import binary

_ROOT = Path(__file__).resolve().parents[1]
_CLIP_S = 20
_CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
_LIMIT_S = 600.0


def measure(options: Options, root: Path) -> Section:
    """Install from a wheelhouse, drop a film into a new folder, and watch the page in Chromium."""
    section = Section(
        "From nothing to a picture that moves",
        f"a wheelhouse into an empty environment and home; {_CLIP_S} s of 1080p30 with the default profile,"
        " until Chromium has decoded three pictures",
    )
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        section.setting += "; left out, because `make players` has installed no browser"
        return section
    film = clips.make(binary.locate().path, root.parent, _CLIP_S)
    subprocess.run(["make", "-s", "wheelhouse", f"WHEELHOUSE={root / 'wheels'}"], cwd=_ROOT, check=True)
    installing: list[float] = []
    playing: list[float] = []
    arguments = ["--autoplay-policy=no-user-gesture-required"]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=_CHROMIUM, args=arguments, chromium_sandbox=False)
        for number in range(options.rounds):
            home = root / f"home-{number}"
            began = time.perf_counter()
            program = _install(root / "wheels", root / f"environment-{number}")
            installing.append(time.perf_counter() - began)
            try:
                playing.append(_play(program, home, film, browser.new_page()))
            finally:
                _run(program, home, "open", "--close")
                _run(program, home, "down")
        browser.close()
    section.add("installing it, without the download", installing, "s")
    section.add("from the drop until it plays", playing, "s", at_most(120))
    return section


def _install(wheels: Path, place: Path) -> Path:
    venv.create(place, with_pip=True)
    words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    subprocess.run([place / "bin" / "python", *words, "--find-links", wheels, "tqstudio"], check=True)
    return place / "bin" / "tqstudio"


def _run(program: Path, home: Path, *words: str | Path) -> str:
    given = environment({"TQSTUDIO_HOME": str(home)})
    done = subprocess.run(
        [program, *words], env=given, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    print(done.stderr, end="", file=sys.stderr)
    return done.stdout


def _play(program: Path, home: Path, film: Path, tab: Any) -> float:
    drop, site = home.with_name(f"{home.name}-drop"), home.with_name(f"{home.name}-site")
    drop.mkdir()
    _run(program, home, "folder", "add", drop, "--output", site)
    began = time.perf_counter()
    shutil.copy(film, drop / "holiday.mp4")
    # What a person does: look at the library, and click on the card once it is there.
    tab.goto(_run(program, home, "open", "--print").strip())
    card = tab.locator("a.card")
    card.wait_for(timeout=_LIMIT_S * 1000)
    card.click()
    video = tab.locator("video")
    frames = "video => video.getVideoPlaybackQuality().totalVideoFrames"
    until(lambda: video.evaluate(frames) > 2, "it plays", _LIMIT_S)
    return time.perf_counter() - began

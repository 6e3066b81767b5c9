"""Packages of every kind, each made once by a real supervisor, and Chromium to play them in."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from e2e.studio import PROFILE, Studio
from tqstudio.engine.media.ffmpeg.binary import locate

from .server import serving
from .sources import Kind, make

if TYPE_CHECKING:
    from playwright.sync_api import Browser


class Package(NamedTuple):
    """What was published."""

    source: Path
    master: Path


Published = Callable[[Kind], Package]
Ask = Callable[..., Any]

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    studio = Studio(
        tmp_path_factory.mktemp("players") / "studio", locate(os.environ.get("TQSTUDIO_FFMPEG")).path
    )
    yield studio.up()
    studio.down()


@pytest.fixture(scope="session")
def published(studio: Studio, tmp_path_factory: pytest.TempPathFactory) -> Published:
    """Publishes a package of a kind when it is first asked for."""
    folder = tmp_path_factory.mktemp("sources")
    made: dict[str, Package] = {}

    def publish(kind: Kind) -> Package:
        if kind.name not in made:
            source = make(kind, locate(os.environ.get("TQSTUDIO_FFMPEG")).path, folder)
            job = _killed(studio, source) if kind.killed else _encoded(studio, kind, source)
            made[kind.name] = Package(source, Path(job["video_view"]["generation"]["master"]))
        return made[kind.name]

    return publish


def _encoded(studio: Studio, kind: Kind, source: Path) -> Any:
    text = PROFILE
    if kind.rungs:
        text = f"{text.partition('rungs =')[0]}rungs = [{kind.rungs}]\n"
    studio.write_profile(kind.name, text)
    asked = {"dash": "true", "files": '["mp4", "m4a"]', **kind.settings}
    job = studio.done(studio.add(source, profile=kind.name, overrides=asked))
    assert (job["renditions"][0]["encoder"] == "copy") is kind.copied, job["renditions"][0]
    return job


def _killed(studio: Studio, source: Path) -> Any:
    """A job whose worker died after two segments."""
    with studio.paced(2):
        job = studio.add(source)
        studio.running(job, segments=2)
        os.kill(int(studio.worker()["pid"]), signal.SIGKILL)
    done = studio.done(job)
    assert done["crashes"] == 1
    return done


@pytest.fixture(scope="session")
def address(studio: Studio) -> Iterator[str]:
    with serving(studio.out) as address:
        yield address


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    # Only `make players` installs it, and all tests are collected.
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        options = ["--autoplay-policy=no-user-gesture-required"]
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=options, chromium_sandbox=False)
        yield browser
        browser.close()


@pytest.fixture
def ask(chromium: Browser, address: str) -> Iterator[Ask]:
    """Calls functions of `studio` (`players.js`) in a new page; in the end no player may have complained."""
    page = chromium.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(f"{error}"))
    page.on("response", lambda answer: answer.ok or troubles.append(f"{answer.status} {answer.url}"))
    page.goto(f"{address}/page.html")

    def call(name: str, *arguments: Any) -> Any:
        return page.evaluate("([name, given]) => studio[name](...given)", [name, list(arguments)])

    yield call
    found = call("state")
    page.close()
    assert (found["errors"], found["mediaError"], troubles) == ([], None, [])

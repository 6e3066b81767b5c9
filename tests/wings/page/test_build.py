"""A wheel carries hls.js by the hashes of the lock, and is not made without it by mistake."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import module_names

CARRIED = {"tqstudio/wings/page/static/hls.js", "tqstudio/wings/page/static/hls.js.LICENSE"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a wheel is built from, with nothing that npm has brought."""
    skipped = shutil.ignore_patterns(".*", "tests", "build", "dist", "node_modules", "hls.js*", "__pycache__")
    return Path(shutil.copytree(module_names.ROOT, tmp_path / "checkout", ignore=skipped))


def _build(checkout: Path, **environment: str) -> tuple[int, str, set[str]]:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"],
        cwd=checkout,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    names = {name for file in checkout.glob("dist/*.whl") for name in zipfile.ZipFile(file).namelist()}
    return done.returncode, done.stderr, names


def test_a_wheel_without_hls_js_has_to_be_asked_for(checkout: Path) -> None:
    code, said, names = _build(checkout, PATH="/nowhere")
    assert (code, names) == (1, set())
    assert "TQSTUDIO_WITHOUT_PLAYER=1" in said
    code, said, names = _build(checkout, PATH="/nowhere", TQSTUDIO_WITHOUT_PLAYER="1")
    assert code == 0, said
    assert "tqstudio/wings/page/static/player.js" in names
    assert not names & CARRIED


@pytest.mark.players
def test_a_wheel_carries_hls_js_by_its_hash(checkout: Path) -> None:
    code, said, names = _build(checkout)
    assert code == 0, said
    assert names >= CARRIED
    shutil.rmtree(checkout / "dist")
    lock = checkout / "player" / "package-lock.json"
    lock.write_text(lock.read_text().replace("sha512-3G", "sha512-4G"))
    code, said, names = _build(checkout, npm_config_cache=str(checkout / "cache"))
    assert (code, names) == (1, set())
    assert "EINTEGRITY" in said

"""`make release` refuses what is not ready and leaves no trace; else it builds, hashes, lists and tags."""

from __future__ import annotations

import datetime
import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import module_names
from tqstudio import __version__

ROOT = module_names.ROOT
HAS_PLAYER = (ROOT / "src/tqstudio/wings/page/static/hls.js").exists() and shutil.which("npm") is not None
_NEEDS_PLAYER = pytest.mark.skipif(not HAS_PLAYER, reason="needs npm and its registry")


class Checkout:
    """A repository of its own with the present files, whose `.ci/run` is a line of shell."""

    def __init__(self, root: Path) -> None:
        self.root = root
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
        ).stdout
        for name in filter(None, listed.decode().split("\0")):
            if not name.startswith(("tests/", "docs/", "benchmarks/")) or name.startswith("tests/releases/"):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, root / name, follow_symlinks=False)
        (root / "docs").mkdir()
        (root / "docs" / "page.md").write_text("# A page\n")
        (root / f"tests/releases/home-{__version__}.tar.xz").touch()
        self.heading(f"{__version__} – {datetime.date.today()}")
        self.ci("true")
        self.git("init", "--quiet", "--initial-branch", "main")
        for key, value in {"user.name": "A", "user.email": "a@localhost", "gc.auto": "0"}.items():
            self.git("config", key, value)
        self.commit()

    def heading(self, text: str) -> None:
        (self.root / "CHANGELOG.md").write_text(f"# Changelog\n\n## {text}\n\n- A change.\n")

    def ci(self, line: str) -> None:
        (self.root / ".ci" / "run").write_text(f"#!/bin/sh\n{line}\n")

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "x")

    def release(self) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "tools/release.py"], cwd=self.root, check=False, capture_output=True, text=True
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "checkout")


def _unreleased(checkout: Checkout) -> None:
    checkout.heading(f"{__version__} – unreleased")
    checkout.commit()


def _later(checkout: Checkout) -> None:
    checkout.heading(f"{__version__} – 2999-01-01")
    checkout.commit()


def _changed(checkout: Checkout) -> None:
    (checkout.root / "README.md").write_text("other")


def _tagged(checkout: Checkout) -> None:
    checkout.git("tag", f"v{__version__}")


def _without_home(checkout: Checkout) -> None:
    (checkout.root / f"tests/releases/home-{__version__}.tar.xz").unlink()
    checkout.commit()


def _failing(checkout: Checkout) -> None:
    # It runs in a clone, where what is not committed is missing.
    checkout.ci(f'test "$PWD" = "{checkout.root}"')
    checkout.commit()


def _unsigned(checkout: Checkout) -> None:
    checkout.git("config", "tag.gpgSign", "true")
    checkout.git("config", "gpg.program", "false")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (_unreleased, f"has to begin with `## {__version__} – DATE`"),
        (_later, f"has to begin with `## {__version__} – DATE`"),
        (_changed, "the tree has changes"),
        (_tagged, f"v{__version__} exists"),
        (_without_home, f"home-{__version__}.tar.xz is missing"),
        (_failing, "continuous integration fails"),
        pytest.param(_unsigned, "the commit cannot be tagged", marks=[pytest.mark.slow, _NEEDS_PLAYER]),
    ],
)
def test_what_is_not_ready_is_refused(
    checkout: Checkout, spoil: Callable[[Checkout], None], sentence: str
) -> None:
    spoil(checkout)
    before = checkout.git("tag"), checkout.git("status", "--porcelain")
    code, said = checkout.release()
    assert code == 1
    assert sentence in said
    assert said.count("\n- ") == 1
    assert (checkout.git("tag"), checkout.git("status", "--porcelain")) == before
    assert not (checkout.root / "dist").exists()


@pytest.mark.slow
@_NEEDS_PLAYER
def test_a_release_has_files_hashes_a_bill_of_materials_and_a_tag(checkout: Checkout) -> None:
    code, said = checkout.release()
    assert code == 0, said
    dist = checkout.root / "dist"
    wheel, source = (f"tqstudio-{__version__}{end}" for end in ("-py3-none-any.whl", ".tar.gz"))
    bill = f"tqstudio-{__version__}.cdx.json"
    sums = dict(line.split("  ")[::-1] for line in (dist / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        name: hashlib.sha256((dist / name).read_bytes()).hexdigest() for name in (wheel, source, bill)
    }
    assert {file.name for file in dist.iterdir()} == {*sums, "SHA256SUMS"}
    assert "tqstudio/wings/page/static/hls.js" in zipfile.ZipFile(dist / wheel).namelist()
    found = json.loads((dist / bill).read_text())
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    product = found["metadata"]["component"]
    assert {each["content"] for each in product["hashes"]} == {sums[wheel], sums[source]}
    parts = {each["name"]: each for each in found["components"]}
    assert {"textual", "sqlmodel", "av", "redis", "psycopg-binary", "hls.js", "ffmpeg"} <= parts.keys()
    assert not {"pytest", "moto", "uv"} & parts.keys()
    lock = (ROOT / "requirements.lock").read_text()
    for digest in parts["textual"]["hashes"]:
        assert f"textual=={parts['textual']['version']} \\\n" in lock
        assert f"--hash=sha256:{digest['content']}" in lock
    assert checkout.git("rev-parse", f"v{__version__}^{{commit}}") == checkout.git("rev-parse", "HEAD")
    assert checkout.git("cat-file", "-t", f"v{__version__}") == "tag"
    assert checkout.release()[0] == 1

"""Makes a release of what is committed: `make release`.

Checks it, runs all of continuous integration in a clean clone, builds wheel and sdist there, writes their
hashes and a bill of materials into `dist`, and tags the commit. Publishes nothing. A refusal leaves neither
tag nor files.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import sbom
from tqstudio.engine.store.db.schema import SCHEMA_VERSION

ROOT = Path(__file__).resolve().parents[1]
_PLAYER = "tqstudio/wings/page/static/hls.js"


def main() -> int:
    """Make the release; returns the exit status."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    if problems := list(_problems(version)):
        return _refuse(problems)
    commit = _git("rev-parse", "HEAD")
    with tempfile.TemporaryDirectory() as folder:
        clone, built = Path(folder, "clone"), Path(folder, "dist")
        _git("clone", "--quiet", str(ROOT), str(clone))
        _git("-C", str(clone), "checkout", "--quiet", commit)
        if subprocess.run([".ci/run"], cwd=clone, stdin=subprocess.DEVNULL, check=False).returncode:
            return _refuse(["continuous integration fails: see above, mend it, and commit"])
        epoch = _git("show", "--no-patch", "--format=%ct", commit)
        build = [sys.executable, "-m", "hatchling", "build", "-d", str(built)]
        if subprocess.run(build, cwd=clone, env=os.environ | {"SOURCE_DATE_EPOCH": epoch}).returncode:
            return _refuse(["the build fails: see above"])
        [wheel] = built.glob("*.whl")
        if _PLAYER not in zipfile.ZipFile(wheel).namelist():
            return _refuse(["the wheel lacks hls.js: unset TQSTUDIO_WITHOUT_PLAYER"])
        _describe(built, version)
        tag = ["tag", "--annotate", f"v{version}", "--message", f"tqstudio {version}", commit]
        if subprocess.run(["git", *tag], cwd=ROOT).returncode:
            return _refuse(["the commit cannot be tagged: see above"])
        shutil.copytree(built, ROOT / "dist")
    print(f"dist has tqstudio {version}, tagged v{version}. To publish it: git push origin v{version}")
    return 0


def _problems(version: str) -> Iterator[str]:
    if _git("status", "--porcelain"):
        yield "the tree has changes: commit or remove what `git status` lists"
    if _git("tag", "--list", f"v{version}"):
        yield f"v{version} exists: raise the version in pyproject.toml"
    if (ROOT / "dist").exists():
        yield "dist has an earlier build: move it away"
    newest = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    heading = newest[1] if newest else ""
    dated = re.fullmatch(rf"{re.escape(version)} – (\d{{4}}-\d\d-\d\d)", heading)
    if not dated or dated[1] > datetime.date.today().isoformat():
        yield f"CHANGELOG.md has to begin with `## {version} – DATE`, not `## {heading}`"
    kept = [
        f"api-{version}.json",
        *(f"schema-{SCHEMA_VERSION}.{name}.sql" for name in ("sqlite", "postgresql")),
    ]
    for name in [*kept, f"home-{version}.tar.xz"]:
        if not (ROOT / "tests" / "releases" / name).exists():
            yield f"tests/releases/{name} is missing: write it with tools/freeze.py or tools/frozen_home.py"


def _describe(built: Path, version: str) -> None:
    digests = {file.name: _sha256(file) for file in sorted(built.iterdir())}
    bill = built / f"tqstudio-{version}.cdx.json"
    bill.write_text(sbom.sbom(ROOT, version, digests.values()))
    digests[bill.name] = _sha256(bill)
    (built / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in digests.items()))


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def _refuse(problems: list[str]) -> int:
    print("no release:", *problems, sep="\n- ", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

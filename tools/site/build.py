"""Builds the site from README, CHANGELOG and docs into `build/site`: `make site`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def main(built: Path = ROOT / "build" / "site") -> int:
    """Copy the pages to where the site has them, and build it; returns the exit status."""
    source = built.with_name("site-source")
    shutil.rmtree(source, ignore_errors=True)
    pages = source / "docs"
    shutil.copytree(ROOT / "docs", pages)
    shutil.copytree(ROOT / "examples", pages / "examples")
    for file in ("logo.svg", "site.css"):
        shutil.copy(HERE / file, pages)
    (pages / "index.md").write_text(_moved((ROOT / "README.md").read_text()))
    (pages / "changelog.md").write_text(_moved((ROOT / "CHANGELOG.md").read_text()))
    for page in pages.glob("*.md"):
        page.write_text(page.read_text().replace("](../examples/", "](examples/"))
    config = (HERE / "zensical.toml").read_text()
    present = [line for line in config.splitlines(keepends=True) if _is_there(line, pages)]
    (source / "zensical.toml").write_text("".join(present))
    run = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=source)
    if run.returncode == 0:
        _let_search_work_from_files(source / "site")
        shutil.rmtree(built, ignore_errors=True)
        shutil.move(source / "site", built)
    return run.returncode


def _moved(page: str) -> str:
    """The text of README or CHANGELOG with links as from beside the pages of docs."""
    return re.sub(r"\]\((?:docs/)?", "](", page).replace("](CHANGELOG.md", "](changelog.md")


def _let_search_work_from_files(site: Path) -> None:
    """Carry the program of the search in a script: browsers start no worker from a `file:` address."""
    [worker] = (site / "assets" / "javascripts" / "workers").glob("search.*.js")
    (site / "iframe-worker.js").write_text(
        'if (location.protocol === "file:") {\n'
        f"  const program = new Blob([{json.dumps(worker.read_text())}]);\n"
        "  const FromAddress = Worker;\n"
        "  Worker = function () { return new FromAddress(URL.createObjectURL(program)); };\n"
        "}\n"
    )


def _is_there(line: str, pages: Path) -> bool:
    named = re.search(r'"([\w/-]+\.md)" }', line)
    return named is None or (pages / named[1]).exists()


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))

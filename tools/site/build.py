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
MOVED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "examples/": "examples/",
}
"""What the site has elsewhere than the repository; a page that is not there yet is left out."""


def main(built: Path = ROOT / "build" / "site") -> int:
    """Copy the pages to where the site has them, and build it; returns the exit status."""
    source = built.with_name("site-source")
    shutil.rmtree(source, ignore_errors=True)
    pages = source / "docs"
    shutil.copytree(ROOT / "docs", pages)
    shutil.copytree(ROOT / "examples", pages / "examples")
    for file in ("logo.svg", "site.css"):
        shutil.copy(HERE / file, pages)
    for name, moved in MOVED.items():
        if (ROOT / name).is_file():
            (pages / moved).write_text(re.sub(r"\]\(docs/", "](", (ROOT / name).read_text()))
    for page in pages.rglob("*.md"):
        page.write_text(_with_links(page.read_text(), depth=len(page.relative_to(pages).parts) - 1))
    config = (HERE / "zensical.toml").read_text()
    present = [line for line in config.splitlines(keepends=True) if _is_there(line, pages)]
    (source / "zensical.toml").write_text("".join(present))
    run = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=source)
    if run.returncode == 0:
        _let_search_work_from_files(source / "site")
        shutil.rmtree(built, ignore_errors=True)
        shutil.move(source / "site", built)
    return run.returncode


def _with_links(text: str, *, depth: int) -> str:
    """A page, so many folders below the first one, with links to where the site has what was moved."""
    for name, moved in MOVED.items():
        for above in {"../" * (depth + 1), "../" * depth}:
            text = text.replace(f"]({above}{name}", f"]({'../' * depth}{moved}")
    return text


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

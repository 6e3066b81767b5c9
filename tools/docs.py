"""Writes the generated parts of the documentation and counts the words of the rest: `make docs`.

With `--check` it writes nothing and fails when a part is stale or the hand-written text is too long.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import commands_page
import fault_matrix
from tqstudio import config

ROOT = Path(__file__).resolve().parents[1]
PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "settings": ("docs/settings.md", lambda: config.table().strip()),
    "commands": ("docs/commands.md", commands_page.commands),
    "errors": ("docs/api.md", commands_page.errors),
    "warnings": ("docs/api.md", commands_page.warnings),
    "faults": ("docs/internals/fault-matrix.md", fault_matrix.faults),
    "invariants": ("docs/internals/fault-matrix.md", fault_matrix.invariants),
}
"""Name of a part → its page and text. On the page it is between `<!-- NAME: … -->` and `<!-- /NAME -->`."""
MAX_WORDS = 12_000
"""Of README, CHANGELOG and docs, without generated parts."""
_WORD = re.compile(r"\S*\w\S*")


def main() -> int:
    """Write or check every part; returns the exit status."""
    check = "--check" in sys.argv[1:]
    stale = [name for name, (page, render) in PARTS.items() if not _update(name, ROOT / page, render, check)]
    counts = {page: _words(page.read_text()) for page in pages()}
    for page, count in counts.items():
        print(f"{count:>6} {page.relative_to(ROOT)}")
    print(f"{sum(counts.values()):>6} words are written by hand, of at most {MAX_WORDS}")
    if check and stale:
        print(f"stale: {', '.join(stale)}; run make docs")
    return int(bool(check and stale) or sum(counts.values()) > MAX_WORDS)


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _update(name: str, page: Path, render: Callable[[], str], check: bool) -> bool:
    """Write one part into its page; returns whether it was up to date."""
    text = page.read_text()
    pattern = re.compile(rf"(<!-- {name}: [^\n]*-->\n).*?(<!-- /{name} -->)", re.DOTALL)
    new = pattern.sub(lambda found: f"{found[1]}{_inner(name, render())}\n{found[2]}", text)
    if f"<!-- /{name} -->" not in text:
        raise SystemExit(f"{page} has no place for the part {name}")
    if new != text and not check:
        page.write_text(new)
    return new == text


def _inner(name: str, text: str) -> str:
    """The part without markers of its own."""
    return re.sub(rf"<!-- /?{name}\b[^\n]*-->\n?", "", text).strip("\n")


def _words(text: str) -> int:
    return len(_WORD.findall(re.sub(r"<!-- (\w+): generated.*?<!-- /\1 -->", "", text, flags=re.DOTALL)))


if __name__ == "__main__":
    sys.exit(main())

"""What the documents say about the code is what the code says about itself."""

from __future__ import annotations

import re
from pathlib import Path

from tqstudio.config import table

ROOT = Path(__file__).resolve().parents[1]


def test_the_settings_page_is_the_settings_table() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    assert table() in page


def test_every_page_that_is_linked_exists() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    missing = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert missing == []

"""The site that `make site` builds: its links lead somewhere, and it works without a network."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from . import browser

pytest.importorskip("zensical", reason="make site installs zensical")

ROOT = Path(__file__).resolve().parents[2]


class Page(HTMLParser):
    """The anchors of a page, where it leads, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        self.loaded += [given[name] for name in ("src", "srcset") if name in given]
        if tag == "link" and given.get("rel") in ("stylesheet", "icon"):
            self.loaded.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("site") / "site"
    run = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "site" / "build.py"), str(built)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "warning" not in (run.stdout + run.stderr).lower()
    return built


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def test_every_link_leads_to_a_page_and_a_heading(pages: dict[Path, Page]) -> None:
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchors = pages[target].anchors if target in pages else {""}
            if not target.exists() or unquote(parts.fragment) not in {"", *anchors}:
                dead.append(f"{path.name}: {link}")
    assert len(pages) > 20
    assert dead == []


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for loaded in page.loaded:
            assert not urlsplit(loaded).netloc, loaded
            assert (path.parent / unquote(urlsplit(loaded).path)).exists(), loaded
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", style.read_text()), style


def test_every_page_is_in_the_navigation(site: Path) -> None:
    first = Page(site / "index.html").links
    written = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")]
    assert [path for path in written if not {path.as_posix(), f"./{path.as_posix()}"} & set(first)] == []


SEARCH = f"""
const inputs = () => [...document.querySelectorAll("div")].map(each => each.shadowRoot?.querySelector("input"));
let typed = false;
setInterval(() => {{
  const field = inputs().find(each => each);
  if (!field) return document.querySelector(".md-search__button").click();
  if (!typed) {{
    field.value = "sound loudness";
    typed = field.dispatchEvent(new InputEvent("input", {{ bubbles: true, composed: true }}));
  }}
  const links = [...field.getRootNode().querySelectorAll("a")].map(each => each.getAttribute("href"));
  if (links.length) {browser.SAY}(links.join(" "));
}}, 200);
"""  # noqa: E501


@pytest.mark.skipif(not browser.IS_HERE, reason="Chromium is not installed")
def test_search_finds_a_page_that_is_opened_as_a_file(site: Path, tmp_path: Path) -> None:
    found = browser.said_by(site / "index.html", SEARCH, tmp_path)
    assert any("media.html" in each for each in found.split()), found

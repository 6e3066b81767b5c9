"""The pictures that move: what they show when, and that they need nothing else."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tools"))

import moving_svg  # noqa: E402

MAX_BYTES = 500_000


def picture(title: str, *lines: str) -> str:
    """A picture of a screen with these lines, as Textual exports it."""
    console = Console(width=20, height=5, record=True, file=io.StringIO(), color_system="truecolor")
    for line in lines:
        console.print(line, style="bold #ffffff on #202020")
    return console.export_svg(title=title)


def shown(svg: str, percent: float | None) -> set[str]:
    """The texts that are visible at a time, or without motion."""
    rules = dict(re.findall(r"\.(a\d+)\{visibility:(\w+)", svg))
    if percent is not None:
        for name, steps in re.findall(r"@keyframes (a\d+)\{((?:[\d.]+%\{visibility:\w+\})+)\}", svg):
            changes = re.findall(r"([\d.]+)%\{visibility:(\w+)\}", steps)
            rules[name] = [word for at, word in changes if float(at) <= percent][-1]
    hidden = {name for name, word in rules.items() if word == "hidden"}
    root = ElementTree.fromstring(svg)
    return {
        "".join(text.itertext()).replace("\xa0", " ").strip()
        for group in root.iter()
        if group.get("class") not in hidden
        for text in group
        if text.tag.endswith("}text")
    } - {""}


def test_each_picture_is_shown_for_its_time_and_the_last_one_without_motion() -> None:
    pictures = [picture("one", "always", "first"), picture("two", "always", "next"), picture("one", "always")]
    svg = moving_svg.joined(pictures, [1, 2, 1])
    assert "4s step-end infinite" in svg
    assert shown(svg, 0) == {"one", "always", "first"}
    assert shown(svg, 24) == {"one", "always", "first"}
    assert shown(svg, 25) == {"two", "always", "next"}
    assert shown(svg, 74) == {"two", "always", "next"}
    assert shown(svg, 75) == shown(svg, None) == {"one", "always"}


@pytest.mark.parametrize("name", ["demo", "queue", "wall"])
def test_a_picture_is_small_and_needs_nothing_else(name: str) -> None:
    text = (ROOT / "docs" / f"{name}.svg").read_text()
    assert len(text.encode()) <= MAX_BYTES
    ElementTree.fromstring(text)
    assert not re.search(r"href|<script|@import|@font-face|url\((?!#)", text)

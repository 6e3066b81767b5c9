"""Joins pictures of a screen to one SVG that moves: each of its texts is shown while it is on the screen.

Browsers play it as an image of a page, without scripts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_ID = re.compile(r"terminal-\d+-")
_RULE = re.compile(r"\.t-(r\d+) \{([^}]*)\}\s*")
_PAPER = re.compile(r'<rect fill="([^"]*)" x="0" (y="[\d.]*") [^>]*crispEdges[^>]*/>')
_TEXT = re.compile(r'<text class="t-(r\d+)"(.*?</text>)', re.DOTALL)


def without_fonts(picture: str) -> str:
    """Remove what a picture would fetch from elsewhere."""
    return _FONT_FACE.sub("", picture)


def joined(pictures: Sequence[str], seconds: float) -> str:
    """Return one SVG that shows each picture for so many seconds, in a loop.

    Args:
        pictures: exported by Textual, of one size; the lines of each have one background, the same in all.
    """
    plain = [_ID.sub("t-", without_fonts(picture)) for picture in pictures]
    styles: dict[str, str] = {}
    texts: dict[str, list[bool]] = {}
    for number, picture in enumerate(plain):
        rules = dict(_RULE.findall(picture))
        for rule, rest in _TEXT.findall(picture):
            style = styles.setdefault(rules[rule].strip(), f"s{len(styles)}")
            texts.setdefault(f'<text class="{style}"{rest}', [False] * len(plain))[number] = True
    spans: dict[tuple[bool, ...], list[str]] = {}
    for text, shown in texts.items():
        spans.setdefault(tuple(shown), []).append(text)
    rules_of_all = [f".{name}{{{style}}}" for style, name in styles.items()]
    groups = []
    for number, (span, found) in enumerate(spans.items()):
        groups.append(f'<g class="a{number}">{"".join(found)}</g>')
        if not all(span):
            length = seconds * len(span)
            rules_of_all.append(f".a{number}{{animation:k{number} {length:g}s step-end infinite}}")
            rules_of_all.append(f"@keyframes k{number}{{{_keyframes(span)}}}")
    first = plain[0]
    head, _, body = first.partition("</style>")
    begin = _PAPER.search(body)
    assert begin is not None
    papers = "".join(
        f'<rect fill="{fill}" x="0" {y} width="100%" height="24.65"/>' for fill, y in _PAPER.findall(body)
    )
    style = _RULE.sub("", head) + "".join(rules_of_all) + "</style>"
    return (
        f'{style}{body[: begin.start()]}{papers}<g class="t-matrix">{"".join(groups)}</g>\n    </g>\n</svg>\n'
    )


def _keyframes(span: Sequence[bool]) -> str:
    """When something appears and disappears, in percent of the whole."""
    words = {True: "visible", False: "hidden"}
    changes = [at for at, now in enumerate(span) if at == 0 or now != span[at - 1]]
    return "".join(f"{100 * at / len(span):.4g}%{{visibility:{words[span[at]]}}}" for at in changes)

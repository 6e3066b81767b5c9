"""Joins pictures of a screen to one SVG that moves: each of its parts is shown while it is on the screen.

Browsers play it as an image of a page, without scripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby

_FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_ID = re.compile(r"terminal-\d+-")
_RULE = re.compile(r"\.t-(r\d+) \{([^}]*)\}\s*")
_TITLE = re.compile(r'<text class="t-title".*?</text>')
_PAPER = re.compile(r'<rect fill="([^"]*)" x="([\d.]*)" y="([\d.]*)" width="([\d.]*)"[^>]*crispEdges[^>]*/>')
_TEXT = re.compile(r'<text class="t-(r\d+)"(.*?</text>)', re.DOTALL)
LINE_HEIGHT = 24.65


def without_fonts(picture: str) -> str:
    """Remove what a picture would fetch from elsewhere."""
    return _FONT_FACE.sub("", picture)


def joined(pictures: Sequence[str], seconds: Sequence[float]) -> str:
    """Return one SVG that shows each picture for its seconds, in a loop; without motion the last one.

    Args:
        pictures: exported by Textual, of one size.
    """
    plain = [_ID.sub("t-", without_fonts(picture)) for picture in pictures]
    styles: dict[str, str] = {}
    titles, papers, texts = (_Parts(len(plain)) for _ in range(3))
    for number, picture in enumerate(plain):
        rules = dict(_RULE.findall(picture))
        for paper in _papers(picture):
            papers.add(paper, number)
        for title in _TITLE.findall(picture):
            titles.add(title, number)
        for rule, rest in _TEXT.findall(picture):
            style = styles.setdefault(rules[rule].strip(), f"s{len(styles)}")
            texts.add(f'<text class="{style}"{rest}', number)
    *ends, length = accumulate(seconds)
    animation = _Animation([100 * at / length for at in (0, *ends)])
    title, paper, text = (animation.groups(parts) for parts in (titles, papers, texts))
    head, _, body = plain[-1].partition("</style>")
    begin = _PAPER.search(body)
    assert begin is not None
    frame = _TITLE.sub(lambda _: title, body[: begin.start()])
    rules_of_all = "".join(f".{name}{{{style}}}" for style, name in styles.items())
    timing = f"g[class]{{animation:{length:g}s step-end infinite}}"
    still = "@media(prefers-reduced-motion:reduce){g[class]{animation:none!important}}"
    style = f"{_RULE.sub('', head)}{rules_of_all}{timing}{''.join(animation.rules)}{still}</style>"
    return f'{style}{frame}{paper}<g class="t-matrix">{text}</g></g></svg>\n'


def _papers(picture: str) -> Iterator[str]:
    """The backgrounds of a picture, those beside each other with one colour as one."""
    for (fill, y), found in groupby(_PAPER.findall(picture), key=lambda paper: (paper[0], paper[2])):
        line = list(found)
        left, right = float(line[0][1]), float(line[-1][1]) + float(line[-1][3])
        yield f'<rect fill="{fill}" x="{left:g}" y="{y}" width="{right - left:g}" height="{LINE_HEIGHT}"/>'


class _Parts:
    """Elements, and on which of the pictures each is."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._shown: dict[str, list[bool]] = {}

    def add(self, element: str, number: int) -> None:
        self._shown.setdefault(element, [False] * self._count)[number] = True

    def by_span(self) -> Iterable[tuple[tuple[bool, ...], list[str]]]:
        """Elements that are shown at the same times."""
        spans: dict[tuple[bool, ...], list[str]] = {}
        for element, shown in self._shown.items():
            spans.setdefault(tuple(shown), []).append(element)
        return spans.items()


class _Animation:
    """The rules by which parts appear and disappear."""

    def __init__(self, begins: Sequence[float]) -> None:
        self._begins = begins
        """When each picture begins, in percent of the whole."""
        self._names: dict[tuple[bool, ...], str] = {}
        self.rules: list[str] = []

    def groups(self, parts: _Parts) -> str:
        return "".join(self._group(span, "".join(found)) for span, found in parts.by_span())

    def _group(self, span: tuple[bool, ...], elements: str) -> str:
        if all(span):
            return elements
        if span not in self._names:
            name = self._names[span] = f"a{len(self._names)}"
            still = "visible" if span[-1] else "hidden"
            self.rules.append(f".{name}{{visibility:{still};animation-name:{name}!important}}")
            self.rules.append(f"@keyframes {name}{{{self._keyframes(span)}}}")
        return f'<g class="{self._names[span]}">{elements}</g>'

    def _keyframes(self, span: Sequence[bool]) -> str:
        words = {True: "visible", False: "hidden"}
        changes = [at for at, now in enumerate(span) if at == 0 or now != span[at - 1]]
        return "".join(f"{self._begins[at]:.4g}%{{visibility:{words[span[at]]}}}" for at in changes)

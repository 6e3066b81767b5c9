"""Where a template puts ladders, and which templates are refused."""

from __future__ import annotations

from datetime import date

import pytest

from tqstudio.engine.admission import output_template
from tqstudio.errors import ErrorCode, TqError

DAY = date(2026, 3, 9)


@pytest.mark.parametrize(
    ("path", "slug"),
    [
        (b"/in/My Holiday 2024.mp4", "my-holiday-2024"),
        ("/in/Ünïcödé — ﬁn.mkv".encode(), "ünïcödé-fin"),
        (b"/in/-y.mp4", "y"),
        (b"/in/%03d.mp4", "03d"),
        (b"/in/[red]x.mp4", "red-x"),
        (b"/in/caf\xe9.mp4", "caf"),
        (b"/in/\xff\xfe.mp4", ""),
        ("/in/😀.mp4".encode(), ""),
        ("/in/a℀b.mp4".encode(), "aa-cb"),
        (b"/in/.tqstudio.mp4", "tqstudio"),
        (b"/in/..", ""),
    ],
)
def test_slugs(path: bytes, slug: str) -> None:
    assert output_template.fill(output_template.DEFAULT, path, None, DAY) == slug


def test_a_long_name_makes_a_short_slug() -> None:
    name = "é".encode() * 200
    slug = output_template.fill("{relative_dir}/{slug}", b"/in/%b/%b.mp4" % (name, name), b"/in", DAY)
    assert slug == "é" * 40 + "/" + "é" * 40


@pytest.mark.parametrize(
    ("template", "path", "filled"),
    [
        ("{relative_dir}/{slug}", b"/in/Acme Corp/2024/Film.mp4", "acme-corp/2024/film"),
        ("{relative_dir}/{slug}", b"/in/film.mp4", "film"),
        ("{relative_dir}/{slug}", b"/in/\xff/caf\xe9/film.mp4", "caf/film"),
        ("{relative_dir}/{slug}", b"/in/.../film.mp4", "film"),
        ("{relative_dir}/{slug}", b"/in/acme/\xff.mp4", ""),
        ("{date}/{slug}", b"/in/film.mp4", "2026-03-09/film"),
        ("site/{relative_dir}/{date}-{slug}-hls", b"/in/a/b.mp4", "site/a/2026-03-09-b-hls"),
    ],
)
def test_placeholders(template: str, path: bytes, filled: str) -> None:
    output_template.check(template)
    assert output_template.fill(template, path, b"/in", DAY) == filled


@pytest.mark.parametrize(
    "template",
    [
        *("", "{relative_dir}", "{slug}/", "/{slug}", "../{slug}", "a//{slug}", ".hidden/{slug}", "A/{slug}"),
        *("{name}/{slug}", "{}/{slug}", "{slug}/film", "{relative_dir}-{slug}", "{slug", "a b/{slug}"),
        "x" * 81 + "/{slug}",
    ],
)
def test_a_wrong_template_is_refused(template: str) -> None:
    with pytest.raises(TqError) as refused:
        output_template.check(template)
    assert refused.value.code is ErrorCode.BAD_REQUEST
    assert refused.value.hint

"""Language codes of containers become the tags that players expect."""

from __future__ import annotations

import pytest

from tqstudio.engine.media import languages


@pytest.mark.parametrize(
    ("code", "tag", "name"),
    [
        ("eng", "en", "English"),
        ("ger", "de", "German"),
        ("deu", "de", "German"),
        ("ger-at", "de-AT", "German (Austria)"),
        ("zh-hans", "zh-Hans", "Chinese (Simplified)"),
        (" FRE ", "fr", "French"),
        ("yue", "yue", "Cantonese"),
        ("gsw-berne", "gsw", "Swiss German"),
        ("en-surround", "en", "English"),
        ("qaa", "qaa", "qaa"),
    ],
)
def test_known_codes(code: str, tag: str, name: str) -> None:
    assert (languages.standard(code), languages.name(tag)) == (tag, name)


@pytest.mark.parametrize(
    "code", ["", "und", "mis", "xx", "english", "../etc", "e" * 40, "\x00", "\udcff", "1"]
)
def test_what_is_no_code_is_unknown(code: str) -> None:
    assert languages.standard(code) == languages.UNKNOWN

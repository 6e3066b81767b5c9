"""Decodes text files of unknown encoding: Unicode, or an older encoding that is detected."""

from __future__ import annotations

import codecs
import re

_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_UTF_8_CHARACTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_OTHER = re.compile(rb"[\x80-\xff]")
_LANGUAGES = {
    "cp1250": "bs cs hr hu pl ro sk sl sq",
    "cp1251": "be bg kk mk ru uk",
    "cp1253": "el",
    "cp1254": "az tr",
    "cp1255": "he yi",
    "cp1256": "ar fa ur",
    "cp1257": "et lt lv",
    "cp1258": "vi",
    "cp874": "th",
    "cp932": "ja",
    "euc_jp": "ja",
    "cp949": "ko",
    "gb18030": "zh",
    "big5": "zh",
}
"""Encoding → languages that are usually written in it; all others in `_WESTERN`."""
_WESTERN = "cp1252"
# An encoding counts as likely up to this share of improbable characters more than the best one: French in
# Windows-1252 looks 0.05 worse than in a Baltic encoding.
_SLACK = 0.06


def decode(content: bytes, language: str) -> str:
    """Decode a text. What is invalid in its encoding becomes U+FFFD; zero characters are removed.

    Of several likely encodings, that of the language is used, a tag or `und`.
    """
    return content.decode(_encoding(content, language), "replace").replace("\0", "")


def _encoding(content: bytes, language: str) -> str:
    for bom, encoding in _BOMS.items():
        if content.startswith(bom):
            return encoding
    # In UTF-16 one byte of digits, spaces and most letters is zero; files that were not copied to their end
    # have zeros in both places.
    first, second = content[::2].count(0), content[1::2].count(0)
    if 4 * min(first, second) < max(first, second) > len(content) // 10:
        return "utf-16-be" if first > second else "utf-16-le"
    rest, characters = _UTF_8_CHARACTER.subn(b"", content)
    # A few damaged characters do not make it another encoding.
    if len(_OTHER.findall(rest)) <= characters // 4:
        return "utf-8"
    # Its import takes 0.04 s, and is rarely needed.
    import charset_normalizer

    tag = language.partition("-")[0]
    usual = [each for each, tags in _LANGUAGES.items() if tag in tags.split()] or [_WESTERN]
    found = list(charset_normalizer.from_bytes(content))
    for match in found:
        if match.chaos <= found[0].chaos + _SLACK:
            for encoding in usual:
                if encoding in (match.encoding, *match.could_be_from_charset):
                    return encoding
    return found[0].encoding if found else usual[0]

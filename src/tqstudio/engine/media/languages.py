"""Converts the language codes of containers to the tags that players expect (BCP 47), and names them.

langcodes is imported when the first code has to be looked up: 0.03 s of a worker's start.
"""

from __future__ import annotations

UNKNOWN = "und"
_LENGTH = 16


def standard(code: str) -> str:
    """Return the standard tag of a code: `en` for `eng`, `de-AT` for `ger-at`; `und` if it is not valid.

    The result is part of a folder name.
    """
    if code in ("", UNKNOWN):
        return UNKNOWN
    import langcodes
    from langcodes.tag_parser import LanguageTagError

    try:
        tag = langcodes.standardize_tag(code.strip())
    except LanguageTagError:
        return UNKNOWN
    if not langcodes.tag_is_valid(tag) or len(tag) > _LENGTH:
        tag = langcodes.Language.get(tag).language or UNKNOWN
    return UNKNOWN if tag == "mis" or not langcodes.tag_is_valid(tag) else tag


def is_valid(tag: str) -> bool:
    """Whether a tag is well-formed and its parts are registered (RFC 5646)."""
    import langcodes

    return langcodes.tag_is_valid(tag)


def three_letters(tag: str) -> str:
    """Return the code of a tag's language in MP4 (ISO 639-2): `deu` for `de-AT`."""
    import langcodes

    try:
        return langcodes.Language.get(tag).to_alpha3()
    except LookupError:
        return UNKNOWN


def name(tag: str) -> str:
    """Return the English name of a language, such as `German (Austria)`; the tag itself if it has none.

    Loads tables of 30 MB.
    """
    import langcodes

    found = langcodes.Language.get(tag).display_name("en")
    return tag if found.startswith("Unknown language") else found

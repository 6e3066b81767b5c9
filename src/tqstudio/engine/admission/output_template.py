"""Fills in the template that places a ladder below an output, for example `{relative_dir}/{slug}`."""

from __future__ import annotations

import os
import re
import unicodedata
from datetime import date

from tqstudio.errors import ErrorCode, TqError
from tqstudio.source_files import film_name

DEFAULT = "{slug}"
MAX_SLUG = 80
"""Bytes of one folder name."""
_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_KNOWN = ("relative_dir", "slug", "date")


def check(template: str) -> None:
    """Check a template.

    Raises:
        TqError: BAD_REQUEST unless it is a relative path of known placeholders and plain names that ends with
            a name in which `{slug}` occurs.
    """
    last = template.rpartition("/")[2]
    plain = _PLACEHOLDER.sub("x", template)
    unknown = [name for name in _PLACEHOLDER.findall(template) if name not in _KNOWN]
    why = ""
    if unknown:
        why = f"{{{unknown[0]}}} is none of {', '.join(f'{{{name}}}' for name in _KNOWN)}"
    elif "{slug}" not in last or "{relative_dir}" in last:
        why = "its last name must contain {slug}, and not {relative_dir}"
    elif any(not part or part != slug(part) for part in plain.split("/")):
        why = "its names may contain lower-case letters, digits, _ and -"
    if why:
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"not a template of output folders: {template}; {why}",
            "for example {relative_dir}/{slug} or {date}/{slug}",
        )


def fill(template: str, path: bytes, base: bytes | None, day: date) -> str:
    """Return the folder of a file's ladder, relative to the output; empty if its name has no letter or digit.

    Args:
        base: the drop folder, to which `{relative_dir}` is relative.
        day: when the file was queued.
    """
    stem = slug(os.path.splitext(film_name(path, base))[0].decode("utf-8", "replace"))
    if not stem:
        return ""
    inside = os.path.dirname(os.path.relpath(path, base)) if base else b""
    names = [slug(name.decode("utf-8", "replace")) for name in inside.split(b"/")]
    values = {"relative_dir": "/".join(filter(None, names)), "slug": stem, "date": day.isoformat()}
    filled = _PLACEHOLDER.sub(lambda found: values[found[1]], template)
    return "/".join(shortened for part in filled.split("/") if (shortened := _shortened(part)))


def slug(name: str) -> str:
    """Derive a folder name from a name: letters of any script, digits, dashes and _; may be empty."""
    text = unicodedata.normalize("NFKC", name.replace("\ufffd", "")).lower()
    return _shortened(re.sub(r"[^\w]+", "-", text, flags=re.UNICODE))


def _shortened(name: str) -> str:
    while len(name.encode()) > MAX_SLUG:
        name = name[:-1]
    return name.strip("-_")

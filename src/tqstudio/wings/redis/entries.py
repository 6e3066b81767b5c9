"""Reads the entries of the stream of jobs: what is to be added, and with which options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import is_bucket, readable
from tqstudio.protocol.requests import AddOptions

FIELDS = ("path", "url", "profile", "output", "priority", "key")
PRIORITIES: Mapping[str, int] = MappingProxyType({"high": 10, "normal": 0, "low": -10})
_MAX_KEY = 100
_MAX_PATH = 4096


@dataclass(frozen=True, slots=True)
class Entry:
    """A file to add."""

    key: str
    """The same for each delivery of the entry, and for all entries with one key of the caller."""
    path: str | None
    url: str | None
    """One of both is None."""
    output: str | None
    """A folder or the address of a bucket; None for the default."""
    options: AddOptions


def parse(prefix: str, number: bytes, fields: Mapping[bytes, bytes]) -> Entry:
    """Read an entry.

    Raises:
        TqError: BAD_REQUEST.
    """
    texts = _texts(fields)
    path, url = texts.get("path"), texts.get("url")
    if (path is None) == (url is None):
        raise _wrong("an entry has either path or url")
    if url is not None and not is_bucket(url):
        raise _wrong(f"{readable(url)} is no address of a bucket", "write it as s3://BUCKET/NAME")
    of_caller = texts.get("key")
    if of_caller is not None and len(of_caller) > _MAX_KEY:
        raise _wrong(f"the key has more than {_MAX_KEY} characters")
    key = f"id:{number.decode()}" if of_caller is None else f"key:{of_caller}"
    key = f"redis:{prefix}:{key}"
    # As the entry's key names its batch, an upload that an earlier delivery has begun is found by it.
    options: dict[str, Any] = {"batch": blake2b(key.encode(), digest_size=6).hexdigest()}
    if "profile" in texts:
        options["profile"] = texts["profile"]
    if "priority" in texts:
        options["priority"] = _priority(texts["priority"])
    try:
        return Entry(key, path, url, texts.get("output"), AddOptions(**options))
    except ValidationError as error:
        first = error.errors()[0]
        raise _wrong(f"the field {first['loc'][0]} is wrong: {first['msg']}") from None


def _texts(fields: Mapping[bytes, bytes]) -> dict[str, str]:
    """Decode the fields; empty ones count as missing."""
    texts = {}
    for name, value in fields.items():
        shown = readable(name.decode("utf-8", "backslashreplace"))
        if shown not in FIELDS:
            raise _wrong(f"unknown field {shown:.100}", f"the fields are {', '.join(FIELDS)}")
        try:
            text = value.decode()
        except UnicodeDecodeError:
            raise _wrong(f"the field {shown} is not UTF-8") from None
        if len(value) > _MAX_PATH or "\0" in text:
            raise _wrong(f"the field {shown} is too long or has a NUL")
        if text:
            texts[shown] = text
    return texts


def _priority(word: str) -> int:
    if word not in PRIORITIES:
        raise _wrong(f"the priority is {readable(word):.100}, and not {', '.join(PRIORITIES)}")
    return PRIORITIES[word]


def _wrong(message: str, hint: str = "") -> TqError:
    return TqError(ErrorCode.BAD_REQUEST, message, hint or "correct the entry, and add it again")

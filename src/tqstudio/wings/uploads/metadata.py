"""Reads the header Upload-Metadata of an upload: name and hash of the file, and the options of `add`."""

from __future__ import annotations

import base64
import json
import os
import re
from dataclasses import dataclass

from pydantic import ValidationError

from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import readable
from tqstudio.protocol.requests import AddOptions

MAX_METADATA_BYTES = 32_000
"""Largest size of the header with the metadata."""
MAX_NAME_BYTES = 200
"""Largest size of a file name, so that a number fits into the 255 bytes of file systems."""
_MAX_EXTENSION_BYTES = 20
_BLAKE3 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_IN_JSON = ("metadata", "overrides")


@dataclass(frozen=True, slots=True)
class UploadMetadata:
    """What a client says about the file that it uploads."""

    name: str
    """The name it gets here, see `safe_name`."""
    blake3: str | None
    """BLAKE3 hash of the whole file, 64 hex digits; None if the client states none."""
    options: AddOptions


def parse(header: str) -> UploadMetadata:
    """Parse the header: pairs of a key and a value in base64. Unknown keys are ignored, as clients add some.

    Raises:
        TqError: BAD_REQUEST.
    """
    if len(header) > MAX_METADATA_BYTES:
        raise _unusable(f"has more than {MAX_METADATA_BYTES} bytes")
    values: dict[str, str] = {}
    for pair in filter(None, map(str.strip, header.split(","))):
        key, _, value = pair.partition(" ")
        try:
            values[key] = base64.b64decode(value.strip(), validate=True).decode()
        except ValueError:
            raise _unusable(f"has a value of {readable(key)} that is not base64 of UTF-8") from None
    given = values.get("filename") or values.get("name")
    if not given:
        raise _unusable("has no filename")
    blake3 = values.get("blake3", "").lower() or None
    if blake3 and not _BLAKE3.fullmatch(blake3):
        raise _unusable("has a blake3 that is not 64 hex digits")
    return UploadMetadata(safe_name(given), blake3, _options(values))


def header_of(name: str, options: AddOptions) -> str:
    """Format the header for a file and the options that were given."""
    given = options.model_dump(
        exclude_unset=True, exclude_none=True, mode="json", include=set(AddOptions.model_fields)
    )
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in given.items()}
    pairs = {"filename": name, **texts}.items()
    return ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in pairs)


def _options(values: dict[str, str]) -> AddOptions:
    try:
        return AddOptions.model_validate(
            {
                key: json.loads(values[key]) if key in _IN_JSON else values[key]
                for key in AddOptions.model_fields
                if values.get(key)
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise _unusable(f"is wrong at {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (ValueError, RecursionError):
        raise _unusable(f"has no JSON object at {' or '.join(_IN_JSON)}") from None


def safe_name(given: str) -> str:
    """Make a file name of a name from the network, which may be hostile.

    Only its last component counts, for either kind of slash. Left out are characters that `readable` would
    escape, dots and spaces at its start, and what is too long.
    """
    last = re.split(r"[/\\]", given)[-1]
    name = "".join(c for c in last if readable(c) == c).lstrip(". ").rstrip(". ")
    stem, extension = os.path.splitext(name)
    kept = _shortened(extension, _MAX_EXTENSION_BYTES)
    return _shortened(stem, MAX_NAME_BYTES - len(kept.encode())) + kept or "upload"


def _shortened(text: str, limit: int) -> str:
    return text.encode()[:limit].decode("utf-8", "ignore")


def _unusable(why: str) -> TqError:
    return TqError(ErrorCode.BAD_REQUEST, f"the header Upload-Metadata {why}")

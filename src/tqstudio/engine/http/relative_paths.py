"""Makes the paths in answers relative, because callers from the network need not know where files lie."""

from __future__ import annotations

import os
from typing import Any

from pydantic_core import from_json, to_json

from tqstudio.engine.host.log_redaction import Roots
from tqstudio.paths import decode, encode


def of_json(answer: bytes, roots: Roots) -> bytes:
    """Rewrite all texts of a JSON answer, and the base64 forms of its paths.

    Paths below a root become relative to it, a root itself its name. Of a source that lies elsewhere only the
    file name stays.
    """
    return to_json(_Rewriting(roots).value(from_json(answer), ""))


class _Rewriting:
    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    def value(self, value: Any, folder: str) -> Any:
        """Rewrite a value.

        Args:
            folder: of the source that the value describes, if that lies below no root; else empty.
        """
        match value:
            case str():
                return self._text(value, folder)
            case list():
                return [self.value(each, folder) for each in value]
            case dict():
                path = value.get("path")
                if isinstance(path, str) and self._roots.relative(path).startswith("/"):
                    folder = os.path.dirname(path)
                return {
                    key: self._path_b64(each, folder)
                    if key.endswith("_b64") and isinstance(each, str)
                    else self.value(each, folder)
                    for key, each in value.items()
                }
            case _:
                return value

    def _text(self, text: str, folder: str) -> str:
        if "/" not in text:
            return text
        found = self._roots.relative(text)
        if found == ".":
            return os.path.basename(text.rstrip("/"))
        return found.replace(f"{folder.rstrip('/')}/", "") if folder else found

    def _path_b64(self, path: str, folder: str) -> str:
        raw = os.fsdecode(decode(path))
        found = self._text(raw, folder)
        return encode(found) if found else path

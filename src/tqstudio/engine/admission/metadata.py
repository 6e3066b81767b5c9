"""What people and workers note of themselves as JSON, and how much of it is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol.requests import MAX_METADATA_BYTES


def require_small(name: str, value: Mapping[str, Any]) -> None:
    """
    Args:
        name: what the value is called in the request.

    Raises:
        TqError: BAD_REQUEST.
    """
    if (size := len(json.dumps(dict(value)))) > MAX_METADATA_BYTES:
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"{name} has {size} bytes as JSON, more than {MAX_METADATA_BYTES}",
            "send less, such as the name or address of what is kept elsewhere",
        )

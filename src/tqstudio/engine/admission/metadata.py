"""Limits the size of the JSON metadata of jobs and workers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol.requests import MAX_METADATA_BYTES


def require_small(name: str, value: Mapping[str, Any]) -> None:
    """Check the size of metadata.

    Args:
        name: the name of the field in the request.

    Raises:
        TqError: BAD_REQUEST if it is too large.
    """
    if (size := len(json.dumps(dict(value)))) > MAX_METADATA_BYTES:
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"{name} has {size} bytes as JSON, more than {MAX_METADATA_BYTES}",
            "send less, such as an id or address of data that is stored elsewhere",
        )

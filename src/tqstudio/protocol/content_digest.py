"""The header Content-Digest (RFC 9530), by which both ends check the bytes of one message."""

from __future__ import annotations

import base64
import hashlib

HEADER = "Content-Digest"


def of(body: bytes) -> str:
    """The value of the header."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"

"""Makes the README the page of the package, whose links and pictures work outside the repository.

A build hook of hatchling; it has no other imports, because it runs where nothing else is installed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?![a-z]+:|#)([^)]+\))")


class PackagePage(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme of the project."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        page = absolute(text, metadata["urls"]["Source"], f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": page}


def absolute(text: str, source: str, tag: str) -> str:
    """Let relative links lead to the files of a release, and pictures to what a browser can show."""
    return _LINK.sub(
        lambda found: f"{found[1]}{found[2]}{source}/{'raw' if found[1] else 'blob'}/{tag}/{found[3]}", text
    )

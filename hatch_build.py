"""Puts hls.js into wheels and clones: from npm, by the hashes of `player/package-lock.json`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_STATIC = "tqstudio/wings/page/static"
_FILES = {"dist/hls.min.js": "hls.js", "LICENSE": "hls.js.LICENSE"}
_NPM = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1")
_LIMIT_S = 120


class Player(BuildHookInterface[Any]):
    """A wheel needs it, unless TQSTUDIO_WITHOUT_PLAYER is set; a clone has it if npm is there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if os.environ.get("TQSTUDIO_WITHOUT_PLAYER"):
            return
        root = Path(self.root)
        try:
            subprocess.run(_NPM, cwd=root / "player", check=True, capture_output=True, timeout=_LIMIT_S)
        except (OSError, subprocess.SubprocessError) as error:
            if version == "editable":
                return
            said = getattr(error, "stderr", None) or b""
            raise SystemExit(
                f"hls.js is missing: {error}\n{said.decode(errors='replace')}"
                "install npm (Node.js 20 or newer), or set TQSTUDIO_WITHOUT_PLAYER=1 for a wheel without it"
            ) from None
        for found, name in _FILES.items():
            path = root / "player/node_modules/hls.js" / found
            if version == "editable":
                shutil.copyfile(path, root / "src" / _STATIC / name)
            else:
                build_data["force_include"][str(path)] = f"{_STATIC}/{name}"

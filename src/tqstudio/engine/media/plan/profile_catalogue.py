"""Lists all profiles, shipped and user-defined, with the error of those that cannot be loaded."""

from __future__ import annotations

import os
from pathlib import Path

from tqstudio.engine.media.plan import profiles
from tqstudio.errors import TqError
from tqstudio.paths import display
from tqstudio.protocol.answers import ProfileView


def catalogue(user_dir: Path, default: str | None) -> list[ProfileView]:
    """List all profiles; `error` is set for those that cannot be loaded.

    Args:
        default: name of the default profile.

    Raises:
        TqError: PERMISSION if the user's profile folder may not be listed.
    """
    return [
        _view(name, file, user_dir, default) for name, file in sorted(profiles.available(user_dir).items())
    ]


def _view(name: str, file: Path, user_dir: Path, default: str | None) -> ProfileView:
    view: ProfileView = {
        "name": _shown(name),
        "description": "",
        "origin": "shipped" if file.parent == profiles.SHIPPED_DIR else _shown(str(file)),
        "rungs": [],
        "codec": "",
        "default": name == default,
        "error": None,
    }
    try:
        profile = profiles.load(name, user_dir)
    except TqError as error:
        view["error"] = {"code": error.code, "message": _shown(error.message), "hint": _shown(error.hint)}
        return view
    view["description"] = _shown(profile.description)
    view["rungs"] = [f"{rung.short_side}p" for rung in profile.rungs]
    view["codec"] = f"{profile.codec} {profile.preset} crf {profile.crf}, {profile.audio_codec}"
    return view


def _shown(text: str) -> str:
    """Escape text from a user's file, or a file name, that may not be valid UTF-8."""
    return display(os.fsencode(text))

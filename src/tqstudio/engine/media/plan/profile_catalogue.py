"""What profiles there are: shipped ones, the user's, and those that cannot be used and why."""

from __future__ import annotations

import os
from pathlib import Path

from tqstudio.engine.media.plan import profiles
from tqstudio.errors import TqError
from tqstudio.paths import display
from tqstudio.protocol.answers import ProfileView


def catalogue(user_dir: Path, default: str | None) -> list[ProfileView]:
    """Every profile, broken ones with their `error`.

    Args:
        default: name of the one that is taken where none is named.

    Raises:
        TqError: PERMISSION when the user's may not be listed.
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
    """Text from a person's file, or its name, which may be no UTF-8: no message carries that."""
    return display(os.fsencode(text))

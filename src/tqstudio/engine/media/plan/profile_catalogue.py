"""Lists all profiles, with the error of those that cannot be loaded, and writes them as files."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.profile_keys import KEYS, RungSpec
from tqstudio.engine.media.plan.profiles import Profile, names
from tqstudio.errors import TqError
from tqstudio.paths import display
from tqstudio.protocol.answers import ProfileView


def catalogue(user_dir: Path, default: str | None) -> list[ProfileView]:
    """List all profiles; `error` is set for those that cannot be loaded, `default` names the default one.

    Raises PERMISSION if the user's profile folder may not be listed.
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
    view["rungs"] = list(names(profile).values())
    encodings = dict.fromkeys(profile.encoding_of(rung) for rung in profile.rungs)
    view["codec"] = ", ".join(f"{codec} {preset} crf {crf}" for codec, preset, crf in encodings)
    return view


def _shown(text: str) -> str:
    """Escape text from a user's file, or a file name, that may not be valid UTF-8."""
    return display(os.fsencode(text))


def as_toml(profile: Profile) -> str:
    """Write all settings of a profile; a file of this text is the same profile."""
    return _document(profile, {})


def template(profile: Profile) -> str:
    """Write a file that extends a profile: its settings as comments, with what each key allows."""
    head = (
        f"# Remove the # before a line to change it; the others keep the value of {profile.name}.\n"
        f"extends = {_value(profile.name)}\n\n"
    )
    return head + _document(profile, {key: f"  # {allowed}" for key, (_, allowed, _) in KEYS.items()})


def _document(profile: Profile, remarks: dict[str, str]) -> str:
    """The keys by section; as comments if there are remarks about them."""
    lines: list[str] = []
    off = "# " if remarks else ""
    for section, keys in groupby(KEYS, lambda key: key.rpartition(".")[0]):
        lines += ["", f"[{section}]"] if section else []
        for key in keys:
            value = _value(getattr(profile, KEYS[key][0])).replace("\n", f"\n{off}")
            lines.append(f"{off}{key.rpartition('.')[2]} = {value}{remarks.get(key, '')}")
    return "\n".join([*lines, ""])


def _value(value: Any) -> str:
    """Write a value as TOML, of which JSON's strings and numbers are a part."""
    if not isinstance(value, tuple):
        # DEL is the one character that JSON does not escape and TOML does not allow.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if not all(isinstance(each, RungSpec) for each in value):
        return json.dumps(value)
    return "\n".join(["[", *(f"    {_rung(rung)}," for rung in value), "]"])


def _rung(rung: RungSpec) -> str:
    plain = asdict(RungSpec(rung.short_side, rung.maxrate_kbps))
    given = {
        key: value
        for key, value in asdict(rung).items()
        if value != plain[key] or key in ("short_side", "maxrate_kbps")
    }
    return "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in given.items()) + " }"

"""`profile list`: what ladders may look like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tqstudio import client as calls
from tqstudio.cli import printing
from tqstudio.cli.options import JsonFlag
from tqstudio.cli.supervisor import door
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import current_home

if TYPE_CHECKING:
    from tqstudio.home import Home
    from tqstudio.schemas import ProfileView


def list_profiles(as_json: JsonFlag = False) -> int:
    """List the profiles, shipped ones and those in the home."""
    at = door()
    broken: list[TqError] = []
    try:
        profiles = at.send(calls.profiles())["profiles"]
    except TqError as error:
        if error.code is not ErrorCode.NO_SUPERVISOR:
            raise
        # Profiles are files; nobody has to run for them to be read.
        profiles = _read(current_home(), broken)
    if as_json:
        printing.out_json({"profiles": profiles})
    else:
        printing.table(
            ("PROFILE", "QUALITIES", "FROM", "DESCRIPTION"),
            [(p["name"], " ".join(p["rungs"]), p["origin"], p["description"]) for p in profiles],
            elastic=3,
        )
    for one in broken:
        printing.say(printing.error_lines(one.code, one.message, one.hint))
    return printing.exit_code(broken[0].code) if broken else 0


def _read(home: Home, broken: list[TqError]) -> list[ProfileView]:
    from tqstudio.engine.media.profiles import SHIPPED_DIR, available, load

    found: list[ProfileView] = []
    for name, path in sorted(available(home.profiles).items()):
        try:
            profile = load(name, home.profiles)
        except TqError as error:
            broken.append(error)
            continue
        found.append(
            {
                "name": name,
                "description": profile.description,
                "origin": "shipped" if path.parent == SHIPPED_DIR else str(path),
                "rungs": [f"{rung.short_side}p" for rung in profile.rungs],
            }
        )
    return found

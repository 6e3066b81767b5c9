"""`profile list`: lists the encoding profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tqstudio.cli import printing
from tqstudio.cli.options import JsonFlag
from tqstudio.cli.supervisor_session import client
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import current_home
from tqstudio.protocol import calls

if TYPE_CHECKING:
    from tqstudio.home import Home
    from tqstudio.protocol.answers import ProfileView


def list_profiles(as_json: JsonFlag = False) -> int:
    """List the profiles, shipped ones and those in the home, with their errors."""
    try:
        profiles = client().send(calls.profiles())["profiles"]
    except TqError as error:
        if error.code is not ErrorCode.NO_SUPERVISOR:
            raise
        # Profiles are files, which can be read without a supervisor.
        profiles = _read(current_home())
    if as_json:
        printing.out_json({"profiles": profiles})
    else:
        printing.table(
            ("PROFILE", "QUALITIES", "ENCODED", "FROM", "DESCRIPTION"),
            [_line(profile) for profile in profiles],
            elastic=(4,),
            statuses=["failed" if profile["error"] else "" for profile in profiles],
        )
    broken = [profile["error"] for profile in profiles if profile["error"]]
    for why in broken:
        printing.err(printing.error_lines(why["code"], why["message"], why["hint"]))
    return printing.exit_code(broken[0]["code"]) if broken else 0


def _line(profile: ProfileView) -> tuple[str, ...]:
    return (
        f"{profile['name']} (default)" if profile["default"] else profile["name"],
        "broken, see below" if profile["error"] else " ".join(profile["rungs"]),
        profile["codec"],
        profile["origin"],
        profile["description"],
    )


def _read(home: Home) -> list[ProfileView]:
    from tqstudio.config import load_settings
    from tqstudio.engine.media.plan.profile_catalogue import catalogue

    try:
        default = load_settings(home).profile
    except TqError:
        default = None
    return catalogue(home.profiles, default)

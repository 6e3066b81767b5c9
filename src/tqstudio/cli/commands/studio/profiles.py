"""Encoding profiles: `profile list|show|check|new`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tqstudio import path_checks
from tqstudio.cli.session.supervisor_session import client
from tqstudio.cli.terminal import options, printing
from tqstudio.cli.terminal.options import JsonFlag
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import current_home
from tqstudio.paths import absolute, display, readable
from tqstudio.protocol import calls, remote

if TYPE_CHECKING:
    from tqstudio.engine.media.plan.profiles import Profile
    from tqstudio.home import Home
    from tqstudio.protocol.answers import ProfileView

HEADS = ("PROFILE", "QUALITIES", "ENCODED", "FROM", "DESCRIPTION")
Columns = Annotated[str | None, options.columns(HEADS)]
Named = Annotated[str, typer.Argument(metavar="NAME|FILE", help="A profile's name, or a file.")]
_SUFFIX = ".toml"


def list_profiles(
    columns: Annotated[str | None, options.columns(HEADS)] = None, as_json: JsonFlag = False
) -> int:
    """List the profiles: shipped ones and those in the home, with their errors."""
    try:
        profiles = client().send(calls.profiles())["profiles"]
    except TqError as error:
        if error.code is not ErrorCode.NO_SUPERVISOR or remote.is_chosen():
            raise
        # Profiles are files, which can be read without a supervisor.
        profiles = _read(current_home())
    if as_json:
        printing.out_json({"profiles": profiles})
    else:
        printing.table(
            HEADS,
            [_line(profile) for profile in profiles],
            elastic=(1, 2, 4),
            statuses=["failed" if profile["error"] else "" for profile in profiles],
            columns=columns,
        )
    broken = [profile["error"] for profile in profiles if profile["error"]]
    for why in broken:
        printing.err(printing.error_lines(why["code"], why["message"], why["hint"]))
    return printing.exit_code(broken[0]["code"]) if broken else 0


def show(name: Named, as_json: JsonFlag = False) -> int:
    """Print all settings of a profile: inherited ones too, as a file that can be edited."""
    from tqstudio.engine.media.plan.profile_catalogue import as_toml

    profile = _load(name)
    return printing.answer(profile.to_json(), as_toml(profile).rstrip(), as_json)


def check(name: Named, as_json: JsonFlag = False) -> int:
    """Check a profile, or a file of one; names the wrong key and what it allows."""
    from tqstudio.engine.media.plan.profiles import names

    profile = _load(name)
    rungs = list(names(profile).values())
    view = {"name": display(os.fsencode(profile.name)), "rungs": rungs}
    return printing.answer(view, f"{readable(profile.name)} is valid: {', '.join(rungs)}", as_json)


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new profile.")],
    extends: Annotated[
        str, typer.Option("--from", metavar="PROFILE", help="The profile whose settings it starts with.")
    ] = "web",
    as_json: JsonFlag = False,
) -> int:
    """Create a profile in the home: every key, and what it allows as comments."""
    from tqstudio.engine.media.plan.profile_catalogue import template
    from tqstudio.engine.media.plan.profiles import SHIPPED_DIR

    home = current_home()
    if name in ("", ".", "..") or name != os.path.basename(name) or name.startswith("."):
        reason = f"{readable(name)} is no name of a profile"
        raise TqError(ErrorCode.BAD_REQUEST, reason, "use letters and digits")
    text = template(_load(extends))
    file = home.profiles / f"{name}{_SUFFIX}"
    shown = display(os.fsencode(file))
    try:
        home.profiles.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise TqError(ErrorCode.REFUSED, f"{shown} exists", "edit it, or choose another name") from None
    except OSError as error:
        raise path_checks.refused(file, error) from None
    replaces = ", in place of the shipped one" if (SHIPPED_DIR / file.name).exists() else ""
    text = f"{shown} was created{replaces}; edit it, then: tqstudio profile check {name}"
    return printing.answer({"path": shown}, text, as_json)


def _load(name: str) -> Profile:
    """Read a profile by its name, or by its file, beside which those that it extends are searched first."""
    from tqstudio.engine.media.plan import profiles

    if name.endswith(_SUFFIX) or os.sep in name:
        file = Path(absolute(name))
        if file.suffix != _SUFFIX or not path_checks.is_there(file):
            reason = f"there is no profile {display(os.fsencode(file))}"
            raise TqError(ErrorCode.BAD_CONFIG, reason, f"name a {_SUFFIX} file")
        return profiles.load(file.stem, file.parent)
    return profiles.load(name, current_home().profiles)


def _line(profile: ProfileView) -> tuple[str, ...]:
    return (
        f"{profile['name']} (default)" if profile["default"] else profile["name"],
        # Sizes only: some have several codecs and bit rates.
        "broken, see below"
        if profile["error"]
        else " ".join(dict.fromkeys(name.partition("-")[0] for name in profile["rungs"])),
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

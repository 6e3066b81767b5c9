"""Reads `keys.toml` of the home: keys by the name of their action, and own commands on keys.

A mistake is a sentence in `Keys.problems`; the rest of the file counts.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from textual.binding import Binding
from textual.keys import Keys as TextualKeys

from tqstudio import path_checks, toml_files
from tqstudio.paths import readable
from tqstudio.ui.actions.registry import BY_NAME, JOBS, View, actions_of
from tqstudio.ui.data.keys import KEY_SIGNS, PLACEHOLDER, Keys, OwnCommand, key_sign

PLACEHOLDERS = ("master", "folder", "source", "name", "id")
NO_KEY = "none"
"""Stands in Textual's keymap for no key, as it takes an empty one for no entry; no terminal sends it."""
_MODIFIERS = {"ctrl", "alt", "shift", "super", "hyper", "meta"}
_SIGNS = {sign: key for key, sign in KEY_SIGNS.items()}
_GIVES_WAY = "open_result"
"""What an own command is mostly for, so that taking its key is no clash."""


def read_keys(file: Path) -> Keys:
    """Read the keys of all views; those of the registry without a file."""
    problems: list[str] = []
    data = _read(file, problems)
    commands = _commands(data.pop("commands", {}), problems)
    chosen = _chosen(data, problems)
    by_view = {
        view: _of_view(view, chosen, commands if view in JOBS else {}, problems) for view in get_args(View)
    }
    return Keys(by_view, commands, tuple(f"{file.name}: {each}" for each in dict.fromkeys(problems)))


def keymap(keys: Keys) -> dict[str, str]:
    """The keymap for Textual: the keys that differ from those of the registry, by binding id."""
    found: dict[str, str] = {}
    for view, names in keys.by_view.items():
        for action in actions_of(view):  # type: ignore[arg-type]
            if (now := names[action.name]) != action.keys:
                ids = [f"{view}.{action.name}.{key}" for key in action.keys]
                found |= dict.fromkeys(ids, NO_KEY) | {ids[0]: ",".join(now) or NO_KEY}
    return found


def _read(file: Path, problems: list[str]) -> dict[str, Any]:
    try:
        if path_checks.others_may_write(file.stat()):
            problems.append("other users may change it, so it is not used; chmod go-w removes that")
            return {}
        return toml_files.read(file)
    except FileNotFoundError:
        return {}
    except (OSError, toml_files.UnusableToml) as error:
        problems.append(f"it cannot be read: {error}")
        return {}


def _chosen(data: Mapping[str, Any], problems: list[str]) -> dict[str, tuple[str, ...]]:
    """The keys by action, as far as they can be used."""
    found: dict[str, tuple[str, ...]] = {}
    for name, value in data.items():
        given = [value] if isinstance(value, str) else value
        if name not in BY_NAME:
            problems.append(f"there is no action {readable(name)}; tqstudio keys lists them")
        elif not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            problems.append(f'{name} must be a key such as "space", or a list of keys')
        else:
            keys = tuple(key for each in given if (key := _key(each, problems)))
            if keys or not given:
                found[name] = keys
    return found


def _commands(table: Any, problems: list[str]) -> dict[str, OwnCommand]:
    found: dict[str, OwnCommand] = {}
    if not isinstance(table, dict):
        problems.append('commands must be a table: [commands], below it o = "mpv {master}"')
        return found
    for text, value in table.items():
        given = value if isinstance(value, dict) else {"run": value}
        types = {name: type(each) for name, each in given.items()}
        if {"run": str, "terminal": bool} != {"terminal": bool} | types:
            problems.append(f'{readable(text)} must be a text, or {{ run = "a text", terminal = true }}')
        elif wrong := _wrong(given["run"]):
            problems.append(f"the command on {readable(text)} {wrong}")
        elif key := _key(text, problems):
            found[key] = OwnCommand(**given)
    return found


def _wrong(run: str) -> str:
    """What is wrong with a command, worded to follow its name."""
    for found in PLACEHOLDER.finditer(run):
        if found[1] not in PLACEHOLDERS:
            known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            return f"has the unknown placeholder {readable(found[0])}; available: {known}"
        before = run[: found.start()]
        if before.count("'") % 2 or before.count('"') % 2:
            return f"has {found[0]} in quotes: leave them out, it is one word already"
    return "" if run.strip() else "is empty"


def _of_view(
    view: View,
    chosen: Mapping[str, tuple[str, ...]],
    commands: Mapping[str, OwnCommand],
    problems: list[str],
) -> dict[str, tuple[str, ...]]:
    """The keys of each action; a key with several meanings keeps that of the file, a command first."""
    meaning = dict.fromkeys(commands, "a command of your own")
    found: dict[str, tuple[str, ...]] = {}
    for action in sorted(actions_of(view), key=lambda action: action.name not in chosen):
        kept = []
        for key in chosen.get(action.name, action.keys):
            if key not in meaning:
                meaning[key] = action.name
                kept.append(key)
            elif action.name in chosen or key not in commands or action.name != _GIVES_WAY:
                what = f"{key_sign(key)} is {meaning[key]} and {action.name}"
                problems.append(f"{what}; give {action.name} another key, or [] for none")
        found[action.name] = tuple(kept)
    return found


def _key(text: str, problems: list[str]) -> str:
    """The name that Textual has for a key, of one written so or as it is shown; empty for none."""
    key = _SIGNS.get(text, text)
    before, _, last = key.rpartition("+") if len(key) > 1 else ("", "", key)
    if len(last) == 1:
        # Textual takes a comma for the end of a key.
        last = "comma" if last == "," else next(iter(Binding.make_bindings([Binding(last, "")]))).key
    else:
        last = last.lower()
    if (len(last) == 1 or last in _NAMES) and set(filter(None, before.split("+"))) <= _MODIFIERS:
        return f"{before}+{last}" if before else last
    problems.append(f"{readable(text)} is no key")
    return ""


_NAMES = {key.value for key in TextualKeys} | {"comma", *KEY_SIGNS}
_NAMES |= {each.key for each in Binding.make_bindings(Binding(c, "") for c in string.punctuation if c != ",")}

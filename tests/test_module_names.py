"""Every module that is named in a string exists, so that whoever moves one learns of all its names."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pkgutil import resolve_name
from typing import Any

import pytest

import module_names
from tqstudio.cli import commands
from tqstudio.cli.command_tree import COMMANDS, CommandTree, function_of
from tqstudio.engine import probing, worker
from tqstudio.engine.monitoring import exposition
from tqstudio.engine.store.db import schema
from tqstudio.ui import screens
from tqstudio.ui.screens import views
from tqstudio.wings.alerts import deliver

ROOT = module_names.ROOT
PROGRAMS = {module.__name__ for module in (probing, worker, deliver, schema)}
"""Those that the finder must at least find."""
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def is_missing(name: str) -> bool:
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return True
    return False


@pytest.mark.parametrize("folder", ["src", "tests", "tools", "benchmarks"])
def test_what_a_string_names_exists(folder: str) -> None:
    found = module_names.in_strings(ROOT / folder)
    wrong = {
        f"{path.relative_to(ROOT)}: {name}" for path in found for name in found[path] if is_missing(name)
    }
    assert wrong == set()


def test_the_finder_finds_names_of_every_kind() -> None:
    found = set().union(*module_names.in_strings(ROOT / "src").values())
    assert found >= PROGRAMS | {module.__name__ for module in (exposition, commands, screens)}
    assert module_names.programs(ROOT / "src") >= PROGRAMS | {"tqstudio"}
    assert is_missing(f"{screens.__name__}.nowhere")
    assert is_missing(f"{schema.__name__}:nothing")


def commands_of(tree: CommandTree) -> Iterator[str]:
    for command in tree.values():
        yield from [command] if isinstance(command, str) else commands_of(command[1])


def test_what_the_tables_of_commands_and_screens_name_exists() -> None:
    for command in commands_of(COMMANDS):
        assert function_of(command)
    for view in views.VIEWS:
        assert views.view_class(view)
    for module in views.LATER:
        assert views.load(module)


# pyproject.toml


def test_what_the_project_file_names_exists() -> None:
    found = module_names.in_text((ROOT / "pyproject.toml").read_text())
    assert found >= {PYPROJECT["project"]["scripts"]["tqstudio"], "tqstudio.ui", "tqstudio.engine"}
    assert {name for name in found if is_missing(name)} == set()


def layers(contract: Mapping[str, Any]) -> Iterator[str]:
    for container in contract["containers"]:
        for layer in contract["layers"]:
            yield from (f"{container}.{name}" for name in layer.replace("|", " ").replace(":", " ").split())


def test_every_layer_of_the_import_contracts_exists() -> None:
    contracts = [each for each in PYPROJECT["tool"]["importlinter"]["contracts"] if each["type"] == "layers"]
    found = {name for contract in contracts for name in layers(contract)}
    assert screens.__name__.rpartition(".")[0] in found
    assert {name for name in found if is_missing(name)} == set()

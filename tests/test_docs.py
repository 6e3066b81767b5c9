"""What the documents say about the code is what the code says about itself."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from tqstudio.cli.command_tree import root_command
from tqstudio.config import Settings

ROOT = Path(__file__).resolve().parents[1]
OF_ROOT = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES = [*OF_ROOT, *sorted((ROOT / "docs").rglob("*.md"))]
FAULT_MATRIX = ROOT / "docs" / "internals" / "fault-matrix.md"


@pytest.mark.parametrize("key", list(Settings.model_fields))
def test_what_the_settings_page_allows_is_what_is_taken(key: str) -> None:
    """The bounds on the page, tried on the check itself: what is within is taken, what is beyond is not."""
    [row] = re.findall(rf"^\| `{key}` \|.*$", (ROOT / "docs" / "settings.md").read_text(), re.MULTILINE)
    allowed = row.split("|")[3].strip()
    within, beyond = _tries(allowed)
    for value in within:
        Settings(**{key: value})
    for value in beyond:
        with pytest.raises(ValidationError):
            Settings(**{key: value})


def _tries(allowed: str) -> tuple[list[Any], list[Any]]:
    if allowed in ("text", "true, false"):
        return (["words"], [7]) if allowed == "text" else ([True, False], ["words"])
    if example := re.fullmatch(r"such as `(.+)`", allowed):
        return ["", example[1]], ["words", 7]
    if re.fullmatch(r"[a-z]+(, [a-z]+)+", allowed):
        return list(allowed.split(", ")), ["words", 7]
    bounds, _, whole = allowed.partition(", ")
    low, _, high = bounds.removeprefix("> ").removeprefix("≥ ").partition(" … ")
    within, beyond = [int(low) + 1], [int(low) - 1, "words"]
    (beyond if bounds.startswith(">") else within).append(int(low))
    if high:
        within.append(int(high))
        beyond.append(int(high) + 1)
    if whole:
        beyond.append(int(low) + 1.5)
    else:
        within.append(int(low) + 0.5)
    return within, beyond


def test_every_page_that_is_linked_exists() -> None:
    missing = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert missing == []


# Commands and their options.


def _commands() -> dict[str, Any]:
    """Every command that is not hidden, by its words."""
    root: Any = root_command()
    found = {"": root}
    for name in root.commands:
        command = root.get_command(None, name)
        for verb in getattr(command, "commands", [""]):
            each = command.get_command(None, verb) if verb else command
            if not each.hidden:
                found[f"{name} {verb}".strip()] = each
    return found


COMMANDS = _commands()


def _command_of(command: str) -> tuple[str, list[str]]:
    """The longest command that the words begin with, and the other words."""
    words = command.split()
    for count in (2, 1, 0):
        if " ".join(words[:count]) in COMMANDS:
            return " ".join(words[:count]), words[count:]
    raise AssertionError("unreachable: no word is the command that opens the UI")


def _mistakes(command: str) -> list[str]:
    """What a line says that no command understands: `folder add PATH [--settle S]`."""
    command = re.sub(r"\s#.*", "", command)
    name, rest = _command_of(command)
    if not name and rest and not rest[0].startswith("-"):
        return [f"tqstudio {command}: no such command"]
    known = {option for param in COMMANDS[name].params for option in (*param.opts, *param.secondary_opts)}
    known |= {"--help", *({"--home", "--version"} if not name else set())}
    given = re.findall(r"(?<![\w-])--?[a-z][a-z-]*", " ".join(rest))
    return [f"tqstudio {name}: no option {each}" for each in given if each not in known]


def _spoken(page: Path) -> list[str]:
    """Everything on a page that is written as a command, without the program's name."""
    text = page.read_text()
    blocks = re.findall(r"```(?:\w*)\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in re.sub(r"\n {8,}", " ", block).splitlines()]
    commands = [part for line in lines for part in re.findall(r"^(?:\$ )?(?:.*&& )?tqstudio\b ?(.*)", line)]
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return [*commands, *re.findall(r"`tqstudio ([^`]+)`", prose)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_on_a_page_exists_with_its_options(page: Path) -> None:
    commands = _spoken(page)
    assert [mistake for each in commands for mistake in _mistakes(each)] == []


def test_a_fault_is_reported_with_the_report_of_doctor() -> None:
    forms = {file.name: yaml.safe_load(file.read_text()) for file in (ROOT / ".github").rglob("*.yml")}
    asked = {field["id"]: field for field in forms["fault.yml"]["body"]}
    assert asked["report"]["validations"] == {"required": True}
    [command] = re.findall(r"`tqstudio ([^`]+)`", asked["report"]["attributes"]["description"])
    assert command == "doctor --report"
    assert _mistakes(command) == []
    private = {link["url"] for link in forms["config.yml"]["contact_links"]}
    assert all(url in (ROOT / "SECURITY.md").read_text() for url in private)


def test_every_command_is_in_the_reference() -> None:
    sections = re.findall(
        r"^### `tqstudio ?([^`]*)`", (ROOT / "docs" / "commands.md").read_text(), re.MULTILINE
    )
    assert {_command_of(each)[0] for each in sections} == set(COMMANDS)


def test_every_command_that_a_message_names_exists() -> None:
    commands = [
        each
        for module in (ROOT / "src").rglob("*.py")
        for each in re.findall(
            r"(?:: |`)tqstudio (?!needs)([a-z]+(?: [a-z]+)?(?: --[a-z-]+)?)", module.read_text()
        )
    ]
    assert len(commands) > 30
    assert [mistake for each in commands for mistake in _mistakes(each)] == []


def test_the_five_most_used_commands_are_the_same_everywhere() -> None:
    use_it = (ROOT / "README.md").read_text().partition("## Use it")[2].partition("```\n")[0]
    most_used = (ROOT / "docs" / "commands.md").read_text().partition("## The five most used")[2]
    fences = (use_it, most_used.partition("```\n")[0])
    five = [re.findall(r"^(?:\$ )?(?:.*&& )?tqstudio\b ?(.*)", each, re.MULTILINE) for each in fences]
    names = [[_command_of(re.sub(r"\s*#.*", "", command))[0] for command in each] for each in five]
    assert len(names[0]) == 5
    assert names[0] == names[1]


# Generated parts.


def test_generated_parts_are_up_to_date_and_the_rest_is_short() -> None:
    """`make docs` writes them: commands, settings, error codes, the fault matrix."""
    run = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "docs.py"), "--check"], capture_output=True, text=True
    )
    assert run.returncode == 0, f"run make docs\n{run.stdout}{run.stderr}"


MANUAL = ROOT / "man" / "tqstudio.1"


def test_every_command_is_in_the_manual() -> None:
    """That the page is the current one is part of the test above."""
    page = MANUAL.read_text().replace("\\-", "-")
    heads = [_command_of(each)[0] for each in re.findall(r'^\.SS "tqstudio ([^"]+)"$', page, re.MULTILINE)]
    assert heads == [name for name in COMMANDS if name]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_manual_is_formatted_without_a_warning() -> None:
    run = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", str(MANUAL)], capture_output=True, text=True, timeout=60
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_every_fault_has_a_test() -> None:
    assert len(re.findall(r"^\| .*::test_", FAULT_MATRIX.read_text(), re.MULTILINE)) > 100


# The tree.


def test_every_module_that_a_page_names_exists() -> None:
    modules = [path.as_posix() for path in (ROOT / "src").rglob("*.py")]
    unknown = [
        f"{page.name}: {name}"
        for page in PAGES
        for name in re.findall(r"`([\w/]+\.py)`", page.read_text())
        if not any(module.endswith(f"/{name}") for module in modules) and not (ROOT / name).exists()
    ]
    assert unknown == []

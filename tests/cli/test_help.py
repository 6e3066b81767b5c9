"""Help pages of every command, at two widths."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness import Answer, Program, ProgramInside
from tqstudio.cli.command_tree import COMMANDS, root_command
from tqstudio.cli.terminal import help_pages

PAGES = [(), *((name,) for name in COMMANDS)] + [
    (name, verb) for name, group in COMMANDS.items() if isinstance(group, tuple) for verb in group[1]
]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, tuple[str, ...]], Answer]:
    program = ProgramInside(tmp_path_factory.mktemp("help") / "home")
    return {
        (columns, page): program(*page, "-h", COLUMNS=str(columns)) for columns in (60, 80) for page in PAGES
    }


def _command(page: tuple[str, ...]) -> Any:
    command: Any = root_command()
    for name in page:
        command = command.get_command(None, name)
    return command


def _without_spaces(text: str | None) -> str:
    return re.sub(r"\s", "", text or "")


@pytest.mark.parametrize("columns", [60, 80])
def test_every_page_fits_and_says_what_the_command_does(
    pages: dict[tuple[int, tuple[str, ...]], Answer], columns: int
) -> None:
    for page in PAGES:
        answer = pages[columns, page]
        assert answer.code == 0, answer.err
        lines = answer.out.splitlines()
        assert [line for line in lines if len(line) > columns] == [], page
        assert lines[0].startswith("Usage: tqstudio")
        command = _command(page)
        texts = [command.help, *(param.help for param in command.params if not param.hidden)]
        assert [text for text in texts if _without_spaces(text) not in _without_spaces(answer.out)] == []
        assert "x>=" not in answer.out
        assert "<=x" not in answer.out
        assert "  -h, --help" in answer.out


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("group", [(), *((n,) for n, each in COMMANDS.items() if isinstance(each, tuple))])
def test_each_command_has_a_summary_in_one_line(
    pages: dict[tuple[int, tuple[str, ...]], Answer], columns: int, group: tuple[str, ...]
) -> None:
    lines = pages[columns, group].out.splitlines()
    for name in COMMANDS if not group else COMMANDS[group[0]][1]:
        at, *more = [i for i, line in enumerate(lines) if re.match(rf"  {name}  +\w", line)]
        assert more == []
        assert len(lines[at].split(maxsplit=1)[1]) > 8
        assert not lines[at + 1].startswith("    "), "it continues"


def test_topics_name_every_command(pages: dict[tuple[int, tuple[str, ...]], Answer]) -> None:
    text = pages[80, ()].out
    heads = re.findall(r"^(\w+):$", text, re.MULTILINE)
    assert heads == ["Videos", "Queue", "Studio", "Supervisor", "Upkeep", "Options", "Examples"]
    assert "help COMMAND" in text


def test_many_options_are_listed_by_subject(
    pages: dict[tuple[int, tuple[str, ...]], Answer],
) -> None:
    heads = re.findall(r"^(\w+):$", pages[80, ("folder", "add")].out, re.MULTILINE)
    assert heads == ["Arguments", "Files", "Result", "Queue", "Failures", "Options", "Examples"]
    assert re.findall(r"^(\w+):$", pages[80, ("down",)].out, re.MULTILINE) == ["Options"]


def test_help_is_a_command_too(tqstudio: Program) -> None:
    assert tqstudio("help").out == tqstudio("--help").out
    assert tqstudio("help", "job").out == tqstudio("job", "--help").out
    listing = tqstudio("job", "list", "-h")
    assert tqstudio("help", "job", "list").out == tqstudio("job", "help", "list").out == listing.out
    wrong = tqstudio("help", "jib")
    assert wrong.code == 2
    assert "has no command jib" in wrong.err
    assert "did you mean job?" in wrong.err


def test_a_wider_terminal_gets_longer_lines(tqstudio: Program) -> None:
    lines = tqstudio("add", "-h", COLUMNS="100").out.splitlines()
    assert 80 < max(map(len, lines)) <= 100
    piped = Program(tqstudio.home.root)
    piped.environment.pop("COLUMNS", None)
    assert 70 < max(len(line) for line in piped("add", "-h").out.splitlines()) <= 80


def test_examples_are_commands_that_exist() -> None:
    root = root_command()
    assert help_pages.EXAMPLES
    for page, lines in help_pages.EXAMPLES.items():
        for line in lines:
            words = line.split()
            command = root.get_command(None, words.pop(0)) if words[0] != "help" else root
            while words and hasattr(command, "commands") and words[0] in command.commands:
                command = command.get_command(None, words.pop(0))
            known = {name for param in getattr(command, "params", ()) for name in param.opts}
            given = {word for word in words if re.match(r"--?[a-z]", word)}
            assert given <= known, line
            assert not page or line.startswith(page)

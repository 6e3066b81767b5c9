"""Completion as bash, zsh and fish do it, with what `--install-completion` writes."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import QUICK, Program
from waiting import until

PROGRAM = Path(sys.executable).with_name("tqstudio")
# What bash does when the tab key is pressed; without a terminal nobody can press it.
_TAB = """
source "$HOME/.bash_completions/tqstudio.sh"
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
$(complete -p tqstudio | sed 's/.*-F \\([^ ]*\\) .*/\\1/') {program}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def shell_home(tmp_path: Path) -> Path:
    home = tmp_path / "user"
    home.mkdir()
    # The shell that it is installed for is looked for among the parents of the command.
    program = Program(tmp_path / "studio", before=("bash", "-c", '"$@"; exit $?', "bash"), HOME=str(home))
    installed = program("--install-completion")
    assert installed.code == 0, installed.err
    assert "tqstudio.sh" in (home / ".bashrc").read_text()
    return home


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("tqstudio serv", {"service"}),
        ("tqstudio service in", {"install"}),
        ("tqstudio job re", {"resume", "retry", "retranscode", "restart"}),
        ("tqstudio up --log", {"--log-level"}),
    ],
)
def test_bash_completes(shell_home: Path, words: str, offered: set[str]) -> None:
    script = _TAB.format(words=words, program=PROGRAM)
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={"HOME": str(shell_home), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert set(done.stdout.split()) == offered, done.stderr


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A supervisor with two held jobs, of a name that shells quote, and a drop folder."""
    root = tmp_path_factory.mktemp("completion")
    clips = root / "clips"
    clips.mkdir()
    for name in ("it's (a) $clip.mp4", "b.mp4"):
        (clips / name).write_bytes(b"no video, which nothing reads before it runs")
    program = Program(root / "home", **QUICK)
    assert program("up", "--detach").code == 0
    assert program("add", "--hold", "--recursive", str(clips)).code == 0
    (root / "in").mkdir()
    assert program("folder", "add", str(root / "in")).code == 0
    until(lambda: len(program("job", "list", "--json").json()["jobs"]) == 2)
    yield program
    program("down")


VALUES = [
    ("job show", {"1", "2"}),
    ("job resume", {"1", "2"}),
    ("job retry", set()),
    ("job priority", {"1", "2"}),
    ("video delete", {"1", "2"}),
    ("folder edit", {"1"}),
    ("job list --folder", {"1"}),
    ("worker disable", {"cpu-0"}),
    ("add --profile", {"apple", "archive", "fast", "web"}),
    ("profile show", {"apple", "archive", "fast", "web"}),
    ("token create x --role", {"view", "operate", "admin", "worker", "join"}),
    ("folder edit 1 --after-done", {"keep", "move", "delete"}),
    ("help queue", {"status", "process", "retry", "clear", "pause", "resume"}),
]


def _offered(program: Program, words: str, home: str | None = None) -> dict[str, str]:
    """What is offered after these words and a space, with descriptions, as fish gets it."""
    answer = program(
        _TQSTUDIO_COMPLETE="complete_fish",
        _TYPER_COMPLETE_FISH_ACTION="get-args",
        _TYPER_COMPLETE_ARGS=f"tqstudio {f'--home {home} ' if home else ''}{words}",
    )
    assert answer.err == ""
    rows = [line.partition("\t") for line in answer.out.splitlines() if line]
    return {value: about for value, _, about in rows}


@pytest.mark.parametrize(("words", "values"), VALUES)
def test_values_of_the_studio_are_offered(studio: Program, words: str, values: set[str]) -> None:
    assert _offered(studio, f"{words} ").keys() == values


def test_descriptions_say_what_a_number_stands_for(studio: Program) -> None:
    assert sorted(_offered(studio, "job show ").values()) == ["held b.mp4", "held it's (a) $clip.mp4"]
    assert _offered(studio, "folder remove ")["1"].endswith("/in")
    assert _offered(studio, "job list --warning AUDIO_C")["AUDIO_CUT"]
    assert _offered(studio, "job re")["retry"] == "Retry failed or cancelled jobs"


def test_lists_are_completed_part_by_part(studio: Program) -> None:
    assert _offered(studio, "job list --status done,f").keys() == {"done,failed"}
    assert _offered(studio, "job list --columns id,pr").keys() == {"id,priority", "id,profile"}
    assert "id" not in {each.rpartition(",")[2] for each in _offered(studio, "job list --columns id,")}


def test_the_home_of_the_command_line_is_asked(studio: Program, tmp_path: Path) -> None:
    elsewhere = Program(tmp_path / "empty")
    assert _offered(elsewhere, "job show ") == {}
    assert _offered(elsewhere, "job show ", home=str(studio.home.root)).keys() == {"1", "2"}


@pytest.mark.parametrize("words", [f"{words} " for words, _ in VALUES[:8]])
def test_without_a_supervisor_nothing_is_offered(tqstudio: Program, words: str) -> None:
    assert _offered(tqstudio, words) == {}
    assert not tqstudio.home.socket.exists(), "none is started"
    assert "web" in _offered(tqstudio, "profile show "), "profiles are files"


def _shell(studio: Program, home: Path) -> dict[str, str]:
    """The environment of a shell of somebody whose command is found by its name."""
    path = f"{PROGRAM.parent}:/usr/bin:/bin"
    return {"HOME": str(home), "PATH": path, "TERM": "xterm", "TQSTUDIO_HOME": str(studio.home.root)}


def _installed(studio: Program, shell: str, home: Path) -> None:
    """Install the completion of a shell, as from one."""
    home.mkdir()
    # The shell is looked for among the parents of the command; `exit` keeps it from replacing itself.
    before = (
        (shell, "-c", '"$@"; exit $?', shell) if shell != "fish" else (shell, "-c", "$argv; exit $status")
    )
    done = Program(studio.home.root, before=before, HOME=str(home))("--install-completion")
    assert done.code == 0, done.err


def test_bash_completes_numbers(studio: Program, shell_home: Path) -> None:
    script = _TAB.format(words="tqstudio job show ''", program=PROGRAM)
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env=_shell(studio, shell_home),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert set(done.stdout.split()) == {"1", "2"}, done.stderr


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_numbers_with_names(studio: Program, tmp_path: Path) -> None:
    _installed(studio, "fish", tmp_path / "user")
    done = subprocess.run(
        ["fish", "-c", "complete -C 'tqstudio job show '"],
        env=_shell(studio, tmp_path / "user"),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found = [line for line in done.stdout.splitlines() if line]
    assert sorted(found) == sorted(f"{n}\t{about}" for n, about in _offered(studio, "job show ").items())


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_numbers_with_names(studio: Program, tmp_path: Path) -> None:
    home = tmp_path / "user"
    _installed(studio, "zsh", home)
    # Its checks of who owns the folders of the system are of no concern here.
    rc = (home / ".zshrc").read_text().replace("compinit\n", "compinit -u\n")
    (home / ".zshrc").write_text(f"{rc}\nPS1='ready> '\n")
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe("zsh", ["zsh", "-i"], _shell(studio, home))
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        _read(terminal, "ready> ")
        # The first tab of a shell loads the completion, and rings.
        os.write(terminal, b"tqstudio job show \t")
        _read(terminal, "\x07")
        os.write(terminal, b"\t")
        shown = _read(terminal, r"clip\.mp4[^-]*2 +-- held b|b\.mp4[^-]*2 +-- held it")
        assert "1  -- held " in shown
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)


def _read(terminal: int, pattern: str) -> str:
    """What the terminal shows, as soon as it shows a pattern."""
    shown = ""

    def seen() -> str:
        nonlocal shown
        while select.select([terminal], [], [], 0)[0]:
            shown += os.read(terminal, 65536).decode(errors="replace")
        plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
        return plain if re.search(pattern, plain) else ""

    try:
        return until(seen, pattern)
    except AssertionError as error:
        raise AssertionError(f"{error}; shown: {shown!r}") from None

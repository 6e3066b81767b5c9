"""Completion as bash does it, with what `--install-completion` writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness import Program

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

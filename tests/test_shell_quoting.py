"""Commands as text: what bash makes of them is what was run."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tqstudio import shell_quoting
from tqstudio.paths import readable


@pytest.mark.parametrize(
    "name",
    [
        "plain",
        "",
        "a b'c\"d",
        "é\n",
        "日本語",
        "東京\u3000旅行",
        "می\u200cخواهم",
        "$HOME `id`",
        "$'a'",
        "$'a'; echo 'b'",
        os.fsdecode(b"caf\xe9"),
        os.fsdecode(b"$'\xe9'9"),
        "back\\slash\n'",
    ],
)
def test_a_command_line_can_be_pasted_into_bash(name: str) -> None:
    sent = [shell_quoting.transportable(word) for word in ("printf", "%s", name)]
    line = shell_quoting.line(json.loads(json.dumps(sent)))
    assert readable(line) == line
    assert "".join(sent).encode()
    assert subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout == os.fsencode(name)


def test_only_our_own_quoting_is_taken_as_it_is() -> None:
    line = shell_quoting.line(["printf", "%s", "$'a'; echo 'b'"])
    assert subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout == b"$'a'; echo 'b'"

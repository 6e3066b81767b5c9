"""Wrong commands, options and values are answered in words, with what would be right."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

Here = Callable[..., int]


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("job pause x", "ID cannot be x", "use a job number, such as 12; see: tqstudio job pause --help"),
        ("job show 1 2,5", "ID cannot be 2,5", "use a job number, such as 12"),
        ("job pause", "no job is chosen", "write job numbers, or a filter such as --filter"),
        ("job log it's", "ID cannot be it's", "use a job number, such as 12"),
        ("events --job x", "--job cannot be x", "use a job number, such as 12"),
        ("job list --limit x", "--limit cannot be x", "use a whole number of at least 1"),
        ("job list --limit 0", "--limit cannot be 0", "use a whole number of at least 1"),
        ("add x --priority 5000", "--priority cannot be 5000", "use a whole number from -1000 to 1000"),
        ("add x --delay soon", "--delay cannot be soon", "use a number of at least 0"),
        ("stats --by dya", "--by cannot be dya", "did you mean day? use one of hour, day, batch, worker"),
        ("add x --order foo", "--order cannot be foo", "use one of name, size, mtime"),
        (
            "folder edit 1 --after-done mvoe",
            "--after-done cannot be mvoe",
            "did you mean move? use one of keep",
        ),
        (
            "token create x --role boss",
            "--role cannot be boss",
            "use one of view, operate, admin, worker, join",
        ),
        ("token create x", "--role is missing", "use one of view"),
        ("up --log-level loud", "--log-level cannot be loud", "use one of debug, info, warning"),
        ("job rety 1", "tqstudio job has no command rety", "did you mean retry? see: tqstudio job --help"),
        ("xyzzy", "tqstudio has no command xyzzy", "see: tqstudio --help"),
        ("up --worker 3", "there is no option --worker", "did you mean --workers? see: tqstudio up --help"),
        ("add --profile", "--profile needs a value", "see: "),
        ("down --json=3", "--json takes no value", "see: "),
        ("down now soon", "too many arguments: now soon", "see: tqstudio down --help"),
        ("job list --columns id,name", "--columns cannot be name", "use one of id, state, done"),
        ("job list --columns id,sate", "--columns cannot be sate", "did you mean state?"),
        ("worker list --columns=", "--columns cannot be empty", "use one of worker, kind"),
        ("profile show wb", "there is no profile wb", "did you mean web? choose one of: apple"),
        ("job priority 7 high", "7 high is not “ID... PRIORITY”", "write it as: tqstudio job priority 7 100"),
    ],
)
def test_what_is_wrong_and_what_would_be_right(
    words: str, message: str, hint: str, here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here(*words.split()) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"error: {'BAD_CONFIG' if 'no profile' in message else 'BAD_REQUEST'}: {message}"
    assert second.startswith(f"  → {hint}")
    assert not re.search(r"None|True|Path\(|\['|valid int|\(s\)", first + second)

"""The program that looks at files: reads paths, writes facts, and may die over any of them."""

from __future__ import annotations

import base64
import contextlib
import errno
import faulthandler
import json
import os
import resource
import sys
from collections.abc import Sequence
from typing import Any

from tqstudio.engine.host.parent_death import die_with_parent
from tqstudio.engine.media.source import source_file
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display

NICE = 10
"""As ffmpeg's: it may take its share of a busy machine, and holds up no command."""


def main(arguments: Sequence[str]) -> int:
    """Answer questions until stdin ends.

    Args:
        arguments: the bytes of address space this process may have.
    """
    faulthandler.enable()
    if not die_with_parent(os.environ):
        return 1
    os.nice(NICE)
    _limit(resource.RLIMIT_AS, int(arguments[0]))
    # A crash is expected now and then; an image of it would fill the disk.
    _limit(resource.RLIMIT_CORE, 0)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # What a library prints must not get between the answers.
    os.dup2(2, 1)
    import tqstudio.engine.media.source.probe  # noqa: F401 - loaded now, so that “ready” means it

    _say(answers, {"ready": True})
    for question in sys.stdin.buffer:
        _say(answers, look_at(base64.b64decode(json.loads(question)["path"])))
    return 0


def look_at(path: bytes) -> dict[str, Any]:
    """The answer about one file, see the package; whatever is wrong with the file is an answer too."""
    # The media libraries cost 100 ms and 25 MB, and must not be loaded before the limits are set.
    from tqstudio.engine.media.source.probe import probe_head

    try:
        before = source_file.check(path)
        facts = probe_head(path).to_json()
        after = source_file.check(path)
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise TqError(ErrorCode.SOURCE_CHANGED, f"{display(path)} changed while it was looked at")
        answer = {"size": before.st_size, "mtime_ns": before.st_mtime_ns, "facts": facts}
        json.dumps(answer, allow_nan=False)
        return answer
    except Exception as error:
        found = _what_is_wrong(path, error)
        return {"error": {"code": found.code.value, "message": found.message, "hint": found.hint}}


def _what_is_wrong(path: bytes, error: Exception) -> TqError:
    if _is_memory(error):
        return TqError(
            ErrorCode.OUT_OF_MEMORY,
            f"{display(path)} needs more memory than a look at it in the background may have",
            "nothing: its job reads it without this limit",
        )
    if isinstance(error, TqError):
        return error
    return TqError(
        ErrorCode.INTERNAL,
        f"{display(path)} could not be looked at: {error!r}",
        "nothing yet: its job looks again, and says more",
    )


def _is_memory(error: BaseException | None) -> bool:
    """Whether memory was refused; ffmpeg's refusals of threads count, for their stacks are memory too."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        if isinstance(error, OSError) and error.errno in (errno.ENOMEM, errno.EAGAIN):
            return True
        error = error.__cause__
    return False


def _say(answers: Any, what: dict[str, Any]) -> None:
    answers.write(f"{json.dumps(what)}\n")
    answers.flush()


def _limit(kind: int, value: int) -> None:
    # Somebody else's lower limit stays.
    with contextlib.suppress(ValueError):
        resource.setrlimit(kind, (value, value))

"""The probe process: reads paths from stdin and writes facts or errors to stdout. Any file may crash it."""

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
from tqstudio.engine.media.ffmpeg import confine
from tqstudio.engine.media.source import source_file
from tqstudio.engine.probing.ladder_views import LadderRequest
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display
from tqstudio.protocol.answers import error_view

NICE = 10
"""Same as ffmpeg's, so that it does not slow down other programs."""


def main(arguments: Sequence[str]) -> int:
    """Answer requests until stdin is closed.

    Args:
        arguments: the limit of the address space in bytes.
    """
    faulthandler.enable()
    if not die_with_parent(os.environ):
        return 1
    os.nice(NICE)
    _limit(resource.RLIMIT_AS, int(arguments[0]))
    # Crashes are expected; core dumps would fill the disk.
    _limit(resource.RLIMIT_CORE, 0)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Redirect stdout, so that output of libraries does not mix with the answers.
    os.dup2(2, 1)
    import tqstudio.engine.media.source.probe  # noqa: F401 - loaded before “ready” is sent

    confine.read_only()
    _write(answers, {"ready": True})
    for request in sys.stdin.buffer:
        asked = json.loads(request)
        if "ladder" in asked:
            _write(answers, _answer_about(asked["ladder"]))
        else:
            _write(answers, answer_for(base64.b64decode(asked["path"])))
    return 0


def answer_for(path: bytes) -> dict[str, Any]:
    """Probe one file and build the answer: its facts or an error."""
    # The media libraries take 100 ms and 25 MB, and must not be loaded before the limits are set.
    from tqstudio.engine.media.source.probe import probe_head

    try:
        before = source_file.check(path)
        facts = probe_head(path).to_json()
        after = source_file.check(path)
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise TqError(ErrorCode.SOURCE_CHANGED, f"{display(path)} changed while it was probed")
        answer = {"size": before.st_size, "mtime_ns": before.st_mtime_ns, "facts": facts}
        json.dumps(answer, allow_nan=False)
        return answer
    except Exception as error:
        known = _to_tq_error(path, error)
        return {"error": error_view(known)}


def _answer_about(ladder: LadderRequest) -> dict[str, Any]:
    """Check a ladder and build the answer: its streams or an error."""
    from tqstudio.engine.media.ffmpeg.errors import from_output_error
    from tqstudio.engine.probing import ladder_check

    try:
        return {"streams": ladder_check.examine(ladder)}
    except TqError as error:
        return {"error": error_view(error)}
    except OSError as error:
        # Not of the ladder: its disk, or the memory of this machine.
        return {"error": error_view(from_output_error(error, "the ladder cannot be read"))}
    except Exception as error:  # a stream that nothing else refuses
        if _is_memory(error):
            text = "the ladder could not be checked: memory is short"
            return {"error": error_view(TqError(ErrorCode.OUT_OF_MEMORY, text))}
        found = TqError(ErrorCode.OUTPUT_INVALID, f"the ladder could not be checked: {error!r}")
        return {"error": error_view(found)}


def _to_tq_error(path: bytes, error: Exception) -> TqError:
    if _is_memory(error):
        return TqError(
            ErrorCode.OUT_OF_MEMORY,
            f"{display(path)} needs more memory than the background probe may use",
            "nothing to do: its job reads it without this limit",
        )
    if isinstance(error, TqError):
        return error
    return TqError(
        ErrorCode.INTERNAL,
        f"{display(path)} could not be probed: {error!r}",
        "nothing to do yet: its job probes it again and reports the error",
    )


def _is_memory(error: BaseException | None) -> bool:
    """Whether an allocation failed; EAGAIN counts, because thread stacks need memory too."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        if isinstance(error, OSError) and error.errno in (errno.ENOMEM, errno.EAGAIN):
            return True
        error = error.__cause__
    return False


def _write(answers: Any, answer: dict[str, Any]) -> None:
    answers.write(f"{json.dumps(answer)}\n")
    answers.flush()


def _limit(kind: int, value: int) -> None:
    # An inherited lower limit cannot be raised.
    with contextlib.suppress(ValueError):
        resource.setrlimit(kind, (value, value))

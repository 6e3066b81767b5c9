"""Uploads files of a command to a studio elsewhere, or has the own one fetch them; shows how far it is."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tqstudio.cli.terminal import printing
from tqstudio.errors import UNANSWERED, ErrorCode, TqError, in_one_line
from tqstudio.paths import data, display, encode
from tqstudio.protocol import calls
from tqstudio.protocol.uploads import Upload
from tqstudio.units import size as in_units
from tqstudio.words import format as fmt

if TYPE_CHECKING:
    from tqstudio.protocol.answers import AddResult
    from tqstudio.protocol.client import Client
    from tqstudio.protocol.remote import Remote

_POLL_S = 0.5
_ENDS_ALL = frozenset(
    (
        *UNANSWERED,
        *(ErrorCode.UNAUTHORIZED, ErrorCode.TOO_MANY_FAILURES, ErrorCode.DISK_LOW, ErrorCode.BAD_CONFIG),
    )
)
"""Codes of errors that no other file would escape."""


def upload(at: Remote, files: Sequence[bytes], fields: Mapping[str, Any]) -> tuple[str, list[AddResult]]:
    """Upload files one after the other; returns the batch and the result for each file.

    Args:
        fields: options of `add`; those that are None were not given.

    Raises:
        TqError: further files cannot be uploaded either; unfinished ones are resumed by the next call.
    """
    batch = uuid.uuid4().hex[:12]
    about = {key: _text(value) for key, value in fields.items() if value is not None and value is not False}
    results = []
    for file in files:
        line = _Line(file)
        try:
            answered = Upload(at, file, {**about, "batch": batch}, line.show).run()["result"]
            assert answered is not None, "the upload ends with a result"
            results.append(answered)
        except TqError as error:
            if error.code in _ENDS_ALL:
                raise
            results.append(_rejected(file, error))
        except KeyboardInterrupt:
            line.clear()
            printing.err("the same command continues the upload")
            raise
        finally:
            line.clear()
    return batch, results


def fetch(at: Client, urls: Sequence[str], fields: Mapping[str, Any]) -> tuple[str, list[AddResult]]:
    """Have the supervisor fetch files from object storage; returns the batch and the result for each.

    Args:
        fields: options of `add`.
    """
    batch = uuid.uuid4().hex[:12]
    results = []
    for url in urls:
        line = _Line(os.fsencode(url))
        try:
            begun = at.send(calls.fetch(url, **{**fields, "batch": batch}))
            while (state := at.send(calls.upload(begun["upload"])))["result"] is None:
                line.show(state["offset"], state["size"])
                if state["problem"] is not None:
                    line.report(f"{in_one_line(**state['problem'])}; it is tried again")
                time.sleep(_POLL_S)
            results.append(state["result"])
        except TqError as error:
            if error.code in _ENDS_ALL:
                raise
            results.append(_rejected(os.fsencode(url), error))
        except KeyboardInterrupt:
            line.clear()
            printing.err("the supervisor continues to fetch what was begun")
            raise
        finally:
            line.clear()
    return batch, results


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value)


def _rejected(file: bytes, error: TqError) -> AddResult:
    return {
        "path": data(file),
        "path_b64": encode(file),
        "decision": "rejected",
        "video": None,
        "job": None,
        "slug": None,
        "master": None,
        "master_b64": None,
        "reason": None,
        "status": None,
        "applied": {},
        "other_job": None,
        "error": {"code": error.code.value, "message": error.message, "hint": error.hint},
    }


class _Line:
    """Shows the progress of one file in the last line of a terminal; elsewhere nothing."""

    def __init__(self, file: bytes) -> None:
        self._name = display(os.path.basename(file))
        self._is_shown = printing.terminal(sys.stderr)
        self._begun: tuple[float, int] | None = None
        self._problem = ""

    def show(self, offset: int, size: int) -> None:
        if not self._is_shown or not size:
            return
        now = time.monotonic()
        if self._begun is None or not self._begun[1]:
            self._begun = now, offset
        since, before = self._begun
        bps = (offset - before) / (now - since) if now > since else 0
        left = f", {fmt.clock_duration((size - offset) / bps)} left" if bps else ""
        rate = f", {in_units(bps)}/s" if bps else ""
        text = f"{self._name}: {fmt.percent(100 * offset / size)} of {in_units(size)}{rate}{left}"
        columns = shutil.get_terminal_size().columns
        sys.stderr.write(f"\r\x1b[K{text[: columns - 1]}")
        sys.stderr.flush()

    def report(self, problem: str) -> None:
        """Print a problem, unless it was the last one."""
        if problem != self._problem:
            self.clear()
            printing.err(problem)
            self._problem = problem

    def clear(self) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

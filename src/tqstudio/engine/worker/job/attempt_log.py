"""Writes the log of one attempt: the worker's own lines and the output of all ffmpeg runs.

Paths are relative to the roots and positions of cameras left out, because logs are attached to bug reports.
Write errors never fail a job.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from tqstudio import shell_quoting
from tqstudio.engine.host.log_redaction import Roots
from tqstudio.engine.media.encode.values import RunRecord
from tqstudio.engine.media.source import source_file
from tqstudio.home import run_logs
from tqstudio.paths import readable_lines

MAX_COPIED_BYTES = 8 * 1024 * 1024
"""Limit per ffmpeg run: with a damaged source, ffmpeg may log an error for every frame."""
_CHUNK = 256 * 1024
_PLACE_KEY = re.compile(r"\s+\S*(location|gps|latitude|longitude|coordinate|xyz)\S*\s*", re.IGNORECASE)
"""Key of a line of metadata that says where something was filmed."""
_MAX_KEY = 100
_ISO_6709 = re.compile(r"[+-]\d{2,6}\.\d+[+-]\d{3,7}\.\d+([+-]\d+(\.\d+)?)?(CRS\w*)?/?")


class AttemptLog:
    """The log file of one attempt.

    Args:
        path: of the file; created with its folder, or appended to.
        roots: folders that are removed from paths.
    """

    def __init__(self, path: Path, roots: Roots) -> None:
        self.path = path
        self._roots = roots
        self.run_dir = run_logs(path)
        self._file: IO[str] | None = None
        self._copied: dict[Path, int] = {}

    def __enter__(self) -> AttemptLog:
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Left by the same epoch, if the claim was repeated because its answer was lost.
            shutil.rmtree(self.run_dir, ignore_errors=True)
            self._file = self.path.open("a", encoding="utf-8", errors="backslashreplace")
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            if self._file is not None:
                self._file.close()
        self._file = None
        shutil.rmtree(self.run_dir, ignore_errors=True)
        # Of killed workers that made ranges of this attempt.
        for left in self.path.parent.glob(f"{self.path.stem}-*.runs"):
            shutil.rmtree(left, ignore_errors=True)

    def line(self, text: str) -> None:
        """Write a line with a timestamp."""
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        self._write(f"{now} {self._roots.relative(text)}\n")

    def exception(self, error: BaseException) -> None:
        """Write a traceback."""
        self._write(self._roots.relative("".join(traceback.format_exception(error))))

    def follow(self, runs: Sequence[RunRecord]) -> None:
        """Copy the new output of the runs; for a new run, log its command first."""
        for run in runs:
            if run.log_path not in self._copied:
                self._copied[run.log_path] = 0
                self.line(f"[{run.label}] $ {shell_quoting.line(map(shell_quoting.transportable, run.argv))}")
            while self._copy(run):
                pass

    def _copy(self, run: RunRecord) -> bool:
        """Copy one chunk; False if there is no more for now."""
        at = self._copied[run.log_path]
        if at >= MAX_COPIED_BYTES:
            return False
        try:
            with run.log_path.open("rb") as log:
                log.seek(at)
                output = log.read(_CHUNK)
        except OSError:
            return False
        # Complete lines only, unless the run has ended: parallel runs must not mix within a line, and a
        # truncated path could not be made relative.
        if not output.endswith(b"\n") and (run.returncode is None or len(output) == _CHUNK):
            output = output[: output.rfind(b"\n") + 1] or (b"" if run.returncode is None else output)
        if not output:
            return False
        self._copied[run.log_path] = at + len(output)
        # Make paths relative before splitting into lines: a folder name may contain line breaks.
        text = self._roots.relative(source_file.with_path(output).decode("utf-8", "backslashreplace"))
        lines = (_without_position(line) for line in text.splitlines() if line.strip())
        self._write("".join(f"[{run.label}] {line}\n" for line in lines))
        if self._copied[run.log_path] >= MAX_COPIED_BYTES:
            self.line(f"[{run.label}] … the rest of its output is omitted")
        return True

    def _write(self, text: str) -> None:
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            self._file.write(readable_lines(text))
            self._file.flush()


def _without_position(line: str) -> str:
    """Leave out where something was filmed, which ffmpeg prints with the metadata of its input."""
    key, colon, _ = line.partition(": ")
    if colon and len(key) <= _MAX_KEY and _PLACE_KEY.fullmatch(key):
        return f"{key}: (a position)"
    return _ISO_6709.sub("(a position)", line)

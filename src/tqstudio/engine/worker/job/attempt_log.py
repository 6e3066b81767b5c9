"""The log of one attempt: the worker's own lines and what every ffmpeg said, in one file, as it happens.

Paths in it are relative to its roots: it is handed on with reports, and where its folders lie is nobody's
business. A log that cannot be written never fails a job.
"""

from __future__ import annotations

import contextlib
import shutil
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from tqstudio import shell_quoting
from tqstudio.engine.media.encode.values import RunRecord
from tqstudio.engine.media.source import source_file
from tqstudio.home import run_logs
from tqstudio.log_redaction import Roots

MAX_COPIED_BYTES = 8 * 1024 * 1024
"""Of one ffmpeg run. A damaged source makes it complain about every frame."""
_CHUNK = 256 * 1024


class AttemptLog:
    """
    Args:
        path: of the file; made with its folder, appended to.
        roots: folders that it does not name.
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
            # A claim that is repeated after its answer was lost has the same epoch.
            shutil.rmtree(self.run_dir, ignore_errors=True)
            self._file = self.path.open("a", encoding="utf-8", errors="backslashreplace")
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            if self._file is not None:
                self._file.close()
        self._file = None
        shutil.rmtree(self.run_dir, ignore_errors=True)

    def line(self, text: str) -> None:
        """One line of the worker's own."""
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        self._write(f"{now} {self._roots.relative(text)}\n")

    def exception(self, error: BaseException) -> None:
        """A traceback, for the report of a mistake of ours."""
        self._write(self._roots.relative("".join(traceback.format_exception(error))))

    def follow(self, runs: Sequence[RunRecord]) -> None:
        """Copy what the runs have said since the last call. A new run shows its command first."""
        for run in runs:
            if run.log_path not in self._copied:
                self._copied[run.log_path] = 0
                self.line(f"[{run.label}] $ {shell_quoting.line(map(shell_quoting.transportable, run.argv))}")
            while self._copy(run):
                pass

    def _copy(self, run: RunRecord) -> bool:
        """False when there is no more for now."""
        at = self._copied[run.log_path]
        if at >= MAX_COPIED_BYTES:
            return False
        try:
            with run.log_path.open("rb") as log:
                log.seek(at)
                said = log.read(_CHUNK)
        except OSError:
            return False
        # Whole lines only, while more of the last one may follow: runs beside each other must not mix, and a
        # path that is cut cannot be made relative.
        if not said.endswith(b"\n") and (run.returncode is None or len(said) == _CHUNK):
            said = said[: said.rfind(b"\n") + 1] or (b"" if run.returncode is None else said)
        if not said:
            return False
        self._copied[run.log_path] = at + len(said)
        # Before it is cut into lines: the name of a folder may hold what breaks them.
        text = self._roots.relative(source_file.with_path(said).decode("utf-8", "backslashreplace"))
        self._write("".join(f"[{run.label}] {line}\n" for line in text.splitlines() if line.strip()))
        if self._copied[run.log_path] >= MAX_COPIED_BYTES:
            self.line(f"[{run.label}] … and more of it, which is left out here")
        return True

    def _write(self, text: str) -> None:
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            self._file.write(text)
            self._file.flush()

"""The sentences of failures."""

from __future__ import annotations

import errno
import os

import pytest

from tqstudio.engine.worker.job.failure import describe
from tqstudio.errors import MAX_ERROR_TEXT, ErrorCode, TqError
from tqstudio.protocol.requests import FailRequest

PATH = b"/media/in/holiday.mp4"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/out/x"), ErrorCode.DISK_LOW),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), ErrorCode.DISK_LOW),
        (PermissionError(errno.EACCES, "Permission denied", "/out/x"), ErrorCode.PERMISSION),
        (OSError(errno.EROFS, "Read-only file system", "/out/x"), ErrorCode.IO_ERROR),
        (OSError(errno.EIO, "Input/output error", "/out/x"), ErrorCode.IO_ERROR),
        (OSError(errno.ESTALE, "Stale file handle", "/out/x"), ErrorCode.IO_ERROR),
        (OSError(errno.EMFILE, "Too many open files", "/out/x"), ErrorCode.SYSTEM_LIMIT),
        (OSError(errno.EAGAIN, "Resource temporarily unavailable"), ErrorCode.SYSTEM_LIMIT),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), ErrorCode.OUT_OF_MEMORY),
        (FileNotFoundError(errno.ENOENT, "No such file", os.fsdecode(PATH)), ErrorCode.SOURCE_MISSING),
        (OSError(errno.EIO, "Input/output error", PATH), ErrorCode.IO_ERROR),
        (OSError(errno.ENOTCONN, "Transport endpoint is not connected", PATH), ErrorCode.SOURCE_UNAVAILABLE),
        (OSError(errno.ESTALE, "Stale file handle", PATH), ErrorCode.SOURCE_UNAVAILABLE),
        (OSError(errno.ETIMEDOUT, "Connection timed out", PATH), ErrorCode.SOURCE_UNAVAILABLE),
        (OSError(errno.EMFILE, "Too many open files", PATH), ErrorCode.SYSTEM_LIMIT),
        (OSError(errno.ELOOP, "Too many levels of symbolic links", PATH), ErrorCode.SOURCE_UNREADABLE),
        (FileNotFoundError(errno.ENOENT, "No such file", "/out/x"), ErrorCode.INTERNAL),
        (MemoryError(), ErrorCode.OUT_OF_MEMORY),
        (RuntimeError("can't start new thread"), ErrorCode.SYSTEM_LIMIT),
        (RuntimeError("surprise"), ErrorCode.INTERNAL),
        (KeyError("surprise"), ErrorCode.INTERNAL),
        (TqError(ErrorCode.ENCODER_EXIT, "1080p: ffmpeg exited with status 1"), ErrorCode.ENCODER_EXIT),
        (TqError(ErrorCode.BAD_REQUEST, "manifest: field required"), ErrorCode.INTERNAL),
    ],
)
def test_code_and_name(error: Exception, code: ErrorCode) -> None:
    failed = describe(error, PATH)
    assert failed.code is code
    assert "holiday.mp4" in failed.text
    assert failed.hint


@pytest.mark.parametrize(
    "path",
    [
        b"/" + b"d" * 200 + b"/" + b"\xe9" * 250 + b".mp4",
        b"/in/caf\xe9.mp4",
        "/in/é\n.mp4".encode(),
        b"/in/[red]x.mp4",
        b"/in/%03d.mp4",
    ],
)
def test_any_name_can_be_sent(path: bytes) -> None:
    raw = os.fsdecode(path)
    for message in ("it broke", f"{raw} broke", "x" * 3000):
        failed = describe(TqError(ErrorCode.ENCODER_EXIT, message), path)
        assert len(failed.text) <= MAX_ERROR_TEXT
        assert failed.text.encode()
        body = FailRequest(
            instance="instance", epoch=1, code=failed.code.value, text=failed.text, hint=failed.hint
        ).model_dump_json()
        assert body


def test_what_a_source_says_is_escaped() -> None:
    error = TqError(ErrorCode.ENCODER_EXIT, "ffmpeg: title a\x9b31m\u202eb\x1b[2J", "see \u2066x")
    failed = describe(error, PATH)
    assert failed.text.endswith(r"ffmpeg: title a\x9b31m\u202eb\x1b[2J")
    assert failed.hint == r"see \u2066x"

"""The table of error codes."""

from __future__ import annotations

import pickle

import pytest

from tqstudio.errors import MEANINGS, ErrorClass, ErrorCode, TqError, class_of, code_of

_CLASSES = {
    ErrorClass.FATAL: "SOURCE_MISSING SOURCE_EMPTY SOURCE_UNREADABLE SOURCE_TRUNCATED SOURCE_DAMAGED NO_MEDIA"
    " PERMISSION BAD_CONFIG UNSUPPORTED",
    ErrorClass.RESOURCE: "DISK_LOW DATABASE_UNWRITABLE DATABASE_UNREACHABLE DISK_NOT_RESPONDING GPU_BUSY"
    " SOURCE_UNAVAILABLE OUTSIDE_HOURS"
    " OUTPUT_UNAVAILABLE OUTPUT_SHARED OUTPUT_IN_USE WORKER_DISK SYSTEM_LIMIT",
    ErrorClass.RETRYABLE: "FFMPEG_MISSING ENCODER_EXIT ENCODER_SIGNAL OUT_OF_MEMORY STALLED TIMEOUT"
    " OUTPUT_EMPTY OUTPUT_INVALID IO_ERROR PUBLISH_FAILED SOURCE_CHANGED UPLOAD_FAILED UPSTREAM INTERNAL",
    ErrorClass.LOST: "WORKER_LOST REPEATED_CRASHES",
}


@pytest.mark.parametrize("kind", list(_CLASSES))
def test_classes(kind: ErrorClass) -> None:
    assert {code.value for code in ErrorCode if class_of(code) is kind} == set(_CLASSES[kind].split())


def test_unknown_codes_may_pass() -> None:
    assert code_of("SOMETHING_NEW") is ErrorCode.INTERNAL
    assert class_of("SOMETHING_NEW") is ErrorClass.RETRYABLE


def test_an_error_takes_the_hint_of_its_code() -> None:
    error = TqError("NO_MEDIA", "a.mp4 holds no video")
    assert error.hint == MEANINGS[ErrorCode.NO_MEDIA].hint
    assert TqError(ErrorCode.NO_MEDIA, "x", "do this").hint == "do this"
    assert str(error) == f"NO_MEDIA: a.mp4 holds no video ({error.hint})"


def test_an_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(TqError(ErrorCode.PERMISSION, "closed", "open it")))
    assert (error.code, error.message, error.hint) == (ErrorCode.PERMISSION, "closed", "open it")

"""The hash of a source whose disk stops to answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.hung import HungMount
from tqstudio.engine.media.source.fingerprint import Original
from tqstudio.engine.media.source.source_file import FileId
from tqstudio.engine.worker.job.limits import Deadline
from tqstudio.engine.worker.job.source_hash import SourceHash
from tqstudio.engine.worker.reporting.lease import Lease
from tqstudio.errors import ErrorCode, TqError


def test_a_source_that_cannot_be_read_on_is_not_waited_for(tmp_path: Path) -> None:
    hung = HungMount(tmp_path / "hung")
    try:
        path = os.fsencode(hung.folder / "source.mp4")
        digest = SourceHash(Original(path, FileId(1, 1, 1, 1), "unknown"))
        with pytest.raises(TqError, match="no data could be read from the source") as caught:
            digest.wait(Lease(1, 1, 60), Deadline(60), 0.2)
        assert caught.value.code is ErrorCode.STALLED
        digest.stop()
    finally:
        hung.end()

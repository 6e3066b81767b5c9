"""Another user who may write to a drop folder puts a link in the place of a file that waits."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from engine.users import as_other_user, needs_root, receive
from tqstudio.paths import encode
from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeClip, MakeStudio


@pytest.fixture
def drop() -> Iterator[Path]:
    """A folder that everybody may drop files into."""
    folder = Path(tempfile.mkdtemp(prefix="tqstudio-drop-", dir="/tmp"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.fault(
    "Another user replaces a waiting dropped file by a link",
    "`UNSUPPORTED`; the target is not read",
    area="resume",
)
@needs_root
def test_a_private_film_is_not_published(
    make_studio: MakeStudio, clip: MakeClip, drop: Path, tmp_path: Path
) -> None:
    private = tmp_path / "private.mp4"
    shutil.copyfile(clip(seconds=8), private)
    private.chmod(0o600)
    studio = make_studio().up()
    out = tmp_path / "out"
    studio.client.send(calls.add_folder(encode(drop), output_b64=encode(out), settle_s=0))
    studio("queue", "pause")
    content = clip().read_bytes()

    def drop_it(line: Connection) -> None:
        (drop / "holiday.mp4").write_bytes(content)
        line.send(True)
        assert line.recv()
        (drop / "link").symlink_to(private)
        os.replace(drop / "link", drop / "holiday.mp4")
        line.send(True)

    with as_other_user(drop_it) as line:
        assert receive(line)
        jobs = until(lambda: studio.client.send(calls.jobs())["jobs"], "it is queued")
        line.send(True)
        assert receive(line)
    studio("queue", "resume")
    ended = studio.wait(jobs[0]["id"], "failed", "done", "cancelled", "paused")
    assert (ended["status"], ended["error"]["code"]) == ("failed", "UNSUPPORTED")
    assert not list(out.rglob("*.m4s"))
    assert not list(out.rglob("master.m3u8"))

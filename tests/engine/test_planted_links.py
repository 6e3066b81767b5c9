"""Links that another user plants in an output: nothing is written, removed or published through them."""

from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from harness import LiveSupervisor, MakeSupervisor, Worker
from tqstudio import paths
from tqstudio.engine.files import durable
from tqstudio.engine.files.bounded_io import BoundedIO
from tqstudio.engine.files.dir_fd import NotOurs, hold
from tqstudio.engine.intake import ignore_files
from tqstudio.engine.media.source import sidecars
from tqstudio.engine.outputs.workspace import FOLDER, Workspace
from tqstudio.engine.store.db.database import Database
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol import calls
from waiting import until

from .test_completion import bench_of, complete
from .users import as_other_user, needs_root, receive

pytestmark = needs_root

SECRET = "private"


def plant(act: Callable[[], None]) -> None:
    """Have another user do something."""

    def run(line: Connection) -> None:
        act()
        line.send(True)

    with as_other_user(run) as line:
        assert receive(line)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of ours, in a folder of ours."""
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    file = folder / "diary"
    file.write_text(SECRET)
    return file


@pytest.fixture
def live(make_supervisor: MakeSupervisor) -> LiveSupervisor:
    """It writes to outputs that other users may write to; its worker is the test."""
    live = make_supervisor(TQSTUDIO_BACKOFF_S="0", TQSTUDIO_ALLOW_SHARED_OUTPUT="true").start()
    live.send(calls.worker_action("cpu-0", "disable"))
    return live


def add(live: LiveSupervisor, source: Path, out: Path, *, hold: bool = False) -> Any:
    source.write_bytes(b"some video")
    call = calls.add([paths.encode(source)], output_b64=paths.encode(out), hold=hold)
    [result] = live.send(call)["results"]
    return result


def publish(live: LiveSupervisor) -> tuple[Worker, Any, tuple[int, Any]]:
    worker = live.worker("by-hand").register()
    job = until(worker.claim, "there is a job")
    bench = bench_of(job)
    bench.rendition("360p", f"of-{job['job']}")
    return worker, job, complete(worker, job, bench)


def check_published(live: LiveSupervisor, out: Path, video: int, secret: Path) -> Path:
    """The ladder lies in a folder of ours in the output, and nothing else was touched. Answers its folder."""
    folder = out / live.send(calls.video(video))["slug"]
    assert not folder.is_symlink()
    assert folder.stat().st_uid == os.geteuid()
    assert (folder / "master.m3u8").is_file()
    assert (folder / "v1" / "360p" / "index.m3u8").is_file()
    assert secret.read_text() == SECRET
    assert [entry.name for entry in secret.parent.iterdir()] == [secret.name]
    return folder


@pytest.mark.slow
def test_a_video_folder_that_is_a_link_is_left_alone(
    public: Path, secret: Path, live: LiveSupervisor, tmp_path: Path
) -> None:
    secret.parent.chmod(0o755)
    empty = secret.parent.parent / "empty"
    empty.mkdir()
    plant(lambda: (public / "clip").symlink_to(empty))
    added = add(live, tmp_path / "clip.mp4", public)
    assert publish(live)[2][1]["status"] == "done"
    assert check_published(live, public, added["video"], secret) == public / "clip-2"
    assert not list(empty.iterdir())


@pytest.mark.more
@pytest.mark.parametrize("name", [".owner", ".master.m3u8-next"])
def test_a_link_in_a_video_folder_of_another_user_is_left_alone(
    public: Path, secret: Path, live: LiveSupervisor, tmp_path: Path, name: str
) -> None:
    def act() -> None:
        folder = public / "clip"
        folder.mkdir()
        folder.chmod(0o777)
        # What our own note would say: notes of other ladders are there to be read.
        if name != ".owner":
            (folder / ".owner").write_text(owner)
        (folder / name).symlink_to(secret)

    added = add(live, tmp_path / "clip.mp4", public)
    worker = live.worker("by-hand").register()
    job = until(worker.claim, "there is a job")
    bench = bench_of(job)
    owner = f"{bench.work_dir.name} {added['video']}"
    plant(act)
    bench.rendition("360p", "one")
    assert complete(worker, job, bench)[1]["status"] == "done"
    assert check_published(live, public, added["video"], secret) == public / "clip-2"


def test_a_file_in_the_place_of_a_new_one_is_replaced_and_not_written_to(
    tmp_path: Path, secret: Path
) -> None:
    """Also in a folder of ours: a link there is an accident, or was made while its mode was wrong."""
    link = tmp_path / "link"
    link.symlink_to(secret)
    durable.write(link, b"new")
    assert link.read_bytes() == b"new"
    assert not link.is_symlink()
    hard = tmp_path / "hard"
    hard.hardlink_to(secret)
    durable.write(hard, b"new")
    assert secret.read_text() == SECRET


def _sidecar(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        sidecars._read(folder, os.fsencode(path.name))
    finally:
        os.close(folder)


@pytest.mark.parametrize("read", [durable.read, lambda path: ignore_files._read(os.fsencode(path)), _sidecar])
def test_a_folder_in_the_place_of_a_file_costs_no_descriptor(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(IsADirectoryError):
        read(tmp_path)
    assert os.listdir("/proc/self/fd") == before


def test_a_held_folder_stays_the_same_whatever_is_put_in_its_place(public: Path, secret: Path) -> None:
    with hold(public, "clip", make=True) as folder:
        (public / "clip").rename(public / "moved")
        plant(lambda: (public / "clip").symlink_to(secret.parent))
        (folder / "master.m3u8").write_text("ladder")
    assert (public / "moved" / "master.m3u8").read_text() == "ladder"
    assert [entry.name for entry in secret.parent.iterdir()] == [secret.name]
    with pytest.raises(NotOurs, match="is a link"), hold(public, "clip"):
        pass


def test_no_other_user_is_trusted_where_others_may_write(public: Path) -> None:
    plant(lambda: (public / "theirs").mkdir())
    with pytest.raises(NotOurs, match="belongs to another user"), hold(public, "theirs"):
        pass
    public.chmod(0o755)
    with hold(public, "theirs"):
        pass  # only we can have given it that place


def test_an_output_that_may_not_be_listed_can_be_held(public: Path) -> None:
    def act() -> None:
        (public / "out").mkdir(0o300)
        with hold(public / "out", "clip", make=True) as folder:
            (folder / "master.m3u8").write_text("ladder")

    plant(act)
    assert (public / "out" / "clip" / "master.m3u8").read_text() == "ladder"


@pytest.mark.slow
def test_work_is_not_begun_in_a_work_folder_of_another_user(
    public: Path, make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    plant(lambda: (public / FOLDER).mkdir(0o777))
    live = make_supervisor(TQSTUDIO_ALLOW_SHARED_OUTPUT="true").start()
    source = tmp_path / "clip.mp4"
    source.write_bytes((Path(__file__).parents[1] / "tiny_media.py").read_bytes())
    job = add(live, source, public)["job"]
    ended = until(lambda: (row := live.send(calls.job(job)))["status"] == "failed" and row, "it ends")
    assert ended["error"]["code"] in ("SOURCE_UNREADABLE", "NO_MEDIA", "PERMISSION")
    assert not list((public / FOLDER).iterdir())


@pytest.mark.fault(
    "Another user plants a link below an output",
    "Nothing is written, removed or published through it",
    area="disks",
)
def test_nothing_is_removed_through_a_link(public: Path, secret: Path, opened: Database) -> None:
    """The trash, a store and a scratch directory, each a link to what must stay."""
    workspace = Workspace(opened, "uuid", BoundedIO(), allow_shared=True)
    root = os.fsencode(public)
    work_dir = workspace.work_dir(root)
    work_dir.mkdir(parents=True)
    inner = secret.parent / "7"
    inner.mkdir()
    (inner / "kept").touch()
    for name in ("trash", "segments", "scratch"):
        (work_dir / name).symlink_to(secret.parent)
    workspace.sweep(root)
    with pytest.raises(OSError, match="is a link"):
        workspace.set_aside(root, 7)
    workspace.remove_scratch(root, "7")
    assert (inner / "kept").exists()
    assert secret.read_text() == SECRET
    (work_dir / "trash").unlink()
    for name in ("segments", "scratch"):
        (work_dir / name).unlink()
        (work_dir / name / "7").mkdir(parents=True)
    assert workspace.set_aside(root, 7)
    workspace.sweep(root)
    workspace.remove_scratch(root, "7")
    assert [entry.name for entry in sorted(work_dir.rglob("*"))] == ["scratch", "segments", "trash"]


@pytest.mark.slow
@pytest.mark.fault(
    "Other users may write to an output",
    "`OUTPUT_SHARED`: refused, or the queue waits until the mode is right",
    area="disks",
)
def test_an_output_that_others_may_write_to_is_refused_and_waited_for(
    public: Path, make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    live = make_supervisor().start()
    live.send(calls.worker_action("cpu-0", "disable"))
    with pytest.raises(TqError) as caught:
        add(live, tmp_path / "refused.mp4", public)
    assert caught.value.code is ErrorCode.OUTPUT_SHARED
    public.chmod(0o755)
    job = add(live, tmp_path / "clip.mp4", public, hold=True)["job"]
    public.chmod(0o777)
    live.send(calls.act("resume", [job]))
    worker = live.worker("by-hand").register()
    assert worker.claim() is None
    [gate] = live.send(calls.status())["gates"]
    assert gate["code"] == "OUTPUT_SHARED"
    assert str(public) in gate["reason"]
    assert "chmod go-w" in gate["hint"]
    assert not list(public.iterdir()), "nothing is written there"
    assert f"users of {public}" in live("doctor").out
    public.chmod(0o755)
    claimed = until(worker.claim, "the queue continues by itself")
    assert claimed["job"] == job
    bench = bench_of(claimed)
    bench.rendition("360p", "one")
    public.chmod(0o777)
    assert complete(worker, claimed, bench)[1]["status"] == "pending"
    row = live.send(calls.job(job))
    assert (row["error"]["code"], row["attempts"]) == ("OUTPUT_SHARED", 0)
    assert not (public / "clip").exists()
    public.chmod(0o755)
    claimed = until(worker.claim, "the queue continues by itself", 60)
    bench = bench_of(claimed)
    bench.rendition("360p", "one")
    assert complete(worker, claimed, bench)[1]["status"] == "done"

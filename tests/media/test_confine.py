"""What a hostile file could make ffmpeg and the probe do: programs that try it in their place."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tqstudio.engine.media.ffmpeg import confine
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.process import can_be_confined, start

from .conftest import MakeClip, MakeEncode, pids_of, run_to_end

pytestmark = pytest.mark.skipif(bool(confine.missing()), reason="this kernel cannot confine programs")

_ATTACK = """
import os, socket, sys
canary, run = sys.argv[1:3]
def tries(what, action):
    try:
        action()
    except OSError as error:
        print(what, "refused", error.errno)
    else:
        print(what, "done")
def connect():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as line:
        line.connect(("127.0.0.1", int(sys.argv[3])))
def local():
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(canary + ".socket")
tries("read", lambda: open(canary).read())
tries("write", lambda: open(canary, "a").write("x"))
tries("truncate", lambda: os.truncate(canary, 0))
tries("remove", lambda: os.remove(canary))
tries("rename", lambda: os.rename(canary, "stolen"))
tries("link", lambda: os.link(canary, "linked"))
tries("create", lambda: open(canary + ".new", "w"))
tries("list", lambda: os.listdir(os.path.dirname(canary)))
tries("execute", lambda: os.posix_spawn(canary + ".sh", ["x"], {}))
tries("parent", lambda: open(f"/proc/{os.getppid()}/environ").read())
tries("connect", connect)
tries("local socket", local)
tries("own file", lambda: open("mine", "w").write("x"))
tries("source", lambda: open(sys.argv[4]).read(1))
"""


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    folder = tmp_path / "others"
    folder.mkdir()
    path = folder / "canary"
    path.write_text("alive")
    script = folder / "canary.sh"
    script.write_text(f"#!/bin/sh\necho dead > {path}\n")
    script.chmod(0o755)
    return path


@pytest.mark.fault(
    "A hostile file takes over ffmpeg",
    "It sees its source, its run directory and the libraries; no other file, no socket",
    area="security",
)
def test_a_confined_program_reaches_neither_files_nor_sockets(canary: Path, tmp_path: Path) -> None:
    """Python in the place of ffmpeg, from where the system has its programs."""
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
    run, source = tmp_path / "run", tmp_path / "source"
    run.mkdir()
    source.write_text("source")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(f"{canary}.socket")
        local.listen()
        server.settimeout(0)
        port = str(server.getsockname()[1])
        command = [python, "-I", "-S", "-c", _ATTACK, str(canary), str(run), port, str(source)]
        attack = start(command, run, tmp_path / "log", reads=os.fsencode(source), confined=True)
        assert attack.wait(30) == 0, attack.log_tail()
        with pytest.raises(BlockingIOError):
            server.accept()
    assert canary.read_text() == "alive"
    assert sorted(os.listdir(canary.parent)) == ["canary", "canary.sh", "canary.socket"]
    assert os.listdir(run) == ["mine"]


def test_the_attack_succeeds_where_nothing_confines_it(canary: Path, tmp_path: Path) -> None:
    run, source = tmp_path / "run", tmp_path / "source"
    run.mkdir()
    source.write_text("source")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        command = [sys.executable, "-c", _ATTACK, str(canary), str(run), port, str(source)]
        free = subprocess.run(command, check=True, capture_output=True, text=True, cwd=run, timeout=30)
    done = {line.removesuffix(" done") for line in free.stdout.splitlines() if line.endswith(" done")}
    assert {"read", "write", "truncate", "remove", "create", "list", "connect", "own file", "source"} <= done


def test_every_encode_is_confined(ffmpeg: FFmpeg, clip: MakeClip, encode: MakeEncode) -> None:
    """By the flags that the kernel reports of the running ffmpeg."""
    assert can_be_confined(ffmpeg.path)
    made = encode(clip("plain6.mp4", seconds=6))
    run_to_end(made, until=lambda: bool(pids_of(made)))
    for pid in pids_of(made):
        status = Path(f"/proc/{pid}/status").read_text()
        # It may not have executed ffmpeg yet.
        if "Name:\tffmpeg" in status:
            assert "NoNewPrivs:\t1" in status
            assert "Seccomp:\t2" in status
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)


def test_a_script_of_the_user_is_not_confined(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    script = tmp_path / "ffmpeg"
    script.write_text(f'#!/bin/sh\nexec "{ffmpeg.path}" "$@"\n')
    script.chmod(0o755)
    assert not can_be_confined(str(script))
    assert not can_be_confined(str(tmp_path / "missing"))


_PROBE = """
import sys
from tqstudio.engine.media.source import probe
from tqstudio.engine.probing import program
def hostile(path):
    sys.argv[1:] = [path.decode(), ".", sys.argv[2], path.decode()]
    exec(ATTACK, {})
    raise SystemExit
probe.probe_head = hostile
program.main(sys.argv[1:2])
"""


def test_the_probe_writes_nothing_and_opens_no_socket(canary: Path, tmp_path: Path) -> None:
    """Its libraries are loaded before; it reads what it is asked for, and answers."""
    code = f"ATTACK = {_ATTACK!r}\n{_PROBE}"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        request = json.dumps({"path": base64.b64encode(os.fsencode(canary)).decode()}) + "\n"
        ran = subprocess.run(
            [sys.executable, "-c", code, str(10**10), port],
            input=request.encode(),
            capture_output=True,
            cwd=tmp_path,
            timeout=60,
            check=False,
        )
    outcomes = [line.split(" refused")[0] for line in ran.stderr.decode().splitlines()]
    done = {line.removesuffix(" done") for line in outcomes if line.endswith(" done")}
    assert done == {"read", "list", "source"}, ran.stderr
    assert {"write", "remove", "create", "execute", "connect"} <= set(outcomes)
    assert canary.read_text() == "alive"

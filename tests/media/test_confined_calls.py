"""System calls that reach other processes and the metadata of files, tried by a program in ffmpeg's place."""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tqstudio.engine.media.ffmpeg import confine
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.process import start
from tqstudio.engine.media.plan.video_codecs import CODECS

pytestmark = pytest.mark.skipif(
    platform.machine() not in confine._ARCHITECTURES, reason="no filter of system calls for this machine"
)

# Tries each call on a file and on a process of the same user; prints {call: errno, 0 if it worked}.
_ATTACK = """
import ctypes, json, os, resource, sys, threading
canary, other, clone = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
libc, answers = ctypes.CDLL(None, use_errno=True), {}
def tries(name, action, *arguments):
    try:
        action(*arguments)
        answers[name] = 0
    except OSError as error:
        answers[name] = error.errno
def raw(name, number, *arguments):
    def call():
        if libc.syscall(number, *map(ctypes.c_long, arguments)) < 0:
            raise OSError(ctypes.get_errno(), name)
    tries(name, call)
own = open("mine", "w")
tries("chmod", os.chmod, canary, 0o666)
tries("fchmod", os.fchmod, own.fileno(), 0o666)
tries("chown", os.chown, canary, os.getuid(), os.getgid())
tries("utime", os.utime, canary, (1, 1))
tries("setxattr", os.setxattr, canary, "user.attack", b"x")
tries("truncate", os.truncate, canary, 0)
tries("setpriority", os.setpriority, os.PRIO_PROCESS, other, 15)
tries("setpriority of a user", os.setpriority, os.PRIO_USER, 0, 15)
tries("sched_setaffinity", os.sched_setaffinity, other, {min(os.sched_getaffinity(0))})
tries("sched_setscheduler", os.sched_setscheduler, other, os.SCHED_BATCH, os.sched_param(0))
tries("prlimit", resource.prlimit, other, resource.RLIMIT_NOFILE, (5, 5))
tries("kill", os.kill, other, 0)
tries("pidfd_open", os.pidfd_open, other)
raw("unshare", json.loads(sys.argv[4])["unshare"], 0x10000000)
raw("shmget", json.loads(sys.argv[4])["shmget"], 0, 4096, 0o600)
if (child := libc.syscall(clone, 0x10000000 | 17, 0, 0, 0, 0)) == 0:
    os._exit(0)
answers["clone"] = ctypes.get_errno() if child < 0 else 0
for name, number in json.loads(sys.argv[4]).items():
    if name not in answers:
        raw(f"{name} of the table", number, *[-1] * 6)
raw("clone3", 435, 0, 0)
# What ffmpeg does with itself.
tries("own niceness", os.setpriority, os.PRIO_PROCESS, 0, 15)
tries("own processors", os.sched_setaffinity, 0, os.sched_getaffinity(0))
tries("own limits", resource.prlimit, os.getpid(), resource.RLIMIT_NOFILE)
tries("own signal", os.kill, os.getpid(), 0)
thread = threading.Thread(target=lambda: tries("own thread", int))
thread.start()
thread.join()
if os.fork() == 0:
    os._exit(0)
tries("own child", os.wait)
print(json.dumps(answers), file=sys.stderr)
"""
_OWN = {"own niceness", "own processors", "own limits", "own signal", "own thread", "own child"}
_UNLOCKED = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("confine", {path!r})
confine = importlib.util.module_from_spec(spec)
spec.loader.exec_module(confine)
confine.landlock_abi = lambda: 0
confine.main(json.loads(sys.argv[1]), sys.argv[2:])
"""


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the same user."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.fixture
def command(tmp_path: Path, other: subprocess.Popen[bytes]) -> list[str]:
    canary = tmp_path / "canary"
    canary.write_text("alive")
    canary.chmod(0o600)
    column = list(confine._ARCHITECTURES).index(platform.machine())
    numbers = {name: both[column] for name, both in confine._FORBIDDEN.items() if both[column] is not None}
    clone = str(confine._CLONE[column])
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
    return [python, "-I", "-S", "-c", _ATTACK, str(canary), str(other.pid), clone, json.dumps(numbers)]


@pytest.mark.fault(
    "A hostile file takes over ffmpeg, and reaches for other processes and for modes of files",
    "No mode, owner, time or attribute changes, no process is signalled or limited, no namespace made",
    area="security",
)
@pytest.mark.parametrize("landlock", [True, False], ids=["Landlock", "a kernel without Landlock"])
def test_a_confined_program_reaches_neither_metadata_nor_processes(
    landlock: bool,
    command: list[str],
    other: subprocess.Popen[bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not landlock:
        unlocked = tmp_path / "unlocked.py"
        unlocked.write_text(_UNLOCKED.format(path=confine.__file__))
        monkeypatch.setattr(confine, "__file__", str(unlocked))
    run = tmp_path / "run"
    run.mkdir()
    before = os.stat(tmp_path / "canary")
    attack = start(command, run, tmp_path / "log", confined=True)
    assert attack.wait(60) == 0, attack.log_tail()
    answers = json.loads(attack.log_tail())
    assert {name for name in answers if answers[name] == 0} == _OWN
    assert answers.pop("clone3") == errno.ENOSYS
    assert {name: code for name, code in answers.items() if code != errno.EPERM and name not in _OWN} == {}
    assert os.stat(tmp_path / "canary") == before
    assert os.getpriority(os.PRIO_PROCESS, other.pid) == os.getpriority(os.PRIO_PROCESS, 0)


def test_the_same_program_reaches_both_where_nothing_confines_it(command: list[str], tmp_path: Path) -> None:
    free = subprocess.run(command, check=True, capture_output=True, cwd=tmp_path, timeout=60)
    answers = json.loads(free.stderr)
    reached = {"chmod", "fchmod", "utime", "truncate", "setpriority", "sched_setaffinity", "prlimit", "kill"}
    assert reached | _OWN <= {name for name in answers if answers[name] == 0}


@pytest.mark.slow
@pytest.mark.parametrize("encoder", sorted({codec.encoder for codec in CODECS.values()}))
def test_a_confined_encoder_has_as_many_threads_as_a_free_one(
    encoder: str, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    """By the threads that the kernel lists once pictures leave the encoder."""
    threads = {}
    for confined in (False, True):
        folder = tmp_path / str(confined)
        folder.mkdir()
        source = ("-re", "-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25")
        argv = [ffmpeg.path, "-nostdin", "-progress", "pipe:1", "-stats_period", "0.1", *source]
        argv += ["-c:v", encoder, "-pix_fmt", "yuv420p", "made.mp4"]
        run = start(argv, folder, folder / "log", progress=True, confined=confined)
        while not run.progress.frame and run.poll() is None:
            time.sleep(0.05)
        threads[confined] = sorted(line.split()[0] for line in run.threads())
        run.kill()
    assert len(threads[True]) == len(threads[False]) > 1

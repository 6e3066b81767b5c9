"""Starting ffmpeg, ending it, and what its end means."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from tqstudio.engine.media.ffmpeg.binary import FFmpeg, locate
from tqstudio.engine.media.ffmpeg.errors import classify_exit
from tqstudio.engine.media.ffmpeg.process import Progress, Run, parse_progress, start
from tqstudio.engine.media.ffmpeg.trial_runs import compiled_encoders, encoding_error
from tqstudio.errors import ErrorCode, TqError
from waiting import until

ENDLESS = ("-hide_banner", "-nostdin", "-re", "-f", "lavfi", "-i", "testsrc2=s=64x64", "-f", "null", "-")


def endless(ffmpeg: FFmpeg, tmp_path: Path) -> Run:
    return start([ffmpeg.path, *ENDLESS], tmp_path, tmp_path / "log")


def test_progress_log_and_exit_status(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    argv = [ffmpeg.path, "-hide_banner", "-progress", "pipe:1", "-f", "lavfi", "-i", "testsrc2=s=64x64:d=1"]
    run = start([*argv, "-f", "null", "-"], tmp_path, tmp_path / "log", progress=True)
    assert run.wait(30) == 0
    assert run.progress.frame == 25
    assert run.argv[0] == ffmpeg.path
    assert "lavfi" in run.log_tail()
    run.kill()
    assert run.poll() == 0


@pytest.mark.slow
def test_what_it_used_is_what_the_kernel_counted(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    source = ("-f", "lavfi", "-i", "testsrc2=s=1280x720:d=4", "-c:v", "libx264", "-f", "null", "-")
    run = start([ffmpeg.path, "-hide_banner", *source], tmp_path, tmp_path / "log")
    seen = 0
    while run.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):
            seen = max(seen, psutil.Process(run.pid).memory_info().rss)
        earlier = run.cpu_s
        time.sleep(0.02)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    counted = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert run.poll() == 0
    assert run.cpu_s == pytest.approx(counted, abs=0.01)
    assert 0 < earlier <= run.cpu_s + 0.02, "it is known while it runs"
    # The kernel sums up the memory of threads from time to time.
    assert seen * 0.9 < run.peak_memory < seen * 1.5


def test_what_a_killed_one_used_is_known(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    source = ("-f", "lavfi", "-i", "testsrc2=s=1280x720", "-c:v", "libx264", "-f", "null", "-")
    run = start([ffmpeg.path, "-hide_banner", *source], tmp_path, tmp_path / "log")
    until(lambda: run.poll() is None and run.cpu_s > 0.3, "it works")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run.kill()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    counted = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert run.cpu_s == pytest.approx(counted, abs=0.01)


def test_waiting_for_it_has_an_end(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    run = endless(ffmpeg, tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        run.wait(0.05)
    run.kill()


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_kill_ends_and_reaps_it(ffmpeg: FFmpeg, tmp_path: Path, state: str) -> None:
    run = endless(ffmpeg, tmp_path)
    if state == "stopped":
        os.kill(run.pid, signal.SIGSTOP)
    run.kill()
    assert run.poll() == -signal.SIGKILL
    assert not psutil.pid_exists(run.pid)
    run.kill()


def test_kill_reaches_through_a_wrapper_script(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    script = tmp_path / "wrapper"
    script.write_text(f'#!/bin/sh\n"{ffmpeg.path}" "$@"\nexit $?\n')
    script.chmod(0o755)
    run = start(
        [str(script), "-progress", "pipe:1", *ENDLESS], tmp_path, tmp_path / "log", progress=True, nice=0
    )
    wrapped = wait_for_child(run.pid)
    run.kill()
    assert psutil.wait_procs([wrapped], timeout=10)[1] == []


def wait_for_child(pid: int) -> psutil.Process:
    parent = psutil.Process(pid)
    while not (children := parent.children()):
        pass
    return children[0]


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_it_dies_with_the_process_that_started_it(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from tqstudio.engine.media.ffmpeg.process import start
run = start({[ffmpeg.path, *ENDLESS]!r}, Path({str(tmp_path)!r}), Path({str(tmp_path / "log")!r}))
print(run.pid, flush=True)
sys.stdin.read()
"""
    worker = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    assert worker.stdin is not None
    pid = int(worker.stdout.readline())
    handle = os.pidfd_open(pid)
    # Once it has written to its log, the wrappers have made way for ffmpeg and the signal is armed.
    while not (tmp_path / "log").stat().st_size:
        assert worker.poll() is None
    worker.kill()
    worker.wait()
    worker.stdin.close()
    worker.stdout.close()
    assert select.select([handle], [], [], 10)[0], "ffmpeg outlived its worker"
    os.close(handle)


def test_its_environment_has_no_setting_of_ours(
    ffmpeg: FFmpeg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a secret nor a path: it reads what strangers made."""
    monkeypatch.setenv("TQSTUDIO_WORKER_TOKEN", "secret")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    shown = tmp_path / "environment"
    script = tmp_path / "ffmpeg"
    script.write_text(f'#!/bin/sh\nenv >> "{shown}"\nexec "{ffmpeg.path}" "$@"\n')
    script.chmod(0o755)
    wrapped = locate(str(script))
    compiled_encoders(wrapped)
    assert encoding_error(wrapped, "libx264") is None
    environments = shown.read_text()
    assert environments.count("TMPDIR=") == 3, "each of the three was started with an environment"
    assert "TQSTUDIO_" not in environments


def test_it_is_nice(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    run = endless(ffmpeg, tmp_path)
    try:
        while not run.log_path.stat().st_size:
            assert run.poll() is None
        assert psutil.Process(run.pid).nice() - psutil.Process().nice() in (10, 19 - psutil.Process().nice())
    finally:
        run.kill()


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    missing = str(tmp_path / "no-ffmpeg")
    with pytest.raises(TqError) as caught:
        start([missing], tmp_path, tmp_path / "log")
    assert caught.value.code == ErrorCode.FFMPEG_MISSING


@pytest.mark.skipif(not hasattr(__import__("resource"), "prlimit"), reason="needs prlimit")
def test_a_memory_limit_ends_as_out_of_memory(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    argv = [ffmpeg.path, "-hide_banner", "-nostdin", "-f", "lavfi", "-i", "testsrc2=s=3840x2160:d=0.2"]
    run = start(
        [*argv, "-c:v", "libx264", "-f", "null", "-"], tmp_path, tmp_path / "log", memory_limit=90_000_000
    )
    status = run.wait(30)
    assert status != 0
    assert classify_exit(status, run.log_tail()).code == ErrorCode.OUT_OF_MEMORY


def _limited(ffmpeg: FFmpeg, folder: Path, *limit: str) -> tuple[int, str]:
    """Encode three small qualities under a limit: the exit status and the log."""
    folder.mkdir()
    folder.chmod(0o777)
    argv = [*limit, ffmpeg.path, "-hide_banner", "-nostdin", "-f", "lavfi", "-i", "testsrc2=s=64x64:d=0.2"]
    argv += ["-filter_complex", "[0:v]split=3[a][b][c]"]
    for name in "abc":
        argv += ["-map", f"[{name}]", "-c:v", "libx264", "-threads", "2", "-f", "null", "-"]
    run = start(argv, folder, folder / "log")
    try:
        return run.wait(60), run.log_tail()
    finally:
        run.kill()


@pytest.mark.fault(
    "The system has no more processes, threads or open files",
    "`SYSTEM_LIMIT`: requeued, nothing is counted",
    area="resume",
)
@pytest.mark.skipif(shutil.which("prlimit") is None, reason="needs prlimit")
def test_a_limit_of_threads_is_the_fault_of_no_job(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    """Whichever thread is refused: one of ffmpeg says so, one of x264 does not."""
    # The limit does not hold root.
    other = ("setpriv", "--reuid", "54321", "--clear-groups") if os.geteuid() == 0 else ()
    if other:
        # The folders above are closed to others.
        tmp_path = Path(tempfile.mkdtemp(prefix="tqstudio-limit-", dir="/tmp"))
        tmp_path.chmod(0o755)
    failures = []
    try:
        for allowed in range(2, 300, 2):
            status, log = _limited(ffmpeg, tmp_path / str(allowed), *other, "prlimit", f"--nproc={allowed}")
            if status == 0:
                break
            failures.append((status, log, classify_exit(status, log)))
    finally:
        if other:
            shutil.rmtree(tmp_path)
    assert status == 0
    assert {error.code for _, _, error in failures} == {ErrorCode.SYSTEM_LIMIT}, failures
    assert {256 - errno.EAGAIN, 187} <= {status for status, _, _ in failures}


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="needs prlimit")
def test_a_limit_of_open_files_is_the_fault_of_no_job(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    argv = ["prlimit", "--nofile=4", ffmpeg.path, "-hide_banner", "-nostdin"]
    argv += ["-f", "lavfi", "-i", "testsrc2=s=64x64:d=0.2", "-c:v", "libx264"]
    run = start([*argv, *("a.mp4", "b.mp4", "c.mp4")], tmp_path, tmp_path / "log")
    status = run.wait(30)
    assert status == 256 - errno.EMFILE, run.log_tail()
    assert classify_exit(status, run.log_tail()).code == ErrorCode.SYSTEM_LIMIT


def test_wrong_settings_of_x264_are_the_fault_of_the_job(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    argv = [ffmpeg.path, "-hide_banner", "-nostdin", "-f", "lavfi", "-i", "testsrc2=s=64x64:d=0.2"]
    argv += ["-c:v", "libx264", "-x264-params", "level=0.5", "-f", "null", "-"]
    run = start(argv, tmp_path, tmp_path / "log")
    status = run.wait(30)
    assert (status, "invalid level_idc" in run.log_tail()) == (187, True)
    assert classify_exit(status, run.log_tail()).code == ErrorCode.ENCODER_EXIT


def test_progress_values_that_are_not_known_yet() -> None:
    block = {"frame": "N/A", "out_time_us": "-66733", "speed": "N/A", "progress": "continue"}
    assert parse_progress(block) == Progress(None, -66733, None)
    assert parse_progress({"frame": "12", "speed": "1.5x", "progress": "end"}) == Progress(12, None, 1.5)


X264_MEMORY = """x264 [error]: malloc of size 21414530 failed
[vost#0:0/libx264 @ 0x55b2d3ae5800] [enc:libx264 @ 0x55b2d3ae6240] Error while opening encoder
[out#0/null @ 0x55b2d3ae4c40] Nothing was written into output file
Conversion failed!
"""
NVENC_SESSIONS = """[h264_nvenc @ 0x5581] OpenEncodeSessionEx failed: out of memory (10): (no details)
[h264_nvenc @ 0x5581] No capable devices found
[vost#0:0/h264_nvenc @ 0x5581] Error while opening encoder
"""
NVENC_NO_DRIVER = """[h264_nvenc @ 0x55e21a76ed00] Cannot load libcuda.so.1
[vost#0:0/h264_nvenc @ 0x55e21a76e180] [enc:h264_nvenc @ 0x55e21a76ebc0] Error while opening encoder
Conversion failed!
"""
OLD_DISK_FULL = """av_interleaved_write_frame(): No space left on device
Error writing trailer of 480p/index.m3u8: No space left on device
Conversion failed!
"""
NO_MEMORY = "[mpeg4 @ 0x1] Error: Cannot allocate memory\nConversion failed!\n"


@pytest.mark.parametrize(
    ("returncode", "log", "code"),
    [
        (256 - errno.ENOSPC, "", ErrorCode.DISK_LOW),
        # The quota's errno and a shell's SIGABRT share a status: the message distinguishes them.
        (256 - errno.EDQUOT, "seg_00001.m4s: Disk quota exceeded", ErrorCode.DISK_LOW),
        (256 - errno.ENOMEM, "", ErrorCode.OUT_OF_MEMORY),
        (-signal.SIGKILL, "", ErrorCode.OUT_OF_MEMORY),
        (128 + signal.SIGKILL, "", ErrorCode.OUT_OF_MEMORY),
        (-signal.SIGSEGV, "No space left on device", ErrorCode.ENCODER_SIGNAL),
        (128 + signal.SIGABRT, "", ErrorCode.ENCODER_SIGNAL),
        (187, X264_MEMORY, ErrorCode.OUT_OF_MEMORY),
        (1, NO_MEMORY, ErrorCode.OUT_OF_MEMORY),
        (1, OLD_DISK_FULL, ErrorCode.DISK_LOW),
        (187, NVENC_SESSIONS, ErrorCode.GPU_BUSY),
        (255, NVENC_NO_DRIVER, ErrorCode.ENCODER_EXIT),
        (183, "file:x.mp4: Invalid data found when processing input", ErrorCode.ENCODER_EXIT),
        (8, "[AVFilterGraph @ 0x1] No such filter: 'zscale'\n", ErrorCode.FFMPEG_MISSING),
        (8, "[vost#0:0 @ 0x1] Unknown encoder 'libx265'\n", ErrorCode.FFMPEG_MISSING),
        (1, "", ErrorCode.ENCODER_EXIT),
        (256 - errno.EAGAIN, "", ErrorCode.SYSTEM_LIMIT),
        (256 - errno.EMFILE, "", ErrorCode.SYSTEM_LIMIT),
        (256 - errno.ENFILE, "", ErrorCode.SYSTEM_LIMIT),
        (1, "index.m3u8: Too many open files in system", ErrorCode.SYSTEM_LIMIT),
    ],
)
def test_what_an_exit_means(returncode: int, log: str, code: ErrorCode) -> None:
    assert classify_exit(returncode, log).code == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_ffmpeg_takes_itself_is_named(
    ffmpeg: FFmpeg, tmp_path: Path, number: signal.Signals
) -> None:
    argv = [ffmpeg.path, "-hide_banner", "-nostdin", "-nostats", "-progress", "pipe:1"]
    argv += ["-re", "-f", "lavfi", "-i", "testsrc2=s=64x64", "-c:v", "libx264", "-preset", "ultrafast"]
    run = start([*argv, "-f", "hls", "out.m3u8"], tmp_path, tmp_path / "log", progress=True)
    try:
        while not run.progress.frame:
            assert run.poll() is None, run.log_tail()
        os.kill(run.pid, number)
        status = run.wait(30)
    finally:
        run.kill()
    assert status == 255
    error = classify_exit(status, run.log_tail())
    assert error.code == ErrorCode.ENCODER_SIGNAL
    assert error.message == f"ffmpeg was terminated by {number.name}"


def test_the_signal_of_an_earlier_run_is_not_that_of_this_one() -> None:
    earlier = "Exiting normally, received signal 15.\n"
    assert classify_exit(255, earlier + NVENC_NO_DRIVER).code == ErrorCode.ENCODER_EXIT
    assert classify_exit(1, earlier).code == ErrorCode.ENCODER_EXIT


STATISTICS = """[hls @ 0x5581] Failed to open file 'seg_00001.m4s'
[out#0/hls @ 0x5582] video:700KiB audio:0KiB subtitle:0KiB other streams:0KiB muxing overhead: unknown
"""


def test_statistics_are_no_complaint() -> None:
    message = classify_exit(1, STATISTICS).message
    assert message == "ffmpeg exited with status 1: [hls] Failed to open file 'seg_00001.m4s'"


def test_the_message_has_the_cause_without_addresses() -> None:
    error = classify_exit(
        234, "[libx264 @ 0x55ac0a570440] Error setting option preset to value p5.\nConversion failed!\n"
    )
    reason = "[libx264] Error setting option preset to value p5."
    assert error.message == f"ffmpeg exited with status 234: {reason}"


# As ffmpeg 9.0 prints it on an H200.
TOO_SMALL = """[hevc @ 0x5634f94d0a40] Video width 96 not within range from 144 to 8192
[hevc @ 0x5634f94d0a40] Failed setup for format cuda: hwaccel initialisation returned error.
Impossible to convert between the formats supported by the filter 'a' and the filter 'auto_scale_0'
[fc#0 @ 0x5634f94c7c40] Error reinitializing filters!
[fc#0 @ 0x5634f94c7c40] Task finished with error code: -38 (Function not implemented)
[vost#0:0/libx264 @ 0x5634f94ca0c0] [enc:libx264 @ 0x5634f94cb980] Could not open encoder before EOF
[vost#0:0/libx264 @ 0x5634f94ca0c0] Task finished with error code: -22 (Invalid argument)
[vost#0:0/libx264 @ 0x5634f94ca0c0] Terminating thread with return code -22 (Invalid argument)
Conversion failed!
"""


OLD_DRIVER = """[h264_nvenc @ 0x560c1f1d6240] Driver does not support the required nvenc API version. Required: 13.1 Found: 13.0
[h264_nvenc @ 0x560c1f1d6240] The minimum required Nvidia driver for nvenc is 610.00 or newer
[vost#0:0/h264_nvenc @ 0x560c1f1d5d40] [enc:h264_nvenc @ 0x560c1f1d61c0] Error while opening encoder - maybe incorrect parameters such as bit_rate, rate, width or height.
[vf#0:0 @ 0x560c1f1f13c0] Error sending frames to consumers: Function not implemented
[vf#0:0 @ 0x560c1f1f13c0] Task finished with error code: -38 (Function not implemented)
[vf#0:0 @ 0x560c1f1f13c0] Terminating thread with return code -38 (Function not implemented)
[vost#0:0/h264_nvenc @ 0x560c1f1d5d40] [enc:h264_nvenc @ 0x560c1f1d61c0] Could not open encoder before EOF
[vost#0:0/h264_nvenc @ 0x560c1f1d5d40] Task finished with error code: -22 (Invalid argument)
[vost#0:0/h264_nvenc @ 0x560c1f1d5d40] Terminating thread with return code -22 (Invalid argument)
[out#0/null @ 0x560c1f1d59c0] Nothing was written into output file, because at least one of its streams received no packets.
frame=    0 fps=0.0 q=0.0 Lsize=       0KiB time=N/A bitrate=N/A speed=N/A elapsed=0:00:00.00
Conversion failed!
"""  # noqa: E501


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (TOO_SMALL, "[hevc] Video width 96 not within range from 144 to 8192"),
        (OLD_DRIVER, "[h264_nvenc] The minimum required Nvidia driver for nvenc is 610.00 or newer"),
    ],
)
def test_what_followed_from_the_cause_is_no_cause(log: str, cause: str) -> None:
    assert classify_exit(218, log).message == f"ffmpeg exited with status 218: {cause}"

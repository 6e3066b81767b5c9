"""Confines ffmpeg to its source, its run directory and its libraries, then executes it.

ffmpeg parses files that anyone may have made. This module is run as a program of its own, in front of ffmpeg
and in the same process, because restrictions cannot be lifted once they are set:

    python -I -S confine.py '{"reads": [...], "parent": 12, ...}' /usr/bin/ffmpeg -i …

It makes the process die with its parent, lowers its priority, and marks it as the first to be killed when
memory is short. A program, as opposed to a script of the user, also gets no new privileges, no sockets
(seccomp), and no files but those it needs (Landlock). What the kernel lacks is left out; `missing` names it
for `doctor`.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import resource
import signal
import stat
import struct
import sys
from collections.abc import Iterable

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _SECCOMP_MODE_FILTER = 1, 22, 38, 2
_OOM_SCORE = "500"
_MAX_FILE_BYTES = 16 * 1024**3
"""Of one file; a fragment of 30 s with 500 Mbit/s has 2 GB."""

# System calls have the same numbers on all architectures from 424 on.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _IO_URING_SETUP = 444, 445, 446, 425
# Machine → (AUDIT_ARCH of its system calls, the numbers of socket, ptrace, process_vm_readv and -writev).
_MACHINES = {
    "x86_64": (0xC000003E, (41, 101, 310, 311)),
    "aarch64": (0xC00000B7, (198, 117, 270, 271)),
}
_X32 = 0x40000000
_ELF64 = b"\x7fELF\x02"

# Rights of Landlock: execute, write, read, list; then those that change a folder, each with its ABI.
_EXECUTE, _WRITE, _READ, _LIST, _TRUNCATE, _IOCTL = 1, 2, 4, 8, 1 << 14, 1 << 15
_CHANGE = sum(1 << bit for bit in range(4, 13))
_REFER = 1 << 13
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_RIGHTS_BY_ABI = {1: _EXECUTE | _WRITE | _READ | _LIST | _CHANGE, 2: _REFER, 3: _TRUNCATE, 5: _IOCTL}
_NETWORK_ABI, _NETWORK, _SCOPES_ABI, _SCOPES = 4, 3, 6, 3
_PROGRAMS = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/opt", "/nix/store", "/etc/ld.so.cache")
_SYSTEM = ("/sys/devices/system", "/proc/cpuinfo", "/proc/meminfo", "/dev/urandom", "/dev/zero")

_libc = ctypes.CDLL(None, use_errno=True)


def landlock_abi() -> int:
    """The version of the kernel's Landlock; 0 without."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, 0, 1)))


def missing() -> list[str]:
    """What this kernel or machine lacks to confine ffmpeg."""
    found = [] if platform.machine() in _MACHINES else [f"seccomp on {platform.machine()}"]
    return found if landlock_abi() else [*found, "Landlock"]


def is_program(path: str) -> bool:
    """Whether a file is a program that can be confined; a script of the user may need any file."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_ELF64)) == _ELF64
    except OSError:
        return False


def read_only() -> None:
    """Forbid this process to write or execute any file, to open sockets, and to look at other processes."""
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    # Landlock can only allow: all but /proc, which shows the environment of other processes.
    _allow_files([], [*_SYSTEM, *(f"/{name}" for name in os.listdir("/") if name != "proc")], [])
    _forbid_calls()


def main(policy: dict[str, object], command: list[str]) -> None:
    """Set all restrictions and execute the command.

    Args:
        policy: `parent`, its pid; `nice`; `confined`; `reads` and `writes`, the files and folders besides the
            libraries.

    Raises:
        OSError: a restriction that the kernel knows could not be set, or the command not be executed.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != policy["parent"]:
        sys.exit(1)
    os.nice(int(str(policy["nice"])))
    try:
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write(_OOM_SCORE)
    except OSError:
        pass  # a container may forbid it
    if policy["confined"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_FILE_BYTES, _MAX_FILE_BYTES))
        _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        reads, writes = (list(map(str, policy[key])) for key in ("reads", "writes"))  # type: ignore[call-overload]
        _allow_files([*_PROGRAMS, os.path.realpath(command[0])], [*_SYSTEM, *reads], [*writes, "/dev/null"])
        _forbid_calls()
    os.execv(command[0], command)


def _allow_files(programs: Iterable[str], reads: Iterable[str], writes: Iterable[str]) -> None:
    abi = landlock_abi()
    if not abi:
        return
    rights = sum(added for since, added in _RIGHTS_BY_ABI.items() if abi >= since)
    network = _NETWORK if abi >= _NETWORK_ABI else 0
    scopes = _SCOPES if abi >= _SCOPES_ABI else 0
    attributes = struct.pack("QQQ", rights, network, scopes)[: 24 if scopes else 16 if network else 8]
    ruleset = _checked(_libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0), "Landlock")
    for paths, wanted in (
        (programs, _EXECUTE | _READ | _LIST),
        (reads, _READ | _LIST),
        (writes, rights & ~_EXECUTE),
    ):
        for path in paths:
            _allow(ruleset, path, wanted & rights)
    _checked(_libc.syscall(_RESTRICT_SELF, ruleset, 0), "Landlock")
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # not every system has each of them
    if not stat.S_ISDIR(os.fstat(opened).st_mode):
        rights &= _OF_FILES
    rule = struct.pack("=Qi", rights, opened)
    _checked(_libc.syscall(_ADD_RULE, ruleset, 1, rule, 0), f"Landlock for {path}")
    os.close(opened)


def _forbid_calls() -> None:
    """Let sockets, and access to the memory of other processes, fail with EPERM."""
    if platform.machine() not in _MACHINES:
        return
    arch, numbers = _MACHINES[platform.machine()]
    forbidden = (*numbers, _IO_URING_SETUP)
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | 1
    # The offset of a jump counts from the next instruction; the last but one refuses.
    checks = [(at_least, _X32), *((equal, number) for number in forbidden)]
    program = [(load, 0, 0, 4), (equal, 0, len(checks) + 2, arch), (load, 0, 0, 0)]
    for at, (test, value) in enumerate(checks):
        program.append((test, len(checks) - at, 0, value))
    program += [(answer, 0, 0, allow), (answer, 0, 0, refuse)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    filters = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    _checked(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, filters, 0, 0), "seccomp")


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])

"""Confines ffmpeg to its source, its run directory and its libraries, then executes it.

ffmpeg parses files that anyone may have made. This module is run as a program of its own, in front of ffmpeg
and in the same process, because restrictions cannot be lifted once they are set:

    python -I -S confine.py '{"reads": [...], "parent": 12, ...}' /usr/bin/ffmpeg -i …

It makes the process die with its parent, lowers its priority, and marks it as the first to be killed when
memory is short. A program, as opposed to a script of the user, also gets no new privileges, no files but
those it needs (Landlock), and none of the system calls that reach further (seccomp): to sockets, other
processes, modes and owners of files, new namespaces. What the kernel lacks is left out; `missing` names it
for `doctor`.
"""

from __future__ import annotations

import ctypes
import errno
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
MAX_FILE_BYTES = 16 * 1024**3
"""Largest size of one file that ffmpeg may write, but for whole videos; 30 s of 500 Mbit/s have 2 GB."""

# System calls have the same numbers on all architectures from 424 on.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Machine → AUDIT_ARCH of its system calls."""
_FORBIDDEN = {
    # Sockets, and rings that open them.
    "socket": (41, 198),
    "io_uring_setup": (425, 425),
    # Memory, descriptors and priority of other processes.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "perf_event_open": (298, 241),
    "pidfd_send_signal": (424, 424),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "ioprio_set": (251, 30),
    # Mode, owner, times, attributes and length of files, which no version, or not each, of Landlock knows.
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "truncate": (76, 45),
    # Namespaces, keys, programs in the kernel.
    "unshare": (272, 97),
    "setns": (308, 268),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    # Memory and messages that processes share by number or name.
    "shmget": (29, 194),
    "shmat": (30, 196),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
}
"""System call → its number on x86_64 and on aarch64; None where there is none."""
_ON_ITSELF = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "prlimit64": (302, 261),
}
"""Calls that are forbidden but for the process itself, whose pid, or 0, is their first argument."""
_KILLS = ("kill", "tkill", "tgkill")
"""Those for which 0 is no name of the process: of its group, or of nothing."""
_SETPRIORITY, _CLONE, _CLONE3 = (141, 140), (56, 220), 435
_CLONE_NEW = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
_X32 = 0x40000000
# Instructions of a filter: load a word, compare, return.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _ANSWER = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE = (_ANSWER, 0, 0, 0x7FFF0000), (_ANSWER, 0, 0, 0x00050000 | errno.EPERM)
_NOT_THERE = (_ANSWER, 0, 0, 0x00050000 | errno.ENOSYS)
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
"""Offsets in `struct seccomp_data`, of whose arguments the lower halves are read, as the kernel does."""
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
    found = [] if platform.machine() in _ARCHITECTURES else [f"seccomp on {platform.machine()}"]
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
        policy: `parent`, its pid; `nice`; `confined`; `largest`, the bytes of a file that it may write;
            `reads` and `writes`, the files and folders besides the libraries.

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
        largest = int(str(policy["largest"]))
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
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
    """Let the calls that reach beyond this process and its files fail with EPERM."""
    if platform.machine() not in _ARCHITECTURES:
        return
    program = _filter(platform.machine(), os.getpid())
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    filters = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    _checked(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, filters, 0, 0), "seccomp")


def _filter(machine: str, pid: int) -> list[tuple[int, int, int, int]]:
    """Build the filter of system calls: instructions of (code, jump if true, jump if false, value).

    A jump counts from the next instruction. What follows the test of a call's number answers it, so that no
    jump leaves its block.
    """
    column = list(_ARCHITECTURES).index(machine)
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        _REFUSE,
        (_LOAD, 0, 0, _NUMBER_AT),
        # On x86_64, a second set of numbers for the same calls.
        (_AT_LEAST, 0, 1, _X32),
        _REFUSE,
        # Its flags are in memory, which a filter cannot read. The C library uses clone instead.
        (_EQUAL, 0, 1, _CLONE3),
        _NOT_THERE,
    ]

    def answer(number: int | None, *instructions: tuple[int, int, int, int]) -> None:
        if number is not None:
            program.extend([(_EQUAL, 0, len(instructions), number), *instructions])

    first, second = (_LOAD, 0, 0, _ARGUMENTS_AT), (_LOAD, 0, 0, _ARGUMENTS_AT + 8)
    for numbers in _FORBIDDEN.values():
        answer(numbers[column], _REFUSE)
    for name, numbers in _ON_ITSELF.items():
        zero = () if name in _KILLS else ((_EQUAL, 2, 0, 0),)
        answer(numbers[column], first, *zero, (_EQUAL, 1, 0, pid), _REFUSE, _ALLOW)
    # PRIO_PROCESS of the calling thread: x264 gives way to itself by it.
    itself = (first, (_EQUAL, 0, 2, 0), second, (_EQUAL, 1, 0, 0), _REFUSE, _ALLOW)
    answer(_SETPRIORITY[column], *itself)
    answer(_CLONE[column], first, (_ANY_BIT, 0, 1, _CLONE_NEW), _REFUSE, _ALLOW)
    return [*program, _ALLOW]


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])

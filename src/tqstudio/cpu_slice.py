"""How long a turn on a processor a thread asks of Linux before others get theirs.

A thread that asks for short turns goes before one that asks for long ones as soon as it has something to do;
without that it may wait for the kernel's next tick, 4 ms. How much of a processor each gets stays as it is:
that is the niceness. Longer is not better: the threads of one ffmpeg wait for each other. Seen with ffmpeg on
both of 2 cores, medians of three to five rounds, by the turns that it asks for:

    turn           cores that it kept busy   p99 of a durable claim in the store beside it
    the kernel's   1.96                      5.0 ms
    5 ms           1.95                      4.2 ms
    100 ms         1.91                      4.4 ms

Linux honours it since 6.12; an older one, another system or another processor leaves everything as it is.
"""

from __future__ import annotations

import contextlib
import ctypes
import platform
import sys
from collections.abc import Iterator

_SHORT_S = 0.0001
"""The shortest the kernel takes."""
_LONG_S = 0.005
"""Longer than the 3 ms at most of those who ask for nothing, such as the kernel's own threads that end an
fsync: these go before ffmpeg too."""
_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275)}
"""Numbers of sched_setattr and sched_getattr; the C library has names for them only since 2.41."""


class _Attributes(ctypes.Structure):
    """The kernel's `struct sched_attr`, first version; times in ns."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def take_short() -> None:
    """Ask for short turns for this thread, and for every thread and process that it starts from now on."""
    _ask(round(_SHORT_S * 1e9))


def take_long() -> None:
    """Ask for long turns likewise: for work that nobody waits for."""
    _ask(round(_LONG_S * 1e9))


@contextlib.contextmanager
def long_for_children() -> Iterator[None]:
    """What this thread starts meanwhile asks for long turns; the thread itself gets its own back."""
    before = turn_ns()
    take_long()
    try:
        yield
    finally:
        if before is not None:
            _ask(before)


def turn_ns(thread: int = 0) -> int | None:
    """The turn that a thread asks for, in ns, 0 for none of its own; None where the system does not tell.

    Args:
        thread: its id, or that of a process for its first thread; 0 is the calling one.
    """
    attributes = _attributes(thread)
    return None if attributes is None else int(attributes.runtime)


def _ask(nanoseconds: int) -> None:
    # Read first: the call sets the niceness too, and only root may lower that.
    if (attributes := _attributes()) is not None:
        attributes.runtime = nanoseconds
        _syscall(0, 0, ctypes.byref(attributes), 0)


def _attributes(thread: int = 0) -> _Attributes | None:
    attributes = _Attributes(size=ctypes.sizeof(_Attributes))
    answer = _syscall(1, thread, ctypes.byref(attributes), attributes.size, 0)
    return attributes if answer == 0 else None


def _syscall(which: int, *arguments: object) -> int:
    numbers = _CALLS.get(platform.machine()) if sys.platform == "linux" else None
    if numbers is None:
        return -1
    return int(ctypes.CDLL(None).syscall(numbers[which], *arguments))

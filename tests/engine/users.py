"""Another user of the machine, as tests that run as root can play one."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as another user")
OTHER_UID = 65534


@contextlib.contextmanager
def as_other_user(act: Callable[[Connection], None]) -> Iterator[Connection]:
    """Run a function in a process of another user; the connection leads to it."""
    ours, theirs = multiprocessing.Pipe()

    def run() -> None:
        os.setgroups([])
        os.setgid(OTHER_UID)
        os.setuid(OTHER_UID)
        act(theirs)

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        process.kill()
        process.join()
        ours.close()


def receive(line: Connection) -> object:
    assert line.poll(30), "the other user does nothing"
    return line.recv()

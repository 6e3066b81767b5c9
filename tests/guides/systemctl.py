"""Starts what the unit of a user says, as `systemctl --user enable --now UNIT` does where systemd runs."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

UNITS = Path.home() / ".config" / "systemd" / "user"


def main(words: list[str]) -> None:
    verb, name = next(word for word in words if not word.startswith("-")), words[-1]
    pid_file = UNITS / f"{name}.pid"
    if verb == "is-system-running":
        print("running")
    elif verb == "show":
        print(f"ActiveState=active\nSubState=running\nUnitFileState=enabled\nMainPID={pid_file.read_text()}")
        print("Result=success\nNRestarts=0")
    elif verb in ("enable", "restart"):
        if pid_file.exists():
            os.kill(int(pid_file.read_text()), signal.SIGTERM)
        pid_file.write_text(str(_start(UNITS / name)))


def _start(unit: Path) -> int:
    """Start a unit; of the type notify, wait until it is ready."""
    lines = [line.partition("=") for line in unit.read_text().splitlines()]
    [start] = [value for key, _, value in lines if key == "ExecStart"]
    [variables] = [shlex.split(value) for key, _, value in lines if key == "Environment"]
    environment = os.environ | dict(each.split("=", 1) for each in variables)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        address = f"\0{unit}{os.getpid()}"[:100]
        notified.bind(address)
        ready = ("Type", "=", "notify") in lines
        if ready:
            environment["NOTIFY_SOCKET"] = "@" + address[1:]
        with unit.with_suffix(".log").open("ab") as log:
            words = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(start)]
            started = subprocess.Popen(words, env=environment, stdout=log, stderr=log, start_new_session=True)
        notified.settimeout(120)
        while ready and b"READY=1" not in notified.recv(4096):
            pass
    return started.pid


main(sys.argv[1:])

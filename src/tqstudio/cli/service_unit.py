"""The text of the systemd unit of a supervisor. Pure: nothing is read or written here."""

from __future__ import annotations

from pathlib import Path

from tqstudio.cli import printing
from tqstudio.config import STOP_MARGIN_S
from tqstudio.errors import ErrorCode, TqError

NAME = "tqstudio.service"
_HOME_LINE = "# Its home: "

_UNIT = """\
# Written by `tqstudio service install`, which replaces it; changes belong into `systemctl edit {name}`.
{home_line}

[Unit]
Description=tqstudio transcodes videos to HLS ladders
Documentation=man:tqstudio(1)
{order}
[Service]
# Started means that the API answers. A large database may take long to migrate to a newer version.
Type=notify
NotifyAccess=main
TimeoutStartSec=15min
ExecStart={start}
Environment={environment}
{user}
# A crash, or a disk that is full or missing at boot, passes. A wrong setting (exit code 2) and a database
# that is damaged or of a newer version (5) stay.
Restart=on-failure
RestartSec=15
RestartPreventExitStatus={stays}
# The event loop reports twice within this time. One that hangs is restarted, and jobs resume.
WatchdogSec=60

# SIGTERM goes to the supervisor alone, which lets its workers end; what is left after it is killed.
KillMode=mixed
# Running jobs have {drain_s:g} s (the setting drain_s) to end.
TimeoutStopSec={stop_s:.0f}
# The kernel may kill an ffmpeg that uses too much memory. The supervisor retries its job; it need not end.
OOMPolicy=continue

# Hardening. Homes, outputs and drop folders lie anywhere, so no part of the file system that may hold videos
# is hidden or read-only: no ProtectHome, no ProtectSystem=strict. /dev stays visible for GPUs (no
# PrivateDevices, no ProtectClock), /tmp for videos and for the socket of a home whose path is long (no
# PrivateTmp), /proc to see which files are open for writing (no ProtectProc). Drivers of GPUs compile code
# and use many system calls (no MemoryDenyWriteExecute, no SystemCallFilter). The supervisor itself confines
# ffmpeg further.
NoNewPrivileges=yes
LockPersonality=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
{hardening}
[Install]
WantedBy={target}
"""

_SYSTEM_HARDENING = """\
# /usr, /boot and /etc hold no videos.
ProtectSystem=full
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
"""
_USER_HARDENING = """\
# ProtectSystem and the like would need a user namespace here, in which files of root have an unknown owner.
"""


def text(python: str, home: Path, drain_s: float, user: str | None = None) -> str:
    """The unit that runs the supervisor of a home.

    Args:
        python: absolute path of the interpreter of the virtual environment.
        user: of a system unit; None makes a unit of the user manager.

    Raises:
        TqError: BAD_REQUEST for a path that a unit cannot hold.
    """
    for path in (python, str(home)):
        if not path.isprintable():
            raise TqError(
                ErrorCode.BAD_REQUEST,
                f"the path {path!r} has characters that a systemd unit cannot hold",
                "choose another with --home, or another virtual environment",
            )
    # The program's own path is the one word in which systemd replaces no variables.
    start = " ".join([_quoted(python), "-P", "-m", "tqstudio", "up"])
    order = "# Disks and shares are mounted first.\nAfter=local-fs.target remote-fs.target network.target"
    return _UNIT.format(
        name=NAME if user else f"--user {NAME}",
        home_line=f"{_HOME_LINE}{home}",
        order=f"{order}\nRequiresMountsFor={_quoted(str(home))}\n" if user else "",
        start=start,
        environment=_quoted(f"TQSTUDIO_HOME={home}"),
        user=f"User={user}\n" if user else "",
        drain_s=drain_s,
        stop_s=drain_s + STOP_MARGIN_S,
        hardening=_SYSTEM_HARDENING if user else _USER_HARDENING,
        stays=f"{printing.WRONG_USAGE} {printing.UNUSABLE_DATABASE}",
        target="multi-user.target" if user else "default.target",
    )


def home_of(unit: str) -> Path | None:
    """The home of a unit that `text` made; None for any other."""
    lines = [line for line in unit.splitlines() if line.startswith(_HOME_LINE)]
    return Path(lines[0].removeprefix(_HOME_LINE)) if lines else None


def _quoted(word: str) -> str:
    """A word of a unit's line, literally: systemd replaces `%` and backslashes even within quotes."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'

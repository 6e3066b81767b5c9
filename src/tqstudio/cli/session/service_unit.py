"""The texts of the systemd units of supervisor and workers. Pure: nothing is read or written here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tqstudio.cli.terminal import printing
from tqstudio.config import STOP_MARGIN_S
from tqstudio.errors import ErrorCode, TqError

NAME, WORKER = "tqstudio.service", "tqstudio-worker.service"
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

{hardening}
[Install]
WantedBy={target}
"""

_WORKER_UNIT = """\
# Written by `tqstudio service install --worker`, which replaces it; for changes: systemctl edit {name}
{home_line}

[Unit]
Description=tqstudio worker of a studio on another machine
Documentation=man:tqstudio(1)
{order}
[Service]
Type=exec
ExecStart={start}
Environment={environment}
{user}
# A studio that does not answer is waited for. Wrong options (exit code 2) and a revoked token (4) stay.
Restart=on-failure
RestartSec=15
RestartPreventExitStatus=2 4

# SIGTERM goes to the program alone: it sends what is finished, and its studio requeues the job.
KillMode=mixed
TimeoutStopSec=60
# The kernel may kill an ffmpeg that uses too much memory. The worker reports that.
OOMPolicy=continue

{hardening}
[Install]
WantedBy={target}
"""

_HARDENING = """\
# Hardening. Homes, outputs and drop folders lie anywhere, so no part of the file system that may hold videos
# is hidden or read-only: no ProtectHome, no ProtectSystem=strict. /dev stays visible for GPUs (no
# PrivateDevices, no ProtectClock), /tmp for videos and for the socket of a home whose path is long (no
# PrivateTmp), /proc to see which files are open for writing (no ProtectProc). Drivers of GPUs compile code
# and use many system calls (no MemoryDenyWriteExecute, no SystemCallFilter). tqstudio itself confines
# ffmpeg further.
NoNewPrivileges=yes
LockPersonality=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
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
    return _UNIT.format(
        **_parts(NAME, python, home, ["up"], {}, user),
        drain_s=drain_s,
        stop_s=drain_s + STOP_MARGIN_S,
        stays=f"{printing.WRONG_USAGE} {printing.UNUSABLE_DATABASE}",
    )


def worker_text(
    python: str, home: Path, options: Sequence[str], variables: Mapping[str, str], user: str | None = None
) -> str:
    """The unit that runs workers of a studio on another machine.

    Args:
        options: of `worker run`.
        variables: the studio, as `remote.chosen` reads it.

    Raises:
        TqError: as `text`.
    """
    return _WORKER_UNIT.format(**_parts(WORKER, python, home, ["worker", "run", *options], variables, user))


def _parts(
    name: str,
    python: str,
    home: Path,
    command: Sequence[str],
    variables: Mapping[str, str],
    user: str | None,
) -> Mapping[str, str]:
    """What the units have in common.

    Raises:
        TqError: BAD_REQUEST.
    """
    set_variables = [f"{key}={value}" for key, value in {"TQSTUDIO_HOME": home, **variables}.items()]
    for text in (python, *command, *set_variables):
        if not text.isprintable():
            raise TqError(
                ErrorCode.BAD_REQUEST,
                f"{text!r} has characters that a systemd unit cannot hold",
                "choose another path, or another virtual environment",
            )
    # The program's own path is the one word in which systemd replaces no variables.
    words = [_quoted(python), "-P", "-m", "tqstudio", *command[:1], *map(_literal, command[1:])]
    order = "# Disks and shares are mounted first.\nAfter=local-fs.target remote-fs.target network.target"
    return {
        "name": name if user else f"--user {name}",
        "home_line": f"{_HOME_LINE}{home}",
        "order": f"{order}\nRequiresMountsFor={_quoted(str(home))}\n" if user else "",
        "start": " ".join(words),
        "environment": " ".join(map(_quoted, set_variables)),
        "user": f"User={user}\n" if user else "",
        "hardening": _HARDENING + (_SYSTEM_HARDENING if user else _USER_HARDENING),
        "target": "multi-user.target" if user else "default.target",
    }


def home_of(unit: str) -> Path | None:
    """The home of a unit that `text` made; None for any other."""
    lines = [line for line in unit.splitlines() if line.startswith(_HOME_LINE)]
    return Path(lines[0].removeprefix(_HOME_LINE)) if lines else None


def _literal(word: str) -> str:
    """An argument of a command, in which systemd also replaces variables."""
    return _quoted(word).replace("$", "$$")


def _quoted(word: str) -> str:
    """A word of a unit's line, literally: systemd replaces `%` and backslashes even within quotes."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'

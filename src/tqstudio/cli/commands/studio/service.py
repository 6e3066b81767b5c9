"""`service install|status|uninstall`: supervisor or workers as a service of systemd."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from tqstudio.cli.session import service_unit
from tqstudio.cli.session.service_unit import NAME, WORKER
from tqstudio.cli.session.supervisor_session import home_command
from tqstudio.cli.terminal import printing
from tqstudio.cli.terminal.options import JsonFlag
from tqstudio.errors import UNANSWERED, ErrorCode, TqError
from tqstudio.home import Home, current_home
from tqstudio.paths import absolute
from tqstudio.protocol import calls, remote
from tqstudio.protocol.client import Client

SYSTEM_UNITS = Path("/etc/systemd/system")
_LINGERING = Path("/var/lib/systemd/linger")
_SHOWN = ("ActiveState", "SubState", "UnitFileState", "MainPID", "Result", "NRestarts", "StatusText")
_OF_WORKERS = (remote.CONNECT, remote.TOKEN_FILE, remote.CA, "TQSTUDIO_FFMPEG")
"""Variables that the unit of workers keeps."""
INACTIVE = 3
"""Exit code of `service status` for a service that does not run, as of systemctl."""

System = Annotated[bool, typer.Option("--system", help="The unit of the system instead of the user's.")]
OfWorkers = Annotated[
    bool, typer.Option("--worker", help="The unit of workers for a studio on another machine.")
]


def install(
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- OPTIONS]", help="With --worker: options of worker run.", show_default=False
        ),
    ] = None,
    system: System = False,
    worker: OfWorkers = False,
    user: Annotated[
        str | None,
        typer.Option(
            "--user", metavar="NAME", help="With --system: the user it runs as.", show_default=False
        ),
    ] = None,
    only_print: Annotated[bool, typer.Option("--print", help="Print the unit; install nothing.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Install the supervisor as a systemd service; it is enabled and started.

    It starts at boot, is restarted after a crash or a hang, and has the settings of its home: options and
    variables of this command line are not part of it. With --worker it is one for the studio of --connect.
    """
    home = _home(system, user)
    if worker:
        name, unit = WORKER, _worker_unit(home, options or (), user)
    else:
        name, unit = NAME, _supervisor_unit(home, options or (), user)
    path = _unit_path(system, name)
    if only_print:
        return printing.answer({"path": str(path), "text": unit}, unit.rstrip("\n"), as_json)
    _require_root(system)
    _require_systemd(system)
    _require_ours(path, home, " --worker" if worker else "", " --system" if system else "")
    if not worker:
        _require_stopped(home)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(unit, encoding="utf-8")
    except OSError as error:
        raise TqError(
            ErrorCode.PERMISSION, f"{path} cannot be written: {error.strerror}", "use --print, and install it"
        ) from None
    _systemctl(system, "daemon-reload")
    _systemctl(system, "enable", "--now", name)
    if worker:
        # Those that run would keep the options of before.
        _systemctl(system, "restart", name)
    hint = _until_boot(system)
    kept = ("TQSTUDIO_HOME", *(_OF_WORKERS if worker else ()))
    left_out = sorted(key for key in os.environ if key.startswith("TQSTUDIO_") and key not in kept)
    view = {
        "installed": True,
        "unit": name,
        "path": str(path),
        "home": str(home.root),
        "user": user,
        "without_effect": left_out,
        "hint": hint,
    }
    if left_out:
        printing.err(f"not part of the service: {', '.join(left_out)}; set them in {home.config}")
    printing.answer(view, f"wrote {path}; enabled and started {name} (home {home.root})", as_json)
    if hint and not as_json:
        printing.out(f"  {printing.ARROW} {hint}")
    return 0


def status(system: System = False, worker: OfWorkers = False, as_json: JsonFlag = False) -> int:
    """Show the service and its supervisor. Exit code 3 if it does not run."""
    from tqstudio.protocol import launch

    name = WORKER if worker else NAME
    path = _unit_path(system, name)
    root = _home_of(path)
    if root is None:
        command = "tqstudio --connect URL service install --worker" if worker else "tqstudio service install"
        text = f"no service is installed ({path}); install it with: {command}"
        printing.answer({"installed": False, "path": str(path)}, text, as_json)
        return INACTIVE
    _require_systemd(system)
    unit = _shown(system, name)
    supervisor, problem = None, None
    try:
        supervisor = None if worker else launch.supervisor_of(Home(root))
    except TqError as error:
        problem = f"{error.code}: {error.message}"
    view = {"installed": True, "path": str(path), "home": str(root), "unit": unit, "supervisor": supervisor}
    active = unit.get("ActiveState") == "active"
    if as_json:
        printing.out_json(view)
        return 0 if active else INACTIVE
    state = f"{unit.get('ActiveState')} ({unit.get('SubState')}), {unit.get('UnitFileState')}"
    printing.out(f"service     {state}, {unit.get('NRestarts') or 0} restarts")
    if unit.get("Result") not in (None, "", "success"):
        printing.out(f"            the last run ended with: {unit['Result']}")
        printing.out(f"            {printing.ARROW} {_journal(system, name)}")
    printing.out(f"unit        {path}")
    printing.out(f"home        {root}")
    if worker:
        return 0 if active else INACTIVE
    by = ""
    if supervisor is not None and str(supervisor["pid"]) != unit.get("MainPID"):
        by = ", not of this service"
    answer = f"pid {supervisor['pid']}{by}" if supervisor else problem or "none answers"
    printing.out(f"supervisor  {answer}")
    return 0 if active else INACTIVE


def uninstall(system: System = False, worker: OfWorkers = False, as_json: JsonFlag = False) -> int:
    """Stop, disable and remove the service. Queue, settings and videos stay."""
    _require_root(system)
    name = WORKER if worker else NAME
    path = _unit_path(system, name)
    root = _home_of(path)
    if root is None:
        text = f"no service is installed ({path}); nothing to remove"
        return printing.answer({"uninstalled": False, "path": str(path)}, text, as_json)
    _require_systemd(system)
    _systemctl(system, "disable", "--now", name)
    path.unlink(missing_ok=True)
    _systemctl(system, "daemon-reload")
    view = {"uninstalled": True, "path": str(path), "home": str(root)}
    text = f"stopped and disabled {name} and removed {path}; {root} is unchanged"
    return printing.answer(view, text, as_json)


# What the unit holds


def _supervisor_unit(home: Home, options: Sequence[str], user: str | None) -> str:
    """The text of a supervisor's unit.

    Raises:
        TqError: BAD_REQUEST for what only workers have.
    """
    from tqstudio.config import load_settings

    if remote.named() or options:
        raise TqError(
            ErrorCode.BAD_REQUEST,
            "a supervisor is installed on its own machine, and its settings are in its home",
            "leave out --connect and options; for workers of another machine's studio add --worker",
        )
    return service_unit.text(_interpreter(), home.root, load_settings(home).drain_s, user)


def _worker_unit(home: Home, options: Sequence[str], user: str | None) -> str:
    """The text of a worker's unit.

    Raises:
        TqError: BAD_REQUEST without a studio; errors that it answers, or of its certificate.
    """
    at = remote.chosen() if remote.named() else None
    if at is None:
        raise TqError(
            ErrorCode.BAD_REQUEST,
            "--worker needs the studio for which it shall work",
            "name it: tqstudio --connect URL --token-file FILE service install --worker",
        )
    try:
        Client(at).send(calls.health())
    except TqError as error:
        # One that is down is waited for.
        if error.code not in UNANSWERED or isinstance(error, remote.Untrusted):
            raise
    variables = {key: os.environ[key] for key in _OF_WORKERS if os.environ.get(key)}
    for key in (remote.TOKEN_FILE, remote.CA):
        if key in variables:
            variables[key] = absolute(variables[key])
    return service_unit.worker_text(_interpreter(), home.root, _worker_options(options), variables, user)


def _worker_options(given: Sequence[str]) -> list[str]:
    """Options of `worker run`, checked, and with absolute paths."""
    from tqstudio.wings.remote.cli import run

    app = typer.Typer(add_completion=False)
    app.command()(run)
    command = typer.main.get_command(app)
    found = command.make_context("tqstudio worker run", list(given)).params
    words = [f"--{key}={found[key]}" for key in ("name", "slots", "bandwidth") if found[key]]
    words += ["--gpu"] if found["gpu"] else []
    words += [f"--work={absolute(found['work'])}"] if found["work"] else []
    return words + [f"--shared={absolute(str(folder))}" for folder in found["shared"] or ()]


# What has to be true first


def _home(system: bool, user: str | None) -> Home:
    """The home of the service.

    Raises:
        TqError: BAD_REQUEST for options that contradict each other; NOT_FOUND for an unknown user.
    """
    if system != (user is not None):
        given, needed = ("--system", "--user NAME") if system else ("--user", "--system")
        raise TqError(ErrorCode.BAD_REQUEST, f"{given} needs {needed}", "give both, or neither")
    if user is None or os.environ.get("TQSTUDIO_HOME"):
        return current_home()
    try:
        folder = pwd.getpwnam(user).pw_dir
    except KeyError:
        raise TqError(ErrorCode.NOT_FOUND, f"there is no user {user}", f"create it: useradd {user}") from None
    return Home(Path(folder, ".local", "share", "tqstudio"))


def _interpreter() -> str:
    """The interpreter, by the name that it keeps in an environment made again with a newer Python."""
    name = Path(sys.executable).with_name("python")
    return str(name) if sys.prefix != sys.base_prefix and name.exists() else sys.executable


def _require_root(system: bool) -> None:
    if system and os.geteuid() != 0:
        raise TqError(ErrorCode.PERMISSION, "only root may change units of the system", "run this with sudo")


def _require_systemd(system: bool) -> None:
    """Raise TqError REFUSED where systemd, or the user's manager, does not run."""
    asked = _run(system, "is-system-running")
    state = asked.stdout.strip()
    if state in ("", "offline", "unknown"):
        why = asked.stderr.strip() or "systemd does not run here"
        raise TqError(
            ErrorCode.REFUSED,
            f"no service can be installed: {why}",
            "run `tqstudio up` in the foreground, as containers do, or start it by other means"
            if system
            else "log in as this user itself (not by su), or use --system; in a container run tqstudio up",
        )


def _require_ours(path: Path, home: Home, *options: str) -> None:
    """Raise TqError REFUSED if the unit there is of another home, or was not made by `install`."""
    if not path.exists():
        return
    there = _home_of(path)
    if there != home.root:
        whose = f"of the home {there}" if there else "not made by tqstudio"
        raise TqError(
            ErrorCode.REFUSED,
            f"{path} exists and is {whose}",
            f"remove it with: tqstudio service uninstall{''.join(options)}"
            if there
            else "move that file away",
        )


def _require_stopped(home: Home) -> None:
    """Raise TqError ALREADY_RUNNING if a supervisor of this home runs."""
    from tqstudio.protocol import running

    if (pid := running.holder(home)) is not None:
        raise TqError(
            ErrorCode.ALREADY_RUNNING,
            f"a supervisor is already running (pid {pid}, home {home.root})",
            f"stop it with: {home_command('down')}, then run this again; jobs resume",
        )


# systemd


def _unit_path(system: bool, name: str) -> Path:
    if system:
        return SYSTEM_UNITS / name
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(config).expanduser() / "systemd" / "user" / name


def _home_of(path: Path) -> Path | None:
    try:
        return service_unit.home_of(path.read_text(encoding="utf-8", errors="replace"))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _until_boot(system: bool) -> str:
    """What is missing for a start at boot; empty if nothing."""
    name = pwd.getpwuid(os.geteuid()).pw_name
    if system or (_LINGERING / name).exists():
        return ""
    return f"it runs while you are logged in; to start it at boot: sudo loginctl enable-linger {name}"


def _shown(system: bool, name: str) -> Mapping[str, str]:
    lines = _systemctl(system, "show", name, f"--property={','.join(_SHOWN)}").stdout.splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _journal(system: bool, name: str) -> str:
    return f"see: journalctl {'' if system else '--user '}-u {name}"


def _systemctl(system: bool, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of systemctl.

    Raises:
        TqError: REFUSED if it fails.
    """
    done = _run(system, *words)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        name = next((word for word in words if word.endswith(".service")), NAME)
        raise TqError(
            ErrorCode.REFUSED, f"systemctl {' '.join(words)} failed: {last}", _journal(system, name)
        )
    return done


def _run(system: bool, *words: str) -> subprocess.CompletedProcess[str]:
    argv = ["systemctl", *([] if system else ["--user"]), *words]
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except OSError as error:
        return subprocess.CompletedProcess(argv, 127, "", f"systemctl: {error.strerror}")

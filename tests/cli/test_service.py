"""The systemd unit: its text as systemd reads it, and what the commands do with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import LiveSupervisor, Program, answer_of
from tqstudio.cli.commands.studio import service
from tqstudio.cli.session import service_unit
from tqstudio.config import STOP_MARGIN_S
from tqstudio.errors import TqError

Here = Callable[..., int]

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)

# Writes down its arguments. It stands for a systemd that runs, which test machines need not have.
_SYSTEMCTL = """#!/bin/sh
echo "$@" >> {calls}
case " $* " in
*" is-system-running "*) echo {state}; [ {state} = running ] ;;
*" show "*)
    echo ActiveState={active}; echo SubState=running; echo UnitFileState=enabled
    echo MainPID={pid}; echo Result=success ;;
esac
"""


class FakeSystem:
    """A command `systemctl` on the PATH, and the folder of the user's units."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._calls = root / "calls"
        self.unit = root / "config" / "systemd" / "user" / service_unit.NAME
        self.environment = {"PATH": f"{root}:{os.environ['PATH']}", "XDG_CONFIG_HOME": str(root / "config")}
        self.state("running")

    def state(self, state: str, *, active: str = "active", pid: int = 0) -> None:
        script = self._root / "systemctl"
        script.write_text(_SYSTEMCTL.format(calls=self._calls, state=state, active=active, pid=pid))
        script.chmod(0o755)

    def calls(self) -> list[str]:
        """The calls that changed anything."""
        every = self._calls.read_text().splitlines() if self._calls.exists() else []
        return [each for each in every if "is-system-running" not in each and " show " not in each]


@pytest.fixture
def system(tmp_path: Path) -> FakeSystem:
    (tmp_path / "bin").mkdir()
    return FakeSystem(tmp_path / "bin")


@pytest.fixture
def tqstudio(tmp_path: Path, system: FakeSystem) -> Program:
    return Program(tmp_path / "home", **system.environment)


def settings(text: str) -> dict[str, list[str]]:
    """The assignments of a unit."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


# The text


def test_the_unit_names_interpreter_home_and_timeouts() -> None:
    unit = settings(service_unit.text("/opt/tq/bin/python", Path("/srv/tq"), 30))
    assert unit["Type"] == ["notify"]
    assert unit["ExecStart"] == ['"/opt/tq/bin/python" -P -m tqstudio up']
    assert unit["Environment"] == ['"TQSTUDIO_HOME=/srv/tq"']
    assert float(unit["TimeoutStopSec"][0]) == 30 + STOP_MARGIN_S
    assert unit["KillMode"] == ["mixed"]
    assert unit["Restart"] == ["on-failure"]
    assert unit["OOMPolicy"] == ["continue"]
    assert unit["WantedBy"] == ["default.target"]
    assert "User" not in unit
    assert "ProtectSystem" not in unit, "it needs a namespace, in which owners are unknown"


def test_the_unit_of_the_system_has_a_user_and_waits_for_disks() -> None:
    unit = settings(service_unit.text("/opt/tq/bin/python", Path("/srv/tq"), 30, "media"))
    assert unit["User"] == ["media"]
    assert unit["RequiresMountsFor"] == ['"/srv/tq"']
    assert unit["WantedBy"] == ["multi-user.target"]
    assert unit["ProtectSystem"] == ["full"]


@pytest.mark.parametrize("name", ["plain", "with space", 'a"quote', "back\\slash", "100%", "$HOME", "é"])
def test_a_home_is_found_again_in_its_unit(name: str) -> None:
    home = Path("/srv", name)
    assert service_unit.home_of(service_unit.text(sys.executable, home, 15)) == home


@pytest.mark.parametrize("name", ["line\nbreak", "\udcff"])
def test_a_home_that_no_unit_can_hold_is_refused(name: str) -> None:
    with pytest.raises(TqError, match="cannot hold"):
        service_unit.text(sys.executable, Path("/srv", name), 15)


@needs_systemd
@pytest.mark.parametrize("user", [None, "root"])
@pytest.mark.parametrize("name", ["plain", 'a b"c\\d%n$HOME'])
def test_systemd_accepts_the_unit(name: str, user: str | None, tmp_path: Path) -> None:
    unit = tmp_path / service_unit.NAME
    unit.write_text(service_unit.text(sys.executable, tmp_path / name, 15, user))
    scope = "--system" if user else "--user"
    checked = subprocess.run(
        ["systemd-analyze", scope, "--man=no", "verify", str(unit)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    problems = [line for line in checked.stderr.splitlines() if service_unit.NAME in line]
    assert (checked.returncode, problems) == (0, [])


@pytest.mark.skipif(os.path.isdir("/run/systemd/system"), reason="systemd runs here")
def test_nothing_is_installed_without_systemd(tmp_path: Path) -> None:
    """As in a container: the real systemctl, or none."""
    program = Program(tmp_path / "home", XDG_CONFIG_HOME=str(tmp_path / "config"))
    answer = program("service", "install", "--json")
    assert answer.code == 4
    error = answer.last_line()["error"]
    assert error["code"] == "REFUSED"
    assert "tqstudio up" in error["hint"]
    assert not (tmp_path / "config").exists()


# The commands


def test_the_unit_names_the_interpreter_as_a_newer_python_will_have_it(tqstudio: Program) -> None:
    """Which uv and pipx put into the same environment, where `python3.11` is then missing."""
    versioned = Path(sys.executable).with_name(f"python{sys.version_info[0]}.{sys.version_info[1]}")
    assert versioned.exists(), "tests run in an environment"
    command = [versioned, "-P", "-m", "tqstudio", "service", "install", "--print"]
    printed = answer_of(command, tqstudio.environment).out
    [start] = settings(printed)["ExecStart"]
    assert start == f'"{versioned.with_name("python")}" -P -m tqstudio up'


def test_install_and_uninstall(tqstudio: Program, system: FakeSystem) -> None:
    assert tqstudio("service", "status").code == service.INACTIVE
    installed = tqstudio("service", "install", "--json", TQSTUDIO_WORKERS="3")
    assert installed.code == 0, installed.err
    view = installed.json()
    assert view["path"] == str(system.unit)
    assert view["home"] == str(tqstudio.home.root)
    assert view["without_effect"] == ["TQSTUDIO_WORKERS"]
    assert "enable-linger" in view["hint"]
    assert system.calls() == ["--user daemon-reload", f"--user enable --now {service_unit.NAME}"]
    printed = tqstudio("service", "install", "--print").out
    assert system.unit.read_text() == printed, "the same text is printed"
    tqstudio.home.create()
    tqstudio.home.config.write_text("profile = 'fast'")
    removed = tqstudio("service", "uninstall", "--json")
    assert removed.json() == {
        "uninstalled": True,
        "path": str(system.unit),
        "home": str(tqstudio.home.root),
    }
    assert system.calls()[2:] == [f"--user disable --now {service_unit.NAME}", "--user daemon-reload"]
    assert not system.unit.exists()
    assert tqstudio.home.config.exists(), "nothing else is removed"
    again = tqstudio("service", "uninstall")
    assert (again.code, "nothing to remove" in again.out) == (0, True)


@pytest.mark.slow
def test_a_running_supervisor_is_reported(supervisor: LiveSupervisor, system: FakeSystem) -> None:
    program = Program(supervisor.home.root, **system.environment)
    refused = program("service", "install")
    assert refused.code == 4
    assert "ALREADY_RUNNING" in refused.err
    assert f"pid {supervisor.process.pid}" in refused.err
    assert "down" in refused.err
    assert system.calls() == []
    assert not system.unit.exists()


@pytest.mark.more
def test_status_shows_unit_and_supervisor(supervisor: LiveSupervisor, system: FakeSystem) -> None:
    program = Program(supervisor.home.root, **system.environment)
    system.unit.parent.mkdir(parents=True)
    system.unit.write_text(service_unit.text(sys.executable, supervisor.home.root, 15))
    system.state("running", pid=supervisor.process.pid)
    shown = program("service", "status", "--json")
    view: Any = shown.json()
    assert shown.code == 0
    assert view["unit"]["ActiveState"] == "active"
    assert view["supervisor"]["pid"] == supervisor.process.pid
    assert "not of this service" not in program("service", "status").out
    system.state("running", active="failed", pid=1)
    shown = program("service", "status")
    assert shown.code == service.INACTIVE
    assert "service     failed" in shown.out
    assert "not of this service" in shown.out


def test_the_unit_of_another_home_is_not_replaced(tqstudio: Program, system: FakeSystem) -> None:
    system.unit.parent.mkdir(parents=True)
    other = service_unit.text(sys.executable, Path("/srv/other"), 15)
    for text in (other, "[Service]\nExecStart=/bin/true\n"):
        system.unit.write_text(text)
        refused = tqstudio("service", "install")
        assert (refused.code, "REFUSED" in refused.err) == (4, True)
        assert system.unit.read_text() == text
    assert system.calls() == []


def test_a_call_that_fails_is_reported(tqstudio: Program, system: FakeSystem) -> None:
    script = Path(system.environment["PATH"].partition(":")[0], "systemctl")
    script.write_text(
        "#!/bin/sh\n[ $2 = is-system-running ] && echo degraded && exit 1\necho broken >&2\nexit 5\n"
    )
    refused = tqstudio("service", "install")
    assert refused.code == 4
    assert "daemon-reload failed: broken" in refused.err
    assert "journalctl --user" in refused.err


def test_a_system_unit_needs_a_user_and_root(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here("service", "install", "--system") == 2
    assert here("service", "install", "--user", "root") == 2
    monkeypatch.delenv("TQSTUDIO_HOME")
    assert here("service", "install", "--system", "--user", "no-such-user", "--print") == 4
    capsys.readouterr()
    assert here("service", "install", "--system", "--user", "root", "--print") == 0
    assert "TQSTUDIO_HOME=/root/.local/share/tqstudio" in capsys.readouterr().out
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(service, "SYSTEM_UNITS", tmp_path)
    assert here("service", "uninstall", "--system") == 2
    assert "sudo" in capsys.readouterr().err


# Workers of a studio on another machine


@pytest.fixture
def far(tqstudio: Program, tmp_path: Path) -> Program:
    """A machine whose studio is down."""
    secret = tmp_path / "fleet.token"
    secret.touch(mode=0o600)
    secret.write_text("tq_1_2\n")
    tqstudio.environment |= {"TQSTUDIO_CONNECT": "http://127.0.0.1:1", "TQSTUDIO_TOKEN_FILE": str(secret)}
    return tqstudio


@pytest.mark.slow
def test_workers_are_a_service_of_their_own(far: Program, system: FakeSystem, tmp_path: Path) -> None:
    unit = system.unit.with_name(service_unit.WORKER)
    words = ("service", "install", "--worker", "--json", "--", "--slots", "2", "--work", "w $x", "--gpu")
    installed = far(*words, cwd=tmp_path, TQSTUDIO_PROFILE="fast")
    assert installed.code == 0, installed.err
    view = installed.json()
    assert (view["unit"], view["path"]) == (service_unit.WORKER, str(unit))
    assert view["without_effect"] == ["TQSTUDIO_PROFILE"]
    assert system.calls() == [
        "--user daemon-reload",
        f"--user enable --now {service_unit.WORKER}",
        f"--user restart {service_unit.WORKER}",
    ]
    lines = settings(unit.read_text())
    work = f"{tmp_path}/w $$x"
    python = Path(sys.executable).with_name("python")
    assert lines["ExecStart"] == [
        f'"{python}" -P -m tqstudio worker "run" "--slots=2" "--gpu" "--work={work}"'
    ]
    assert lines["Environment"] == [
        f'"TQSTUDIO_HOME={far.home.root}" "TQSTUDIO_CONNECT=http://127.0.0.1:1"'
        f' "TQSTUDIO_TOKEN_FILE={tmp_path / "fleet.token"}"'
    ]
    assert lines["RestartPreventExitStatus"] == ["2 4"]
    assert not system.unit.exists()
    del far.environment["TQSTUDIO_CONNECT"]
    assert far("service", "status").code == service.INACTIVE, "of the supervisor"
    shown = far("service", "status", "--worker")
    assert (shown.code, "service     active" in shown.out, "supervisor" in shown.out) == (0, True, False)
    assert far("service", "uninstall", "--worker").code == 0
    assert system.calls()[3:] == [f"--user disable --now {service_unit.WORKER}", "--user daemon-reload"]
    assert not unit.exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--worker", "--", "--slotz", "2"), "--slotz"),
        (("--worker", "--", "--slots", "99"), "99"),
        ((), "leave out --connect"),
        (("--worker", "--user", "root"), "--system"),
    ],
)
def test_a_service_that_could_not_work_is_refused(
    words: tuple[str, ...], says: str, far: Program, system: FakeSystem
) -> None:
    refused = far("service", "install", *words)
    assert (refused.code, says in refused.err) == (2, True), refused.err
    assert system.calls() == []


def test_workers_need_a_studio(tqstudio: Program) -> None:
    refused = tqstudio("service", "install", "--worker", "--print")
    assert (refused.code, "--connect URL" in refused.err) == (2, True)


@needs_systemd
@pytest.mark.parametrize("user", [None, "root"])
def test_systemd_accepts_the_unit_of_workers(user: str | None, tmp_path: Path) -> None:
    unit = tmp_path / service_unit.WORKER
    variables = {"TQSTUDIO_CONNECT": "https://nas.example:8750"}
    unit.write_text(
        service_unit.worker_text(sys.executable, tmp_path / "h", ["--work=/a b/$HOME/%n"], variables, user)
    )
    checked = subprocess.run(
        ["systemd-analyze", "--system" if user else "--user", "--man=no", "verify", str(unit)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    problems = [line for line in checked.stderr.splitlines() if service_unit.WORKER in line]
    assert (checked.returncode, problems) == (0, [])

"""Machines on which a guide is read: each is a home folder and a bash of its own, on one real machine.

What differs from a reader's machines, and nothing else does:

- `uv` puts the installed program into the home's `~/.local/bin`, because no index has it.
- `systemctl` stands for a systemd that runs: it starts what the unit says, and waits until that is
  ready. `sudo` and `loginctl` do nothing.
- `scp` copies between the homes. `/mnt/` is one folder that all of them have.
- Names of hosts are addresses of loopback, and ports are free ones: see `Machines.real`.
- `npm` takes the package that `make players` installs; without that there is none.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from harness import COMMAND_TIMEOUT_S
from waiting import until

_END = "--end of the command--"
_PROGRAM = Path(sys.executable).with_name("tqstudio")
HLS_JS = Path(__file__).resolve().parents[1] / "players" / "node_modules" / "hls.js"
_STAND_INS = {
    "uv": (
        '#!/bin/sh\n[ "$*" = "tool install tqstudio" ] && mkdir -p ~/.local/bin && '
        f"ln -sf {_PROGRAM} ~/.local/bin/\n"
    ),
    "sudo": "#!/bin/sh\n",
    "loginctl": "#!/bin/sh\n",
    "systemctl": f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("systemctl.py")} "$@"\n',
    "scp": (
        '#!/bin/sh\nfor last; do :; done\nmkdir -p "HOMES/${last%%:*}"\n'
        'for file; do [ "$file" = "$last" ] || cp "$file" "HOMES/${last%%:*}/${last#*:}"; done\n'
    ),
    "npm": (
        f'#!/bin/sh\nmkdir -p "$3/node_modules"\n[ ! -d {HLS_JS} ] || cp -r {HLS_JS} "$3/node_modules/"\n'
    ),
}


class Machines:
    """The machines of one guide, made as they are named.

    Args:
        real: what stands in the guide → what is meant on this machine.
    """

    def __init__(self, root: Path, real: dict[str, str]) -> None:
        self._root = root
        self._real = real
        self._shells: dict[str, Shell] = {}
        stand_ins = root / "bin"
        stand_ins.mkdir(parents=True)
        for name, text in _STAND_INS.items():
            (stand_ins / name).write_text(text.replace("HOMES", str(root)))
            (stand_ins / name).chmod(0o755)

    def real(self, text: str) -> str:
        """A text of the guide, for this machine."""
        for written, meant in self._real.items():
            text = text.replace(written, meant)
        return text

    def __getitem__(self, name: str) -> Shell:
        if name not in self._shells:
            home = self._root / name
            home.mkdir(exist_ok=True)
            self._shells[name] = Shell(home, self._root / "bin")
        return self._shells[name]

    def end(self) -> None:
        """End everything that the guide has started."""
        for shell in self._shells.values():
            shell.end()


class Shell:
    """A bash that keeps its folder, variables and what it runs in the background."""

    def __init__(self, home: Path, stand_ins: Path) -> None:
        self.home = home
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("TQSTUDIO_", "XDG_"))}
        path = f"{stand_ins}:{home / '.local' / 'bin'}:{os.environ['PATH']}"
        # Its interpreter has no folder of its own on the PATH: the program is there once it is installed.
        path = path.replace(f":{_PROGRAM.parent}:", ":")
        environment = kept | {"HOME": str(home), "PATH": path, "COLUMNS": "100", "HOSTNAME": home.name}
        self._bash = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=home,
            env=environment,
            text=True,
            start_new_session=True,
        )

    def run(self, command: str) -> tuple[int, str]:
        """Run a command; returns its exit status and all that it printed."""
        assert self._bash.stdin
        assert self._bash.stdout
        self._bash.stdin.write(f"{{ {command}\n}} </dev/null\nprintf '\\n%s%s\\n' '{_END}' $?\n")
        self._bash.stdin.flush()
        printed: list[str] = []
        for line in self._bash.stdout:
            if line.startswith(_END):
                return int(line.removeprefix(_END)), "".join(printed).rstrip("\n")
            printed.append(line)
        raise AssertionError(f"the shell ended at: {command}\n{''.join(printed)}")

    def end(self) -> None:
        for unit in (self.home / ".config" / "systemd" / "user").glob("*.pid"):
            _end(int(unit.read_text()))
        if (self.home / ".local" / "bin" / "tqstudio").exists():
            self.run("tqstudio down")
        os.killpg(self._bash.pid, signal.SIGTERM)
        self._bash.wait(COMMAND_TIMEOUT_S)


def _end(pid: int) -> None:
    """End a program that a stand-in started: no process here is its parent."""
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    until(lambda: not Path(f"/proc/{pid}").exists() or _is_zombie(pid), f"the end of {pid}")


def _is_zombie(pid: int) -> bool:
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True

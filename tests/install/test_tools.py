"""With pip, uv and pipx, from a wheelhouse without a network, in an empty home."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import module_names

from .conftest import BIN, HAS_NPM, Person

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("install")]

_PLAYER = ("hls.js.LICENSE", "hls.js")
"""From npm; a checkout has them only if it is there."""
_MAN = "share/man/man1/tqstudio.1"
_COMPLETIONS = {
    "share/bash-completion/completions/tqstudio",
    "share/zsh/site-functions/_tqstudio",
    "share/fish/vendor_completions.d/tqstudio.fish",
}


def _tool(name: str) -> Path:
    path = BIN / name
    return path if path.exists() else pytest.skip(f"{name} is not installed")


def _works(person: Person, program: Path) -> None:
    """It runs without its checkout, and has what a person needs beside it."""
    assert person(program, "--version").startswith("tqstudio ")
    python = program.resolve().with_name("python")
    package = Path(person(python, "-c", "import tqstudio; print(tqstudio.__path__[0])").strip())
    environment = program.resolve().parents[1]
    assert package.is_relative_to(environment), "it is not the checkout"
    missing = [name for name in (_MAN, *_COMPLETIONS) if not (environment / name).is_file()]
    assert missing == []
    static = Path("wings", "page", "static")
    served = {each.name for each in (module_names.ROOT / "src" / "tqstudio" / static).iterdir()}
    there = {each.name for each in (package / static).iterdir()}
    assert there - {*_PLAYER} == served - {*_PLAYER}
    unit = person(program, "service", "install", "--print")
    assert f'ExecStart="{python}" ' in unit, "not python3.11, which a newer one replaces"


def _is_found(person: Person) -> None:
    """A new shell finds the command in `~/.local/bin`, which is in the PATH by now."""
    found = person("bash", "-lic", "command -v tqstudio; tqstudio --version").split()
    assert found[:2] == [str(person.bin / "tqstudio"), "tqstudio"]


@pytest.mark.skipif(not HAS_NPM, reason="npm is not installed")
def test_the_wheel_carries_the_player_with_its_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        licence, code = (archive.read(f"tqstudio/wings/page/static/{name}") for name in _PLAYER)
    assert b"Copyright" in licence
    assert b"Hls" in code


@pytest.mark.skipif(not HAS_NPM, reason="npm is not installed")
def test_the_file_that_the_readme_makes_has_all_of_it(wheel: Path, tmp_path: Path) -> None:
    """With the build tools of the index."""
    build = (_tool("uv"), "build", "--wheel", "--out-dir", tmp_path)
    subprocess.run(build, cwd=module_names.ROOT, check=True, capture_output=True)
    assert zipfile.ZipFile(tmp_path / wheel.name).namelist() == zipfile.ZipFile(wheel).namelist()


def test_with_pip_in_a_bare_venv(offline: Person) -> None:
    offline(sys.executable, "-m", "venv", "venv")
    offline("venv/bin/pip", "install", "--quiet", "tqstudio[alerts,postgresql,redis]")
    program = offline.home / "venv" / "bin" / "tqstudio"
    _works(offline, program)
    offline(program.with_name("python"), "-c", "import apprise, psycopg, redis; psycopg.pq.version()")
    offline.encodes(program.with_name("python"))
    offline(program, "embed", "site")
    assert (offline.home / "site" / "a" / "index.html").is_file()


def test_with_uv(offline: Person, wheel: Path) -> None:
    uv, python = _tool("uv"), ("--python", sys.executable)
    offline(uv, "tool", "install", *python, wheel)
    program = offline.bin / "tqstudio"
    _works(offline, program)
    tools = Path(offline(uv, "tool", "dir").strip())
    assert (tools / "tqstudio" / _MAN).is_file(), "as docs/commands.md says"
    before = offline(program, "service", "install", "--print")
    offline(uv, "tool", "install", "--reinstall", *python, f"tqstudio[alerts] @ {wheel.as_uri()}")
    assert offline(program, "service", "install", "--print") == before, "a service survives that"
    offline(uv, "tool", "update-shell", SHELL="/bin/bash")
    _is_found(offline)
    offline(uv, "tool", "uninstall", "tqstudio")
    assert not program.exists()


def test_with_pipx(offline: Person, wheel: Path) -> None:
    pipx = _tool("pipx")
    offline(pipx, "install", "--python", sys.executable, wheel)
    _works(offline, offline.bin / "tqstudio")
    assert [name for name in (_MAN, *_COMPLETIONS) if not (offline.home / ".local" / name).is_file()] == []
    offline(pipx, "ensurepath", SHELL="/bin/bash")
    _is_found(offline)
    if shutil.which("man"):
        assert "HLS ladders" in offline("bash", "-lic", "man tqstudio", MANPAGER="cat", MANWIDTH="200")


@pytest.mark.parametrize(
    ("shell", "written"), [("bash", ".bash_completions/tqstudio.sh"), ("zsh", ".zfunc/_tqstudio")]
)
def test_completion_is_one_command_away(shell: str, written: str, offline: Person) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    offline(shell, "-c", f"{sys.executable} -m tqstudio --install-completion; exit $?")
    assert "_TQSTUDIO_COMPLETE" in (offline.home / written).read_text()

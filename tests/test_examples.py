"""The example files of compose and Kubernetes: what they say of tqstudio is what it understands."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import postgres
from tqstudio.cli.command_tree import root_command
from tqstudio.config import Settings
from tqstudio.protocol import remote
from tqstudio.protocol.roles import OPEN

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "examples").glob("*.yaml"))
FLEETS = [file for file in FILES if file.stem in ("compose.fleet", "kubernetes")]
"""Those with workers in containers of their own."""
STUDIOS = [*FLEETS, ROOT / "examples" / "compose.yaml"]
VARIANTS = [file for file in FILES if file not in STUDIOS]
"""What is added to `compose.yaml`."""
VARIABLES = {"TQSTUDIO_HOME", "TQSTUDIO_FFMPEG", "TQSTUDIO_CONNECT", "TQSTUDIO_TOKEN_FILE"}
"""Those that are no settings."""


def _documents(file: Path) -> list[Any]:
    return list(yaml.safe_load_all(file.read_text()))


def _inside(value: Any) -> Iterator[Any]:
    """Every value of a document, and the document."""
    yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _inside(each)


def _containers(file: Path) -> Iterator[dict[str, Any]]:
    """Those that run tqstudio's image, of compose or of pods."""
    for each in _inside(_documents(file)):
        if isinstance(each, dict) and "tqstudio" in str(each.get("image", "")):
            yield each


def _environment(container: dict[str, Any]) -> dict[str, Any]:
    """Its variables; the value of one that a secret holds is None."""
    if "environment" in container:
        return dict(container["environment"])
    return {each["name"]: each.get("value") for each in container.get("env", [])}


def _commands(file: Path) -> Iterator[list[str]]:
    """Every command line: of containers, after the entry point, and those in the comments."""
    for container in _containers(file):
        words = container.get("args" if "env" in container else "command", [])
        if words and words[0] != "install":
            yield words
    for line in re.findall(
        r"^#.* exec .*(?:--|studio) tqstudio ([^>\")\n]*)", file.read_text(), re.MULTILINE
    ):
        if words := line.partition("#")[0].split():
            yield words


@pytest.mark.parametrize("file", STUDIOS, ids=lambda file: file.name)
def test_every_variable_is_a_setting_with_a_value_that_is_taken(file: Path) -> None:
    found = {name: value for each in _containers(file) for name, value in _environment(each).items()}
    ours = {name: value for name, value in found.items() if name.startswith("TQSTUDIO_")}
    keys = {name: name.removeprefix("TQSTUDIO_").lower() for name in ours.keys() - VARIABLES}
    assert keys
    assert set(keys.values()) - Settings.model_fields.keys() == set()
    Settings(**{keys[name]: value for name, value in ours.items() if name in keys and value is not None})


@pytest.mark.parametrize("file", STUDIOS, ids=lambda file: file.name)
def test_every_command_is_understood(file: Path) -> None:
    commands = list(_commands(file))
    expected = {"worker", "token", "folder"} if file in FLEETS else {"folder"}
    assert expected <= {word for words in commands for word in words}
    for words in commands:
        _parse(words)


@pytest.mark.parametrize("words", ["worker run --slot-count 2", "workers run", "worker", "token create"])
def test_a_command_that_is_wrong_is_noticed(words: str) -> None:
    with pytest.raises(Exception, match=r"No such|Missing|no command"):
        _parse(words.split())


def _parse(words: list[str]) -> None:
    """Read a command line by the real tree of commands, and run nothing.

    Raises:
        TyperException: it is wrong.
    """
    command: Any = root_command()
    context = command.make_context("tqstudio", list(words))
    while rest := [*getattr(context, "_protected_args", ()), *context.args]:
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
        if not hasattr(command, "resolve_command"):
            return
    raise AssertionError(f"no command in {words}")


@pytest.mark.parametrize("file", FLEETS, ids=lambda file: file.name)
def test_the_connection_of_workers_can_be_used(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [text] = [each for each in _inside(_documents(file)) if isinstance(each, str) and each.startswith("[")]
    token = tmp_path / "token"
    token.touch(0o600)
    # The files that a container mounts; without a certificate of its own, that of the system is used.
    text = re.sub('token_file = ".*"', f'token_file = "{token}"', text).replace("/tls/ca.crt", "")
    (tmp_path / "connections.toml").write_text(text)
    monkeypatch.setenv("TQSTUDIO_HOME", str(tmp_path))
    monkeypatch.setenv(remote.CONNECT, "fleet")
    at = remote.chosen()
    assert at is not None
    names = {_environment(each).get("TQSTUDIO_HOSTS") for each in _containers(file)}
    ports = {_environment(each).get("TQSTUDIO_LISTEN", "").rpartition(":")[2] for each in _containers(file)}
    assert at.host in names
    assert str(at.port) in ports


def test_the_probes_are_calls_that_need_no_token() -> None:
    everything = _inside(_documents(ROOT / "examples" / "kubernetes.yaml"))
    found = {each["path"] for each in everything if isinstance(each, dict) and "scheme" in each}
    assert found == {"/health", "/ready"}
    assert {f"GET {path}" for path in found} <= OPEN


def test_workers_with_gpus_run_where_there_are_some() -> None:
    [pod] = [
        each
        for each in _inside(_documents(ROOT / "examples" / "kubernetes.yaml"))
        if isinstance(each, dict) and "nodeSelector" in each
    ]
    [container] = pod["containers"]
    assert "--gpu" in container["args"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert all(label.startswith("nvidia.com/") for label in pod["nodeSelector"])
    # What a pod mounts has to be among its volumes, or claimed for it.
    volumes = {each["name"] for each in pod["volumes"]} | {"work"}
    assert {each["name"] for each in container["volumeMounts"]} <= volumes


def test_the_server_of_the_database_is_a_version_that_tests_have_started() -> None:
    [compose] = _documents(ROOT / "examples" / "compose.fleet.yaml")
    database = compose["services"]["database"]
    version = int(database["image"].rpartition(":")[2])
    assert version in (postgres.OLDEST, postgres.NEWEST)
    # Its image refuses a volume at the folder that those before 18 kept their files in.
    assert database["volumes"] == [
        "database:/var/lib/postgresql" if version >= 18 else "database:/var/lib/postgresql/data"
    ]


def test_the_image_has_the_extras_that_settings_need() -> None:
    assert "tqstudio[postgresql,redis,alerts]" in CONTAINERFILE


# The image, and what is added to the studio on one machine.

CONTAINERFILE = (ROOT / "Containerfile").read_text()
TARGETS = set(re.findall(r"^FROM \S+ AS (\w+)$", CONTAINERFILE, re.MULTILINE))
ENTRY = ROOT / "container" / "tqstudio"


def _added(name: str) -> dict[str, Any]:
    """What a variant adds to the service."""
    [document] = _documents(ROOT / "examples" / f"compose.{name}.yaml")
    assert set(document["services"]) == {"studio"}
    return dict(document["services"]["studio"])


@pytest.mark.parametrize("file", VARIANTS, ids=lambda file: file.name)
def test_a_variant_adds_to_the_service_of_the_studio(file: Path) -> None:
    [base] = _documents(ROOT / "examples" / "compose.yaml")
    added = _added(file.name.split(".")[1])
    # Lists are joined by compose, and mappings merged; what is neither is replaced on purpose.
    replaced = {
        key for key in added.keys() & base["services"]["studio"] if not isinstance(added[key], dict | list)
    }
    assert replaced <= {"image"}
    assert added.get("build", {}).get("target", "cpu") in TARGETS
    assert set(added.get("build", {}).get("args", {})) <= set(
        re.findall(r"^ARG (\w+)", CONTAINERFILE, re.MULTILINE)
    )


def test_the_variant_of_nvidia_asks_for_the_gpus_with_their_video_libraries() -> None:
    added = _added("nvidia")
    capabilities = added["environment"]["NVIDIA_DRIVER_CAPABILITIES"]
    assert set(capabilities.split(",")) == {"video", "compute", "utility"}
    # Also without compose.
    assert f"NVIDIA_DRIVER_CAPABILITIES={capabilities}" in CONTAINERFILE
    [device] = added["deploy"]["resources"]["reservations"]["devices"]
    assert (device["driver"], device["capabilities"]) == ("nvidia", ["gpu"])


def test_the_variant_of_intel_and_amd_has_drivers_and_devices() -> None:
    added = _added("vaapi-qsv")
    assert added["devices"] == ["/dev/dri:/dev/dri"]
    assert added["build"]["target"] == "gpu"
    assert {"libva-drm2", "mesa-va-drivers", "libmfx-gen1.2"} <= set(re.findall(r"[\w.-]+", CONTAINERFILE))


def test_the_variant_of_vulkan_has_its_driver() -> None:
    assert _added("vulkan")["build"]["target"] == "gpu"
    assert "mesa-vulkan-drivers" in CONTAINERFILE


def test_a_container_is_given_the_time_that_jobs_need_to_stop() -> None:
    [base] = _documents(ROOT / "examples" / "compose.yaml")
    studio = base["services"]["studio"]
    assert int(studio["stop_grace_period"].removesuffix("s")) == Settings().drain_s + 60
    targets = {each.split(":")[1] for each in studio["volumes"]}
    assert targets == set(re.findall(r'"(/\w+)"', CONTAINERFILE.partition("VOLUME")[2].partition("\n")[0]))


def test_what_the_image_copies_is_sent_to_the_build() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    tracked = {name for name in kept if (ROOT / name).exists()}
    project = (ROOT / "pyproject.toml").read_text()
    needed = set(re.findall(r'^"([\w.]+)(?:/[\w.]+)?" = "', project, re.MULTILINE))
    assert {"src", "container", "pyproject.toml", "requirements.lock", *needed} <= tracked
    # What a clone holds of hls.js would be in the wheel twice.
    generated = [line[1:] for line in (ROOT / ".gitignore").read_text().splitlines() if "/static/" in line]
    assert generated
    assert set(generated) <= set((ROOT / ".dockerignore").read_text().splitlines())


# The entry point, run as it is by root or a user. What needs a whole container is in tests/machine.


def _enter(tmp_path: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the entry point with a program in tqstudio's place that prints who it is."""
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\necho "$(id -u):$(id -g):$(id -G) $(umask) $HOME $*"\n')
    script = tmp_path / "entry"
    text = ENTRY.read_text().replace("/opt/tqstudio/bin/tqstudio", str(program))
    for folder in ("/output", "/drop"):
        (tmp_path / folder[1:]).mkdir()
        text = re.sub(rf"(?<=\s){folder}(?=\W)", str(tmp_path / folder[1:]), text)
    script.write_text(text)
    for each in (program, script):
        each.chmod(0o755)
    environment = {"PATH": os.environ["PATH"], "TQSTUDIO_HOME": str(tmp_path / "home"), **variables}
    return subprocess.run([script, *words], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may enter, with a home."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        (Path(folder) / "home").mkdir()
        yield Path(folder)


def test_the_entry_point_takes_the_umask(place: Path) -> None:
    run = _enter(place, "status", UMASK="077", PUID=str(os.getuid()), PGID=str(os.getgid()))
    assert run.returncode == 0, run.stderr
    assert run.stdout.split()[-3:] == ["0077", str(place / "home"), "status"]


@pytest.mark.parametrize(
    "variables", [{"PUID": "me"}, {"PGID": "-1"}, {"UMASK": "8"}, {"UMASK": "rwx"}, {"UMASK": "7777"}]
)
def test_the_entry_point_refuses_what_is_no_number(place: Path, variables: dict[str, str]) -> None:
    run = _enter(place, "up", **variables)
    assert (run.returncode, run.stdout) == (2, "")
    [(name, value)] = variables.items()
    assert f"{name}={value}" in run.stderr
    assert "→" in run.stderr


AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")


@AS_ROOT
def test_the_entry_point_becomes_that_user_and_gives_it_new_volumes(place: Path) -> None:
    run = _enter(place, "up", PUID="23456", PGID="34567")
    assert run.stdout.startswith("23456:34567:"), run.stderr
    assert "0" not in run.stdout.split()[0].split(":")[2:]
    home = (place / "home").stat()
    assert (home.st_uid, home.st_gid, home.st_mode & 0o777) == (23456, 34567, 0o700)


@AS_ROOT
def test_the_entry_point_leaves_files_of_others_as_they_are(place: Path) -> None:
    (place / "home" / "tqstudio.db").touch()
    run = _enter(place, "up", PUID="23456", PGID="34567")
    assert (run.returncode, run.stdout) == (2, "")
    assert "belongs to 0:0, not to PUID=23456 PGID=34567" in run.stderr
    assert "chown -R 23456:34567" in run.stderr
    assert (place / "home").stat().st_uid == 0


@AS_ROOT
def test_another_command_than_a_start_changes_no_folder(place: Path) -> None:
    assert _enter(place, "status", PUID="23456").returncode == 0
    assert (place / "home").stat().st_uid == 0


@AS_ROOT
def test_root_is_used_if_it_is_named_but_not_silently(place: Path) -> None:
    run = _enter(place, "up", PUID="0", PGID="0")
    assert run.stdout.startswith("0:0:")
    assert "runs as root" in run.stderr

"""The example files of compose and Kubernetes: what they say of tqstudio is what it understands."""

from __future__ import annotations

import re
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
        yield line.split()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_variable_is_a_setting_with_a_value_that_is_taken(file: Path) -> None:
    found = {name: value for each in _containers(file) for name, value in _environment(each).items()}
    ours = {name: value for name, value in found.items() if name.startswith("TQSTUDIO_")}
    keys = {name: name.removeprefix("TQSTUDIO_").lower() for name in ours.keys() - VARIABLES}
    assert keys
    assert set(keys.values()) - Settings.model_fields.keys() == set()
    Settings(**{keys[name]: value for name, value in ours.items() if name in keys and value is not None})


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_command_is_understood(file: Path) -> None:
    commands = list(_commands(file))
    assert {"worker", "token", "folder"} <= {word for words in commands for word in words}
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


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
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
    [compose] = _documents(ROOT / "examples" / "compose.yaml")
    database = compose["services"]["database"]
    version = int(database["image"].rpartition(":")[2])
    assert version in (postgres.OLDEST, postgres.NEWEST)
    # Its image refuses a volume at the folder that those before 18 kept their files in.
    assert database["volumes"] == [
        "database:/var/lib/postgresql" if version >= 18 else "database:/var/lib/postgresql/data"
    ]


def test_the_image_has_the_driver_of_the_database() -> None:
    assert "tqstudio[postgresql]" in (ROOT / "Containerfile").read_text()

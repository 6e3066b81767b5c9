"""An ffmpeg that cannot be confined: `doctor` warns of it, and `require_confinement` refuses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import Answer, Program
from tqstudio.config import Settings
from tqstudio.engine.media.ffmpeg.binary import locate


@pytest.fixture
def script(tmp_path: Path) -> str:
    """A wrapper of the user around ffmpeg."""
    path = tmp_path / "ffmpeg.sh"
    path.write_text(f'#!/bin/sh\nexec "{locate().path}" "$@"\n')
    path.chmod(0o755)
    return str(path)


def _confinement(examined: Answer) -> Any:
    return next(each for each in examined.json()["checks"] if each["name"] == "confinement")


def test_doctor_warns_of_an_ffmpeg_that_is_not_confined(tmp_path: Path, script: str) -> None:
    found = _confinement(Program(tmp_path / "home", TQSTUDIO_FFMPEG=script)("doctor", "--json"))
    assert (found["level"], found["detail"][:6]) == ("warn", "none: ")
    assert script in found["detail"]
    assert "require_confinement" in found["hint"]


@pytest.mark.slow
def test_a_start_that_requires_confinement_refuses_a_script(tmp_path: Path, script: str) -> None:
    strict = Program(tmp_path / "home", TQSTUDIO_FFMPEG=script, TQSTUDIO_REQUIRE_CONFINEMENT="true")
    refused = strict("up")
    assert refused.code == 2
    assert "BAD_CONFIG" in refused.err
    assert script in refused.err
    # The next step: a setting that can be changed.
    assert "TQSTUDIO_FFMPEG" in refused.err


@pytest.mark.parametrize(("gpu", "required"), [(True, False), (True, True), (False, False)])
def test_gpus_are_used_unless_confinement_is_required(gpu: bool, required: bool) -> None:
    settings = Settings(gpu=gpu, require_confinement=required)
    assert settings.uses_gpus is (gpu and not required)

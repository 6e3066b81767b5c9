"""`on_done` and `on_failed` after real encodes, in a supervisor that a command started for them."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.conftest import MakeClip, MakeStudio
from e2e.studio import PROFILE

_COMMAND = """
import json, os, sys
facts = {name: value for name, value in os.environ.items() if name.startswith("TQSTUDIO_")}
facts["exists"] = os.path.exists(facts["TQSTUDIO_MASTER"])
with open(sys.argv[1], "a") as file:
    print(json.dumps(facts), file=file)
"""


@pytest.mark.slow
def test_commands_get_the_facts_of_a_real_encode(
    make_studio: MakeStudio, clip: MakeClip, copy: Callable[[Path, str], Path], tmp_path: Path
) -> None:
    script, said = tmp_path / "command.py", tmp_path / "it said"
    script.write_text(_COMMAND)
    command = shlex.join([sys.executable, str(script), str(said)])
    studio = make_studio(on_done=command, on_failed=command, on_viewable=command)
    studio.write_profile("tiny", PROFILE.replace("description", 'first = "90p"\ndescription'))
    source = copy(clip(seconds=12), "holiday in “Rome”.mp4")
    broken = source.with_name("broken.mp4")
    broken.write_bytes(b"no video")
    with studio.paced(2):  # so that the others are still encoded when the first one is complete
        done = studio("process", "--input", source.parent, "--output", tmp_path / "out", "--json")
    assert done.code == 1
    # The command that started the supervisor ends after those that it runs.
    lines = [json.loads(line) for line in said.read_text().splitlines()]
    facts = {(each["TQSTUDIO_NAME"], each["TQSTUDIO_STATUS"]): each for each in lines}
    assert len(facts) == len(lines) == 3
    good, bad = facts[source.name, "done"], facts[broken.name, "failed"]
    viewable = facts[source.name, "viewable"]
    assert (viewable["TQSTUDIO_MASTER"], viewable["exists"]) == (good["TQSTUDIO_MASTER"], True)
    assert (good["TQSTUDIO_STATUS"], good["TQSTUDIO_ERROR_CODE"], good["exists"]) == ("done", "", True)
    assert good["TQSTUDIO_SOURCE"] == str(source)
    assert Path(good["TQSTUDIO_MASTER"]).is_relative_to(tmp_path / "out")
    assert (bad["TQSTUDIO_STATUS"], bad["TQSTUDIO_ERROR_CODE"], bad["exists"]) == (
        "failed",
        "NO_MEDIA",
        False,
    )
    assert bad["TQSTUDIO_ERROR"] != ""
    assert not studio.processes()

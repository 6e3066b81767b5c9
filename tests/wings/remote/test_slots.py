"""Several workers of one machine: what each of them is started with."""

from __future__ import annotations

from pathlib import Path

from tqstudio.wings.remote.worker.program import commands


def test_each_worker_has_its_name_its_folder_and_its_gpu() -> None:
    found = commands(Path("/w"), 2, "rack", ["--bandwidth=5"], gpu=True)
    assert found == {
        "rack": ["worker", "run", "--name=rack", "--work=/w/1", "--bandwidth=5", "--gpu", "--gpu-number=1"],
        "rack_2": [
            "worker",
            "run",
            "--name=rack_2",
            "--work=/w/2",
            "--bandwidth=5",
            "--gpu",
            "--gpu-number=2",
        ],
    }
    on_cpu = commands(Path("/w"), 2, "rack", [], gpu=False)
    assert on_cpu["rack_2"] == ["worker", "run", "--name=rack_2", "--work=/w/2"]

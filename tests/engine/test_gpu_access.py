"""What `doctor` says of GPUs that the machine has and tqstudio cannot use, by folder trees."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tqstudio.engine.monitoring.gpu_access import explains, is_container, problems
from tqstudio.protocol.answers import CheckView

NVIDIA = ("libcuda.so.1", "libnvidia-encode.so.1", "libnvcuvid.so.1")
INTEL, AMD = "0x8086", "0x1002"
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


class Machine:
    """The files of a machine or container that say what GPUs it has."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.libraries = root / "usr/lib/x86_64-linux-gnu"

    def put(self, *names: str, folder: Path | None = None) -> None:
        for name in names:
            path = (folder or self.root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def install(self, *names: str) -> None:
        self.put(*names, folder=self.libraries)

    def install_va(self, version: str = "2200") -> None:
        self.install("libdrm.so.2", "libva-drm.so.2", f"libva.so.2.{version}.0")
        (self.libraries / "libva.so.2").symlink_to(f"libva.so.2.{version}.0")

    def render_node(self, vendor: str, *, given: bool = True) -> Path:
        node = self.root / "dev/dri/renderD128"
        self.put("sys/class/drm/renderD128/device/vendor", *(["dev/dri/renderD128"] if given else []))
        (self.root / "sys/class/drm/renderD128/device/vendor").write_text(f"{vendor}\n")
        return node

    def found(self, *working: str, contained: bool = True, **environment: str) -> list[CheckView]:
        found = list(problems(working, root=self.root, environment=environment, contained=contained))
        assert all(each["level"] == "warn" and each["hint"] for each in found)
        return found

    def hint(self, *, contained: bool = True, **environment: str) -> str:
        """The next step; there is one problem."""
        [each] = self.found(contained=contained, **environment)
        return each["hint"]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("contained", [True, False])
def test_a_machine_without_a_gpu_lacks_nothing(machine: Machine, contained: bool) -> None:
    assert machine.found(contained=contained) == []


def test_a_container_without_the_gpu_of_the_machine_is_to_be_given_it(machine: Machine) -> None:
    machine.put("proc/driver/nvidia/version")
    assert "gpus: all" in machine.hint()
    assert "Toolkit" not in machine.hint()


@pytest.mark.parametrize(
    ("vendor", "claim"), [(None, "nvidia.com/gpu"), (INTEL, "gpu.intel.com/i915"), (AMD, "amd.com/gpu")]
)
def test_a_pod_without_the_gpu_of_its_node_is_to_claim_it(
    machine: Machine, vendor: str | None, claim: str
) -> None:
    if vendor:
        machine.render_node(vendor, given=False)
    else:
        machine.put("proc/driver/nvidia/version")
    hint = machine.hint(**POD)
    assert f"resources: {{limits: {{{claim}: 1}}}}" in hint
    assert "compose" not in hint


def test_a_container_that_asks_for_gpus_without_the_toolkit_names_it(machine: Machine) -> None:
    assert "Container Toolkit" in machine.hint(NVIDIA_VISIBLE_DEVICES="all")
    assert machine.found(NVIDIA_VISIBLE_DEVICES="void") == []
    assert machine.found(NVIDIA_VISIBLE_DEVICES="all", contained=False) == []


@pytest.mark.parametrize("there", range(3))
def test_libraries_that_the_toolkit_left_out_are_named_with_the_capabilities(
    machine: Machine, there: int
) -> None:
    machine.put("dev/nvidia0")
    machine.install(*NVIDIA[:there])
    [found] = machine.found()
    assert found["detail"].endswith(", ".join(NVIDIA[there:]))
    assert "NVIDIA_DRIVER_CAPABILITIES=video,compute,utility" in found["hint"]
    assert "apt" not in found["hint"]
    assert "libnvidia-encode1" in machine.hint(contained=False)
    machine.install(*NVIDIA)
    assert machine.found() == []


def test_libraries_are_found_where_the_loader_finds_them(machine: Machine) -> None:
    machine.put("dev/nvidia0")
    machine.put(*NVIDIA[:2], folder=machine.root / "opt/cuda")
    machine.put(NVIDIA[2], folder=machine.root / "srv/more")
    machine.put("etc/ld.so.conf.d/cuda.conf")
    assert machine.found() != []
    (machine.root / "etc/ld.so.conf.d/cuda.conf").write_text("# NVIDIA\n/opt/cuda\n")
    assert machine.found(LD_LIBRARY_PATH="/srv/more") == []


def test_a_gpu_that_works_lacks_nothing(machine: Machine) -> None:
    machine.put("dev/nvidia0")
    node = machine.render_node(INTEL)
    nvidia, intel = machine.found()
    assert explains([nvidia], "Tesla T4 (0)")
    assert not explains([intel], "Tesla T4 (0)")
    assert explains([intel], f"GPU ({node})")
    assert not explains([nvidia], f"GPU ({node})")
    assert machine.found("0", str(node)) == []


def test_missing_device_files_of_a_loaded_driver_are_created(machine: Machine) -> None:
    machine.put("proc/driver/nvidia/version")
    assert "nvidia-modprobe" in machine.hint(contained=False)


@pytest.mark.parametrize("vendor", [INTEL, AMD])
def test_a_container_without_the_render_node_of_the_machine_is_to_be_given_it(
    machine: Machine, vendor: str
) -> None:
    machine.render_node(vendor, given=False)
    assert "devices: [/dev/dri:/dev/dri]" in machine.hint()
    # Without a container, the kernel has not made it yet.
    assert machine.found(contained=False) == []


def test_nodes_of_other_drivers_are_left_alone(machine: Machine) -> None:
    machine.render_node("0x10de")
    machine.put("sys/class/drm/renderD129/device/vendor")
    assert machine.found() == []


@pytest.mark.parametrize(("vendor", "package"), [(INTEL, "intel-media-va-driver"), (AMD, "mesa-va-drivers")])
def test_missing_libraries_and_drivers_are_in_the_other_image(
    machine: Machine, vendor: str, package: str
) -> None:
    machine.render_node(vendor)
    assert "target: gpu" in machine.hint()
    assert "apt install libva-drm2" in machine.hint(contained=False)
    machine.install_va()
    assert "target: gpu" in machine.hint()
    assert f"apt install {package}" in machine.hint(contained=False)
    machine.install("dri/iHD_drv_video.so" if vendor == INTEL else "dri/radeonsi_drv_video.so")
    assert machine.found() == []


def test_a_libva_that_the_carried_ffmpeg_cannot_use_is_named(machine: Machine) -> None:
    machine.render_node(INTEL)
    machine.install("dri/iHD_drv_video.so")
    machine.install_va("1700")
    [found] = machine.found(contained=False)
    assert "libva 2.17 is older than 2.21" in found["detail"]
    assert "TQSTUDIO_FFMPEG" in found["hint"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who may open any file and become another user")
def test_the_group_of_a_closed_node_is_named_by_its_number() -> None:
    # Not in tmp_path, which other users may not enter.
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder))
        node = machine.render_node(INTEL)
        machine.root.chmod(0o755)
        os.chown(node, 0, 23456)
        node.chmod(0o660)
        inside, in_pod, outside = _as_other_user(machine.root)
    assert '--group-add 23456 (compose: group_add: ["23456"])' in inside
    assert "securityContext: {supplementalGroups: [23456]}" in in_pod
    assert 'sudo usermod -aG 23456 "$USER"' in outside


def _as_other_user(root: Path) -> list[str]:
    """The hints that a user without rights gets: in a container, in a pod, without a container."""
    code = (
        "import os, sys; from pathlib import Path\n"
        "from tqstudio.engine.monitoring.gpu_access import problems\n"
        "os.setgroups([]); os.setgid(65000); os.setuid(65000)\n"
        f"for environment, contained in (({{}}, True), ({POD}, True), ({{}}, False)):\n"
        "    [found] = problems(root=Path(sys.argv[1]), environment=environment, contained=contained)\n"
        "    print(found['hint'])\n"
    )
    run = subprocess.run([sys.executable, "-c", code, root], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


@pytest.mark.parametrize(
    "mark",
    [
        lambda root: (root / ".dockerenv").touch(),
        lambda root: (root / "run/.containerenv").touch(),
        lambda root: (root / "proc/1/cgroup").write_text("0::/docker/4f2a\n"),
        lambda root: (root / "proc/1/cgroup").write_text("4:memory:/kubepods/besteffort/pod1\n"),
    ],
)
def test_a_container_is_noticed(tmp_path: Path, mark: Callable[[Path], object]) -> None:
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "run").mkdir()
    (tmp_path / "proc/1/cgroup").write_text("0::/init.scope\n")
    assert not is_container(tmp_path, {})
    assert not is_container(tmp_path, {"container": "lxc"})
    assert is_container(tmp_path, {"container": "podman"})
    assert is_container(tmp_path, POD)
    mark(tmp_path)
    assert is_container(tmp_path, {})

"""Finds why a GPU of the machine cannot be used, for `doctor`: devices, permissions, drivers and libraries.

In a container each finding names the line that adds what is missing, of a command, compose or a pod.
"""

from __future__ import annotations

import contextlib
import grp
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from tqstudio.protocol.answers import CheckView, check_view

_ENGINES = re.compile(r"docker|libpod|kubepods|containerd|crio")
_NVIDIA_NODE = re.compile(r"nvidia\d+")
_NVIDIA_LIBRARIES = ("libcuda.so.1", "libnvidia-encode.so.1", "libnvcuvid.so.1")
_VA_LIBRARIES = ("libdrm.so.2", "libva.so.2", "libva-drm.so.2")
_OLDEST_VA = 21
"""The minor version of libva that has what the carried ffmpeg calls to fill a frame."""
_VA_DRIVERS = {
    "0x8086": ("Intel", ("iHD_drv_video.so", "i965_drv_video.so"), "intel-media-va-driver"),
    "0x1002": ("AMD", ("radeonsi_drv_video.so",), "mesa-va-drivers"),
}
"""Vendor → its name, its VAAPI drivers, Debian's package."""
_RESOURCES = {"Intel": "gpu.intel.com/i915", "AMD": "amd.com/gpu", "NVIDIA": "nvidia.com/gpu"}
"""What the device plugins of Kubernetes call a GPU."""
_LIBRARY_FOLDERS = ("usr/lib/*-linux-gnu", "usr/lib64", "usr/lib", "usr/local/lib", "usr/lib/wsl/lib")
_OVERFLOW_GROUP = 65534
_POD = "KUBERNETES_SERVICE_HOST"
"""The variable that each container of a pod has."""
_GPU_IMAGE = "use the image with drivers: --target gpu (compose: build: {target: gpu})"


def is_container(root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this runs in a container of Docker, Podman or Kubernetes."""
    if (root / ".dockerenv").exists() or (root / "run/.containerenv").exists():
        return True
    if _POD in environment or environment.get("container") in ("docker", "podman", "oci"):
        return True
    return bool(_ENGINES.search(_text(root / "proc/1/cgroup")))


def problems(
    working: Collection[str] = (),
    *,
    root: Path = Path("/"),
    environment: Mapping[str, str] = os.environ,
    contained: bool | None = None,
) -> Iterator[CheckView]:
    """Find what keeps each GPU that does not work from being used.

    Args:
        working: devices that passed their trial, as in `hardware.Device.node`.
        root: where `dev`, `proc`, `sys` and the libraries are.
        contained: whether to name the lines of a container.
    """
    if contained is None:
        contained = is_container(root, environment)
    libraries = _library_folders(root, environment)
    if not any(node.isdigit() for node in working):
        yield from _nvidia(root, environment, libraries, contained)
    nodes = [path for folder in ("dev/dri", "sys/class/drm") for path in (root / folder).glob("renderD*")]
    for name in sorted({node.name for node in nodes}):
        vendor = _text(root / "sys/class/drm" / name / "device/vendor").strip()
        if str(root / "dev/dri" / name) not in working and vendor != "0x10de":
            yield from _render_node(root, environment, name, vendor, libraries, contained)


def explains(found: Iterable[CheckView], place: str) -> bool:
    """Whether one of these problems is that of a GPU, such as `GPU (/dev/dri/renderD128)`."""
    node = place.rpartition("(")[2].removesuffix(")")
    name = "NVIDIA" if node.isdigit() else node.rpartition("/")[2]
    return any(each["name"] == f"gpu access {name}" for each in found)


def _nvidia(
    root: Path, environment: Mapping[str, str], libraries: list[Path], contained: bool
) -> Iterator[CheckView]:
    nodes = [*filter(_NVIDIA_NODE.fullmatch, (path.name for path in (root / "dev").glob("nvidia*")))]
    if nodes or (root / "dev/dxg").exists():
        missing = [name for name in _NVIDIA_LIBRARIES if not _find(libraries, name)]
        if missing:
            hint = (
                "set NVIDIA_DRIVER_CAPABILITIES=video,compute,utility for the container"
                if contained
                else "install those of the driver's version (Debian: libcuda1 libnvidia-encode1 libnvcuvid1)"
            )
            detail = f"libraries of the driver are missing: {', '.join(missing)}"
            yield check_view("gpu access NVIDIA", "warn", detail, hint)
        return
    asked = environment.get("NVIDIA_VISIBLE_DEVICES", "void") not in ("", "void", "none")
    driver = (root / "proc/driver/nvidia/version").exists()
    if not contained and driver:
        detail = "the driver is loaded, but /dev/nvidia0 is missing"
        hint = "create its device files: sudo nvidia-modprobe -u -c=0; nvidia-persistenced does at each boot"
        yield check_view("gpu access NVIDIA", "warn", detail, hint)
    elif contained and (asked or driver):
        hint = "start the container with --gpus all (compose: gpus: all; Podman: --device nvidia.com/gpu=all)"
        if _POD in environment:
            hint = _claiming("NVIDIA")
        detail = "the machine has an NVIDIA GPU, the container does not: no /dev/nvidia0"
        if not driver:
            detail = "the container is to use an NVIDIA GPU, but has no /dev/nvidia0"
            hint += ", and install the NVIDIA Container Toolkit on the host"
        yield check_view("gpu access NVIDIA", "warn", detail, hint)


def _render_node(
    root: Path,
    environment: Mapping[str, str],
    name: str,
    vendor: str,
    libraries: list[Path],
    contained: bool,
) -> Iterator[CheckView]:
    """Say the first thing that a render node lacks."""
    brand, drivers, package = _VA_DRIVERS.get(vendor, ("", (), ""))
    shown, path = f"/dev/dri/{name}", root / "dev/dri" / name

    def finding(detail: str, hint: str) -> CheckView:
        return check_view(f"gpu access {name}", "warn", detail, hint)

    if not path.exists():
        if contained and brand:
            hint = "give it to the container: --device /dev/dri (compose: devices: [/dev/dri:/dev/dri])"
            if _POD in environment:
                hint = _claiming(brand)
            yield finding(f"the machine has an {brand} GPU, the container does not: no {shown}", hint)
    elif not os.access(path, os.R_OK | os.W_OK):
        found = path.stat()
        detail = f"{shown} cannot be opened by uid {os.geteuid()}: its group is {found.st_gid}"
        yield finding(detail, _joining(found.st_gid, environment, contained))
    elif missing := [each for each in _VA_LIBRARIES if not _find(libraries, each)]:
        hint = _GPU_IMAGE if contained else "install them: sudo apt install libva-drm2"
        yield finding(f"libraries of VAAPI are missing: {', '.join(missing)}", hint)
    elif drivers and not any(_find([each / "dri" for each in libraries], driver) for driver in drivers):
        hint = _GPU_IMAGE if contained else f"install it: sudo apt install {package}"
        yield finding(f"the VAAPI driver of {brand} is missing: {' or '.join(drivers)}", hint)
    elif (minor := _va_minor(libraries)) is not None and minor < _OLDEST_VA:
        hint = (
            "set TQSTUDIO_FFMPEG=/usr/bin/ffmpeg, or use a system with a newer one (Debian 13, Ubuntu 24.10)"
        )
        yield finding(f"libva 2.{minor} is older than 2.{_OLDEST_VA}, which the carried ffmpeg needs", hint)


def _claiming(brand: str) -> str:
    """How a pod gets a GPU."""
    limit = f"resources: {{limits: {{{_RESOURCES[brand]}: 1}}}}"
    return f"with the device plugin of {brand}, give it to the pod: {limit}"


def _joining(group: int, environment: Mapping[str, str], contained: bool) -> str:
    """How the user gets into a group."""
    if not contained:
        name = str(group)
        with contextlib.suppress(KeyError):
            name = grp.getgrgid(group).gr_name
        return f'become a member of that group and log in again: sudo usermod -aG {name} "$USER"'
    if _POD in environment:
        return f"add the group to the pod: securityContext: {{supplementalGroups: [{group}]}}"
    if group == _OVERFLOW_GROUP:
        return "start the container with --group-add keep-groups, as a user in its group on the host"
    return f'add the group to the container: --group-add {group} (compose: group_add: ["{group}"])'


def _library_folders(root: Path, environment: Mapping[str, str]) -> list[Path]:
    """Where the loader looks."""
    lines = (_text(path).split() for path in sorted((root / "etc/ld.so.conf.d").glob("*.conf")))
    words = [word for line in lines for word in line] + environment.get("LD_LIBRARY_PATH", "").split(":")
    named = [word.lstrip("/") for word in words if word.startswith("/")]
    return [folder for pattern in (*_LIBRARY_FOLDERS, *dict.fromkeys(named)) for folder in root.glob(pattern)]


def _find(folders: list[Path], name: str) -> Path | None:
    return next((folder / name for folder in folders if (folder / name).exists()), None)


def _va_minor(libraries: list[Path]) -> int | None:
    """The minor version of libva, of whose file name it is part: `libva.so.2.2200.0` is 2.22."""
    library = _find(libraries, "libva.so.2")
    found = re.search(r"\.so\.2\.(\d+)\d\d\.", library.resolve().name) if library else None
    return int(found[1]) if found else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""

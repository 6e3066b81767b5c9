"""GPUs are found by encoding with them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tqstudio.engine.media.ffmpeg import hardware, trial_runs
from tqstudio.engine.media.ffmpeg.binary import FFmpeg, locate
from tqstudio.engine.media.ffmpeg.hardware import TrialResults
from tqstudio.engine.media.ffmpeg.trial_runs import compiled_encoders
from tqstudio.engine.media.plan.profiles import Profile, RungSpec
from tqstudio.errors import ErrorCode, TqError

from .conftest import MakeClip, MakeEncode, run_to_end
from .gpus import in_place_of_gpus
from .gpus import patient as patient

pytestmark = pytest.mark.xdist_group("hardware")
"""The trials of the first start serve all tests."""


def require_compiled(ffmpeg: FFmpeg, *encoders: str) -> None:
    if not set(encoders) <= compiled_encoders(ffmpeg):
        pytest.skip(f"this ffmpeg was built without {' and '.join(encoders)}")


def test_every_nvidia_gpu_is_tried(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    require_compiled(ffmpeg, "h264_nvenc")
    answering = in_place_of_gpus(tmp_path / "ffmpeg", ffmpeg, "h264_nvenc")
    # Containers may hide the device nodes.
    found = hardware.discover(answering, dev=tmp_path, proc=tmp_path)
    assert found == [hardware.Device("gpu-0", "h264_nvenc", "0", "NVIDIA GPU")]
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    devices = hardware.discover(answering, dev=tmp_path)
    assert [(device.name, device.node) for device in devices] == [("gpu-0", "0"), ("gpu-1", "1")]


def test_it_reports_why_a_gpu_cannot_be_used(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    require_compiled(ffmpeg, "h264_nvenc")
    answering = in_place_of_gpus(tmp_path / "ffmpeg", ffmpeg)
    failed: dict[str, TqError] = {}
    hardware.discover(answering, dev=tmp_path, proc=tmp_path, decode=False, on_failed=failed.setdefault)
    assert not failed, "there may be none"
    (tmp_path / "nvidia0").touch()
    hardware.discover(answering, dev=tmp_path, proc=tmp_path, decode=False, on_failed=failed.setdefault)
    [(place, error)] = failed.items()
    assert place == "NVIDIA GPU (0)"
    assert "cannot load the driver" in error.message


@pytest.mark.slow
def test_decoders_are_tried_with_each_codec(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    require_compiled(ffmpeg, "h264_nvenc", "libx265", "libsvtav1")
    (tmp_path / "nvidia0").touch()
    model = tmp_path / "driver/nvidia/gpus/0000:01:00.0/information"
    model.parent.mkdir(parents=True)
    model.write_text("Model: \t\t NVIDIA H100 80GB HBM3\nIRQ: 42\n")

    def found(*encoders: str, decodes: tuple[str, ...], **options: bool) -> list[hardware.Device]:
        answering = in_place_of_gpus(tmp_path / "ffmpeg", ffmpeg, *encoders, decodes=decodes)
        return hardware.discover(answering, dev=tmp_path, proc=tmp_path, sys=tmp_path, **options)

    label = "NVIDIA H100 80GB HBM3"
    with_encoder = hardware.Device("gpu-0", "h264_nvenc", "0", label, "h264 hevc")
    assert found("h264_nvenc", decodes=("h264", "hevc")) == [with_encoder]
    assert found("h264_nvenc", decodes=("h264",), decode=False) == [replace(with_encoder, decodes="")]
    # A GPU for computing has no encoder.
    assert found(decodes=("h264", "av1")) == [hardware.Device("gpu-0", "", "0", label, "h264 av1")]
    assert found(decodes=("hevc",)) == []
    # Without a device node only what encodes is tried.
    (tmp_path / "nvidia0").unlink()
    assert found(decodes=("h264",)) == []


def counting(path: Path, ffmpeg: FFmpeg, log: Path) -> FFmpeg:
    """An ffmpeg that logs each run but those of `-version`."""
    path.write_text(
        f"""#!/bin/sh
case "$*" in -version) ;; *) echo "$*" >> "{log}" ;; esac
exec "{ffmpeg.path}" "$@"
"""
    )
    path.chmod(0o755)
    return locate(str(path))


class Machine:
    """A machine with an NVIDIA GPU and one of AMD, whose tests are counted."""

    def __init__(self, root: Path, ffmpeg: FFmpeg) -> None:
        self.root, self.log = root, root / "log"
        works = ("h264_nvenc", "h264_vaapi")
        stand_in = in_place_of_gpus(root / "stand-in", ffmpeg, *works, decodes=("h264",))
        self.ffmpeg = counting(root / "ffmpeg", stand_in, self.log)
        for name in ("nvidia0", "dri/renderD128"):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).touch()
        self.known = b""

    def reset(self) -> None:
        """Make it as it was, but for the results of its first trials."""
        self.now = 1_000_000.0
        shutil.rmtree(self.root / "driver", ignore_errors=True)
        shutil.rmtree(self.root / "class", ignore_errors=True)
        self.log.unlink(missing_ok=True)
        self.record.unlink(missing_ok=True)
        self.write(
            "driver/nvidia/version", "NVRM version: NVIDIA UNIX  570.86.15  Release Build\nGCC version\n"
        )
        self.write("driver/nvidia/gpus/0000:01:00.0/information", "Model: NVIDIA RTX 4090\n")
        self.write("sys/kernel/osrelease", "6.1.0-30-amd64\n")
        self.write("class/drm/renderD128/device/vendor", "0x1002\n")
        self.write("class/drm/renderD128/device/device", "0x744c\n")
        (self.root / "class/drm/renderD128/device/driver").symlink_to("/sys/bus/pci/drivers/amdgpu")

    @property
    def record(self) -> Path:
        return self.root / "gpu-trials.json"

    def has_started(self) -> None:
        """Have the record of a start, which runs its trials in the first test only."""
        if self.known:
            self.record.write_bytes(self.known)
            return
        assert self.runs() > 10
        self.known = self.record.read_bytes()

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def runs(self, **changes: object) -> int:
        """The runs of ffmpeg that a start needs, which must find the same GPUs."""
        self.log.unlink(missing_ok=True)
        known = TrialResults(self.record, clock=lambda: self.now)
        folders = {"dev": self.root, "proc": self.root, "sys": self.root}
        found = hardware.discover(self.ffmpeg, **folders, known=known, **changes)  # type: ignore[arg-type]
        assert [(device.label, device.encoders, device.decodes) for device in found] == [
            ("NVIDIA RTX 4090", "h264_nvenc", "h264"),
            ("AMD GPU", "h264_vaapi", "h264"),
        ]
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0


@pytest.fixture(scope="module")
def one_machine(ffmpeg: FFmpeg, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    require_compiled(ffmpeg, "h264_nvenc", "h264_qsv", "h264_vaapi", "libx265", "libsvtav1")
    return Machine(tmp_path_factory.mktemp("machine"), ffmpeg)


@pytest.fixture
def machine(one_machine: Machine) -> Machine:
    one_machine.reset()
    return one_machine


@pytest.mark.slow
def test_a_start_repeats_no_trial(machine: Machine) -> None:
    machine.has_started()
    assert machine.runs() == 0
    machine.now += 599
    assert machine.runs() == 0


# `-encoders` and what changed: of NVIDIA 3 encoders; for each of 3 decoders the clip and the run, for one
# that works two comparisons too. VAAPI is as NVENC, and first fails a run of QSV.
NVIDIA, RENDER_NODE = 3 + 3 * 2 + 2, 1 + 3 + 3 * 2 + 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "runs"),
    [
        ("driver/nvidia/version", "NVRM version: NVIDIA UNIX  580.65.06  Release Build\n", NVIDIA),
        ("driver/nvidia/gpus/0000:02:00.0/information", "Model: NVIDIA H100\n", NVIDIA),
        ("sys/kernel/osrelease", "6.1.0-31-amd64\n", RENDER_NODE),
        ("class/drm/renderD128/device/device", "0x7550\n", RENDER_NODE),
    ],
)
def test_a_changed_driver_or_gpu_repeats_its_trials(
    machine: Machine, name: str, text: str, runs: int
) -> None:
    machine.has_started()
    machine.write(name, text)
    assert machine.runs() == 1 + runs
    assert machine.runs() == 0


@pytest.mark.slow
def test_another_kernel_driver_repeats_the_trials(machine: Machine) -> None:
    machine.has_started()
    driver = machine.root / "class/drm/renderD128/device/driver"
    driver.unlink()
    driver.symlink_to("/sys/bus/pci/drivers/radeon")
    assert machine.runs() == 1 + RENDER_NODE


@pytest.mark.slow
def test_another_ffmpeg_repeats_all_trials(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.has_started()
    monkeypatch.setattr(machine, "ffmpeg", replace(machine.ffmpeg, build="another"))
    assert machine.runs() == 1 + NVIDIA + RENDER_NODE


@pytest.mark.slow
def test_a_failure_is_known_for_minutes_and_a_success_for_days(machine: Machine) -> None:
    machine.has_started()
    machine.now += 600
    # Two encoders of NVENC, two of VAAPI and that of QSV; two decoders of each GPU, with their clips.
    assert machine.runs() == 1 + 5 + 2 * 2 * 2
    machine.now += 7 * 86400 - 601
    assert machine.runs() == 1 + 5 + 2 * 2 * 2
    machine.now += 1
    # An encoder and a decoder of each GPU.
    assert machine.runs() == 1 + 2 * (1 + 4)
    # The clock was set back.
    machine.now -= 86400
    assert machine.runs() == 1 + NVIDIA + RENDER_NODE


def trials_of_two_starts(record: Path, error: TqError | None = None) -> int:
    """How often two starts run a trial, whose error is this."""
    ran = []

    def run() -> TqError | None:
        ran.append(error)
        return error

    for _ in range(2):
        known = TrialResults(record)
        assert known.passed("h264_nvenc", run) is (error is None)
        known.save()
    return len(ran)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": 1}', '{"a": [true, "x"]}', '{"a": [true]}'])
def test_a_damaged_record_costs_trial_runs_only(tmp_path: Path, content: str) -> None:
    record = tmp_path / "gpu-trials.json"
    record.write_text(content)
    assert trials_of_two_starts(record) == 1


def test_a_record_that_cannot_be_written_costs_trial_runs_only(tmp_path: Path) -> None:
    record = tmp_path / "gpu-trials.json"
    record.mkdir()
    assert trials_of_two_starts(record) == 2


@pytest.mark.parametrize(
    ("code", "runs"),
    [
        (ErrorCode.ENCODER_EXIT, 1),
        (ErrorCode.OUTPUT_INVALID, 1),
        (ErrorCode.STALLED, 2),
        (ErrorCode.GPU_BUSY, 2),
        (ErrorCode.OUT_OF_MEMORY, 2),
        (ErrorCode.SYSTEM_LIMIT, 2),
    ],
)
def test_what_may_pass_is_not_recorded(tmp_path: Path, code: ErrorCode, runs: int) -> None:
    assert trials_of_two_starts(tmp_path / "gpu-trials.json", TqError(code, "it failed")) == runs


def test_the_end_of_the_supervisor_skips_the_rest(machine: Machine) -> None:
    def stopped() -> bool:
        return machine.log.exists() and "h264_nvenc" in machine.log.read_text()

    folders = [machine.root] * 3
    known = TrialResults(machine.root / "gpu-trials.json")
    [device] = hardware.discover(machine.ffmpeg, *folders, known=known, stopped=stopped)
    assert (device.encoders, device.decodes) == ("h264_nvenc", "")
    assert len(machine.log.read_text().splitlines()) == 2, "the list of encoders and one trial"


@pytest.mark.slow
def test_a_slow_trial_is_not_recorded(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(trial_runs, "TIMEOUT_S", 0.0)
    known = TrialResults(tmp_path / "gpu-trials.json")
    assert hardware.discover(machine.ffmpeg, machine.root, machine.root, machine.root, known=known) == []
    monkeypatch.undo()
    assert machine.runs() == 1 + NVIDIA + RENDER_NODE


@pytest.mark.slow
def test_render_nodes_are_tried_with_each_interface_and_codec(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    working = ("h264_qsv", "hevc_qsv", "h264_vaapi", "hevc_vaapi", "av1_vaapi")
    require_compiled(ffmpeg, *working)
    node = tmp_path / "dri/renderD128"
    node.parent.mkdir()
    node.touch()
    (tmp_path / "dri/card0").touch()
    vendor = tmp_path / "class/drm/renderD128/device/vendor"
    vendor.parent.mkdir(parents=True)
    vendor.write_text("0x8086\n")

    def found(*encoders: str) -> list[hardware.Device]:
        answering = in_place_of_gpus(tmp_path / "ffmpeg", ffmpeg, *encoders)
        return hardware.discover(answering, dev=tmp_path, sys=tmp_path)

    [device] = found(*working)
    assert device == hardware.Device("gpu-0", "h264_qsv hevc_qsv", str(node), "Intel GPU")
    [device] = found(*working[2:])
    assert device.encoders == "h264_vaapi hevc_vaapi av1_vaapi"
    assert found("hevc_vaapi") == []


@pytest.mark.parametrize("status", [1, 0], ids=["fails", "does nothing"])
def test_a_gpu_that_does_not_encode_is_none(ffmpeg: FFmpeg, tmp_path: Path, status: int) -> None:
    path = tmp_path / "ffmpeg"
    path.write_text(
        f"""#!/bin/sh
case "$*" in *_nvenc*) exit {status};; esac
exec "{ffmpeg.path}" "$@"
"""
    )
    path.chmod(0o755)
    assert hardware.discover(locate(str(path)), dev=tmp_path) == []


def test_encoders_that_are_not_compiled_in_are_not_tried(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    path = tmp_path / "ffmpeg"
    path.write_text(
        f"""#!/bin/sh
case "$*" in
  *-version*) exec "{ffmpeg.path}" -version;;
  *-encoders*) echo " V....D libx264   H.264";;
  *) touch "{tmp_path}/tried";;
esac
"""
    )
    path.chmod(0o755)
    assert hardware.discover(locate(str(path)), dev=tmp_path) == []
    assert not (tmp_path / "tried").exists()


def test_the_cpu_describes_itself() -> None:
    capabilities = hardware.cpu_capabilities()
    assert capabilities["encoder"] == "libx264"
    assert isinstance(capabilities["cores"], int)
    assert capabilities["cores"] >= 1


def test_a_ladder_of_two_codecs_on_one_gpu(
    clip: MakeClip, encode: MakeEncode, small: Profile, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    rungs = (RungSpec(90, 500), RungSpec(54, 300, codec="hevc"), RungSpec(44, 200, codec="av1"))
    gpu = in_place_of_gpus(tmp_path / "ffmpeg", ffmpeg, "h264_vaapi", "hevc_vaapi")
    made = encode(
        clip("24.mp4", fps="24", seconds=5),
        replace(small, rungs=rungs),
        ffmpeg=gpu,
        encoder="h264_vaapi hevc_vaapi",
        device="/dev/dri/renderD128",
        poster=False,
    )
    run_to_end(made)
    assert (made.state, made.error, made.warnings) == ("done", None, [])
    video = [state for state in made.renditions if state.kind == "video"]
    used = {state.name: (state.encoder, state.check.frames) for state in video if state.check}
    assert used == {
        "90p": ("h264_vaapi", 120),
        "54p-hevc": ("hevc_vaapi", 120),
        "44p-av1": ("libsvtav1", 120),
    }


def test_a_ladder_of_more_qualities_than_sessions(
    clip: MakeClip, encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    gpu = in_place_of_gpus(tmp_path / "gpu-ffmpeg", ffmpeg, "h264_nvenc")
    path = tmp_path / "ffmpeg"
    path.write_text(
        f"""#!/bin/sh
case "$*" in *h264_nvenc*h264_nvenc*)
  echo "[h264_nvenc @ 0x1] OpenEncodeSessionEx failed: out of memory (10)" >&2; exit 187;;
esac
exec "{gpu.path}" "$@"
"""
    )
    path.chmod(0o755)
    source = clip("24.mp4", fps="24", seconds=5)
    made = encode(source, ffmpeg=locate(str(path)), encoder="h264_nvenc", device="0", poster=False)
    run_to_end(made)
    assert (made.state, made.error, made.warnings) == ("done", None, [])
    assert {state.encoder for state in made.renditions if state.kind == "video"} == {"h264_nvenc"}
    assert [run.label for run in made.runs if run.label.startswith("video")] == [
        "video",
        "video-144p",
        "video-90p",
    ]

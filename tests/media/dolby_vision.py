"""Makes sources in Dolby Vision: pictures in IPT-PQ-C2 by its published matrices, and their metadata (RPU).

Bits and boxes are written here, after ETSI GS CCM 001 and Dolby's description of its streams in MP4; the
decoders of ffmpeg read them, so that no sample of Dolby is needed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import av
import pytest

from tqstudio.engine.media.ffmpeg.binary import FFmpeg

from .conftest import run_ffmpeg

Triple = tuple[float, float, float]
Matrix = tuple[Triple, Triple, Triple]
XYZ_OF_BT2020 = ((0.636958, 0.144617, 0.168881), (0.262700, 0.677998, 0.059302), (0.0, 0.028073, 1.060985))
LMS_OF_XYZ = ((0.4002, 0.7076, -0.0808), (-0.2263, 1.1653, 0.0457), (0.0, 0.0, 0.9182))
CROSSTALK = ((0.96, 0.02, 0.02), (0.02, 0.96, 0.02), (0.02, 0.02, 0.96))
IPT_OF_LMS = ((0.4, 0.4, 0.2), (4.455, -4.851, 0.396), (0.8056, 0.3572, -1.1628))
# The inverses of the last two, as the metadata carry them.
RGB_OF_IPT = (8192, 799, 1681, 8192, -933, 1091, 8192, 267, -5545)
LMS_OF_RGB = (17081, -349, -349, -349, 17081, -349, -349, -349, 17081)
FPS = 25
_HEVC = ("libx265", "-preset", "ultrafast", "-x265-params", "log-level=error:lossless=1:range=full")
_AV1 = ("libaom-av1", "-cpu-used", "8", "-lag-in-frames", "0", "-aom-params", "lossless=1")


@dataclass(frozen=True)
class Metadata:
    """What the RPU of one picture states."""

    stretch: float = 1.0
    """By which the coded values, from the middle of each component on, are to be multiplied."""
    most_pq: int = 3079
    """Of the mastering display, in 12 bits: 1000 nits."""
    profile: int = 0
    """0 for IPT, 1 for a base layer."""


def times(matrix: Sequence[Sequence[float]], colour: Triple) -> Triple:
    return tuple(sum(w * c for w, c in zip(row, colour, strict=True)) for row in matrix)  # type: ignore[return-value]


def pq(nits: float) -> float:
    y = (max(0.0, nits) / 10_000) ** 0.1593017578125
    return float(((0.8359375 + 18.8515625 * y) / (1 + 18.6875 * y)) ** 78.84375)


def ipt(nits: Triple) -> Triple:
    """I, P and T, each 0 … 1, of light in BT.2020."""
    cones = times(CROSSTALK, times(LMS_OF_XYZ, times(XYZ_OF_BT2020, nits)))
    i, p, t = times(IPT_OF_LMS, tuple(map(pq, cones)))  # type: ignore[arg-type]
    return (i, p + 0.5, t + 0.5)


def ipt_source(
    ffmpeg: FFmpeg,
    path: Path,
    light: Sequence[Triple],
    columns: int,
    size: tuple[int, int],
    *,
    frames: int = 3,
    metadata: Callable[[int], Metadata] = lambda _: Metadata(),
    codec: str = "hevc",
    record: tuple[int, int] = (5, 0),
) -> Path:
    """An MP4 or MKV of cells with these colours (nits of BT.2020), whose values `metadata` restores.

    Without a `record` of profile and compatibility id, (0, 0), only its pictures show what it is.
    """
    base, filled, raw = (path.with_suffix(f".{part}") for part in ("base.mp4", "filled.mp4", "raw"))
    raw.write_bytes(
        b"".join(_picture(light, columns, size, metadata(number).stretch) for number in range(frames))
    )
    shape = ("-f", "rawvideo", "-pix_fmt", "yuv420p10le", "-s", f"{size[0]}x{size[1]}", "-r", str(FPS))
    encoder = _HEVC if codec == "hevc" else _AV1
    tags = ("-vf", "setparams=range=pc", "-g", str(FPS))
    run_ffmpeg(ffmpeg, *shape, "-i", str(raw), *tags, "-c:v", *encoder, str(base))
    unit = nal_unit if codec == "hevc" else _obu
    with_metadata(base, filled, lambda packet, number: unit(packet, rpu(metadata(number))))
    recorded = with_record(filled, path.with_suffix(".mp4"), *record) if record != (0, 0) else filled
    if path.suffix != ".mp4" or recorded is filled:
        run_ffmpeg(ffmpeg, "-i", str(recorded), "-c", "copy", "-strict", "unofficial", str(path))
    return path


def _picture(light: Sequence[Triple], columns: int, size: tuple[int, int], stretch: float) -> bytes:
    """Chroma and luma of 10 bits in full range; cells have an even width and height."""
    (width, height), rows = size, len(light) // columns
    coded = [[0.5 + (value - 0.5) / stretch for value in ipt(each)] for each in light]
    planes = b""
    for plane, part in enumerate((1, 2, 2)):
        across, down = width // columns // part, height // rows // part
        for start in range(0, len(coded), columns):
            row = [
                min(1023, max(0, round(1023 * cell[plane])))
                for cell in coded[start : start + columns]
                for _ in range(across)
            ]
            planes += struct.pack(f"<{len(row)}H", *row) * down
    return planes


def rpu(metadata: Metadata) -> bytes:
    """The metadata of one picture, with its checksum."""

    def ue(value: int) -> str:
        bits = f"{value + 1:b}"
        return "0" * (len(bits) - 1) + bits

    def signed(values: Sequence[int]) -> str:
        return "".join(f"{value & 0xFFFF:016b}" for value in values)

    def coefficient(value: float) -> str:
        whole, rest = divmod(round(value * 2**23), 2**23)
        return ue(2 * whole - 1 if whole > 0 else -2 * whole) + f"{rest:023b}"

    head = f"{2:06b}{18:011b}{metadata.profile:04b}{0:04b}1" + f"000{ue(23)}011" + ue(2) + ue(2) + ue(4)
    head += "0" * 5 + "1"
    pivots = ue(0) + f"{0:010b}{1023:010b}"
    offset = 0.5 - 0.5 * metadata.stretch
    curve = ue(0) + ue(0) + "0" + coefficient(offset) + coefficient(metadata.stretch)
    mapping = ue(0) * 3 + pivots * 3 + ue(0) * 2 + curve * 3
    offsets = f"{0:032b}{1 << 27:032b}{1 << 27:032b}"
    display = ue(0) * 2 + ue(1) + signed(RGB_OF_IPT) + offsets + signed(LMS_OF_RGB)
    display += f"{0xFFFF:016b}{0:064b}{12:05b}{2:02b}{0:02b}{1:02b}{62:012b}{metadata.most_pq:012b}{42:010b}"
    bits = head + "10" + mapping + display + ue(1)
    bits += "0" * (-len(bits) % 8)
    # Level 1, for the dynamic tone mapping of Dolby's displays: the least, most and mean of the picture.
    bits += ue(5) + f"{1:08b}{0:012b}{2081:012b}{1500:012b}" + "0" * 4
    bits += "0" * (-len(bits) % 8)
    content = int(bits, 2).to_bytes(len(bits) // 8)
    checksum = 0xFFFFFFFF
    for byte in content:
        checksum ^= byte << 24
        for _ in range(8):
            checksum = (checksum << 1 ^ (0x04C11DB7 if checksum >> 31 else 0)) & 0xFFFFFFFF
    return content + struct.pack(">I", checksum) + b"\x80"


def nal_unit(packet: bytes, content: bytes) -> bytes:
    """A picture of HEVC with its metadata: a NAL unit of type 62 at its end."""
    escaped = re.sub(rb"\x00\x00(?=[\x00-\x03])", b"\x00\x00\x03", b"\x19" + content)
    return packet + struct.pack(">IH", 2 + len(escaped), 62 << 9 | 1) + escaped


def _obu(packet: bytes, content: bytes) -> bytes:
    """A picture of AV1 with its metadata: ITU-T T.35 of Dolby, in a container of E-AC-3's metadata."""
    assert len(content) < 256
    bits = f"{0x01BE6841:027b}{len(content):08b}0" + "".join(f"{byte:08b}" for byte in content)
    bits += f"{0x400:017b}"
    bits += "0" * (-len(bits) % 8)
    payload = b"\x04\xb5\x00\x3b\x00\x00\x08\x00" + int(bits, 2).to_bytes(len(bits) // 8) + b"\x80"
    unit = b"\x2a" + _leb128(len(payload)) + payload
    # In front of the picture, after the sequence header of a key frame.
    at = 0
    while packet[at] >> 3 & 0xF not in (3, 6):
        length, shift, at = 0, 0, at + 1
        while packet[at] & 0x80:
            length, shift, at = length | (packet[at] & 0x7F) << shift, shift + 7, at + 1
        at += 1 + (length | packet[at] << shift)
    return packet[:at] + unit + packet[at:]


def _leb128(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 0x7F | 0x80, value >> 7])


def with_metadata(source: Path, target: Path, add: Callable[[bytes, int], bytes]) -> Path:
    """A copy whose packets are changed by their content and the number of their picture."""
    with av.open(str(source)) as opened, av.open(str(target), "w") as copy:
        stream = copy.add_stream_from_template(opened.streams.video[0], opaque=True)
        for packet in opened.demux(opened.streams.video[0]):
            if packet.size and packet.pts is not None and packet.time_base is not None:
                changed = av.Packet(add(bytes(packet), round(packet.pts * packet.time_base * FPS)))
                changed.pts, changed.dts, changed.time_base = packet.pts, packet.dts, packet.time_base
                changed.is_keyframe, changed.stream = packet.is_keyframe, stream
                copy.mux(changed)
    return target


def with_record(source: Path, target: Path, profile: int, compatibility: int) -> Path:
    """The same MP4 (`moov` last) with a Dolby Vision configuration record in its first track."""
    record = struct.pack(">BBHB19x", 1, 0, profile << 9 | 1 << 3 | 0b101, compatibility << 4)
    return with_box(source, target, b"dvcC" if profile <= 7 else b"dvvC", record)


def with_box(source: Path, target: Path, kind: bytes, content: bytes) -> Path:
    """The same MP4 (`moov` last) with another box in the sample entry of its first track, the video."""
    box = struct.pack(">I4s", 8 + len(content), kind) + content
    data = bytearray(source.read_bytes())
    at, around = 0, []
    for kinds in (*(((kind,)) for kind in (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd")), _PICTURES):
        while data[at + 4 : at + 8] not in kinds:
            at += struct.unpack_from(">I", data, at)[0]
        around.append(at)
        end = at + struct.unpack_from(">I", data, at)[0]
        at += 16 if kinds == (b"stsd",) else 8
    for place in around:
        struct.pack_into(">I", data, place, struct.unpack_from(">I", data, place)[0] + len(box))
    data[end:end] = box
    target.write_bytes(data)
    return target


_PICTURES = (b"avc1", b"hvc1", b"hev1", b"av01")


def without_vulkan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the drivers from Vulkan's loader, if there is one."""
    for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        monkeypatch.setenv(name, "/nowhere/driver.json")

"""Dolby Vision whose only layer is IPT-C2: its colours as published, and what cannot be converted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, quantiles

import av
import pytest

from tqstudio.engine.media.ffmpeg.binary import FFmpeg, locate
from tqstudio.engine.media.ffmpeg.process import can_be_confined
from tqstudio.engine.media.ffmpeg.trial_runs import require_vulkan
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.source.colour import colour_of
from tqstudio.engine.media.source.facts import NO_PICTURE
from tqstudio.engine.media.source.probe import probe
from tqstudio.errors import ErrorCode, TqError

from . import test_tone_mapping as tone
from .conftest import MakeEncode, pids_of, run_ffmpeg, run_to_end
from .dolby_vision import (
    FPS,
    Metadata,
    Triple,
    ipt_source,
    nal_unit,
    rpu,
    times,
    with_metadata,
    with_record,
    without_vulkan,
)
from .test_colour import (
    BT2020_OF_BT709,
    RUNG,
    SOFT,
    _pq,
    assert_like,
    first_frame,
    patches_of,
    published,
    shown,
)
from .test_resume import kill_behind, streams

pytestmark = pytest.mark.slow

SIZE = (320, 180)
SIGNALS = tone.natural(0.75)
KINDS = {
    "5.mp4": ("hevc", (5, 0)),
    "5.mkv": ("hevc", (5, 0)),
    "without-record.mkv": ("hevc", (0, 0)),
    "10.mp4": ("av1", (10, 0)),
    "20.mp4": ("hevc", (20, 0)),
}


def light_of(patches: Sequence[Triple]) -> list[Triple]:
    """Nits in BT.2020 of colours of an SDR display, whose white has 203."""
    return [
        times(BT2020_OF_BT709, tuple(203 * (value / 255) ** 2.4 for value in patch))  # type: ignore[arg-type]
        for patch in patches
    ]


def nits_of(signals: Sequence[Triple]) -> list[Triple]:
    return [tuple(map(tone.pq_nits, signal)) for signal in signals]  # type: ignore[misc]


@pytest.mark.more
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.usefixtures("vulkan")
def test_its_colours_become_those_of_an_sdr_display(
    encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path, name: str
) -> None:
    codec, record = KINDS[name]
    source = ipt_source(ffmpeg, tmp_path / name, light_of(SOFT), 8, SIZE, codec=codec, record=record)
    frame = first_frame(published(encode, source), tmp_path)
    assert (frame.colorspace, frame.color_primaries, frame.color_trc, frame.color_range) == (1, 1, 1, 1)
    assert_like(patches_of(frame), SOFT)


@pytest.mark.usefixtures("vulkan")
def test_its_colours_are_kept_as_hdr10(encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path) -> None:
    source = ipt_source(ffmpeg, tmp_path / "5.mp4", light_of(SOFT), 8, SIZE)
    rungs = [replace(RUNG[0], codec="hevc", crf=10, hdr=True)]
    frame = first_frame(published(encode, source, rungs=rungs), tmp_path)
    assert (frame.colorspace, frame.color_primaries, frame.color_trc, frame.color_range) == (9, 9, 16, 1)
    assert not {"DOVI_METADATA", "DOVI_RPU_BUFFER"} & {data.type.name for data in frame.side_data}
    assert_like(patches_of(frame), [_pq(patch) for patch in SOFT])


@pytest.mark.more
@pytest.mark.usefixtures("vulkan")
def test_the_poster_has_its_colours(encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path) -> None:
    made = encode(ipt_source(ffmpeg, tmp_path / "5.mp4", light_of(SOFT), 8, SIZE))
    run_to_end(made)
    assert made.side.poster is not None
    assert_like(shown(made.side.poster, *SIZE), SOFT, within=5)


@pytest.mark.more
@pytest.mark.parametrize(
    ("signals", "most_pq", "peak"),
    [
        ([(0.58 * r, 0.58 * g, 0.58 * b) for r, g, b in tone.BARS], 3079, 1000),
        ([(s * 0.75, s * 0.75, s * 0.75) for s in tone.STEPS], 3079, 1000),
        (SIGNALS, 2081, 1000),
        (tone.natural(0.9), 3696, 4000),
    ],
    ids=["bars", "ramp", "natural", "4000 nits"],
)
@pytest.mark.usefixtures("vulkan")
def test_it_is_tone_mapped_as_hdr10(
    encode: MakeEncode,
    ffmpeg: FFmpeg,
    tmp_path: Path,
    signals: list[Triple],
    most_pq: int,
    peak: int,
) -> None:
    light: list[Triple] = [tuple(map(tone.pq_nits, signal)) for signal in tone.filled(signals)]  # type: ignore[misc]
    columns = tone.SIZE[0] // tone.CELL
    metadata = Metadata(most_pq=most_pq)
    source = ipt_source(ffmpeg, tmp_path / "5.mp4", light, columns, tone.SIZE, metadata=lambda _: metadata)
    assert probe(os.fsencode(source)).video.peak_nits == pytest.approx(
        peak if most_pq > 3000 else 100, rel=0.01
    )
    expected = [tone.mapped(each, peak) for each in light]
    found = tone.shown(encode, source, tmp_path)
    apart = [tone.delta_e(a, b) for a, b in zip(found, expected, strict=True)]
    assert mean(apart) < 1
    assert quantiles(apart, n=20)[-1] < 1.5


@pytest.mark.usefixtures("vulkan")
def test_each_picture_is_converted_by_its_own_metadata_wherever_a_run_begins(
    encode: MakeEncode, small: Profile, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    """What is coded becomes weaker from picture to picture; what is shown stays."""
    source = ipt_source(
        ffmpeg,
        tmp_path / "5.mp4",
        light_of(SOFT),
        8,
        SIZE,
        frames=90,
        metadata=lambda number: Metadata(stretch=1 + number / 60),
    )
    finer = replace(small, crf=4)
    first = encode(source, finer, rungs=RUNG, poster=False)
    kill_behind(first, 2)
    second = encode(source, finer, rungs=RUNG, poster=False)
    run_to_end(second)
    assert (second.state, second.error, second.warnings) == ("done", None, [])
    assert second.runs[-1].starts_at_s == 2
    joined = tmp_path / "joined.mp4"
    joined.write_bytes(streams(second)["144p"])
    with av.open(str(joined)) as container:
        pictures = [patches_of(frame) for frame in container.decode(video=0)]
    assert len(pictures) == 90
    for picture in pictures:
        assert_like(picture, SOFT, within=5)


@pytest.mark.usefixtures("vulkan")
def test_what_renders_it_is_confined(encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path) -> None:
    assert can_be_confined(ffmpeg.path)
    made = encode(ipt_source(ffmpeg, tmp_path / "5.mp4", light_of(SOFT), 8, SIZE, frames=FPS), poster=False)

    def is_confined() -> bool:
        [pid] = pids_of(made) or [0]
        status = Path(f"/proc/{pid}/status").read_text() if pid else ""
        return "Name:\tffmpeg" in status and "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status

    run_to_end(made, until=is_confined)
    assert made.state == "running"
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)


@pytest.fixture
def hdr10(ffmpeg: FFmpeg, tmp_path: Path) -> Path:
    options = (*tone.X265, "log-level=error:lossless=1", "-pix_fmt", "yuv420p10le", "-tag:v", "hvc1")
    return tone.chart(ffmpeg, tmp_path / "hdr10.mp4", tone.filled(SIGNALS), "smpte2084", *options)


@pytest.mark.more
@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
@pytest.mark.parametrize("profile", [5, 10])
def test_what_lost_its_metadata_is_refused(
    hdr10: Path, ffmpeg: FFmpeg, tmp_path: Path, profile: int, suffix: str
) -> None:
    source = with_record(hdr10, tmp_path / "dv.mp4", profile, 0)
    if suffix != "mp4":
        copy = tmp_path / f"dv.{suffix}"
        run_ffmpeg(ffmpeg, "-i", str(source), "-c", "copy", "-strict", "unofficial", str(copy))
        source = copy
    with pytest.raises(TqError) as refused:
        probe(str(source).encode())
    assert refused.value.code is ErrorCode.UNSUPPORTED
    assert f"{source} is Dolby Vision profile {profile}" in refused.value.message
    assert "RPU" in refused.value.hint


@pytest.mark.more
@pytest.mark.parametrize(("kind", "found"), [(0, (5, 0)), (1, (0, 0))])
def test_it_is_recognised_without_its_record(
    hdr10: Path, tmp_path: Path, kind: int, found: tuple[int, int]
) -> None:
    """As in files that were copied by a program that does not know the record."""
    bare, metadata = tmp_path / "bare.mkv", rpu(Metadata(profile=kind))
    with_metadata(hdr10, bare, lambda packet, _: nal_unit(packet, metadata))
    video = probe(str(bare).encode()).video
    assert (video.dv_profile, video.dv_compatibility) == found
    assert colour_of(video).transfer == 16


@pytest.mark.parametrize(("profile", "compatibility"), [(8, 1), (7, 6)])
def test_a_base_layer_is_shown(
    hdr10: Path, encode: MakeEncode, tmp_path: Path, profile: int, compatibility: int
) -> None:
    source = with_record(hdr10, tmp_path / "dv.mp4", profile, compatibility)
    video = probe(str(source).encode()).video
    assert (video.dv_profile, video.dv_compatibility) == (profile, compatibility)
    expected = [tone.mapped(each, 1000) for each in nits_of(tone.filled(SIGNALS))]
    found = tone.shown(encode, source, tmp_path)
    assert mean(tone.delta_e(a, b) for a, b in zip(found, expected, strict=True)) < 1


@pytest.mark.parametrize(("most_pq", "nits"), [(2081, 100), (3079, 1000), (3696, 4000)])
def test_its_peak_is_that_of_the_mastering_display(
    ffmpeg: FFmpeg, tmp_path: Path, most_pq: int, nits: int
) -> None:
    metadata = Metadata(most_pq=most_pq)
    source = ipt_source(ffmpeg, tmp_path / "5.mp4", light_of(SOFT), 8, SIZE, metadata=lambda _: metadata)
    assert probe(os.fsencode(source)).video.peak_nits == pytest.approx(nits, rel=0.01)


def test_without_vulkan_it_is_refused(ffmpeg: FFmpeg, monkeypatch: pytest.MonkeyPatch) -> None:
    without_vulkan(monkeypatch)
    video = replace(NO_PICTURE, dv_profile=5)
    with pytest.raises(TqError) as refused:
        require_vulkan(ffmpeg, video, "film.mp4")
    assert refused.value.code is ErrorCode.UNSUPPORTED
    assert refused.value.message.startswith("film.mp4 is Dolby Vision profile 5")
    assert "mesa-vulkan-drivers" in refused.value.hint
    require_vulkan(ffmpeg, replace(video, dv_compatibility=1), "film.mp4")


def test_a_lack_of_memory_is_no_lack_of_vulkan(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    path = tmp_path / "ffmpeg"
    path.write_text(
        '#!/bin/sh\ncase "$*" in *libplacebo*) exit 244;; esac\nexec "' + ffmpeg.path + '" "$@"\n'
    )
    path.chmod(0o755)
    with pytest.raises(TqError) as failed:
        require_vulkan(locate(str(path)), replace(NO_PICTURE, dv_profile=5), "film.mp4")
    assert failed.value.code is ErrorCode.OUT_OF_MEMORY

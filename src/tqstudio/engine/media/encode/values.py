"""What an encode is given, and what can be seen of it. Values; the only effect is a look at the store."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.file_names import CPU_ENCODER
from tqstudio.engine.media.plan.grid import Grid
from tqstudio.engine.media.plan.keys import audio_settings_hash, settings_hash, stream_key
from tqstudio.engine.media.plan.missing_runs import Mode, Stored
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import AudioRendition, Rung
from tqstudio.engine.media.segments.checked import RenditionCheck
from tqstudio.engine.media.segments.inspect import Prefix, verified_prefix
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.media.source.source_file import FileId
from tqstudio.errors import TqError

State = Literal["idle", "running", "done", "failed", "killed"]
RenditionStatus = Literal["pending", "in_progress", "completed", "failed"]


class NotOursError(Exception):
    """Another worker has the job by now: what is stored is its to judge, and to take away."""


@dataclass(frozen=True, slots=True)
class EncodeSpec:
    """Everything an encode needs to know."""

    ffmpeg: FFmpeg
    source: bytes
    identity: FileId
    """The source as it was when it was examined. Nothing is stored of one that changed since."""
    facts: SourceFacts
    grid: Grid
    profile: Profile
    rungs: tuple[Rung, ...]
    """The ladder; skipped rungs are left out."""
    content_id: str
    """Identifies the bytes of the source, for the keys."""
    store_root: Path
    """`…/segments/<video>/`: finished segments go to `<rendition>/<stream_key>/` below it."""
    scratch: Path
    """An empty directory of this encode alone, on the store's file system. The caller removes it."""
    log_dir: Path
    """Receives one log per ffmpeg run."""
    encoder: str = CPU_ENCODER
    device: str | None = None
    """Index of the GPU for a GPU encoder."""
    threads: int = 0
    """Cap per decoder and encoder; 0 leaves it to ffmpeg."""
    memory_limit: int | None = None
    """Bytes each ffmpeg may have."""
    nice: int = 10
    poster: bool = True
    require_output: Callable[[], None] = lambda: None
    """Raises TqError when the output is not at its path any more; asked before a run and before anything is
    stored."""
    is_ours: Callable[[], bool] = lambda: True
    """Whether the job still belongs to whoever encodes. Asked before anything is stored, found whole or taken
    away: a process may sleep at any line, and its successor goes on with the same store."""

    def require_ours(self) -> None:
        """
        Raises:
            NotOursError: somebody else has the job.
        """
        if not self.is_ours():
            raise NotOursError("another worker may have the job by now")

    @property
    def mode(self) -> Mode:
        """How runs reach their first frame."""
        return "linear" if self.facts.linear else "seek"

    @property
    def linear_mark(self) -> Path:
        """A file that says, beside the segments, that this source has to be decoded from its start.

        What was made that way must not be continued by a seek, though whoever found out was killed at once.
        """
        return self.store_root / f"linear-{stream_key(self.content_id, '', '', self.identity.mtime_ns)}"


@dataclass(frozen=True, slots=True)
class RenditionState:
    """A snapshot of one rendition."""

    name: str
    kind: Literal["video", "audio"]
    required: bool
    status: RenditionStatus
    encoder: str
    settings_hash: str
    stream_key: str
    directory: Path
    """Of its stream in the segment store."""
    segments_done: int
    segments_total: int
    """An estimate until it is completed."""
    fraction: float
    """0 … 1, never going back; 1 only when completed."""
    kept: float
    """0 … 1: the part that is in the store, to the fragment; what is in the making is lost with its run."""
    speed: float | None
    """Seconds of video per second while it runs."""
    error: TqError | None
    check: RenditionCheck | None
    """What it turned out to be, once completed."""
    pixels: int
    """Its weight; 0 for audio."""
    prefix: Prefix = field(default_factory=Prefix)
    """Of a video that is not completed: what the store had when it was looked up."""

    @property
    def stored(self) -> Stored:
        """The same for the plan."""
        return Stored(self.stream_key, self.prefix.fragments, self.prefix.ended)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One ffmpeg run, for the attempt's record."""

    label: str
    argv: tuple[str, ...]
    log_path: Path
    encoder: str
    resumed_from: int
    """First segment that was not whole before the run."""
    returncode: int | None
    """None while it runs."""
    mode: Mode = "seek"
    """How it got to its first frame."""
    starts_at_s: float = 0.0
    """Seconds of video before its first frame."""


ALMOST = 0.999
"""The most that a rendition which was not verified yet may say of itself; 1 is reserved."""


def look_up_video(spec: EncodeSpec, rung: Rung, encoder: str | None = None) -> RenditionState:
    """What the store has of a video rendition.

    Args:
        encoder: the one whose stream is meant; by default that of `spec`, or the CPU's if that is further: a
            GPU encode that fell back went on there.
    """
    key = settings_hash(spec.content_id, spec.profile, rung, spec.facts)
    candidates = [encoder] if encoder else list(dict.fromkeys((spec.encoder, CPU_ENCODER)))
    states = [
        _look_up(spec, rung.name, "video", rung.required, candidate, key, rung.pixels)
        for candidate in candidates
    ]
    return max(
        states, key=lambda state: (state.status == "completed", state.segments_done, state.prefix.fragments)
    )


def look_up_audio(spec: EncodeSpec, rendition: AudioRendition) -> RenditionState:
    """What the store has of an audio rendition."""
    key = audio_settings_hash(spec.content_id, spec.profile, rendition, spec.facts)
    return _look_up(spec, rendition.name, "audio", True, spec.profile.audio_codec, key, 0)


def _look_up(
    spec: EncodeSpec,
    name: str,
    kind: Literal["video", "audio"],
    required: bool,
    encoder: str,
    key: str,
    pixels: int,
) -> RenditionState:
    joint = stream_key(key, encoder, spec.ffmpeg.build, spec.identity.mtime_ns)
    store = SegmentStore(spec.store_root / name / joint)
    complete = store.completed()
    prefix = Prefix() if complete or kind == "audio" else verified_prefix(store.root, spec.grid)
    done = len(complete.check.segments) if complete else prefix.segments
    total = done if complete else max(done, _expected_segments(spec, kind))
    kept = max(done / max(1, total), prefix.fragments * spec.grid.gop / spec.grid.total_frames)
    return RenditionState(
        name=name,
        kind=kind,
        required=required,
        status="completed" if complete else "pending",
        encoder=complete.encoder if complete else encoder,
        settings_hash=key,
        stream_key=joint,
        directory=store.root,
        segments_done=done,
        segments_total=total,
        fraction=1.0 if complete else min(ALMOST, kept),
        kept=1.0 if complete else min(ALMOST, kept),
        speed=None,
        error=None,
        check=complete.check if complete else None,
        pixels=pixels,
        prefix=prefix,
    )


def _expected_segments(spec: EncodeSpec, kind: str) -> int:
    if kind == "video":
        return spec.grid.segment_count
    return max(1, math.ceil(spec.facts.duration_s / spec.profile.segment_s))

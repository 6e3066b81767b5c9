"""Values of an encode: its specification, rendition states, run records. Reads states from the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Literal

from tqstudio.engine.files import durable
from tqstudio.engine.media.ffmpeg import gpu_decode
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.errors import from_output_error
from tqstudio.engine.media.plan.audio import AudioRendition
from tqstudio.engine.media.plan.copying import COPY
from tqstudio.engine.media.plan.grid import Grid, piece_count
from tqstudio.engine.media.plan.keys import Rendition, settings_hash, stream_key
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import Rung, followed
from tqstudio.engine.media.plan.subtitles import SubtitleRendition
from tqstudio.engine.media.plan.video_codecs import CODECS, CPU_ENCODER, encoder_for
from tqstudio.engine.media.segments.checked import RenditionCheck
from tqstudio.engine.media.segments.inspect import Prefix, verified_prefix
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.media.source.fingerprint import Original
from tqstudio.engine.media.source.source_file import FileId
from tqstudio.errors import TqError

State = Literal["idle", "running", "done", "failed", "killed"]
RenditionStatus = Literal["pending", "in_progress", "completed", "failed"]
RenditionKind = Literal["video", "audio", "subtitles"]


class OwnershipLostError(Exception):
    """Another worker may have the job: nothing may be stored, completed or removed any more."""


@dataclass(frozen=True, slots=True)
class EncodeSpec:
    """The parameters of an encode."""

    ffmpeg: FFmpeg
    source: bytes
    original: Original
    """The source when it was probed. If it changes, nothing more is stored."""
    facts: SourceFacts
    grid: Grid
    profile: Profile
    rungs: tuple[Rung, ...]
    """The ladder; skipped rungs are ignored."""
    audio: tuple[AudioRendition, ...]
    """Audio renditions to encode."""
    subtitles: tuple[SubtitleRendition, ...]
    """Subtitle renditions to convert."""
    content_id: str
    """Identifies the content of the source in settings hashes and stream keys."""
    store_root: Path
    """`…/segments/<video>/`: finished segments go to `<rendition>/<stream_key>/` below it."""
    scratch: Path
    """An empty directory for this encode only, on the store's file system. The caller removes it."""
    log_dir: Path
    """Receives one log per ffmpeg run."""
    encoder: str = CPU_ENCODER
    """Video encoder of the worker, see `video_codecs.encoder_for`."""
    device: str | None = None
    """GPU of the worker, see `hardware.Device`."""
    decodes: str = ""
    """Codecs that this GPU decodes, with scaling; separated by spaces."""
    memory_limit: int | None = None
    """Memory limit of each ffmpeg process in bytes."""
    nice: int = 10
    crf_shifts: Mapping[str, int] = field(default_factory=dict)
    """Encoder → what the CRFs that reach the profile's quality differ by from the profile's."""
    poster: bool = True
    storyboard: bool = False
    first: str | None = None
    """The quality that is encoded before the others."""
    require_output: Callable[[], None] = lambda: None
    """Raises TqError if the output folder is no longer at its path; called before a run is started and before
    anything is stored."""
    is_owner: Callable[[], bool] = lambda: True
    """Whether this worker still has the job; called before anything is stored, completed or removed. A
    process may be suspended at any line while another worker continues with the same store."""

    def require_ownership(self) -> None:
        """Raise OwnershipLostError if `is_owner` returns False."""
        if not self.is_owner():
            raise OwnershipLostError("another worker may have the job by now")

    def found_crf(self, rung: Rung, encoder: str) -> int | None:
        """The CRF that was found for the quality of a rung; None for the one of its settings."""
        return followed(rung, shift) if rung.quality and (shift := self.crf_shifts.get(encoder)) else None

    @property
    def identity(self) -> FileId:
        """Identity of the source file when it was probed."""
        return self.original.identity

    @property
    def unseekable_mark(self) -> Path:
        """A file beside the segments that marks this source as one to decode from its start.

        It is written before the first run that does so, so that a later attempt never continues its output by
        seeking.
        """
        return self.store_root / f"unseekable-{stream_key(self.content_id, '', '', self.identity.mtime_ns)}"

    def mark_unseekable(self) -> None:
        """Write that file durably."""
        mark = self.unseekable_mark
        try:
            durable.make_folder(mark.parent)
            mark.touch()
            durable.sync_folder(mark.parent)
        except OSError as error:
            raise from_output_error(error, "cannot record that the source cannot be seeked in") from error


@dataclass(frozen=True, slots=True)
class RenditionState:
    """The state of one rendition."""

    name: str
    kind: RenditionKind
    required: bool
    status: RenditionStatus
    encoder: str
    settings_hash: str
    stream_key: str
    directory: Path
    """Directory of its stream in the segment store."""
    segments_done: int
    segments_total: int
    """An estimate until it is completed."""
    fraction: float
    """Progress 0 … 1, never decreasing; 1 only when completed."""
    kept: float
    """The stored part 0 … 1, counted in fragments; the rest is lost if its run is killed."""
    speed: float | None
    """Seconds of video per second while it runs."""
    error: TqError | None
    check: RenditionCheck | None
    """The result of its verification, once completed."""
    weight: float
    """In the progress; 0 for audio and subtitles."""
    hdr: bool = False
    on_device: bool = False
    """Its pictures are decoded and scaled on the GPU."""
    gain_db: float = 0.0
    """Gain of audio in dB; 0 until it is measured."""
    warning: str = ""
    """Why audio is less loud than the profile asks for, or which subtitles are left out; else empty."""
    duplicate: int | None = None
    """Id of the video that it was linked from, see `Duplicate`."""
    prefix: Prefix = field(default_factory=Prefix)
    """The stored part of an incomplete video when it was last read from the store."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A ladder that another video published of a source with the same bytes."""

    video: int
    folder: Path
    """Folder of its generation."""
    keys: Mapping[str, tuple[str, str]]
    """Its renditions: name → settings hash and stream key."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One ffmpeg run, for the record of the attempt."""

    label: str
    argv: tuple[str, ...]
    log_path: Path
    encoder: str
    resumed_from: int
    """The first segment that was incomplete before the run."""
    returncode: int | None
    """None while it runs."""
    unseekable: bool = False
    """It decodes from the start of the source to reach its first frame, instead of seeking."""
    starts_at_s: float = 0.0
    """Seconds of video before its first frame."""
    cpu_s: float = 0.0
    """Processor seconds, once it has ended."""
    peak_memory: int = 0
    """Its largest resident memory in bytes."""


MAX_UNVERIFIED = 0.999
"""The largest `fraction` of a rendition that is not verified yet."""


def look_up(
    spec: EncodeSpec, rendition: Rendition, encoder: str | None = None, on_device: bool = False
) -> RenditionState:
    """Read the state of a rendition from the store.

    Args:
        encoder: of video, whose stream to read; by default the worker's, or one whose stream is further, as
            after a fallback from the GPU.
        on_device: with `encoder`, the stream whose pictures are scaled on the GPU.
    """
    match rendition:
        case AudioRendition():
            return _look_up(spec, rendition, "audio", rendition.default, rendition.codec)
        case SubtitleRendition():
            return _look_up(spec, rendition, "subtitles", False, "webvtt")
    states = streams(spec, rendition) if not encoder else [_stream(spec, rendition, encoder, on_device)]
    return max(
        states, key=lambda state: (state.status == "completed", state.segments_done, state.prefix.fragments)
    )


def streams(spec: EncodeSpec, rung: Rung) -> list[RenditionState]:
    """Read the states of all streams that this worker can encode of a video rendition."""
    permitted = gpu_decode.permits(spec.decodes, spec.facts, spec.profile, rung)
    intended = encoder_for(rung.codec, spec.encoder, hdr=rung.hdr)
    encoders = dict.fromkeys((*((COPY,) if rung.copied else ()), intended, CODECS[rung.codec].encoder))
    return [
        _stream(spec, rung, encoder, on_device)
        for encoder in encoders
        for on_device in ({permitted: None, False: None} if encoder != COPY else (False,))
    ]


def _stream(spec: EncodeSpec, rung: Rung, encoder: str, on_device: bool) -> RenditionState:
    state = _look_up(spec, rung, "video", rung.required, encoder, rung.weight, on_device)
    return replace(state, hdr=rung.hdr)


def _look_up(
    spec: EncodeSpec,
    rendition: Rendition,
    kind: RenditionKind,
    required: bool,
    encoder: str,
    weight: float = 0,
    on_device: bool = False,
) -> RenditionState:
    key = settings_hash(spec.content_id, spec.profile, rendition, spec.facts)
    scaled_by = gpu_decode.interface(spec.device or "") if on_device else ""
    crf = spec.found_crf(rendition, encoder) if isinstance(rendition, Rung) else None
    joint = stream_key(key, encoder, spec.ffmpeg.build, spec.identity.mtime_ns, scaled_by, crf)
    store = SegmentStore(spec.store_root / rendition.name / joint)
    complete = store.completed()
    prefix = Prefix() if complete or kind != "video" else verified_prefix(store.root, spec.grid)
    ahead = store.numbers_from(prefix.segments) if prefix.full and not complete else ()
    done = len(complete.check.segments) if complete else prefix.segments + len(ahead)
    total = done if complete else max(done, _expected_segments(spec, kind))
    frames = spec.grid.fragment_start(prefix.fragments) + sum(map(spec.grid.segment_frames, ahead))
    kept = max(done / max(1, total), frames / spec.grid.total_frames)
    return RenditionState(
        name=rendition.name,
        kind=kind,
        required=required,
        status="completed" if complete else "pending",
        encoder=complete.encoder if complete else encoder,
        settings_hash=key,
        stream_key=joint,
        directory=store.root,
        segments_done=done,
        segments_total=total,
        fraction=1.0 if complete else min(MAX_UNVERIFIED, kept),
        kept=1.0 if complete else min(MAX_UNVERIFIED, kept),
        speed=None,
        error=None,
        check=complete.check if complete else None,
        weight=weight,
        on_device=on_device,
        warning=complete.warning if complete else "",
        duplicate=complete.duplicate if complete else None,
        prefix=prefix,
    )


def _expected_segments(spec: EncodeSpec, kind: str) -> int:
    if kind != "audio":
        return spec.grid.segment_count
    return piece_count(Fraction(spec.facts.duration_s), Fraction(spec.profile.segment_s))

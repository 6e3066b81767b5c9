"""Tracks the state of each rendition of an encode, and decides whether the ladder succeeded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tqstudio.engine.media.encode.values import (
    MAX_UNVERIFIED,
    EncodeSpec,
    RenditionKind,
    RenditionState,
    look_up,
)
from tqstudio.engine.media.plan.copying import COPY
from tqstudio.engine.media.plan.keys import Rendition
from tqstudio.engine.media.plan.video_codecs import encoder_for, on_cpu
from tqstudio.engine.media.segments.checked import RenditionCheck
from tqstudio.engine.media.segments.inspect import Prefix, verified_prefix
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.errors import ErrorCode, JobWarning, TqError, WarningCode


class RenditionStates:
    """The states of all renditions of a ladder: video largest first, then audio, then subtitles."""

    def __init__(self, spec: EncodeSpec) -> None:
        self.spec = spec
        """Its facts may become unseekable."""
        self._rungs = {rung.name: rung for rung in spec.rungs if not rung.skipped and not rung.is_audio_only}
        self._states: dict[str, RenditionState] = {}
        self.warnings: list[JobWarning] = []
        """Warnings of the job; the caller of the encode may add those about the source."""

    def __getitem__(self, name: str) -> RenditionState:
        return self._states[name]

    @property
    def states(self) -> tuple[RenditionState, ...]:
        """All renditions; empty before `look_up`."""
        return tuple(self._states.values())

    @property
    def video(self) -> tuple[RenditionState, ...]:
        """The video renditions."""
        return tuple(state for state in self.states if state.kind == "video")

    def missing(self, kind: RenditionKind) -> tuple[str, ...]:
        """Names of the renditions of a kind that are not complete."""
        return tuple(
            state.name for state in self.states if state.kind == kind and state.status != "completed"
        )

    @property
    def fraction(self) -> float:
        """Progress of the video, weighted by cost, or of the rest if there is none: 0 … 1."""
        weight = sum(state.weight for state in self.video)
        if not weight:
            return sum(state.fraction for state in self.states) / max(1, len(self.states))
        return sum(state.fraction * state.weight for state in self.video) / weight

    def look_up(self) -> None:
        """Read the states of all renditions from the store."""
        renditions: list[Rendition] = [*self._rungs.values(), *self.spec.audio, *self.spec.subtitles]
        self._states = {each.name: look_up(self.spec, each) for each in renditions}
        for state in self.states:
            self._warn_of(state)

    def reload(self, name: str, encoder: str, on_device: bool) -> None:
        """Read the stored part of a video rendition again, after a run or for another stream."""
        previous = self._states[name]
        if (previous.encoder, previous.on_device) == (encoder, on_device):
            self.update(name, prefix=verified_prefix(previous.directory, self.spec.grid))
            return
        found = look_up(self.spec, self._rungs[name], encoder, on_device)
        self._states[name] = replace(found, fraction=max(previous.fraction, found.fraction))

    def update(self, name: str, **changes: object) -> None:
        """Change fields of one state."""
        self._states[name] = replace(self._states[name], **changes)  # type: ignore[arg-type]

    def advance(self, name: str, segments: int, fraction: float, kept: float, speed: float | None) -> None:
        """Update the progress of a running rendition, which never decreases; `kept` counts fragments."""
        state = self._states[name]
        done = max(state.segments_done, segments)
        total = max(state.segments_total, done)
        stored = done / total
        # Sound is encoded from its start again.
        kept = max(kept, stored) if state.kind == "video" else 0.0
        self.update(
            name,
            segments_done=done,
            segments_total=total,
            fraction=max(state.fraction, min(MAX_UNVERIFIED, max(fraction, stored, kept))),
            kept=max(state.kept, min(MAX_UNVERIFIED, kept)),
            speed=speed,
        )

    def reset_running(self) -> None:
        """Set running renditions back to pending."""
        for state in self.states:
            if state.status == "in_progress":
                self.update(state.name, status="pending", speed=None)

    def complete(self, name: str, check: RenditionCheck) -> None:
        """Mark a rendition as completed."""
        self.update(
            name,
            status="completed",
            check=check,
            segments_done=len(check.segments),
            segments_total=len(check.segments),
            fraction=1.0,
            kept=1.0,
            speed=None,
        )
        self._warn_of(self[name])

    def fail(self, name: str, error: TqError) -> None:
        """Mark a rendition as failed; of one that is not required, only a warning remains."""
        self.update(name, status="failed", error=error, speed=None)
        if not self[name].required:
            self.warn(WarningCode.RENDITION_LEFT_OUT, f"{self._label(name)} was left out: {error.message}")

    def leave_device(self, names: Sequence[str], why: str) -> tuple[str, ...]:
        """Discard the incomplete of these renditions, whose pictures the GPU scaled; return their names."""
        left = tuple(name for name in names if self[name].status != "completed")
        text = f"the GPU could not decode and scale for {', '.join(left)}, the CPU did: {why}"
        self.warn(WarningCode.GPU_FAILED, text)
        # So that the next attempt does not continue it.
        self.discard(left)
        return left

    def fall_back(self, names: Sequence[str], encoder: str, error: TqError) -> str:
        """Warn that an encoder of a GPU, or a copy, failed; return the encoder of what remains of these."""
        if encoder == COPY:
            text = f"{', '.join(names)} was encoded, because its copy failed: {error.message}"
            self.warn(WarningCode.NOT_COPIED, text)
            self.discard(names)
            return encoder_for(self.spec.facts.video.codec, self.spec.encoder, hdr=False)
        on_the_cpu = on_cpu(encoder)
        text = f"{encoder} failed, the rest was encoded with {on_the_cpu}: {error.message}"
        self.warn(WarningCode.GPU_FAILED, text)
        return on_the_cpu

    def discard(self, names: Sequence[str]) -> None:
        """Remove what is stored of the streams of these renditions."""
        self.spec.require_ownership()
        for name in names:
            SegmentStore(self[name].directory).discard()
            self.update(name, prefix=Prefix())

    def warn(self, code: WarningCode, text: str) -> None:
        """Add a warning to the job."""
        self.warnings.append(JobWarning(code, text))

    def _label(self, name: str) -> str:
        return next((each.label for each in self.spec.subtitles if each.name == name), name)

    def _warn_of(self, state: RenditionState) -> None:
        if state.warning and state.kind == "subtitles":
            text = f"{self._label(state.name)}: {state.warning}"
            self.warn(WarningCode.SUBTITLES_LEFT_OUT, text)
        elif state.warning:
            self.warn(WarningCode.LOUDNESS_LIMITED, state.warning)

    def drop_shorter(self) -> dict[str, TqError]:
        """Discard renditions with fewer frames than the longest; return the error of each by name.

        The next attempt encodes them again.
        """
        complete = (state for state in self.video if state.status == "completed")
        frames = {state.name: state.check.frames for state in complete if state.check is not None}
        longest = max(frames.values(), default=0)
        errors = {}
        for name, count in frames.items():
            if count != longest:
                self.spec.require_ownership()
                SegmentStore(self._states[name].directory).discard()
                text = f"it has {count} frames, the other qualities have {longest}"
                errors[name] = TqError(ErrorCode.OUTPUT_INVALID, text)
        return errors

    def failure(self) -> TqError | None:
        """The error of the finished ladder, if a required rendition failed or all video did."""
        failed = [state for state in self.states if state.status == "failed"]
        required = next((state for state in failed if state.required), None)
        # Without any to encode, the video is kept from the published ladder.
        has_video = not self.video or any(state.status == "completed" for state in self.video)
        if required is None and (has_video or not failed):
            return None
        rendition = required or failed[0]
        cause = rendition.error or TqError(ErrorCode.INTERNAL, "it failed without a reason")
        return TqError(cause.code, f"{rendition.name}: {cause.message}", cause.hint)

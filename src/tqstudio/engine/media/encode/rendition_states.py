"""The renditions of an encode: what must exist, how far each is, and whether that is enough."""

from __future__ import annotations

from dataclasses import replace

from tqstudio.engine.media.encode.values import (
    ALMOST,
    EncodeSpec,
    RenditionState,
    look_up_audio,
    look_up_video,
)
from tqstudio.engine.media.plan.rungs import audio_renditions
from tqstudio.engine.media.segments.checked import RenditionCheck
from tqstudio.engine.media.segments.inspect import verified_prefix
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.errors import ErrorCode, TqError


class Board:
    """One state for each rendition that is to exist: video largest first, then audio."""

    def __init__(self, spec: EncodeSpec) -> None:
        self._spec = spec
        self._rungs = {rung.name: rung for rung in spec.rungs if not rung.skipped}
        self.audio = {found.name: found for found in audio_renditions(spec.facts, spec.profile)}
        self._states: dict[str, RenditionState] = {}

    def __getitem__(self, name: str) -> RenditionState:
        return self._states[name]

    @property
    def states(self) -> tuple[RenditionState, ...]:
        """All of them; none before they were looked up."""
        return tuple(self._states.values())

    @property
    def video(self) -> tuple[RenditionState, ...]:
        """Those with a picture."""
        return tuple(state for state in self.states if state.kind == "video")

    @property
    def fraction(self) -> float:
        """Progress of the video, weighted by pixels: 0 … 1."""
        pixels = sum(state.pixels for state in self.video)
        return sum(state.fraction * state.pixels for state in self.video) / pixels if pixels else 0.0

    def look_up(self) -> None:
        """See what the store has of each."""
        for rung in self._rungs.values():
            self._states[rung.name] = look_up_video(self._spec, rung)
        for rendition in self.audio.values():
            self._states[rendition.name] = look_up_audio(self._spec, rendition)

    def look_again(self, name: str, encoder: str) -> None:
        """See what the store has of a video rendition after a run, or of its stream by another encoder."""
        before = self._states[name]
        if before.encoder == encoder:
            self.update(name, prefix=verified_prefix(before.directory, self._spec.grid))
            return
        found = look_up_video(self._spec, self._rungs[name], encoder)
        self._states[name] = replace(found, fraction=max(before.fraction, found.fraction))

    def update(self, name: str, **changes: object) -> None:
        self._states[name] = replace(self._states[name], **changes)  # type: ignore[arg-type]

    def advance(
        self, name: str, segments: int, fraction: float, speed: float | None, *, kept: float = 0.0
    ) -> None:
        """Note how far a running rendition is; none goes back.

        Args:
            kept: the part of it that is stored, as far as whole segments do not tell it.
        """
        state = self._states[name]
        done = max(state.segments_done, segments)
        total = max(state.segments_total, done)
        kept = max(kept, done / total)
        self.update(
            name,
            segments_done=done,
            segments_total=total,
            fraction=max(state.fraction, min(ALMOST, max(fraction, kept))),
            kept=max(state.kept, min(ALMOST, kept)),
            speed=speed,
        )

    def rest(self) -> None:
        """Nothing runs any more."""
        for state in self.states:
            if state.status == "in_progress":
                self.update(state.name, status="pending", speed=None)

    def complete(self, name: str, check: RenditionCheck) -> None:
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

    def fail(self, name: str, error: TqError) -> None:
        self.update(name, status="failed", error=error, speed=None)

    def drop_shorter(self) -> dict[str, TqError]:
        """Renditions of several runs must agree too. A shorter one is dropped; the next attempt makes it."""
        frames = {state.name: state.check.frames for state in self.video if state.check is not None}
        longest = max(frames.values(), default=0)
        errors = {
            name: TqError(ErrorCode.OUTPUT_INVALID, f"{count} frames where its siblings have {longest}")
            for name, count in frames.items()
            if count != longest
        }
        for name in errors:
            self._spec.require_ours()
            SegmentStore(self._states[name].directory).discard()
        return errors

    def verdict(self) -> TqError | None:
        """Why this is no ladder, now that nothing is left to be made; None when it is one."""
        failed = [state for state in self.states if state.status == "failed"]
        required = next((state for state in failed if state.required), None)
        made = any(state.status == "completed" for state in self.video)
        if required is None and (made or not failed):
            return None
        culprit = required or failed[0]
        cause = culprit.error or TqError(ErrorCode.INTERNAL, "it failed without a reason")
        return TqError(cause.code, f"{culprit.name}: {cause.message}", cause.hint)

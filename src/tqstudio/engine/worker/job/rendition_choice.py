"""Chooses which renditions a job encodes, keeps, skips or drops."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tqstudio.engine.media.encode.values import RenditionState
from tqstudio.engine.media.plan.audio import AudioRendition, audio_renditions
from tqstudio.engine.media.plan.copying import COPY
from tqstudio.engine.media.plan.grid import make_grid
from tqstudio.engine.media.plan.keys import (
    Rendition,
    earlier_hashes,
    expected_hashes,
    settings_hash,
    without_copy,
)
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import (
    DROPPED,
    Rung,
    WholeFile,
    build_ladder,
    whole_files,
    why_not_sought,
)
from tqstudio.engine.media.plan.subtitles import SubtitleRendition, subtitle_renditions
from tqstudio.engine.media.plan.track_names import STORYBOARD, is_dropped, is_of_track, quality_of
from tqstudio.engine.media.plan.video_codecs import encoder_for
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.worker.job.failure import printable
from tqstudio.errors import MAX_ERROR_TEXT, ErrorCode, TqError

KEPT = "kept"
COPIED = "copied from the source"


@dataclass(frozen=True, slots=True)
class RenditionChoice:
    """The renditions to encode and to keep."""

    ladder: tuple[Rung, ...]
    """All rungs including skipped ones, largest first."""
    make: tuple[Rung, ...]
    """Video renditions to encode; qualities of sound are in `audio`."""
    audio: tuple[AudioRendition, ...]
    """Audio renditions to encode."""
    subtitles: tuple[SubtitleRendition, ...]
    """Subtitle renditions to convert."""
    keep: Mapping[str, str]
    """Renditions kept from the current generation: name → settings_hash."""
    storyboard: bool
    """Whether one is published."""
    files: tuple[WholeFile, ...] = ()
    """Files of the whole video that are published, and those that this source does not get."""
    remarks: Mapping[str, str] = field(default_factory=dict)
    """About the CRF and the quality of rungs, by name."""

    @property
    def nothing_to_make(self) -> bool:
        """Whether no rendition has to be encoded."""
        return not self.make and not self.audio and not self.subtitles


def choose(
    facts: SourceFacts,
    profile: Profile,
    content_id: str,
    requested: Collection[str] | None,
    kept: Mapping[str, str],
    *,
    dropped: Collection[str] = (),
) -> RenditionChoice:
    """Compare the ladder of the profile with the current generation.

    Args:
        requested: names of the requested qualities; None means all. If given, all others are kept from the
            current generation, whatever their settings.
        kept: renditions of the current generation that may be kept: name → settings_hash.
        dropped: what is neither encoded nor kept, see `is_dropped`.

    Raises:
        TqError: BAD_CONFIG if none of the requested qualities exists for this source, or all are dropped.
    """
    ladder = tuple(
        replace(rung, skipped_reason=DROPPED) if rung.name in dropped and not rung.skipped else rung
        for rung in build_ladder(facts, profile, None if requested is None else frozenset(requested))
    )
    kept = {name: key for name, key in kept.items() if not is_dropped(name, dropped)}
    skipped = {rung.name for rung in ladder if rung.skipped}
    sounds = {
        sound.name: sound
        for sound in audio_renditions(facts, profile)
        if quality_of(sound.name) not in skipped and not is_dropped(sound.name, dropped)
    }
    texts = {
        text.name: text for text in subtitle_renditions(facts, profile) if not is_dropped(text.name, dropped)
    }
    pictures = (rung for rung in ladder if not rung.skipped and not rung.is_audio_only)
    renditions: list[Rendition] = [*pictures, *sounds.values(), *texts.values()]
    wanted = {each.name: settings_hash(content_id, profile, each, facts) for each in renditions}
    earlier = earlier_hashes(content_id, profile, facts)
    fits = {name: earlier.get(name, frozenset()) | {key} for name, key in wanted.items()}
    equal = {name for name, keys in fits.items() if kept.get(name) in keys}
    if requested is None:
        keep = {name: kept[name] for name in wanted if name in equal}
    else:
        fresh = (name for name in wanted if name not in equal)
        again = {name for name in fresh if quality_of(name) in requested}
        keep = {name: key for name, key in kept.items() if name not in again}
    made = [rung for rung in ladder if not rung.skipped and rung.name not in keep]
    make = tuple(rung for rung in made if not rung.is_audio_only)
    known = keep.keys() | sounds.keys() | texts.keys()
    if requested is not None and not made and known.isdisjoint(requested):
        available = ", ".join(rung.name for rung in build_ladder(facts, profile) if not rung.skipped)
        raise TqError(
            ErrorCode.BAD_CONFIG,
            f"the source gets none of the requested qualities ({', '.join(sorted(requested))})",
            f"choose from: {available}",
        )
    if dropped and not made and all(map(is_of_track, keep)):
        raise TqError(
            ErrorCode.BAD_CONFIG,
            f"without {', '.join(sorted(dropped))} the source has no quality left",
            "transcode it again and drop fewer",
        )
    return RenditionChoice(
        ladder=ladder,
        make=make,
        audio=tuple(sound for name, sound in sounds.items() if name not in keep),
        subtitles=tuple(text for name, text in texts.items() if name not in keep),
        keep=keep,
        storyboard=profile.storyboard and STORYBOARD not in dropped and not facts.video.still,
        files=whole_files(facts, profile),
        remarks=_of_crfs(make, facts, profile),
    )


def _of_crfs(rungs: Collection[Rung], facts: SourceFacts, profile: Profile) -> dict[str, str]:
    """Why rungs are encoded with a CRF although the profile has a quality, by name."""
    reasons = ((rung, why_not_sought(facts, profile, rung)) for rung in rungs)
    return {rung.name: f"CRF {rung.crf}: {why}" for rung, why in reasons if why}


def rows(
    choice: RenditionChoice, states: Mapping[str, RenditionState], gpu: str | None = None
) -> list[dict[str, Any]]:
    """Convert all qualities, and files that are not made, to `requests.RenditionReport`.

    Args:
        states: of the renditions that are encoded, by name.
        gpu: the GPU encoders of the worker; renditions that it should have encoded get a reason.
    """
    left_out = [each for each in choice.files if each.skipped_reason]
    return [_row(choice, rung, states.get(rung.name), gpu) for rung in choice.ladder] + [
        {"name": each.key, "status": "skipped", "reason": each.skipped_reason, "required": False}
        for each in left_out
    ]


def _row(
    choice: RenditionChoice, rung: Rung, state: RenditionState | None, gpu: str | None
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": rung.name,
        "status": "skipped" if rung.skipped else "pending",
        "reason": rung.skipped_reason,
        "required": rung.required,
        "width": rung.width or None,
        "height": rung.height or None,
    }
    if rung.name in choice.keep and not rung.skipped:
        return row | {
            "status": "completed",
            "reason": KEPT,
            "progress": 100.0,
            "kept": 100.0,
            "settings_hash": choice.keep[rung.name],
        }
    if state is None:
        return row
    return row | {
        "status": state.status,
        "reason": _remark(rung, state, gpu, choice.remarks.get(rung.name)),
        "encoder": None if state.duplicate else state.encoder,
        "progress": round(min(100.0, state.fraction * 100), 2),
        "kept": round(min(100.0, state.kept * 100), 2),
        "segments_done": state.segments_done,
        "segments_total": state.segments_total,
        "speed": None if state.speed is None else round(state.speed, 3),
        "settings_hash": state.settings_hash,
        "stream_key": state.stream_key,
        "error": None if state.error is None else printable(state.error.message)[:MAX_ERROR_TEXT],
    }


def _remark(rung: Rung, state: RenditionState, gpu: str | None, quality: str | None) -> str | None:
    if state.duplicate:
        return f"linked from video {state.duplicate}"
    if state.encoder == COPY:
        return COPIED
    intended = (
        state.encoder if gpu is None or rung.is_audio_only else encoder_for(rung.codec, gpu, hdr=rung.hdr)
    )
    if state.encoder != intended:
        return f"encoded with {state.encoder} instead of {intended}"
    remarks = (
        quality,
        f"encoded: {rung.not_copied}" if rung.not_copied else "",
        f"at most {rung.maxrate_kbps} kb/s, as its source allows" if rung.limited else "",
    )
    return "; ".join(filter(None, remarks)) or None


def on_kept_grid(
    facts: SourceFacts,
    profile: Profile,
    content_id: str,
    requested: Collection[str] | None,
    kept: Mapping[str, str],
) -> Profile:
    """The profile without copying, if what is kept is cut as a ladder without a copy is.

    Args: as `choose`.
    """
    if make_grid(facts, profile).copied is None:
        return profile
    wanted = expected_hashes(content_id, profile, facts)
    earlier = earlier_hashes(content_id, profile, facts)
    cut = {name for name, key in wanted.items() if name in kept and key not in earlier.get(name, ())}
    # With other settings nothing is equal but a copy, which has few.
    is_regular = requested is not None and cut and all(kept[name] != wanted[name] for name in cut)
    is_regular = is_regular or any(kept[name] in earlier.get(name, ()) for name in cut)
    return without_copy(profile) if is_regular else profile

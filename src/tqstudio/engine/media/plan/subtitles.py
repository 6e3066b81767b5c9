"""Chooses the subtitle renditions of a source: every track and file of text, and captions in the pictures.

Bitmaps cannot become WebVTT; one track of them can become part of the pictures.
"""

from __future__ import annotations

from dataclasses import dataclass

from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.track_names import MAX_TRACKS, track_names
from tqstudio.engine.media.source.facts import SourceFacts, SubtitleTrack, leading_audio
from tqstudio.paths import display

IN_PICTURES = "cc_dec"
"""The codec of captions in the pictures: the name of ffmpeg's decoder. Streams of captions have `eia_608`."""


@dataclass(frozen=True, slots=True)
class SubtitleRendition:
    """A subtitle track as it is published. Its failure never fails the job."""

    name: str
    """Folder name, such as `sub-de`, `sub-de-2` or `sub-und`."""
    track: SubtitleTrack

    @property
    def in_pictures(self) -> bool:
        """It is made of the closed captions that the video carries."""
        return self.track.codec == IN_PICTURES

    @property
    def label(self) -> str:
        """The name for messages, with that of its file."""
        return f"{self.name} ({display(self.track.file)})" if self.track.sidecar else self.name


@dataclass(frozen=True, slots=True)
class Burnt:
    """The bitmaps that become part of the pictures of every quality."""

    track: SubtitleTrack
    forced_only: bool
    """Only those of its bitmaps that are marked as forced."""


def burnt_subtitles(facts: SourceFacts, profile: Profile) -> Burnt | None:
    """Choose what `subtitles.burn` asks for, of the tracks that can be decoded; None if there is none.

    `forced` is the forced track of the default language, else a full track with bitmaps marked as forced. A
    language is a full track, preferably without descriptions of sounds.
    """
    tracks = [track for track in facts.subtitles if all(track.canvas)]
    if facts.video.still or profile.subtitle_burn == "none" or not tracks:
        return None
    if profile.subtitle_burn != "forced":
        full = [
            track
            for track in tracks
            if track.role != "forced"
            and profile.subtitle_burn in (track.language, track.language.partition("-")[0])
        ]
        chosen = min(full, key=lambda track: (track.role, not track.default), default=None)
        return Burnt(chosen, forced_only=False) if chosen else None
    forced = [track for track in tracks if track.role == "forced" or track.has_forced]
    spoken = leading_audio(facts.audio).language if facts.audio else "und"
    first = min(
        forced,
        key=lambda track: (track.language != spoken, track.role != "forced", not track.default),
        default=None,
    )
    return Burnt(first, forced_only=first.role != "forced") if first else None


def subtitle_renditions(facts: SourceFacts, profile: Profile) -> tuple[SubtitleRendition, ...]:
    """Choose the published subtitles, in the order of the source; then files beside it, and captions."""
    if profile.subtitle_tracks == "none":
        return ()
    chosen = [track for track in (*facts.subtitles, *_captions(facts)) if track.text][:MAX_TRACKS]
    return tuple(map(SubtitleRendition, track_names("sub", (track.language for track in chosen)), chosen))


def _captions(facts: SourceFacts) -> list[SubtitleTrack]:
    """The closed captions of the video as a track, in the language that playlists declare for them.

    Not of sources whose timestamps jump: they are decoded without the corrections of the other runs.
    """
    jumps = facts.unseekable and facts.video.last_s is None
    if not facts.captions or jumps:
        return []
    language = leading_audio(facts.audio).language if facts.audio else "und"
    return [SubtitleTrack(facts.video.index, IN_PICTURES, language, "", False, text=True, role="captions")]

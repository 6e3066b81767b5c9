"""Chooses the subtitle renditions of a source: every track and file of text; bitmaps cannot become WebVTT."""

from __future__ import annotations

from dataclasses import dataclass

from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.track_names import MOST_TRACKS, TrackNames
from tqstudio.engine.media.source.facts import SourceFacts, SubtitleTrack
from tqstudio.paths import display


@dataclass(frozen=True, slots=True)
class SubtitleRendition:
    """A subtitle track as it is published. Its failure never fails the job."""

    name: str
    """Folder name, such as `sub-de`, `sub-de-2` or `sub-und`."""
    track: SubtitleTrack

    @property
    def label(self) -> str:
        """The name for messages, with that of its file."""
        return f"{self.name} ({display(self.track.file)})" if self.track.sidecar else self.name


def subtitle_renditions(facts: SourceFacts, profile: Profile) -> tuple[SubtitleRendition, ...]:
    """Choose the published subtitles, in the order of the source; files beside it come last."""
    if profile.subtitle_tracks == "none":
        return ()
    names = TrackNames("sub")
    chosen = [track for track in facts.subtitles if track.text][:MOST_TRACKS]
    return tuple(SubtitleRendition(names.next(track.language), track) for track in chosen)

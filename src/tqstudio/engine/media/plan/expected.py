"""Computes the settings hashes of the ladder that a profile gives for a source."""

from __future__ import annotations

from tqstudio.engine.media.plan.audio import audio_renditions
from tqstudio.engine.media.plan.keys import audio_settings_hash, settings_hash, subtitle_settings_hash
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import build_ladder
from tqstudio.engine.media.plan.subtitles import subtitle_renditions
from tqstudio.engine.media.source.facts import SourceFacts


def expected_hashes(content_id: str, profile: Profile, facts: SourceFacts) -> dict[str, str]:
    """The settings hash of each rendition of the full ladder, by name."""
    return (
        {
            rung.name: settings_hash(content_id, profile, rung, facts)
            for rung in build_ladder(facts, profile)
            if not rung.skipped
        }
        | {
            audio.name: audio_settings_hash(content_id, profile, audio, facts)
            for audio in audio_renditions(facts, profile)
        }
        | {
            each.name: subtitle_settings_hash(content_id, profile, each, facts)
            for each in subtitle_renditions(facts, profile)
        }
    )

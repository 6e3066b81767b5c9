"""What a profile makes of a source, by key."""

from __future__ import annotations

from tqstudio.engine.media.plan.keys import audio_settings_hash, settings_hash
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import audio_renditions, build_ladder
from tqstudio.engine.media.source.facts import SourceFacts


def wanted(content_id: str, profile: Profile, facts: SourceFacts) -> dict[str, str]:
    """Every rendition of a whole ladder: name → settings_hash."""
    return {
        rung.name: settings_hash(content_id, profile, rung, facts)
        for rung in build_ladder(facts, profile)
        if not rung.skipped
    } | {
        audio.name: audio_settings_hash(content_id, profile, audio, facts)
        for audio in audio_renditions(facts, profile)
    }

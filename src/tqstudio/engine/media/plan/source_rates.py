"""Limits bit rates to what those of the source are worth, so that nothing published is larger for no gain."""

from __future__ import annotations

from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.source.facts import AudioTrack, SourceFacts

MARGIN = 1.3
"""Encoding again costs a little: with the bit rate of the source, its picture would be worse."""
RATE_EXPONENT = 0.75
"""The bit rate grows more slowly than the pixel count; 0.75 is the usual exponent."""
WORTH = {
    "mpeg1video": 0.5,
    "mpeg2video": 0.6,
    "h263": 0.6,
    "flv1": 0.6,
    "mpeg4": 0.7,
    "msmpeg4v3": 0.7,
    "wmv1": 0.6,
    "wmv2": 0.7,
    "wmv3": 0.9,
    "vc1": 0.9,
    "vp6f": 0.7,
    "vp8": 0.9,
    "h264": 1.0,
    "vp9": 1.4,
    "hevc": 1.5,
    "av1": 1.7,
    "vvc": 2.0,
    "mp2": 0.7,
    "mp3": 0.8,
    "wmav2": 0.8,
    "vorbis": 1.0,
    "ac3": 0.7,
    "eac3": 0.9,
    "aac": 1.0,
    "opus": 1.3,
}
"""What a bit of each lossy codec is worth in bits of H.264, or of AAC-LC, by published comparisons."""
_BUFFER_AT_START = 0.9
"""Share of the rate control buffer that an encoder may spend beside the bit rate; short clips are that much
larger."""
_MIN_AUDIO_KBPS = 32
_MIN_CHANNEL_KBPS = 24
"""Below this, AAC-LC is bad whatever the source is."""
_STEP_KBPS = 8
_HE_AAC_BELOW = 36_000
"""Bits per second and channel. HE-AAC, which the facts do not distinguish, is the AAC of low rates."""
_HE_AAC_WORTH = 1.5


def picture_cap_kbps(facts: SourceFacts, profile: Profile, codec: str, pixels: int) -> float | None:
    """The highest bit rate for a rung in kbit/s; None if the rate of the source is unknown.

    Sources in codecs that keep every picture whole are not limited: their rates say nothing.
    """
    video, length_s = facts.video, facts.video.duration_s or facts.duration_s
    if not (length_s and video.measured_bitrate and video.codec in WORTH and video.width and video.height):
        return None
    size: float = min(1.0, pixels / (video.width * video.height)) ** RATE_EXPONENT
    at_start = 1 + _BUFFER_AT_START * profile.bufsize_factor / length_s
    more_keys = max(0.0, 1 / profile.gop_s - video.key_rate)
    # Slides and screens are little else than key frames, of which a ladder has more.
    bits = max(MARGIN * video.measured_bitrate, video.measured_bitrate + 8 * video.key_bytes * more_keys)
    return bits / 1000 * WORTH[video.codec] / WORTH[codec] * size / at_start


def audio_kbps(nominal: int, codec: str, channels: int, tracks: tuple[AudioTrack, ...]) -> int:
    """The bit rate for a sound in kbit/s: the nominal one, or less if its tracks have less."""
    if not all(track.bitrate and track.codec in WORTH for track in tracks):
        return nominal
    worth = sum(track.bitrate * WORTH[track.codec] for track in tracks) / 1000 / WORTH[codec]
    if all(track.codec == "aac" and track.bitrate < _HE_AAC_BELOW * track.channels for track in tracks):
        worth *= _HE_AAC_WORTH
    steps = -(-MARGIN * worth // _STEP_KBPS)
    return min(nominal, max(_MIN_AUDIO_KBPS, _MIN_CHANNEL_KBPS * channels, int(steps) * _STEP_KBPS))

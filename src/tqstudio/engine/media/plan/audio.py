"""Chooses the audio renditions of a source: every track, and with `audio.surround` its channels too.

Without video they are the qualities: each track in several bit rates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.source_rates import audio_kbps
from tqstudio.engine.media.plan.track_names import LOW, MAX_TRACKS, SURROUND, track_names
from tqstudio.engine.media.source.facts import AudioTrack, SourceFacts, leading_audio

DOWNMIX_PEAK = 0.84
"""Peak limit of downmixed audio as a share of full scale (-1.5 dB), with headroom for encoder overshoot."""
_EAC3_CHANNELS = 6
"""Channels that ffmpeg's E-AC-3 encoder supports."""
_AAC_CHANNELS = 8
_LAYOUTS = (1, 2, 6, 8)
"""Channels of the layouts that players know: mono, stereo, 5.1, 7.1."""
_QUALITIES_KBPS = (192, 128, 64)
"""Bit rates in kbit/s for sources of sound alone."""
_MIN_KBPS = 32
_TOGETHER_S = 0.05
"""Largest difference of the starts and ends of two tracks that are one pair."""
_APART = 1.25
"""Least factor between the bit rates of two qualities."""

Codec = Literal["aac", "eac3"]
_Sound = tuple[AudioTrack, AudioTrack | None]
"""A track, and that of its right channel if it is stored apart."""


@dataclass(frozen=True, slots=True)
class AudioRendition:
    """An audio track as it is published."""

    name: str
    """Folder name, such as `audio-en`, `audio-en-2`, `audio-en-low` or `audio-en-surround`; of sound alone
    `128k`, and `audio-de-128k` of other tracks."""
    track: AudioTrack
    channels: int
    """Published channels: those of a layout that has all of the track, at most those of the profile."""
    codec: Codec = "aac"
    bitrate_kbps: int = 128
    default: bool = True
    """Whether players begin with it; of sound alone all qualities of that track. Only of others a failure
    does not fail the job."""
    right: AudioTrack | None = None
    """The right channel, if the source stores a stereo pair as two mono tracks; `track` is the left one."""
    surround_of: str | None = None
    """Name of the rendition with the same sound in fewer channels."""

    @property
    def tracks(self) -> tuple[AudioTrack, ...]:
        """The tracks of the source that it contains."""
        return (self.track,) if self.right is None else (self.track, self.right)

    @property
    def source_channels(self) -> int:
        """Channels before any downmix."""
        return sum(track.channels for track in self.tracks)

    @property
    def downmixed(self) -> bool:
        """Whether it has fewer channels than the source."""
        return self.channels < self.source_channels


def audio_renditions(facts: SourceFacts, profile: Profile) -> tuple[AudioRendition, ...]:
    """Choose the published audio: the default rendition first, then the others in the order of the source.

    The default is the first track that the source marks as such and that is neither a commentary nor a
    description, else the first other one that is neither. Tracks that this build cannot decode are left out.
    """
    # A declared track may be empty.
    sounds = _joined(
        facts, lambda track: is_readable(track) and (not facts.measured or track.first_s is not None)
    )
    if not sounds:
        return ()
    leading = leading_audio(track for track, _ in sounds)
    first = next(each for each in sounds if each[0] is leading)
    others = [each for each in sounds if each is not first] if profile.audio_tracks == "all" else []
    sounds = [first, *others][:MAX_TRACKS]
    names = track_names("audio", (track.language for track, _ in sounds))
    if facts.video.still:
        return _qualities(sounds, names, profile)
    found: list[AudioRendition] = []
    for name, (track, right) in zip(names, sounds, strict=True):
        channels = _placed(track, right)
        mixed = AudioRendition(
            name=name,
            track=track,
            channels=_published(channels, profile.audio_channels),
            bitrate_kbps=profile.audio_bitrate_kbps,
            default=not found,
            right=right,
        )
        mixed = _within_source(mixed, facts)
        found.append(mixed)
        low = profile.audio_low_kbps
        if low and (mixed.bitrate_kbps == profile.audio_bitrate_kbps or mixed.bitrate_kbps >= _APART * low):
            found.append(replace(mixed, name=f"{name}{LOW}", bitrate_kbps=low, default=False))
        if profile.audio_surround != "none" and channels > 2 and mixed.downmixed:
            found.append(_within_source(_surround(mixed, profile), facts))
    return tuple(found)


def _qualities(
    sounds: Sequence[_Sound], names: Iterable[str], profile: Profile
) -> tuple[AudioRendition, ...]:
    """The qualities of sound alone, best first: no bit rate is above that of the first track.

    They are followed by the other tracks, each in the same bit rates: a player that changes one keeps the
    other.
    """
    measured = sum(each.bitrate for each in sounds[0] if each is not None)
    own = max(_MIN_KBPS, measured // 1000) if measured else _QUALITIES_KBPS[0]
    rates: list[int] = []
    for rate in sorted(min(own, each) for each in _QUALITIES_KBPS):
        if not rates or rate >= _APART * rates[-1]:
            rates.append(rate)
    found: list[AudioRendition] = []
    for name, (track, right) in zip(names, sounds, strict=True):
        channels = _published(_placed(track, right), profile.audio_channels)
        default, prefix = not found, f"{name}-" if found else ""
        found += [
            AudioRendition(f"{prefix}{rate}k", track, channels, "aac", rate, default, right)
            for rate in reversed(rates)
        ]
    return tuple(found)


def is_readable(track: AudioTrack) -> bool:
    """Whether this build can decode a track."""
    return bool(track.codec) and track.channels > 0


def _surround(mixed: AudioRendition, profile: Profile) -> AudioRendition:
    codec: Codec = "eac3" if profile.audio_surround == "eac3" else "aac"
    channels = _published(mixed.track.channels, _EAC3_CHANNELS if codec == "eac3" else _AAC_CHANNELS)
    return AudioRendition(
        name=f"{mixed.name}{SURROUND}",
        track=mixed.track,
        channels=channels,
        codec=codec,
        bitrate_kbps=profile.audio_bitrate_kbps // 2 * channels,
        default=False,
        surround_of=mixed.name,
    )


def _within_source(sound: AudioRendition, facts: SourceFacts) -> AudioRendition:
    """Lower the bit rate to what that of its tracks is worth, see `VideoTrack.measured_bitrate`."""
    if not facts.video.measured_bitrate:
        return sound
    kbps = audio_kbps(sound.bitrate_kbps, sound.codec, sound.channels, sound.tracks)
    return replace(sound, bitrate_kbps=kbps)


def _placed(track: AudioTrack, right: AudioTrack | None) -> int:
    """The channels of a sound that have places."""
    return track.channels if right is None and not track.unplaced else 2


def _published(channels: int, most: int) -> int:
    """The channels as which a sound is published, of at most so many: 3.0 and 4.0 as 5.1."""
    allowed = [each for each in _LAYOUTS if each <= most]
    return next((each for each in allowed if each >= channels), allowed[-1])


def _joined(facts: SourceFacts, is_usable: Callable[[AudioTrack], bool]) -> list[_Sound]:
    """List the usable tracks, and join mono tracks to stereo pairs.

    Broadcasters store the channels of a pair apart: in MXF and GXF two after each other if all are mono, in
    MOV two that are named so. One channel of a pair alone is published as it is.
    """
    in_order = facts.container in ("mxf", "mxf_opatom", "gxf") and all(
        track.channels == 1 for track in facts.audio
    )
    found: list[_Sound] = []
    rest = list(facts.audio)
    while rest:
        left, right = rest.pop(0), rest[0] if rest else None
        if right is None or not (in_order or (left.side, right.side) == ("FL", "FR")):
            found += [(left, None)] if is_usable(left) else []
            continue
        del rest[0]
        if _is_pair(left, right) and is_usable(left) and is_usable(right):
            found.append((left, right))
        else:
            found += [(track, None) for track in (left, right) if is_usable(track)]
    return found


def _is_pair(left: AudioTrack, right: AudioTrack) -> bool:
    """Whether two mono tracks are channels of one sound that begin and end together, as `join` needs."""
    if (left.language, left.role) != (right.language, right.role):
        return False
    ends = ((left.first_s, right.first_s), (left.end_s, right.end_s))
    apart = [abs(one - other) for one, other in ends if one is not None and other is not None]
    return max(apart, default=0) <= _TOGETHER_S

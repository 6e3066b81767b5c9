"""Builds the warnings about a source: omitted tracks, damage, colour conversion."""

from __future__ import annotations

from collections.abc import Sequence

from tqstudio.engine.media.plan.audio import audio_renditions, is_readable
from tqstudio.engine.media.plan.grid import Grid, make_grid
from tqstudio.engine.media.plan.profiles import Profile, names
from tqstudio.engine.media.plan.rungs import SAME_RATE, build_ladder
from tqstudio.engine.media.plan.subtitles import burnt_subtitles, subtitle_renditions
from tqstudio.engine.media.plan.video_codecs import CODECS
from tqstudio.engine.media.source import colour
from tqstudio.engine.media.source.chapters import MAX_CHAPTERS, within
from tqstudio.engine.media.source.facts import AudioTrack, Damage, SourceFacts, SubtitleTrack, VideoTrack
from tqstudio.errors import JobWarning, WarningCode
from tqstudio.paths import display

_MAX_NAMED = 4
_CUT_S = 0.5
"""Less of a track outside of the video is not worth a warning: codecs and recorders round."""
_MIN_WARNED_S = 10
"""The bit rate of a shorter clip is that of its first pictures."""
_OMITTED = {
    "other": "another {}",
    "programme": "{} of another programme",
    "late": "{} that begins after the first seconds",
    "unknown": "of a codec that ffmpeg does not recognise",
}


def of_source(facts: SourceFacts, profile: Profile) -> list[JobWarning]:
    """All warnings about a source, most important first."""
    published = {track.index: track for sound in audio_renditions(facts, profile) for track in sound.tracks}
    missing = [track for track in facts.audio if track.index not in published]
    unreadable = [track for track in missing if not is_readable(track)]
    left_out = [track for track in missing if is_readable(track)]
    found = [
        *_left_out(WarningCode.AUDIO_UNREADABLE, "audio track", unreadable, " cannot be decoded and"),
        *_left_out(WarningCode.AUDIO_LEFT_OUT, "audio track", left_out),
    ]
    grid = make_grid(facts, profile)
    outside = {index: _outside_s(track, grid) for index, track in published.items()} if grid.exact else {}
    if cut := [published[index] for index, lost_s in outside.items() if lost_s > _CUT_S]:
        by_s = max(outside.values())
        text = f"audio tracks are cut to the length of the ladder, by up to {by_s:.1f} s: {_named(cut)}"
        found.append(JobWarning(WarningCode.AUDIO_CUT, text))
    texts = subtitle_renditions(facts, profile)
    converted = {each.track for each in texts}
    if burnt := burnt_subtitles(facts, profile):
        what = "the forced bitmaps of a subtitle track" if burnt.forced_only else "a subtitle track"
        text = f"{what} became part of the pictures: {_named([burnt.track])}"
        found.append(JobWarning(WarningCode.SUBTITLES_BURNT, text))
        converted.add(burnt.track)
    subtitles = [track for track in facts.subtitles if track not in converted]
    found += _left_out(WarningCode.SUBTITLES_LEFT_OUT, "subtitle track", subtitles)
    as_text = any(each.in_pictures for each in texts)
    if facts.captions and (why := _without_captions(facts, profile)):
        what = "closed captions other than CC1" if as_text else "closed captions"
        text = f"{what} are left out, because {why}"
        found.append(JobWarning(WarningCode.SUBTITLES_LEFT_OUT, text))
    parts = facts.chapters or ()
    if len(within(parts, grid.zero, grid.length)) < len(parts):
        left = f"chapters that lie outside of the video, or come after {MAX_CHAPTERS} others, are left out"
        found.append(JobWarning(WarningCode.CHAPTERS_LEFT_OUT, left))
    if facts.omitted:
        named = _listed(
            [f"stream {each.index} ({_OMITTED[each.why].format(each.kind)})" for each in facts.omitted]
        )
        found.insert(0, JobWarning(WarningCode.STREAMS_LEFT_OUT, f"left out: {named}"))
    if not facts.video.still:
        found += (*_of_projection(facts.video), *_of_colours(facts, profile), *_of_bitrate(facts, profile))
    return [*map(of_damage, facts.damage), *found]


def of_damage(damage: Damage) -> JobWarning:
    """The warning about one kind of damage."""
    at = clock_of(damage.at_s)
    match damage.kind:
        case "hole":
            text = f"the source has a gap at {at}: {damage.length_s:.1f} s are missing"
        case "restart":
            text = f"the clock of the source goes back at {at}: what follows may be missing"
        case "codec":
            text = f"a stream of the source changes its codec at {at}, which ffmpeg cannot follow"
        case "encrypted":
            text = f"parts of the source are encrypted and missing, the first at {at}"
        case "corrupt":
            text = f"the source has packets with errors, the first at {at}"
        case "pictures":
            text = f"pictures of the source could not be decoded without errors, the first at about {at}"
        case "sound":
            text = f"sound of the source could not be decoded without errors, the first at about {at}"
        case "cut":
            lacks = f"{damage.length_s:.1f} s are missing" if damage.length_s else "it is incomplete"
            text = f"the source was cut off at {at}: {lacks}"
            return JobWarning(WarningCode.SOURCE_INCOMPLETE, text)
    return JobWarning(WarningCode.SOURCE_DAMAGED, text)


def clock_of(seconds: float) -> str:
    """`0:07`, `1:02:03`."""
    whole = max(0, int(seconds))
    hours = f"{whole // 3600}:{whole // 60 % 60:02}" if whole >= 3600 else f"{whole // 60}"
    return f"{hours}:{whole % 60:02}"


def _of_projection(video: VideoTrack) -> list[JobWarning]:
    lost = []
    if video.projection:
        lost.append(f"players do not know of {video.projection}: they show the pictures as they are stored")
    if video.more_views:
        lost.append("further views of the pictures, as for the other eye, are left out")
    return [JobWarning(WarningCode.PROJECTION_LEFT_OUT, text) for text in lost]


def _of_colours(facts: SourceFacts, profile: Profile) -> list[JobWarning]:
    found, video = [], facts.video
    keeps_hdr = any(rung.hdr and not rung.skipped for rung in build_ladder(facts, profile))
    if colour.colour_of(video).hdr and not keeps_hdr:
        kind = "HLG" if colour.colour_of(video).transfer == colour.HLG else "PQ"
        named = f"Dolby Vision {video.dv_profile}" if video.dv_profile else "HDR"
        if video.dv_profile and not colour.needs_vulkan(video):
            named += ": its base layer"
        text = f"{named} ({kind}) is mapped to SDR: highlights are compressed and wide colours clipped"
        found.append(JobWarning(WarningCode.HDR_TONE_MAPPED, text))
    if colour.has_alpha(video):
        text = f"transparency is left out: the pictures are shown over {profile.background}"
        found.append(JobWarning(WarningCode.ALPHA_LEFT_OUT, text))
    if video.retagged_s is not None:
        at = clock_of(video.retagged_s - float(video.first_pts_s))
        text = f"the colours of the source change at {at}; from there they are shown as if they did not"
        found.append(JobWarning(WarningCode.COLOURS_CHANGE, text))
    return found


def _of_bitrate(facts: SourceFacts, profile: Profile) -> list[JobWarning]:
    """Warn if the bit rate of the source leaves a quality out, or halves the best one's."""
    if facts.duration_s < _MIN_WARNED_S:
        return []
    nominal = {name: spec.maxrate_kbps for spec, name in names(profile).items()}
    ladder = build_ladder(facts, profile)
    alike = [rung.name for rung in ladder if rung.skipped_reason == SAME_RATE]
    best = next((rung for rung in ladder if not rung.skipped), None)
    if not alike and not (best and best.limited and 2 * best.maxrate_kbps < nominal.get(best.name, 0)):
        return []
    kbps = facts.video.measured_bitrate // 1000
    text = f"the pictures of the source have only {kbps} kb/s, which limits its qualities"
    text += f"; left out, as hardly smaller than a higher quality: {_listed(alike)}" if alike else ""
    return [JobWarning(WarningCode.LOW_BITRATE, text)]


def _without_captions(facts: SourceFacts, profile: Profile) -> str:
    """Why the pictures lose their closed captions; empty if they do not."""
    if facts.video.loses_messages:
        return "ffmpeg stops at the messages that carry them: they repeat what the container states"
    used = {profile.codec_of(rung) for rung in profile.rungs}
    names = ", ".join(sorted(CODECS[codec].encoder for codec in used if not CODECS[codec].captions))
    return f"{names} cannot carry them" if names else ""


def _outside_s(track: AudioTrack, grid: Grid) -> float:
    """The seconds of a track that are cut off at both ends."""
    begins, ends = float(grid.zero), float(grid.zero + grid.length)
    first_s, end_s = begins if track.first_s is None else track.first_s, track.end_s or ends
    return max(0.0, begins - first_s) + max(0.0, end_s - ends)


def _left_out(
    code: WarningCode, noun: str, tracks: Sequence[AudioTrack | SubtitleTrack], why: str = ""
) -> list[JobWarning]:
    plural, verb = ("", "is") if len(tracks) == 1 else ("s", "are")
    text = f"{len(tracks)} {noun}{plural}{why} {verb} left out: {_named(tracks)}"
    return [JobWarning(code, text)] if tracks else []


def _named(tracks: Sequence[AudioTrack | SubtitleTrack]) -> str:
    """`stream 2 (fr, ac3, "Commentary"), film.de.srt (…) and 4 more`."""
    names = []
    for track in tracks:
        language = "" if track.language == "und" else track.language
        title = f'"{track.title}"' if track.title else ""
        locked = track.encrypted if isinstance(track, AudioTrack) else ""
        about = ", ".join(filter(None, (language, track.codec, title, locked and f"encrypted: {locked}")))
        where = f"stream {track.index}"
        if isinstance(track, SubtitleTrack) and track.sidecar:
            where = display(track.file)
        names.append(f"{where}{f' ({about})' if about else ''}")
    return _listed(names)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")

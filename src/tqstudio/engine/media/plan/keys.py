"""Computes the two keys of a rendition, `settings_hash` and `stream_key`.

`settings_hash` covers the content of the source and the settings that affect the result; it decides whether a
rendition is up to date. `stream_key` adds the encoder, where pictures are scaled, the ffmpeg build and the
source's modification time; it decides only whether segments may be joined. So an ffmpeg upgrade, a change
from CPU to GPU or a `touch` does not encode a library again.

Of a quality that a profile asks for, the target is part of the settings; the CRF that reaches it is decided
once, stored with the video, and part of the stream key alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from blake3 import blake3

from tqstudio.engine.media.plan.audio import DOWNMIX_PEAK, AudioRendition, audio_renditions
from tqstudio.engine.media.plan.grid import Grid, make_grid
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import Rung, build_ladder
from tqstudio.engine.media.plan.subtitles import SubtitleRendition, burnt_subtitles, subtitle_renditions
from tqstudio.engine.media.source.colour import Filters, flattened, to_bt709, to_hdr
from tqstudio.engine.media.source.facts import SourceFacts, VideoTrack
from tqstudio.protocol.worker_answers import DecidedCrf

Rendition = Rung | AudioRendition | SubtitleRendition

RECIPES = {"video": 2, "audio": 2, "subtitles": 2}
"""By kind of rendition: increased when the code that makes it changes so that it has to be made again."""

_DIGITS = 32


def settings_hash(content_id: str, profile: Profile, rendition: Rendition, facts: SourceFacts) -> str:
    """Compute the settings hash of a rendition: 32 hex digits; for `content_id` see `fingerprint.Content`."""
    grid = make_grid(facts, profile)
    match rendition:
        case Rung():
            settings = _of_video(profile, rendition, facts, grid)
        case AudioRendition():
            settings = _of_audio(profile, rendition, grid)
        case SubtitleRendition():
            settings = _of_subtitles(rendition, facts, grid)
    return _digest({"recipe": RECIPES[str(settings["kind"])], "content": content_id, **settings})


def _of_video(profile: Profile, rung: Rung, facts: SourceFacts, grid: Grid) -> dict[str, object]:
    if rung.copied:
        return {
            "kind": "video",
            "stream": facts.video.index,
            "copy": True,
            "size": [rung.width, rung.height],
            "seg_frames": grid.seg_frames,
            "g0": grid.g0,
            "frames": grid.total_frames,
        }
    burnt = burnt_subtitles(facts, profile)
    return {
        "kind": "video",
        "stream": facts.video.index,
        "codec": rung.codec,
        "preset": rung.preset,
        "crf": rung.crf,
        "profile": profile.video_profile if rung.codec == "h264" else "",
        "pixel_format": pixel_format(profile, rung),
        "bufsize_factor": profile.bufsize_factor,
        "size": [rung.width, rung.height],
        "maxrate_kbps": rung.maxrate_kbps,
        "fps": str(grid.fps),
        "gop": grid.gop,
        "seg_frames": grid.seg_frames,
        "g0": grid.g0,
        "start_time": str(grid.start_time),
        "frames": grid.total_frames,
        "head": grid.head,
        "deinterlace": facts.video.interlaced,
        "colour": conversion(facts.video, profile, rung),
        "varies": facts.video.varies,
        **({"vbi_rows": facts.video.vbi_rows} if facts.video.vbi_rows else {}),
        **({"edits": facts.video.edits} if facts.video.edits else {}),
        **({"follows_tags": True} if facts.video.follows_tags else {}),
        **({"quality": rung.quality} if rung.quality else {}),
        **({"burnt": [burnt.track.index, burnt.forced_only]} if burnt else {}),
        **_of_cuts(grid),
    }


def _of_cuts(grid: Grid) -> dict[str, object]:
    """What differs where segments begin at key frames of the source."""
    return {"cuts": "source"} if grid.copied is not None else {}


def pixel_format(profile: Profile, rung: Rung) -> str:
    """The pixel format in which a rung is encoded."""
    return "yuv420p10le" if rung.hdr else profile.pixel_format


def conversion(video: VideoTrack, profile: Profile, rung: Rung) -> Filters:
    """The filters that convert the pictures of a source to the colours of a rung."""
    flat, video = flattened(video, profile.background)
    ten_bits = profile.pixel_format != "yuv420p"
    return (*flat, *(to_hdr(video) if rung.hdr else to_bt709(video, ten_bits=ten_bits)))


def _of_audio(profile: Profile, rendition: AudioRendition, grid: Grid) -> dict[str, object]:
    return {
        "kind": "audio",
        "stream": rendition.track.index,
        **({"right": rendition.right.index} if rendition.right is not None else {}),
        "codec": rendition.codec,
        "bitrate_kbps": rendition.bitrate_kbps,
        "channels": rendition.channels,
        **({"limit": DOWNMIX_PEAK} if rendition.downmixed else {}),
        **({} if profile.target_lufs is None else {"loudness": profile.target_lufs}),
        "sample_rate": profile.audio_sample_rate,
        "segment_s": profile.segment_s,
        "range": [str(grid.zero), str(grid.length)],
    }


def _of_subtitles(rendition: SubtitleRendition, facts: SourceFacts, grid: Grid) -> dict[str, object]:
    track = rendition.track
    # Its name decides how a file is offered, and may change while its content does not.
    file = {"file": [track.digest, track.language, track.title, track.role], "start": facts.start_time_s}
    return {
        "kind": "subtitles",
        **(file if track.sidecar else {"stream": track.index}),
        "segment": [str(grid.fps), grid.seg_frames],
        "range": [str(grid.zero), str(grid.length)],
        **_of_cuts(grid),
    }


def expected_hashes(content_id: str, profile: Profile, facts: SourceFacts) -> dict[str, str]:
    """The settings hash of each rendition of the full ladder, by name."""
    renditions: list[Rendition] = [
        *(rung for rung in build_ladder(facts, profile) if not rung.skipped and not rung.is_audio_only),
        *audio_renditions(facts, profile),
        *subtitle_renditions(facts, profile),
    ]
    return {each.name: settings_hash(content_id, profile, each, facts) for each in renditions}


def earlier_hashes(content_id: str, profile: Profile, facts: SourceFacts) -> dict[str, frozenset[str]]:
    """The settings hashes of earlier versions by name, which copied nothing, and did not limit bit rates.

    Ladders that they published stay as they are.
    """
    found: dict[str, frozenset[str]] = {}
    unlimited = replace(facts, video=replace(facts.video, measured_bitrate=0))
    for source in (facts, unlimited):
        for name, key in expected_hashes(content_id, without_copy(profile), source).items():
            found[name] = found.get(name, frozenset()) | {key}
    return found


def without_copy(profile: Profile) -> Profile:
    """The same profile with all qualities encoded, on the grid of ladders without a copy."""
    return replace(profile, copy="never")


def largest_rungs(facts: SourceFacts, profile: Profile) -> dict[str, Rung]:
    """The largest rung of each codec that seeks a quality, by codec; whichever rungs a job makes."""
    found: dict[str, Rung] = {}
    for rung in build_ladder(facts, profile):
        if rung.quality and not rung.skipped:
            found.setdefault(rung.codec, rung)
    return found


def decided_for(
    decided: Iterable[DecidedCrf], content_id: str, facts: SourceFacts, profile: Profile
) -> dict[str, tuple[Rung, DecidedCrf]]:
    """Which of the decisions apply: encoder → the largest rung of its codec, and the decision."""
    largest = largest_rungs(facts, profile)
    keys = {settings_hash(content_id, profile, rung, facts): rung for rung in largest.values()}
    return {
        each["encoder"]: (keys[each["settings_hash"]], each)
        for each in decided
        if each["settings_hash"] in keys
    }


def stream_key(
    settings_hash: str,
    encoder: str,
    ffmpeg_build: str,
    mtime_ns: int,
    scaled_by: str = "",
    found_crf: int | None = None,
) -> str:
    """Compute the key of segments that may be joined: 32 hex digits, a folder name of the segment store.

    Args:
        encoder: as ffmpeg names it, such as `libx264` or `aac`.
        ffmpeg_build: `FFmpeg.build`.
        mtime_ns: of the source; the quick hash reads samples only and may miss a change between them.
        scaled_by: the interface of a GPU whose scaler is used, whose pixels differ; empty for the CPU.
        found_crf: that was sought for a quality; None for the one in the settings.
    """
    more = {"scaled_by": scaled_by} if scaled_by else {}
    crf = {} if found_crf is None else {"crf": found_crf}
    return _digest(
        {
            "settings": settings_hash,
            "encoder": encoder,
            "build": ffmpeg_build,
            "mtime_ns": mtime_ns,
            **more,
            **crf,
        }
    )


def _digest(values: Mapping[str, object]) -> str:
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return blake3(canonical.encode()).hexdigest()[:_DIGITS]

"""`plan`: reports what a file would become, without encoding it. Works without a supervisor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from tqstudio import units
from tqstudio.cli.terminal import options, printing
from tqstudio.config import Settings, load_settings
from tqstudio.home import Home, current_home
from tqstudio.paths import absolute, display, encode
from tqstudio.words import format as fmt
from tqstudio.words.sentences import by_reason

if TYPE_CHECKING:
    from tqstudio.engine.media.plan.profiles import Profile
    from tqstudio.engine.media.plan.rungs import Rung
    from tqstudio.engine.media.source.facts import SourceFacts
    from tqstudio.engine.store.db.connection import Connection
    from tqstudio.protocol.answers import EtaView
    from tqstudio.protocol.worker_answers import DecidedCrf

T = TypeVar("T")


def plan(
    path: Annotated[str, typer.Argument(metavar="FILE", help="A video or sound.", show_default=False)],
    profile: options.ProfileName = None,
    settings: options.Settings = None,
    as_json: options.JsonFlag = False,
) -> int:
    """Show what a file would become: qualities, the space they take at most, and the time.

    Nothing is queued or encoded. The whole file is read once.
    """
    from tqstudio.engine.media.ffmpeg.binary import locate
    from tqstudio.engine.media.ffmpeg.trial_runs import require_vulkan
    from tqstudio.engine.media.plan import profiles
    from tqstudio.engine.media.plan.rungs import build_ladder, first_quality
    from tqstudio.engine.media.plan.warnings import of_source
    from tqstudio.engine.media.source.colour import needs_vulkan
    from tqstudio.engine.media.source.probe import probe

    home = current_home()
    set_up = load_settings(home)
    chosen = profiles.load(profile or set_up.profile, home.profiles)
    if changes := options.overrides(settings):
        chosen = profiles.override(chosen, changes)
    source = absolute(path)
    facts = probe(os.fsencode(source))
    if needs_vulkan(facts.video):
        require_vulkan(locate(set_up.ffmpeg or None), facts.video, display(os.fsencode(source)))
    made, skipped = _renditions(facts, chosen, _decided(home, set_up, source, facts, chosen))
    first = first_quality(build_ladder(facts, chosen), facts, chosen)
    view: dict[str, Any] = {
        "source": display(os.fsencode(source)),
        "source_b64": encode(source),
        "duration_s": facts.duration_s,
        "profile": chosen.name,
        "renditions": made,
        "skipped": skipped,
        "first": first,
        "warnings": [{"code": each.code.value, "text": each.text} for each in of_source(facts, chosen)],
        "max_bytes": sum(each["max_bytes"] for each in made),
        "eta": _time(home, set_up, facts, chosen),
    }
    if as_json:
        printing.out_json(view)
    else:
        _print(view, facts)
    return 0


def _renditions(
    facts: SourceFacts, profile: Profile, decided: Mapping[str, tuple[Rung, DecidedCrf]]
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """What would be encoded, and why other qualities would not.

    Args:
        decided: CRFs for the quality of the profile, by encoder, with the largest rung of each.
    """
    from tqstudio.engine.media.plan.audio import audio_renditions
    from tqstudio.engine.media.plan.rungs import build_ladder, followed, whole_files, why_not_sought
    from tqstudio.engine.media.plan.subtitles import subtitle_renditions

    ladder = build_ladder(facts, profile)
    made = [
        _row(
            rung.name,
            "video",
            f"{rung.width}×{rung.height}",
            rung.codec,
            rung.maxrate_kbps,
            facts,
            limited=rung.limited,
            copied=rung.copied,
            not_copied=rung.not_copied,
        )
        | {
            "quality": rung.quality or None,
            "crf": _crf(rung, decided, followed) if rung.quality else rung.crf,
            "quality_remark": why_not_sought(facts, profile, rung) or None,
        }
        for rung in ladder
        if not rung.skipped and not rung.is_audio_only
    ]
    for sound in audio_renditions(facts, profile):
        shape = fmt.counted(sound.channels, "channel")
        made.append(_row(sound.name, "audio", shape, sound.codec, sound.bitrate_kbps, facts))
    for text in subtitle_renditions(facts, profile):
        made.append(_row(text.name, "subtitles", "", "webvtt", 0, facts))
    files = whole_files(facts, profile)
    for file in files:
        if not file.skipped_reason:
            made.append(_row(file.key, "file", file.quality, "copied", file.max_kbps, facts))
    names = [(rung.name, rung.skipped_reason) for rung in ladder]
    names += [(file.key, file.skipped_reason) for file in files]
    return made, [{"name": name, "reason": reason} for name, reason in names if reason]


def _crf(
    rung: Rung, decided: Mapping[str, tuple[Rung, DecidedCrf]], followed: Callable[[Rung, int], int]
) -> int | None:
    """The CRF that was found for the quality of a rung; None if it is decided later."""
    shifts = [each["crf"] - of.crf for of, each in decided.values() if of.codec == rung.codec]
    return followed(rung, shifts[-1]) if shifts else None


def _row(
    name: str,
    kind: str,
    shape: str,
    codec: str,
    max_kbps: int,
    facts: SourceFacts,
    *,
    limited: bool = False,
    copied: bool = False,
    not_copied: str = "",
) -> dict[str, Any]:
    from tqstudio.engine.media.plan.rungs import max_bytes

    return {
        "name": name,
        "kind": kind,
        "shape": shape,
        "codec": codec,
        "max_kbps": max_kbps,
        "max_bytes": max_bytes(facts, max_kbps),
        "limited": limited,
        "copied": copied,
        "not_copied": not_copied or None,
    }


def _stored(home: Home, settings: Settings, read: Callable[[Connection], T]) -> T | None:
    """What a function reads from the database; None if there is none, or one of another version."""
    from contextlib import closing

    from sqlalchemy.exc import DBAPIError

    from tqstudio.engine.store.db.connection import address_of, connect, is_there

    address = address_of(home, settings)
    try:
        if is_there(address):
            with closing(connect(address, read_only=True)) as db:
                return read(db)
    except DBAPIError:
        pass  # the next start of the supervisor reports an earlier schema, or damage
    return None


def _time(home: Home, set_up: Settings, facts: SourceFacts, profile: Profile) -> EtaView | None:
    """The time on a CPU worker, by what earlier jobs took; None if there is nothing to compare with."""
    import json

    from tqstudio.engine.live.speed_model import SpeedModel
    from tqstudio.engine.live.workload import work_of
    from tqstudio.engine.media.plan.video_codecs import CPU_ENCODER
    from tqstudio.engine.store.machine import speeds

    found = _stored(home, set_up, lambda db: (speeds.load(db), speeds.last_outcomes(db)))
    work = work_of(facts.to_json(), json.dumps(profile.to_json()), CPU_ENCODER)
    model = SpeedModel(*found) if found else None
    seconds = None if model is None or work is None else model.predict(work)
    return None if model is None or seconds is None else model.eta(seconds)


def _decided(
    home: Home, set_up: Settings, source: str, facts: SourceFacts, profile: Profile
) -> dict[str, tuple[Rung, DecidedCrf]]:
    """The CRFs that were found for a source before, by encoder, with the largest rung of each."""
    from tqstudio.engine.media.plan.keys import decided_for
    from tqstudio.engine.store.library import crfs, videos

    def read(db: Connection) -> dict[str, tuple[Rung, DecidedCrf]]:
        found: dict[str, tuple[Rung, DecidedCrf]] = {}
        for video in videos.with_source(db, os.fsencode(source)):
            if video.quick_hash is not None and video.size == facts.size:
                found |= decided_for(crfs.of_video(db, video.id), video.quick_hash, facts, profile)
        return found

    return (_stored(home, set_up, read) if profile.quality else None) or {}


def _about_quality(renditions: list[dict[str, Any]]) -> Iterator[str]:
    """What a profile with a quality means for this source."""
    sought = [each for each in renditions if each.get("quality")]
    for codec in dict.fromkeys(each["codec"] for each in sought):
        of = next(each for each in sought if each["codec"] == codec)
        how = "its CRF is decided when it is encoded" if of["crf"] is None else f"with CRF {of['crf']}"
        yield f"{of['name']}: VMAF {of['quality']:g}; {how}, and that of smaller ones with it"
    for each in renditions:
        if each.get("quality_remark"):
            yield f"{each['name']}: CRF {each['crf']}, because {each['quality_remark']}"


def _print(view: dict[str, Any], facts: SourceFacts) -> None:
    video = facts.video
    about = (
        *(("sound",) if video.still else (f"{video.width}×{video.height}", f"{float(video.fps):.4g} fps")),
        fmt.clock_duration(facts.duration_s),
        units.size(facts.size),
    )
    printing.out(f"{view['source']}: {', '.join(about)}")
    printing.table(
        (view["profile"].upper(), "SHAPE", "CODEC", "AT MOST", "SPACE"),
        [
            (
                each["name"],
                each["shape"],
                each["codec"],
                f"{each['max_kbps']} kb/s" if each["max_kbps"] else "",
                units.size(each["max_bytes"]) if each["max_kbps"] else "",
            )
            for each in view["renditions"]
        ],
        right=(3, 4),
    )
    for each in view["renditions"]:
        if each["copied"]:
            printing.out(f"copied from the source: {each['name']}")
        if each["not_copied"]:
            printing.out(f"{each['name']} is encoded: {each['not_copied']}")
    if view["first"]:
        printing.out(f"published before the others: {view['first']}")
    for line in _about_quality(view["renditions"]):
        printing.out(line)
    if limited := [each["name"] for each in view["renditions"] if each["limited"]]:
        printing.out(f"fewer bits than the profile's, as the source allows: {', '.join(limited)}")
    for words in by_reason((each["name"], each["reason"]) for each in view["skipped"]):
        printing.out(f"left out, {words}")
    printing.out(f"space: at most {units.size(view['max_bytes'])}")
    took = "unknown until a similar job is done" if view["eta"] is None else fmt.with_range(view["eta"])
    printing.out(f"time: {took}")
    for warning in view["warnings"]:
        printing.err(printing.warning_lines(warning["code"], warning["text"], ""))

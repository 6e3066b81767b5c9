"""Rules for audio (2), accessibility (4), subtitles (5) and languages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tqstudio.engine.media import languages
from tqstudio.engine.media.check.apple.package import Package
from tqstudio.engine.media.check.apple.rules import Findings, Level, Note, Rule, table
from tqstudio.engine.media.check.apple.video import codecs_of
from tqstudio.engine.media.segments import webvtt

RULES: list[Rule] = []
_rule = table(RULES)

_STEREO_AAC = ("mp4a.40.2", "mp4a.40.5", "mp4a.40.29")
_STEREO = (*_STEREO_AAC, "mp4a.40.42", "alac", "fLaC", "apac")
_SEVERAL = ("mp4a.40.2", "mp4a.40.5", "alac", "fLaC", "apac", "ac-3", "ec-3")
_HE_AAC, _HE_AAC_BPS = ("mp4a.40.5", "mp4a.40.29"), 64_000
_DESCRIBES = "public.accessibility.describes-video"
_TRANSCRIBES = "public.accessibility.transcribes-spoken-dialog"
_SOUNDS = "public.accessibility.describes-music-and-sound"


def _channels(medium: Any) -> int:
    count = (getattr(medium, "channels", None) or "").partition("/")[0]
    return int(count) if count.isdecimal() else 2


def _characteristics(medium: Any) -> set[str]:
    return {each.strip() for each in (medium.characteristics or "").split(",")}


def _sounds(package: Package) -> list[tuple[Any, set[str]]]:
    """The audio entries, each with the codecs that the variants declare for its group; variants of sound."""
    groups: dict[str, set[str]] = {}
    for variant in package.variants:
        sound = {codec for codec in codecs_of(variant) if codec.startswith((*_STEREO, *_SEVERAL))}
        groups.setdefault(variant.stream_info.audio or "", set()).update(sound)
    alone = [(each, set(codecs_of(each))) for each in package.variants if package.is_audio_only]
    return alone + [(medium, groups.get(medium.group_id, set())) for medium in package.media("AUDIO")]


def _descriptions(package: Package) -> list[Any]:
    return [medium for medium in package.media("AUDIO") if _DESCRIBES in _characteristics(medium)]


def _captions(package: Package) -> list[Any]:
    return [each for each in package.media("SUBTITLES") if _characteristics(each) & {_TRANSCRIBES, _SOUNDS}]


def _forced(package: Package) -> list[Any]:
    return [each for each in package.media("SUBTITLES") if each.forced == "YES"]


def _without_language(media: list[Any]) -> Findings:
    for medium in media:
        if not medium.language:
            yield Note(f"the language of {medium.name} is unknown")


def _supported(number: str, text: str, supported: tuple[str, ...], *, several: bool) -> None:
    """Enter the rule that sound with several channels, or with one or two, is in one of some codecs."""

    @_rule(number, "MUST", text)
    def _(package: Package) -> Findings:
        for medium, codecs in _sounds(package):
            if (_channels(medium) > 2) is several and not any(
                codec.startswith(supported) for codec in codecs
            ):
                yield f"{medium.uri} has {', '.join(sorted(codecs)) or 'an unknown one'}"


def _autoselected(number: str, level: Level, what: str, of: Callable[[Package], list[Any]]) -> None:
    """Enter the rule that some tracks have AUTOSELECT=YES."""

    @_rule(number, level, f"{what} have AUTOSELECT=YES")
    def _(package: Package) -> Findings:
        yield from (str(medium.name) for medium in of(package) if medium.autoselect != "YES")


_supported("2.2", "stereo is in a supported codec", _STEREO, several=False)
_supported("2.5", "several channels are in a supported codec", _SEVERAL, several=True)
_autoselected("2.13", "MUST", "descriptions of the video", _descriptions)
_autoselected("4.6", "MUST", "captions in subtitles", _captions)
_autoselected("5.11", "SHOULD", "forced subtitles", _forced)


@_rule("2.3", "MUST", "there is stereo in AAC")
def _(package: Package) -> Findings:
    sounds = _sounds(package)
    fallback = {_channels(medium) for medium, codecs in sounds if codecs & set(_STEREO_AAC)}
    if fallback and 2 not in fallback:
        yield Note("source and profile have other channels")
    elif sounds and not fallback:
        yield "no audio is AAC"


@_rule("2.4", "SHOULD", "HE-AAC has at most 64 kbit/s")
def _(package: Package) -> Findings:
    for medium, codecs in _sounds(package):
        playlist = package.audio.get(medium.uri) or package.video.get(medium.uri)
        if playlist and codecs & set(_HE_AAC) and playlist.rates[1] > _HE_AAC_BPS:
            yield str(medium.uri)


@_rule("2.6", "MUST", "Dolby Digital is there for devices without Dolby Digital Plus")
def _(package: Package) -> Findings:
    codecs = set[str]().union(*(codecs for _, codecs in _sounds(package)))
    if "ec-3" in codecs and "ac-3" not in codecs:
        yield Note("devices without Dolby Digital Plus play the stereo")


@_rule("2.14", "SHOULD", "the names of descriptions say what they are")
def _(package: Package) -> Findings:
    for medium in _descriptions(package):
        if not any(word in medium.name.lower() for word in ("descri", "dvs", "(ad)")):
            yield str(medium.name)


@_rule("2.27", "MUST", "descriptions of the video have a LANGUAGE")
def _(package: Package) -> Findings:
    yield from _without_language(_descriptions(package))


@_rule("4.1", "SHOULD", "there are captions")
def _(package: Package) -> Findings:
    if not package.media("CLOSED-CAPTIONS") and not _captions(package):
        yield Note("the source has none")


@_rule("4.4", "MUST", "closed captions are declared, with a LANGUAGE")
def _(package: Package) -> Findings:
    groups = {medium.group_id for medium in package.media("CLOSED-CAPTIONS")}
    for variant in package.variants:
        named = (variant.stream_info.closed_captions or "NONE").strip('"')
        if named != "NONE" and named not in groups:
            yield f"{variant.uri} names {named}, which is not declared"
    yield from _without_language(list(package.media("CLOSED-CAPTIONS")))


@_rule("4.5", "MUST", "captions in subtitles are marked by two CHARACTERISTICS")
def _(package: Package) -> Findings:
    for medium in _captions(package):
        if not {_TRANSCRIBES, _SOUNDS} <= _characteristics(medium):
            yield str(medium.name)


@_rule("4.7", "MUST", "subtitles have a LANGUAGE")
def _(package: Package) -> Findings:
    yield from _without_language(list(package.media("SUBTITLES")))


@_rule("5.2", "MUST", "subtitles are WebVTT, or IMSC1 in fMP4")
def _(package: Package) -> Findings:
    for playlist in package.subtitles.values():
        if not all(uri.endswith((".vtt", ".webvtt", ".mp4", ".m4s")) for uri in playlist.uris):
            yield playlist.name


@_rule("5.3", "MUST", "WebVTT has an X-TIMESTAMP-MAP")
def _(package: Package) -> Findings:
    for playlist in package.subtitles.values():
        # `verify` reads all of them.
        if playlist.uris[0].endswith("vtt") and not webvtt.is_segment(playlist.folder / playlist.uris[0]):
            yield playlist.name


@_rule("5.10", "SHOULD", "CODECS names the kind of subtitles")
def _(package: Package) -> Findings:
    is_webvtt = all(playlist.uris[0].endswith("vtt") for playlist in package.subtitles.values())
    for variant in package.variants:
        if variant.stream_info.subtitles and not {"wvtt", "stpp.ttml.im1t"} & set(codecs_of(variant)):
            yield Note("wvtt is optional, and older Apple TVs refuse it") if is_webvtt else str(variant.uri)


@_rule("8.10", "MUST", "every EXT-X-MEDIA but video has a LANGUAGE")
def _(package: Package) -> Findings:
    yield from _without_language([each for each in package.master.media if each.type != "VIDEO"])


@_rule("9.17", "SHOULD", "entries of one language are listed from general to specific")
def _(package: Package) -> Findings:
    specific: dict[tuple[str, str, str], int] = {}
    for medium in package.master.media:
        key = medium.type, medium.group_id, medium.language or ""
        count = len(_characteristics(medium) - {""})
        if count < specific.get(key, 0):
            yield str(medium.name)
        specific[key] = max(count, specific.get(key, 0))


@_rule("RFC 5646", "MUST", "languages are valid tags")
def _(package: Package) -> Findings:
    for language in sorted({medium.language for medium in package.master.media if medium.language}):
        if not languages.is_valid(language):
            yield language

"""Reads profiles, the encoding settings of a ladder, from TOML files; `profile_keys.py` has their keys."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import reduce
from pathlib import Path
from typing import Any

from tqstudio import path_checks, toml_files
from tqstudio.engine.media.plan.profile_keys import KEYS, SECTIONS
from tqstudio.engine.media.plan.profile_keys import RungSpec as RungSpec
from tqstudio.engine.media.plan.video_codecs import CODECS, DEFAULT_PRESET
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display, readable
from tqstudio.toml_files import near, written

SHIPPED_DIR = Path(__file__).resolve().parents[3] / "profiles"

_EAC3_RATES = (32_000, 44_100, 48_000)


@dataclass(frozen=True, slots=True)
class Profile:
    """The settings with which a source is encoded."""

    name: str
    description: str
    """What lists say of it. Not part of the settings hash."""
    encoder: str
    """`auto`: on a GPU if one is there; `cpu`: never."""
    codec: str
    """Video codec of the rungs that name no other."""
    preset: str
    """Names of x264, for AV1 presets 12 … 3."""
    crf: int
    """Constant quality, of AV1 up to 63: smaller is better and larger."""
    video_profile: str
    """Of H.264; the profiles of other codecs follow from the pixel format."""
    pixel_format: str
    """10 bits (`yuv420p10le`) for HEVC and AV1 only."""
    segment_s: int
    """Seconds of a segment, a multiple of `gop_s`."""
    gop_s: int
    """Seconds between key frames."""
    bufsize_factor: float
    """Buffer of the rate control ÷ `maxrate_kbps`."""
    rungs: tuple[RungSpec, ...]
    """The qualities, largest first."""
    audio_codec: str
    """Codec of the sound."""
    audio_bitrate_kbps: int
    """Bit rate of stereo, in kb/s."""
    audio_channels: int
    """At most: mono stays mono, and more are mixed down and limited to -1.5 dB."""
    audio_sample_rate: int
    """In Hz."""
    poster_position: float
    """Share of the duration from which the next key frame is taken. Not part of the settings hash."""
    poster_height: int
    """Pixels, never more than the source has. Not part of the settings hash."""
    audio_tracks: str = "all"
    """`all`, or `default`: the one with which players begin."""
    audio_low_kbps: int = 0
    """Bit rate of the sound of the lowest quality; 0: that of the others."""
    audio_surround: str = "none"
    """`aac` or `eac3`: tracks of more channels are published with those too, beside the downmix."""
    subtitle_tracks: str = "all"
    """Which tracks of text are published."""
    subtitle_burn: str = "none"
    """Which bitmaps become part of the pictures: none, forced ones, or those of a language (BCP 47)."""
    audio_loudness: float | str = "keep"
    """LUFS to which each track is brought, or `keep`."""
    fields: str = "frames"
    """What becomes of fields: `frames`, `double` (a picture of each), or `film` (telecined)."""
    copy: str = "never"
    """`fitting`: the largest quality is a copy of the source's pictures, if they fit it; `never`."""
    background: str = "#000000"
    """What is seen through transparent pictures: `#rrggbb`."""
    quality: float = 0.0
    """VMAF of the largest rung of each codec, whose CRF is sought in place of `crf`; 0: none."""
    storyboard: bool = False
    """Small pictures for seeking. Not part of the settings hash."""
    dash: bool = False
    """An MPD of DASH over the same segments. Not part of the settings hash."""
    files: tuple[str, ...] = ()
    """Files of the whole video, to take away. Not part of the settings hash."""
    first: str = "auto"
    """The quality that is published before the others. Not part of the settings hash."""
    on_damage: str = "refuse-truncated"
    """Which damage is refused: `refuse`: any; `refuse-truncated`: an end before the declared length;
    `accept`: changed codecs alone. What is published has warnings. Not part of the settings hash."""

    @property
    def prefer_gpu(self) -> bool:
        """Whether jobs of this profile are offered to GPU workers first."""
        return self.encoder == "auto"

    @property
    def target_lufs(self) -> float | None:
        """The loudness to which the sound is brought; None keeps that of the source."""
        return None if isinstance(self.audio_loudness, str) else self.audio_loudness

    def codec_of(self, rung: RungSpec) -> str:
        """The codec of a rung."""
        return rung.codec or self.codec

    def encoding_of(self, rung: RungSpec) -> tuple[str, str, int]:
        """Codec, preset and CRF of a rung."""
        codec = self.codec_of(rung)
        preset, crf = self.preset, self.crf
        if codec != self.codec:
            preset, crf = DEFAULT_PRESET, CODECS[codec].crf
        return codec, rung.preset or preset, rung.crf or crf

    def to_json(self) -> dict[str, Any]:
        """Convert to what JSON can express, without what earlier versions do not know and is not used."""
        unused = {"files": (), "first": "auto"}
        return {
            key: value for key, value in asdict(self).items() if key not in unused or value != unused[key]
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Profile:
        """Convert back; KeyError or TypeError means that another version wrote the record."""
        rungs = tuple(RungSpec(**rung) for rung in data["rungs"])
        return cls(**{**data, "rungs": rungs, "files": tuple(data.get("files", ()))})


def names(profile: Profile) -> dict[RungSpec, str]:
    """The name of each rung of a profile, largest first: `1080p`, in landscape and portrait.

    Rungs of another codec than the profile's have it added, those in HDR `-hdr`, and of several that are
    still equal all but the first their bit rate: `1080p-hevc-4500k`.
    """
    found: dict[str, RungSpec] = {}
    for spec in profile.rungs:
        codec = profile.codec_of(spec)
        name = f"{spec.short_side}p" + ("" if codec == profile.codec else f"-{codec}")
        name += "-hdr" if spec.hdr else ""
        found[f"{name}-{spec.maxrate_kbps}k" if name in found else name] = spec
    return {spec: name for name, spec in found.items()}


def available(user_dir: Path | None = None) -> dict[str, Path]:
    """All profiles: name → file. A user's profile overrides a shipped one of the same name.

    Raises:
        TqError: PERMISSION if the user's folder may not be listed, because it may override shipped ones.
    """
    directories = [SHIPPED_DIR, *([user_dir] if user_dir is not None else [])]
    return {file.stem: file for directory in directories for file in _files(directory)}


def _files(directory: Path) -> list[Path]:
    try:
        return sorted(file for file in directory.iterdir() if file.name.endswith(".toml"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise path_checks.refused(directory, error) from None


def load(name: str, user_dir: Path | None = None) -> Profile:
    """Read a profile and those that it extends.

    Raises:
        TqError: BAD_CONFIG, with the file, the key and the allowed values; PERMISSION as `available`.
    """
    return _load(name, user_dir, lambda: _usable(user_dir))


def _usable(user_dir: Path | None) -> list[str]:
    """The names of the profiles that can be loaded."""
    found = []
    for name in sorted(available(user_dir)):
        with suppress(TqError):
            found.append(_load(name, user_dir, list).name)
    return found


def _load(name: str, user_dir: Path | None, choice: Callable[[], list[str]]) -> Profile:
    """As `load`; `choice` lists the usable profiles, for the error if one does not exist."""
    shipped, all_files = available(), available(user_dir)
    chain: list[dict[str, Any]] = []
    seen: set[Path] = set()
    wanted: str | None = name
    extended_by: Path | None = None
    while wanted is not None:
        file = all_files.get(wanted)
        if file in seen:
            # A user's `web.toml` with extends = "web" extends the shipped one.
            file = shipped.get(wanted)
            if file is None or file in seen:
                found = f"{readable(wanted)} extends itself"
                raise _bad(all_files[wanted], "extends", found, "the name of another profile")
        if file is None:
            raise _unknown(wanted, choice(), extended_by)
        seen.add(file)
        own, wanted = _read(file)
        chain.append(own)
        extended_by = file
    return _build(name, all_files[name], reduce(_changed, reversed(chain), {}))


def _changed(settings: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Apply the settings of a file to those it extends.

    Numbers for one codec mean nothing for another: with a new codec come its default preset and CRF. A CRF
    takes the place of a quality that was asked for before.
    """
    if "crf" in own and "quality" not in own:
        settings = settings | {"quality": 0.0}
    if "codec" in own and own["codec"] != settings.get("codec"):
        defaults = {"preset": DEFAULT_PRESET, "crf": CODECS[own["codec"]].crf}
        return settings | defaults | own
    return settings | own


def override(profile: Profile, changes: Mapping[str, str]) -> Profile:
    """Return a copy with some keys changed (`video.crf`, or just `crf`); values are TOML.

    Raises:
        TqError: BAD_CONFIG, with the key and the allowed values.
    """
    fields: dict[str, Any] = {}
    for given, text in changes.items():
        matching = [key for key in KEYS if given in (key, key.rpartition(".")[2])]
        if len(matching) != 1:
            text = f"a profile has no key {given}" if not matching else f"{given} is ambiguous"
            keys = ", ".join(matching or sorted(KEYS))
            raise TqError(ErrorCode.BAD_CONFIG, readable(text), f"{near(given, KEYS)}the keys are: {keys}")
        key = matching[0]
        field, allowed, read = KEYS[key]
        try:
            value: Any = toml_files.parse(f"value = {text}")["value"]
        except toml_files.UnusableToml:
            value = text
        try:
            fields[field] = read(value)
        except ValueError as error:
            wrong = f"{key} cannot be {readable(text)}"
            raise TqError(ErrorCode.BAD_CONFIG, wrong, f"allowed: {allowed}") from error
    asked = ", ".join(f"{key}={text}" for key, text in changes.items())
    changed = replace(profile, **_changed({"codec": profile.codec}, fields))
    return _checked(changed, readable(f"profile {profile.name} with {asked}"))


def _read(file: Path) -> tuple[dict[str, Any], str | None]:
    """Read one file: its own settings as Profile fields, and the name of the profile that it extends."""
    try:
        document = toml_files.read(file)
    except toml_files.UnusableToml as error:
        raise TqError(
            ErrorCode.BAD_CONFIG, f"profile {_path(file)}: {error}", "correct the file, or remove it"
        ) from None
    except OSError as error:
        raise TqError(
            ErrorCode.BAD_CONFIG, f"profile {_path(file)} cannot be read: {error.strerror}"
        ) from error
    extends = document.pop("extends", None)
    if extends is not None and not isinstance(extends, str):
        raise _bad(file, "extends", written(extends), "the name of another profile")
    settings: dict[str, Any] = {}
    for key, value in _flatten(document):
        if key not in KEYS:
            raise _bad(file, key, "no such key", "one of " + ", ".join(KEYS))
        field, allowed, read = KEYS[key]
        try:
            settings[field] = read(value)
        except ValueError as error:
            raise _bad(file, key, written(value), allowed) from error
    return settings, extends


def _build(name: str, file: Path, settings: dict[str, Any]) -> Profile:
    optional = {field.name for field in fields(Profile) if field.default is not MISSING}
    missing = [key for key, (field, _, _) in KEYS.items() if field not in settings and field not in optional]
    if missing:
        raise _bad(file, missing[0], "missing", f'{KEYS[missing[0]][1]}; or begin with extends = "web"')
    return _checked(Profile(name=name, **settings), f"profile {_path(file)}")


def _checked(profile: Profile, what: str) -> Profile:
    """Check that settings that are valid individually also fit together, and return the profile."""
    rungs = [(profile.codec_of(rung), rung) for rung in profile.rungs]
    if conflict := _conflict(profile, rungs):
        text, hint = conflict
        raise TqError(ErrorCode.BAD_CONFIG, f"{what}: {text}", hint)
    # Largest first; of one size, the profile's own codec first, and the highest bit rate.
    rungs.sort(
        key=lambda pair: (
            -pair[1].short_side,
            pair[0] != profile.codec,
            pair[0],
            pair[1].hdr,
            -pair[1].maxrate_kbps,
        )
    )
    profile = replace(profile, rungs=tuple(rung for _, rung in rungs))
    known = names(profile).values()
    named = [("files", key.partition(":")[2]) for key in profile.files]
    named += [("first", profile.first)] if profile.first not in ("auto", "off") else []
    for key, quality in named:
        if quality and quality not in known:
            text = f"{what}: {key}: there is no quality {quality}"
            raise TqError(ErrorCode.BAD_CONFIG, text, f"choose one of: {', '.join(known)}")
    return profile


def _conflict(profile: Profile, rungs: list[tuple[str, RungSpec]]) -> tuple[str, str] | None:
    """The first conflict between settings, and a hint; None without any. Each rung has its codec."""
    segment_s, gop_s = profile.segment_s, profile.gop_s
    if segment_s % gop_s:
        nearest = max(1, segment_s // gop_s) * gop_s
        return (
            f"video.segment_s: {segment_s} is not a whole number of GOPs of {gop_s} s",
            f"allowed: a multiple of gop_s ({gop_s}), such as video.segment_s = {nearest}",
        )
    if len({(codec, rung.short_side, rung.maxrate_kbps, rung.hdr) for codec, rung in rungs}) < len(rungs):
        return "video.rungs: two rungs have the same size, codec and bit rate", "remove one of them"
    if any(rung.hdr and codec == "h264" for codec, rung in rungs) or all(rung.hdr for _, rung in rungs):
        return (
            "video.rungs: HDR needs HEVC or AV1, and a quality in SDR for displays without it",
            'give rungs with hdr = true codec = "hevc" or "av1", and add one without hdr',
        )
    if profile.pixel_format != "yuv420p" and any(codec == "h264" for codec, _ in rungs):
        return (
            "video.pixel_format: players have no decoder for H.264 of 10 bits",
            'choose video.pixel_format = "yuv420p", or video.codec = "hevc" or "av1"',
        )
    too_high = [codec for codec, rung in rungs if profile.encoding_of(rung)[2] > CODECS[codec].most_crf]
    if too_high:
        most = CODECS[too_high[0]].most_crf
        return f"video.crf: too high for {too_high[0]}", f"allowed: a whole number from 1 to {most}"
    if profile.audio_surround == "eac3" and profile.audio_sample_rate not in _EAC3_RATES:
        return (
            f"E-AC-3 cannot have a sample rate of {profile.audio_sample_rate}",
            'choose audio.sample_rate = 48000, or audio.surround = "aac"',
        )
    return None


def _flatten(document: Mapping[str, Any]) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in document.items():
        if isinstance(value, dict) and key in SECTIONS:
            pairs += [(f"{key}.{inner}", inner_value) for inner, inner_value in value.items()]
        else:
            pairs.append((key, value))
    return pairs


def _unknown(name: str, choice: list[str], extended_by: Path | None) -> TqError:
    by = f", which {_path(extended_by)} extends" if extended_by else ""
    return TqError(
        ErrorCode.BAD_CONFIG,
        f"there is no profile {readable(name)}{by}",
        f"{near(name, choice)}choose one of: " + ", ".join(display(os.fsencode(each)) for each in choice),
    )


def _bad(file: Path, key: str, found: str, allowed: str) -> TqError:
    what = f"profile {_path(file)}: {readable(key)}: {found}"
    return TqError(ErrorCode.BAD_CONFIG, what, f"allowed: {allowed}")


def _path(file: Path) -> str:
    return display(os.fsencode(file))

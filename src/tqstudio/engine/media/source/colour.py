"""Interprets the colour tags of a source and chooses the ffmpeg filters that convert it.

Code points are those of ITU-T H.273, as in `VideoTrack`. The output is 4:2:0 in limited range with the matrix
of BT.709, for HDR of BT.2020, and tagged so; `docs/media.md` gives the reasons.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tqstudio.engine.media.source.facts import VideoTrack
from tqstudio.errors import ErrorCode, TqError

Filters = tuple[tuple[str, dict[str, Any]], ...]
"""ffmpeg filters in order: (name, options)."""

RGB, BT709, UNSPECIFIED, BT601_625, BT601_525, SMPTE240M, BT2020, BT2020_CL = 0, 1, 2, 5, 6, 7, 9, 10
PQ, HLG = 16, 18
# Of light in PQ or HLG only.
ICTCP = 14

BT601 = frozenset({BT601_625, BT601_525})
SCALABLE = frozenset({RGB, BT709, 4, BT601_625, BT601_525, SMPTE240M, BT2020})
"""The matrices that ffmpeg's filter `scale` accepts."""

_MATRICES = frozenset({BT709, 4, BT601_625, BT601_525, SMPTE240M, 8, BT2020, BT2020_CL, 12, 13, ICTCP})
# SMPTE 2085, Dolby Vision IPT and reversible YCgCo: zscale cannot convert them to RGB.
_MATRICES_WITHOUT_FILTER = frozenset({11, 15, 16, 17})
_PRIMARIES = frozenset({BT709, 4, BT601_625, BT601_525, SMPTE240M, 8, BT2020, 10, 11, 12, 22})
# So close to BT.709 that values are published unconverted, with their own tag. A conversion would clip
# colours, and the tags are often just the default of the program that wrote them.
_NARROW_PRIMARIES = frozenset({BT709, BT601_625, BT601_525})
# PQ, HLG, linear light and two logarithmic curves. Displays treat all others as BT.709: a conversion would
# change greys that every player shows alike.
_CONVERTED_TRANSFERS = frozenset({PQ, HLG, 8, 9, 10})
# Transfer of the Dolby Vision base layer by compatibility id, used if the stream has no transfer tag.
_DOLBY_VISION_TRANSFERS = {1: PQ, 4: HLG, 6: PQ}
# Profiles whose only layer is IPT-C2, which cannot be displayed without the metadata of each frame.
_DOLBY_VISION_IPT = frozenset({5, 10, 20})
RENDER: tuple[str, dict[str, Any]] = (
    "libplacebo",
    {
        "colorspace": "bt2020nc",
        "color_primaries": "bt2020",
        "color_trc": "smpte2084",
        "range": "limited",
        "format": "yuv444p16le",
        # By no metadata: values stay what they are, and the tone mapping is that of all HDR.
        "extra_opts": "tone_map_metadata=none",
        "peak_detect": "false",
        # Half the time of the default, and what zscale does.
        "upscaler": "bilinear",
    },
)
"""The filter that turns IPT-C2 into PQ of BT.2020 by the metadata of each frame. It needs Vulkan."""

# Untagged pictures above this size are read as BT.709, as players do.
_SD_MOST_WIDTH, _SD_MOST_HEIGHT = 1279, 576

# HDR reference white (BT.2408) is mapped to SDR white. Luminance below the knee (a share of white) is kept,
# so that greys and skin do not change; above, it is compressed up to the peak and clipped beyond. BT.2390 has
# its knee at the same place. The peak is that of the metadata, at least that of most content, because many
# state too little. If detected in the pictures, each would depend on previous ones.
_WHITE_NITS = 203
_PEAK_NITS, _MAX_NITS = 1000, 10_000
_KNEE = 0.45

# Of frames; encoders would write it into SDR too.
_HDR_METADATA = ("MASTERING_DISPLAY_METADATA", "CONTENT_LIGHT_LEVEL")
_DOLBY_VISION_METADATA = "DOVI_METADATA"

_RGB_FORMAT = re.compile(r"rgb|bgr|gbr|pal8|bayer|xyz")
_GREY_FORMAT = re.compile(r"gray|ya\d|mono")
_ALPHA_FORMAT = re.compile(r"yuva|gbrap|rgba|bgra|argb|abgr|ya\d|ayuv|vuya|rgbaf")

_DECODERS_OF_ALPHA = {"vp8": "libvpx", "vp9": "libvpx-vp9"}


@dataclass(frozen=True, slots=True)
class Colour:
    """The colour description of decoded pictures: their tags, with missing ones completed."""

    matrix: int
    primaries: int
    transfer: int
    full_range: bool

    @property
    def hdr(self) -> bool:
        """Whether it has to be tone-mapped to SDR."""
        return self.transfer in (PQ, HLG)

    @property
    def wide(self) -> bool:
        """Whether gamut or transfer differ from SDR, so that it has to be converted in linear light."""
        return self.primaries not in _NARROW_PRIMARIES or self.transfer in _CONVERTED_TRANSFERS

    @property
    def light(self) -> tuple[int, int] | None:
        """What has to be converted in linear light; None for SDR."""
        return (self.primaries, self.transfer) if self.wide else None


def colour_of(video: VideoTrack) -> Colour:
    """Complete the colour tags of a source; those of IPT-C2 are what it is rendered to."""
    if needs_vulkan(video):
        return Colour(BT2020, BT2020, PQ, full_range=False)
    transfer = video.color_transfer
    if transfer == UNSPECIFIED:
        transfer = _DOLBY_VISION_TRANSFERS.get(video.dv_compatibility, BT709)
    if transfer not in _CONVERTED_TRANSFERS:
        transfer = BT709
    stated = video.color_space if video.color_space in _MATRICES else None
    wide = transfer in (PQ, HLG) or stated in (BT2020, BT2020_CL) or video.color_primaries == BT2020
    if is_rgb(video):
        matrix = RGB
    elif stated is not None:
        matrix = stated
    elif wide:
        matrix = BT2020
    elif video.coded_width <= _SD_MOST_WIDTH and video.coded_height <= _SD_MOST_HEIGHT:
        matrix = BT601_525
    else:
        matrix = BT709
    primaries = video.color_primaries if video.color_primaries in _PRIMARIES else BT2020 if wide else BT709
    if primaries == SMPTE240M:
        primaries = BT601_525  # the same primaries under another code point
    full_range = video.color_range == 2 or (
        video.color_range != 1 and (video.pix_fmt.startswith("yuvj") or is_grey(video))
    )
    return Colour(matrix, primaries, transfer, full_range or matrix == RGB)


def range_of(video: VideoTrack) -> str:
    """The transfer of a source as playlists name it: `SDR`, `PQ` or `HLG`."""
    return {PQ: "PQ", HLG: "HLG"}.get(colour_of(video).transfer, "SDR")


def needs_vulkan(video: VideoTrack) -> bool:
    """Whether the pictures are IPT-C2 of Dolby Vision, which only `RENDER` converts."""
    return video.dv_profile in _DOLBY_VISION_IPT and not video.dv_compatibility


def is_rgb(video: VideoTrack) -> bool:
    """Whether the decoded pictures are RGB."""
    return bool(_RGB_FORMAT.search(video.pix_fmt))


def is_grey(video: VideoTrack) -> bool:
    """Whether the decoded pictures have luma only; untagged, that is full range as in still images."""
    return bool(_GREY_FORMAT.match(video.pix_fmt))


def has_alpha(video: VideoTrack) -> bool:
    """Whether the decoded pictures have an alpha channel, which is not published."""
    return bool(_ALPHA_FORMAT.match(video.pix_fmt))


def decoded_format(pix_fmt: str, metadata: Mapping[str, str]) -> str:
    """The pixel format of a source. VP8 and VP9 have alpha in a stream of its own, which the container
    declares and only libvpx decodes."""
    return "yuva420p" if pix_fmt == "yuv420p" and metadata.get("alpha_mode") == "1" else pix_fmt


def decoder_of(video: VideoTrack) -> dict[str, str]:
    """The input option that chooses a decoder, where not all of ffmpeg's decode alpha."""
    name = _DECODERS_OF_ALPHA.get(video.codec)
    return {"c:v": name} if name is not None and has_alpha(video) else {}


def flattened(video: VideoTrack, background: str) -> tuple[Filters, VideoTrack]:
    """The filters that put pictures with alpha over a colour, `#rrggbb`, and the track without alpha: RGB."""
    if not has_alpha(video):
        return (), video
    read = colour_of(video)
    to_rgb: Filters = ()
    if read.matrix != RGB and not is_grey(video):
        to_rgb = (_any_depth("yuva444p"), _described(read), ("zscale", {"matrix": "gbr", "range": "full"}))
    shares = {
        f"{name}a": int(background[at : at + 2], 16) / 255 for name, at in (("r", 1), ("g", 3), ("b", 5))
    }
    below: Filters = (("negate", {"components": "a"}), ("colorchannelmixer", shares))
    filters: Filters = (
        *to_rgb,
        _any_depth("gbrap"),
        ("premultiply", {"inplace": 1}),
        *(below if any(shares.values()) else ()),
        _any_depth("gbrp"),
    )
    return filters, replace(
        video, pix_fmt="gbrp", color_primaries=read.primaries, color_transfer=read.transfer
    )


def _any_depth(pix_fmt: str) -> tuple[str, dict[str, Any]]:
    """The filter that converts to a pixel format in the depth of the pictures."""
    return ("format", {"pix_fmts": "|".join(f"{pix_fmt}{depth}" for depth in ("", 10, 12, 16))})


def peak_of(metadata: Any) -> int:
    """The luminance of the brightest pixel by the metadata of a frame, in cd/m²; 0 if it does not state it.

    ffmpeg's structs, by byte offset:

    - content light: 0 MaxCLL
    - mastering display: 72 maximal luminance (two int: a fraction), 84 whether luminance is stated
    - Dolby Vision: three size_t, of which the last is the offset of the display's metadata; there, 190 is the
      maximal luminance in 12 bits of PQ
    """
    display, light = (metadata.get(kind) for kind in _HDR_METADATA)
    if light is not None and (most := int(struct.unpack_from("=I", bytes(light))[0])):
        return most
    if display is not None:
        numerator, denominator, _, stated = struct.unpack_from("=iiii", bytes(display), 72)
        if stated and denominator:
            return int(numerator / denominator)
    if (dolby_vision := metadata.get(_DOLBY_VISION_METADATA)) is not None:
        *_, at = struct.unpack_from("@NNN", content := bytes(dolby_vision))
        return round(_nits(struct.unpack_from("=H", content, at + 190)[0] / 4095))
    return 0


def _nits(signal: float) -> float:
    """The luminance of a signal of PQ (SMPTE ST 2084), 0 … 1."""
    root = signal ** (32 / 2523)
    return float(_MAX_NITS * (max(0, root - 107 / 128) / (2413 / 128 - 2392 / 128 * root)) ** (8192 / 1305))


def require_mappable(video: VideoTrack, metadata: Any, name: str) -> None:
    """Refuse a source whose colours ffmpeg cannot convert correctly, as UNSUPPORTED; by the metadata of its
    first picture."""
    if needs_vulkan(video):
        if metadata.get(_DOLBY_VISION_METADATA) is None:
            raise TqError(
                ErrorCode.UNSUPPORTED,
                f"{name} is Dolby Vision profile {video.dv_profile}, but lost the metadata of its pictures",
                "export it again with that metadata (RPU), or as HDR10, HLG or SDR, and add that file",
            )
    elif not is_rgb(video) and (
        video.color_space in _MATRICES_WITHOUT_FILTER
        or (video.color_space == ICTCP and not colour_of(video).hdr)
    ):
        raise TqError(
            ErrorCode.UNSUPPORTED,
            f"the colours of {name} are in matrix {video.color_space} of H.273, which cannot be converted",
            "export it as BT.709, or as HDR10 or HLG, and add that file",
        )


def to_bt709(video: VideoTrack, *, ten_bits: bool = False) -> Filters:
    """The filters that convert decoded pictures to the published colours of SDR, or to 10 bits of them.

    Each frame is converted independently, so that a resumed run produces identical frames. Pictures that need
    no conversion keep their depth.
    """
    read = colour_of(video)
    rgb = read.matrix == RGB
    odd = bool(video.coded_width % 2 or video.coded_height % 2)
    described = _described(read)
    grey = is_grey(video)
    if read.matrix == BT709 and not (read.full_range or read.wide or grey):
        return (described,)
    # zscale rejects subsampled pictures with an odd side, and older versions reject grey. `format` converts
    # them; it reads all grey as full range and keeps the values if the result is tagged full range too.
    whole = (_any_depth("yuv444p"),)
    target: dict[str, Any] = {"matrix": "709", "range": "limited"}
    if read.wide:
        target |= {"primaries": "709", "transfer": "709"}
    if (video.bit_depth > 8 or read.wide) and not ten_bits:
        target["dither"] = "ordered"
    return (
        *_rendered(video),
        *((("setparams", {"range": "full"}), *whole) if grey else ()),
        described,
        *(whole if odd and not rgb and not grey else ()),
        *(_tone_mapped(read, video.peak_nits) if read.hdr else ()),
        *(_without(*_HDR_METADATA) if read.hdr else ()),
        *_without_dolby_vision(video),
        ("zscale", target),
        # RGB and odd sizes keep full chroma resolution until they are scaled.
        ("format", {"pix_fmts": ("yuv444p" if rgb or odd else "yuv420p") + ("10le" if ten_bits else "")}),
    )


def to_hdr(video: VideoTrack) -> Filters:
    """The filters that convert decoded pictures of HDR to BT.2020 in limited range, with their brightness."""
    read = colour_of(video)
    odd = bool(video.coded_width % 2 or video.coded_height % 2)
    if (read.matrix, read.primaries) == (BT2020, BT2020) and not read.full_range:
        return (*_rendered(video), _described(read), *_without_dolby_vision(video))
    return (
        _described(read),
        *_without_dolby_vision(video),
        *((("format", {"pix_fmts": "yuv444p10|yuv444p12|yuv444p16"}),) if odd and read.matrix != RGB else ()),
        ("zscale", {"matrix": "2020_ncl", "primaries": "2020", "range": "limited"}),
        ("format", {"pix_fmts": "yuv444p10le" if odd or read.matrix == RGB else "yuv420p10le"}),
    )


def _without(*kinds: str) -> Filters:
    """The filters that remove metadata from frames."""
    return tuple(("sidedata", {"mode": "delete", "type": kind}) for kind in kinds)


def _rendered(video: VideoTrack) -> Filters:
    return (RENDER,) if needs_vulkan(video) else ()


def _without_dolby_vision(video: VideoTrack) -> Filters:
    """The filters that remove what describes the pictures of the source, not those of its base layer."""
    return _without("DOVI_RPU_BUFFER", _DOLBY_VISION_METADATA) if video.dv_profile else ()


def _described(read: Colour) -> tuple[str, dict[str, Any]]:
    """The filter that sets the tags of frames, which filters and encoders use."""
    tags: dict[str, Any] = {"color_primaries": read.primaries, "color_trc": read.transfer}
    if read.matrix != RGB:
        tags |= {"range": "full" if read.full_range else "limited", "colorspace": read.matrix}
    return ("setparams", tags)


def scalable(video: VideoTrack) -> Filters:
    """The filter that names another matrix than one that `scale` refuses, for pictures that keep theirs."""
    return () if colour_of(video).matrix in SCALABLE else (("setparams", {"colorspace": BT709}),)


def first_tags(video: VideoTrack) -> dict[str, Any]:
    """The options of `scale` by which pictures whose tags change get those of the first picture.

    They are converted if they follow their tags; others keep their values.
    """
    read = colour_of(video)
    if read.matrix == RGB:
        return {}
    # It knows both systems of BT.601 by one name; `scalable` renames what it does not know.
    matrix = {BT601_525: BT601_625}.get(read.matrix, read.matrix if read.matrix in SCALABLE else BT709)
    tags = {"color_matrix": matrix, "range": "full" if read.full_range else "limited"}
    ends = ("out",) if video.follows_tags else ("in", "out")
    return {f"{end}_{name}": value for end in ends for name, value in tags.items()}


def to_jpeg(width: int, height: int) -> Filters:
    """The filters that scale published colours and convert them to JPEG's full-range BT.601."""
    return (
        ("scale", {"width": width, "height": height}),
        ("zscale", {"matrix": "470bg", "range": "full"}),
        ("setsar", {"sar": 1}),
        ("format", {"pix_fmts": "yuvj420p"}),
    )


def _tone_mapped(read: Colour, peak_nits: int) -> Filters:
    peak = min(_MAX_NITS, max(_PEAK_NITS, peak_nits if read.transfer == PQ else 0))
    light: dict[str, Any] = {"transfer": "linear", "npl": _WHITE_NITS, "primaries": "709"}
    if read.transfer == HLG:
        # By default zscale applies the system gamma per component, which oversaturates colours.
        light["agamma"] = 0
    return (
        ("zscale", light),
        ("format", {"pix_fmts": "gbrpf32le"}),
        ("tonemap", {"tonemap": "mobius", "param": _KNEE, "peak": round(peak / _WHITE_NITS, 4), "desat": 0}),
    )

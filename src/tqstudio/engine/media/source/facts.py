"""Values found by probing a source: container, tracks, damage. Imports neither PyAV nor ffmpeg."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Literal

from tqstudio.paths import decode

_TITLE_LENGTH = 100


@dataclass(frozen=True, slots=True)
class VideoTrack:
    """The video stream that is transcoded; of a source of sound alone its cover, see `still`."""

    index: int
    """Stream index in the container, as in ffmpeg's `0:<index>`."""
    codec: str
    profile: str
    width: int
    """Display width in square pixels: after sample aspect ratio and rotation."""
    height: int
    """Display height in square pixels."""
    coded_width: int
    """Width of the decoded picture without what is cut off, before sample aspect ratio and rotation."""
    coded_height: int
    rotation: int
    """Counter-clockwise degrees, 0 … 359, of the display matrix. ffmpeg applies it while decoding."""
    pix_fmt: str
    bit_depth: int
    fps: Fraction
    """Frame rate of the grid: the nominal rate (never the average), at most 60."""
    vfr: bool
    """Average and nominal rate differ by more than 1 %."""
    color_primaries: int
    """Colour fields are code points of ITU-T H.273; 2 is unspecified."""
    color_transfer: int
    color_space: int
    color_range: int
    """0 unspecified, 1 limited, 2 full."""
    first_pts_s: Fraction
    """Presentation time of the first picture that can be decoded, in source time (seconds)."""
    duration_s: float
    """Length of this stream from its first picture in seconds; 0.0 if unknown. See `own_duration`."""
    own_duration: bool
    """The stream declares its own duration; otherwise it is derived from that of the container."""
    interlaced: bool
    """At least one picture is interlaced."""
    bitrate: int
    """Bits per second, 0 when unknown."""
    dv_profile: int
    """Dolby Vision profile; 0 if the source is not Dolby Vision."""
    dv_compatibility: int
    """Compatibility id of the Dolby Vision base layer: 0 none, 1 and 6 HDR10, 2 SDR, 4 HLG."""
    last_s: float | None = None
    """Presentation time of the last picture in source time (seconds); None if not measured, or if the
    timestamps of the source jump."""
    end_s: float | None = None
    """End of the last picture in source time (seconds)."""
    varies: bool = False
    """Size, shape, format or colour tags change within the source; all fit into `width` and `height`."""
    aspects: tuple[tuple[float, float], ...] = ()
    """Changes of the sample aspect ratio: (source time in seconds, width ÷ height), in order of time."""
    follows_tags: bool = False
    """The colour tags change, and each picture is converted from its own to those of the first one."""
    retagged_s: float | None = None
    """Source time (seconds) of the first change of the colour tags that cannot be followed."""
    edits: tuple[tuple[float, float, float], ...] = ()
    """Parts of the file that an edit list takes, if there are several and B-frames, with which ffmpeg puts
    them together wrongly, in seconds: source time, time on the clock of the file from that of the first
    part, length."""
    peak_nits: int = 0
    """Luminance of the brightest pixel (MaxCLL), else the most of the mastering display; 0 if not stated."""
    vbi_rows: int = 0
    """Rows above the picture that carry signals of the vertical blanking interval, and are cut off."""
    inset: bool = False
    """The stream cuts off columns on the left or rows above, which the decoders of GPUs may leave."""
    fields: Literal["", "tff", "bff"] = ""
    """Order of the fields as the container declares it, where the codec does not mark its pictures."""
    one_of: int = 1
    """Number of pictures of the source per published one; more than 1 if its rate is above 60."""
    projection: str = ""
    """How the pictures are to be shown to each eye or around the viewer: `3D (side by side), 360°`; empty for
    flat ones."""
    more_views: bool = False
    """The stream has more than the pictures that are decoded, such as those for the other eye (MV-HEVC)."""
    stated_twice: Literal["", "rotation", "stereo"] = ""
    """What the container and the pictures both state, in a way in which ffmpeg 8 and 9 stop."""
    measured_bitrate: int = 0
    """Bits per second of its packets, which limit those of the ladder; 0 if not measured, or by an earlier
    version, whose ladders stay as they are."""
    key_bytes: int = 0
    """Mean size of its key frames; 0 if not measured."""
    key_rate: float = 0.0
    """Key frames per second."""
    level: int = 0
    """Of H.264 ten times, of HEVC thirty times the level that the stream declares; 0 if not measured."""
    key_gaps: str = ""
    """Frames from key frame to key frame, and to the end, see `coded_pictures.written`; empty if the stream
    cannot be published as it is, or an earlier version measured it."""
    sets_inside: bool = False
    """Parameter sets are between the pictures too, as in MPEG-TS."""
    reordered: int = 0
    """Frames by which pictures are decoded before they are shown, at most."""
    not_copied: str = ""
    """Why its packets cannot be published as they are."""
    still: bool = False
    """The source has no video: this is its cover, with the times of its sound. Without one, `width` is 0."""

    @property
    def loses_messages(self) -> bool:
        """Whether ffmpeg is given the pictures without messages, closed captions too, because of what is
        stated twice."""
        return bool(self.stated_twice) and (self.stated_twice, self.codec) != ("rotation", "h264")

    @property
    def short_side(self) -> int:
        """The shorter display side, after which rungs are named."""
        return min(self.width, self.height)


NO_PICTURE = VideoTrack(
    *(-1, "", "", 0, 0, 0, 0, 0, "", 0, Fraction(25), False, 2, 2, 2, 0, Fraction(0), 0.0),
    *(False, False, 0, 0, 0),
    still=True,
)
"""Video track of a source of sound alone without a cover. Its rate is that of the grid."""


@dataclass(frozen=True, slots=True)
class AudioTrack:
    """One audio stream."""

    index: int
    codec: str
    """Empty if this build cannot decode it, or no packet of it."""
    channels: int
    sample_rate: int
    language: str
    """BCP 47 tag; `und` if the file has none."""
    title: str
    default: bool
    role: Literal["", "commentary", "description"]
    """A commentary, or a spoken description of the pictures; empty for all other sound."""
    first_s: float | None = None
    """Presentation time of the first sample in source time (seconds); None if not measured."""
    end_s: float | None = None
    """End of the last sample in source time (seconds)."""
    bitrate: int = 0
    """Bits per second; 0 if not measured."""
    side: str = ""
    """Channel that the file states for a mono track: `FL` and `FR` are the channels of a pair; else empty."""
    unplaced: Literal["", "discrete", "ambisonic"] = ""
    """Channels without places, which are published in stereo: numbered ones of an unusual count, or the sound
    field of a 360° video."""
    encrypted: str = ""
    """The scheme by which it is encrypted, such as `cenc`."""
    places: str = ""
    """ffmpeg's names of all channels, where its own mix would lose some: above and behind, or wide."""


@dataclass(frozen=True, slots=True)
class SubtitleTrack:
    """One subtitle stream, or one subtitle file beside the source."""

    index: int
    """−1 for a file."""
    codec: str
    language: str
    title: str
    default: bool
    text: bool
    """It is text, not bitmaps, and this build can decode it."""
    role: Literal["", "forced", "captions"]
    """Only what is said in foreign languages; or with sounds, for people who do not hear."""
    sidecar: str = ""
    """Base64 of the name of its file beside the source; empty for a stream of the source."""
    digest: str = ""
    """BLAKE3 of that file: 64 hex digits."""
    canvas: tuple[int, int] = (0, 0)
    """Width and height on which bitmaps are placed; 0 if none can be decoded, or if the timestamps of the
    source jump."""
    first_s: float = 0.0
    """Presentation time of its first bitmap or gap in source time (seconds)."""
    has_forced: bool = False
    """Some of its bitmaps are marked as forced."""

    @property
    def file(self) -> bytes:
        """The name of its file beside the source."""
        return decode(self.sidecar)


@dataclass(frozen=True, slots=True)
class Chapter:
    """One chapter: in source time, or on the timeline of the published video."""

    start_s: float
    end_s: float
    """Not after the start if the source does not state it."""
    title: str
    """Empty if it has none."""
    language: str
    """BCP 47 tag of the title; `und` if unknown."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One kind of damage in the data of a source."""

    kind: Literal["hole", "corrupt", "restart", "cut", "codec", "encrypted", "pictures", "sound"]
    """A gap without packets, packets with errors, a clock that goes back where ffmpeg does not correct it, a
    truncated file, a stream that changes its codec, encrypted parts, decoding errors in video or in audio."""
    at_s: float
    """Its start in seconds from the first picture; for decoding errors accurate to about a second."""
    length_s: float = 0.0
    """Seconds of a hole, or of what a truncated file lacks of its declared length; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class OmittedStream:
    """One stream of which nothing is published."""

    index: int
    kind: str
    """As ffmpeg names it, in lower case: `audio`."""
    why: Literal["other", "programme", "late", "unknown"]
    """It is not the default video, belongs to another programme than that, begins after the first seconds, in
    which ffmpeg looks for streams, or has a codec that ffmpeg does not recognise."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Everything found by probing a source."""

    container: str
    """ffmpeg's name of the format, such as `mov,mp4,m4a,3gp,3g2,mj2`."""
    duration_s: float
    """Length of the whole file in seconds; 0.0 if unknown."""
    start_time_s: float
    """Smallest timestamp of any stream in seconds, exact to the µs."""
    bitrate: int
    """Bits per second of the whole file."""
    size: int
    """Bytes."""
    video: VideoTrack
    """The video; for a source of sound alone its cover, see `VideoTrack.still`."""
    audio: tuple[AudioTrack, ...] = ()
    subtitles: tuple[SubtitleTrack, ...] = ()
    omitted: tuple[OmittedStream, ...] = ()
    """Streams that are not looked at."""
    chapters: tuple[Chapter, ...] | None = ()
    """In the order of their starts; None if they were only counted, by an earlier version."""
    captions: bool = False
    """The video carries closed captions (CEA-608 or 708)."""
    unseekable: bool = False
    """It has to be decoded from its start: its timestamps jump, or seeking is inaccurate."""
    pause_s: int = 0
    """Steps of the clock up to this are pauses of the pictures, in seconds; 0 for ffmpeg's own limit."""
    damage: tuple[Damage, ...] = ()
    """The first of each kind."""
    measured: bool = False
    """Every packet was read: lengths, rate and sizes are measured instead of declared."""

    @property
    def leading(self) -> int:
        """Index of the stream that sets the times: the video, else the sound that players begin with."""
        return leading_audio(self.audio).index if self.video.still else self.video.index

    def to_json(self) -> dict[str, Any]:
        """Convert to what JSON can express. Fractions become strings such as "30000/1001"."""
        data = asdict(self)
        data["video"] |= {"fps": str(self.video.fps), "first_pts_s": str(self.video.first_pts_s)}
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SourceFacts:
        """Convert back; KeyError, TypeError or ValueError means that another version wrote the record."""
        video, listed = data["video"], data["chapters"]
        chapters = None if isinstance(listed, int | None) else tuple(Chapter(**each) for each in listed)
        read = {
            "video": VideoTrack(
                **video
                | {
                    "fps": Fraction(video["fps"]),
                    "first_pts_s": Fraction(video["first_pts_s"]),
                    "aspects": tuple(map(tuple, video["aspects"])),
                    "edits": tuple(map(tuple, video.get("edits", ()))),
                }
            ),
            "audio": tuple(AudioTrack(**track) for track in data["audio"]),
            "subtitles": tuple(
                SubtitleTrack(**track | {"canvas": tuple(track.get("canvas", (0, 0)))})
                for track in data["subtitles"]
            ),
            "omitted": tuple(OmittedStream(**each) for each in data.get("omitted", ())),
            "damage": tuple(Damage(**each) for each in data["damage"]),
            "chapters": () if listed == 0 else chapters,
        }
        return cls(**{**data, **read})


def leading_audio(tracks: Iterable[AudioTrack]) -> AudioTrack:
    """The track that players begin with: the first default one that is no commentary and no description."""
    return min(tracks, key=lambda track: (not track.codec, bool(track.role), not track.default))


def title_of(text: str) -> str:
    """Make text from a file safe as a title: one line of at most 100 printable characters."""
    # Control characters and line separators would break playlists, logs and terminals.
    printable = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(printable.split())[:_TITLE_LENGTH]

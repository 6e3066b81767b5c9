"""File names shared by commands, the segment store and playlists. Cheap to import."""

from __future__ import annotations

from tqstudio.ladder_files import IFRAMES_NAME as IFRAMES_NAME
from tqstudio.ladder_files import INIT_NAME as INIT_NAME
from tqstudio.ladder_files import PLAYLIST_NAME as PLAYLIST_NAME

SEGMENT_PATTERN = "seg_%05d.m4s"
SUBTITLE_PATTERN = "seg_%05d.vtt"
FRAGMENT_PATTERN = "frag_%05d.m4s"
FRAGMENTS_NAME = "fragments"
"""The folder, within that of a stream, for the fragments of incomplete segments."""
POSTER_NAME = "poster.jpg"
STORED_POSTERS = "poster-*.jpg"
"""Posters in the segment store of a video, by what they depend on."""
SPRITE_PATTERN = "storyboard-%03d.jpg"
KEY_FRAMES_NAME = "key-frames.mp4"
"""The video of which a run makes the sprites."""
KEY_TIMES_NAME = "key-times.txt"
"""Times at which a run sets key frames, where they follow those of the source."""
BITMAPS_NAME = "bitmaps.mkv"
"""The subtitles that become part of the pictures."""


def segment_name(k: int) -> str:
    """The file name of segment k."""
    return SEGMENT_PATTERN % k


def fragment_name(g: int) -> str:
    """The file name of fragment g."""
    return FRAGMENT_PATTERN % g


def whole_name(slug: str, key: str) -> str:
    """The name of a file of the whole video, by its key in profiles: `film.mp4`, `film-720p.mp4`."""
    kind, _, quality = key.partition(":")
    return "-".join(filter(None, (slug.rpartition("/")[2], quality))) + f".{kind}"

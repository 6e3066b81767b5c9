"""Encrypted sources are named so, and sound that cannot be decoded leaves its place to another track."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.audio import audio_renditions
from tqstudio.engine.media.plan.profiles import load
from tqstudio.engine.media.plan.warnings import of_source
from tqstudio.engine.media.source.probe import probe
from tqstudio.errors import ErrorCode, TqError, WarningCode

from .conftest import MakeEncode, run_ffmpeg, run_to_end
from .test_extremes import RUNG, X264
from .test_projection import box, with_boxes

TONES = ("-f", "lavfi", "-i", "sine=d=4", "-f", "lavfi", "-i", "sine=440:d=4", "-map", "1", "-map", "2")
FILM = ("-f", "lavfi", "-i", "testsrc2=s=160x90:r=25:d=4", *TONES, "-map", "0", *X264, "-g", "50")
LANGUAGES = ("-metadata:s:a:0", "language=ger", "-metadata:s:a:1", "language=fre")
KEY, KID = "76a6c65c5ea762046bd749a2e632ccbb", "a7e61c373e219033c21091fa607bf3b8"
CENC = ("-encryption_scheme", "cenc-aes-ctr", "-encryption_key", KEY, "-encryption_kid", KID)
# Objects of ASF: content encryption, of version 1 and of later ones.
ASF_DRM = "fbb3112223bdd211b4b700a0c955fc6e", "14e68a292226174cb935dae07ee9289c"


def refused(path: Path) -> TqError:
    with pytest.raises(TqError) as caught:
        probe(os.fsencode(path))
    return caught.value


def test_a_video_of_which_only_later_parts_are_encrypted_is_refused(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    path, clear = tmp_path / "parts.mp4", tmp_path / "clear.mp4"
    fragments = ("-movflags", "frag_keyframe+empty_moov+default_base_moof")
    run_ffmpeg(ffmpeg, *FILM, *fragments, str(clear))
    run_ffmpeg(ffmpeg, *FILM, *fragments, *CENC, str(path))
    head, _, *later = re.split(rb"(?=....moof)", path.read_bytes(), flags=re.DOTALL)
    first = re.split(rb"(?=....moof)", clear.read_bytes(), flags=re.DOTALL)[1]
    # Samples without a description of their own are not protected.
    head = re.sub(rb"(tenc.{6})\x01", rb"\1\0", head, flags=re.DOTALL)
    path.write_bytes(b"".join((head, first, *later)))
    error = refused(path)
    assert (error.code, "is encrypted (cenc)" in error.message) == (ErrorCode.UNSUPPORTED, True)


@pytest.mark.parametrize("guid", ASF_DRM)
def test_protected_wmv_is_called_so(ffmpeg: FFmpeg, tmp_path: Path, guid: str) -> None:
    path = tmp_path / "bought.wmv"
    run_ffmpeg(ffmpeg, "-f", "lavfi", "-i", "testsrc2=s=160x90:r=25:d=1", str(path))
    data = bytearray(path.read_bytes())
    texts = b"".join(
        struct.pack("<I", len(text)) + text for text in (b"secret", b"DRM\0", b"key\0", b"url\0")
    )
    added = bytes.fromhex(guid) + struct.pack("<Q", 24 + len(texts)) + texts
    size, count = struct.unpack_from("<QI", data, 16)
    struct.pack_into("<QI", data, 16, size + len(added), count + 1)
    data[30:30] = added
    path.write_bytes(data)
    error = refused(path)
    assert (error.code, "(Windows Media DRM)" in error.message) == (ErrorCode.UNSUPPORTED, True)


def encrypted_sound(ffmpeg: FFmpeg, path: Path) -> None:
    """The box that names the scheme stands in the sample entry of the first track."""
    run_ffmpeg(ffmpeg, *FILM, *LANGUAGES, "-c:a", "aac", str(path))
    scheme = box(b"schm", bytes(4), b"cbcs", struct.pack(">I", 0x10000))
    key = box(b"schi", box(b"tenc", bytes(4), b"\0\0\1\x08", bytes.fromhex(KID)))
    first = path.read_bytes().index(b"mp4a", path.read_bytes().rindex(b"moov"))
    with_boxes(path, b"mp4a", box(b"sinf", box(b"frma", b"mp4a"), scheme, key))
    data = bytearray(path.read_bytes())
    data[first : first + 4] = b"enca"
    path.write_bytes(data)


def unknown_sound(ffmpeg: FFmpeg, path: Path) -> None:
    """The first track states a kind of AAC without a decoder (parametric, ISO/IEC 14496-3)."""
    run_ffmpeg(ffmpeg, *FILM, *LANGUAGES, "-c:a", "aac", str(path))
    path.write_bytes(path.read_bytes().replace(b"\x12\x08\x56\xe5", b"\xe2\x08\x56\xe5", 1))


@pytest.mark.parametrize(
    ("make", "name", "told"),
    [(encrypted_sound, "film.mp4", "de, encrypted: cbcs"), (unknown_sound, "film.mkv", "de")],
)
def test_another_track_is_the_default_if_the_first_cannot_be_decoded(
    encode: MakeEncode,
    ffmpeg: FFmpeg,
    tmp_path: Path,
    make: Callable[[FFmpeg, Path], None],
    name: str,
    told: str,
) -> None:
    source = tmp_path / name
    make(ffmpeg, source)
    facts = probe(os.fsencode(source))
    [warning] = of_source(facts, load("fast"))
    assert (warning.code, f"({told})" in warning.text) == (WarningCode.AUDIO_UNREADABLE, True)
    [sound] = audio_renditions(facts, load("fast"))
    assert (sound.track.language, sound.default) == ("fr", True)
    made = encode(source, rungs=RUNG, poster=False)
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)

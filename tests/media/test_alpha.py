"""Transparent pictures over a colour: what is published against the formula of compositing."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.profiles import Profile, override
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.errors import ErrorCode, TqError

from .conftest import MakeEncode, run_ffmpeg, run_to_end
from .test_colour import first_frame
from .test_resume import streams

COLOURS = ((200, 60, 40), (40, 160, 220))
ALPHAS = (0, 96, 255)
RUNG = (Rung("180p", 320, 180, 4000, crf=4),)


def cells(planes: int) -> bytes:
    """A picture of 320×180: two colours beside each other, three degrees of transparency below."""
    rows = []
    for alpha in ALPHAS:
        pixels = [(*colour, alpha) if planes == 4 else (colour[0], alpha) for colour in COLOURS]
        rows.append(b"".join(bytes(pixel) * 160 for pixel in pixels) * 60)
    return b"".join(rows)


SOURCES = {
    "vp9.webm": ("rgba", ("-c:v", "libvpx-vp9", "-crf", "4", "-b:v", "0", "-pix_fmt", "yuva420p")),
    "vp8.webm": ("rgba", ("-c:v", "libvpx", "-b:v", "8M", "-auto-alt-ref", "0", "-pix_fmt", "yuva420p")),
    "prores.mov": ("rgba", ("-c:v", "prores_ks", "-profile:v", "4", "-pix_fmt", "yuva444p10le")),
    "animation.mov": ("rgba", ("-c:v", "qtrle", "-pix_fmt", "argb")),
    "png.mov": ("rgba", ("-c:v", "png")),
    "grey.mov": ("ya8", ("-c:v", "png")),
}


@pytest.mark.parametrize(
    "name",
    [
        *list(SOURCES)[:1],
        *(pytest.param(name, marks=pytest.mark.more) for name in list(SOURCES)[1:-1]),
        "grey.mov",
    ],
)
def test_a_transparent_picture_is_seen_over_the_colour(
    encode: MakeEncode, small: Profile, ffmpeg: FFmpeg, tmp_path: Path, name: str
) -> None:
    pixels, options = SOURCES[name]
    raw, source = tmp_path / "a.raw", tmp_path / name
    raw.write_bytes(cells(len(pixels) if pixels == "rgba" else 2) * 3)
    shape = ("-f", "rawvideo", "-pix_fmt", pixels, "-s", "320x180", "-r", "25")
    run_ffmpeg(ffmpeg, *shape, "-i", str(raw), *options, str(source))
    for background in ((0, 0, 0), (30, 200, 120)):
        profile = replace(small, background="#{:02x}{:02x}{:02x}".format(*background))
        made = encode(source, profile, rungs=RUNG)
        run_to_end(made)
        assert (made.state, made.error) == ("done", None)
        assert made.side.poster is not None
        published = streams(made)["180p"]
        for content, (kr, kb) in (
            (published, (0.2126, 0.0722)),
            (made.side.poster.read_bytes(), (0.299, 0.114)),
        ):
            frame = first_frame(content, tmp_path)
            full = frame.format.name == "yuvj420p"
            for (row, alpha), (column, colour) in product(enumerate(ALPHAS), enumerate(COLOURS)):
                y, cb, cr = (
                    bytes(part)[(60 * row + 30) // n * part.line_size + (160 * column + 80) // n]
                    for part, n in zip(frame.planes, (1, 2, 2), strict=True)
                )
                luma = y / 255 if full else (y - 16) / 219
                blue, red = ((c - 128) / (255 if full else 224) for c in (cb, cr))
                r, b = luma + (2 - 2 * kr) * red, luma + (2 - 2 * kb) * blue
                g = (luma - kr * r - kb * b) / (1 - kr - kb)
                over = colour if pixels == "rgba" else (colour[0],) * 3
                expected = [
                    (alpha * c + (255 - alpha) * k) / 255 for c, k in zip(over, background, strict=True)
                ]
                assert [255 * c for c in (r, g, b)] == pytest.approx(expected, abs=5), (row, column)


@pytest.mark.parametrize("text", ["black", "#fff", "#12345g", "3", "#0011223"])
def test_the_colour_is_written_as_on_the_web(small: Profile, text: str) -> None:
    with pytest.raises(TqError) as caught:
        override(small, {"video.background": text})
    assert caught.value.code is ErrorCode.BAD_CONFIG
    assert override(small, {"background": "#AbCdEf"}).background == "#abcdef"

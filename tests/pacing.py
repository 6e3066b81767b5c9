"""Holds encodes of the real ffmpeg to a multiple of real time, so that a test can step in before they end."""

from pathlib import Path

_SCRIPT = """#!/bin/sh
pace=$(cat "{pace}" 2>/dev/null)
case " $* " in *" libx264 "* | *k/index.m3u8*) ;; *) pace= ;; esac
if [ -n "$pace" ]; then
    for word in "$@"; do
        shift
        [ "$word" = "-i" ] && set -- "$@" -readrate "$pace"
        set -- "$@" "$word"
    done
fi
exec "{ffmpeg}" "$@"
"""


def paced_ffmpeg(path: Path, ffmpeg: str | Path, pace: Path) -> Path:
    """Write a script that stands before ffmpeg, and holds its qualities if the file `pace` holds a number."""
    path.write_text(_SCRIPT.format(pace=pace, ffmpeg=ffmpeg))
    path.chmod(0o755)
    return path

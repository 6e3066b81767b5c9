"""Makes files of a whole video in the folder of a generation that is being built.

For each, one ffmpeg copies the packets that the playlists of the generation name: nothing is encoded but the
text of subtitles, and it does not matter which machine made which segment, or when. A publish that is
interrupted removes the folder, and the next one makes the files again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import structlog

from tqstudio.engine.files import durable
from tqstudio.engine.media.check import whole_file
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.errors import classify_exit
from tqstudio.engine.media.ffmpeg.process import can_be_confined, start
from tqstudio.engine.media.plan.file_names import whole_name
from tqstudio.engine.media.segments import webvtt
from tqstudio.engine.media.segments.inspect import Torn, inspect_segment
from tqstudio.engine.outputs import whole_files
from tqstudio.engine.outputs.intent import Publication
from tqstudio.engine.store.library.generations import PublishedRow
from tqstudio.errors import ErrorClass, ErrorCode, JobWarning, TqError, WarningCode, class_of
from tqstudio.wings.files import command

_FOLDER = "making"
_LOG = "ffmpeg.log"
_MEMORY_BYTES = 2 * 1024**3
"""The index of ten hours of 60 pictures a second, and of 32 tracks of sound, has 1 GB."""
_OVERHEAD_BYTES = 256 * 1024**2
"""What a file may have more than the segments in it: its index has 50 MB then."""


def make_files(ffmpeg: FFmpeg, folder: Path, publication: Publication) -> list[JobWarning]:
    """Make the files that a manifest asks for; returns what could not be made.

    Call it from a thread that lives until it returns: ffmpeg ends with it.

    Args:
        folder: of the generation, with its renditions and playlists.

    Raises:
        TqError: DISK_LOW and others of the machine, which later attempts may have.
        OSError: from the file system.
    """
    warnings = []
    for key in publication.manifest.files:
        name = whole_name(publication.row.slug, key)
        try:
            # Without any, the report of the job shows why.
            if rows := whole_files.parts(key, publication.rows):
                _make(ffmpeg, folder, name, rows, publication)
        except TqError as error:
            if class_of(error.code) is ErrorClass.RESOURCE:
                raise
            structlog.get_logger().warning("file not made", job=publication.row.job, error=error.message)
            text = f"there is no {name}: {error.message}"
            warnings.append(JobWarning(WarningCode.FILE_MISSING, text))
        finally:
            durable.discard(folder / _FOLDER)
    return warnings


def _make(
    ffmpeg: FFmpeg, folder: Path, name: str, rows: Sequence[PublishedRow], publication: Publication
) -> None:
    """Make a file under a temporary name, check it, and give it its own."""
    scratch = folder / _FOLDER
    scratch.mkdir()
    for row in rows:
        if row.kind == "subtitles":
            cues = ((folder / row.name / file.name).read_text("utf-8") for file in row.files)
            (scratch / command.text_name(row)).write_text(webvtt.whole(cues), "utf-8")
    (scratch / command.ABOUT).write_text(
        command.about(publication.video.title, publication.manifest.chapters), "utf-8"
    )
    made = scratch / f"made{Path(name).suffix}"
    run = start(
        command.build(ffmpeg, rows, made.name),
        scratch,
        scratch / _LOG,
        memory_limit=_MEMORY_BYTES,
        # It may change nothing of the ladder, whose segments are links into the segment store.
        reads=os.fsencode(os.pardir),
        confined=can_be_confined(ffmpeg.path),
        largest=sum(row.size for row in rows) + _OVERHEAD_BYTES,
    )
    try:
        if status := run.wait():
            raise classify_exit(status, run.log_tail())
    finally:
        run.kill()
    counts = {row.name: _samples(folder, row) for row in rows if row.kind != "subtitles"}
    pictures = {counts[row.name] for row in rows if row.kind == "video"}
    # ffmpeg leaves out a segment that it cannot read, and exits with 0.
    if wrong := whole_file.damage(made, pictures, {counts[row.name] for row in rows if row.kind == "audio"}):
        raise TqError(ErrorCode.OUTPUT_INVALID, wrong)
    whole_file.hide_subtitles(made)
    durable.sync(made)
    made.rename(folder / name)


def _samples(folder: Path, row: PublishedRow) -> int:
    found = [inspect_segment(folder / row.name / file.name) for file in row.files]
    if any(isinstance(each, Torn) for each in found):
        raise TqError(ErrorCode.OUTPUT_INVALID, f"{row.name} is damaged")
    return sum(each.frames for each in found if not isinstance(each, Torn))

"""`quality`: measures a published ladder against its source. Works locally, without a supervisor."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tqstudio.cli.terminal import printing
from tqstudio.cli.terminal.options import JsonFlag
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import current_home
from tqstudio.paths import absolute, display
from tqstudio.words import format as fmt

if TYPE_CHECKING:
    from tqstudio.engine.media.encode.values import EncodeSpec
    from tqstudio.engine.media.plan.rungs import Rung
    from tqstudio.engine.store.db.connection import Connection
    from tqstudio.engine.store.library.generations import PublishedRow
    from tqstudio.engine.store.library.videos import VideoRow
    from tqstudio.wings.quality.vmaf import Scores

_SEGMENTS = 30
"""That are compared at a time: their files are joined in a temporary folder."""
_LOW_SHARE = 0.01


def quality(
    video: Annotated[
        str,
        typer.Argument(
            metavar="ID|PATH", help="Number of the video, or the path of its source.", show_default=False
        ),
    ],
    as_json: JsonFlag = False,
) -> int:
    """Measure the quality of a published ladder: VMAF of each of its qualities against the source.

    Everything is decoded, which takes about as long as the video. 1% LOW is the mean of the worst hundredth
    of pictures. VMAF is not known of HDR.
    """
    ladder = _ladder(video)
    with tempfile.TemporaryDirectory(prefix="tqstudio-quality-") as folder:
        scores = _measured(ladder, Path(folder), shows=sys.stderr.isatty())
    view = _view(ladder, scores)
    if as_json:
        printing.out_json(view)
        return 0
    rows = [
        (
            each["name"],
            f"{each['width']}×{each['height']}",
            f"{each['average_bps'] // 1000} kb/s",
            f"{each['vmaf']:.1f}",
            f"{each['low_1_percent']:.1f}",
            f"{each['worst']['vmaf']:.1f} at {fmt.clock_duration(each['worst']['at_s'])}",
        )
        for each in view["renditions"]
    ]
    printing.table(("QUALITY", "SIZE", "RATE", "VMAF", "1% LOW", "WORST"), rows, right=(2, 3, 4))
    printing.out(f"{view['model']} at {view['size']}, every fifth picture")
    if view["not_measured"]:
        printing.out(f"not measured, VMAF is not known of HDR: {', '.join(view['not_measured'])}")
    return 0


@dataclass(frozen=True)
class _Ladder:
    """A published ladder, and what it was made of."""

    video: VideoRow
    folder: Path
    """Of its generation."""
    rows: dict[str, PublishedRow]
    """Its qualities in SDR, by name."""
    hdr: list[str]
    profile_json: str


def _ladder(given: str) -> _Ladder:
    from tqstudio.config import load_settings
    from tqstudio.engine.outputs.place import place_of
    from tqstudio.engine.store.db import errors
    from tqstudio.engine.store.db.connection import address_of, connect, is_there
    from tqstudio.engine.store.jobs import jobs
    from tqstudio.engine.store.library import generations

    home = current_home()
    address = address_of(home, load_settings(home))
    if not is_there(address):
        raise _unknown(given)
    with errors.converted(address), closing(connect(address, read_only=True)) as db:
        row = _video(db, given)
        generation = generations.current(db, row.id)
        creator = jobs.creator_of(db, row.id)
        if generation is None or creator is None or row.facts is None:
            text = f"video {row.id} has no ladder"
            raise TqError(ErrorCode.NOT_FOUND, text, "its jobs are in: tqstudio job list")
        profile_json = jobs.spec_of(db, creator).profile_json
    pictures = [each for each in generation.renditions if each.kind == "video"]
    sdr = {each.name: each for each in pictures if each.video_range == "SDR"}
    if not sdr:
        why = "has HDR alone, of which VMAF is not known" if pictures else "is sound without pictures"
        raise TqError(ErrorCode.UNSUPPORTED, f"video {row.id} {why}")
    hdr = [each.name for each in pictures if each.name not in sdr]
    return _Ladder(row, place_of(row).generation(generation.number), sdr, hdr, profile_json)


def _video(db: Connection, given: str) -> VideoRow:
    from tqstudio.engine.store.library import videos

    if given.isdecimal():
        found = videos.get(db, int(given))
        return found if found is not None else _raise(_unknown(given))
    of_source = videos.with_source(db, os.fsencode(absolute(given)))
    if len(of_source) > 1:
        numbers = ", ".join(f"{each.id} ({display(each.output_root)})" for each in of_source)
        text = f"{display(os.fsencode(given))} has a video in several outputs"
        raise TqError(ErrorCode.BAD_REQUEST, text, f"name one by its number: {numbers}")
    return of_source[0] if of_source else _raise(_unknown(given))


def _raise(error: TqError) -> Any:
    raise error


def _unknown(given: str) -> TqError:
    shown = given if given.isdecimal() else f"of {display(os.fsencode(given))}"
    return TqError(ErrorCode.NOT_FOUND, f"there is no video {shown}", "list videos with: tqstudio video list")


def _measured(ladder: _Ladder, folder: Path, *, shows: bool) -> dict[str, Scores]:
    """The scores of each quality, with pictures counted from the first of the video."""
    from tqstudio.engine.media.plan.file_names import INIT_NAME
    from tqstudio.engine.media.source.source_file import keep_open
    from tqstudio.wings.quality.vmaf import Bench

    source = ladder.video.source
    with keep_open(source, None):
        spec, rungs = _spec(ladder, folder)
        grid, found = spec.grid, {rung.name: list[tuple[int, float]]() for rung in rungs}
        bench = Bench(spec, folder / "bench", lambda: None, stall_s=120)
        try:
            for first, end, last in _parts(ladder, spec):
                begins = grid.segment_start(first)
                for rung in rungs:
                    of = ladder.rows[rung.name].files[first:end]
                    inner = ladder.folder / rung.name
                    bench.take(rung, [inner / INIT_NAME, *(inner / file.name for file in of)])
                start, stop = grid.fragments_of(first).start, grid.fragments_of(end).start

                def moved(done: int, begins: int = begins) -> None:
                    if shows:
                        percent = min(100, 100 * (begins + done) // grid.total_frames)
                        print(f"\rmeasuring {percent} %", end="\x1b[K", file=sys.stderr, flush=True)

                for name, scores in bench.compare(rungs, start, None if last else stop, moved).items():
                    found[name] += [(begins + at, vmaf) for at, vmaf in scores]
                spec.original.require_same()
        finally:
            if shows:
                print("\r", end="\x1b[K", file=sys.stderr, flush=True)
    return found


def _parts(ladder: _Ladder, spec: EncodeSpec) -> Iterator[tuple[int, int, bool]]:
    """Ranges of segments that are compared at a time: the first one, the end, and whether they are the last.

    All at once if the source cannot be seeked in: each part would decode all before it.
    """
    count = min(len(row.files) for row in ladder.rows.values())
    each = count if spec.facts.unseekable else _SEGMENTS
    for first in range(0, count, each):
        yield first, min(first + each, count), first + each >= count


def _spec(ladder: _Ladder, folder: Path) -> tuple[EncodeSpec, list[Rung]]:
    """The source as its ladder was made of it, and the qualities to measure, largest first."""
    import json

    from tqstudio.config import load_settings
    from tqstudio.engine.media.check.rendition import published_grid
    from tqstudio.engine.media.encode.values import EncodeSpec
    from tqstudio.engine.media.ffmpeg.binary import locate
    from tqstudio.engine.media.ffmpeg.trial_runs import has_vmaf, require_vulkan
    from tqstudio.engine.media.plan.profiles import Profile
    from tqstudio.engine.media.plan.rungs import Rung
    from tqstudio.engine.media.source import sidecars
    from tqstudio.engine.media.source.facts import SourceFacts
    from tqstudio.engine.media.source.fingerprint import Original

    video = ladder.video
    original = Original.of(video.source)
    if (original.identity.size, original.identity.mtime_ns) != (video.size, video.mtime_ns):
        text = f"{display(video.source)} has changed since its ladder was made"
        raise TqError(ErrorCode.SOURCE_CHANGED, text, "add it again, then measure the new ladder")
    ffmpeg = locate(load_settings(current_home()).ffmpeg or None)
    if not has_vmaf(ffmpeg):
        hint = "set TQSTUDIO_FFMPEG to an ffmpeg with libvmaf, as imageio-ffmpeg has one"
        raise TqError(ErrorCode.UNSUPPORTED, f"{ffmpeg.path} ({ffmpeg.version}) has no libvmaf", hint)
    facts = sidecars.renewed(SourceFacts.from_json(video.facts or {}), video.source)
    require_vulkan(ffmpeg, facts.video, display(video.source))
    profile = Profile.from_json(json.loads(ladder.profile_json))
    spec = EncodeSpec(
        ffmpeg=ffmpeg,
        source=video.source,
        original=original,
        facts=facts,
        grid=published_grid(facts, profile, ladder.folder / next(iter(ladder.rows))),
        profile=profile,
        rungs=(),
        audio=(),
        subtitles=(),
        content_id=video.quick_hash or "",
        store_root=folder,
        scratch=folder,
        log_dir=folder / "logs",
    )
    rows = sorted(ladder.rows.values(), key=lambda row: (row.height or 0, row.average_bps), reverse=True)
    return spec, [Rung(row.name, row.width or 0, row.height or 0, 0) for row in rows]


def _view(ladder: _Ladder, scores: dict[str, Scores]) -> dict[str, Any]:
    from tqstudio.wings.quality.vmaf import MODEL, mean, size_of

    renditions = []
    for name, found in scores.items():
        row = ladder.rows[name]
        worst_first = sorted(found, key=lambda each: each[1])
        at, vmaf = worst_first[0]
        low = worst_first[: max(1, round(len(found) * _LOW_SHARE))]
        renditions.append(
            {
                "name": name,
                "width": row.width,
                "height": row.height,
                "average_bps": row.average_bps,
                "vmaf": round(mean(found), 2),
                "low_1_percent": round(mean(low), 2),
                "worst": {"vmaf": round(vmaf, 2), "at_s": round(at / (row.frame_rate or 1), 3)},
            }
        )
    largest = ladder.rows[next(iter(scores))]
    return {
        "video": ladder.video.id,
        "source": display(ladder.video.source),
        "model": MODEL,
        "size": size_of(largest.width or 0, largest.height or 0),
        "renditions": renditions,
        "not_measured": ladder.hdr,
    }

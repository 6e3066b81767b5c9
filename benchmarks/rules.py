"""How long Apple's rules take for the playlists of a long ladder."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.options import Options
from benchmarks.report import Section, at_most
from tqstudio.engine.media.check import apple
from tqstudio.engine.media.plan.file_names import segment_name
from tqstudio.engine.media.segments.checked import IFrame
from tqstudio.engine.outputs import master
from tqstudio.engine.outputs.place import Place
from tqstudio.engine.store.library.generations import PublishedFile, PublishedRow
from tqstudio.ladder_files import MASTER_NAME

_SEGMENTS, _SEGMENT_S, _GOPS = 1200, 6.0, 3
_INIT_BYTES = 800
_HEIGHTS = (2160, 1440, 1080, 720, 480, 360)


def measure(options: Options, root: Path) -> Section:
    section = Section(
        "Apple's rules", f"a ladder of two hours, six qualities and two sounds; {options.rounds} rounds"
    )
    rows = [*(_row(f"{height}p", height, height * 3000) for height in _HEIGHTS)]
    rows += [_row("audio-en", 0, 128_000), _row("audio-de", 0, 128_000)]
    for row in rows:
        _write(root / "v1" / row.name, row, rows)
    (root / MASTER_NAME).write_bytes(master.text(Place(root.parent, root.name), 1, rows))
    times = []
    for _ in range(options.rounds):
        began = time.perf_counter()
        results = apple.check(root / MASTER_NAME)
        times.append(time.perf_counter() - began)
        if violated := apple.violation(results):
            raise AssertionError(violated)
    section.add(f"{len(results)} rules, two hours", times, "s", at_most(1))
    return section


def _row(name: str, height: int, bps: int) -> PublishedRow:
    """A rendition of constant bit rate."""
    size = round(bps * _SEGMENT_S / 8)
    gop_s = _SEGMENT_S / _GOPS
    iframes = tuple(IFrame(k * (size // _GOPS), size // 12, gop_s) for k in range(_GOPS)) if height else ()
    files = tuple(PublishedFile(segment_name(k), size, _SEGMENT_S, None, iframes) for k in range(_SEGMENTS))
    return PublishedRow(
        name=name,
        kind="video" if height else "audio",
        width=height * 16 // 9 // 2 * 2 or None,
        height=height or None,
        frame_rate=25.0 if height else None,
        codecs="avc1.640033" if height else "mp4a.40.2",
        duration_s=_SEGMENTS * _SEGMENT_S,
        average_bps=bps,
        peak_bps=bps,
        size=size * _SEGMENTS + _INIT_BYTES,
        settings_hash=name,
        stream_key=name,
        language=name.partition("-")[2] or None,
        title=None,
        channels=None if height else 2,
        is_default=name == "audio-en",
        files=files,
    )


def _write(folder: Path, row: PublishedRow, rows: list[PublishedRow]) -> None:
    """Write the playlists, and files of the right sizes without media."""
    folder.mkdir(parents=True)
    for name, content in master.playlists(row, master.target_of(rows)).items():
        (folder / name).write_bytes(content)
    for file in row.files:
        with (folder / file.name).open("wb") as media:
            for iframe in file.iframes:
                media.seek(iframe.offset + 4)
                media.write(b"moof")
            media.truncate(file.size)

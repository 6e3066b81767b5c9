"""Small ladders for tests: a segment store with few bytes per file, and the manifest that names them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blake3 import blake3

import tiny_media
from tqstudio.engine import outputs
from tqstudio.engine.media.plan.file_names import INIT_NAME, segment_name
from tqstudio.engine.outputs import Place
from tqstudio.engine.outputs.generation import rows_of
from tqstudio.engine.store.library.generations import PublishedRow
from tqstudio.protocol.requests import Manifest


@dataclass
class Bench:
    """A worker's output folder."""

    work_dir: Path
    video: int = 1
    made: list[dict[str, Any]] = field(default_factory=list)

    def rendition(
        self, name: str, settings_hash: str, *, segments: int = 3, text: str = "", iframes: bool = False
    ) -> dict[str, Any]:
        """Make a rendition's files; `text` goes into each. Their key frames are listed with `iframes`."""
        folder = self.work_dir / "segments" / str(self.video) / name / settings_hash
        folder.mkdir(parents=True, exist_ok=True)
        audio = name.startswith("audio")
        (folder / INIT_NAME).write_bytes(tiny_media.init(audio=audio))
        files = []
        for k in range(segments):
            content = tiny_media.segment(k, f"{name} {settings_hash} {text} {k}".encode())
            (folder / segment_name(k)).write_bytes(content)
            digest = blake3(content).hexdigest()
            files.append({"name": segment_name(k), "size": len(content), "duration_s": 6.0, "blake3": digest})
            if iframes and not audio:
                files[-1]["iframes"] = [[0, len(content), 6.0]]
        made: dict[str, Any] = {
            "name": name,
            "kind": "audio" if audio else "video",
            "folder": str(folder.relative_to(self.work_dir)),
            "segments": files,
            "init_size": (folder / INIT_NAME).stat().st_size,
            "codecs": tiny_media.AUDIO_CODEC if audio else tiny_media.VIDEO_CODEC,
            "width": None if audio else 640,
            "height": None if audio else 360,
            "frame_rate": None if audio else 29.97002997,
            "duration_s": 6.0 * segments,
            "average_bps": 100_000,
            "peak_bps": 120_000,
            "settings_hash": settings_hash,
            "stream_key": f"key-{settings_hash}",
            "language": "en" if audio else None,
            "channels": 2 if audio else None,
            "default": audio,
        }
        self.made.append(made)
        return made

    def manifest(self, *renditions: dict[str, Any], **more: Any) -> Manifest:
        values = {"renditions": list(renditions or self.made), "settings_hash": "ladder", "poster": None}
        return Manifest(**(values | more))


def put_in_place(
    work_dir: Path,
    place: Place,
    number: int,
    manifest: Manifest,
    kept: Sequence[PublishedRow] = (),
    kept_from: Path | None = None,
) -> tuple[PublishedRow, ...]:
    """The steps of a publish that are about files, and the way back when one of them fails."""
    place.folder.mkdir(parents=True, exist_ok=True)
    rows = rows_of(manifest, kept)
    try:
        outputs.build(work_dir, place, number, manifest, rows, kept_from)
        outputs.rename_to_final(place, number)
        outputs.set_current(place, number, rows)
    except BaseException:
        outputs.undo(place, number, rows, None)
        raise
    return rows

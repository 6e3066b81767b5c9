"""Starts and ends the ffmpeg runs of an encode, each in a directory of its own, and records them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tqstudio.engine.media import command
from tqstudio.engine.media.encode_state import EncodeSpec, RunRecord
from tqstudio.engine.media.ladder import AudioRendition, Rung
from tqstudio.engine.media.layout import GPU_ENCODERS
from tqstudio.engine.media.process import Run, from_os_error, start
from tqstudio.engine.media.segment_store import SegmentStore
from tqstudio.engine.media.stream import StreamOutput

Kind = Literal["video", "audio", "poster"]


@dataclass
class Task:
    """A run under way with what it writes."""

    kind: Kind
    run: Run
    directory: Path
    encoder: str
    outputs: list[StreamOutput]
    resumed_from: int
    number: int
    """Index of its `RunRecord`."""
    last_frame: int = 0
    """Of its progress, never going back."""

    @property
    def names(self) -> list[str]:
        """The renditions it writes."""
        return [output.name for output in self.outputs]


class Launcher:
    """Starts runs. Every method raises TqError when ffmpeg cannot be started or the disk refuses."""

    def __init__(self, spec: EncodeSpec) -> None:
        self.records: list[RunRecord] = []
        self._spec = spec

    def video(
        self, rungs: Sequence[Rung], stores: Mapping[str, SegmentStore], encoder: str, resume_at: int
    ) -> Task:
        """One decode for all the rungs."""
        spec = self._spec
        argv = command.video_command(
            spec.ffmpeg,
            spec.source,
            spec.facts,
            spec.grid,
            spec.profile,
            rungs,
            encoder,
            resume_at,
            spec.threads,
            spec.device if encoder in GPU_ENCODERS else None,
        )
        label = "video" if len(rungs) > 1 else f"video-{rungs[0].name}"
        return self._launch(label, "video", argv, encoder, stores, resume_at)

    def audio(self, rendition: AudioRendition, store: SegmentStore) -> Task:
        """One audio rendition, always from its start."""
        spec = self._spec
        argv = command.audio_command(spec.ffmpeg, spec.source, spec.facts, spec.grid, spec.profile, rendition)
        stores = {rendition.name: store}
        return self._launch(rendition.name, "audio", argv, spec.profile.audio_codec, stores, 0)

    def poster(self, position: float | None) -> Task:
        """The poster, at a share of the duration or where the profile wants it."""
        spec = self._spec
        argv = command.poster_command(spec.ffmpeg, spec.source, spec.facts, spec.profile, position)
        return self._launch("poster", "poster", argv, "mjpeg", {}, 0)

    def end(self, task: Task) -> None:
        """End a run if it lives, note its exit status and remove its directory. May be repeated."""
        task.run.kill()
        self.records[task.number] = replace(self.records[task.number], returncode=task.run.poll())
        shutil.rmtree(task.directory, ignore_errors=True)

    def _launch(
        self,
        label: str,
        kind: Kind,
        argv: list[str],
        encoder: str,
        stores: Mapping[str, SegmentStore],
        resumed_from: int,
    ) -> Task:
        spec, number = self._spec, len(self.records)
        directory = spec.scratch / f"run-{number}"
        try:
            spec.log_dir.mkdir(parents=True, exist_ok=True)
            directory.mkdir()
            for name in stores:
                (directory / name).mkdir()
        except OSError as error:
            raise from_os_error(error, f"no directory could be made for the {label} run") from error
        log_path = spec.log_dir / f"{number:02d}-{label}.log"
        limit = spec.memory_limit if kind == "video" else None
        run = start(argv, directory, log_path, kind != "poster", spec.nice, limit)
        grid = spec.grid if kind == "video" else None
        outputs = [
            StreamOutput(name, directory / name, store, grid, resumed_from) for name, store in stores.items()
        ]
        self.records.append(RunRecord(label, run.argv, log_path, encoder, resumed_from, None))
        return Task(kind, run, directory, encoder, outputs, resumed_from, number)

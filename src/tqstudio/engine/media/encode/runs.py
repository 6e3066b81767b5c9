"""Starts and ends the ffmpeg runs of an encode, each in a directory of its own, and records them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tqstudio.engine.media.encode.values import EncodeSpec, RunRecord
from tqstudio.engine.media.ffmpeg import command
from tqstudio.engine.media.ffmpeg.command import PosterPicture
from tqstudio.engine.media.ffmpeg.process import Run, from_output_error, start
from tqstudio.engine.media.plan.file_names import GPU_ENCODERS
from tqstudio.engine.media.plan.missing_runs import VideoRun
from tqstudio.engine.media.plan.rungs import AudioRendition
from tqstudio.engine.media.segments.collector import StreamOutput
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.engine.media.source import source_file

Kind = Literal["video", "audio", "poster"]


@dataclass(frozen=True, slots=True)
class Batch:
    """Video renditions that are to be made together."""

    names: tuple[str, ...]
    encoder: str
    fresh: bool = False
    """From their first frame in one run, whatever the disk has: what is there cannot be continued."""
    early: bool = False
    """The last key frame before the cut was too late to begin with."""
    latest: int | None = None
    """No run may start behind this fragment: the source was found to have no frame there."""

    def without(self, names: tuple[str, ...]) -> Batch:
        """The others of them."""
        return replace(self, names=tuple(name for name in self.names if name not in names))


@dataclass
class Task:
    """A run under way with what it writes."""

    kind: Kind
    run: Run
    directory: Path
    encoder: str
    outputs: list[StreamOutput]
    number: int
    """Index of its `RunRecord`."""
    batch: Batch | None = None
    """Of a video run: what it is a part of."""
    planned: VideoRun | None = None
    last_frame: int = 0
    """Of its progress, never going back."""
    idle_until: float = 0.0
    """Clock time at which it had not made a frame yet: it decodes its way to its first one."""
    bytes_read: int = 0
    """By ffmpeg, so far."""
    log_read: int = 0
    """Bytes of its log that were searched for decoding errors."""

    @property
    def names(self) -> tuple[str, ...]:
        """The renditions it writes."""
        return tuple(output.name for output in self.outputs)

    @property
    def start(self) -> int:
        """Its first fragment."""
        return self.planned.start if self.planned is not None else 0


class Launcher:
    """Starts runs. Every method raises TqError when ffmpeg cannot be started or the disk refuses."""

    def __init__(self, spec: EncodeSpec) -> None:
        self.records: list[RunRecord] = []
        self.spec = spec
        self._rungs = {rung.name: rung for rung in spec.rungs}

    def video(self, planned: VideoRun, stores: Mapping[str, SegmentStore], batch: Batch) -> Task:
        """One decode for all the renditions of a planned run."""
        spec, encoder = self.spec, batch.encoder
        argv = command.video_command(
            spec.ffmpeg,
            spec.source,
            spec.facts,
            spec.grid,
            spec.profile,
            [self._rungs[name] for name in planned.names],
            encoder,
            planned.start,
            planned.stop,
            spec.threads,
            spec.device if encoder in GPU_ENCODERS else None,
            batch.early,
        )
        label = "video" if len(planned.names) > 1 else f"video-{planned.names[0]}"
        mine = {name: stores[name] for name in planned.names}
        return self._launch(label, "video", argv, encoder, mine, planned, batch)

    def audio(self, rendition: AudioRendition, store: SegmentStore) -> Task:
        """One audio rendition, always from its start."""
        spec = self.spec
        argv = command.audio_command(spec.ffmpeg, spec.source, spec.facts, spec.grid, spec.profile, rendition)
        stores = {rendition.name: store}
        return self._launch(rendition.name, "audio", argv, spec.profile.audio_codec, stores)

    def poster(self, picture: PosterPicture) -> Task:
        spec = self.spec
        argv = command.poster_command(spec.ffmpeg, spec.source, spec.facts, spec.profile, picture)
        return self._launch("poster", "poster", argv, "mjpeg", {})

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
        planned: VideoRun | None = None,
        batch: Batch | None = None,
    ) -> Task:
        spec, number = self.spec, len(self.records)
        spec.require_output()
        directory = spec.scratch / f"run-{number}"
        try:
            spec.log_dir.mkdir(parents=True, exist_ok=True)
            directory.mkdir()
            for name in stores:
                (directory / name).mkdir()
        except OSError as error:
            raise from_output_error(error, f"no directory could be made for the {label} run") from error
        log_path = spec.log_dir / f"{number:02d}-{label}.log"
        run = start(argv, directory, log_path, kind != "poster", spec.nice, spec.memory_limit, spec.source)
        grid, first = (spec.grid, planned.start) if planned is not None else (None, 0)
        to_the_end = planned is None or planned.stop is None
        outputs = [
            StreamOutput(name, directory / name, store, grid, first, to_the_end, self._require_right)
            for name, store in stores.items()
        ]
        segment = first // spec.grid.fragments_per_segment
        at_s = float(first * spec.grid.fragment_s)
        self.records.append(RunRecord(label, run.argv, log_path, encoder, segment, None, spec.mode, at_s))
        return Task(kind, run, directory, encoder, outputs, number, batch, planned)

    def _require_right(self) -> None:
        """What may be stored is of the source that was examined, by the worker that has the job."""
        self.spec.require_ours()
        self.spec.require_output()
        source_file.require_same(self.spec.source, self.spec.identity)

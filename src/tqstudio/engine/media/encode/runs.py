"""Starts, ends and records the ffmpeg runs of an encode, each in its own directory."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tqstudio.engine.media.encode import text_encoding
from tqstudio.engine.media.encode.missing_runs import VideoRun
from tqstudio.engine.media.encode.values import EncodeSpec, RenditionState, RunRecord
from tqstudio.engine.media.ffmpeg import command
from tqstudio.engine.media.ffmpeg.burn import bitmaps_command
from tqstudio.engine.media.ffmpeg.command import PosterPicture
from tqstudio.engine.media.ffmpeg.errors import from_output_error
from tqstudio.engine.media.ffmpeg.process import Run, can_be_confined, start
from tqstudio.engine.media.ffmpeg.text_commands import (
    CAPTIONS_SOURCE,
    SIDECAR_NAMES,
    captions_command,
    sidecar_command,
    subtitle_command,
)
from tqstudio.engine.media.ffmpeg.track_commands import audio_command, loudness_command
from tqstudio.engine.media.plan.copying import COPY, copied_starts
from tqstudio.engine.media.plan.file_names import BITMAPS_NAME, KEY_TIMES_NAME
from tqstudio.engine.media.plan.grid import Grid
from tqstudio.engine.media.plan.subtitles import Burnt
from tqstudio.engine.media.plan.video_codecs import GPU_ENCODERS
from tqstudio.engine.media.segments.collector import StreamOutput
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.engine.media.segments.storyboard import Storyboard
from tqstudio.engine.media.source import source_file
from tqstudio.engine.media.source.facts import Damage
from tqstudio.errors import ErrorCode, TqError

SideKind = Literal["bitmaps", "poster", "subtitles", "loudness", "audio", "storyboard"]
Kind = Literal["video"] | SideKind
# Reading up to 4 × the size of the source + 64 MiB before the first frame counts as progress: a source whose
# streams are far apart in the file is read several times.
_MAX_READS = 4
_MAX_READS_BESIDES = 64 * 1024 * 1024
_COORDINATES = re.compile(r"^(\d\S* --> \S+)[ \t]+X1:.*$", re.MULTILINE)
_PROBE_NAME = "can-be-written"
_DECODE_ERROR = re.compile(
    rb"\] corrupt decoded frame|\] Error submitting packet to decoder: Invalid data|\] corrupt input packet"
)
# What a GPU cannot decode as the CPU does, and new filters, which do not know how many frames there were.
_DEVICE_TROUBLE = re.compile(
    rb"[^\n]*(?:\] corrupt |Error submitting packet to decoder|hardware accelerator failed"
    rb"|Reconfiguring filter graph)[^\n]*"
)


@dataclass(frozen=True, slots=True)
class Batch:
    """Video renditions to encode together."""

    names: tuple[str, ...]
    encoder: str
    fresh: bool = False
    """Encode from the first frame: the stored part cannot be continued."""
    early: bool = False
    """Seek to an earlier key frame: the last one before the start was too late."""
    latest: int | None = None
    """Start no run after this fragment: the source has no frame there."""
    on_device: bool = False
    """Decode and scale on the GPU."""

    def without(self, names: tuple[str, ...]) -> Batch:
        """The same batch without some renditions."""
        return replace(self, names=tuple(name for name in self.names if name not in names))


def batches(states: Sequence[RenditionState], first: str | None = None) -> list[Batch]:
    """The video renditions that are not complete: together if one run can encode them; `first` before all."""
    missing: dict[tuple[str, bool, bool, bool], list[str]] = {}
    for state in states:
        if state.status != "completed":
            kind = state.encoder, state.hdr, state.on_device, state.name == first
            missing.setdefault(kind, []).append(state.name)
    # A copy takes seconds.
    ordered = sorted(missing.items(), key=lambda item: (item[0][0] != COPY, not item[0][3]))
    return [
        Batch(tuple(names), encoder, on_device=on_device) for (encoder, _, on_device, _), names in ordered
    ]


@dataclass
class Task:
    """A running ffmpeg process and its outputs."""

    kind: Kind
    run: Run
    directory: Path
    encoder: str
    outputs: list[StreamOutput]
    names: tuple[str, ...]
    """The renditions that it writes."""
    number: int
    """Index of its `RunRecord`."""
    batch: Batch | None = None
    """The batch that a video run belongs to."""
    planned: VideoRun | None = None
    taken: int = 0
    """Files of subtitles that were stored."""
    last_frame: int = 0
    """Frames encoded so far."""
    idle_until: float = 0.0
    """Last clock time at which it had not encoded a frame yet, because it decodes to reach its first one."""
    bytes_read: int = 0
    """Bytes read by ffmpeg so far."""
    log_read: int = 0
    """Bytes of its log that were searched for decoding errors."""

    @property
    def start(self) -> int:
        """Its first fragment."""
        return self.planned.start if self.planned is not None else 0

    @property
    def on_device(self) -> bool:
        """Whether it decodes and scales on the GPU."""
        return self.batch is not None and self.batch.on_device

    @property
    def damages(self) -> Literal["pictures", "sound"]:
        """What is damaged if its log has decoding errors."""
        return "sound" if self.kind == "audio" else "pictures"

    def has_advanced(self, source_size: int) -> bool:
        """Whether it has encoded frames since the last call, or before its first one, read more."""
        frame = self.run.progress.frame or 0
        if frame > self.last_frame:
            self.last_frame = frame
            return True
        if self.last_frame:
            return False
        self.idle_until = time.monotonic()
        before = self.bytes_read
        self.bytes_read = max(before, min(self.run.bytes_read, _MAX_READS * source_size + _MAX_READS_BESIDES))
        return self.bytes_read > before

    def find_damage(self, grid: Grid) -> Damage | None:
        """Search the new part of ffmpeg's log for a decoding error of the CPU."""
        if self.on_device:
            return None
        log, self.log_read = self.run.log_from(self.log_read)
        # After a seek the first pictures are only decoded as references; errors in them do not matter.
        if (self.start and not self.last_frame) or not _DECODE_ERROR.search(log):
            return None
        at_us = self.run.progress.out_time_us if self.kind == "audio" else None
        at_s = grid.fragment_s(self.start) + self.last_frame / float(grid.fps)
        return Damage(self.damages, max(0.0, at_us / 1_000_000) if at_us else at_s)

    def require_like_cpu(self) -> None:
        """Raise OUTPUT_INVALID if its log shows that the GPU does not decode as the CPU does."""
        if not self.on_device or not (self.start or self.last_frame):
            return  # an encoder that does not open also causes such lines
        log, self.log_read = self.run.log_from(self.log_read)
        found = None if self.start and not self.last_frame else _DEVICE_TROUBLE.search(log)
        if found:
            raise TqError(ErrorCode.OUTPUT_INVALID, found[0].decode(errors="replace").strip())

    def progress(self, output: StreamOutput) -> tuple[float, float, float | None]:
        """How much of the video is encoded and how much of it is stored, 0 … 1, and the speed.

        Of audio only the speed is known.
        """
        grid = output.grid
        if grid is None:
            return 0.0, 0.0, self.run.progress.speed
        frames = self.last_frame
        elapsed = time.monotonic() - (self.idle_until or self.run.started)
        speed = frames / float(grid.fps) / elapsed if frames else None
        ahead = sum(map(grid.segment_frames, output.ahead))
        made = grid.fragment_start(self.start) + frames + ahead
        kept = grid.fragment_start(output.next_piece) + ahead
        return made / grid.total_frames, kept / grid.total_frames, speed


class Launcher:
    """Starts runs. All methods raise TqError if ffmpeg cannot be started or the disk cannot be written."""

    def __init__(self, spec: EncodeSpec) -> None:
        self.records: list[RunRecord] = []
        self.spec = spec
        self._rungs = {rung.name: rung for rung in spec.rungs}

    def video(self, planned: VideoRun, stores: Mapping[str, SegmentStore], batch: Batch) -> Task:
        """Start a planned video run: one decoder feeds all its renditions."""
        spec, encoder = self.spec, batch.encoder
        if encoder == COPY:
            return self._copy(planned, stores, batch)
        rungs = [self._rungs[name] for name in planned.names]
        argv = command.video_command(
            spec.ffmpeg,
            spec.source,
            spec.facts,
            spec.grid,
            spec.profile,
            [replace(rung, crf=spec.found_crf(rung, encoder) or rung.crf) for rung in rungs],
            encoder,
            planned.start,
            planned.stop,
            spec.device if encoder in GPU_ENCODERS or batch.on_device else None,
            batch.early,
            batch.on_device,
        )
        label = "video" if len(planned.names) > 1 else f"video-{planned.names[0]}"

        def give(directory: Path) -> None:
            if (spec.scratch / BITMAPS_NAME).exists():
                # Not a link: a confined ffmpeg sees its own directory only.
                shutil.copyfile(spec.scratch / BITMAPS_NAME, directory / BITMAPS_NAME)
            if spec.grid.starts:
                times = command.key_times(spec.grid, planned.start, planned.stop)
                (directory / KEY_TIMES_NAME).write_text(times)

        return self._launch(label, "video", argv, encoder, stores, planned, batch, give=give)

    def _copy(self, planned: VideoRun, stores: Mapping[str, SegmentStore], batch: Batch) -> Task:
        """Start the run that copies the pictures of the source."""
        spec = self.spec
        rung = self._rungs[planned.names[0]]
        argv = command.copy_command(spec.ffmpeg, spec.source, spec.facts, spec.grid, rung)
        return self._launch(f"copy-{rung.name}", "video", argv, COPY, stores, planned, batch)

    def bitmaps(self, burnt: Burnt) -> Task:
        """Start the run that copies the subtitles that video runs burn in."""
        argv = bitmaps_command(self.spec.ffmpeg, self.spec.source, burnt)
        return self._launch("bitmaps", "bitmaps", argv, "copy", {})

    def loudness(self, names: Sequence[str]) -> Task:
        """Start one run that measures the loudness of these audio renditions; its log has the results."""
        spec = self.spec
        sounds = [sound for sound in spec.audio if sound.name in names]
        argv = loudness_command(spec.ffmpeg, spec.source, spec.facts, spec.grid, spec.profile, sounds)
        label = "loudness" if len(sounds) > 1 else f"{sounds[0].name}-loudness"
        return self._launch(label, "loudness", argv, "ebur128", {}, names=tuple(names))

    def audio(self, stores: Mapping[str, SegmentStore], gains: Mapping[str, float]) -> Task:
        """Start one run of these audio renditions, always from the beginning, with their gains in dB."""
        spec = self.spec
        sounds = [sound for sound in spec.audio if sound.name in stores]
        argv = audio_command(spec.ffmpeg, spec.source, spec.facts, spec.grid, spec.profile, sounds, gains)
        label = "audio" if len(sounds) > 1 else sounds[0].name
        encoders = ", ".join(sorted({sound.codec for sound in sounds}))
        return self._launch(label, "audio", argv, encoders, stores)

    def subtitles(self, names: Sequence[str], content: bytes | None = None) -> Task:
        """Start one run that writes each of these subtitle renditions as one file.

        With `content`, the file beside the source, it is one rendition that is made of that; captions in the
        pictures are alone too.
        """
        spec = self.spec
        chosen = [each for each in spec.subtitles if each.name in names]
        label = "subtitles" if len(chosen) > 1 else chosen[0].name
        if chosen[0].in_pictures:
            argv = captions_command(spec.ffmpeg, chosen[0])
            opened = source_file.to_open(spec.source)

            def link(directory: Path) -> None:
                os.symlink(opened, os.fsencode(directory / CAPTIONS_SOURCE))

            return self._launch(label, "subtitles", argv, "webvtt", {}, names=tuple(names), give=link)
        if content is None:
            argv = subtitle_command(spec.ffmpeg, spec.source, spec.facts, chosen)
            return self._launch(label, "subtitles", argv, "webvtt", {}, names=tuple(names))
        argv = sidecar_command(spec.ffmpeg, chosen[0])
        track = chosen[0].track
        # Places in the pictures that a disc had, which ffmpeg would turn into the middle of the picture.
        text = _COORDINATES.sub(r"\1", text_encoding.decode(content, track.language))

        def give(directory: Path) -> None:
            (directory / SIDECAR_NAMES[track.codec]).write_text(text, encoding="utf-8")

        return self._launch(label, "subtitles", argv, "webvtt", {}, names=tuple(names), give=give)

    def poster(self, picture: PosterPicture) -> Task:
        """Start the run that extracts the poster."""
        spec = self.spec
        argv = command.poster_command(spec.ffmpeg, spec.source, spec.facts, spec.profile, picture)
        return self._launch("poster", "poster", argv, "mjpeg", {})

    def storyboard(self, board: Storyboard) -> Task:
        """Start the run that makes the sprites of a storyboard."""
        argv = command.storyboard_command(self.spec.ffmpeg, (board.width, board.height), board.tiles)
        return self._launch("storyboard", "storyboard", argv, "mjpeg", {}, give=board.copy_key_frames)

    def end(self, task: Task) -> None:
        """Kill a run if it is alive, record its exit status and remove its directory. Idempotent."""
        task.run.kill()
        self.records[task.number] = replace(
            self.records[task.number],
            returncode=task.run.poll(),
            cpu_s=task.run.cpu_s,
            peak_memory=task.run.peak_memory,
        )
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
        names: tuple[str, ...] = (),
        give: Callable[[Path], None] = lambda _: None,
    ) -> Task:
        """Start a run in a new directory, where `give` writes what it reads besides the source."""
        spec, number = self.spec, len(self.records)
        spec.require_output()
        directory = spec.scratch / f"run-{number}"
        try:
            spec.log_dir.mkdir(parents=True, exist_ok=True)
            directory.mkdir()
            for name in stores:
                (directory / name).mkdir()
            give(directory)
        except OSError as error:
            raise from_output_error(error, f"cannot create the directory of the {label} run") from error
        log_path = spec.log_dir / f"{number:02d}-{label}.log"
        # GPUs need devices and services that differ by driver.
        on_gpu = encoder in GPU_ENCODERS or (batch is not None and batch.on_device)
        confined = not on_gpu and can_be_confined(spec.ffmpeg.path)
        run = start(
            argv, directory, log_path, kind != "poster", spec.nice, spec.memory_limit, spec.source, confined
        )
        grid, first = (spec.grid, planned.start) if planned is not None else (None, 0)
        if grid is not None and encoder == COPY:
            grid = grid.of_copy(copied_starts(spec.facts.video))
        to_the_end = planned is None or planned.stop is None
        apart = planned is not None and planned.apart
        outputs = [
            StreamOutput(
                name, directory / name, store, grid, first, to_the_end, self._require_storable, apart=apart
            )
            for name, store in stores.items()
        ]
        segment = spec.grid.segment_of(first)
        at_s = spec.grid.fragment_s(first)
        unseekable = spec.facts.unseekable
        self.records.append(RunRecord(label, run.argv, log_path, encoder, segment, None, unseekable, at_s))
        return Task(kind, run, directory, encoder, outputs, names or tuple(stores), number, batch, planned)

    def root_cause(self, error: TqError) -> TqError:
        """Replace the error of a run if the source has changed or the output cannot be written."""
        probe = self.spec.scratch / _PROBE_NAME
        try:
            self.spec.original.require_same()
            probe.touch()
            probe.unlink()
        except TqError as cause:
            return cause
        except OSError as cause:
            return from_output_error(cause, f"{error.message}; the output cannot be written")
        return error

    def _require_storable(self) -> None:
        """Check that this worker still has the job and neither output folder nor source have changed."""
        self.spec.require_ownership()
        self.spec.require_output()
        self.spec.original.require_same()

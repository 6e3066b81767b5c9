"""Measures VMAF: compares encoded pictures with those of the source, by the filters of the encode.

Both are scaled into 1920×1080, portrait into 1080×1920, whatever size they have: the model was made of what
people see on a screen of that size. So all figures compare. Every fifth picture counts: it takes a third of
the time, and the mean differs by less than 0.1.
"""

from __future__ import annotations

import csv
import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ffmpeg as compiler

from tqstudio.engine.media.encode.values import EncodeSpec, RunRecord
from tqstudio.engine.media.ffmpeg.burn import bitmaps_command
from tqstudio.engine.media.ffmpeg.command import key_times, picture_options, pictures, video_command
from tqstudio.engine.media.ffmpeg.command_line import compile_command, input_options, read_all_streams
from tqstudio.engine.media.ffmpeg.errors import classify_exit, from_output_error
from tqstudio.engine.media.ffmpeg.process import Run, can_be_confined, start
from tqstudio.engine.media.plan.file_names import INIT_NAME, KEY_TIMES_NAME
from tqstudio.engine.media.plan.keys import pixel_format
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.plan.subtitles import burnt_subtitles
from tqstudio.engine.media.plan.video_codecs import GPU_ENCODERS
from tqstudio.errors import ErrorCode, TqError

MODEL = "vmaf_v0.6.1"
_LONG, _SHORT = 1920, 1080
_EVERY = 5
_POLL_S = 0.1

Scores = list[tuple[int, float]]
"""Pictures, counted from the first that was compared, and the VMAF of each."""


def size_of(width: int, height: int) -> str:
    """The size into which pictures of this size are scaled, for people."""
    across, down = (_LONG, _SHORT) if width >= height else (_SHORT, _LONG)
    return f"{across}×{down}"


def model_of(rung: Rung) -> str:
    """The model and the size at which a rung is compared, for people: `v0.6.1 at 1920×1080`."""
    return f"{MODEL.removeprefix('vmaf_')} at {size_of(rung.width, rung.height)}"


class Bench:
    """A folder in which ffmpeg encodes and compares parts of one source.

    Args:
        folder: an empty one, for it alone.
        check: called often while ffmpeg runs; its exceptions kill ffmpeg.
        stall_s: seconds without progress after which ffmpeg is killed.
        ended: called with the record of each run.
    """

    def __init__(
        self,
        spec: EncodeSpec,
        folder: Path,
        check: Callable[[], None],
        stall_s: float,
        ended: Callable[[RunRecord], None] = lambda _: None,
    ) -> None:
        self.spec, self._folder = spec, folder
        self._check, self._stall_s, self._ended = check, stall_s, ended
        self._runs = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            spec.log_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise from_output_error(error, "cannot create a folder to measure in") from error
        if burnt := burnt_subtitles(spec.facts, spec.profile):
            self._run("bitmaps", bitmaps_command(spec.ffmpeg, spec.source, burnt), "copy")

    def probe(
        self, rung: Rung, encoder: str, crfs: Sequence[int], ranges: Iterable[tuple[int, int]]
    ) -> dict[int, float]:
        """Encode ranges of fragments, first and end of each, with several CRFs: CRF → mean VMAF."""
        scores: dict[int, Scores] = {crf: [] for crf in crfs}
        for first, end in ranges:
            made = self.encode(rung, encoder, crfs, first, end)
            for each, some in zip(made, self.compare(made, first, end).values(), strict=True):
                scores[each.crf] += some
        return {crf: mean(some) for crf, some in scores.items()}

    def encode(self, rung: Rung, encoder: str, crfs: Sequence[int], start: int, stop: int) -> list[Rung]:
        """Encode fragments `start` … `stop` − 1 with several CRFs; returns a rung for each, to compare."""
        made = [replace(rung, name=f"crf-{crf}", crf=crf) for crf in crfs]
        for each in made:
            shutil.rmtree(self._folder / each.name, ignore_errors=True)
            (self._folder / each.name).mkdir()
        spec = self.spec
        device = spec.device if encoder in GPU_ENCODERS else None
        what = spec.ffmpeg, spec.source, spec.facts, spec.grid, spec.profile
        argv = video_command(*what, made, encoder, start, stop, device)
        if spec.grid.starts:
            (self._folder / KEY_TIMES_NAME).write_text(key_times(spec.grid, start, stop))
        self._run("probe", argv, encoder)
        for each in made:
            folder = self._folder / each.name
            self.take(each, [folder / INIT_NAME, *sorted(folder.glob("*.m4s"))])
        return made

    def take(self, rung: Rung, files: Iterable[Path]) -> None:
        """Take the initialisation segment and media of a rung, to be compared."""
        try:
            with self._encoded(rung).open("wb") as joined:
                for path in files:
                    with path.open("rb") as part:
                        shutil.copyfileobj(part, joined)
        except OSError as error:
            raise TqError(ErrorCode.OUTPUT_INVALID, f"{rung.name}: {error.strerror}") from error

    def compare(
        self,
        rungs: Sequence[Rung],
        start: int,
        stop: int | None,
        moved: Callable[[int], None] = lambda _: None,
    ) -> dict[str, Scores]:
        """Compare what was taken of these rungs, which is of fragments `start` … `stop` − 1: name → scores.

        Args:
            moved: called with the number of pictures that have been compared so far.
        """
        for rung in rungs:
            self._scores(rung).unlink(missing_ok=True)
        self._run("vmaf", self._command(rungs, start, stop), "libvmaf", moved)
        found = {rung.name: _read(self._scores(rung)) for rung in rungs}
        if empty := [name for name, scores in found.items() if not scores]:
            raise TqError(ErrorCode.OUTPUT_EMPTY, f"no picture of {', '.join(empty)} could be compared")
        return found

    def _encoded(self, rung: Rung) -> Path:
        return self._folder / f"{rung.name}.mp4"

    def _scores(self, rung: Rung) -> Path:
        return self._folder / f"{rung.name}.csv"

    def _command(self, rungs: Sequence[Rung], start: int, stop: int | None) -> list[str]:
        spec = self.spec
        largest = max(rungs, key=lambda rung: rung.pixels)
        form, size = pixel_format(spec.profile, largest), _fitted(largest)
        # With the margin of sources without an index: no seam would show that a key frame comes too late.
        source = pictures(
            *(spec.ffmpeg, spec.facts, spec.grid, spec.profile, largest, start, stop), early=True
        )
        references = _shaped(source, size, form).filter_multi_output("split", len(rungs))
        outputs = []
        for number, rung in enumerate(rungs):
            opened = compiler.input(f"file:{self._encoded(rung).name}", **input_options(0))
            compared = compiler.filter(
                [_shaped(opened["v:0"], size, form), references[number]],
                "libvmaf",
                log_path=self._scores(rung).name,
                log_fmt="csv",
                model=f"version={MODEL}",
                n_threads=max(1, (os.cpu_count() or 1) // len(rungs)),
                n_subsample=_EVERY,
                shortest=1,
            )
            outputs.append(compared.output("-", f="null"))
        before = picture_options(spec.facts, spec.profile)
        argv = compile_command(spec.ffmpeg, spec.source, outputs, progress=True, threads=0, before=before)
        return argv + read_all_streams(spec.facts)

    def _run(
        self, label: str, argv: list[str], encoder: str, moved: Callable[[int], None] = lambda _: None
    ) -> None:
        spec = self.spec
        log_path = spec.log_dir / f"quality-{self._runs:03d}-{label}.log"
        self._runs += 1
        confined = encoder not in GPU_ENCODERS and can_be_confined(spec.ffmpeg.path)
        run = start(argv, self._folder, log_path, True, spec.nice, spec.memory_limit, spec.source, confined)
        try:
            status = self._watch(run, moved)
        finally:
            run.kill()
            self._ended(RunRecord(label, run.argv, log_path, encoder, 0, run.poll(), cpu_s=run.cpu_s))
        if status:
            raise classify_exit(status, run.log_tail())

    def _watch(self, run: Run, moved: Callable[[int], None]) -> int:
        seen, since = (0, 0), time.monotonic()
        while (status := run.poll()) is None:
            self._check()
            now = run.progress.frame or 0, run.bytes_read
            if now != seen:
                seen, since = now, time.monotonic()
                moved(now[0])
            elif time.monotonic() - since > self._stall_s:
                raise TqError(ErrorCode.STALLED, f"ffmpeg made no progress for {self._stall_s:g} s")
            time.sleep(_POLL_S)
        return status


def mean(scores: Iterable[tuple[int, float]]) -> float:
    """The mean of scores, of which there are some."""
    values = [vmaf for _, vmaf in scores]
    return sum(values) / len(values)


def _fitted(rung: Rung) -> tuple[int, int]:
    """The largest size of the shape of a rung, both sides even, within that of the model."""
    across, down = (_LONG, _SHORT) if rung.width >= rung.height else (_SHORT, _LONG)
    scale = min(across / rung.width, down / rung.height)
    return tuple(max(16, round(side * scale / 2) * 2) for side in (rung.width, rung.height))  # type: ignore[return-value]


def _shaped(stream: Any, size: tuple[int, int], form: str) -> Any:
    """Pictures of one size and format, numbered from 0 as their times."""
    stream = stream.filter("scale", *size, flags="bicubic").filter("format", form)
    return stream.filter("settb", "1/1000").filter("setpts", "N")


def _read(path: Path) -> Scores:
    try:
        with path.open(newline="") as file:
            return [(int(row["Frame"]), float(row["vmaf"])) for row in csv.DictReader(file) if row["vmaf"]]
    except (OSError, KeyError, ValueError) as error:
        raise TqError(ErrorCode.OUTPUT_INVALID, f"the figures of libvmaf cannot be read: {error}") from error

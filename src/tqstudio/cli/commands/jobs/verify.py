"""`verify`: checks published ladders. Works locally, without a supervisor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tqstudio import path_checks, units
from tqstudio.cli.terminal import options, printing
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import current_home
from tqstudio.ladder_files import MASTER_NAME
from tqstudio.paths import absolute, data, display, encode, is_bucket, readable
from tqstudio.words import format as fmt

if TYPE_CHECKING:
    from tqstudio.engine.media.check.ladder import Finding, LadderReport


def verify(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="A ladder's folder, its master playlist, a folder of ladders, or s3://BUCKET/PREFIX.",
            show_default=False,
        ),
    ],
    full: Annotated[
        bool,
        typer.Option("--full", help="Also compare every byte with the published digests."),
    ] = False,
    as_json: options.JsonFlag = False,
) -> int:
    """Check published ladders: their playlists, every segment of every quality, and Apple's rules for HLS.

    Nothing is decoded. Of s3://BUCKET/PREFIX the local copies are checked, then whether the bucket has the
    same files. Exits with 1 if anything is damaged, or a rule that must be kept is not.
    """
    masters = {master: is_bucket(path) for path in paths for master in _masters(path)}
    from tqstudio.engine.media.check.ladder import verify_ladder

    reports = []
    for master, in_bucket in masters.items():
        report = verify_ladder(master, every_byte=full)
        if in_bucket and report.error is None:
            try:
                error = _of_bucket(master, full)
            except TqError as unreachable:
                error = unreachable
            report = replace(report, error=error)
        reports.append(report)
        if not as_json:
            _print(report, full, in_bucket)
    ok = all(report.ok for report in reports)
    if as_json:
        printing.out_json({"ok": ok, "ladders": [_view(report) for report in reports]})
    elif len(reports) > 1:
        broken = sum(not report.ok for report in reports)
        printing.out(f"{fmt.counted(len(reports), 'ladder')}: {broken or 'none'} damaged")
    return 0 if ok else 1


def _of_bucket(master: Path, full: bool) -> TqError | None:
    """What the bucket lacks of the ladder with this local master playlist.

    Raises:
        TqError: the bucket does not answer, or refuses access.
    """
    from tqstudio.engine.outputs import Place
    from tqstudio.wings.buckets.bucket import Bucket
    from tqstudio.wings.buckets.comparison import differences

    home, folder = current_home(), master.parent
    url = home.bucket_url(os.fsencode(folder))
    place = Place.below(os.fsencode(folder.parent), folder.name)
    assert url is not None, "its folder is below that of all local copies"
    try:
        wrong = asyncio.run(differences(Bucket(home, url), place, every_byte=full))
    except OSError as error:
        raise TqError(ErrorCode.IO_ERROR, f"{error.filename}: {error.strerror}") from None
    if not wrong:
        return None
    more = f" and {fmt.counted(len(wrong) - 1, 'more file')}" if wrong[1:] else ""
    return TqError(
        ErrorCode.OUTPUT_INVALID,
        f"{readable(url)} lacks {wrong[0]}{more}, or has others by these names",
        "if nothing of it is being uploaded (tqstudio status), upload it again: tqstudio video upload ID",
    )


def _masters(path: str) -> Iterator[Path]:
    given = current_home().bucket_copy(path) if is_bucket(path) else Path(absolute(path))
    if not path_checks.is_folder(given):
        yield given
        return
    if path_checks.is_there(given / MASTER_NAME):
        yield given / MASTER_NAME
        return
    found = list(_below(given))
    if not found:
        raise TqError(
            ErrorCode.SOURCE_MISSING,
            f"there is no ladder in {display(os.fsencode(given))}",
            f"name a folder that contains a {MASTER_NAME}, or one above such folders",
        )
    yield from found


def _below(folder: Path) -> Iterator[Path]:
    """The master playlists in sub-folders, at the depth of any output template; closed ones are reported."""
    for entry in sorted(entry for entry in folder.iterdir() if entry.name[0] != "." and entry.is_dir()):
        try:
            if path_checks.is_there(entry / MASTER_NAME):
                yield entry / MASTER_NAME
            elif not entry.is_symlink():
                yield from _below(entry)
        except (PermissionError, TqError) as error:
            # Such as `lost+found` where the output is a volume of its own.
            why = error.message if isinstance(error, TqError) else f"{entry}: {error.strerror}"
            printing.err(f"not checked: {why}")


def _print(report: LadderReport, full: bool, in_bucket: bool) -> None:
    verdict = printing.painted("ok  " if report.ok else "FAIL", "done" if report.ok else "failed")
    printing.out(f"{verdict}  {display(os.fsencode(report.master))}")
    if report.bucket:
        checked = "" if in_bucket else ": not checked"
        printing.out(f"      its segments are in {readable(report.bucket)} only{checked}")
    if report.first_only:
        printing.out("      first quality only: the job of the others has not ended")
    for finding in report.findings:
        if finding.error is None:
            printing.out(f"      {finding.name:10} {_about(finding)}{_compared(finding) if full else ''}")
        else:
            _print_error(f"{finding.name:10} ", finding.error)
    if report.error is not None:
        _print_error("", report.error)
    for result in report.rules:
        if result.outcome == "warn":
            printing.out(f"      Apple {result.number}, not kept: {result.text}")


def _compared(finding: Finding) -> str:
    if finding.compared:
        return ", every byte as published"
    return ", published before digests were stored: bytes not compared"


def _print_error(of: str, error: TqError) -> None:
    printing.out(printing.painted(f"      {of}{error.code}: {error.message}", "failed"))
    printing.out(f"      {printing.ARROW} {error.hint}")


def _about(finding: Finding) -> str:
    check = finding.check
    assert check is not None
    size = sum(segment.size for segment in check.segments)
    parts = [
        f"{check.width}×{check.height}" if finding.kind == "video" else finding.kind,
        fmt.counted(len(check.segments), "segment"),
        fmt.clock_duration(check.duration_s),
        units.size(size),
    ]
    return ", ".join(parts)


def _view(report: LadderReport) -> dict[str, Any]:
    return {
        "master": data(report.master),
        "master_b64": encode(report.master),
        "ok": report.ok,
        "bucket": report.bucket or None,
        "first_only": report.first_only,
        "error": _error(report.error),
        "renditions": [_rendition(finding) for finding in report.findings],
        "rules": [asdict(result) for result in report.rules],
    }


def _rendition(finding: Finding) -> dict[str, Any]:
    check = finding.check
    return {
        "name": finding.name,
        "kind": finding.kind,
        "ok": finding.error is None,
        "every_byte_compared": finding.compared,
        "width": check.width or None if check else None,
        "height": check.height or None if check else None,
        "codecs": check.codecs if check else None,
        "segments": len(check.segments) if check else None,
        "frames": check.frames if check else None,
        "duration_s": round(check.duration_s, 6) if check else None,
        "size": sum(segment.size for segment in check.segments) if check else None,
        "error": _error(finding.error),
    }


def _error(error: TqError | None) -> dict[str, str] | None:
    if error is None:
        return None
    return {"code": str(error.code), "message": error.message, "hint": error.hint}

"""`python -m benchmarks`: run them and print the figures."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from benchmarks import machine, report
from benchmarks.options import QUICK, Options
from benchmarks.report import Section

# Name → what it measures. Each is a module with `measure`.
NAMES = {
    "commands": "how long commands take to start",
    "footprint": "memory and processor of what idles, and the first picture of the terminal UI",
    "reactions": "file to ffmpeg, cancel, a killed worker, down while the UI looks on",
    "folders": "a burst of files in a drop folder, and a hundred idle folders",
    "recovery": "killed workers, media made again, scans of a million jobs",
    "upgrade": "opening homes of earlier releases",
    "claims": "claims in the store and through the API",
    "pages": "pages of a list of a million jobs",
    "postgresql": "pages and claims of a queue on PostgreSQL",
    "wakeup": "how soon a waiting worker has a job",
    "standby": "how soon another supervisor takes over",
    "network": "the TCP listener at rest and for each call, tokens",
    "scrape": "metrics of a million jobs",
    "statistics": "sums of a million attempts",
    "hashes": "the hashes of a source's bytes",
    "uploads": "a file to a studio of another machine",
    "service": "calls of a worker on another machine, one by one",
    "remote": "a worker on another machine",
    "division": "one video on two workers",
    "remote_division": "one video on several other machines",
    "encoders": "AV1 by hand, tone mapping, confinement",
    "rules": "Apple's rules on the playlists of two hours",
    "files": "files of the whole video, beside a job without",
    "source_rates": "bytes of qualities against those of their sources",
    "copying": "a ladder whose largest quality is a copy, against one that is encoded",
    "first_picture": "from a wheel and an empty home to a picture that moves in a browser",
    "first_quality": "one quality before the others, against all at once",
    "quality": "the quality that was asked for, and its bytes against one CRF for all",
    "ladder": "a whole job against hand-written ffmpeg commands",
}


def main() -> int:
    """Measure what was asked for. A missed floor is a figure; only a benchmark that breaks is a failure."""
    arguments = _parser().parse_args()
    options = _options(arguments)
    names = arguments.only or list(NAMES)
    sections: list[Section] = []
    broken = []
    with tempfile.TemporaryDirectory(prefix="tqstudio-bench-", dir=arguments.dir) as folder:
        root = Path(folder)
        header = machine.lines(root)
        print("\n".join(header), flush=True)
        for name in names:
            began = time.monotonic()
            print(f"… {name}: {NAMES[name]}", file=sys.stderr, flush=True)
            measure: Callable[[Options, Path], Section] = import_module(f"benchmarks.{name}").measure
            try:
                with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=root) as work:
                    sections.append(measure(options, Path(work)))
            except Exception:
                broken.append(name)
                traceback.print_exc()
                continue
            print(f"\n{report.plain(sections[-1])}", flush=True)
            print(f"… {name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(f"\n{_verdict(sections, broken)}")
    if arguments.markdown:
        print("\n" + "  \n".join(header) + "\n\n" + report.markdown(sections))
    return 1 if broken else 0


def _verdict(sections: list[Section], broken: list[str]) -> str:
    rows = [row for section in sections for row in section.rows if row.floor is not None]
    short = [row.what for row in rows if row.verdict == "short"]
    lines = [f"{len(rows) - len(short)} of {len(rows)} floors are met"]
    lines += [f"  SHORT   {what}" for what in short] + [f"  BROKEN  {name}" for name in broken]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure what tqstudio claims about speed. Leave the machine alone meanwhile.",
        epilog="\n".join(f"{name:10} {about}" for name, about in NAMES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", action="append", choices=NAMES, help="only this; repeatable")
    parser.add_argument("--quick", action="store_true", help="a minute, to see that everything runs")
    parser.add_argument("--markdown", action="store_true", help="print the table for docs/benchmarks.md too")
    parser.add_argument("--dir", metavar="DIR", help="the disk to measure on; the temporary folder otherwise")
    parser.add_argument("--rounds", type=int, help="of everything that takes long")
    parser.add_argument("--clip-seconds", type=int, dest="clip_s", metavar="S", help="length of the clip")
    parser.add_argument("--jobs", type=int, metavar="N", help="in the table, for the claims (100000)")
    parser.add_argument("--burst", type=int, metavar="N", help="files, for the drop folder (10000)")
    parser.add_argument("--list-jobs", type=int, metavar="N", help="in the table, for the list (1000000)")
    return parser


def _options(arguments: argparse.Namespace) -> Options:
    options = QUICK if arguments.quick else Options()
    given = {key: getattr(arguments, key) for key in ("rounds", "clip_s", "jobs", "burst", "list_jobs")}
    return replace(options, **{key: value for key, value in given.items() if value})


if __name__ == "__main__":
    # Settings of the user who runs this are no part of what is measured.
    for variable in [
        name for name in os.environ if name.startswith("TQSTUDIO_") and name != "TQSTUDIO_FFMPEG"
    ]:
        del os.environ[variable]
    sys.exit(main())

"""How long this version takes to open a home of an earlier release: its database is copied and migrated."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from benchmarks.options import Options
from benchmarks.report import Section, at_most
from benchmarks.studio import studio

_TESTS = Path(__file__).resolve().parents[1] / "tests"


def measure(options: Options, root: Path) -> Section:
    if str(_TESTS) not in sys.path:
        sys.path.append(str(_TESTS))
    from releases import kept_home

    section = Section("Homes of earlier releases", f"with jobs of every status; {options.rounds} rounds")
    for archive in kept_home.ARCHIVES:
        taken = []
        for number in range(options.rounds):
            place = root / f"{archive.name}-{number}"
            kept_home.unpack(archive, place)
            began = time.perf_counter()
            with studio(place / "home"):
                taken.append(time.perf_counter() - began)
        release = archive.name.removeprefix("home-").removesuffix(".tar.xz")
        section.add(f"that of {release} → it answers", taken, "s", at_most(5))
    return section

"""`make mutants`: exit status 1 when a mutant survives that is not listed as equivalent."""

from __future__ import annotations

import argparse
import sys

import pytest

from .gate import Gate

_TESTS = ["tests/store"]
_OPTIONS = [
    *("-qq", "--strict-markers", "-s"),
    *("-p", "no:cacheprovider", "-p", "no:xdist"),
    # A mutant is one of a statement of SQLite; the driver of PostgreSQL is not recorded.
    *("-k", "not postgresql and not differential and not copying"),
    *("-o", "addopts=", "-o", "tmp_path_retention_policy=failed"),
]


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--only", default="", help="functions to look at: claims, or claims.claim")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="say which test noticed which mutant")
    parser.add_argument("tests", nargs="*", default=_TESTS)
    chosen = parser.parse_args()
    gate = Gate(chosen.jobs, chosen.only, verbose=chosen.verbose)
    return int(pytest.main([*_OPTIONS, *chosen.tests], plugins=[gate]))


if __name__ == "__main__":
    sys.exit(main())

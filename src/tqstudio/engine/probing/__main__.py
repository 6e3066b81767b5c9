"""Entry point of the probe process, started by the supervisor."""

from __future__ import annotations

import sys

from tqstudio.engine.probing.program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

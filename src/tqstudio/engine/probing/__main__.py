"""`python -m tqstudio.engine.probing`: what the supervisor starts to look at files."""

from __future__ import annotations

import sys

from tqstudio.engine.probing.program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

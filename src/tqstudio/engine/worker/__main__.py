"""`python -m tqstudio.engine.worker`: what the supervisor's pool starts."""

from __future__ import annotations

import sys

from tqstudio.engine.worker.program import main

if __name__ == "__main__":
    sys.exit(main())

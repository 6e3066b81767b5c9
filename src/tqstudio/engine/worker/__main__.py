"""`python -m tqstudio.engine.worker`: what the supervisor's pool starts."""

from __future__ import annotations

import sys

from tqstudio import garbage

if __name__ == "__main__":
    garbage.look_seldom()
    from tqstudio.engine.worker.program import main

    sys.exit(main())

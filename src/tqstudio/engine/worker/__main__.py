"""Entry point of worker processes, started by the supervisor's worker pool."""

from __future__ import annotations

import sys

from tqstudio import gc_tuning

if __name__ == "__main__":
    gc_tuning.raise_threshold()
    from tqstudio.engine.worker.program import main

    sys.exit(main())

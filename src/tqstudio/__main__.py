"""`python -m tqstudio` is the command `tqstudio`."""

import sys

from tqstudio.cli import main

if __name__ == "__main__":
    sys.exit(main())

"""`python -m tqstudio` is the command `tqstudio`."""

from tqstudio.cli import run_and_exit

if __name__ == "__main__":
    run_and_exit()
